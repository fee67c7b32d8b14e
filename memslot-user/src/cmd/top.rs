//! `memslot top`

use super::output;
use super::record::Mode;
use anyhow::{Context, bail, ensure};
use memslot::model::Probe;
use memslot::probe::{Options, Preference, Probes, Status};
use memslot::recording::Recording;
use memslot::top::{App, By, Live, Polled, Replay, Settings, Sort, Source, Tick, json, rows, screen, text};
use std::collections::BTreeSet;
use std::io::{IsTerminal, stdout};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// How often the ring is looked at where no screen does.
const TICK: Duration = Duration::from_millis(10);

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo memslot top
  sudo memslot top --by vcpu --mode events --sort p99
  sudo memslot top --once --json --interval 5s
  sudo memslot top --once --by queue --mode events -- memslot workload vhost --regions 53
  memslot top --recording rec --speed 10
  memslot top --recording rec --json | jq .rows

Keys: Tab by VM, vCPU, queue; s sort; r reverse; / filter; p pause; g histogram; t since the start; ? help; q quit.
Exit codes: 0 whole; 1 calls were lost or a probe was missing; 2 error.")]
pub(crate) struct Args {
    /// What rows are of; by VM every call counts, by vCPU and queue those that --mode makes events of
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    by: By,
    /// Sorted by this, the largest first
    #[arg(long, value_name = "COLUMN", value_enum, default_value_t)]
    sort: Sort,
    /// Only rows whose name or function holds this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    filter: String,
    /// Length of an interval, e.g. 500ms, 5s
    #[arg(short, long, value_parser = humantime::parse_duration, default_value = "1s", value_name = "TIME")]
    interval: Duration,
    /// Print one interval as a table, or everything while COMMAND runs or the recording lasts, and end
    #[arg(long)]
    once: bool,
    /// Print a line of JSON for each interval instead of a screen
    #[arg(long)]
    json: bool,
    /// End after so many intervals
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "once")]
    count: Option<u64>,
    /// Replay a recording instead of looking at this host
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["probe", "attach", "mode", "command"])]
    recording: Option<PathBuf>,
    /// How many times faster than it happened a recording is replayed on the screen
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, requires = "recording")]
    speed: f64,
    /// What to measure
    #[arg(short, long, value_delimiter = ',', default_values = ["page_fault", "ple", "translate"])]
    probe: Vec<Probe>,
    /// How to attach
    #[arg(long, value_enum, default_value_t)]
    attach: Preference,
    /// Which calls become events: events (all), sample:N (one in N, at random), histogram (none)
    #[arg(long, value_name = "MODE", default_value_t = Mode::Sample(100))]
    mode: Mode,
    /// Panic after the first picture, for tests of how the terminal is left
    #[arg(long, hide = true)]
    panic: bool,
    /// Measure while this command runs; its output is dropped
    #[arg(last = true)]
    command: Vec<String>,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        ensure!(!self.interval.is_zero(), "--interval must be longer than nothing");
        ensure!(self.speed > 0.0 && self.speed.is_finite(), "--speed must be a number above 0");
        let prints = self.once || self.json;
        ensure!(
            prints || stdout().is_terminal(),
            "there is no terminal for a live table; --once prints it once, --json line by line"
        );
        let mut missing = false;
        let mut source: Box<dyn Source> = match &self.recording {
            Some(dir) => {
                let speed = (!prints).then_some(self.speed);
                Box::new(Replay::new(&Recording::open(dir)?, speed)?)
            }
            None => Box::new(self.attach(&mut missing)?),
        };
        let lost = if self.once {
            self.print_once(source.as_mut())?
        } else if self.json {
            self.print_lines(source.as_mut())?
        } else {
            self.show(source.as_mut())?
        };
        Ok(ExitCode::from(u8::from(missing || lost > 0)))
    }

    fn attach(&self, missing: &mut bool) -> anyhow::Result<Live> {
        let options = Options {
            probes: self.probe.iter().copied().collect(),
            preference: self.attach,
            sample_every: self.mode.sample_every(),
            ..Options::default()
        };
        let probes = Probes::attach(&options).context("nothing can be measured on this host")?;
        let is_missing = |probe: &Probe| {
            let verdict = probes.verdict(*probe);
            if verdict.status == Status::Missing {
                eprintln!("memslot: {} is not measured: {}", probe.name(), verdict.notes.join("; "));
            }
            verdict.status == Status::Missing
        };
        let (without, with): (BTreeSet<Probe>, BTreeSet<Probe>) =
            options.probes.iter().copied().partition(is_missing);
        if with.is_empty() {
            bail!("none of the probes can be attached; `memslot doctor` says more");
        }
        *missing = !without.is_empty();
        let settings = Settings {
            every: options.sample_every,
            // All that happens while the command runs is one interval.
            interval: if self.once && !self.command.is_empty() { Duration::MAX } else { self.interval },
        };
        Ok(Live::new(probes, with.into_iter().collect(), settings, || self.start())?)
    }

    fn start(&self) -> std::io::Result<Option<Child>> {
        let Some((program, arguments)) = self.command.split_first() else { return Ok(None) };
        Command::new(program).args(arguments).stdout(Stdio::null()).stdin(Stdio::null()).spawn().map(Some)
    }

    /// The next interval; nothing at the end.
    fn next(source: &mut dyn Source) -> anyhow::Result<Option<Tick>> {
        loop {
            match source.poll()? {
                Polled::Tick(tick) => return Ok(Some(*tick)),
                Polled::End => return Ok(None),
                Polled::Nothing => std::thread::sleep(TICK),
            }
        }
    }

    fn print_once(&self, source: &mut dyn Source) -> anyhow::Result<u64> {
        let mut whole: Option<Tick> = None;
        while let Some(tick) = Self::next(source)? {
            match &mut whole {
                Some(whole) => whole.merge(tick),
                None => whole = Some(tick),
            }
            // A command or a recording has an end; a host has none.
            if self.recording.is_none() && self.command.is_empty() {
                break;
            }
        }
        let tick = whole.unwrap_or_default();
        let rows = rows(&tick, self.by, (self.sort, false), &self.filter);
        if self.json {
            output::print(&json::line(&rows, self.by, &tick).context("the rows cannot be written as JSON")?)?;
        } else {
            output::print(&text::table_of(&rows, &tick))?;
        }
        Ok(tick.lost())
    }

    fn print_lines(&self, source: &mut dyn Source) -> anyhow::Result<u64> {
        let (mut lost, mut printed) = (0, 0);
        while self.count.is_none_or(|most| printed < most)
            && let Some(tick) = Self::next(source)?
        {
            let rows = rows(&tick, self.by, (self.sort, false), &self.filter);
            output::print(&json::line(&rows, self.by, &tick).context("the rows cannot be written as JSON")?)?;
            lost += tick.lost();
            printed += 1;
        }
        Ok(lost)
    }

    #[expect(clippy::panic, reason = "asked for by a test")]
    fn show(&self, source: &mut dyn Source) -> anyhow::Result<u64> {
        let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let mut app = App::new(source.title(), self.by, self.sort, self.filter.clone(), colour);
        screen::run(source, &mut app, self.count, &mut || {
            if self.panic {
                panic!("asked for by --panic");
            }
        })?;
        Ok(app.lost())
    }
}
