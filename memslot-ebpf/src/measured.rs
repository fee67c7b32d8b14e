//! What becomes of a call that has returned: filtered out, counted in the histogram, and an event or not.

use crate::{account::Row, emit::emit_event, flight::Took, histogram, kernel::setting, sample};
use memslot_common::{
    account::count,
    histogram::{Key, bucket_of, clock},
};

/// A call that has returned.
pub struct Measured {
    pub probe: u32,
    pub subject: u32,
    /// One of `histogram::kind`.
    pub kind: u32,
    /// Search length as the histogram's keys have it.
    pub visited: u32,
    pub took: Took,
    /// No filter asks for others.
    pub wanted: bool,
}

impl Measured {
    /// Counts the call and submits its event, where one is asked for.
    #[inline(always)]
    pub fn deliver<T: 'static>(&self, row: &Row, event: &T) {
        if !self.wanted || self.took.wall < setting!(filter_min_latency) {
            row.add(count::FILTERED);
            return;
        }
        if !self.count() {
            row.add(count::HISTOGRAM_FULL);
        }
        if sample::chosen() {
            emit_event(row, event);
        } else {
            row.add(count::NOT_SAMPLED);
        }
    }

    #[inline(always)]
    fn count(&self) -> bool {
        let Took { wall, on_cpu } = self.took;
        if wall == on_cpu {
            return self.add(clock::BOTH, wall);
        }
        // Not `&&`: one that has no place in the one histogram may have it in the other.
        self.add(clock::WALL, wall) & self.add(clock::ON_CPU, on_cpu)
    }

    #[inline(always)]
    fn add(&self, clock: u32, value: u64) -> bool {
        let key = Key {
            subject: self.subject,
            probe: self.probe,
            kind: self.kind,
            clock,
            visited: self.visited,
            bucket: bucket_of(value),
        };
        histogram::add(key.pack(), value, setting!(histogram_mask))
    }
}
