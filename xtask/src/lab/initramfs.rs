//! Puts together what a guest boots into: busybox, the modules, our binary, the command and its files.

use super::cpio::Archive;
use super::modules::{Modules, module_name, read_module};
use crate::command::{find_program, quote};
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

const INIT: &str = include_str!("init.sh");

/// Needed before the guest can report anything; built into some kernels.
const TRANSPORT: [&str; 2] = ["virtio_pci", "virtio_console"];

/// Mount points and directories that `init.sh` expects.
const DIRECTORIES: [&str; 8] = ["bin", "dev", "proc", "sys", "tmp", "root", "out", "work"];

/// A module to load, with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Module {
    /// Its name.
    pub(crate) name: String,
    /// `NAME=VALUE` words, separated by spaces; may be empty.
    pub(crate) parameters: String,
}

/// A module that the kernel does not have, loaded after all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ForeignModule {
    /// Its file.
    pub(crate) file: PathBuf,
    /// `NAME=VALUE` words, separated by spaces; may be empty.
    pub(crate) parameters: String,
}

/// What goes into a guest.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    /// The kernel's `lib/modules/RELEASE`.
    pub(crate) modules: &'a Path,
    /// Modules that take the place of the kernel's own.
    pub(crate) replacements: &'a [PathBuf],
    /// What to load, in this order.
    pub(crate) load: &'a [Module],
    /// What to load afterwards.
    pub(crate) foreign: &'a [ForeignModule],
    /// The static `memslot`, if the guest needs it.
    pub(crate) memslot: Option<&'a Path>,
    /// Files and directories for the command's working directory.
    pub(crate) files: &'a [PathBuf],
    /// The command and its arguments.
    pub(crate) command: &'a [String],
}

/// Writes the initramfs; the same contents give the same bytes.
///
/// # Errors
/// When something that belongs in it is missing or cannot be read.
pub(crate) fn write(contents: &Contents<'_>, path: &Path) -> Result<()> {
    let archive = archive(contents)?;
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut out = BufWriter::new(file);
    // Uncompressed: the emulated machine would spend seconds on unpacking what the host's disk hardly notices.
    archive.write(&mut out)?;
    out.flush().with_context(|| format!("cannot write {}", path.display()))
}

fn archive(contents: &Contents<'_>) -> Result<Archive> {
    let mut archive = Archive::default();
    for directory in DIRECTORIES {
        archive.directory(directory);
    }
    archive.device("dev/console", 0o600, 5, 1);
    archive.bytes("init", 0o755, INIT.as_bytes().to_vec());
    archive.copy("bin/busybox", &static_busybox()?)?;
    if let Some(memslot) = contents.memslot {
        archive.copy("bin/memslot", memslot)?;
    }

    let mut modules = Modules::read(contents.modules)?;
    for file in contents.replacements {
        modules.replace(file)?;
    }
    let mut load = contents.load.to_vec();
    for module in contents.foreign {
        load.push(Module { name: modules.add_foreign(&module.file)?, parameters: module.parameters.clone() });
    }
    let transport = modules.load_order(TRANSPORT)?;
    let wanted = modules.load_order(load.iter().map(|module| module.name.as_str()))?;
    archive.bytes("lab/transport", 0o644, load_list(&transport, &[]).into_bytes());
    let wanted: Vec<PathBuf> = wanted.into_iter().filter(|file| !transport.contains(file)).collect();
    archive.bytes("lab/order", 0o644, load_list(&wanted, &load).into_bytes());
    for file in transport.iter().chain(&wanted) {
        archive.bytes(&format!("lab/modules/{}.ko", name_of(file)), 0o644, read_module(file)?);
    }

    archive.bytes("lab/command", 0o644, script(contents.command)?.into_bytes());
    for file in contents.files {
        let name = file.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{} has no usable file name", file.display()))?;
        archive.copy(&format!("work/{name}"), file)?;
    }
    Ok(archive)
}

fn name_of(file: &Path) -> String {
    module_name(&file.to_string_lossy())
}

/// One line a module: its file's name and its parameters.
fn load_list(files: &[PathBuf], load: &[Module]) -> String {
    let mut list = String::new();
    for file in files {
        let name = name_of(file);
        let parameters = load.iter().find(|module| module_name(&module.name) == name);
        list.push_str(&name);
        list.push_str(".ko ");
        list.push_str(parameters.map_or("", |module| &module.parameters));
        list.push('\n');
    }
    list
}

/// A shell script that becomes the command; every argument reaches it as it is.
fn script(command: &[String]) -> Result<String> {
    ensure!(!command.is_empty(), "there is no command to run in the guest");
    if command.iter().any(|word| word.contains('\0')) {
        bail!("an argument of the guest's command contains a zero byte");
    }
    let words: Vec<String> = command.iter().map(|word| quote(word)).collect();
    Ok(format!("exec {}\n", words.join(" ")))
}

fn static_busybox() -> Result<PathBuf> {
    let path = find_program("busybox").context("busybox is not installed; run `cargo xtask setup`")?;
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        is_static(&bytes),
        "{} needs shared libraries, the guest has none; run `cargo xtask setup` or install busybox-static",
        path.display()
    );
    Ok(path)
}

/// Whether an ELF program asks for no interpreter (`PT_INTERP`), that is, runs without shared libraries.
pub(crate) fn is_static(elf: &[u8]) -> bool {
    const INTERPRETER: u32 = 3;
    let number = |at: usize, size: usize| -> Option<usize> {
        let bytes = elf.get(at..at.checked_add(size)?)?;
        let mut value = [0; 8];
        value[..size].copy_from_slice(bytes);
        usize::try_from(u64::from_le_bytes(value)).ok()
    };
    let headers = || -> Option<bool> {
        // ELF64, little endian: e_phoff, e_phentsize, e_phnum.
        if elf.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let (start, size, count) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
        for index in 0..count {
            let kind = number(start.checked_add(index.checked_mul(size)?)?, 4)?;
            if u32::try_from(kind).ok()? == INTERPRETER {
                return Some(false);
            }
        }
        Some(true)
    };
    headers().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_go_to_their_own_module() {
        let load = [Module { name: "vhost".into(), parameters: "max_mem_regions=4096".into() }];
        let files = [PathBuf::from("/m/vhost_iotlb.ko.xz"), PathBuf::from("/m/vhost.ko.xz")];
        assert_eq!(load_list(&files, &load), "vhost_iotlb.ko \nvhost.ko max_mem_regions=4096\n");
    }

    #[test]
    fn arguments_reach_the_command_as_they_are() {
        let words = ["printf", "[%s]", "a b", "it's", "two\nlines", "$HOME", ""].map(str::to_owned);
        let printed = crate::command::Tool::new("sh").arg("-c").arg(script(&words).unwrap()).text().unwrap();
        assert_eq!(printed, "[a b][it's][two\nlines][$HOME][]");
        assert!(script(&[]).is_err());
        assert!(script(&["a\0b".to_owned()]).is_err());
    }

    #[test]
    fn static_programs_are_told_from_dynamic_ones() {
        assert!(!is_static(&std::fs::read("/bin/sh").unwrap()));
        assert!(!is_static(b"#!/bin/sh\n"));
        assert!(!is_static(b"\x7fELF\x02\x01"));
        // A header with one program header of kind PT_LOAD.
        let mut elf = vec![0; 64 + 56];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = 1;
        elf[64] = 1;
        assert!(is_static(&elf));
        elf[64] = 3;
        assert!(!is_static(&elf));
    }
}
