//! The distribution's own modules, patched.

use super::{make, tree::Tree};
use crate::command::Tool;
use crate::lab::Series;
use crate::{paths, setup};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// What was asked for; written into the finished directory, which is taken again only if it would be the same.
pub(super) const KEY: &str = "built-from";

/// Modules that are built together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Group {
    /// drivers/vhost
    Vhost,
    /// arch/x86/kvm and virt
    Kvm,
}

impl Group {
    const ALL: [Self; 2] = [Self::Vhost, Self::Kvm];

    fn name(self) -> &'static str {
        match self {
            Self::Vhost => "vhost",
            Self::Kvm => "kvm",
        }
    }

    /// Where make builds them.
    fn directory(self) -> &'static str {
        match self {
            Self::Vhost => "drivers/vhost",
            Self::Kvm => "arch/x86/kvm",
        }
    }

    /// Whether a source file belongs to these modules alone.
    fn owns(self, file: &Path) -> bool {
        file.starts_with(self.directory()) || (self == Self::Kvm && file.starts_with("virt"))
    }
}

/// How the source is changed.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// A patch from the kernel's root (`-p1`).
    Patch(PathBuf),
    /// A script that runs in the kernel's root.
    Edit(PathBuf),
    /// Not at all: shows what another compilation alone changes.
    None,
}

impl Change {
    fn file(&self) -> Option<&Path> {
        match self {
            Self::Patch(file) | Self::Edit(file) => Some(file),
            Self::None => None,
        }
    }

    fn name(&self) -> String {
        let stem = self.file().and_then(Path::file_stem);
        stem.map_or_else(|| "unchanged".to_owned(), |stem| stem.to_string_lossy().into_owned())
    }

    fn apply(&self, tree: &Tree) -> Result<()> {
        match self {
            Self::Patch(file) => patch(file, &tree.source),
            Self::Edit(file) => {
                let is_program = fs::metadata(file).is_ok_and(|data| data.permissions().mode() & 0o111 != 0);
                let script = std::path::absolute(file)?;
                let tool = if is_program { Tool::new(script) } else { Tool::new("sh").arg("-e").arg(script) };
                tool.directory(&tree.source)
                    .remedy("It runs in the root of the kernel's source.")
                    .output()
                    .map(drop)
            }
            Self::None => Ok(()),
        }
    }
}

fn patch(file: &Path, tree: &Path) -> Result<()> {
    let rejects = tempfile::NamedTempFile::new().context("no temporary file")?;
    let (code, said, complaints) = Tool::new("patch")
        .args(["-p1", "--forward", "--batch", "--no-backup-if-mismatch", "--directory"])
        .arg(tree)
        .arg("--reject-file")
        .arg(rejects.path())
        .arg("--input")
        .arg(std::path::absolute(file)?)
        .answer()?;
    if code == 0 {
        for line in said.lines().filter(|line| line.contains("fuzz") || line.contains("offset")) {
            eprintln!("xtask: {}: {line}", file.display());
        }
        return Ok(());
    }
    let rejected = fs::read_to_string(rejects.path()).unwrap_or_default();
    bail!(
        "{} does not apply to this kernel (only KVM, vhost and headers are there to be patched); patch says:\n{said}\n\
         {complaints}{}",
        file.display(),
        if rejected.is_empty() { String::new() } else { format!("\nWhat was rejected:\n{rejected}") }
    )
}

/// Builds the modules of `series` that a change affects; the directory comes back, ready for `SERIES+DIR`.
///
/// # Errors
/// When the change does not apply or changes nothing, or what the compiler complained of.
pub(super) fn build(
    series: Series,
    change: &Change,
    group: Option<Group>,
    out: Option<&Path>,
) -> Result<PathBuf> {
    setup::ensure_for_modules(series, true)?;
    let content = match change.file() {
        Some(file) => fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?,
        None => String::new(),
    };
    let group_name = group.map_or("by what changes", Group::name);
    let key = format!("{}{group_name}\n{change:?}\n{content}", make::environment(series)?);
    let name = format!("{}-{}-{:08x}", series.name(), change.name(), crc32fast::hash(key.as_bytes()));
    let out = out.map_or_else(|| paths::lab().join("modules").join(name), Path::to_owned);
    if fs::read_to_string(out.join(KEY)).is_ok_and(|built| built == key) {
        return Ok(out);
    }

    let tree = Tree::pristine(series)?;
    change.apply(&tree)?;
    let changed = tree.changed()?;
    ensure!(
        !changed.is_empty() || matches!(change, Change::None),
        "{} changes nothing in the source of {}",
        change.name(),
        series.name()
    );
    let groups = groups(group, &changed)?;
    let mut modules = Vec::new();
    for group in groups {
        let what = format!("{} for {}", group.name(), series.name());
        make::modules(&what, &tree.build, &tree.source.join(group.directory()))?;
        modules.extend(match change {
            Change::None => tree.modules(Path::new(group.directory()))?,
            Change::Patch(_) | Change::Edit(_) => tree.built_from(group.directory(), &changed)?,
        });
    }
    ensure!(!modules.is_empty(), "no module is compiled from what {} changes", change.name());

    // The key comes last: a directory without it is not finished.
    clear(&out)?;
    for module in &modules {
        make::take(module, &out)?;
    }
    fs::write(out.join(KEY), key).with_context(|| format!("cannot write to {}", out.display()))?;
    Ok(out)
}

/// The modules to build: those asked for, else those whose files are changed.
fn groups(asked: Option<Group>, changed: &BTreeSet<PathBuf>) -> Result<Vec<Group>> {
    if let Some(group) = asked {
        return Ok(vec![group]);
    }
    let groups: Vec<Group> =
        Group::ALL.into_iter().filter(|group| changed.iter().any(|file| group.owns(file))).collect();
    ensure!(
        !groups.is_empty(),
        "say which modules to build, vhost or kvm: only headers are changed, or nothing"
    );
    Ok(groups)
}

/// An empty directory for modules. One that holds anything else is not ours to empty.
pub(super) fn clear(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        ensure!(
            path.extension().is_some_and(|extension| extension == "ko") || path.ends_with(KEY),
            "{} holds more than modules ({}); name an empty directory",
            directory.display(),
            path.display()
        );
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_says_what_to_build() {
        let set = |files: &[&str]| files.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
        assert_eq!(groups(None, &set(&["drivers/vhost/iotlb.c"])).unwrap(), [Group::Vhost]);
        assert_eq!(groups(None, &set(&["virt/kvm/kvm_main.c", "drivers/vhost/net.c"])).unwrap(), Group::ALL);
        assert_eq!(groups(Some(Group::Kvm), &set(&["include/linux/kvm_host.h"])).unwrap(), [Group::Kvm]);
        assert!(
            groups(None, &set(&["include/linux/kvm_host.h"])).unwrap_err().to_string().contains("say which")
        );
    }

    #[test]
    fn a_patch_that_does_not_apply_shows_what_was_rejected() {
        if crate::command::find_program("patch").is_none() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let tree = directory.path().join("tree");
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join("a.c"), "one\ntwo\nthree\n").unwrap();
        let file = directory.path().join("x.patch");
        let text = |old: &str| format!("--- a/a.c\n+++ b/a.c\n@@ -1,3 +1,3 @@\n one\n-{old}\n+TWO\n three\n");
        fs::write(&file, text("zwei")).unwrap();
        let said = patch(&file, &tree).unwrap_err().to_string();
        assert!(said.contains("does not apply") && said.contains("-zwei"), "{said}");
        fs::write(&file, text("two")).unwrap();
        patch(&file, &tree).unwrap();
        assert_eq!(fs::read_to_string(tree.join("a.c")).unwrap(), "one\nTWO\nthree\n");
    }

    #[test]
    fn only_directories_of_modules_are_emptied() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("kvm.ko"), "").unwrap();
        clear(directory.path()).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        fs::write(directory.path().join("letter"), "").unwrap();
        assert!(clear(directory.path()).unwrap_err().to_string().contains("more than modules"));
    }
}
