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
    // A branch's commits change its log; neither file is there in a source archive.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && Path::new(&path).is_file()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let version = env!("CARGO_PKG_VERSION");
    match git(&["rev-parse", "--short=12", "HEAD"]) {
        None => println!("cargo::rustc-env=MEMSLOT_VERSION={version}"),
        Some(revision) => println!("cargo::rustc-env=MEMSLOT_VERSION={version} ({revision})"),
    }
}

/// What git says, where there is git and a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
