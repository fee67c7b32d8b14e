//! `memslot record`

pub(crate) mod figures;
mod filter;
pub(crate) mod line;
mod mode;
mod session;
mod stop;

use anyhow::{Context, bail, ensure};
use filter::FilterArgs;
use memslot::{
    model::Probe,
    probe::{Options, Preference, Probes},
};
pub(crate) use mode::Mode;
use session::Session;
use std::{
    collections::BTreeSet,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Duration,
};
use stop::Stop;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo memslot record -o rec --duration 30s
  sudo memslot record -o rec --vm 4711 --probe page_fault
  sudo memslot record -o rec --mode histogram --duration 1h
  sudo memslot record -o rec --mode sample:1000 --class no_slot
  sudo memslot record -o rec -- memslot workload slots --slots 53

It records until the duration is over, the command ends, the VM ends, or Ctrl-C.
Exit codes: 0 whole; 1 something was lost, a probe was missing or the command failed; 2 error.")]
pub(crate) struct Args {
    /// Directory to write; it must not exist, or be empty
    #[arg(short, long, visible_alias = "out", value_name = "DIR", default_value = "memslot.rec")]
    output: PathBuf,
    /// Replace a recording that is there
    #[arg(short, long)]
    force: bool,
    /// What to measure
    #[arg(short, long, value_delimiter = ',', default_values = ["page_fault", "ple", "translate"])]
    probe: Vec<Probe>,
    /// How to attach
    #[arg(short, long, value_enum, default_value_t)]
    attach: Preference,
    /// Stop after this time, e.g. 30s, 5m
    #[arg(short, long, value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// Which calls become events: events (all), sample:N (one in N, at random), histogram (none); the
    /// histograms count every call
    #[arg(short, long, value_name = "MODE", default_value_t = Mode::Events)]
    mode: Mode,
    /// Leave the searches out: cheaper, without search lengths and slots; goes with --mode histogram
    #[arg(long)]
    no_walk: bool,
    #[command(flatten)]
    filter: FilterArgs,
    /// Calls of a probe that may be lost before the figures are called incomplete
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_lost: u64,
    /// A name for what is recorded, shown in tables and charts
    #[arg(short, long)]
    label: Option<String>,
    /// Print NDJSON: what has been recorded, once a second, and the accounts at the end
    #[arg(short, long)]
    json: bool,
    /// MiB of the ring buffer between the kernel and us, a power of two
    #[arg(long, default_value_t = 16, value_name = "MIB")]
    ring_size: u32,
    /// KiB of the ring buffer, for tests of what happens when it is full
    #[arg(long, value_name = "KIB", hide = true)]
    ring_kib: Option<u32>,
    /// Elements of the histogram map of each CPU, a power of two, for tests of what happens when it is full
    #[arg(long, value_name = "N", hide = true)]
    histogram_elements: Option<u32>,
    /// Record while this command runs
    #[arg(last = true)]
    command: Vec<String>,
}

/// Largest ring: 2 GiB is the kernel's own bound.
const MAX_RING_MIB: u32 = 1024;

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        ensure!(
            self.ring_size.is_power_of_two() && self.ring_size <= MAX_RING_MIB,
            "--ring-size must be a power of two up to {MAX_RING_MIB} (MiB), not {}",
            self.ring_size
        );
        ensure!(
            !self.no_walk || self.mode == Mode::Histogram,
            "--no-walk goes with --mode histogram alone: events without search lengths cannot be replayed"
        );
        ensure!(
            self.histogram_elements.is_none_or(u32::is_power_of_two),
            "--histogram-elements must be a power of two"
        );
        let filter = self.filter.resolve()?;
        let vm = filter.pid;
        if let Some(program) = self.command.first()
            && !stop::can_start(program)
        {
            bail!("cannot start {program}: there is no such program");
        }
        let probes: BTreeSet<Probe> = self.probe.iter().copied().collect();
        let options = Options {
            probes,
            preference: self.attach,
            ring_bytes: self.ring_kib.map_or(self.ring_size << 20, |kib| kib << 10),
            histogram_elements: self.histogram_elements,
            sample_every: self.mode.sample_every(),
            follow: !self.no_walk,
            filter,
        };
        let probes = Probes::attach(&options).context("nothing can be recorded on this host")?;
        let mut session = Session::start(probes, &options, &self)?;
        let stop = Stop { duration: self.duration, vm, command: self.build_command() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let end = runtime.block_on(session.record(stop));
        session.finish(end)
    }

    fn build_command(&self) -> Option<Command> {
        let (program, arguments) = self.command.split_first()?;
        let mut command = Command::new(program);
        command.args(arguments);
        Some(command)
    }
}
