//! `memslot generate`: man pages, completions and schemas, all from the definitions that the program itself runs by.

use super::{chart, digests, doctor, engines, export, output, ple, record, replay, serve, workload};
use crate::cli::Cli;
use anyhow::Context;
use clap_complete::Shell;
use memslot::compare::Comparison;
use memslot::engine::TreeShape;
use memslot::recording::Meta;
use memslot::replay::clock::EngineTimes;
use memslot::report::by::Told;
use memslot::report::summary::Summary;
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  memslot generate man | man -l -
  memslot generate man --out man
  memslot generate completions bash > memslot.bash
  memslot generate schemas --out schema

Exit codes: 0 done; 2 error.")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The man page of memslot, or one of every command in a directory
    #[command(after_help = "\
Examples:
  memslot generate man | man -l -
  memslot generate man --out man

Exit codes: 0 done; 2 error.")]
    Man {
        /// Write one page a command into this directory; made if it is not there
        #[arg(short, long, visible_alias = "output", value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Completions for a shell
    #[command(after_help = "\
Examples:
  memslot generate completions bash > memslot.bash
  memslot generate completions zsh > _memslot

Exit codes: 0 done; 2 error.")]
    Completions {
        /// The shell
        shell: Shell,
    },
    /// The JSON schema of each command's `--json` and of a recording's JSON files
    #[command(
        visible_alias = "schema",
        after_help = "\
Examples:
  memslot generate schemas > schemas.json
  memslot generate schemas --out schema

Exit codes: 0 done; 2 error."
    )]
    Schemas {
        /// Write one file a schema into this directory; made if it is not there
        #[arg(short, long, visible_alias = "output", value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.what {
            What::Man { out: None } => output::print(&page(Cli::definition())?)?,
            What::Man { out: Some(directory) } => {
                for (name, text) in pages()? {
                    write(&directory, &name, &text)?;
                }
            }
            What::Completions { shell } => {
                let mut text = Vec::new();
                clap_complete::generate(shell, &mut Cli::definition(), "memslot", &mut text);
                output::print(&String::from_utf8(text).context("the completions are no text")?)?;
            }
            What::Schemas { out: None } => {
                output::print_json(&schemas().into_iter().collect::<std::collections::BTreeMap<_, _>>())?;
            }
            What::Schemas { out: Some(directory) } => {
                for (name, schema) in schemas() {
                    let text = serde_json::to_string_pretty(&schema)
                        .context("the schema cannot be written as JSON")?;
                    write(&directory, &format!("{name}.json"), &(text + "\n"))?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn write(directory: &Path, name: &str, text: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).map_err(|error| {
        anyhow::anyhow!("cannot make {}: {}; choose another place", directory.display(), error.kind())
    })?;
    digests::write_file(&directory.join(name), text)
}

/// A command's man page.
fn page(command: clap::Command) -> anyhow::Result<String> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text).context("the man page cannot be made")?;
    String::from_utf8(text).context("the man page is no text")
}

/// The man pages of memslot and its commands, by file name.
fn pages() -> anyhow::Result<Vec<(String, String)>> {
    let mut root = Cli::definition().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    let mut open = vec![root];
    while let Some(command) = open.pop() {
        open.extend(command.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
        let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
        pages.push((format!("{name}.1"), page(command)?));
    }
    Ok(pages)
}

/// The schema of what is printed, which says more than that of what would be read: what is left out, and when.
fn schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

/// Every schema by its name.
fn schemas() -> Vec<(&'static str, Schema)> {
    vec![
        ("chart", schema::<chart::Document<'_>>()),
        ("compare", schema::<Comparison>()),
        ("doctor", schema::<doctor::Report>()),
        ("engines", schema::<Vec<engines::Listed>>()),
        ("engines-show", schema::<TreeShape>()),
        ("export", schema::<export::Document>()),
        ("ple", schema::<ple::Document<ple::Recorded>>()),
        ("ple-simulate", schema::<ple::Document<ple::Simulated>>()),
        ("record", schema::<record::line::Line>()),
        ("recording-engines", schema::<EngineTimes>()),
        // A reader meets files of older versions too, which lack what came later.
        ("recording-meta", SchemaGenerator::default().into_root_schema_for::<Meta>()),
        ("replay", schema::<replay::Document<'_>>()),
        ("replay-direct", schema::<replay::DirectDocument<'_>>()),
        ("serve", schema::<serve::Listening>()),
        ("summary", schema::<Summary>()),
        ("summary-by", schema::<Told>()),
        ("workload", schema::<workload::Printed<'_>>()),
    ]
}
