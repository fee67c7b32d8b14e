//! Which call an entry or a return belongs to.

use aya_ebpf::{
    EbpfContext,
    programs::{ProbeContext, RetProbeContext},
};

/// For fentry and fexit: the address of the arguments in the trampoline's own frame, which the entry and
/// the return of a call share.
#[inline(always)]
pub fn of_trampoline<C: EbpfContext>(context: &C) -> u64 {
    context.as_ptr() as u64
}

/// For a kprobe: the stack pointer, which is at the return address.
#[inline(always)]
pub fn at_entry(context: &ProbeContext) -> u64 {
    // SAFETY: the context of a kprobe is a `struct pt_regs`.
    unsafe { (*context.regs).rsp }
}

/// For a kretprobe: the stack pointer that the function's entry had; the return has popped its address.
#[inline(always)]
pub fn at_return(context: &RetProbeContext) -> u64 {
    // SAFETY: the context of a kretprobe is a `struct pt_regs`.
    unsafe { (*context.regs).rsp.wrapping_sub(8) }
}
