//! `memslot replay`

use super::{digests, given, output};
use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use memslot::engine::EngineId;
use memslot::model::Probe;
use memslot::recording::Recording;
use memslot::replay::{self, Direct, DirectOptions, LastUsed, Options, ProbeReplay, Progress, clock};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The recording's directory
    #[arg(required_unless_present_any = ["layout", "generate"], conflicts_with_all = ["layout", "generate"])]
    recording: Option<PathBuf>,
    /// Engines to run the look-ups through, comma-separated: linear, linear_by_size, sorted_array, wbtree,
    /// rbtree, interval_tree [default: the first four and the kernel's own tree]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    engines: Option<Vec<EngineId>>,
    /// Only this probe's look-ups; can be given twice
    #[arg(long, value_name = "PROBE")]
    probe: Vec<Searching>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Rounds of timing; more give narrower intervals
    #[arg(long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Whose last-used slot is asked before an engine
    #[arg(long, value_name = "WHOSE", default_value = "on")]
    last_used: LastUsed,
    /// Time the engines here by the recording's own clock, and save the times in it as engines.json; to be done
    /// on the host that recorded, before its next boot
    #[arg(long, conflicts_with_all = ["layout", "generate"])]
    save_times: bool,
    #[command(flatten)]
    given: given::Given,
}

/// A probe whose events make look-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Searching {
    /// Memory-slot look-ups of `kvm_mmu_page_fault`
    PageFault,
    /// Region look-ups of `translate_desc`
    Translate,
}

#[derive(serde::Serialize)]
struct Document<'a> {
    schema: u32,
    replay: &'a [ProbeReplay],
}

#[derive(serde::Serialize)]
struct DirectDocument<'a> {
    schema: u32,
    direct: &'a Direct,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Some(path) = &self.recording else { return self.without_recording() };
        let recording = Recording::open(path)?;
        let mut options = Options {
            engines: self.engines,
            rounds: self.rounds,
            last_used: self.last_used,
            ..Options::default()
        };
        if !self.probe.is_empty() {
            let wanted = |probe: &Probe| match probe {
                Probe::PageFault => self.probe.contains(&Searching::PageFault),
                Probe::Translate => self.probe.contains(&Searching::Translate),
                Probe::Ple => false,
            };
            options.probes.retain(wanted);
        }
        let bar = bar();
        let report = |progress| show(&bar, progress);
        if self.save_times {
            let times = clock::measure(&recording, &options, env!("MEMSLOT_VERSION"), &report)?;
            times.save(recording.dir())?;
        }
        let mut replays = replay::run(&recording, &options, &report)?;
        digests::by_own_clock(&recording, &options, &mut replays, &report)?;
        bar.finish_and_clear();
        let text = if self.json {
            let document = Document { schema: 1, replay: &replays };
            serde_json::to_string_pretty(&document).context("the figures cannot be written as JSON")? + "\n"
        } else {
            replay::text(&replays)
        };
        output::print(&text)?;
        let sound = replays.iter().all(ProbeReplay::sound);
        if !sound && self.json {
            eprintln!("memslot: {}", replay::UNSOUND);
        }
        Ok(if sound && !replays.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

impl Args {
    /// Layout and addresses from files or made up.
    fn without_recording(self) -> anyhow::Result<ExitCode> {
        let layout = self.given.read_layout()?;
        let accesses = self.given.read_accesses(&layout)?;
        let engines = self.engines.unwrap_or_else(|| replay::usual(Probe::PageFault));
        let options = DirectOptions { engines, last_used: self.last_used, rounds: self.rounds };
        let bar = bar();
        let direct = replay::direct(&layout, &accesses, &options, &|progress| show(&bar, progress));
        bar.finish_and_clear();
        let direct = direct?;
        let text = if self.json {
            let document = DirectDocument { schema: 1, direct: &direct };
            serde_json::to_string_pretty(&document).context("the figures cannot be written as JSON")? + "\n"
        } else {
            replay::direct_text(&direct)
        };
        output::print(&text)?;
        if !direct.sound() && self.json {
            eprintln!("memslot: {}", replay::UNSOUND);
        }
        Ok(if direct.sound() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

/// A bar on standard error, if that is a terminal.
fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length();
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn show(bar: &ProgressBar, progress: Progress) {
    if bar.is_hidden() {
        return;
    }
    if bar.message() != progress.stage {
        bar.set_message(progress.stage);
        let template = match progress.total {
            Some(_) => "{msg} {wide_bar} {human_pos}/{human_len} {eta}",
            None => "{msg} {spinner} {human_pos}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
    }
    bar.set_position(progress.done);
    if let Some(total) = progress.total {
        bar.set_length(total);
    }
}
