//! `cargo xtask experiment`: exchanges a search of the running kernel, and holds what it takes against what was
//! predicted from a recording of the stock kernel.

mod boot;
mod layout;

use crate::command::Tool;
use crate::kbuild::{self, Own};
use crate::lab::Series;
use crate::{build, paths, setup};
use anyhow::{Context, Result, ensure};
use boot::Boot;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exchange a search of the running kernel in the lab, and hold what it takes against the prediction
///
/// For each number of slots or regions one guest is booted. The stock kernel is recorded; the livepatch module then
/// answers by each engine in turn and back again (A B B A), recorded by the same probes; then the patch is taken away
/// and the stock kernel recorded once more. Every engine is predicted from the stock kernel's first recording alone.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Which search
    series: Which,
    /// 6.1 or 6.12
    #[arg(long, default_value = "6.12", value_parser = kbuild::series)]
    kernel: Series,
    /// Engines besides stock, comma-separated
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_values = ENGINES, value_parser = ENGINES)]
    engines: Vec<String>,
    /// Slots or regions, comma-separated; a boot for each
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = SLOTS, value_parser = clap::value_parser!(u64).range(3..=4096))]
    slots: Vec<u64>,
    /// How addresses are chosen: random, skewed, sequential; for kvm also stream, for vhost also first and last
    #[arg(long, value_name = "PATTERN", default_value = "random")]
    pattern: String,
    /// Order in which slots or regions are registered
    #[arg(long, value_enum, default_value = "ascending")]
    order: layout::Order,
    /// The slots of 2011 instead (below 1 MiB, 1 MiB to 3.5 GiB, from 4 GiB on); kvm only
    #[arg(long, conflicts_with = "slots")]
    classic: bool,
    /// Ask what was found last before an engine [default: for kvm, whose own search does]
    #[arg(long, conflicts_with = "uncached")]
    cached: bool,
    /// Do not
    #[arg(long)]
    uncached: bool,
    /// Calls of the probed function that a run makes, about
    #[arg(long, value_name = "N", default_value_t = 20_480, value_parser = clap::value_parser!(u64).range(1024..))]
    calls: u64,
    /// Let the guest have time as it comes instead of counting instructions: nothing is exact then
    #[arg(long)]
    no_exact: bool,
    /// Where boots, experiment.json and charts go [default: target/experiment/kvm or vhost]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const EXIT_CODES: &str = "\
Exit codes: 0 every search was predicted within 10 % and every answer was the stock search's; 1 one was not, or calls \
were lost; 2 error.";

const ENGINES: [&str; 6] =
    ["linear", "linear_by_size", "sorted_array", "sorted_array_kernel", "wbtree", "eytzinger"];
const SLOTS: [u64; 6] = [3, 32, 53, 117, 509, 4096];

/// A search that a module replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Which {
    /// KVM's memory slots, in page faults
    Kvm,
    /// vhost's regions, in translations
    Vhost,
}

impl Which {
    fn name(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Vhost => "vhost",
        }
    }
}

impl Args {
    /// Boots, records, evaluates.
    ///
    /// # Errors
    /// A guest failed, or what it left cannot be evaluated.
    pub(crate) fn run(self) -> Result<ExitCode> {
        ensure!(
            !self.classic || self.series == Which::Kvm,
            "--classic is a layout of slots; leave it out, or run `cargo xtask experiment kvm`"
        );
        setup::ensure()?;
        let memslot = build::static_binary(&build::probes()?)?;
        let modules = kbuild::build(Own::Livepatch, self.kernel)?;
        let out =
            self.out.clone().unwrap_or_else(|| paths::target().join("experiment").join(self.series.name()));
        fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
        let out = std::path::absolute(out)?;
        let sizes = if self.classic { vec![3] } else { self.slots.clone() };
        let mut boots = Vec::new();
        for slots in sizes {
            let boot = Boot { args: &self, slots, memslot: &memslot, modules: &modules };
            boots.push(boot.run(&out)?);
        }
        let code = Tool::new(&memslot)
            .directory(&out)
            .args(["experiment", "evaluate", "--out", "."])
            .args(&boots)
            .exit_code()?;
        eprintln!("xtask: experiment.json and the charts are in {}", out.display());
        Ok(ExitCode::from(u8::try_from(code).unwrap_or(2)))
    }

    fn cached(&self) -> bool {
        self.cached || (self.series == Which::Kvm && !self.uncached)
    }
}
