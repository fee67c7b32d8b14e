//! What one recording, which is one run, leaves behind: its figures, and blocks to draw them anew from.

use super::kind::{Kind, LEVELS};
use crate::digest::{Digest, Group};
use crate::model::{
    Class, Fault, PleExit, Probe, RegionChange, RegionChangeKind, SlotChange, SlotChangeKind, Translation,
};
use crate::recording::Meta;
use crate::replay::Lengths;
use crate::report::summary::{Lost, attach_kind};
use crate::stats::{Blocks, Histogram, Sample, Sum};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Ranges of a layout that are remembered to tell layouts apart.
const RANGES: usize = 1 << 16;

/// A figure of a run, or several that are drawn together, with the blocks of its events.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The figures: [`LEVELS`] of a latency, or a single one.
    pub values: Vec<f64>,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Latency(Blocks<Histogram>),
    Mean(Blocks<Sum>),
    /// A resample itself, which is drawn from no more.
    Fixed,
}

impl Observed {
    pub(crate) fn fixed(values: Vec<f64>) -> Self {
        Self { values, source: Source::Fixed }
    }

    /// The figures as they would be, had the run's blocks of events fallen out otherwise.
    pub(crate) fn resample(&self, count: usize, seed: u64) -> Vec<Vec<f64>> {
        match &self.source {
            Source::Latency(blocks) => {
                let binned = blocks.quantiles(&LEVELS);
                let mut drawn = blocks.resample(&LEVELS, count, seed);
                // Bins are coarse; what they tell is how far a resample lies from the whole.
                for one in &mut drawn {
                    for ((value, exact), binned) in one.iter_mut().zip(&self.values).zip(&binned) {
                        *value = exact + (*value - binned);
                    }
                }
                drawn
            }
            Source::Mean(blocks) => {
                let value = self.values.first().copied().unwrap_or(0.0);
                let scale = blocks.mean().filter(|mean| *mean > 0.0).map_or(0.0, |mean| value / mean);
                blocks.resample(count, seed).into_iter().map(|mean| vec![mean * scale]).collect()
            }
            Source::Fixed => vec![self.values.clone(); count],
        }
    }
}

/// The calls of one kind in one run.
#[derive(Clone, Debug)]
pub struct KindRun {
    /// Calls.
    pub calls: u64,
    /// Mean latency, ns.
    pub mean: f64,
    /// Latency at [`LEVELS`], ns.
    pub latency: Observed,
}

/// One probe in one run.
#[derive(Clone, Debug)]
pub struct ProbeRun {
    /// Most slots of an address space, most regions of a table, or vCPUs with PLE exits.
    pub size: u64,
    /// Stands for the slots or regions, which are the same where it is; `None` where there are too many.
    pub layout: Option<u64>,
    /// How it was attached: `fentry`, `kprobe`.
    pub attached: String,
    /// Calls seen at entry.
    pub entries: u64,
    /// Calls in the recording.
    pub calls: u64,
    /// Calls missing from it.
    pub lost: u64,
    /// Calls by what the workload asked for, not by what came of it.
    pub mix: BTreeMap<&'static str, u64>,
    /// Figures by kind of call.
    pub kinds: BTreeMap<Kind, KindRun>,
    /// Mean search length; `None` where the function searches nothing.
    pub search: Option<Observed>,
    /// Share of time.
    pub share: Option<Observed>,
}

/// One recording.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its directory, as given.
    pub name: String,
    /// Where it comes from.
    pub meta: Meta,
    /// Probes that saw calls.
    pub probes: BTreeMap<Probe, ProbeRun>,
}

/// Everything of one kind of calls on one side, for charts.
#[derive(Clone, Debug, Default)]
pub struct Pooled {
    /// Latency, ns, by probe, size and kind.
    pub latency: BTreeMap<(Probe, u64, Kind), Sample>,
    /// Nodes visited, by probe and size.
    pub visited: BTreeMap<(Probe, u64), Lengths>,
}

/// Gathers a run from its events.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    digest: Digest,
    kinds: BTreeMap<Kind, Blocks<Histogram>>,
    search: BTreeMap<Probe, Blocks<Sum>>,
    time: BTreeMap<Probe, Blocks<Sum>>,
    threads: BTreeMap<(Probe, u32, u32), Thread>,
    mix: BTreeMap<(Probe, &'static str), u64>,
    slots: BTreeSet<(u16, u64, u64)>,
    regions: BTreeSet<(u64, u64)>,
}

/// A vCPU's or worker's time, ns.
#[derive(Clone, Copy, Debug)]
struct Thread {
    first: u64,
    last: u64,
    inside: u64,
}

impl Builder {
    pub(crate) fn new(meta: Meta) -> Self {
        Self { digest: Digest::new(String::new(), meta), ..Self::default() }
    }

    pub(crate) fn add_slot_change(&mut self, change: &SlotChange) {
        self.digest.add_slot_change(change);
        if change.kind != SlotChangeKind::Delete && self.slots.len() < RANGES {
            self.slots.insert((change.as_id, change.slot.base_gfn.0, change.slot.npages));
        }
    }

    pub(crate) fn add_region_change(&mut self, change: &RegionChange) {
        let adds = matches!(change.kind, RegionChangeKind::Add | RegionChangeKind::Snapshot { .. });
        if adds && self.regions.len() < RANGES {
            self.regions.insert((change.region.start, change.region.last));
        }
    }

    pub(crate) fn add_fault(&mut self, fault: &Fault) {
        self.digest.add_fault(fault);
        self.add_latency(Kind::Group(Group::of_fault(fault)), fault.latency);
        if fault.class == Class::Ram {
            self.add_latency(Kind::Ram, fault.latency);
        }
        if let Some(length) = fault.length.filter(|_| fault.class.searches()) {
            self.search.entry(Probe::PageFault).or_default().open().add(length.visited.into());
        }
        *self.mix.entry((Probe::PageFault, fault.class.name())).or_default() += 1;
        self.add_time(Probe::PageFault, (fault.vm.0, fault.vcpu), fault.time, fault.latency);
    }

    pub(crate) fn add_ple_exit(&mut self, exit: &PleExit) {
        self.digest.add_ple_exit(exit);
        self.add_latency(Kind::Group(Group::of_ple_exit(exit)), exit.latency);
        self.add_time(Probe::Ple, (exit.vm.0, exit.vcpu), exit.time, exit.latency);
    }

    pub(crate) fn add_translation(&mut self, call: &Translation) {
        self.digest.add_translation(call);
        let group = Group::of_translation(call);
        self.add_latency(Kind::Group(group), call.latency);
        if let Some(length) = call.length {
            self.search.entry(Probe::Translate).or_default().open().add(length.visited.into());
        }
        *self.mix.entry((Probe::Translate, group.key())).or_default() += 1;
        self.add_time(Probe::Translate, (call.device.0, call.worker), call.time, call.latency);
    }

    fn add_latency(&mut self, kind: Kind, latency: u64) {
        self.kinds.entry(kind).or_default().open().add(latency);
    }

    fn add_time(&mut self, probe: Probe, (owner, thread): (u32, u32), time: u64, latency: u64) {
        let end = time.saturating_add(latency);
        let thread = self.threads.entry((probe, owner, thread)).or_insert(Thread {
            first: time,
            last: end,
            inside: 0,
        });
        thread.first = thread.first.min(time);
        thread.last = thread.last.max(end);
        thread.inside = thread.inside.saturating_add(latency);
        self.time.entry(probe).or_default().open().add(latency);
    }

    /// The run; what charts need of its single values goes to `pooled`. `cut_off`: a table ended early.
    pub(crate) fn finish(mut self, name: String, cut_off: bool, pooled: &mut Pooled) -> Run {
        let probes =
            Probe::ALL.into_iter().filter_map(|probe| Some((probe, self.probe(probe, pooled)?))).collect();
        let mut meta = std::mem::take(&mut self.digest.meta);
        meta.complete &= !cut_off;
        Run { name, meta, probes }
    }

    fn probe(&mut self, probe: Probe, pooled: &mut Pooled) -> Option<ProbeRun> {
        let figures = self.digest.probe(probe);
        let calls = figures.latency.count();
        if calls == 0 {
            return None;
        }
        let threads: Vec<Thread> =
            self.threads.iter().filter(|(key, _)| key.0 == probe).map(|(_, thread)| *thread).collect();
        let size = match probe {
            Probe::Ple => threads.len() as u64,
            _ => self.digest.size(probe).unwrap_or(0),
        };
        let mut samples: BTreeMap<Kind, Sample> =
            figures.by_group.iter().map(|(group, sample)| (Kind::Group(*group), sample.clone())).collect();
        if probe == Probe::PageFault {
            let mut ram = Sample::default();
            let groups = [Group::LastUsed, Group::Searched, Group::Unfollowed];
            groups
                .iter()
                .filter_map(|group| figures.by_group.get(group))
                .for_each(|sample| ram.merge(sample));
            samples.insert(Kind::Ram, ram);
        }
        for (kind, sample) in &samples {
            pooled.latency.entry((probe, size, *kind)).or_default().merge(sample);
        }
        let lengths = pooled.visited.entry((probe, size)).or_default();
        for (length, count) in &figures.visited.0 {
            *lengths.0.entry(*length).or_default() += count;
        }
        let meta = self.digest.probe_meta(probe);
        let account = meta.map(|meta| meta.account).unwrap_or_default();
        let kinds = samples.into_iter().filter_map(|(kind, sample)| {
            let values = sample.quantiles(LEVELS)?.to_vec();
            let source = Source::Latency(self.kinds.remove(&kind)?);
            let latency = Observed { values, source };
            Some((kind, KindRun { calls: sample.count(), mean: sample.mean()?, latency }))
        });
        let inside: f64 = threads.iter().map(|thread| thread.inside as f64).sum();
        let span: f64 = threads.iter().map(|thread| (thread.last - thread.first) as f64).sum();
        let mean =
            |value: f64, blocks: Blocks<Sum>| Observed { values: vec![value], source: Source::Mean(blocks) };
        Some(ProbeRun {
            size,
            layout: match probe {
                Probe::PageFault => fingerprint(&self.slots),
                Probe::Ple => Some(0),
                Probe::Translate => fingerprint(&self.regions),
            },
            attached: attach_kind(meta.iter().flat_map(|meta| &meta.attached).take(1)),
            entries: account.entries,
            calls,
            lost: Lost::new(&account, calls).total,
            mix: self
                .mix
                .iter()
                .filter(|(key, _)| key.0 == probe)
                .map(|(key, count)| (key.1, *count))
                .collect(),
            kinds: kinds.collect(),
            search: self.search.remove(&probe).and_then(|blocks| Some(mean(blocks.mean()?, blocks))),
            share: self.time.remove(&probe).filter(|_| span > 0.0).map(|blocks| mean(inside / span, blocks)),
        })
    }
}

/// `None` where not all ranges were remembered.
fn fingerprint<T: Hash>(ranges: &BTreeSet<T>) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    ranges.hash(&mut hasher);
    (ranges.len() < RANGES).then(|| hasher.finish())
}
