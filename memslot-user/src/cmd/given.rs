//! Layouts and addresses on the command line of `memslot replay`, in place of a recording.

use anyhow::{Context, anyhow};
use memslot::given::{self, Access, Layout, Pattern};
use memslot::layouts;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Without a recording")]
pub(crate) struct Given {
    /// Slots as JSON, CSV (id, base_gfn, npages, or start with size or last) or QEMU's `info mtree -f`
    #[arg(long, value_name = "FILE", conflicts_with = "generate")]
    layout: Option<PathBuf>,
    /// Make a layout: qemu-q35[:GIB], dimms:N[:MIB], vfio:N, hyperv:N, 2011[:GIB], 32-slots, random:N[:SEED]
    #[arg(long, value_name = "LAYOUT")]
    generate: Option<String>,
    /// Addresses as JSON or CSV (address or gfn; vcpu or queue; time)
    #[arg(long, value_name = "FILE", conflicts_with = "pattern")]
    addresses: Option<PathBuf>,
    /// Make addresses [default: random]
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<Pattern>,
    /// Addresses to make
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    accesses: u32,
    /// vCPUs that make them in turn, each with a last-used slot
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    vcpus: u32,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl Given {
    pub(crate) fn read_layout(&self) -> anyhow::Result<Layout> {
        layout(self.layout.as_deref(), self.generate.as_deref().unwrap_or_default())
    }

    pub(crate) fn read_accesses(&self, layout: &Layout) -> anyhow::Result<Vec<Access>> {
        if let Some(path) = &self.addresses {
            return given::addresses(&read(path)?).with_context(|| path.display().to_string());
        }
        let pattern = self.pattern.unwrap_or(Pattern::Random);
        given::accesses(layout, pattern, self.accesses as usize, self.vcpus, self.seed)
            .map_err(|reason| anyhow!(reason))
    }
}

/// The layout of a file, or without one the generated layout of this name.
pub(crate) fn layout(path: Option<&Path>, generate: &str) -> anyhow::Result<Layout> {
    match path {
        Some(path) => given::layout(&read(path)?).with_context(|| path.display().to_string()),
        None => Ok(Layout::from(layouts::parse(generate)?)),
    }
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => anyhow!("{} does not exist; check the path", path.display()),
        std::io::ErrorKind::InvalidData => anyhow!("{} is no text", path.display()),
        kind => anyhow!("{} cannot be read: {kind}", path.display()),
    })
}
