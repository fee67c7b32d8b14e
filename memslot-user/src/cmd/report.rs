//! `memslot report`

use super::digests::{self, Source};
use anyhow::{Context, ensure};
use memslot::html::{self, Compared};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What `memslot compare --out` writes.
const COMPARISON: &str = "compare.json";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  memslot report rec -o report.html
  memslot report before after -o both.html
  memslot report comparison/ -o patch.html

Of a comparison it takes what `memslot compare --out comparison` wrote.
The file holds its charts, tables and scripts, and loads nothing.
Exit codes: 0 whole; 1 written, but something is missing or lost, which it says; 2 error.")]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
    /// The file to write
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let comparisons: Vec<PathBuf> =
            self.source.directories().iter().filter_map(|path| comparison_in(path)).collect();
        if let Some(path) = comparisons.first() {
            ensure!(
                self.source.directories().len() == 1,
                "{} is a comparison, and a report is of one comparison or of recordings; name it alone",
                path.display()
            );
            let text = of_comparison(path)?;
            digests::write_file(&self.out, &text)?;
            eprintln!("memslot: wrote {}", self.out.display());
            return Ok(ExitCode::SUCCESS);
        }
        let digests = self.source.load()?;
        let bar = digests::bar();
        bar.set_message("drawing");
        let text = html::of_recordings(&digests)?;
        bar.finish_and_clear();
        digests::write_file(&self.out, &text)?;
        eprintln!("memslot: wrote {}", self.out.display());
        Ok(if digests::sound(&digests) { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }
}

/// The comparison's own file, where the path is one or its directory.
fn comparison_in(path: &Path) -> Option<PathBuf> {
    if path.is_file() && path.extension().is_some_and(|ending| ending == "json") {
        return Some(path.to_owned());
    }
    Some(path.join(COMPARISON)).filter(|file| file.is_file())
}

fn of_comparison(path: &Path) -> anyhow::Result<String> {
    let json = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let compared = Compared::parse(&json).map_err(|why| anyhow::anyhow!("{} {why}", path.display()))?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut charts = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        let file = entry?.path();
        let name = file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with("compare-") && file.extension().is_some_and(|ending| ending == "png") {
            let png = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            charts.push((name, png));
        }
    }
    charts.sort();
    Ok(html::of_comparison(&compared, &charts))
}
