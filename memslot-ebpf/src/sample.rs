//! Which calls become events: none, every one, or one in N at random.

use crate::kernel::setting;
use aya_ebpf::{helpers::generated::bpf_get_prandom_u32, macros::map, maps::PerCpuArray};

/// Calls on this CPU until the next one that becomes an event, that one included; 0 = not drawn yet.
#[map]
static NEXT_SAMPLE: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);

/// A number from 1 to 2N - 1, each as likely: N on average, and no period of the calls can keep step with it.
#[inline(always)]
fn draw(every: u32) -> u64 {
    // SAFETY: the helper has no arguments and no effect.
    let random = unsafe { bpf_get_prandom_u32() };
    1 + u64::from(random % (2 * every - 1))
}

/// Does this call become an event?
#[inline(always)]
pub fn chosen() -> bool {
    let every = setting!(sample_every);
    if every < 2 {
        return every == 1;
    }
    let Some(next) = NEXT_SAMPLE.get_ptr_mut(0) else { return false };
    // SAFETY: the verifier knows the pointer as a live map value of this CPU.
    let Some(next) = (unsafe { next.as_mut() }) else { return false };
    if *next == 0 {
        // We come upon a run of gaps in its midst: a short rest is likelier than a long one.
        *next = draw(every).min(draw(every));
    }
    if *next > 1 {
        *next -= 1;
        return false;
    }
    *next = draw(every);
    true
}
