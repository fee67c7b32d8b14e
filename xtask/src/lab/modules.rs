//! Finds modules and what they depend on in a kernel's `modules.dep`, and reads them uncompressed.

use crate::command::Tool;
use anyhow::{Context, Result, bail};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A kernel's index of modules.
#[derive(Debug)]
pub(crate) struct Modules {
    directory: PathBuf,
    /// Name to file and to what must be loaded before, nearest first.
    loadable: HashMap<String, (String, Vec<String>)>,
    built_in: HashSet<String>,
}

impl Modules {
    /// Reads the index of `lib/modules/RELEASE`; one that `depmod` has not made yet is made beside it.
    ///
    /// # Errors
    /// When the index can neither be read nor made.
    pub(crate) fn read(directory: &Path) -> Result<Self> {
        let index = directory.join("modules.dep");
        let dependencies = if index.is_file() {
            fs::read_to_string(&index).with_context(|| format!("cannot read {}", index.display()))?
        } else {
            made_index(directory)?
        };
        let built_in = directory.join("modules.builtin");
        let built_in =
            fs::read_to_string(&built_in).with_context(|| format!("cannot read {}", built_in.display()))?;
        Ok(Self::parse(directory, &dependencies, &built_in))
    }

    fn parse(directory: &Path, dependencies: &str, built_in: &str) -> Self {
        let mut loadable = HashMap::new();
        for line in dependencies.lines() {
            if let Some((file, needed)) = line.split_once(':') {
                let needed = needed.split_whitespace().map(module_name).collect();
                loadable.insert(module_name(file), (file.to_owned(), needed));
            }
        }
        let built_in = built_in.lines().map(module_name).collect();
        Self { directory: directory.to_owned(), loadable, built_in }
    }

    /// The files to load, in order, so that all of `names` are there afterwards. Built-in ones need none.
    ///
    /// # Errors
    /// When the kernel has no such module.
    pub(crate) fn load_order<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Result<Vec<PathBuf>> {
        let mut order = Vec::new();
        for name in names {
            self.add(&module_name(name), &mut order)?;
        }
        Ok(order.into_iter().map(|file| self.directory.join(file)).collect())
    }

    fn add(&self, name: &str, order: &mut Vec<String>) -> Result<()> {
        let Some((file, needed)) = self.loadable.get(name) else {
            if self.built_in.contains(name) {
                return Ok(());
            }
            bail!("the kernel of {} has no module {name}", self.directory.display());
        };
        if order.contains(file) {
            return Ok(());
        }
        // depmod lists all that a module needs, the deepest last.
        for needed in needed.iter().rev() {
            self.add(needed, order)?;
        }
        order.push(file.clone());
        Ok(())
    }
}

fn made_index(directory: &Path) -> Result<String> {
    let (Some(release), Some(root)) = (directory.file_name(), directory.ancestors().nth(3)) else {
        bail!("{} has no modules.dep; run depmod for it", directory.display());
    };
    let out = tempfile::tempdir().context("no temporary directory for an index of modules")?;
    Tool::new("/sbin/depmod")
        .arg("--basedir")
        .arg(root)
        .arg("--outdir")
        .arg(out.path())
        .arg(release)
        .remedy(format!(
            "{} has no modules.dep; install kmod, or run depmod for it yourself",
            directory.display()
        ))
        .output()?;
    let index = out.path().join("lib/modules").join(release).join("modules.dep");
    fs::read_to_string(&index).with_context(|| format!("depmod made no index for {}", directory.display()))
}

/// The kernel's name of the module in `file`: dashes are underscores, suffixes gone.
pub(crate) fn module_name(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split('.').next().unwrap_or(name).replace('-', "_")
}

/// The uncompressed content of a module's file.
///
/// # Errors
/// When it cannot be read or unpacked.
pub(crate) fn read_module(file: &Path) -> Result<Vec<u8>> {
    let suffix = file.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
    let unpacker = match suffix {
        "xz" => "xz",
        "zst" => "zstd",
        "gz" => "gzip",
        _ => return fs::read(file).with_context(|| format!("cannot read {}", file.display())),
    };
    Tool::new(unpacker)
        .args(["-d", "-c"])
        .arg(file)
        .remedy(format!(
            "Install {unpacker}, or fetch the kernel again: remove its directory and run `cargo xtask setup`."
        ))
        .output()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "\
kernel/arch/x86/kvm/kvm.ko:
kernel/arch/x86/kvm/kvm-amd.ko: kernel/arch/x86/kvm/kvm.ko kernel/drivers/crypto/ccp/ccp.ko kernel/lib/rng.ko
kernel/drivers/crypto/ccp/ccp.ko: kernel/lib/rng.ko
kernel/lib/rng.ko:
kernel/drivers/vhost/vhost.ko.xz: kernel/drivers/vhost/vhost_iotlb.ko.xz
kernel/drivers/vhost/vhost_iotlb.ko.xz:
";

    fn order(names: &[&str]) -> Result<Vec<String>> {
        let modules = Modules::parse(Path::new("/m"), DEP, "kernel/drivers/char/virtio_console.ko\n");
        let files = modules.load_order(names.iter().copied())?;
        Ok(files.iter().map(|file| module_name(file.to_str().unwrap())).collect())
    }

    #[test]
    fn what_is_needed_comes_first_and_once() {
        assert_eq!(
            order(&["vhost", "kvm_amd", "kvm"]).unwrap(),
            ["vhost_iotlb", "vhost", "rng", "ccp", "kvm", "kvm_amd"]
        );
    }

    #[test]
    fn built_in_modules_need_no_file() {
        assert!(order(&["virtio-console"]).unwrap().is_empty());
    }

    #[test]
    fn a_module_that_is_not_there_is_named() {
        assert_eq!(order(&["nope"]).unwrap_err().to_string(), "the kernel of /m has no module nope");
    }

    #[test]
    fn compressed_modules_are_unpacked() {
        let directory = tempfile::tempdir().unwrap();
        let plain = directory.path().join("x.ko");
        fs::write(&plain, b"module").unwrap();
        let mut checked = 0;
        for (tool, suffix) in [("xz", "xz"), ("gzip", "gz"), ("zstd", "zst")] {
            if crate::command::find_program(tool).is_none() {
                continue;
            }
            let packed = directory.path().join(format!("y.ko.{suffix}"));
            fs::write(&packed, Tool::new(tool).args(["-k", "-c"]).arg(&plain).output().unwrap()).unwrap();
            assert_eq!(read_module(&packed).unwrap(), b"module");
            fs::write(&packed, b"garbage").unwrap();
            assert!(read_module(&packed).is_err());
            checked += 1;
        }
        assert!(checked > 0, "no unpacker is installed");
    }
}
