//! Which figures of the two sides stand against each other.

use super::comparable;
use super::kind::{Figure, Kind, TESTED, calls_needed, place};
use super::run::{KindRun, Observed, ProbeRun, Run};
use crate::digest::Group;
use crate::model::Probe;
use std::collections::{BTreeMap, BTreeSet};

/// A figure before and after, run by run.
#[derive(Clone, Debug)]
pub(crate) struct Pair<'a> {
    pub(crate) probe: Probe,
    pub(crate) size: u64,
    pub(crate) kind: Kind,
    pub(crate) figure: Figure,
    pub(crate) before: Vec<&'a Observed>,
    pub(crate) after: Vec<&'a Observed>,
    /// Why they cannot be compared.
    pub(crate) reasons: Vec<String>,
}

/// What is drawn together: all quantiles of the same calls, or a single figure.
pub(crate) type Drawn = (Probe, u64, Kind, Option<usize>);

impl Pair<'_> {
    /// What is drawn together with this pair, which stands at a place among all.
    pub(crate) fn drawn_with(&self, place: usize) -> Drawn {
        let alone = !matches!(self.figure, Figure::Quantile(_));
        (self.probe, self.size, self.kind, alone.then_some(place))
    }

    /// Which of the values drawn together it is.
    pub(crate) fn index(&self) -> usize {
        self.places().iter().position(|place| *place == self.place()).unwrap_or(0)
    }

    /// Which of a run's values it is.
    pub(crate) fn place(&self) -> usize {
        match self.figure {
            Figure::Quantile(level) => place(level),
            Figure::SearchLength | Figure::Share => 0,
        }
    }

    /// Places of the values that are drawn together, this one's among them.
    pub(crate) fn places(&self) -> Vec<usize> {
        if matches!(self.figure, Figure::Quantile(_)) { TESTED.map(place).into() } else { vec![0] }
    }

    /// The figure of each run of a side.
    pub(crate) fn values(&self, side: &[&Observed]) -> Vec<f64> {
        side.iter().filter_map(|run| run.values.get(self.place()).copied()).collect()
    }
}

/// A figure of all calls of a probe, where it has it.
type Of = fn(&ProbeRun) -> Option<&Observed>;

/// One probe at one number of slots, regions or vCPUs.
#[derive(Clone, Debug)]
pub(crate) struct Stratum<'a> {
    pub(crate) probe: Probe,
    pub(crate) size: u64,
    pub(crate) before: Vec<&'a ProbeRun>,
    pub(crate) after: Vec<&'a ProbeRun>,
}

/// The runs by probe and size.
pub(crate) fn strata<'a>(before: &'a [Run], after: &'a [Run]) -> Vec<Stratum<'a>> {
    let mut found: BTreeMap<(Probe, u64), [Vec<&ProbeRun>; 2]> = BTreeMap::new();
    for (side, runs) in [before, after].into_iter().enumerate() {
        for (probe, run) in runs.iter().flat_map(|run| &run.probes) {
            found.entry((*probe, run.size)).or_default()[side].push(run);
        }
    }
    found.into_iter().map(|((probe, size), [before, after])| Stratum { probe, size, before, after }).collect()
}

impl<'a> Stratum<'a> {
    fn side(&self, side: usize) -> &[&'a ProbeRun] {
        if side == 0 { &self.before } else { &self.after }
    }

    /// The least number of calls of a kind in a run of a side.
    fn calls(&self, side: usize, kind: Kind) -> u64 {
        let calls = self.side(side).iter().map(|run| run.kinds.get(&kind).map_or(0, |kind| kind.calls));
        calls.min().unwrap_or(0)
    }

    pub(crate) fn kind_runs(&self, side: usize, kind: Kind) -> Vec<&'a KindRun> {
        self.side(side).iter().filter_map(|run| run.kinds.get(&kind)).collect()
    }

    fn observed(&self, side: usize, kind: Kind) -> Vec<&'a Observed> {
        self.kind_runs(side, kind).into_iter().map(|kind| &kind.latency).collect()
    }

    /// Kinds that have enough calls for a median on some side; whether all runs of a pair of sides do is
    /// for the pair to say.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let all: BTreeSet<Kind> =
            self.before.iter().chain(&self.after).flat_map(|run| run.kinds.keys().copied()).collect();
        let enough = |kind: Kind| (0..2).any(|side| self.calls(side, kind) >= calls_needed(500));
        // Hits and misses together say more than each only where there are both.
        let both = [Group::LastUsed, Group::Searched].into_iter().all(|group| enough(Kind::Group(group)));
        all.into_iter()
            .filter(|kind| enough(*kind) && *kind != Kind::Group(Group::Unfollowed))
            .filter(|kind| both || *kind != Kind::Ram)
            .collect()
    }

    /// All that is compared of it. Of a stratum that one side lacks there is one pair that says so.
    pub(crate) fn pairs(&self) -> Vec<Pair<'a>> {
        let pair = |kind, figure, before, after, reasons| {
            let (probe, size) = (self.probe, self.size);
            Pair { probe, size, kind, figure, before, after, reasons }
        };
        let mut reasons = match (self.before.is_empty(), self.after.is_empty()) {
            (false, false) => comparable::of_probe(&self.before, &self.after),
            (true, _) => vec![format!("layout: {} only after", sized(self.probe, self.size))],
            (_, true) => vec![format!("layout: {} only before", sized(self.probe, self.size))],
        };
        reasons.dedup();
        let mut pairs = Vec::new();
        for kind in self.kinds() {
            let (before, after) = (self.observed(0, kind), self.observed(1, kind));
            for level in TESTED {
                let enough = [0, 1].map(|side| self.calls(side, kind) >= calls_needed(level));
                let mut reasons = reasons.clone();
                match enough {
                    [true, true] => {}
                    // What has no median on a side is said once.
                    [had, _] if had != enough[1] && level == 500 => {
                        let side = if had { "after" } else { "before" };
                        if reasons.is_empty() {
                            reasons.push(format!(
                                "calls: fewer than {} of the kind in a run {side}",
                                calls_needed(level)
                            ));
                        }
                    }
                    _ => continue,
                }
                pairs.push(pair(kind, Figure::Quantile(level), before.clone(), after.clone(), reasons));
            }
        }
        if pairs.is_empty() {
            return pairs;
        }
        let figures: [(Figure, Of); 2] =
            [(Figure::SearchLength, |run| run.search.as_ref()), (Figure::Share, |run| run.share.as_ref())];
        for (figure, of) in figures {
            let [before, after] = [&self.before, &self.after]
                .map(|side| side.iter().filter_map(|run| of(run)).collect::<Vec<_>>());
            if !before.is_empty() && !after.is_empty() {
                pairs.push(pair(Kind::All(self.probe), figure, before, after, reasons.clone()));
            }
        }
        pairs
    }
}

/// The number of what is searched, in words; of vCPUs for PLE exits.
#[must_use]
pub fn sized(probe: Probe, size: u64) -> String {
    let what = match probe {
        Probe::PageFault => "slot",
        Probe::Ple => "vCPU",
        Probe::Translate => "region",
    };
    format!("{} {what}{}", crate::chart::text::count(size), if size == 1 { "" } else { "s" })
}
