//! Fetches what it takes to build modules for the lab's kernels: headers, and the source of KVM and vhost, of the very
//! version that the lab boots. Nothing is installed.

use super::{apt, kernel};
use crate::command::Tool;
use crate::lab::{Series, vmlinux};
use crate::{paths, scratch};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// What of the kernel's source is kept: the directories that `cargo xtask module` can build, and what they include.
const KEPT: [&str; 3] = ["arch/x86/kvm", "virt", "drivers/vhost"];

/// Programs that build a module, with the packages that have them. The headers name `gcc-12` themselves.
pub(super) const PROGRAMS: [&str; 4] = ["make", "gcc-12", "pahole", "patch"];

/// The packages of [`PROGRAMS`]; `libelf1` is what objtool and modpost run on.
pub(super) const PACKAGES: &[&str] = &["make", "gcc-12", "pahole", "patch", "libelf1"];

/// Where the headers of a series are unpacked.
pub(crate) fn headers_directory(series: Series) -> PathBuf {
    paths::lab().join("headers").join(series.name())
}

/// Where the kept part of the source of a series is unpacked.
pub(crate) fn source_directory(series: Series) -> PathBuf {
    paths::lab().join("source").join(series.name())
}

/// The kernel that the lab boots, as its image says itself.
struct Identity {
    /// `6.1.0-57-cloud-amd64`
    release: String,
    /// `6.1.192-3`, the packages' version.
    version: String,
}

impl Identity {
    fn of(series: Series) -> Result<Self> {
        let located = crate::lab::KernelChoice::from(series).locate()?;
        let banner = vmlinux::banner(&located.image)?;
        Self::parse(&banner).with_context(|| {
            format!("{} says \"{banner}\", which names no Debian version", located.image.display())
        })
    }

    /// From `6.1.0-57-cloud-amd64 (…) #1 SMP PREEMPT_DYNAMIC Debian 6.1.192-3 (2026-11-26)`.
    fn parse(banner: &str) -> Option<Self> {
        let release = banner.split_whitespace().next()?.to_owned();
        let version = banner.split_once(" Debian ")?.1.split_whitespace().next()?.to_owned();
        Some(Self { release, version })
    }
}

/// Whether the headers are there and belong to the kernel.
pub(super) fn check_headers(series: Series) -> Result<String, String> {
    check(series, &headers_directory(series))
}

/// Whether the source is there and belongs to the kernel.
pub(super) fn check_source(series: Series) -> Result<String, String> {
    check(series, &source_directory(series))
}

fn check(series: Series, directory: &Path) -> Result<String, String> {
    let what = kernel::check_directory(directory)?;
    match Identity::of(series) {
        Ok(identity) if what.ends_with(&format!(" {}", identity.version)) => Ok(what),
        Ok(identity) => Err(format!("it is {what}, but the kernel is {}", identity.version)),
        Err(_) => Err(format!("there is no {} kernel yet that it could belong to", series.name())),
    }
}

/// Downloads and unpacks the headers with their build tools, in place of whatever was there.
///
/// # Errors
/// When the archive no longer has this version, or a command fails.
pub(super) fn fetch_headers(series: Series) -> Result<()> {
    let identity = Identity::of(series)?;
    let headers = format!("linux-headers-{}", identity.release);
    let partial = scratch::directory(&paths::lab().join("partial"))?;
    let depends = download(series, &identity, &headers, partial.path())?;
    for package in companions(&depends) {
        download(series, &identity, &package, partial.path())?;
    }
    let root = partial.path().join("root");
    kernel::extract(partial.path(), &root)?;
    let build = root.join("usr/src").join(&headers);
    relocate(&build.join("Makefile"))?;
    // A module's BTF is the difference to the kernel's own; not all headers bring the latter.
    let vmlinux = build.join("vmlinux");
    if !vmlinux.is_file() {
        let image = crate::lab::KernelChoice::from(series).locate()?.image;
        fs::write(&vmlinux, vmlinux::extract(&image)?)
            .with_context(|| format!("cannot write {}", vmlinux.display()))?;
    }
    fs::write(root.join("version"), &identity.version).context("cannot write the headers' version")?;
    kernel::write_stamp(&format!("{headers} {}", identity.version), &root, None)?;
    place(&root, &headers_directory(series))
}

/// Downloads the source and keeps the part that modules are built from.
///
/// # Errors
/// When the archive no longer has this version, or a command fails.
pub(super) fn fetch_source(series: Series) -> Result<()> {
    let identity = Identity::of(series)?;
    let name = format!("linux-source-{}", series.name());
    let partial = scratch::directory(&paths::lab().join("partial"))?;
    download(series, &identity, &name, partial.path())?;
    let unpacked = partial.path().join("package");
    kernel::extract(partial.path(), &unpacked)?;
    let root = partial.path().join("root");
    fs::create_dir_all(&root)?;
    Tool::new("tar")
        .args(["--extract", "--xz", "--strip-components=1", "--file"])
        .arg(unpacked.join("usr/src").join(format!("{name}.tar.xz")))
        .arg("--directory")
        .arg(&root)
        .args(KEPT.map(|directory| format!("{name}/{directory}")))
        .output()?;
    kernel::write_stamp(&format!("{name} {}", identity.version), &root, None)?;
    place(&root, &source_directory(series))
}

/// Downloads one package of the kernel's version; what it depends on comes back.
fn download(series: Series, identity: &Identity, package: &str, directory: &Path) -> Result<String> {
    let exact = format!("{package}={}", identity.version);
    let depends = Tool::new("apt-cache").args(["show", &exact]).text().unwrap_or_default();
    if depends.is_empty() {
        let offered = Tool::new("apt-cache").args(["madison", package]).text().unwrap_or_default();
        let offered: Vec<&str> =
            offered.lines().filter_map(|line| line.split('|').nth(1)).map(str::trim).collect();
        bail!(
            "the lab's {} kernel is {} ({}), and the archive has {package} of that version no longer ({}); modules must \
             be built for the very kernel that is booted. Remove {} and run `cargo xtask setup`: it fetches the newest \
             kernel, whose headers and source are there",
            series.name(),
            identity.version,
            identity.release,
            if offered.is_empty() {
                "it has none".to_owned()
            } else {
                format!("it has {}", offered.join(", "))
            },
            series.directory().display()
        );
    }
    apt::download(&exact, directory)?;
    Ok(depends.lines().find_map(|line| line.strip_prefix("Depends:")).unwrap_or_default().to_owned())
}

/// The kernel's own packages among those that the headers depend on: the common headers and the build tools.
fn companions(depends: &str) -> Vec<String> {
    depends
        .split([',', '|'])
        .filter_map(|dependency| dependency.split_whitespace().next())
        .filter(|name| name.starts_with("linux-headers-") || name.starts_with("linux-kbuild-"))
        .map(str::to_owned)
        .collect()
}

/// The headers' Makefile includes that of the common headers by the path of their installation.
fn relocate(makefile: &Path) -> Result<()> {
    let text = fs::read_to_string(makefile).with_context(|| format!("cannot read {}", makefile.display()))?;
    let here = "include $(dir $(lastword $(MAKEFILE_LIST)))../";
    let relocated = text.replace("include /usr/src/", here);
    ensure!(relocated != text, "{} is not of the form that was expected: {text}", makefile.display());
    fs::write(makefile, relocated).with_context(|| format!("cannot write {}", makefile.display()))
}

fn place(root: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    kernel::replace(root, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_names_its_packages() {
        let banner = "6.12.117+deb12-amd64 (debian-kernel@lists.debian.org) #1 SMP PREEMPT_DYNAMIC Debian \
                      6.12.117-1~deb12u1 (2026-11-14)";
        let identity = Identity::parse(banner).unwrap();
        assert_eq!(identity.release, "6.12.117+deb12-amd64");
        assert_eq!(identity.version, "6.12.117-1~deb12u1");
        assert!(Identity::parse("6.12.1 (me@here) #1 SMP Mon").is_none());
    }

    #[test]
    fn the_headers_companions_are_the_kernels_own_packages() {
        let old = " linux-headers-6.1.0-57-common (= 6.1.192-3), linux-kbuild-6.1 (>= 6.1.192-3), linux-compiler-gcc-12-x86";
        assert_eq!(companions(old), ["linux-headers-6.1.0-57-common", "linux-kbuild-6.1"]);
        let new = " linux-base (>= 4.12~), linux-headers-6.12.1+deb12-common (= 6.12.1-1), linux-image-6.12.1 (= 6.12.1-1) | \
                   linux-image-6.12.1-unsigned, linux-kbuild-6.12.1+deb12, gcc-12";
        assert_eq!(companions(new), ["linux-headers-6.12.1+deb12-common", "linux-kbuild-6.12.1+deb12"]);
    }

    #[test]
    fn the_headers_makefile_is_found_where_it_was_unpacked() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "include /usr/src/linux-headers-6.1.0-57-common/Makefile\n").unwrap();
        relocate(file.path()).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        assert_eq!(
            text,
            "include $(dir $(lastword $(MAKEFILE_LIST)))../linux-headers-6.1.0-57-common/Makefile\n"
        );
        assert!(relocate(file.path()).is_err());
    }
}
