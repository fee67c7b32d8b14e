//! A vCPU's PLE window over time, in bounded memory.

/// Spans that are kept at most; more than a chart has pixels.
const SPANS: usize = 4096;

/// What the window did within a span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Time of the first observation, ns.
    pub start: u64,
    /// Time of the last.
    pub end: u64,
    /// Window at the first.
    pub first: u32,
    /// Window at the last.
    pub last: u32,
    /// The smallest.
    pub low: u32,
    /// The largest.
    pub high: u32,
}

impl Span {
    fn join(self, next: Self) -> Self {
        let (head, tail) = if next.start < self.start { (next, self) } else { (self, next) };
        Self {
            start: head.start,
            end: self.end.max(next.end),
            first: head.first,
            last: tail.last,
            low: self.low.min(next.low),
            high: self.high.max(next.high),
        }
    }
}

/// Observations of a window. Every one is a span of its own until there are 4096; then neighbours
/// are joined, which keeps first, last, smallest and largest, so that no peak is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    spans: Vec<Span>,
    /// Least length of a span, ns; 0 while every observation has its own.
    width: u64,
    observations: u64,
}

impl Windows {
    /// Takes one observation: the window at a time in ns.
    pub fn add(&mut self, time: u64, window: u32) {
        self.observations += 1;
        let span = Span { start: time, end: time, first: window, last: window, low: window, high: window };
        match self.spans.last_mut() {
            // An unchanged window needs no second span.
            Some(last) if last.low == window && last.high == window && time >= last.end => last.end = time,
            Some(last) if self.width > 0 && time.saturating_sub(last.start) < self.width => {
                *last = last.join(span);
            }
            _ => self.spans.push(span),
        }
        if self.spans.len() >= SPANS {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let ends =
            (self.spans.first().map_or(0, |span| span.start), self.spans.last().map_or(0, |span| span.end));
        let even = ends.1.saturating_sub(ends.0) / (SPANS as u64 / 2);
        self.width = (self.width * 2).max(even).max(1);
        let mut joined: Vec<Span> = Vec::with_capacity(SPANS);
        for pair in self.spans.chunks(2) {
            joined.extend(pair.iter().copied().reduce(Span::join));
        }
        self.spans = joined;
    }

    /// The spans, in the order in which they were observed.
    #[must_use]
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How many observations there were.
    #[must_use]
    pub fn observations(&self) -> u64 {
        self.observations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_stays_is_one_span() {
        let mut windows = Windows::default();
        for time in 0..1000 {
            windows.add(time, 3000);
        }
        assert_eq!(
            windows.spans(),
            [Span { start: 0, end: 999, first: 3000, last: 3000, low: 3000, high: 3000 }]
        );
        assert_eq!(windows.observations(), 1000);
    }

    #[test]
    fn growth_is_kept_step_by_step() {
        let mut windows = Windows::default();
        for (time, window) in [(10, 3000), (20, 6000), (30, 12_000)] {
            windows.add(time, window);
        }
        let lasts: Vec<_> = windows.spans().iter().map(|span| (span.start, span.last)).collect();
        assert_eq!(lasts, [(10, 3000), (20, 6000), (30, 12_000)]);
    }

    #[test]
    fn memory_is_bounded_and_no_peak_is_lost() {
        let mut windows = Windows::default();
        for time in 0..1_000_000_u64 {
            let window = if time == 777_777 { 65_535 } else { 3000 + u32::try_from(time % 7).unwrap() };
            windows.add(time, window);
            assert!(windows.spans().len() < SPANS);
        }
        assert_eq!(windows.spans().iter().map(|span| span.high).max(), Some(65_535));
        assert_eq!(windows.spans().iter().map(|span| span.low).min(), Some(3000));
        assert!(windows.spans().len() > SPANS / 8, "{} spans", windows.spans().len());
        assert!(windows.spans().is_sorted_by_key(|span| span.start));
    }

    #[test]
    fn times_out_of_order_do_no_harm() {
        let mut windows = Windows::default();
        for time in (0..20_000_u64).rev() {
            windows.add(time, u32::try_from(time % 3).unwrap());
        }
        assert!(windows.spans().iter().all(|span| span.start <= span.end && span.low <= span.high));
    }
}
