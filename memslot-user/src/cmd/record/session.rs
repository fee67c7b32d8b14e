//! One recording: from the stream of events to the files, and its accounts.

use super::{
    Args,
    stop::{Ended, Stop},
};
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use memslot::{
    model::Probe,
    probe::{self, Event, KernelLog, Options, Probes, Status, Stream, Verdict},
    recording::{Account, Meta, ProbeMeta, Writer},
};
use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

/// How often the ring is read: 16 MiB hold 10 ms of 15 million events a second.
const TICK: Duration = Duration::from_millis(10);
/// How often whole batches go to disk: what a crash costs at most.
const FLUSH: Duration = Duration::from_secs(1);
/// Events read between two looks at signals and timers.
const BURST: usize = 100_000;

pub(super) struct Session {
    probes: Probes,
    stream: Stream,
    log: Option<KernelLog>,
    writer: Option<Writer>,
    meta: Meta,
    /// A probe that was asked for could not be attached.
    missing: bool,
    progress: ProgressBar,
    flushed: Instant,
    /// Older layouts that could not be read yet.
    unread_layouts: usize,
}

impl Session {
    /// Opens the ring and the files of attached probes.
    pub(super) fn start(mut probes: Probes, options: &Options, args: &Args) -> anyhow::Result<Self> {
        let mut meta = Meta {
            tool: env!("MEMSLOT_VERSION").to_owned(),
            label: args.label.clone(),
            host: probe::host(),
            parameters: probe::module_parameters(),
            command: std::env::args().collect(),
            only_pid: args.vm,
            ..Meta::default()
        };
        let mut missing = 0;
        for &wanted in &options.probes {
            let verdict = probes.verdict(wanted);
            if verdict.status == Status::Missing {
                missing += 1;
                eprintln!("memslot: {} is not measured: {}", wanted.name(), verdict.notes.join("; "));
            }
            meta.probes.insert(wanted, describe(verdict));
        }
        if missing == options.probes.len() {
            bail!("none of the probes can be attached; `memslot doctor` says more");
        }
        let stream = Stream::open(&mut probes)?;
        let log = KernelLog::open(&mut probes);
        meta.start = probe::clock();
        let options_of_writer = memslot::recording::Options { force: args.force };
        let writer = Writer::create(&args.output, &meta, options_of_writer)?;
        let progress =
            ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {elapsed} {msg}")?);
        Ok(Self {
            probes,
            stream,
            log,
            writer: Some(writer),
            meta,
            missing: missing > 0,
            progress,
            flushed: Instant::now(),
            unread_layouts: 0,
        })
    }

    /// Reads events until the end comes.
    pub(super) async fn record(&mut self, stop: Stop) -> anyhow::Result<Ended> {
        let end = stop.wait();
        tokio::pin!(end);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                ended = &mut end => return ended,
                _ = tick.tick() => {
                    if self.drain()? == BURST {
                        // There is more; but the end is looked for in between.
                        tick.reset_immediately();
                    }
                    self.now_and_then()?;
                }
            }
        }
    }

    /// Reads what the ring holds, up to a burst; how many events that were.
    fn drain(&mut self) -> anyhow::Result<usize> {
        for read in 0..BURST {
            let Some(event) = self.stream.next(&mut self.probes)? else { return Ok(read) };
            self.keep(event)?;
        }
        Ok(BURST)
    }

    fn keep(&mut self, event: Event) -> anyhow::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let only = self.meta.only_pid;
        let resolver = self.stream.resolver();
        let counted = match event {
            Event::Fault(fault) => {
                let keep = only.is_none() || resolver.pid_of_vm(fault.vm) == only;
                keep.then(|| writer.push_fault(&fault)).transpose()?;
                Some((Probe::PageFault, keep))
            }
            Event::PleExit(exit) => {
                let keep = only.is_none() || resolver.pid_of_vm(exit.vm) == only;
                keep.then(|| writer.push_ple_exit(&exit)).transpose()?;
                Some((Probe::Ple, keep))
            }
            Event::Translation(call) => {
                let keep = only.is_none() || resolver.pid_of_device(call.device) == only;
                keep.then(|| writer.push_translation(&call)).transpose()?;
                Some((Probe::Translate, keep))
            }
            Event::Slots(changes) => {
                changes.iter().try_for_each(|change| writer.push_slot_change(change))?;
                None
            }
            Event::Regions(changes) => {
                changes.iter().try_for_each(|change| writer.push_region_change(change))?;
                None
            }
            // The stream has answered them itself.
            Event::AskSlots(_) | Event::AskRegions(_) | Event::Nothing => None,
        };
        if let Some((probe, kept)) = counted
            && let Some(meta) = self.meta.probes.get_mut(&probe)
        {
            if kept {
                meta.events += 1;
            } else {
                meta.account.filtered += 1;
            }
        }
        Ok(())
    }

    fn now_and_then(&mut self) -> anyhow::Result<()> {
        if self.flushed.elapsed() < FLUSH {
            return Ok(());
        }
        self.flushed = Instant::now();
        self.take_warnings();
        self.unread_layouts = self.stream.ask_again(&mut self.probes);
        let known = self.meta.vms.len() + self.meta.devices.len() + self.meta.tables.len();
        self.read_accounts()?;
        let events: u64 = self.meta.probes.values().map(|probe| probe.events).sum();
        let lost: u64 = self.meta.probes.values().map(|probe| probe.account.lost()).sum();
        self.progress.set_message(format!("{events} events recorded, {lost} lost"));
        self.progress.tick();
        if let Some(writer) = &mut self.writer {
            writer.flush()?;
            // It waits for the disk, while the ring fills: only when there is something new to say.
            if known != self.meta.vms.len() + self.meta.devices.len() + self.meta.tables.len() {
                writer.write_meta(&self.meta)?;
            }
        }
        Ok(())
    }

    fn take_warnings(&mut self) {
        for warning in self.log.as_mut().map(KernelLog::take).unwrap_or_default() {
            self.progress.suspend(|| eprintln!("memslot: probe: {warning}"));
            self.meta.warnings.push(warning);
        }
    }

    fn read_accounts(&mut self) -> anyhow::Result<()> {
        for (&probe, meta) in &mut self.meta.probes {
            let filtered = meta.account.filtered;
            let account = self.probes.account(probe).context("cannot read the probes' counters")?;
            meta.account = Account { filtered, ..account };
        }
        self.meta.layout_account =
            self.probes.layout_account().context("cannot read the probes' counters")?;
        let (vms, devices, tables) = self.stream.resolver().objects();
        (self.meta.vms, self.meta.devices, self.meta.tables) = (vms, devices, tables);
        Ok(())
    }

    /// Detaches the probes, reads what is left, closes the accounts and the files. Whatever went wrong
    /// before, what was read stays readable.
    pub(super) fn finish(mut self, ended: anyhow::Result<Ended>) -> anyhow::Result<ExitCode> {
        self.probes.detach();
        let rest = self.finish_files(ended.as_ref().map_or("error", |ended| ended.name()));
        self.progress.finish_and_clear();
        let ended = ended?;
        rest?;
        self.report();
        let lost = self.meta.probes.values().any(|probe| probe.account.lost() > 0)
            || self.meta.layout_account.layout_lost() > 0
            || self.unread_layouts > 0;
        let failed = matches!(ended, Ended::Command(status) if !status.success());
        if let (true, Ended::Command(status)) = (failed, ended) {
            eprintln!("memslot: the command failed ({status}); the recording is whole");
        }
        Ok(ExitCode::from(u8::from(lost || self.missing || failed)))
    }

    fn finish_files(&mut self, ended_by: &str) -> anyhow::Result<()> {
        while self.drain()? > 0 {}
        self.unread_layouts = self.stream.ask_again(&mut self.probes);
        while self.drain()? > 0 {}
        if self.unread_layouts > 0 {
            let warning = format!(
                "{} layouts that are older than the recording could not be read: they changed too fast, or went",
                self.unread_layouts
            );
            eprintln!("memslot: {warning}");
            self.meta.warnings.push(warning);
        }
        self.take_warnings();
        self.read_accounts()?;
        self.meta.end = probe::clock();
        ended_by.clone_into(&mut self.meta.ended_by);
        if let Some(writer) = self.writer.take() {
            writer.finish(self.meta.clone())?;
        }
        Ok(())
    }

    fn report(&self) {
        for (probe, meta) in &self.meta.probes {
            let account = &meta.account;
            let attach = meta.attached.first().map_or("not attached", |attached| attached.kind.name());
            eprintln!(
                "{:<10} {attach:<12} {} entries, {} returns, {} events, {} lost{}",
                probe.name(),
                account.entries,
                account.returns,
                meta.events,
                account.lost(),
                match account.unfinished() {
                    0 => String::new(),
                    count => format!(", {count} still under way at the end"),
                },
            );
        }
        let lost = self.meta.layout_account.layout_lost();
        if lost > 0 {
            eprintln!(
                "layouts    {lost} records lost: replay will leave events out; try a larger --ring-size"
            );
        }
    }
}

/// What became of a probe's functions, for `meta.json`.
fn describe(verdict: Verdict) -> ProbeMeta {
    let note = (!verdict.notes.is_empty()).then(|| verdict.notes.join("; "));
    ProbeMeta { attached: verdict.attached, note, ..ProbeMeta::default() }
}
