//! The only place that submits a record or counts one as lost.

use crate::account::{self, Row};
use aya_ebpf::{bindings::BPF_RB_NO_WAKEUP, macros::map, maps::RingBuf};
use memslot_common::account::count;

/// The user side sets the size when it loads the object.
#[map]
static EVENTS: RingBuf = RingBuf::with_byte_size(1 << 24, 0);

/// Hands a record to the user side, which polls: waking it would cost the probed path an interrupt.
#[inline(always)]
fn output<T: 'static>(record: &T) -> bool {
    EVENTS.output::<T>(record, u64::from(BPF_RB_NO_WAKEUP)).is_ok()
}

/// Submits a record; false, and counted, where the ring was full.
#[inline(always)]
pub fn emit<T: 'static>(probe: u32, subject: u32, record: &T) -> bool {
    let emitted = output(record);
    account::add(probe, subject, if emitted { count::EMITTED } else { count::RING_FULL });
    emitted
}

/// Submits a measured call's event, counted in its row.
#[inline(always)]
pub fn emit_event<T: 'static>(row: &Row, event: &T) {
    row.add(if output(event) { count::EMITTED } else { count::RING_FULL });
}
