//! Axes: from a value to a place, and where the ticks stand.

use super::text;

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Even.
    Linear,
    /// By the logarithm; what is below 0.5 stands at 0.5.
    Log,
    /// By log2(x + 2), so that 0 has a place and no more room than its neighbours warrant.
    LogFromZero,
}

/// A labelled place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
    /// 0 is labelled first; higher ones where room is left.
    pub(crate) rank: u8,
}

/// Ends of a time axis that are closer than this are divided evenly.
const SHORT: f64 = 5.0;

/// The first of 1, 2, 2.5, 5, 10 times a power of ten that is not below `rough`.
fn round_step(rough: f64) -> f64 {
    let power = 10f64.powf(rough.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .map(|step| step * power)
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    kind: Kind,
    low: f64,
    high: f64,
    pub(crate) ticks: Vec<Tick>,
}

impl Axis {
    /// Where a value stands: 0 at the low end, 1 at the high end, never beyond.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let (low, high) = (self.map(self.low), self.map(self.high));
        let place = (self.map(value) - low) / (high - low);
        if place.is_nan() { 0.0 } else { place.clamp(0.0, 1.0) }
    }

    /// Is the value within the ends?
    pub(crate) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The ends.
    pub(crate) fn range(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    fn map(&self, value: f64) -> f64 {
        match self.kind {
            Kind::Linear => value,
            Kind::Log => value.max(0.5).ln(),
            Kind::LogFromZero => (value.max(-0.5) + 2.0).log2(),
        }
    }

    fn new(kind: Kind, low: f64, high: f64, ticks: Vec<Tick>) -> Self {
        let ticks = ticks.into_iter().filter(|tick| tick.value >= low && tick.value <= high).collect();
        Self { kind, low, high, ticks }
    }

    /// A logarithmic axis of times in ns that holds both values.
    pub(crate) fn time(min: u64, max: u64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a place on an axis")]
        let (min, max) = ((min as f64).max(0.5), (max as f64).max(1.0));
        let ratio = max / min;
        let room = if ratio < 1.05 { 1.1 } else { ratio.powf(0.05).clamp(1.02, 1.15) };
        let (low, high) = (min / room, max * room);
        let ticks = if high / low < SHORT { Self::even_times(low, high) } else { Self::decade_times() };
        Self::new(Kind::Log, low.max(0.5), high, ticks)
    }

    /// Even steps, for an axis too short for 1, 2, 5.
    fn even_times(low: f64, high: f64) -> Vec<Tick> {
        let step = round_step((high - low) / 6.0);
        let first = (low / step).ceil();
        let places = (0..16_u8).map(|place| (first + f64::from(place)) * step);
        places.map(|value| Tick { value, label: text::tick(value), rank: 0 }).collect()
    }

    fn decade_times() -> Vec<Tick> {
        let mut ticks = Vec::new();
        for exponent in -1..20 {
            for (digit, rank) in [(1, 0), (2, 2), (3, 3), (4, 3), (5, 1), (6, 3), (7, 3), (8, 3), (9, 3)] {
                let value = f64::from(digit) * 10f64.powi(exponent);
                ticks.push(Tick { value, label: text::tick(value), rank });
            }
        }
        ticks
    }

    /// An axis of numbers of nodes from 0 to `max`.
    pub(crate) fn length(max: u32) -> Self {
        let mut ticks = vec![Tick { value: 0.0, label: "0".into(), rank: 0 }];
        for exponent in 0..32 {
            let power = 1_u64 << exponent;
            ticks.push(Self::whole(power, u8::from(exponent % 2 == 1)));
            if power > 1 {
                ticks.push(Self::whole(power + power / 2, 2));
            }
        }
        ticks.sort_by(|a, b| a.value.total_cmp(&b.value));
        Self::new(Kind::LogFromZero, -0.5, (f64::from(max) * 1.1).max(2.5), ticks)
    }

    /// A logarithmic axis of numbers, from `min` to `max`, with room at both ends.
    pub(crate) fn number(min: u64, max: u64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a place on an axis")]
        let (min, max) = (min.max(1) as f64, max.max(1) as f64);
        let mut ticks = Vec::new();
        for exponent in 0..=19 {
            for (rank, step) in [(0, 1), (2, 2), (1, 5)] {
                ticks.push(Self::whole(10_u64.pow(exponent).saturating_mul(step), rank));
            }
        }
        Self::new(Kind::Log, (min / 1.6).max(0.5), max * 1.6, ticks)
    }

    /// HdrHistogram's axis of percentiles: a place is one call in so many that took longer, 10 for the 90th
    /// percentile, up to the last of `calls`.
    pub(crate) fn percentiles(calls: u64) -> Self {
        let tick = |value: f64, label: String, rank| Tick { value, label, rank };
        let mut ticks = vec![
            tick(1.0, "0 %".into(), 1),
            tick(2.0, "50 %".into(), 0),
            tick(4.0, "75 %".into(), 2),
            tick(10.0, "90 %".into(), 0),
            tick(20.0, "95 %".into(), 2),
            tick(100.0, "99 %".into(), 0),
        ];
        for nines in 1..18_u8 {
            let label = format!("99.{} %", "9".repeat(nines.into()));
            ticks.push(tick(10f64.powi(i32::from(nines) + 2), label, 0));
        }
        #[expect(clippy::cast_precision_loss, reason = "a place on an axis")]
        Self::new(Kind::Log, 1.0, (calls.max(2) as f64) * 1.15, ticks)
    }

    /// The same axis of times that count instructions, as in the lab's exact mode.
    pub(crate) fn in_instructions(mut self) -> Self {
        for tick in &mut self.ticks {
            tick.label = text::figure(tick.value);
        }
        self
    }

    /// The same axis with ticks at given values alone.
    pub(crate) fn at_values(mut self, values: &[u64]) -> Self {
        self.ticks = values.iter().map(|value| Self::whole(*value, 0)).collect();
        self
    }

    fn whole(value: u64, rank: u8) -> Tick {
        #[expect(clippy::cast_precision_loss, reason = "a place on an axis")]
        Tick { value: value as f64, label: text::count(value), rank }
    }

    /// An even axis from 0 to `max`, labelled by `label`.
    pub(crate) fn even(max: f64, label: impl Fn(f64) -> String) -> Self {
        let span = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        let step = round_step(span / 5.0);
        let ticks = (0..12_u8)
            .map(|place| f64::from(place) * step)
            .map(|value| Tick { value, label: label(value), rank: 0 })
            .collect();
        Self::new(Kind::Linear, 0.0, span * 1.04, ticks)
    }

    /// An even axis that holds both values and 0, with room at both ends.
    pub(crate) fn signed(low: f64, high: f64, label: impl Fn(f64) -> String) -> Self {
        let finite = |value: f64| if value.is_finite() { value.clamp(-1e300, 1e300) } else { 0.0 };
        let (low, high) = (finite(low).min(0.0), finite(high).max(0.0));
        if high > low { Self::between(low, high, label) } else { Self::between(-1.0, 1.0, label) }
    }

    /// An even axis from `low` to `high`, with room at both ends, labelled by `label`.
    pub(crate) fn between(low: f64, high: f64, label: impl Fn(f64) -> String) -> Self {
        let span = high - low;
        let span = if span.is_finite() && span > 0.0 { span } else { 1.0 };
        let low = if low.is_finite() { low } else { 0.0 };
        let (low, high) = (low - span * 0.05, low + span * 1.05);
        let step = round_step(span / 5.0);
        let first = (low / step).ceil();
        let ticks = (0..16_u8)
            // A sum, and no negative zero.
            .map(|place| (first + f64::from(place)) * step + 0.0)
            .map(|value| Tick { value, label: label(value), rank: 0 })
            .collect();
        Self::new(Kind::Linear, low, high, ticks)
    }

    /// An even axis of whole numbers from 0 to `max`, with room at both ends.
    pub(crate) fn whole_numbers(max: u32) -> Self {
        let step = (0..10)
            .flat_map(|exponent| [1, 2, 5].map(|step| step * 10_u32.pow(exponent)))
            .find(|step| max / step <= 10)
            .unwrap_or(u32::MAX);
        let ticks = (0..=max / step).map(|place| Self::whole(u64::from(place * step), 0)).collect();
        Self::new(Kind::Linear, -0.7, f64::from(max) + 0.7, ticks)
    }

    /// Names in even places.
    pub(crate) fn names(names: &[String]) -> Self {
        let ticks = (0_u32..).zip(names).map(|(place, name)| Tick {
            value: f64::from(place),
            label: name.clone(),
            rank: 0,
        });
        #[expect(clippy::cast_precision_loss, reason = "a place on an axis")]
        Self::new(Kind::Linear, -0.5, names.len().max(1) as f64 - 0.5, ticks.collect())
    }

    /// The ticks of 1, 2 and 5, for the grid.
    pub(crate) fn coarse(&self) -> impl Iterator<Item = &Tick> {
        // Over many decades only their beginnings.
        let most = if self.high / self.low > 1e6 { 1 } else { 3 };
        self.ticks.iter().filter(move |tick| tick.rank < most)
    }

    /// The ticks whose labels fit side by side in `room` pixels, those of low rank first; each with the
    /// place of its label's middle, which is moved inwards where it would reach further beyond an end
    /// than `over`.
    pub(crate) fn labelled(
        &self,
        room: f64,
        gap: f64,
        over: f64,
        extent: impl Fn(&str) -> f64,
    ) -> Vec<(&Tick, f64)> {
        let mut taken: Vec<(f64, f64)> = Vec::new();
        let mut shown: Vec<(&Tick, f64)> = Vec::new();
        for rank in 0..=3 {
            // Steps finer than 1, 2, 5 are for axes too short to hold enough of those.
            if rank > 2 && shown.len() > 4 {
                break;
            }
            for tick in self.ticks.iter().filter(|tick| tick.rank == rank) {
                let half = extent(&tick.label) / 2.0;
                let middle = (self.at(tick.value) * room).min(room + over - half).max(half - over);
                let (from, to) = (middle - half, middle + half);
                if taken.iter().all(|(start, end)| to + gap < *start || from - gap > *end) {
                    taken.push((from, to));
                    shown.push((tick, middle));
                }
            }
        }
        shown.sort_by(|a, b| a.1.total_cmp(&b.1));
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.coarse().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn time_axes_hold_their_ends_and_label_units() {
        let axis = Axis::time(800, 12_000);
        assert_eq!(labels(&axis), ["1 µs", "2 µs", "5 µs", "10 µs"]);
        assert!(axis.at(800.0) > 0.0 && axis.at(12_000.0) < 1.0);
        assert!(axis.at(1000.0) < axis.at(2000.0));
        assert_eq!(labels(&Axis::time(790, 950)), ["800 ns", "850 ns", "900 ns", "950 ns"]);
        for (min, max) in [(0, 0), (5, 5), (0, u64::MAX), (u64::MAX, u64::MAX)] {
            let axis = Axis::time(min, max);
            let (a, b) = (axis.at(min as f64), axis.at(max as f64));
            assert!((0.0..=1.0).contains(&a) && (0.0..=1.0).contains(&b) && a <= b, "{min} {max}");
            assert!(!axis.ticks.is_empty(), "{min} {max}");
        }
    }

    #[test]
    fn zero_nodes_have_a_place_of_their_own() {
        let axis = Axis::length(512);
        assert!(axis.at(0.0) > 0.0);
        assert!(axis.at(1.0) - axis.at(0.0) > axis.at(512.0) - axis.at(500.0));
        assert_eq!(labels(&Axis::length(8)), ["0", "1", "2", "3", "4", "6", "8"]);
        assert_eq!(labels(&Axis::length(0)), ["0", "1", "2"]);
        assert!(Axis::length(u32::MAX).at(f64::from(u32::MAX)) <= 1.0);
    }

    #[test]
    fn even_axes_have_round_steps() {
        assert_eq!(labels(&Axis::even(10.0, text::figure)), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(labels(&Axis::even(0.9, text::figure)), ["0", "0.2", "0.4", "0.6", "0.8"]);
        assert!(!Axis::even(0.0, text::figure).ticks.is_empty());
        assert_eq!(labels(&Axis::whole_numbers(9)), ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
        assert_eq!(labels(&Axis::whole_numbers(25)), ["0", "5", "10", "15", "20", "25"]);
        assert!(!Axis::even(f64::NAN, text::figure).ticks.is_empty());
        let between = Axis::between(-4.0, 9.0, text::figure);
        let shown: Vec<_> = between.ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(shown, ["0", "5"]);
        assert!(between.at(-4.0) > 0.0 && between.at(9.0) < 1.0);
        assert!(!Axis::between(0.0, 0.0, text::figure).ticks.is_empty());
        assert!(!Axis::between(f64::NAN, f64::INFINITY, text::figure).ticks.is_empty());
    }

    #[test]
    fn percentiles_stand_by_how_rare_what_is_above_them_is() {
        assert_eq!(
            labels(&Axis::percentiles(20_000)),
            ["0 %", "50 %", "75 %", "90 %", "95 %", "99 %", "99.9 %", "99.99 %"]
        );
        assert_eq!(labels(&Axis::percentiles(0)), ["0 %", "50 %"]);
        let axis = Axis::percentiles(1000);
        assert!((axis.at(100.0) - 2.0 * axis.at(10.0)).abs() < 1e-9 && axis.at(1000.0) < 1.0);
        assert!(Axis::percentiles(u64::MAX).at(u64::MAX as f64) < 1.0);
    }

    #[test]
    fn signed_axes_hold_zero() {
        let axis = Axis::signed(-30.0, 400.0, text::signed_tick);
        assert_eq!(labels(&axis), ["0", "+100 ns", "+200 ns", "+300 ns", "+400 ns"]);
        assert_eq!(labels(&Axis::signed(-50.0, 50.0, text::figure)), ["-40", "-20", "0", "20", "40"]);
        assert!(axis.at(-30.0) > 0.0 && axis.at(400.0) < 1.0);
        for (low, high) in [(5.0, 9.0), (0.0, 0.0), (f64::NAN, f64::INFINITY), (f64::MIN, f64::MAX)] {
            let axis = Axis::signed(low, high, text::figure);
            assert!(axis.holds(0.0) && (0.0..=1.0).contains(&axis.at(0.0)), "{low} {high}");
            assert!(axis.ticks.len() > 2, "{low} {high}: {axis:?}");
        }
    }

    #[test]
    fn labels_that_would_touch_are_left_out() {
        let axis = Axis::time(1, 1_000_000_000);
        let shown = axis.labelled(400.0, 8.0, 10.0, |label| 9.0 * label.chars().count() as f64);
        assert!(shown.len() >= 4);
        for pair in shown.windows(2) {
            let distance = pair[1].1 - pair[0].1;
            let halves: f64 = pair.iter().map(|(tick, _)| 4.5 * tick.label.chars().count() as f64).sum();
            assert!(distance > halves + 8.0);
        }
    }
}
