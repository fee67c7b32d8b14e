//! The files of a package, where they lie on the host.

use crate::command::Tool;
use crate::paths;
use anyhow::{Context, Result};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The systemd unit of `serve`.
pub(crate) const UNIT: &str = include_str!("../../dist/memslot.service");
const DEFAULT: &str = include_str!("../../dist/memslot.default");
const COPYRIGHT: &str = include_str!("../../dist/copyright");

/// Completions by shell, and where each looks for them.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/memslot"),
    ("zsh", "usr/share/zsh/vendor-completions/_memslot"),
    ("fish", "usr/share/fish/vendor_completions.d/memslot.fish"),
];

/// Documents of the workspace, and where they go below `usr/share/doc/memslot`.
const DOCUMENTS: [(&str, &str); 6] = [
    ("README.md", "README.md"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("docs/grafana/memslot.json", "grafana/memslot.json"),
    ("docs/alerts/memslot.yml", "alerts/memslot.yml"),
    ("docs/fleet.md", "fleet.md"),
];

/// Puts everything below `root`.
pub(super) fn fill(root: &Path, memslot: &Path) -> Result<()> {
    let write = |path: &str, bytes: &[u8], mode: u32| -> Result<()> {
        let path = root.join(path);
        let folder = path.parent().context("a file without a folder")?;
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, bytes))
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
            .with_context(|| format!("cannot write {}", path.display()))
    };
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    write("usr/bin/memslot", &read(memslot)?, 0o755)?;
    // Names of functions stay, for backtraces; lines of source are four fifths of the file.
    Tool::new("strip").arg("--strip-debug").arg(root.join("usr/bin/memslot")).output()?;
    write("lib/systemd/system/memslot.service", UNIT.as_bytes(), 0o644)?;
    write("etc/default/memslot", DEFAULT.as_bytes(), 0o644)?;
    for (shell, path) in COMPLETIONS {
        write(path, &Tool::new(memslot).args(["generate", "completions", shell]).output()?, 0o644)?;
    }
    let workspace = paths::workspace();
    for (from, to) in DOCUMENTS {
        write(&format!("usr/share/doc/memslot/{to}"), &read(&workspace.join(from))?, 0o644)?;
    }
    write("usr/share/doc/memslot/copyright", COPYRIGHT.as_bytes(), 0o644)?;
    write("usr/share/doc/memslot/changelog", &read(&workspace.join("CHANGELOG.md"))?, 0o644)?;
    let generate = |what: &str, folder: &str| {
        fs::create_dir_all(root.join(folder)).with_context(|| format!("cannot create {folder}"))?;
        Tool::new(memslot).args(["generate", what, "--out"]).arg(root.join(folder)).output()
    };
    generate("man", "usr/share/man/man1")?;
    generate("schemas", "usr/share/doc/memslot/schema")?;
    // As Debian has them, and without the time, so that the same input makes the same package.
    for folder in ["usr/share/man/man1", "usr/share/doc/memslot/changelog"] {
        Tool::new("gzip").args(["--recursive", "--best", "--no-name"]).arg(root.join(folder)).output()?;
    }
    world_readable(root)
}

/// Files are made under whoever's umask builds.
fn world_readable(folder: &Path) -> Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            world_readable(&entry.path())?;
        } else {
            let executable = entry.metadata()?.permissions().mode() & 0o100;
            let mode = if executable == 0 { 0o644 } else { 0o755 };
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}
