//! The running host: reads what the kernel counted, once a second, and keeps the sums.

use crate::cmd::output;
use crate::cmd::record::figures::{Figures, Sink};
use anyhow::bail;
use memslot::model::{AccountRow, Bucket, Probe};
use memslot::probe::{self, KernelLog, Options, Probes, Status, Stream};
use memslot::recording::{Meta, ProbeMeta};
use memslot::serve::{Snapshot, Source, Totals};

pub(super) struct Live {
    probes: Probes,
    stream: Stream,
    log: Option<KernelLog>,
    figures: Figures,
    meta: Meta,
    totals: Totals,
}

impl Sink for Totals {
    fn bucket(&mut self, bucket: &Bucket) -> anyhow::Result<()> {
        self.add_bucket(bucket);
        Ok(())
    }

    fn account(&mut self, row: &AccountRow) -> anyhow::Result<()> {
        self.add_account(row);
        Ok(())
    }
}

impl Live {
    pub(super) fn start(mut probes: Probes, options: &Options, most_vms: usize) -> anyhow::Result<Self> {
        let mut meta = Meta::default();
        for &wanted in &options.probes {
            let verdict = probes.verdict(wanted);
            if verdict.status == Status::Missing {
                output::note(format_args!("{} is not measured: {}", wanted.name(), verdict.notes.join("; ")));
            }
            meta.probes.insert(wanted, ProbeMeta { attached: verdict.attached, ..ProbeMeta::default() });
        }
        for note in probes.scheduler_notes() {
            output::note(note);
        }
        if meta.probes.values().all(|probe| probe.attached.is_empty()) {
            bail!("none of the probes can be attached; `memslot doctor` says more");
        }
        let stream = Stream::open(&mut probes)?;
        let log = KernelLog::open(&mut probes);
        let figures = Figures::default();
        let mut live = Self { probes, stream, log, figures, meta, totals: Totals::new(most_vms) };
        live.read()?;
        Ok(live)
    }

    /// A probe that was asked for is not attached.
    pub(super) fn is_missing(&self) -> bool {
        self.meta.probes.values().any(|probe| probe.attached.is_empty())
    }

    /// Brings the sums up to date.
    pub(super) fn read(&mut self) -> anyhow::Result<()> {
        // Layouts pass by; that VMs come and go is all that is taken from the ring.
        while self.stream.next(&mut self.probes)?.is_some() {}
        for warning in self.log.as_mut().map(KernelLog::take).unwrap_or_default() {
            output::note(format_args!("probe: {warning}"));
        }
        let now = probe::clock().monotonic;
        self.figures.read(&self.probes, self.stream.resolver_mut(), &mut self.meta, &mut self.totals, now)?;
        let (vms, devices, _) = self.stream.resolver().objects();
        self.totals.know(&vms, &devices, now);
        Ok(())
    }

    pub(super) fn snapshot(&self, source: Source) -> Snapshot {
        let probes: std::collections::BTreeMap<Probe, ProbeMeta> = self.meta.probes.clone();
        self.totals.snapshot(&Source { probes, ..source })
    }
}
