//! `cargo xtask run`: the main job, from nothing to charts.

mod live;
pub(crate) mod scenario;

use crate::{
    build,
    command::Tool,
    lab::{self, KernelChoice, Request},
    paths, progress, setup,
};
use anyhow::{Context, Result, ensure};
use live::Verdict;
use scenario::SCENARIOS;
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// Record, replay and chart: on this host where probes work, else in the lab
///
/// On a KVM host it records the host's own VMs, or with --workload VMs and a vhost queue of memslot's own. Where probes
/// cannot run it says why and does the job in the lab, on a Debian kernel in QEMU. Without --out the charts go to
/// charts/, the recordings and summary.json to target/run/.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where charts/, recording/ and summary.json go
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Record this host, or fail
    #[arg(long, conflicts_with = "lab")]
    live: bool,
    /// Use the lab
    #[arg(long, conflicts_with_all = ["vm", "duration", "workload"])]
    lab: bool,
    /// The lab's kernel: 6.1, 6.12, or a bzImage (then with --modules); means --lab [default: 6.12]
    #[arg(long, conflicts_with_all = ["live", "vm", "duration"])]
    kernel: Option<String>,
    /// The modules of a kernel of your own
    #[arg(long, value_name = "DIR", requires = "kernel")]
    modules: Option<PathBuf>,
    /// Do not count instructions for time in the lab; times then vary with the host's load
    #[arg(long, conflicts_with = "live")]
    no_exact: bool,
    /// How long this host's VMs are recorded, e.g. 30s, 5m [default: 30s]
    #[arg(long, value_name = "TIME", conflicts_with = "workload", value_parser = humantime::parse_duration)]
    duration: Option<Duration>,
    /// Record only the VM of this process
    #[arg(long, value_name = "PID", conflicts_with = "workload")]
    vm: Option<u32>,
    /// Record memslot's own workloads on this host, not its VMs
    #[arg(long)]
    workload: bool,
}

/// How long this host's VMs are recorded, unless told otherwise.
const DURATION: Duration = Duration::from_secs(30);
/// The lab's kernel, unless told otherwise.
const KERNEL: &str = "6.12";

/// Where the results go.
struct Places {
    charts: PathBuf,
    recording: PathBuf,
    summary: PathBuf,
}

impl Places {
    fn new(out: Option<&Path>) -> Self {
        let run = paths::target().join("run");
        let charts = out.map_or_else(|| paths::workspace().join("charts"), |out| out.join("charts"));
        let out = out.unwrap_or(&run);
        Self { charts, recording: out.join("recording"), summary: out.join("summary.json") }
    }

    /// Makes room: recordings and charts of an earlier run are replaced as a whole.
    fn prepare(&self) -> Result<()> {
        if self.recording.exists() {
            for path in entries(&self.recording)? {
                ensure!(
                    path.join("meta.json").is_file(),
                    "{} is no recording of ours; name another folder with --out",
                    path.display()
                );
                fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
        // The charts that the last run drew, by its own word; other files there are not ours.
        let summary = fs::read_to_string(&self.summary).unwrap_or_default();
        let summary: serde_json::Value = serde_json::from_str(&summary).unwrap_or_default();
        for chart in summary["charts"].as_array().into_iter().flatten().filter_map(|chart| chart.as_str()) {
            if let Some(name) = Path::new(chart).file_name() {
                // It may have been removed by hand.
                fs::remove_file(self.charts.join(name)).ok();
            }
        }
        for folder in [&self.recording, &self.charts] {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        Ok(())
    }
}

impl Args {
    /// Sets up, records, replays and draws.
    ///
    /// # Errors
    /// When nothing could be recorded or drawn.
    pub(crate) fn run(self) -> Result<ExitCode> {
        setup::ensure()?;
        let memslot = build::static_binary(&build::probes()?)?;
        let lab = self.lab || self.kernel.is_some();
        let verdict = if lab { Verdict::Asked } else { live::look(&memslot)? };
        if let Verdict::Refused(reason) = &verdict {
            // What was asked for by name is not quietly replaced by something else.
            let insists = self.live || self.workload || self.vm.is_some() || self.duration.is_some();
            ensure!(!insists, "this host cannot be recorded: {reason}");
            eprintln!("xtask: this host cannot be recorded ({reason}), so the lab is used");
        }
        // Only now: the last results are there until new ones can be had.
        let places = Places::new(self.out.as_deref());
        places.prepare()?;
        let (mode, whole) = match verdict {
            Verdict::Works => ("live", self.record_live(&memslot, &places)?),
            Verdict::Refused(_) | Verdict::Asked => ("lab", self.record_in_lab(&memslot, &places)?),
        };
        let drawn = draw(&memslot, &places, mode)?;
        println!("\ncharts:     {}", places.charts.display());
        println!("recordings: {}", places.recording.display());
        println!("summary:    {}", places.summary.display());
        Ok(ExitCode::from(u8::from(!(whole && drawn))))
    }

    fn record_live(&self, memslot: &Path, places: &Places) -> Result<bool> {
        if !self.workload && (self.vm.is_some() || live::has_vms()) {
            let duration = self.duration.unwrap_or(DURATION);
            return live::record(memslot, &places.recording.join("host"), duration, self.vm);
        }
        if !self.workload {
            eprintln!("xtask: no VM runs on this host, so memslot's own workloads are recorded");
        }
        let mut whole = true;
        for scenario in SCENARIOS {
            let command = scenario.record(&memslot.to_string_lossy(), &places.recording.to_string_lossy());
            let recorded = progress::step(scenario.what, || live::succeeds(&command))?;
            whole &= recorded;
        }
        Ok(whole)
    }

    /// Searches with instructions counted for time, in a guest of one CPU; PLE exits need several.
    fn record_in_lab(&self, memslot: &Path, places: &Places) -> Result<bool> {
        let kernel = self.kernel.as_deref().unwrap_or(KERNEL);
        let kernel = KernelChoice::from_arguments(kernel, self.modules.as_deref())?;
        let mut whole = true;
        for needs_cpus in [false, true] {
            let exact = !needs_cpus && !self.no_exact;
            let chosen = SCENARIOS.iter().filter(|scenario| scenario.needs_cpus() == needs_cpus);
            let script = scenario::script(chosen, exact);
            let mut request = Request::new(kernel.clone(), vec!["sh".into(), "-c".into(), script]);
            if exact {
                request = request.exact();
            }
            request.memslot = Some(memslot.to_owned());
            request.out = Some(places.recording.clone());
            eprintln!("xtask: recording in the lab, Linux {kernel}, {} CPUs", request.smp);
            let outcome = lab::run(&request, &mut io::stderr())?;
            for note in &outcome.notes {
                eprintln!("xtask: {note}");
            }
            // What the other scenarios recorded is worth drawing all the same.
            if outcome.exit_code >= 2 {
                eprintln!("xtask: a recording in the lab failed; its last words are above");
            }
            whole &= outcome.exit_code == 0;
        }
        Ok(whole)
    }
}

/// What a folder holds.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    let entries = entries.with_context(|| format!("cannot read {}", folder.display()))?;
    Ok(entries.iter().map(fs::DirEntry::path).collect())
}

/// Replays the recordings, draws them, writes the summary and prints the tables.
fn draw(memslot: &Path, places: &Places, mode: &str) -> Result<bool> {
    let mut recordings = entries(&places.recording)?;
    recordings.retain(|path| path.join("meta.json").is_file());
    recordings.sort();
    ensure!(!recordings.is_empty(), "there is nothing to draw: no recording came about");
    let command = Tool::new(memslot)
        .arg("chart")
        .args(&recordings)
        .arg("--out")
        .arg(&places.charts)
        .arg("--summary")
        .arg(&places.summary)
        .args(["--mode", mode, "--tables"]);
    let code = command.exit_code()?;
    ensure!(code < 2, "the charts could not be drawn; the reason is above");
    Ok(code == 0)
}
