//! Finds modules and what they depend on in a kernel's `modules.dep`, and reads them uncompressed.

use crate::command::Tool;
use anyhow::{Context, Result, bail, ensure};
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
    /// Files that do not lie in the directory, by name: replaced ones and those of no kernel.
    others: HashMap<String, PathBuf>,
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
        Self { directory: directory.to_owned(), loadable, built_in, others: HashMap::new() }
    }

    /// Takes `file` for the kernel's own module of that name.
    ///
    /// # Errors
    /// When there is no such module, or the file was built for another kernel.
    pub(crate) fn replace(&mut self, file: &Path) -> Result<()> {
        let name = module_name(&file.to_string_lossy());
        ensure!(
            self.loadable.contains_key(&name),
            "{} can replace nothing: the kernel of {} has no module {name}",
            file.display(),
            self.directory.display()
        );
        self.insert(name, file)
    }

    /// Adds a module that the kernel does not have; the name to load it by comes back.
    ///
    /// # Errors
    /// When the kernel has a module of that name, or the file was built for another kernel.
    pub(crate) fn add_foreign(&mut self, file: &Path) -> Result<String> {
        let name = module_name(&file.to_string_lossy());
        ensure!(
            !self.loadable.contains_key(&name) && !self.built_in.contains(&name),
            "the kernel has a {name} of its own; to put {} in its place use --kernel SERIES+DIR",
            file.display()
        );
        self.insert(name.clone(), file)?;
        Ok(name)
    }

    fn insert(&mut self, name: String, file: &Path) -> Result<()> {
        let information = information(&read_module(file)?);
        let release = self.directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let built_for = information.vermagic.split_whitespace().next().unwrap_or_default();
        ensure!(
            built_for == release,
            "{} was built for the kernel {}, not for {release}; build it again for this one",
            file.display(),
            if built_for.is_empty() { "of no name" } else { built_for }
        );
        let entry = self.loadable.entry(name.clone()).or_default();
        let mut needed = entry.1.clone();
        // It may need more than the module whose place it takes.
        needed.extend(information.depends.into_iter().filter(|name| !entry.1.contains(name)));
        entry.1 = needed;
        entry.0.clone_from(&name);
        self.others.insert(name, file.to_owned());
        Ok(())
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
        let path =
            |file: String| self.others.get(&file).cloned().unwrap_or_else(|| self.directory.join(&file));
        Ok(order.into_iter().map(path).collect())
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

/// What a module says of itself in its section `.modinfo`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Information {
    /// The kernel that it was built for, and how.
    vermagic: String,
    /// The modules whose symbols it uses.
    depends: Vec<String>,
}

/// The section is a list of `NAME=VALUE`, each ended by a zero; no other part of a module holds these names so.
fn information(module: &[u8]) -> Information {
    let mut information = Information::default();
    for text in module.split(|byte| *byte == 0) {
        if let Some(vermagic) = text.strip_prefix(b"vermagic=") {
            information.vermagic = String::from_utf8_lossy(vermagic).into_owned();
        } else if let Some(depends) = text.strip_prefix(b"depends=") {
            let depends = String::from_utf8_lossy(depends);
            information.depends =
                depends.split(',').filter(|name| !name.is_empty()).map(module_name).collect();
        }
    }
    information
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
    fn other_modules_are_loaded_from_where_they_lie() {
        let directory = tempfile::tempdir().unwrap();
        let module = |name: &str, depends: &str, release: &str| {
            let file = directory.path().join(name);
            fs::write(&file, format!("ELF\0license=GPL\0depends={depends}\0vermagic={release} SMP \0"))
                .unwrap();
            file
        };
        let mut modules = Modules::parse(Path::new("/m"), DEP, "");
        let vhost = module("vhost.ko", "vhost_iotlb,rng", "m");
        modules.replace(&vhost).unwrap();
        let foreign = module("our-own.ko", "kvm", "m");
        assert_eq!(modules.add_foreign(&foreign).unwrap(), "our_own");
        let m = |file: &str| Path::new("/m/kernel").join(file);
        assert_eq!(
            modules.load_order(["vhost", "our_own"]).unwrap(),
            [
                m("lib/rng.ko"),
                m("drivers/vhost/vhost_iotlb.ko.xz"),
                vhost.clone(),
                m("arch/x86/kvm/kvm.ko"),
                foreign
            ]
        );
        let said = |result: Result<()>| result.unwrap_err().to_string();
        assert!(said(modules.replace(&module("none.ko", "", "m"))).contains("has no module none"));
        assert!(
            said(modules.replace(&module("kvm.ko", "", "6.9"))).contains("for the kernel 6.9, not for m")
        );
        assert!(said(modules.add_foreign(&vhost).map(drop)).contains("SERIES+DIR"));
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
