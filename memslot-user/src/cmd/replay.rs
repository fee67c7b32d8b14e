//! `memslot replay`

use super::{given, output, values};
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
#[command(after_help = "\
Examples:
  memslot replay rec
  memslot replay rec --engines rbtree,sorted_array,linear --probe page_fault --json
  memslot replay --generate dimms:64 --pattern skewed --accesses 100000
  memslot replay --layout slots.csv --addresses addresses.csv

Exit codes: 0 done; 1 an engine answered wrongly, the kernel searched otherwise than the model, or there was nothing \
to replay; 2 error.")]
pub(crate) struct Args {
    /// The recording's directory
    #[arg(required_unless_present_any = ["layout", "generate"], conflicts_with_all = ["layout", "generate"])]
    recording: Option<PathBuf>,
    /// Engines to run the look-ups through, comma-separated, as `memslot engines` lists them [default: the first four and the kernel's own tree]
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',', value_parser = values::engine(), hide_possible_values = true)]
    engines: Option<Vec<EngineId>>,
    /// Only this probe's look-ups; can be given twice
    #[arg(short, long, value_name = "PROBE")]
    probe: Vec<Searching>,
    /// Print the figures as JSON
    #[arg(short, long)]
    json: bool,
    /// Rounds of timing; more give narrower intervals
    #[arg(short, long, value_name = "N", default_value_t = 21, value_parser = clap::value_parser!(u32).range(1..=1000))]
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

/// What a recording's look-ups came to in each engine.
#[derive(serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "replay")]
pub(crate) struct Document<'a> {
    /// Version of this document, 1.
    schema: u32,
    /// By probe.
    replay: &'a [ProbeReplay],
}

/// What given or generated look-ups came to in each engine.
#[derive(serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "replay-direct")]
pub(crate) struct DirectDocument<'a> {
    /// Version of this document, 1.
    schema: u32,
    /// The layout, the addresses, and the engines.
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
        clock::predict_by_own(&recording, &options, &mut replays, &report)?;
        bar.finish_and_clear();
        if self.json {
            output::print_json(&Document { schema: 1, replay: &replays })?;
        } else {
            output::print_tables(&replay::text(&replays))?;
        }
        let sound = replays.iter().all(ProbeReplay::sound);
        if !sound && self.json {
            output::note(replay::UNSOUND);
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
        if self.json {
            output::print_json(&DirectDocument { schema: 1, direct: &direct })?;
        } else {
            output::print_tables(&replay::direct_text(&direct))?;
        }
        if !direct.sound() && self.json {
            output::note(replay::UNSOUND);
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
