//! The probes: what runs inside the kernel.
//!
//! Each probed function has an entry and a return program, as fentry/fexit and as kprobe/kretprobe;
//! both kinds share one body. A body reads the kernel through [`kernel`], keeps what the return
//! needs in the task's own storage ([`task`], [`flight`]), counts in [`account`] and hands the finished call
//! to [`measured`].
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]

mod account;
mod atomic;
mod emit;
mod flight;
mod frame;
mod histogram;
mod kernel;
mod measured;
mod probe;
mod sample;
mod subject;
mod task;
mod words;

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
