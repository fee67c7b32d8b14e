//! `memslot engines`

use super::{given, output, values};
use anyhow::Context;
use memslot::engine::{EngineId, TreeShape};
use memslot::layouts::{self, FORMS};
use std::path::PathBuf;
use std::process::ExitCode;

const AFTER_HELP: &str = "

Examples:
  memslot engines
  memslot engines --show rbtree --generate dimms:64
  memslot engines --show wbtree --layout slots.json --dot

Exit codes: 0 done; 2 error.";

#[derive(Debug, clap::Args)]
#[command(after_help = format!("Layouts to generate:\n{FORMS}{AFTER_HELP}"))]
pub(crate) struct Args {
    /// Show this tree over a layout: wbtree, rbtree or interval_tree
    #[arg(short, long, value_name = "ENGINE", value_parser = values::engine())]
    show: Option<EngineId>,
    /// Slots in the order of creation, as `memslot replay` reads them: JSON, CSV or QEMU's `info mtree -f`
    #[arg(long, value_name = "FILE", requires = "show", conflicts_with = "generate")]
    layout: Option<PathBuf>,
    /// A generated layout, see below
    #[arg(long, value_name = "LAYOUT", requires = "show", default_value = "qemu-q35")]
    generate: String,
    /// Create the slots in an order drawn with this seed
    #[arg(long, value_name = "SEED", requires = "show")]
    shuffle: Option<u64>,
    /// Write the tree for Graphviz
    #[arg(long, requires = "show")]
    dot: bool,
    /// Print JSON
    #[arg(short, long, conflicts_with = "dot")]
    json: bool,
}

/// A data structure.
#[derive(serde::Serialize, schemars::JsonSchema)]
pub(crate) struct Listed {
    /// Its name in JSON, in tables and on the command line.
    name: &'static str,
    /// What it is, and who has or had it.
    what: &'static str,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let text = match self.show {
            Some(engine) => self.tree(engine)?,
            None => self.list()?,
        };
        output::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }

    fn list(&self) -> anyhow::Result<String> {
        let listed = EngineId::ALL.map(|id| Listed { name: id.name(), what: id.what() });
        if self.json {
            return json(&listed);
        }
        let line = |one: &Listed| format!("{:20} {}\n", one.name, one.what);
        Ok(listed.iter().map(line).collect::<String>()
            + "\nlast_used goes around any of them: the slot that a vCPU found last is asked first.\n")
    }

    fn tree(&self, engine: EngineId) -> anyhow::Result<String> {
        let mut layout = given::layout(self.layout.as_deref(), &self.generate)?;
        if let Some(seed) = self.shuffle {
            layouts::shuffle(&mut layout.ranges, seed);
        }
        let shape = TreeShape::new(engine, &layout.ranges)?;
        let name = |key: u32| layout.name(key);
        match (self.json, self.dot) {
            (true, _) => json(&shape),
            (_, true) => Ok(shape.dot(&name)),
            _ => Ok(shape.text(&name)),
        }
    }
}

fn json(value: &impl serde::Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value).context("the answer cannot be written as JSON")? + "\n")
}
