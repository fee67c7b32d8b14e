//! The probes' object file, inside this program.

use super::AttachError;
use aya::{
    Ebpf,
    maps::{Map, MapData},
};
use aya_obj::{Object, generated::bpf_insn};
use std::{
    collections::HashSet,
    mem,
    os::fd::{AsFd, AsRawFd, RawFd},
};

#[cfg(memslot_probes)]
static OBJECT: &[u8] = aya::include_bytes_aligned!(env!("MEMSLOT_EBPF_OBJECT"));

/// The object file; `None` in a build without it, which can do everything but probe.
#[must_use]
pub(super) fn bytes() -> Option<&'static [u8]> {
    #[cfg(memslot_probes)]
    return Some(OBJECT);
    #[cfg(not(memslot_probes))]
    None
}

/// Instructions in the kernel's form (`struct bpf_insn`, 8 bytes, this machine's byte order).
pub(super) fn instruction_bytes(instructions: &[bpf_insn]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(instructions.len() * 8);
    for instruction in instructions {
        bytes.push(instruction.code);
        bytes.push(instruction.dst_reg() | instruction.src_reg() << 4);
        bytes.extend(instruction.off.to_ne_bytes());
        bytes.extend(instruction.imm.to_ne_bytes());
    }
    bytes
}

fn map_fd(map: &Map) -> Option<RawFd> {
    let data: &MapData = match map {
        Map::Array(data)
        | Map::PerCpuArray(data)
        | Map::LruHashMap(data)
        | Map::HashMap(data)
        | Map::Queue(data)
        | Map::RingBuf(data)
        | Map::Unsupported(data) => data,
        _ => return None,
    };
    Some(data.fd().as_fd().as_raw_fd())
}

/// The object's instructions, relocated to the maps that aya made.
pub(super) fn relocated(bytes: &[u8], ebpf: &Ebpf) -> Result<Object, AttachError> {
    let damaged = |error: &dyn std::fmt::Display| AttachError::Object(error.to_string());
    let mut object = Object::parse(bytes).map_err(|error| damaged(&error))?;
    let maps = mem::take(&mut object.maps);
    let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
    let mut fds = Vec::new();
    for (name, map) in &maps {
        // A map that is missing here would silently be replaced by another of the same section.
        let fd = ebpf.map(name).and_then(map_fd).ok_or_else(|| damaged(&format!("map {name} is missing")))?;
        fds.push((name.as_str(), fd, map));
    }
    object.relocate_maps(fds.into_iter(), &text).map_err(|error| damaged(&error))?;
    object.relocate_calls(&text).map_err(|error| damaged(&error))?;
    Ok(object)
}
