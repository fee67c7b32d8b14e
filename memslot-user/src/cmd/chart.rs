//! `memslot chart`

use super::digests::{self, Source};
use super::output;
use anyhow::Context;
use memslot::chart::{self, Chart, Format, Size};
use memslot::digest::Digest;
use memslot::model::Probe;
use memslot::report::summary::Summary;
use memslot::report::tables;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  memslot chart rec
  memslot chart before after --out compared --probe translate
  memslot chart rec --no-replay --width 1600 --json

Exit codes: 0 done; 1 done, but something is missing or lost, and the footers say what; 2 error.")]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// Directory for the charts; made if it is not there
    #[arg(short, long, visible_alias = "output", value_name = "DIR", default_value = "charts")]
    out: PathBuf,
    /// Only the charts of this probe, even if it has no events; can be given several times
    #[arg(short, long, value_name = "PROBE")]
    probe: Vec<Probe>,
    /// Only the charts of this name, e.g. over-time; can be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<Chart>,
    /// What the charts are written as; both, where both are given
    #[arg(long, value_name = "FORMAT", value_delimiter = ',', default_value = "png")]
    format: Vec<Format>,
    /// Width of the charts in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = Size::default().width,
        value_parser = clap::value_parser!(u32).range(range(Size::WIDTHS)))]
    width: u32,
    /// Least height of the charts in pixels; those that need more to stay legible are taller
    #[arg(long, value_name = "PIXELS", default_value_t = Size::default().height,
        value_parser = clap::value_parser!(u32).range(range(Size::HEIGHTS)))]
    height: u32,
    /// Also write the figures to this file, as `memslot summary --json` prints them
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// What the summary says of where the recordings come from, e.g. live or lab
    #[arg(long, value_name = "WORD", default_value = "recording", requires = "summary")]
    mode: String,
    /// Also print the tables of `memslot summary`
    #[arg(long, conflicts_with = "json")]
    tables: bool,
    /// List the charts as JSON
    #[arg(short, long)]
    json: bool,
}

fn range(sizes: std::ops::RangeInclusive<u32>) -> std::ops::RangeInclusive<i64> {
    i64::from(*sizes.start())..=i64::from(*sizes.end())
}

/// A chart that was written.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Written {
    /// Its name in the directory that was asked for.
    file: String,
    /// Whose calls it shows.
    probe: Probe,
    /// Which chart it is.
    chart: &'static str,
    /// `png` or `svg`.
    format: &'static str,
    /// Pixels.
    width: u32,
    /// Pixels.
    height: u32,
}

/// The charts that were written.
#[derive(serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "chart")]
pub(crate) struct Document<'a> {
    /// Version of this document, 1.
    schema: u32,
    /// In the order in which they were drawn.
    charts: &'a [Written],
    /// Nothing is missing or lost, and every engine answered rightly.
    sound: bool,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        // Before the work, which may take long.
        chart::make_directory(&self.out)?;
        let digests = self.source.load()?;
        let written = self.draw(&digests)?;
        if let Some(path) = &self.summary {
            let names = written.iter().map(|chart| chart.file.clone()).collect();
            let text = Summary::new(&self.mode, &digests, names)
                .to_json()
                .context("the summary cannot be written as JSON")?;
            digests::write_file(path, &text)?;
        }
        let sound = digests::sound(&digests);
        if self.json {
            output::print_json(&Document { schema: 1, charts: &written, sound })?;
        } else {
            let mut text = if self.tables { tables::all(&digests) + "\n" } else { String::new() };
            for chart in &written {
                text += &format!("{}\n", self.out.join(&chart.file).display());
            }
            output::print_tables(&text)?;
        }
        let events =
            |digest: &Digest| Probe::ALL.into_iter().any(|probe| digest.probe(probe).latency.count() > 0);
        if !digests.iter().any(events) {
            output::note("no recording holds an event, and the charts say so");
            return Ok(ExitCode::from(1));
        }
        if !sound {
            output::note("something is missing or lost; the footers and `memslot summary` say what");
            return Ok(ExitCode::from(1));
        }
        Ok(ExitCode::SUCCESS)
    }

    fn draw(&self, digests: &[Digest]) -> anyhow::Result<Vec<Written>> {
        let digests: Vec<&Digest> = digests.iter().collect();
        let size = Size { width: self.width, height: self.height };
        let bar = digests::bar();
        let mut written = Vec::new();
        let formats: BTreeSet<Format> = self.format.iter().copied().collect();
        for (probe, chart) in self.wanted(&digests) {
            let stem = chart.file_stem(probe);
            bar.set_message(format!("drawing {stem}"));
            let picture = chart::draw(chart, probe, &digests, size);
            for format in &formats {
                let file = format!("{stem}.{}", format.name());
                picture.save(&self.out.join(&file), *format)?;
                written.push(Written {
                    file,
                    probe,
                    chart: chart.name(),
                    format: format.name(),
                    width: picture.width,
                    height: picture.height,
                });
            }
        }
        bar.finish_and_clear();
        Ok(written)
    }

    /// The charts that have something to show; of probes and charts asked for, all but pointless comparisons.
    fn wanted(&self, digests: &[&Digest]) -> Vec<(Probe, Chart)> {
        let is_asked = |probe: Probe, chart: Chart| {
            (self.probe.is_empty() || self.probe.contains(&probe))
                && (self.only.is_empty() || self.only.contains(&chart))
        };
        let asked: Vec<(Probe, Chart)> = Probe::ALL
            .into_iter()
            .flat_map(|probe| Chart::of(probe).map(move |chart| (probe, chart)))
            .filter(|(probe, chart)| is_asked(*probe, *chart))
            .collect();
        let mut wanted = asked.clone();
        wanted.retain(|(probe, chart)| {
            let named = !self.probe.is_empty() && *chart != Chart::Scaling;
            named || chart::worthwhile(*chart, *probe, digests)
        });
        if wanted.is_empty() {
            // Charts that say that there is nothing: those asked for, else one of each probe.
            wanted = asked;
            wanted.retain(|(_, chart)| !self.only.is_empty() || *chart == Chart::Latency);
        }
        wanted
    }
}
