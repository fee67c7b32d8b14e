//! Fetches a Debian kernel and unpacks it for the lab; nothing is installed.

use super::{apt, version};
use crate::command::Tool;
use crate::lab::{self, Series};
use crate::{paths, scratch};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The list of what an unpacked kernel consists of, written last.
const STAMP: &str = "unpacked.json";

/// What was unpacked, to notice when something is missing or cut off.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    package: String,
    /// Path to size in bytes.
    files: BTreeMap<String, u64>,
    /// Path to checksum, of the kernel image alone: reading all modules would take longer than booting.
    checksums: BTreeMap<String, u32>,
}

/// Checks an unpacked kernel.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check(series: Series) -> Result<String, String> {
    check_directory(&series.directory())
}

/// Checks what [`stamp`] has listed.
pub(super) fn check_directory(directory: &Path) -> Result<String, String> {
    if !directory.exists() {
        return Err("not fetched yet".to_owned());
    }
    let stamp = fs::read(directory.join(STAMP)).map_err(|_| "only partly unpacked".to_owned())?;
    let stamp: Stamp = serde_json::from_slice(&stamp).map_err(|_| "only partly unpacked".to_owned())?;
    for (name, size) in &stamp.files {
        match fs::metadata(directory.join(name)) {
            Ok(data) if data.len() == *size => {}
            Ok(_) => return Err(format!("{name} is damaged")),
            Err(_) => return Err(format!("{name} is missing")),
        }
    }
    for (name, checksum) in &stamp.checksums {
        let bytes = fs::read(directory.join(name)).map_err(|_| format!("{name} is missing"))?;
        if crc32fast::hash(&bytes) != *checksum {
            return Err(format!("{name} is damaged"));
        }
    }
    Ok(stamp.package)
}

/// The packages of a series among `names`, the newest first.
pub(crate) fn candidates(series: Series, names: &str) -> Vec<String> {
    let (prefix, suffix) = name_pattern(series);
    let mut found: Vec<(&str, &str)> = names
        .lines()
        .filter_map(|name| {
            let version = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
            // No "-rt", "-unsigned" and the like in between.
            let plain = !version.is_empty() && version.chars().all(|c| c.is_ascii_digit() || c == '.');
            plain.then_some((version, name))
        })
        .collect();
    found.sort_by(|(left, _), (right, _)| version::compare(right, left));
    found.dedup();
    found.into_iter().map(|(_, name)| name.to_owned()).collect()
}

/// What comes before and after the version in a package's name.
pub(crate) fn name_pattern(series: Series) -> (&'static str, &'static str) {
    match series {
        // The cloud flavour has all that the lab needs in a quarter of the size.
        Series::V6_1 => ("linux-image-6.1.0-", "-cloud-amd64"),
        Series::V6_12 => ("linux-image-6.12.", "+deb12-amd64"),
    }
}

/// The newest package that apt can download now. Names stay in apt's lists after their packages have gone.
pub(crate) fn newest(series: Series) -> Option<String> {
    let names = Tool::new("apt-cache").args(["pkgnames", name_pattern(series).0]).text().ok()?;
    candidates(series, &names).into_iter().find(|name| apt::has_candidate(name))
}

/// Downloads the newest package of the series and unpacks it in place of whatever was there.
///
/// # Errors
/// When there is none, or a command fails.
pub(crate) fn fetch(series: Series) -> Result<()> {
    let Some(package) = newest(series) else {
        let (prefix, suffix) = name_pattern(series);
        bail!(
            "apt lists no {prefix}*{suffix}; Debian 12 has it in bookworm or bookworm-security: see that \
             /etc/apt/sources.list names both, and run `apt-get update`"
        );
    };
    let kernels = paths::lab().join("kernels");
    fs::create_dir_all(&kernels).with_context(|| format!("cannot create {}", kernels.display()))?;
    // The same file system as the final place, so that a rename moves it.
    let partial = scratch::directory(&paths::lab().join("partial"))?;
    apt::download(&package, partial.path())?;
    let root = partial.path().join("root");
    extract(partial.path(), &root)?;
    let kernel = lab::kernel::unpacked(&root)?;
    // The package leaves the index of modules to its installation.
    let release = kernel.modules.file_name().unwrap_or_default();
    Tool::new("/sbin/depmod").arg("--basedir").arg(&root).arg(release).output()?;
    write_stamp(&package, &root, Some(&kernel.image))?;
    replace(&root, &series.directory())
}

/// Unpacks all packages that lie in `directory` into `root`.
pub(super) fn extract(directory: &Path, root: &Path) -> Result<()> {
    let mut count = 0;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            count += 1;
            Tool::new("dpkg-deb")
                .arg("--extract")
                .args([&path, root])
                .remedy("See that the disk has room (700 MB), then run the command again.")
                .output()?;
        }
    }
    ensure!(count > 0, "apt-get download ended well but left no package in {}", directory.display());
    Ok(())
}

/// Lists what lies in `root` now, so that [`check_directory`] can tell whether it is still there. `image` also gets a
/// checksum.
pub(super) fn write_stamp(package: &str, root: &Path, image: Option<&Path>) -> Result<()> {
    let stamp = stamp(package, root, image)?;
    fs::write(root.join(STAMP), serde_json::to_vec(&stamp)?)
        .context("cannot write the list of unpacked files")
}

fn stamp(package: &str, root: &Path, image: Option<&Path>) -> Result<Stamp> {
    let mut files = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                directories.push(entry.path());
            } else if kind.is_file() {
                let path = entry.path();
                let name =
                    path.strip_prefix(root)?.to_str().context("a file name in the package is not UTF-8")?;
                files.insert(name.to_owned(), entry.metadata()?.len());
            }
        }
    }
    let mut checksums = BTreeMap::new();
    if let Some(image) = image {
        let name = image.strip_prefix(root)?.to_string_lossy().into_owned();
        checksums.insert(name, crc32fast::hash(&fs::read(image)?));
    }
    Ok(Stamp { package: package.to_owned(), files, checksums })
}

/// Puts the finished directory where it belongs.
pub(super) fn replace(from: &Path, to: &Path) -> Result<()> {
    let context = || format!("cannot replace {}", to.display());
    match fs::symlink_metadata(to) {
        Ok(data) if data.is_dir() => fs::remove_dir_all(to).with_context(context)?,
        Ok(_) => fs::remove_file(to).with_context(context)?,
        Err(_) => {}
    }
    fs::rename(from, to).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "\
linux-image-6.1.0-9-cloud-amd64
linux-image-6.1.0-57-cloud-amd64
linux-image-6.1.0-57-cloud-amd64-unsigned
linux-image-6.1.0-58-cloud-amd64-dbg
linux-image-6.1.0-10-cloud-amd64
linux-image-6.1.0-60-amd64
linux-image-6.1.0-60-rt-amd64
linux-image-6.12.9+deb12-amd64
linux-image-6.12.117+deb12-amd64
linux-image-6.12.118+deb12-cloud-amd64
linux-image-6.12.118+deb12-rt-amd64
linux-image-6.12.119+deb12-amd64-unsigned
linux-image-6.12.100+deb12-amd64
linux-image-6.12-amd64
linux-image-6.120.1+deb12-amd64
";

    #[test]
    fn the_newest_plain_package_comes_first() {
        let numbers = [57, 10, 9].map(|number| format!("linux-image-6.1.0-{number}-cloud-amd64"));
        assert_eq!(candidates(Series::V6_1, NAMES), numbers);
        let numbers = [117, 100, 9].map(|number| format!("linux-image-6.12.{number}+deb12-amd64"));
        assert_eq!(candidates(Series::V6_12, NAMES), numbers);
    }

    fn unpacked(directory: &Path) {
        fs::create_dir_all(directory.join("boot")).unwrap();
        fs::create_dir_all(directory.join("lib/modules/6.1/kernel")).unwrap();
        fs::write(directory.join("boot/vmlinuz-6.1"), "a kernel").unwrap();
        fs::write(directory.join("lib/modules/6.1/kernel/kvm.ko"), "a module").unwrap();
        write_stamp("linux-image-x", directory, Some(&directory.join("boot/vmlinuz-6.1"))).unwrap();
    }

    #[test]
    fn half_fetched_and_damaged_kernels_are_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let kernel = directory.path().join("6.1");
        assert_eq!(check_directory(&kernel), Err("not fetched yet".into()));
        let broken = |change: &dyn Fn(&Path)| {
            let _ = fs::remove_dir_all(&kernel);
            unpacked(&kernel);
            assert_eq!(check_directory(&kernel), Ok("linux-image-x".into()));
            change(&kernel);
            check_directory(&kernel).unwrap_err()
        };
        let image = "boot/vmlinuz-6.1";
        assert_eq!(broken(&|k| fs::remove_file(k.join(STAMP)).unwrap()), "only partly unpacked");
        assert_eq!(broken(&|k| fs::write(k.join(STAMP), "{\"pack").unwrap()), "only partly unpacked");
        assert_eq!(broken(&|k| fs::write(k.join(image), "a ker").unwrap()), format!("{image} is damaged"));
        assert_eq!(broken(&|k| fs::write(k.join(image), "A kernel").unwrap()), format!("{image} is damaged"));
        let module = "lib/modules/6.1/kernel/kvm.ko";
        assert_eq!(broken(&|k| fs::remove_file(k.join(module)).unwrap()), format!("{module} is missing"));
    }
}
