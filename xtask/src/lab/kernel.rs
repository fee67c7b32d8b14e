//! Finds the kernel to boot and its modules.

use crate::paths;
use anyhow::{Context, Result, bail, ensure};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A Debian kernel series that `cargo xtask setup` fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Series {
    /// Debian 12's own kernel, the cloud flavour.
    V6_1,
    /// The newer kernel offered for Debian 12.
    V6_12,
}

impl Series {
    /// Both, oldest first.
    pub(crate) const ALL: [Self; 2] = [Self::V6_1, Self::V6_12];

    /// `6.1` or `6.12`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V6_1 => "6.1",
            Self::V6_12 => "6.12",
        }
    }

    /// Where its package is unpacked.
    pub(crate) fn directory(self) -> PathBuf {
        paths::lab().join("kernels").join(self.name())
    }
}

/// Which kernel a guest boots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KernelChoice {
    /// One that the setup fetches.
    Series(Series),
    /// One that the setup fetches, with other modules in place of its own.
    Patched {
        /// The kernel.
        series: Series,
        /// The directory with the modules (`*.ko`) that take the place of the kernel's own of the same names.
        replacements: PathBuf,
    },
    /// Any bzImage with the directory of its modules.
    Image {
        /// The bzImage.
        image: PathBuf,
        /// `lib/modules/RELEASE`, or the directory that holds `lib/modules`.
        modules: PathBuf,
    },
}

impl KernelChoice {
    /// From the command line's `--kernel` and `--modules`.
    ///
    /// # Errors
    /// When one of the two is there without the other it needs.
    pub(crate) fn from_arguments(kernel: &str, modules: Option<&Path>) -> Result<Self> {
        if let Some((series, directory)) = kernel.split_once('+')
            && let Ok(series) = series.parse()
        {
            ensure!(modules.is_none(), "--modules belongs to a kernel image of your own; leave it out");
            return Ok(Self::Patched { series, replacements: PathBuf::from(directory) });
        }
        if let (None, Some((image, modules))) = (modules, image_and_modules(kernel)) {
            return Ok(Self::Image { image, modules });
        }
        match (kernel.parse::<Series>(), modules) {
            (Ok(series), None) => Ok(Self::Series(series)),
            (Ok(_), Some(_)) => bail!("--modules belongs to a kernel image of your own; leave it out"),
            (Err(_), Some(modules)) => {
                Ok(Self::Image { image: PathBuf::from(kernel), modules: modules.to_owned() })
            }
            (Err(_), None) => bail!(
                "{kernel} is neither 6.1, 6.12 nor one of these with +DIR; for a kernel image of your own name its modules too: \
                 --modules DIR, or BZIMAGE+MODULES"
            ),
        }
    }

    /// Looks the files up.
    ///
    /// # Errors
    /// When the kernel or its modules are not there.
    pub(crate) fn locate(&self) -> Result<Kernel> {
        match self {
            Self::Series(series) => unpacked(&series.directory()).with_context(|| {
                format!("the {} kernel is not there; run `cargo xtask setup`", series.name())
            }),
            Self::Patched { series, replacements } => {
                let kernel = Self::Series(*series).locate()?;
                Ok(Kernel { replacements: module_files(replacements)?, ..kernel })
            }
            Self::Image { image, modules } => {
                ensure!(image.is_file(), "there is no kernel image {}", image.display());
                let image = std::path::absolute(image)?;
                Ok(Kernel { image, modules: modules_directory(modules)?, replacements: Vec::new() })
            }
        }
    }
}

/// `BZIMAGE+MODULES`, wherever else there is a plus in the two.
fn image_and_modules(text: &str) -> Option<(PathBuf, PathBuf)> {
    text.match_indices('+').find_map(|(at, _)| {
        let (image, modules) = (Path::new(&text[..at]), Path::new(&text[at + 1..]));
        (image.is_file() && modules.is_dir()).then(|| (image.to_owned(), modules.to_owned()))
    })
}

impl FromStr for Series {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|series| series.name() == text).ok_or(())
    }
}

impl fmt::Display for KernelChoice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Series(series) => formatter.write_str(series.name()),
            Self::Patched { series, replacements } => {
                write!(formatter, "{}+{}", series.name(), replacements.display())
            }
            Self::Image { image, .. } => write!(formatter, "{}", image.display()),
        }
    }
}

/// A kernel that can be booted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kernel {
    /// The bzImage.
    pub(crate) image: PathBuf,
    /// The directory with `modules.dep`, named after the release.
    pub(crate) modules: PathBuf,
    /// Modules that take the place of those of the same names.
    pub(crate) replacements: Vec<PathBuf>,
}

impl From<Series> for KernelChoice {
    fn from(series: Series) -> Self {
        Self::Series(series)
    }
}

impl From<Kernel> for KernelChoice {
    fn from(kernel: Kernel) -> Self {
        Self::Image { image: kernel.image, modules: kernel.modules }
    }
}

/// The kernel in the directory of an unpacked `linux-image` package.
///
/// # Errors
/// When the directory does not hold exactly one kernel.
pub(crate) fn unpacked(directory: &Path) -> Result<Kernel> {
    let image = single(&directory.join("boot"), |name| name.starts_with("vmlinuz-"))?;
    Ok(Kernel { image, modules: modules_directory(directory)?, replacements: Vec::new() })
}

/// The modules that lie in `directory`, at least one.
fn module_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let directory = std::path::absolute(directory)?;
    let entries = fs::read_dir(&directory).with_context(|| {
        format!("cannot read {}; `cargo xtask module` builds such a directory", directory.display())
    })?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ko") {
            files.push(path);
        }
    }
    ensure!(!files.is_empty(), "{} holds no modules (*.ko) to replace the kernel's own", directory.display());
    files.sort();
    Ok(files)
}

/// `lib/modules/RELEASE` below `directory`, or `directory` itself when it is that.
fn modules_directory(directory: &Path) -> Result<PathBuf> {
    let directory = std::path::absolute(directory)?;
    if directory.join("modules.dep").is_file() || directory.join("modules.order").is_file() {
        return Ok(directory);
    }
    for below in ["lib/modules", "usr/lib/modules"] {
        if directory.join(below).is_dir() {
            return single(&directory.join(below), |_| true);
        }
    }
    bail!("{} holds no kernel modules (no modules.dep, no lib/modules)", directory.display())
}

fn single(directory: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let entries = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(&wanted) {
            found.push(entry.path());
        }
    }
    match <[PathBuf; 1]>::try_from(found) {
        Ok([path]) => Ok(path),
        Err(found) => bail!("{} holds {} kernels instead of one", directory.display(), found.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_choose_a_kernel() {
        let choose = |kernel: &str, modules: Option<&str>| {
            KernelChoice::from_arguments(kernel, modules.map(Path::new)).map_err(|error| error.to_string())
        };
        assert_eq!(choose("6.1", None), Ok(KernelChoice::Series(Series::V6_1)));
        assert_eq!(choose("6.12", None), Ok(KernelChoice::Series(Series::V6_12)));
        assert!(choose("6.12", Some("x")).unwrap_err().contains("leave it out"));
        let patched = KernelChoice::Patched { series: Series::V6_1, replacements: PathBuf::from("a+b/c") };
        assert_eq!(choose("6.1+a+b/c", None), Ok(patched));
        assert!(choose("6.1+x", Some("x")).unwrap_err().contains("leave it out"));
        assert!(choose("6.2", None).unwrap_err().contains("neither 6.1, 6.12 nor"));
        assert!(choose("6.2+x", None).unwrap_err().contains("neither 6.1, 6.12 nor"));
        assert!(matches!(choose("bzImage", Some("x")), Ok(KernelChoice::Image { .. })));
    }

    #[test]
    fn replacements_are_the_modules_of_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        assert!(module_files(directory.path()).unwrap_err().to_string().contains("holds no modules"));
        for name in ["vhost.ko", "kvm.ko", "built-from.json"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let found = module_files(directory.path()).unwrap();
        assert_eq!(found, [directory.path().join("kvm.ko"), directory.path().join("vhost.ko")]);
    }

    #[test]
    fn an_unpacked_package_is_recognised() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert!(unpacked(root).is_err());
        fs::create_dir_all(root.join("boot")).unwrap();
        fs::create_dir_all(root.join("lib/modules/6.1.0-9-cloud-amd64")).unwrap();
        fs::write(root.join("boot/config-6.1.0-9-cloud-amd64"), "").unwrap();
        assert!(unpacked(root).is_err());
        fs::write(root.join("boot/vmlinuz-6.1.0-9-cloud-amd64"), "").unwrap();
        let kernel = unpacked(root).unwrap();
        assert_eq!(kernel.modules, root.join("lib/modules/6.1.0-9-cloud-amd64"));
        fs::write(root.join("boot/vmlinuz-6.1.0-10-cloud-amd64"), "").unwrap();
        assert!(unpacked(root).unwrap_err().to_string().contains("2 kernels instead of one"));
    }
}
