//! The probes' object file, inside this program.

use super::AttachError;
use aya::{
    Ebpf,
    maps::{Map, MapData},
};
use aya_obj::{
    Object,
    generated::{BPF_ALU64, BPF_CALL, BPF_JMP, BPF_K, BPF_MOV, BPF_PSEUDO_KFUNC_CALL, bpf_insn},
};
use memslot_common::settings::kfunc;
use std::{
    collections::HashSet,
    mem,
    os::fd::{AsFd, AsRawFd, RawFd},
};

#[cfg(memslot_probes)]
static OBJECT: &[u8] = aya::include_bytes_aligned!(env!("MEMSLOT_EBPF_OBJECT"));

#[expect(clippy::cast_possible_truncation, reason = "an opcode and a register number")]
const MOVE: u8 = (BPF_ALU64 | BPF_MOV | BPF_K) as u8;
#[expect(clippy::cast_possible_truncation, reason = "likewise")]
const CALL_KERNEL: u8 = BPF_PSEUDO_KFUNC_CALL as u8;

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

/// Calls the kernel's own functions where the programs call the helpers that stand for them ([`kfunc`]). A kernel that
/// lacks one gets nothing in its place: the programs do not come by there.
fn call_kernel(instructions: &mut [bpf_insn], rdonly_cast: Option<u32>) {
    let stands_for = |instruction: &bpf_insn| {
        let call = u32::from(instruction.code) == BPF_JMP | BPF_CALL && instruction.src_reg() == 0;
        call && usize::try_from(instruction.imm) == Ok(kfunc::RDONLY_CAST)
    };
    for instruction in instructions.iter_mut().filter(|instruction| stands_for(instruction)) {
        match rdonly_cast.and_then(|id| i32::try_from(id).ok()) {
            Some(id) => {
                instruction.set_src_reg(CALL_KERNEL);
                instruction.imm = id;
            }
            None => {
                // r0 = 0
                instruction.code = MOVE;
                instruction.imm = 0;
            }
        }
    }
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

/// The object's instructions, relocated to the maps that aya made, and to the kernel's `bpf_rdonly_cast`, if it has one.
pub(super) fn relocated(bytes: &[u8], ebpf: &Ebpf, rdonly_cast: Option<u32>) -> Result<Object, AttachError> {
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
    for function in object.functions.values_mut() {
        call_kernel(&mut function.instructions, rdonly_cast);
    }
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(imm: i32) -> bpf_insn {
        bpf_insn {
            code: 0x85,
            _bitfield_align_1: [],
            _bitfield_1: bpf_insn::new_bitfield_1(0, 0),
            off: 0,
            imm,
        }
    }

    #[test]
    fn only_what_stands_for_a_kernel_function_is_replaced() {
        let stands_for = i32::try_from(kfunc::RDONLY_CAST).unwrap();
        let mut known = [call(5), call(stands_for)];
        call_kernel(&mut known, Some(0x1234));
        assert_eq!((known[0].imm, known[0].src_reg()), (5, 0));
        assert_eq!((known[1].imm, known[1].src_reg(), known[1].code), (0x1234, 2, 0x85));
        let mut lacking = [call(5), call(stands_for)];
        call_kernel(&mut lacking, None);
        assert_eq!((lacking[0].imm, lacking[0].code), (5, 0x85));
        assert_eq!((lacking[1].imm, lacking[1].code, lacking[1].src_reg()), (0, 0xb7, 0));
    }
}
