//! Reads a bzImage: what kernel it says it is, and the `vmlinux` packed in it.
//!
//! The layout is that of Documentation/arch/x86/boot.rst, "The real-mode kernel header".

use crate::command::Tool;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::Path;

/// `setup_sects`: 512-byte sectors before the protected-mode part, less the first.
const SETUP_SECTORS: usize = 0x1f1;
/// `HdrS`
const MAGIC: usize = 0x202;
/// `kernel_version`: where its text stands, less 0x200.
const VERSION: usize = 0x20e;
/// `payload_offset` into the protected-mode part, then `payload_length`.
const PAYLOAD: usize = 0x248;

/// How each way of packing begins, and the program that unpacks it.
const PACKERS: [(&[u8], &str); 4] = [
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x1f\x8b", "gzip"),
    (b"\x02\x21\x4c\x18", "lz4"),
];

/// Release, builder and version, as `file` prints them too.
///
/// # Errors
/// When the file is no bzImage.
pub(crate) fn banner(image: &Path) -> Result<String> {
    let bytes = read(image)?;
    let text = || {
        let start = number(&bytes, VERSION, 2)?.checked_add(0x200)?;
        let end = bytes.get(start..)?.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&bytes[start..start + end]).into_owned())
    };
    text().with_context(|| format!("{} does not say what kernel it is", image.display()))
}

/// The ELF file that the bzImage unpacks when it boots, BTF included.
///
/// # Errors
/// When the file is no bzImage, or is packed in an unknown way.
pub(crate) fn extract(image: &Path) -> Result<Vec<u8>> {
    let bytes = read(image)?;
    let payload = || {
        // Zero stands for four.
        let sectors = match number(&bytes, SETUP_SECTORS, 1)? {
            0 => 4,
            sectors => sectors,
        };
        let start = (sectors + 1) * 512 + number(&bytes, PAYLOAD, 4)?;
        bytes.get(start..start.checked_add(number(&bytes, PAYLOAD + 4, 4)?)?)
    };
    let payload = payload().with_context(|| format!("{} is cut off", image.display()))?;
    let Some((_, packer)) = PACKERS.iter().find(|(magic, _)| payload.starts_with(magic)) else {
        bail!("{} is packed in a way that is not known here", image.display());
    };
    // Behind all but gzip's data stands the size of the unpacked kernel, which the unpackers would take for garbage.
    let packed = if *packer == "gzip" { payload } else { &payload[..payload.len().saturating_sub(4)] };
    let file = tempfile::NamedTempFile::new().context("no temporary file")?;
    fs::write(file.path(), packed).context("cannot write a temporary file")?;
    let vmlinux = Tool::new("sh")
        .args(["-c", "exec \"$0\" -d -c <\"$1\"", packer])
        .arg(file.path())
        .remedy(format!("Install {packer}: {} is packed by it.", image.display()))
        .output()?;
    ensure!(vmlinux.starts_with(b"\x7fELF"), "{} does not hold an ELF kernel", image.display());
    Ok(vmlinux)
}

fn read(image: &Path) -> Result<Vec<u8>> {
    let bytes = fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
    ensure!(bytes.get(MAGIC..MAGIC + 4) == Some(b"HdrS"), "{} is no bzImage", image.display());
    Ok(bytes)
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let mut value = [0; 8];
    value[..size].copy_from_slice(bytes.get(at..at + size)?);
    usize::try_from(u64::from_le_bytes(value)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bzimage_tells_what_it_is_and_gives_its_kernel_back() {
        let Some(gzip) = crate::command::find_program("gzip") else { return };
        let directory = tempfile::tempdir().unwrap();
        let (elf, image) = (directory.path().join("elf"), directory.path().join("bzImage"));
        fs::write(&elf, b"\x7fELF and the rest").unwrap();
        let packed = Tool::new(gzip).arg("-c").arg(&elf).output().unwrap();
        let mut bytes = vec![0; 0x400 + 16];
        bytes[SETUP_SECTORS] = 1;
        bytes[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        bytes[VERSION..VERSION + 2].copy_from_slice(&0x100_u16.to_le_bytes());
        bytes[0x300..0x30d].copy_from_slice(b"6.1 Debian 7\0");
        bytes[PAYLOAD..PAYLOAD + 4].copy_from_slice(&16_u32.to_le_bytes());
        bytes[PAYLOAD + 4..PAYLOAD + 8].copy_from_slice(&u32::try_from(packed.len()).unwrap().to_le_bytes());
        bytes.extend(&packed);
        fs::write(&image, &bytes).unwrap();
        assert_eq!(banner(&image).unwrap(), "6.1 Debian 7");
        assert_eq!(extract(&image).unwrap(), b"\x7fELF and the rest");
        fs::write(&image, &bytes[..bytes.len() - 1]).unwrap();
        assert!(extract(&image).unwrap_err().to_string().contains("cut off"));
        assert!(banner(&elf).unwrap_err().to_string().contains("no bzImage"));
    }
}
