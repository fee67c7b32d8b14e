//! Writes the "newc" cpio archive that the kernel unpacks as its initramfs.
//!
//! The same entries give the same bytes: names are sorted, owners, times and inode numbers are ours. The exact
//! mode needs that, and the format is what `init/initramfs.c` (`parse_header`) reads.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The bits of a mode that say what an entry is.
const FORMAT: u32 = 0o170_000;
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const CHARACTER_DEVICE: u32 = 0o020_000;

#[derive(Debug)]
enum Content {
    Nothing,
    Bytes(Vec<u8>),
    File(PathBuf),
    Device { major: u32, minor: u32 },
}

#[derive(Debug)]
struct Entry {
    mode: u32,
    content: Content,
}

/// An archive in the making; directories above an entry come by themselves.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    // A parent sorts before its children, which is the order that the kernel needs.
    entries: BTreeMap<String, Entry>,
}

impl Archive {
    /// Adds a directory.
    pub(crate) fn directory(&mut self, name: &str) {
        self.insert(name, DIRECTORY | 0o755, Content::Nothing);
    }

    /// Adds a file with the given content.
    pub(crate) fn bytes(&mut self, name: &str, permissions: u32, bytes: Vec<u8>) {
        self.insert(name, FILE | permissions, Content::Bytes(bytes));
    }

    /// Adds a copy of the host's `path`, a directory with all that is in it.
    ///
    /// # Errors
    /// When the path cannot be read or is neither a file nor a directory.
    pub(crate) fn copy(&mut self, name: &str, path: &Path) -> Result<()> {
        let data = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if data.is_dir() {
            self.directory(name);
            let children = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
            for child in children {
                let child = child?;
                let file_name = child.file_name();
                let Some(file_name) = file_name.to_str() else {
                    bail!("{} has a name that is not UTF-8; rename it", child.path().display());
                };
                self.copy(&format!("{name}/{file_name}"), &child.path())?;
            }
        } else if data.is_file() {
            let permissions = if data.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 };
            self.insert(name, FILE | permissions, Content::File(path.to_owned()));
        } else {
            bail!("{} is neither a file nor a directory", path.display());
        }
        Ok(())
    }

    /// Adds a character device.
    pub(crate) fn device(&mut self, name: &str, permissions: u32, major: u32, minor: u32) {
        self.insert(name, CHARACTER_DEVICE | permissions, Content::Device { major, minor });
    }

    fn insert(&mut self, name: &str, mode: u32, content: Content) {
        let mut above = Path::new(name).parent();
        while let Some(parent) = above.and_then(Path::to_str).filter(|parent| !parent.is_empty()) {
            self.entries
                .entry(parent.to_owned())
                .or_insert(Entry { mode: DIRECTORY | 0o755, content: Content::Nothing });
            above = Path::new(parent).parent();
        }
        self.entries.insert(name.to_owned(), Entry { mode, content });
    }

    /// Writes the archive.
    ///
    /// # Errors
    /// When a file cannot be read, is too large for the format (4 GiB), or `out` cannot be written.
    pub(crate) fn write(&self, out: &mut impl Write) -> Result<()> {
        for (inode, (name, entry)) in (1_u32..).zip(&self.entries) {
            match &entry.content {
                Content::Nothing => write_entry(out, inode, name, entry.mode, &[], (0, 0))?,
                Content::Bytes(bytes) => write_entry(out, inode, name, entry.mode, bytes, (0, 0))?,
                Content::Device { major, minor } => {
                    write_entry(out, inode, name, entry.mode, &[], (*major, *minor))?;
                }
                Content::File(path) => {
                    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
                    write_entry(out, inode, name, entry.mode, &bytes, (0, 0))?;
                }
            }
        }
        write_entry(out, 0, "TRAILER!!!", 0, &[], (0, 0))
    }
}

fn write_entry(
    out: &mut impl Write,
    inode: u32,
    name: &str,
    mode: u32,
    content: &[u8],
    (major, minor): (u32, u32),
) -> Result<()> {
    let size = u32::try_from(content.len())
        .with_context(|| format!("{name} is too large for an initramfs (4 GiB at most)"))?;
    let links = if mode & FORMAT == DIRECTORY { 2 } else { 1 };
    let name_size = name.len() + 1;
    let mut header = String::from("070701");
    // inode, mode, uid, gid, nlink, mtime, filesize, device major and minor, rdev major and minor, namesize, check
    let name_field = u32::try_from(name_size).context("a file's name is too long")?;
    for field in [inode, mode, 0, 0, links, 0, size, 0, 0, major, minor, name_field, 0] {
        use std::fmt::Write as _;
        write!(header, "{field:08x}")?;
    }
    out.write_all(header.as_bytes())?;
    out.write_all(name.as_bytes())?;
    out.write_all(&[0])?;
    pad(out, header.len() + name_size)?;
    out.write_all(content)?;
    pad(out, content.len())
}

fn pad(out: &mut impl Write, written: usize) -> Result<()> {
    Ok(out.write_all(&[0; 3][..written.wrapping_neg() % 4])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Tool, find_program};

    fn example(directory: &Path) -> Archive {
        fs::create_dir_all(directory.join("tree/deep")).unwrap();
        fs::write(directory.join("tree/deep/file"), b"from the host").unwrap();
        fs::write(directory.join("tree/run"), b"#!/bin/sh\n").unwrap();
        fs::set_permissions(directory.join("tree/run"), fs::Permissions::from_mode(0o700)).unwrap();
        let mut archive = Archive::default();
        archive.bytes("a/b/odd", 0o640, b"12345".to_vec());
        archive.bytes("a/empty", 0o644, Vec::new());
        archive.directory("z");
        archive.copy("a/tree", &directory.join("tree")).unwrap();
        archive
    }

    #[test]
    fn cpio_unpacks_what_was_written() {
        if find_program("cpio").is_none() {
            // The layout is also checked, without cpio, below.
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let mut file = fs::File::create(directory.path().join("archive")).unwrap();
        example(directory.path()).write(&mut file).unwrap();
        fs::create_dir(directory.path().join("out")).unwrap();
        Tool::new("cpio")
            .args(["--extract", "--quiet", "--file", "../archive"])
            .directory(directory.path().join("out"))
            .output()
            .unwrap();
        let read = |name: &str| fs::read(directory.path().join("out").join(name)).unwrap();
        assert_eq!(read("a/b/odd"), b"12345");
        assert_eq!(read("a/empty"), b"");
        assert_eq!(read("a/tree/deep/file"), b"from the host");
        let mode = |name: &str| {
            fs::metadata(directory.path().join("out").join(name)).unwrap().permissions().mode() & 0o777
        };
        assert_eq!(mode("a/b/odd"), 0o640);
        assert_eq!(mode("a/tree/run"), 0o755);
        assert!(directory.path().join("out/z").is_dir());
    }

    /// Reads names, modes and contents back as `parse_header` does.
    fn parse(bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        let mut at = 0;
        loop {
            let header = std::str::from_utf8(&bytes[at..at + 110]).unwrap();
            assert_eq!(&header[..6], "070701");
            let field = |i: usize| u32::from_str_radix(&header[6 + 8 * i..14 + 8 * i], 16).unwrap();
            let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
            assert_eq!(field(5), 0, "times must not differ between archives");
            let name = std::str::from_utf8(&bytes[at + 110..at + 110 + name_size - 1]).unwrap().to_owned();
            assert_eq!(bytes[at + 110 + name_size - 1], 0);
            let start = (at + 110 + name_size).next_multiple_of(4);
            at = (start + size).next_multiple_of(4);
            if name == "TRAILER!!!" {
                assert_eq!(at, bytes.len());
                return entries;
            }
            entries.push((name, mode, bytes[start..start + size].to_vec()));
        }
    }

    #[test]
    fn parents_come_first_and_nothing_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = Vec::new();
        example(directory.path()).write(&mut bytes).unwrap();
        let entries = parse(&bytes);
        let names: Vec<&str> = entries.iter().map(|(name, ..)| name.as_str()).collect();
        let expected = [
            "a",
            "a/b",
            "a/b/odd",
            "a/empty",
            "a/tree",
            "a/tree/deep",
            "a/tree/deep/file",
            "a/tree/run",
            "z",
        ];
        assert_eq!(names, expected);
        assert_eq!(entries[2], ("a/b/odd".to_owned(), 0o100_640, b"12345".to_vec()));
        assert_eq!(entries[6].2, b"from the host");
        assert_eq!(entries[0].1, 0o040_755);
    }

    #[test]
    fn the_order_of_adding_does_not_show() {
        let mut one = Archive::default();
        one.bytes("x", 0o644, b"x".to_vec());
        one.device("dev/console", 0o600, 5, 1);
        let mut other = Archive::default();
        other.device("dev/console", 0o600, 5, 1);
        other.bytes("x", 0o644, b"x".to_vec());
        let bytes = |archive: &Archive| {
            let mut bytes = Vec::new();
            archive.write(&mut bytes).unwrap();
            bytes
        };
        assert_eq!(bytes(&one), bytes(&other));
    }

    #[test]
    fn a_missing_file_is_named() {
        let message = Archive::default().copy("x", Path::new("/no/such/file")).unwrap_err().to_string();
        assert_eq!(message, "cannot read /no/such/file");
    }
}
