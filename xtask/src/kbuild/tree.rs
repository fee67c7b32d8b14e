//! A kernel tree to patch: the headers with the source of KVM and vhost laid in, brought back to the distribution's
//! state before each use. What it builds stays, so that an edit compiles only what it changed.

use super::make;
use crate::lab::Series;
use crate::{paths, setup};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A tree in the distribution's state, or patched.
#[derive(Debug)]
pub(super) struct Tree {
    /// Where make runs.
    pub(super) build: PathBuf,
    /// The source tree, where patches apply.
    pub(super) source: PathBuf,
    /// The same tree untouched, in two parts.
    originals: [PathBuf; 2],
}

impl Tree {
    /// The tree of a kernel, without any change.
    ///
    /// # Errors
    /// When it cannot be laid out.
    pub(super) fn pristine(series: Series) -> Result<Self> {
        let root = paths::lab().join("trees").join(series.name());
        let headers = setup::headers_directory(series);
        copy_changed(&headers, &root)?;
        let originals = [make::source_tree(&headers)?, setup::source_directory(series)];
        let tree =
            Self { build: make::build_directory(&root)?, source: make::source_tree(&root)?, originals };
        copy_changed(&tree.originals[1], &tree.source)?;
        // A patch of before may have added files, which others would include.
        for file in tree.changed()? {
            let path = tree.source.join(&file);
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(tree)
    }

    /// The source files that differ from the distribution's, were added or are gone; relative paths.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub(super) fn changed(&self) -> Result<BTreeSet<PathBuf>> {
        let mut changed = BTreeSet::new();
        for file in files(&self.source)? {
            let original = self.originals.iter().map(|part| part.join(&file)).find(|path| path.is_file());
            let same = match original {
                Some(original) => same(&original, &self.source.join(&file))?,
                None => !is_source(&file),
            };
            if !same {
                changed.insert(file);
            }
        }
        for part in &self.originals {
            let gone =
                files(part)?.into_iter().filter(|file| is_source(file) && !self.source.join(file).exists());
            changed.extend(gone);
        }
        Ok(changed)
    }

    /// The built modules of `directory` that were compiled from any of the `changed` files.
    ///
    /// # Errors
    /// When what the build has written about itself cannot be read.
    pub(super) fn built_from(&self, directory: &str, changed: &BTreeSet<PathBuf>) -> Result<Vec<PathBuf>> {
        let changed: Vec<String> =
            changed.iter().map(|file| self.source.join(file).display().to_string()).collect();
        let directory = self.source.join(directory);
        let mut found = Vec::new();
        for module in self.modules(&directory)? {
            let objects = module.with_extension("mod");
            let objects =
                fs::read_to_string(&objects).with_context(|| format!("cannot read {}", objects.display()))?;
            for object in objects.split_whitespace() {
                // `DIR/.NAME.o.cmd` lists the files that NAME.o was compiled from, one a line.
                let object = self.build.join(object);
                let name = object.file_name().unwrap_or_default().to_string_lossy();
                let record = object.with_file_name(format!(".{name}.cmd"));
                let record = fs::read_to_string(&record)
                    .with_context(|| format!("cannot read {}", record.display()))?;
                if record.split_whitespace().any(|word| changed.iter().any(|file| same_path(word, file))) {
                    found.push(module);
                    break;
                }
            }
        }
        Ok(found)
    }

    /// All modules that were built in `directory`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn modules(&self, directory: &Path) -> Result<Vec<PathBuf>> {
        let order = self.source.join(directory).join("modules.order");
        let order = fs::read_to_string(&order).with_context(|| format!("cannot read {}", order.display()))?;
        // 6.1 names the modules, later kernels their objects.
        Ok(order.split_whitespace().map(|file| self.build.join(file).with_extension("ko")).collect())
    }
}

/// Whether two absolute paths are the same once `NAME/..` is left out.
fn same_path(left: &str, right: &str) -> bool {
    if left == right {
        return true;
    }
    if !left.contains("/../") {
        return false;
    }
    let mut parts = Vec::new();
    for part in left.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/") == right
}

/// Whether a file is source: what a build leaves beside it is not.
fn is_source(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    !name.ends_with(".mod.c")
        && !name.ends_with("-asm-offsets.h")
        && [".c", ".h", ".S", "Makefile", "Kbuild", "Kconfig"].iter().any(|suffix| name.ends_with(suffix))
}

/// Makes the files of `from` the same in `to`; those that are the same already keep their time, for make's sake.
fn copy_changed(from: &Path, to: &Path) -> Result<()> {
    let context = |path: &Path| format!("cannot copy {} to {}", path.display(), to.display());
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_changed(&source, &target)?;
        } else if kind.is_symlink() {
            let link = fs::read_link(&source)?;
            if fs::read_link(&target).ok().as_ref() != Some(&link) {
                let _ = fs::remove_file(&target);
                std::os::unix::fs::symlink(&link, &target).with_context(|| context(&source))?;
            }
        } else if !target.is_file() || !same(&source, &target)? {
            fs::copy(&source, &target).with_context(|| context(&source))?;
        }
    }
    Ok(())
}

fn same(left: &Path, right: &Path) -> Result<bool> {
    let size = |path: &Path| fs::metadata(path).map(|data| data.len());
    Ok(size(left)? == size(right)? && fs::read(left)? == fs::read(right)?)
}

/// All files below a directory, as paths from there.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(&at).with_context(|| format!("cannot read {}", at.display()))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path().strip_prefix(directory)?.to_owned());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(root: &Path) -> Tree {
        let write = |file: &str, text: &str| {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("headers/include/a.h", "a");
        write("source/kvm/b.c", "b");
        let originals = [root.join("headers"), root.join("source")];
        for part in &originals {
            copy_changed(part, &root.join("tree")).unwrap();
        }
        write("tree/kvm/b.o", "built");
        write("tree/kvm/kvm.mod.c", "built");
        write("tree/kvm/modules.order", "kvm/b.o\n");
        write("tree/kvm/b.mod", "kvm/b.o\n");
        let tree = root.join("tree");
        write("tree/kvm/.b.o.cmd", &format!("deps := \\\n  {}/kvm/../include/a.h \\\n", tree.display()));
        Tree { build: tree.clone(), source: tree, originals }
    }

    #[test]
    fn changes_are_found_and_lead_to_the_modules() {
        let directory = tempfile::tempdir().unwrap();
        let tree = tree(directory.path());
        assert!(tree.changed().unwrap().is_empty());
        fs::write(tree.source.join("include/a.h"), "A").unwrap();
        fs::write(tree.source.join("kvm/new.c"), "").unwrap();
        fs::remove_file(tree.source.join("kvm/b.c")).unwrap();
        let changed = tree.changed().unwrap();
        let expected = ["include/a.h", "kvm/b.c", "kvm/new.c"].map(PathBuf::from);
        assert_eq!(changed.iter().cloned().collect::<Vec<_>>(), expected);
        assert_eq!(tree.built_from("kvm", &changed).unwrap(), [tree.source.join("kvm/b.ko")]);
        let other = BTreeSet::from([PathBuf::from("kvm/new.c")]);
        assert!(tree.built_from("kvm", &other).unwrap().is_empty());
    }

    #[test]
    fn unchanged_files_keep_their_time() {
        let directory = tempfile::tempdir().unwrap();
        let tree = tree(directory.path());
        let time = |file: &str| fs::metadata(tree.source.join(file)).unwrap().modified().unwrap();
        let before = time("kvm/b.c");
        fs::write(tree.source.join("include/a.h"), "A").unwrap();
        for part in &tree.originals {
            copy_changed(part, &tree.source).unwrap();
        }
        assert_eq!(time("kvm/b.c"), before);
        assert!(tree.changed().unwrap().is_empty());
    }
}
