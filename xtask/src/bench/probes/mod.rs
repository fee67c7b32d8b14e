//! What the probes, bpftrace and perf add to a call, and how fast the user side records.

mod figures;
mod plan;
mod targets;
mod text;

use crate::{
    build,
    command::Tool,
    lab::{self, KernelChoice, Series},
    paths, peers, progress, scratch, setup,
};
use anyhow::{Context, Result, ensure};
use figures::Kernel;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use targets::Target;

/// Wall-clock time for a boot with all its measurements, on a machine that has other work.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Write the figures to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only this kernel, 6.1 or 6.12 [default: both]
    #[arg(long, value_name = "SERIES", value_parser = series)]
    kernel: Option<Series>,
}

fn series(text: &str) -> Result<Series, String> {
    text.parse().map_err(|()| "the lab has 6.1 and 6.12".to_owned())
}

/// What `memslot bench-reader` prints of one kind of records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Reader {
    /// Of which probe.
    records: String,
    /// Recorded, and read back.
    events: u64,
    /// Events in a second of one core's time.
    events_per_s: Interval,
    /// On disk.
    bytes_per_event: f64,
}

/// A median and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Interval {
    value: f64,
    low: f64,
    high: f64,
}

/// The slower and the larger of the kinds of records.
#[derive(Debug, Serialize)]
struct UserSide<'a> {
    events_per_s: f64,
    bytes_per_event: f64,
    records: &'a [Reader],
}

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: u32,
    kernels: &'a BTreeMap<String, Kernel>,
    user_side: UserSide<'a>,
    targets: &'a [Target],
}

impl Args {
    /// Builds, boots each kernel once and prints what was measured.
    ///
    /// # Errors
    /// When the build, a guest or a measurement fails.
    pub(super) fn run(self) -> Result<ExitCode> {
        setup::ensure()?;
        let memslot = build::static_binary(&build::probes()?)?;
        let readers = progress::step("measuring the user side", || user_side(&memslot))?;
        let mut kernels = BTreeMap::new();
        for series in Series::ALL.into_iter().filter(|series| self.kernel.is_none_or(|only| only == *series))
        {
            let message = format!("measuring the probes on {}", series.name());
            let (release, kernel) = progress::step(&message, || measure(series, &memslot))?;
            kernels.insert(release, kernel);
        }
        let targets = targets::targets(&kernels, &readers);
        print!("{}", text::text(&kernels, &readers, &targets));
        if let Some(path) = &self.json {
            let user_side = UserSide {
                events_per_s: readers.iter().map(|reader| reader.events_per_s.value).fold(f64::MAX, f64::min),
                bytes_per_event: readers.iter().map(|reader| reader.bytes_per_event).fold(0.0, f64::max),
                records: &readers,
            };
            let document = Document { schema: 1, kernels: &kernels, user_side, targets: &targets };
            fs::write(path, serde_json::to_string_pretty(&document)? + "\n")
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(ExitCode::from(u8::from(targets.iter().any(|target| target.met == Some(false)))))
    }
}

fn user_side(memslot: &Path) -> Result<Vec<Reader>> {
    let directory = scratch::directory(&paths::target().join("bench"))?;
    let printed = Tool::new(memslot).arg("bench-reader").arg(directory.path().join("recordings")).text()?;
    serde_json::from_str(&printed).context("`memslot bench-reader` printed no figures")
}

/// One boot in the exact mode, with all measurements one after the other.
fn measure(series: Series, memslot: &Path) -> Result<(String, Kernel)> {
    let measurements = plan::measurements();
    let out = paths::target().join("bench").join(series.name());
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    let script = plan::script(&measurements);
    let kernel = KernelChoice::Series(series);
    let mut request = peers::request(kernel, memslot.to_owned(), out.clone(), &script)?.exact();
    request.time_limit = TIME_LIMIT;
    let outcome = lab::run(&request, &mut io::stderr())?;
    ensure!(outcome.exit_code == 0, "the measurement failed in the guest, which said\n{}", outcome.output);
    figures::read(&out, &measurements, memslot)
}
