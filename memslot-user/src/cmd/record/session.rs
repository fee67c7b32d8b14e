//! One recording: from the stream of events to the files, and its accounts.

use super::{
    super::output,
    Args,
    figures::Figures,
    line::{self, Line},
    stop::{Ended, Stop},
};
use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use memslot::{
    model::Probe,
    probe::{self, Event, KernelLog, Options, Probes, Status, Stream, Verdict},
    recording::{AttachKind, Meta, ProbeMeta, Writer},
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
    figures: Figures,
    /// A probe that was asked for could not be attached.
    missing: bool,
    progress: ProgressBar,
    flushed: Instant,
    /// Older layouts that could not be read yet.
    unread_layouts: usize,
    /// Lines for programs on standard output.
    json: bool,
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
            mode: args.mode.to_string(),
            filters: args.filter.words(),
            max_lost: args.max_lost,
            only_pid: options.filter.pid,
            ..Meta::default()
        };
        let mut missing = 0;
        for &wanted in &options.probes {
            let verdict = probes.verdict(wanted);
            if verdict.status == Status::Missing {
                missing += 1;
                output::note(format_args!("{} is not measured: {}", wanted.name(), verdict.notes.join("; ")));
            }
            meta.probes.insert(wanted, describe(verdict));
        }
        for note in probes.scheduler_notes() {
            output::note(note);
            meta.warnings.push(note.clone());
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
        let session = Self {
            probes,
            stream,
            log,
            writer: Some(writer),
            meta,
            figures: Figures::default(),
            missing: missing > 0,
            progress,
            flushed: Instant::now(),
            unread_layouts: 0,
            json: args.json,
        };
        session.tell(|| Line::Started {
            schema: 1,
            directory: args.output.display().to_string(),
            mode: session.meta.mode.clone(),
            probes: line::outcomes(&session.meta),
        })?;
        Ok(session)
    }

    /// One line for programs, if they asked for it.
    fn tell(&self, line: impl FnOnce() -> Line) -> anyhow::Result<()> {
        if self.json { output::print_line(&line()) } else { Ok(()) }
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
        let probe = match event {
            Event::Fault(fault) => {
                writer.push_fault(&fault)?;
                Probe::PageFault
            }
            Event::PleExit(exit) => {
                writer.push_ple_exit(&exit)?;
                Probe::Ple
            }
            Event::Translation(call) => {
                writer.push_translation(&call)?;
                Probe::Translate
            }
            Event::Slots(changes) => {
                return Ok(changes.iter().try_for_each(|change| writer.push_slot_change(change))?);
            }
            Event::Regions(changes) => {
                return Ok(changes.iter().try_for_each(|change| writer.push_region_change(change))?);
            }
            // The stream has answered them itself.
            Event::AskSlots(_) | Event::AskRegions(_) | Event::Nothing => return Ok(()),
        };
        if let Some(meta) = self.meta.probes.get_mut(&probe) {
            meta.events += 1;
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
        self.read_figures()?;
        let sum = |of: fn(&ProbeMeta) -> u64| self.meta.probes.values().map(of).sum::<u64>();
        let (calls, events, lost) = (
            sum(|probe| probe.counted.unwrap_or(0)),
            sum(|probe| probe.events),
            sum(|probe| probe.account.lost()),
        );
        self.progress.set_message(format!("{calls} calls counted, {events} events recorded, {lost} lost"));
        self.progress.tick();
        self.tell(|| Line::Progress { monotonic: probe::clock().monotonic, calls, events, lost })?;
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
            self.progress.suspend(|| output::note(format_args!("probe: {warning}")));
            self.meta.warnings.push(warning);
        }
    }

    /// Brings accounts, histograms and the lists of VMs and devices up to date.
    fn read_figures(&mut self) -> anyhow::Result<()> {
        if let Some(writer) = &mut self.writer {
            let (resolver, time) = (self.stream.resolver_mut(), probe::clock().monotonic);
            self.figures.read(&self.probes, resolver, &mut self.meta, writer, time)?;
        }
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
        self.tell(|| Line::Finished {
            ended_by: ended.name().to_owned(),
            warnings: self.meta.warnings.clone(),
            layout_records_lost: self.meta.layout_account.layout_lost(),
            probes: line::outcomes(&self.meta),
        })?;
        let max_lost = self.meta.max_lost;
        let lost = self.meta.probes.values().any(|probe| !probe.is_whole(max_lost))
            || self.meta.layout_account.layout_lost() > 0
            || self.unread_layouts > 0;
        let failed = matches!(ended, Ended::Command(status) if !status.success());
        if let (true, Ended::Command(status)) = (failed, ended) {
            output::note(format_args!("the command failed ({status}); the recording is whole"));
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
            output::note(&warning);
            self.meta.warnings.push(warning);
        }
        self.take_warnings();
        self.read_figures()?;
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
            let mut line = format!(
                "{:<10} {attach:<12} {} entries, {} returns, {} counted, {} events, {} lost",
                probe.name(),
                account.entries,
                account.returns,
                meta.counted.unwrap_or(0),
                meta.events,
                account.lost(),
            );
            if account.filtered > 0 {
                line += &format!(", {} filtered", account.filtered);
            }
            if account.in_flight() > 0 {
                line += &format!(", {} still in flight at the end", account.in_flight());
            }
            if !meta.is_whole(self.meta.max_lost) {
                let reasons = line::incomplete(meta);
                line += &format!(" — incomplete: {}", reasons.join(", "));
            }
            output::say(&line);
            if let Some(remedy) = remedy(meta) {
                output::say(format_args!("           {remedy}"));
            }
        }
        let lost = self.meta.layout_account.layout_lost();
        if lost > 0 {
            output::say(format_args!(
                "layouts    {lost} records lost: replay will leave events out; try a larger --ring-size"
            ));
        }
    }
}

/// What to do where the kernel skipped programs of fentry, which are not alone on their CPU on a preemptible kernel.
fn remedy(meta: &ProbeMeta) -> Option<&'static str> {
    let skipped = meta.account.missed + meta.account.missed_returns;
    let by_fentry = meta.attached.first().is_some_and(|attached| attached.kind == AttachKind::Fentry);
    (skipped > 0 && by_fentry).then_some(
        "the kernel skips an fentry program while another task is inside the same one on that CPU, as can be on a \
         preemptible kernel; with --attach kprobe it does not",
    )
}

/// What became of a probe's functions, for `meta.json`.
fn describe(verdict: Verdict) -> ProbeMeta {
    let note = (!verdict.notes.is_empty()).then(|| verdict.notes.join("; "));
    ProbeMeta { attached: verdict.attached, note, ..ProbeMeta::default() }
}

#[cfg(test)]
mod tests {
    use super::remedy;
    use memslot::recording::{Account, AttachKind, Attached, ProbeMeta};

    #[test]
    fn kprobes_are_advised_only_where_fentry_programs_were_skipped() {
        let meta = |kind, missed_returns| ProbeMeta {
            attached: vec![Attached { function: "f".into(), kind }],
            account: Account { missed_returns, ..Account::default() },
            ..ProbeMeta::default()
        };
        assert!(remedy(&meta(AttachKind::Fentry, 6)).is_some_and(|text| text.contains("--attach kprobe")));
        assert_eq!(remedy(&meta(AttachKind::Fentry, 0)), None);
        assert_eq!(remedy(&meta(AttachKind::Kprobe, 6)), None);
    }
}
