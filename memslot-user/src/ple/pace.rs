//! How long a unit of the window lasts, estimated from the gaps between a vCPU's exits.

use crate::model::{PleExit, VmId};
use crate::stats::quantile_unsorted;
use std::collections::BTreeMap;

/// Gaps that a window size needs to count.
const FEWEST: usize = 20;
/// Gaps that are kept of a window size; of more, the later half is thinned out again and again.
const MOST: usize = 4096;

/// What the gaps say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// ns a unit.
    Known(f64),
    /// Too few exits follow each other.
    TooFew,
    /// Larger windows do not last longer: the host does not count (software emulation exits at every
    /// PAUSE), or what spins is not caught by it.
    WindowIgnored,
}

#[derive(Debug, Default)]
struct Gaps {
    kept: Vec<f64>,
    seen: u64,
    step: u64,
}

impl Gaps {
    fn add(&mut self, gap: f64) {
        if self.seen.is_multiple_of(self.step.max(1)) {
            self.kept.push(gap);
        }
        self.seen += 1;
        if self.kept.len() == MOST {
            let mut place = 0_usize;
            self.kept.retain(|_| {
                place += 1;
                place.is_multiple_of(2)
            });
            self.step = self.step.max(1) * 2;
        }
    }
}

/// Collects gaps by window.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    last: BTreeMap<(VmId, u32), (u64, u32)>,
    by_window: BTreeMap<u32, Gaps>,
}

impl Gauge {
    /// The next exit of its vCPU.
    #[expect(clippy::cast_precision_loss, reason = "gaps are far below 2^53 ns")]
    pub(super) fn add(&mut self, exit: &PleExit) {
        let end = exit.time.saturating_add(exit.latency);
        let last = self.last.insert((exit.vm, exit.vcpu), (end, exit.window.1));
        // Where the window changed in between, the vCPU was not spinning all the time.
        if let Some((last, window)) = last
            && window == exit.window.0
            && exit.time > last
        {
            self.by_window.entry(window).or_default().add((exit.time - last) as f64);
        }
    }

    /// The estimate: gaps within a spin are the shortest, so their lower quartile stands for a window.
    pub(super) fn pace(self) -> Pace {
        let lows: Vec<(f64, f64)> = self
            .by_window
            .into_iter()
            .filter(|(window, gaps)| *window > 0 && gaps.kept.len() >= FEWEST)
            .filter_map(|(window, mut gaps)| {
                Some((f64::from(window), quantile_unsorted(&mut gaps.kept, 0.25)?))
            })
            .collect();
        let (Some(first), Some(last)) = (lows.first(), lows.last()) else { return Pace::TooFew };
        if last.0 > 1.5 * first.0 && last.1 / first.1 < 0.5 * last.0 / first.0 {
            return Pace::WindowIgnored;
        }
        let mut paces: Vec<f64> = lows.iter().map(|(window, gap)| gap / window).collect();
        quantile_unsorted(&mut paces, 0.0).map_or(Pace::TooFew, Pace::Known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gauge(gap_of: impl Fn(u32) -> u64) -> Pace {
        let mut gauge = Gauge::default();
        let (mut time, mut window) = (0, 4096);
        for number in 0..2000_u32 {
            let next = if number % 100 == 99 { 4096 } else { (window * 2).min(65_536) };
            // After every tenth exit the lock came, and the vCPU did something else.
            time += gap_of(window) + if number % 10 == 5 { 1_000_000 } else { 0 };
            gauge.add(&PleExit {
                time,
                latency: 1000,
                on_cpu: None,
                on_spin: None,
                cpu: 0,
                vm: VmId(0),
                vcpu: 0,
                window: (window, next),
                yields: 0,
                boosted: 0,
                declined: 0,
                undercommit: 0,
            });
            time += 1000;
            window = next;
        }
        gauge.pace()
    }

    #[test]
    fn the_pace_is_found_where_windows_count() {
        let Pace::Known(pace) = gauge(|window| u64::from(window) * 2 / 5) else { panic!("no pace") };
        assert!((pace - 0.4).abs() < 0.001, "{pace}");
    }

    #[test]
    fn windows_that_change_nothing_are_noticed() {
        assert_eq!(gauge(|_| 30_000), Pace::WindowIgnored);
        assert_eq!(Gauge::default().pace(), Pace::TooFew);
    }
}
