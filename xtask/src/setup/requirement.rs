//! The table of what building and the lab need, how each piece is checked and where it comes from.

use super::{fleet, kernel, linker, peers, sources, toolchain};
use crate::command::{Tool, find_program};
use crate::lab::{Series, is_static};
use std::path::Path;

/// Where a missing piece comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Packages of the distribution, installed.
    Packages(&'static [&'static str]),
    /// rustup; these packages of the distribution where rustup cannot.
    RustupOr(&'static [&'static str]),
    /// `cargo install` into the workspace's target directory.
    CargoInstall,
    /// A kernel's package, unpacked into the workspace's target directory.
    Kernel(Series),
    /// The headers and build tools of a fetched kernel, unpacked likewise.
    Headers(Series),
    /// The part of a fetched kernel's source that modules are built from, unpacked likewise.
    KernelCode(Series),
    /// perf and bpftrace, unpacked into the workspace's target directory.
    Peers,
    /// Prometheus, unpacked likewise.
    Prometheus,
    /// Packages of Python, in a virtual environment there.
    Python,
}

/// Something that must be there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requirement {
    /// What it is and what for.
    pub(crate) name: &'static str,
    /// What is there, or what is wrong.
    pub(crate) check: fn() -> Result<String, String>,
    /// How it is got.
    pub(crate) source: Source,
}

/// Everything, in the order in which it is got.
pub(crate) const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        name: "a Rust toolchain that builds for BPF",
        check: || toolchain::find().map(|toolchain| toolchain.name),
        source: Source::RustupOr(toolchain::PACKAGES),
    },
    Requirement {
        name: "a C compiler with the static C library, to link with",
        check: c_compiler,
        source: Source::Packages(&["gcc", "libc6-dev"]),
    },
    Requirement {
        name: "LLVM, to build bpf-linker with",
        check: linker::find_llvm,
        source: Source::Packages(linker::PACKAGES),
    },
    Requirement {
        name: "QEMU, to boot the lab's kernels",
        check: || runs(crate::lab::QEMU, &["--version"]),
        source: Source::Packages(&["qemu-system-x86"]),
    },
    Requirement {
        name: "a static busybox, for the lab's guests",
        check: static_busybox,
        source: Source::Packages(&["busybox-static"]),
    },
    Requirement {
        name: "depmod, to index a kernel's modules",
        check: || runs("depmod", &["--version"]),
        source: Source::Packages(&["kmod"]),
    },
    Requirement {
        name: "xz, to unpack a kernel's modules",
        check: || runs("xz", &["--version"]),
        source: Source::Packages(&["xz-utils"]),
    },
    Requirement {
        name: "bpf-linker",
        check: || linker::find().map(|path| path.display().to_string()),
        source: Source::CargoInstall,
    },
    Requirement {
        name: "a kernel of the 6.1 series",
        check: || kernel::check(Series::V6_1),
        source: Source::Kernel(Series::V6_1),
    },
    Requirement {
        name: "a kernel of the 6.12 series",
        check: || kernel::check(Series::V6_12),
        source: Source::Kernel(Series::V6_12),
    },
];

/// What building modules for the lab's kernels takes besides; got only when a command needs it.
pub(crate) const FOR_MODULES: &[Requirement] = &[
    Requirement {
        name: "make, gcc-12, pahole and patch, to build modules with",
        check: module_tools,
        source: Source::Packages(sources::PACKAGES),
    },
    Requirement {
        name: "headers of the 6.1 kernel",
        check: || sources::check_headers(Series::V6_1),
        source: Source::Headers(Series::V6_1),
    },
    Requirement {
        name: "headers of the 6.12 kernel",
        check: || sources::check_headers(Series::V6_12),
        source: Source::Headers(Series::V6_12),
    },
    Requirement {
        name: "source of the 6.1 kernel's KVM and vhost",
        check: || sources::check_source(Series::V6_1),
        source: Source::KernelCode(Series::V6_1),
    },
    Requirement {
        name: "source of the 6.12 kernel's KVM and vhost",
        check: || sources::check_source(Series::V6_12),
        source: Source::KernelCode(Series::V6_12),
    },
];

fn module_tools() -> Result<String, String> {
    let found = sources::PROGRAMS
        .map(|program| runs(program, &["--version"]).map_err(|why| format!("{program} {why}")));
    let missing: Vec<&str> =
        found.iter().filter_map(|found| found.as_deref().err()).map(AsRef::as_ref).collect();
    if missing.is_empty() { runs("gcc-12", &["--version"]) } else { Err(missing.join(", ")) }
}

/// What the tests of reports need on top.
pub(crate) const BROWSER: &[Requirement] = &[Requirement {
    name: "Chromium, to look at reports",
    check: || runs("chromium", &["--version"]),
    source: Source::Packages(&["chromium"]),
}];

/// What a comparison with other tools needs on top.
pub(crate) const PEERS: &[Requirement] = &[Requirement {
    name: "perf and bpftrace, to compare with in the lab",
    check: peers::check,
    source: Source::Peers,
}];

/// What reads the figures of a fleet; got only for the tests of what is exported and served.
pub(crate) const FLEET: &[Requirement] = &[
    Requirement {
        name: "Prometheus, to scrape what is served",
        check: fleet::check_prometheus,
        source: Source::Prometheus,
    },
    Requirement {
        name: "a Python that makes virtual environments",
        check: fleet::check_venv,
        source: Source::Packages(fleet::PYTHON_PACKAGES),
    },
    Requirement {
        name: "DuckDB, polars and pyarrow, to read what is exported",
        check: fleet::check_python,
        source: Source::Python,
    },
];

/// Runs a program and takes the first line that it prints.
fn runs(program: &str, arguments: &[&str]) -> Result<String, String> {
    let path = find_program(program).ok_or_else(|| "not installed".to_owned())?;
    let printed =
        Tool::new(&path).args(arguments).text().map_err(|_| format!("{} does not run", path.display()))?;
    Ok(printed.lines().next().unwrap_or_default().to_owned())
}

fn c_compiler() -> Result<String, String> {
    let version = runs("cc", &["--version"])?;
    // The compiler repeats the bare name of a file that it does not have.
    let library = runs("cc", &["-print-file-name=libc.a"])?;
    if Path::new(&library).is_absolute() { Ok(version) } else { Err("libc.a is not installed".to_owned()) }
}

fn static_busybox() -> Result<String, String> {
    let path = find_program("busybox").ok_or_else(|| "not installed".to_owned())?;
    let bytes =
        std::fs::read(&path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    if !is_static(&bytes) {
        return Err(format!("{} needs shared libraries", path.display()));
    }
    runs("busybox", &[])
}
