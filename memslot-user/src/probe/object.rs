//! The probes' object file, inside this program.

use aya_obj::generated::bpf_insn;

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
