//! Embeds the probes' object, where the builder names it, and the revision.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(memslot_probes)");
    println!("cargo::rerun-if-env-changed=MEMSLOT_EBPF_OBJECT");
    if let Ok(object) = env::var("MEMSLOT_EBPF_OBJECT") {
        assert!(Path::new(&object).is_file(), "MEMSLOT_EBPF_OBJECT names no file: {object}");
        println!("cargo::rerun-if-changed={object}");
        println!("cargo::rustc-cfg=memslot_probes");
    }
    println!("cargo::rerun-if-changed=../.git/HEAD");
    let revision = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok();
    let revision = revision.filter(|output| output.status.success()).map(|output| output.stdout);
    let revision = revision.and_then(|text| String::from_utf8(text).ok()).unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    match revision.trim() {
        "" => println!("cargo::rustc-env=MEMSLOT_VERSION={version}"),
        revision => println!("cargo::rustc-env=MEMSLOT_VERSION={version} ({revision})"),
    }
}
