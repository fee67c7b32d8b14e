//! What became of the calls of a probed function: counters that must add up.

use serde::{Deserialize, Serialize};

/// Defines the account with its sums and differences, so that no counter is forgotten in one of them.
macro_rules! account {
    ($( $(#[$meta:meta])* $field:ident, )*) => {
        /// The counters of one probed function, summed over CPUs. Names as in `memslot_common::account`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
        #[serde(default)]
        pub struct Account { $( $(#[$meta])* pub $field: u64, )* }

        impl Account {
            /// Adds another's counters.
            pub fn add(&mut self, other: &Self) {
                $( self.$field += other.$field; )*
            }

            /// What came since an earlier reading of the same counters.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $( $field: self.$field.saturating_sub(earlier.$field), )* }
            }
        }
    };
}

account! {
    /// Entries seen.
    entries,
    /// Of them: put on record, to be matched with their return.
    begun,
    /// Returns seen.
    returns,
    /// Returns that were matched with their entry.
    finished,
    /// Events handed to the ring buffer.
    emitted,
    /// Events lost because the ring buffer was full.
    ring_full,
    /// Calls of which the mode asks for no event; no loss.
    not_sampled,
    /// Calls left out because a filter asked for others; no loss.
    filtered,
    /// Calls that are in no histogram, because its map was full.
    histogram_full,
    /// Starts whose return never came.
    return_lost,
    /// Returns without a start (the call began before the probe was attached).
    no_start,
    /// Calls not measured for want of memory for the start record.
    start_full,
    /// Calls not measured because too many were in flight in one task.
    nested,
    /// The clock ran backwards between entry and return.
    clock_back,
    /// Calls that were in flight when their task or VM ended.
    gone,
    /// Walks that met unreadable memory; the event carries no search length.
    walk_failed,
    /// Walks longer than their bound; likewise.
    walk_truncated,
    /// Entries that the kernel skipped because the program was already running on that CPU.
    missed,
    /// Returns that the kernel skipped, or had no memory to see; their starts are among `return_lost`,
    /// `gone` or the calls in flight.
    missed_returns,
}

impl Account {
    /// Calls that are neither in the histograms nor left out on purpose, and calls whose event was lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.ring_full
            + self.histogram_full
            + self.return_lost
            + self.start_full
            + self.nested
            + self.clock_back
            + self.gone
            + self.missed
    }

    /// Calls that had not returned when the counters were read.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.begun.saturating_sub(self.finished + self.return_lost + self.gone)
    }

    /// Calls of which the histograms should tell.
    #[must_use]
    pub fn in_histograms(&self) -> u64 {
        self.finished.saturating_sub(self.filtered + self.clock_back + self.histogram_full)
    }

    /// By how much the account does not close: 0, unless a counter is wrong.
    ///
    /// Every entry must have been put on record or refused; every call on record must have finished, been
    /// lost, or be in flight; every one that finished must have become an event or been left out.
    #[must_use]
    pub fn residual(&self) -> u64 {
        let refused = self.nested + self.start_full;
        let ended = self.finished + self.return_lost + self.gone;
        let outcomes = self.emitted + self.ring_full + self.not_sampled + self.filtered + self.clock_back;
        self.entries.abs_diff(self.begun + refused)
            + ended.saturating_sub(self.begun)
            + self.finished.abs_diff(outcomes)
    }

    /// Layout records, or snapshots of older layouts, that are missing.
    #[must_use]
    pub fn layout_lost(&self) -> u64 {
        self.ring_full + self.walk_failed + self.start_full
    }

    /// The account of a recording of version 1, which did not have all counters.
    pub(super) fn complete_version_1(&mut self) {
        // The recorder left events out itself.
        self.emitted = self.emitted.saturating_sub(self.filtered);
        self.begun = self.entries.saturating_sub(self.start_full);
        self.finished = self.emitted + self.ring_full + self.clock_back + self.filtered;
    }
}

#[cfg(test)]
mod tests {
    use super::Account;

    #[test]
    fn an_account_that_closes_has_no_residual_and_each_miscount_shows() {
        let whole = Account {
            entries: 100,
            begun: 97,
            nested: 2,
            start_full: 1,
            returns: 95,
            finished: 93,
            return_lost: 1,
            gone: 1,
            emitted: 40,
            ring_full: 10,
            not_sampled: 30,
            filtered: 12,
            clock_back: 1,
            ..Account::default()
        };
        assert_eq!((whole.residual(), whole.in_flight()), (0, 2));
        assert_eq!(whole.in_histograms(), 80);
        assert_eq!(Account { entries: 101, ..whole }.residual(), 1);
        assert_eq!(Account { emitted: 38, ..whole }.residual(), 2);
        assert_eq!(Account { gone: 6, ..whole }.residual(), 3);
    }

    #[test]
    fn a_version_1_account_closes_too() {
        let mut old = Account {
            entries: 10,
            returns: 9,
            emitted: 7,
            ring_full: 1,
            start_full: 1,
            filtered: 2,
            ..Account::default()
        };
        old.complete_version_1();
        assert_eq!((old.residual(), old.emitted, old.in_flight()), (0, 5, 1));
    }
}
