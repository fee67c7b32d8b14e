//! Kernels that come as a Debian package: unpacked once, never installed.

use super::kernel::{Kernel, unpacked};
use crate::command::Tool;
use crate::{paths, scratch};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The kernel in a `linux-image` package. What was unpacked of the very same file is taken again.
///
/// # Errors
/// When there is no such file, or it is no package of a kernel with its modules.
pub(super) fn unpack(package: &Path) -> Result<Kernel> {
    unpack_to(package, &paths::lab().join("packages"))
}

fn unpack_to(package: &Path, folder: &Path) -> Result<Kernel> {
    ensure!(package.is_file(), "there is no package {}", package.display());
    let context = || format!("cannot look at {}", package.display());
    let file = fs::metadata(package).with_context(context)?;
    let time = file.modified().with_context(context)?.duration_since(UNIX_EPOCH).unwrap_or_default();
    let stem = package.file_stem().unwrap_or_default().to_string_lossy();
    let place = folder.join(format!("{stem}-{}-{}", file.len(), time.as_nanos()));
    if !place.is_dir() {
        // The same file system as the final place: a package that is unpacked by half never gets there.
        let partial = scratch::directory(&folder.join("partial"))?;
        let root = partial.path().join("root");
        for piece in pieces(package) {
            Tool::new("dpkg-deb")
                .arg("--extract")
                .args([&piece, &root])
                .remedy("It takes a whole package, dpkg, and room on the disk.")
                .output()?;
        }
        unpacked(&root).with_context(|| {
            format!(
                "{} is no package of a kernel with its modules (linux-image-…); where a kernel comes in pieces, \
                 linux-binary-…, linux-modules-… and linux-base-… of the same version must lie beside it",
                package.display()
            )
        })?;
        fs::rename(&root, &place).with_context(|| format!("cannot rename {}", root.display()))?;
    }
    unpacked(&place)
}

/// The packages that a kernel consists of: since Debian 14 linux-image is empty and depends on three more.
fn pieces(package: &Path) -> Vec<PathBuf> {
    const PIECES: [&str; 4] = ["linux-image-", "linux-binary-", "linux-modules-", "linux-base-"];
    let name = package.file_name().unwrap_or_default().to_string_lossy();
    let mut pieces = vec![package.to_owned()];
    if let Some(rest) = PIECES.iter().find_map(|piece| name.strip_prefix(piece)) {
        let beside = PIECES.iter().map(|piece| package.with_file_name(format!("{piece}{rest}")));
        pieces.extend(beside.filter(|piece| piece != package && piece.is_file()));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A package of what lies in `root`, or nothing where there is no dpkg.
    fn package(root: &Path, file: &Path) -> Option<()> {
        crate::command::find_program("dpkg-deb")?;
        fs::create_dir_all(root.join("DEBIAN")).unwrap();
        let control =
            "Package: linux-image-6.9\nVersion: 1\nArchitecture: amd64\nMaintainer: x\nDescription: x\n";
        fs::write(root.join("DEBIAN/control"), control).unwrap();
        Tool::new("dpkg-deb").arg("--build").args([root, file]).output().unwrap();
        Some(())
    }

    #[test]
    fn a_package_is_unpacked_once() {
        let directory = tempfile::tempdir().unwrap();
        let (root, file) = (directory.path().join("root"), directory.path().join("linux.deb"));
        fs::create_dir_all(root.join("boot")).unwrap();
        fs::create_dir_all(root.join("lib/modules/6.9")).unwrap();
        fs::write(root.join("boot/vmlinuz-6.9"), "kernel").unwrap();
        fs::write(root.join("lib/modules/6.9/modules.order"), "").unwrap();
        if package(&root, &file).is_none() {
            return;
        }
        let folder = directory.path().join("packages");
        let kernel = unpack_to(&file, &folder).unwrap();
        assert_eq!(fs::read_to_string(&kernel.image).unwrap(), "kernel");
        assert!(kernel.modules.ends_with("lib/modules/6.9"));
        let before = fs::metadata(&kernel.image).unwrap().modified().unwrap();
        let again = unpack_to(&file, &folder).unwrap();
        assert_eq!(again, kernel);
        assert_eq!(fs::metadata(&again.image).unwrap().modified().unwrap(), before);
    }

    #[test]
    fn pieces_of_the_same_version_belong_together() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in [
            "linux-image-7.2_1.deb",
            "linux-modules-7.2_1.deb",
            "linux-modules-7.2_2.deb",
            "linux-base-7.2_1.deb",
        ] {
            fs::write(at(name), "").unwrap();
        }
        let expected = ["linux-image-7.2_1.deb", "linux-modules-7.2_1.deb", "linux-base-7.2_1.deb"].map(at);
        assert_eq!(pieces(&at("linux-image-7.2_1.deb")), expected);
        assert_eq!(pieces(&at("own.deb")), [at("own.deb")]);
    }

    #[test]
    fn what_is_no_kernel_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let (file, folder) = (directory.path().join("x.deb"), directory.path().join("packages"));
        assert!(unpack_to(&file, &folder).unwrap_err().to_string().contains("there is no package"));
        fs::write(&file, "garbage").unwrap();
        if crate::command::find_program("dpkg-deb").is_some() {
            assert!(unpack_to(&file, &folder).unwrap_err().to_string().contains("a whole package"));
        }
        let root = directory.path().join("root");
        if package(&root, &file).is_some() {
            let said = format!("{:#}", unpack_to(&file, &folder).unwrap_err());
            assert!(said.contains("no package of a kernel"), "{said}");
        }
        let left = fs::read_dir(&folder)
            .map_or(0, |entries| entries.flatten().filter(|e| !e.path().ends_with("partial")).count());
        assert_eq!(left, 0);
    }
}
