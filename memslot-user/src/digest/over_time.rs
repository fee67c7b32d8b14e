//! Calls by time and latency, in bounded memory: what a heat map shows.

/// Columns at most; about as many as a chart can show.
const COLUMNS: usize = 512;
/// Bins of a column: values below 16 have one each, then eight to each doubling.
const BINS: usize = 16 + 60 * 8;
/// Spans of losses that are kept apart at most.
const SPANS: usize = 1024;
/// Columns begin at 2^16 ns, 65.5 µs, and double in width whenever there would be too many.
const FINEST: u32 = 16;

/// Calls that were lost within a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSpan {
    /// Begin, `CLOCK_MONOTONIC` ns.
    pub from: u64,
    /// End.
    pub to: u64,
    /// How many.
    pub lost: u64,
}

/// Calls by time and latency. Columns are of one width, which doubles as the recording goes on, so that
/// memory is bounded (1 MiB) and no call is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverTime {
    /// log2 of a column's width in ns.
    shift: u32,
    /// Number of the first column: its time divided by the width.
    first: u64,
    columns: Vec<Vec<u32>>,
    lost: Vec<LostSpan>,
}

impl Default for OverTime {
    fn default() -> Self {
        Self::with_width(FINEST)
    }
}

/// The bin of a latency.
fn bin(latency: u64) -> usize {
    let octave = latency.max(1).ilog2();
    if octave < 4 {
        return usize::try_from(latency).unwrap_or(0);
    }
    let eighth = usize::try_from((latency >> (octave - 3)) & 7).unwrap_or(0);
    16 + (octave as usize - 4) * 8 + eighth
}

/// Smallest value of a bin.
fn lower(bin: usize) -> u64 {
    if bin < 16 {
        return bin as u64;
    }
    let (octave, eighth) = ((bin - 16) / 8 + 4, (bin as u64 - 16) % 8);
    if octave > 63 { u64::MAX } else { (8 + eighth) << (octave - 3) }
}

impl OverTime {
    /// Columns of no less than 2^`shift` ns, for calls whose time is known no better.
    pub(super) fn with_width(shift: u32) -> Self {
        Self { shift, first: 0, columns: Vec::new(), lost: Vec::new() }
    }

    /// Takes calls that began at a time, ns, and took so long, ns.
    pub fn add(&mut self, time: u64, latency: u64, count: u64) {
        let column = self.column(time);
        if let Some(cell) = self.columns.get_mut(column).and_then(|column| column.get_mut(bin(latency))) {
            *cell = cell.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        }
    }

    /// Takes calls that were lost between two times, ns.
    pub fn add_lost(&mut self, from: u64, to: u64, lost: u64) {
        if lost == 0 {
            return;
        }
        if let Some(last) = self.lost.last_mut().filter(|last| last.from == from && last.to == to) {
            // The same interval of another VM.
            last.lost += lost;
            return;
        }
        if self.lost.len() + 1 >= SPANS {
            let join = |a: LostSpan, b: LostSpan| LostSpan {
                from: a.from.min(b.from),
                to: a.to.max(b.to),
                lost: a.lost + b.lost,
            };
            self.lost = self.lost.chunks(2).filter_map(|pair| pair.iter().copied().reduce(join)).collect();
        }
        self.lost.push(LostSpan { from, to, lost });
    }

    /// The place of a time's column, which is made.
    fn column(&mut self, time: u64) -> usize {
        loop {
            let number = time >> self.shift;
            if self.columns.is_empty() {
                self.first = number;
            }
            if number < self.first {
                // Earlier than all before: an event that was handed over late.
                let more = self.first - number;
                if more + self.columns.len() as u64 <= COLUMNS as u64 {
                    let new = (0..more).map(|_| vec![0; BINS]);
                    self.columns.splice(0..0, new);
                    self.first = number;
                    return 0;
                }
            } else if let Ok(place) = usize::try_from(number - self.first)
                && place < COLUMNS
            {
                if place >= self.columns.len() {
                    self.columns.resize_with(place + 1, || vec![0; BINS]);
                }
                return place;
            }
            self.double();
        }
    }

    /// Columns of twice the width.
    fn double(&mut self) {
        let odd = usize::try_from(self.first % 2).unwrap_or(0);
        let mut joined: Vec<Vec<u32>> = Vec::with_capacity(self.columns.len() / 2 + 1);
        for (place, column) in std::mem::take(&mut self.columns).into_iter().enumerate() {
            match joined.get_mut((place + odd) / 2) {
                Some(into) => {
                    into.iter_mut().zip(&column).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
                }
                None => joined.push(column),
            }
        }
        self.columns = joined;
        self.first /= 2;
        self.shift += 1;
    }

    /// Was no call taken?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Begin and end of the columns, ns.
    #[must_use]
    pub fn extent(&self) -> (u64, u64) {
        let end = self.first + self.columns.len() as u64;
        (self.first << self.shift, end.checked_shl(self.shift).unwrap_or(u64::MAX))
    }

    /// Each cell that holds calls: begin and end of its column, its smallest latency, the next bin's, and
    /// how many calls.
    pub fn cells(&self) -> impl Iterator<Item = ((u64, u64), (u64, u64), u32)> {
        self.columns.iter().zip(self.first..).flat_map(move |(column, number)| {
            let time = (number << self.shift, (number + 1) << self.shift);
            column
                .iter()
                .enumerate()
                .filter(|(_, count)| **count > 0)
                .map(move |(bin, count)| (time, (lower(bin), lower(bin + 1)), *count))
        })
    }

    /// When calls were lost.
    #[must_use]
    pub fn lost(&self) -> &[LostSpan] {
        &self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn total(over_time: &OverTime) -> u64 {
        over_time.cells().map(|(_, _, count)| u64::from(count)).sum()
    }

    #[test]
    fn every_latency_lies_in_its_bin() {
        for latency in (0..5000).chain([65_535, 1 << 40, u64::MAX - 1, u64::MAX]) {
            let bin = bin(latency);
            assert!(bin < BINS, "{latency}");
            assert!(lower(bin) <= latency && (latency < lower(bin + 1) || latency == u64::MAX), "{latency}");
        }
        assert_eq!((lower(16), lower(17), lower(24)), (16, 18, 32));
    }

    #[test]
    fn a_long_recording_keeps_every_call_in_bounded_memory() {
        let mut over_time = OverTime::default();
        // Three hours, a call every 10 ms.
        for call in 0..1_080_000_u64 {
            over_time.add(1_000_000_000 + call * 10_000_000, 3000, 1);
        }
        assert_eq!(total(&over_time), 1_080_000);
        assert!(over_time.columns.len() <= COLUMNS && over_time.columns.len() > COLUMNS / 4);
        let (start, end) = over_time.extent();
        assert!(start <= 1_000_000_000 && end > 10_800_000_000_000);
        let full = over_time.cells().filter(|(_, _, count)| *count > 1000).count();
        assert!(full + 2 >= over_time.columns.len(), "the calls are spread evenly");
    }

    #[test]
    fn losses_are_kept_and_their_sum_too() {
        let mut over_time = OverTime::default();
        for second in 0..5000 {
            over_time.add_lost(second, second + 1, 2);
            over_time.add_lost(second, second + 1, 1);
            over_time.add_lost(second, second + 1, 0);
        }
        assert!(over_time.lost().len() < SPANS);
        assert_eq!(over_time.lost().iter().map(|span| span.lost).sum::<u64>(), 15_000);
        assert!(over_time.lost().windows(2).all(|pair| pair[0].to <= pair[1].from));
    }

    proptest! {
        #[test]
        fn no_order_and_no_value_loses_a_call(calls in prop::collection::vec((any::<u64>(), any::<u64>()), 1..60)) {
            let mut over_time = OverTime::default();
            for (time, latency) in &calls {
                over_time.add(*time, *latency, 1);
            }
            prop_assert_eq!(total(&over_time), calls.len() as u64);
            for (time, latency) in &calls {
                let within = over_time.cells().any(|((from, to), (low, high), _)| {
                    // The last column of the clock ends beyond it.
                    from <= *time && (*time < to || to < from || to == 0)
                        && low <= *latency && (*latency < high || high == u64::MAX)
                });
                prop_assert!(within, "{} {}", time, latency);
            }
        }
    }
}
