//! The package's files as a .deb and as an archive.

use crate::command::Tool;
use crate::progress;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const NEEDS: &str = "Install dpkg-dev's and Debian's own tools: dpkg, tar, gzip.";

/// Time stamp of every file, so that the same input makes the same package: 2020-01-01.
const EPOCH: &str = "1577836800";

/// A Debian package of the files below `root`.
pub(super) fn deb(root: &Path, version: &str, out: &Path) -> Result<PathBuf> {
    let control = root.join("DEBIAN");
    fs::create_dir_all(&control)?;
    let kib = files(root)?.iter().map(|(_, size)| size.div_ceil(1024)).sum::<u64>();
    let text = format!(
        "Package: memslot\nVersion: {version}\nArchitecture: amd64\nSection: utils\nPriority: optional\n\
         Maintainer: the memslot authors <memslot@localhost>\nInstalled-Size: {kib}\n\
         Description: measures memory-slot look-ups, PLE exits and vhost translations\n \
         Measures on a live KVM host, by eBPF and without changing the kernel, what memory-slot\n look-ups, PLE exits and \
         vhost address translations cost; replays them through other\n data structures, and compares kernels.\n"
    );
    fs::write(control.join("control"), text)?;
    fs::write(control.join("conffiles"), "/etc/default/memslot\n")?;
    let mut sums = String::new();
    for (path, _) in files(root)? {
        let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
        if !name.starts_with("DEBIAN/") {
            let sum = Tool::new("md5sum").arg("--").arg(&path).remedy(NEEDS).text()?;
            let sum = sum.split_whitespace().next().context("md5sum printed nothing")?.to_owned();
            let _ = writeln!(sums, "{sum}  {name}");
        }
    }
    fs::write(control.join("md5sums"), sums)?;
    let path = out.join(format!("memslot_{version}_amd64.deb"));
    let pack = Tool::new("dpkg-deb")
        .env("SOURCE_DATE_EPOCH", EPOCH)
        .args(["--root-owner-group", "-Zgzip", "--build"])
        .args([root, &path])
        .remedy(NEEDS);
    progress::step("packing the .deb", || pack.output())?;
    fs::remove_dir_all(&control)?;
    Ok(path)
}

/// An archive of the same files, to be unpacked at the root of a host that has no dpkg.
pub(super) fn archive(root: &Path, version: &str, out: &Path) -> Result<PathBuf> {
    let path = out.join(format!("memslot-{version}-x86_64.tar.gz"));
    let pack = Tool::new("tar")
        .args(["--create", "--gzip", "--sort=name", "--owner=root:0", "--group=root:0", "--numeric-owner"])
        .arg(format!("--mtime=@{EPOCH}"))
        .arg("--directory")
        .arg(root)
        .arg("--file")
        .arg(&path)
        .arg(".")
        .remedy(NEEDS);
    progress::step("packing the .tar.gz", || pack.output())?;
    Ok(path)
}

/// Every file below a folder with its size, in order.
fn files(folder: &Path) -> Result<Vec<(PathBuf, u64)>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else {
                found.push((entry.path(), entry.metadata()?.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}
