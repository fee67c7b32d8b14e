//! The only place that submits a record or counts one as lost.

use crate::account;
use aya_ebpf::{bindings::BPF_RB_NO_WAKEUP, macros::map, maps::RingBuf};
use memslot_common::account::count;

/// The user side sets the size when it loads the object.
#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(1 << 24, 0);

/// Hands a record to the user side, which polls: waking it would cost the probed path an interrupt.
/// False, and counted, where the ring was full.
#[inline(always)]
pub fn emit<T: 'static>(probe: u32, record: &T) -> bool {
    let emitted = EVENTS.output::<T>(record, u64::from(BPF_RB_NO_WAKEUP)).is_ok();
    account::add(probe, if emitted { count::EMITTED } else { count::RING_FULL });
    emitted
}
