//! `memslot engines`

use super::output;
use anyhow::Context;
use memslot::engine::{EngineId, Range, TreeShape};
use memslot::layouts::{self, FORMS, Generator};
use memslot::model::Memslot;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = format!("Layouts to generate:\n{FORMS}"))]
pub(crate) struct Args {
    /// Show this tree over a layout: wbtree, rbtree or interval_tree
    #[arg(long, value_name = "ENGINE")]
    show: Option<EngineId>,
    /// A JSON file with the slots in the order of creation: [{"id": 0, "base_gfn": 0, "npages": 160}, …]
    #[arg(long, value_name = "FILE", requires = "show", conflicts_with = "generate")]
    layout: Option<PathBuf>,
    /// A generated layout, see below [default: qemu-q35]
    #[arg(long, value_name = "LAYOUT", requires = "show")]
    generate: Option<Generator>,
    /// Create the slots in an order drawn with this seed
    #[arg(long, value_name = "SEED", requires = "show")]
    shuffle: Option<u64>,
    /// Write the tree for Graphviz
    #[arg(long, requires = "show")]
    dot: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "dot")]
    json: bool,
}

#[derive(serde::Serialize)]
struct Listed {
    name: &'static str,
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
        let mut slots = match &self.layout {
            Some(path) => read(path)?,
            None => self.generate.unwrap_or(Generator::Q35 { gib: 8 }).slots(),
        };
        if let Some(seed) = self.shuffle {
            layouts::shuffle(&mut slots, seed);
        }
        let ranges = ranges(&slots)?;
        let shape = TreeShape::new(engine, &ranges)?;
        let name = |key: u32| match slots.get(key as usize) {
            Some(slot) => format!("slot {}", slot.id),
            None => String::new(),
        };
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

fn read(path: &Path) -> anyhow::Result<Vec<Memslot>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| anyhow::anyhow!("{} cannot be read: {}", path.display(), error.kind()))?;
    serde_json::from_str(&text).with_context(|| format!("{} holds no slots", path.display()))
}

/// The slots' frames, with their place in the order of creation as the key.
fn ranges(slots: &[Memslot]) -> anyhow::Result<Vec<Range>> {
    let range = |(slot, key)| {
        Range::of_slot(slot, key).with_context(|| {
            let Memslot { id, base_gfn, npages } = slot;
            format!(
                "slot {id} has no pages, or runs past the last frame: base_gfn {}, npages {npages}",
                base_gfn.0
            )
        })
    };
    slots.iter().zip(0..).map(range).collect()
}
