//! The probes: what runs inside the kernel.
//!
//! Each probed function has an entry and a return program, as fentry/fexit and as kprobe/kretprobe;
//! both kinds share one body. A body reads the kernel through [`kernel`], keeps what the return
//! needs in the task's own storage ([`task`]), counts in [`account`] and submits through [`emit`].
#![no_std]
#![no_main]

mod account;
mod emit;
mod kernel;
mod probe;
mod task;

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
