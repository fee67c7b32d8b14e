//! `memslot compare`

use super::digests;
use super::output;
use anyhow::Context;
use indicatif::ProgressBar;
use memslot::chart::{self, Format};
use memslot::compare::{self, Condition, Gate, Options, Percent, Pooled, Run, Search};
use memslot::model::Probe;
use memslot::recording::Recording;
use memslot::replay::Progress;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Simulated comparisons of `--control`.
const CONTROL: usize = 200;

const AFTER_HELP: &str = "\
Examples:
  memslot compare --before old-1 old-2 old-3 old-4 --after new-1 new-2 new-3 new-4
  memslot compare -b old-* -a new-* --probe translate --fail-on slower:5%
  memslot compare -b old-* -a new-* --markdown --out compared

Exit codes: 0 no change for the worse; 1 slower, not comparable, or too few runs to tell (--fail-on says otherwise), \
or the control did not pass; 2 error.";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Recordings before the change, each a run, best each of a boot of its own
    #[arg(short, long, required = true, num_args = 1.., value_name = "RECORDING")]
    before: Vec<PathBuf>,
    /// Recordings after it
    #[arg(short, long, required = true, num_args = 1.., value_name = "RECORDING")]
    after: Vec<PathBuf>,
    /// Compare only this probe; can be given several times. Fewer comparisons take fewer runs
    #[arg(short, long, value_name = "PROBE")]
    probe: Vec<Probe>,
    /// Differences below this are of no account, however certain
    #[arg(short, long, value_name = "PERCENT", default_value = "2%")]
    threshold: Percent,
    /// Also compare the before runs with themselves, to see how often chance alone would be called a change
    #[arg(long)]
    control: bool,
    /// Also foretell, from the recordings before alone, what this search would take, and hold it against the
    /// recordings after: an engine of `memslot replay`, and whose last-used slot it asks, e.g. linear, rbtree:off
    #[arg(long, value_name = "ENGINE[:WHOSE]")]
    predict: Option<Search>,
    /// What makes the exit code 1, separated by commas: slower, slower:5%, faster, faster:5%, not-comparable,
    /// too-few-runs, never. not-comparable and too-few-runs always do, except with never
    #[arg(long, value_name = "OUTCOMES", value_delimiter = ',')]
    fail_on: Vec<Condition>,
    /// Print compare.json
    #[arg(short, long, conflicts_with = "markdown")]
    json: bool,
    /// Print Markdown, for a patch's cover letter
    #[arg(short, long)]
    markdown: bool,
    /// Also write charts, compare.json and compare.md to this directory; made if it is not there
    #[arg(short, long, visible_alias = "output", value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.refuse_doubles()?;
        // Before the work, which may take long.
        if let Some(out) = &self.out {
            chart::make_directory(out)?;
        }
        let bar = digests::bar();
        let (before, pooled_before) = load(&self.before, &bar)?;
        let (after, pooled_after) = load(&self.after, &bar)?;
        let options = Options {
            threshold: self.threshold.0,
            control: if self.control { CONTROL } else { 0 },
            probes: self.probe.clone(),
        };
        bar.set_position(0);
        let mut comparison =
            compare::compare(&before, &after, &options, &|stage| bar.set_message(stage.to_owned()));
        if let Some(search) = self.predict {
            let sides = [opened(&before, &self.before)?, opened(&after, &self.after)?];
            let report = |progress: Progress| {
                bar.set_message(progress.stage);
                bar.set_position(progress.done);
            };
            comparison.foretold =
                compare::predict([&sides[0], &sides[1]], search, comparison.exact, &report)?;
        }
        let json = comparison.to_json().context("the comparison cannot be written as JSON")?;
        if let Some(out) = &self.out {
            digests::write_file(&out.join("compare.json"), &json)?;
            digests::write_file(&out.join("compare.md"), &compare::markdown(&comparison))?;
            for (name, picture) in chart::compare::draw_all(&comparison, [&pooled_before, &pooled_after]) {
                bar.set_message(format!("drawing {name}"));
                picture.save(&out.join(name + ".png"), Format::Png)?;
            }
        }
        bar.finish_and_clear();
        let text = if self.json {
            json
        } else if self.markdown {
            compare::markdown(&comparison)
        } else {
            compare::text(&comparison)
        };
        if self.json || self.markdown { output::print(&text) } else { output::print_tables(&text) }?;
        Ok(ExitCode::from(u8::from(Gate::new(&self.fail_on).fails(&comparison))))
    }

    /// A run that counts twice would make everything look more certain than it is.
    fn refuse_doubles(&self) -> anyhow::Result<()> {
        let mut seen = BTreeSet::new();
        for dir in self.before.iter().chain(&self.after) {
            let whole = dir.canonicalize().unwrap_or_else(|_| dir.clone());
            anyhow::ensure!(
                seen.insert(whole),
                "{} is given twice; each recording is one run and counts once",
                dir.display()
            );
        }
        Ok(())
    }
}

/// The runs with their recordings.
fn opened<'a>(runs: &'a [Run], dirs: &[PathBuf]) -> anyhow::Result<Vec<(&'a Run, Recording)>> {
    runs.iter().zip(dirs).map(|(run, dir)| Ok((run, Recording::open(dir)?))).collect()
}

fn load(dirs: &[PathBuf], bar: &ProgressBar) -> anyhow::Result<(Vec<Run>, Pooled)> {
    let mut pooled = Pooled::default();
    let mut runs = Vec::with_capacity(dirs.len());
    for dir in dirs {
        bar.set_message(format!("reading {}", dir.display()));
        runs.push(load_one(dir, &mut pooled, bar).with_context(|| format!("cannot read {}", dir.display()))?);
    }
    Ok((runs, pooled))
}

fn load_one(dir: &Path, pooled: &mut Pooled, bar: &ProgressBar) -> Result<Run, memslot::recording::Error> {
    let recording = Recording::open(dir)?;
    compare::read(&recording, dir.display().to_string(), pooled, &|rows| bar.set_position(rows))
}
