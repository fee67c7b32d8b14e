//! `cargo xtask run`: the main job, from nothing to charts.

mod live;
mod scenario;

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
    #[arg(long, conflicts_with_all = ["vm", "duration"])]
    lab: bool,
    /// The lab's kernel: 6.1, 6.12, or a bzImage (then with --modules)
    #[arg(long, default_value = "6.12")]
    kernel: String,
    /// The modules of a kernel of your own
    #[arg(long, value_name = "DIR")]
    modules: Option<PathBuf>,
    /// Do not count instructions for time in the lab; times then vary with the host's load
    #[arg(long)]
    no_exact: bool,
    /// How long this host's VMs are recorded, e.g. 30s
    #[arg(long, value_name = "TIME", default_value = "30s")]
    duration: String,
    /// Record only the VM of this process
    #[arg(long, value_name = "PID", conflicts_with = "workload")]
    vm: Option<u32>,
    /// Record memslot's own workloads on this host, not its VMs
    #[arg(long)]
    workload: bool,
}

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

    /// Makes room: recordings of an earlier run are replaced as a whole.
    fn prepare(&self) -> Result<()> {
        if self.recording.exists() {
            for entry in fs::read_dir(&self.recording)? {
                let path = entry?.path();
                ensure!(
                    path.join("meta.json").is_file(),
                    "{} is no recording of ours; name another folder with --out",
                    path.display()
                );
                fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
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
        let places = Places::new(self.out.as_deref());
        places.prepare()?;
        let verdict = if self.lab { Verdict::Asked } else { live::look(&memslot)? };
        let (mode, whole) = match verdict {
            Verdict::Works => ("live", self.record_live(&memslot, &places)?),
            Verdict::Refused(reason) if self.live => {
                anyhow::bail!("this host cannot be recorded: {reason}");
            }
            Verdict::Refused(reason) => {
                eprintln!("xtask: this host cannot be recorded ({reason}), so the lab is used");
                ("lab", self.record_in_lab(memslot.clone(), &places)?)
            }
            Verdict::Asked => ("lab", self.record_in_lab(memslot.clone(), &places)?),
        };
        let drawn = draw(&memslot, &places, mode)?;
        println!("\ncharts:     {}", places.charts.display());
        println!("recordings: {}", places.recording.display());
        println!("summary:    {}", places.summary.display());
        Ok(ExitCode::from(u8::from(!(whole && drawn))))
    }

    fn record_live(&self, memslot: &Path, places: &Places) -> Result<bool> {
        if !self.workload && (self.vm.is_some() || live::has_vms()) {
            return live::record(memslot, &places.recording.join("host"), &self.duration, self.vm);
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
    fn record_in_lab(&self, memslot: PathBuf, places: &Places) -> Result<bool> {
        let kernel = KernelChoice::from_arguments(&self.kernel, self.modules.as_deref())?;
        let mut whole = true;
        for needs_cpus in [false, true] {
            let script = scenario::script(needs_cpus);
            let mut request = Request::new(kernel.clone(), vec!["sh".into(), "-c".into(), script]);
            if !needs_cpus && !self.no_exact {
                request = request.exact();
            }
            request.memslot = Some(memslot.clone());
            request.out = Some(places.recording.clone());
            eprintln!("xtask: recording in the lab, Linux {kernel}, {} CPUs", request.smp);
            let outcome = lab::run(&request, &mut io::stderr())?;
            for note in &outcome.notes {
                eprintln!("xtask: {note}");
            }
            ensure!(outcome.exit_code < 2, "recording in the lab failed; its last words are above");
            whole &= outcome.exit_code == 0;
        }
        Ok(whole)
    }
}

/// Replays the recordings, draws them, writes the summary and prints the tables.
fn draw(memslot: &Path, places: &Places, mode: &str) -> Result<bool> {
    let mut recordings: Vec<_> = fs::read_dir(&places.recording)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("meta.json").is_file())
        .collect();
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
