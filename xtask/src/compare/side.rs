//! The kernel of a side: a series, an image with its modules, or a series with some modules replaced.

use crate::lab::{Kernel, KernelChoice, Series, module_name};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// The kernel that `text` names. For `SERIES+DIR` an index of modules is written below `scratch`: the stock kernel's,
/// with the modules of DIR in place of its own.
///
/// # Errors
/// When there is no such kernel, or DIR holds no module of it.
pub(super) fn kernel(text: &str, scratch: &Path) -> Result<KernelChoice> {
    if let Ok(series) = text.parse::<Series>() {
        return Ok(KernelChoice::Series(series));
    }
    let Some((kernel, modules)) = text.rsplit_once('+') else {
        bail!(
            "{text} is no kernel; name a series (6.1, 6.12), SERIES+DIR with modules to replace, or BZIMAGE+MODULES"
        );
    };
    match kernel.parse::<Series>() {
        Ok(series) => {
            let stock = KernelChoice::Series(series).locate()?;
            let modules = replaced(&stock, &replacements(Path::new(modules))?, scratch)?;
            Ok(Kernel { modules, ..stock }.into())
        }
        Err(()) => KernelChoice::from_arguments(kernel, Some(Path::new(modules))),
    }
}

/// The modules directly in a folder.
fn replacements(folder: &Path) -> Result<Vec<PathBuf>> {
    let folder = std::path::absolute(folder)?;
    let context = || format!("cannot read {}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).with_context(context)? {
        let path = entry.with_context(context)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.split('.').nth(1) == Some("ko") {
            found.push(path);
        }
    }
    found.sort();
    ensure!(!found.is_empty(), "{} holds no module (*.ko)", folder.display());
    Ok(found)
}

/// Writes the index with absolute paths, and returns its directory.
fn replaced(stock: &Kernel, modules: &[PathBuf], scratch: &Path) -> Result<PathBuf> {
    let read = |name: &str| {
        let path = stock.modules.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let index = index(&read("modules.dep")?, &stock.modules, modules)?;
    let directory = scratch.join(stock.modules.file_name().unwrap_or_default());
    let written = fs::create_dir_all(&directory)
        .and_then(|()| fs::write(directory.join("modules.dep"), index))
        .and_then(|()| {
            fs::write(directory.join("modules.builtin"), read("modules.builtin").unwrap_or_default())
        });
    written.with_context(|| format!("cannot write {}", directory.display()))?;
    Ok(directory)
}

/// `modules.dep` of a stock kernel with each replaced module's file in place of the stock one.
fn index(stock: &str, directory: &Path, modules: &[PathBuf]) -> Result<String> {
    let mut unused: Vec<&PathBuf> = modules.iter().collect();
    let mut text = String::new();
    for line in stock.lines() {
        let Some((file, needed)) = line.split_once(':') else { continue };
        let replacement =
            modules.iter().find(|path| module_name(&path.to_string_lossy()) == module_name(file));
        unused.retain(|path| Some(*path) != replacement);
        let file = replacement.cloned().unwrap_or_else(|| directory.join(file));
        text.push_str(&format!("{}:{needed}\n", file.display()));
    }
    // One that is not replaced would quietly compare a kernel with itself.
    ensure!(unused.is_empty(), "the kernel has no module in whose place {} could go", unused[0].display());
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_takes_the_place_of_its_stock_one() {
        let stock = "kernel/drivers/vhost/vhost.ko.xz: kernel/drivers/vhost/vhost_iotlb.ko.xz\n\
                     kernel/drivers/vhost/vhost_iotlb.ko.xz:\n";
        let text = index(stock, Path::new("/m"), &[PathBuf::from("/p/vhost-iotlb.ko")]).unwrap();
        assert_eq!(
            text,
            "/m/kernel/drivers/vhost/vhost.ko.xz: kernel/drivers/vhost/vhost_iotlb.ko.xz\n/p/vhost-iotlb.ko:\n"
        );
        let error = index(stock, Path::new("/m"), &[PathBuf::from("/p/nonsense.ko")]).unwrap_err();
        assert!(error.to_string().contains("no module in whose place /p/nonsense.ko could go"));
    }

    #[test]
    fn kernels_are_named_strictly() {
        let scratch = tempfile::tempdir().unwrap();
        assert_eq!(kernel("6.12", scratch.path()).unwrap(), KernelChoice::Series(Series::V6_12));
        assert!(kernel("6.2", scratch.path()).unwrap_err().to_string().contains("SERIES+DIR"));
        assert!(matches!(kernel("bzImage+modules", scratch.path()), Ok(KernelChoice::Image { .. })));
        assert!(replacements(scratch.path()).unwrap_err().to_string().contains("holds no module"));
        fs::write(scratch.path().join("kvm.ko.xz"), "").unwrap();
        fs::write(scratch.path().join("notes.txt"), "").unwrap();
        assert_eq!(replacements(scratch.path()).unwrap().len(), 1);
    }
}
