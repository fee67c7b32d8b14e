//! Page faults: a VM with any number of slots whose vCPUs touch listed addresses.

mod access;
mod forecast;
mod layout;
mod plan;
mod run;
mod stress;

pub use access::Pattern;
pub use forecast::Forecast;
pub use layout::{Control, Layout, Shape, Slot};
pub use plan::{Action, Change};
pub use run::{Report, run};
pub use stress::stress;

use super::{Order, WorkloadError};
use access::Mix;
use serde::Serialize;

/// How the pages that were touched are made to fault again in the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Refault {
    /// Not at all.
    None,
    /// The pages are given back (`MADV_DONTNEED`): the fault also allocates.
    Dontneed,
    /// Write permission is taken and given back: the fault maps a page that is there.
    Mprotect,
    /// Dirty logging write-protects them, as live migration does: writes only.
    Dirty,
}

/// What is done to one slot between two rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Churn {
    /// Nothing.
    None,
    /// A new slot above all others.
    Create,
    /// A slot goes.
    Delete,
    /// A slot moves above all others.
    Move,
    /// Create, move and delete in turn.
    Mixed,
}

/// The options of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Shape of the layout.
    pub shape: Shape,
    /// Pages of the large slot.
    pub large: u64,
    /// Order in which the slots are created.
    pub order: Order,
    /// Order in which RAM is touched.
    pub pattern: Pattern,
    /// Percent of accesses to a few frames without a slot.
    pub mmio: u32,
    /// Percent of accesses to frames right behind slots.
    pub gap: u32,
    /// Accesses of each vCPU in each round.
    pub accesses: u64,
    /// Rounds.
    pub rounds: u64,
    /// How pages fault again.
    pub refault: Refault,
    /// What happens to slots between rounds.
    pub churn: Churn,
    /// vCPUs.
    pub vcpus: u32,
    /// Write instead of read.
    pub write: bool,
    /// Seed of all that is random.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            shape: Shape::Uniform { slots: 32 },
            large: 1 << 16,
            order: Order::Ascending,
            pattern: Pattern::Random,
            mmio: 0,
            gap: 0,
            accesses: 4096,
            rounds: 4,
            refault: Refault::Dontneed,
            churn: Churn::None,
            vcpus: 1,
            write: false,
            seed: 1,
        }
    }
}

/// vCPUs at most: each needs a page for its list.
pub const MAX_VCPUS: u32 = 64;

impl Config {
    fn mix(&self) -> Mix {
        Mix {
            pattern: self.pattern,
            mmio: self.mmio,
            gap: self.gap,
            accesses: self.accesses,
            seed: self.seed,
        }
    }

    /// Refuses what cannot be, before anything is set up.
    fn check(&self, layout: &Layout) -> Result<(), WorkloadError> {
        let refuse = |text: &str| Err(WorkloadError::options(text));
        if self.mmio.saturating_add(self.gap) > 100 {
            return refuse("--mmio and --gap together exceed 100 percent");
        }
        if self.accesses == 0 || self.rounds == 0 {
            return refuse("--accesses and --rounds are at least 1");
        }
        if self.vcpus == 0 || self.vcpus > MAX_VCPUS || forecast::list_pages(&layout.control, self.vcpus) == 0
        {
            return Err(WorkloadError::options(format!(
                "this layout has room for the address lists of 1 to {} vCPUs; correct --vcpus",
                (layout.control.npages - Control::FIXED).min(u64::from(MAX_VCPUS))
            )));
        }
        if self.refault == Refault::Dirty && !self.write {
            return refuse("--refault dirty makes only writes fault again; add --write");
        }
        if self.churn != Churn::None && self.rounds > 65_536 {
            // KVM zaps all MMIO entries when 18 bits of the slots' generation wrap (6 changes of 4).
            return refuse("--churn goes with at most 65536 --rounds");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, Layout, Refault, Shape};
    use crate::workload::Order;

    #[test]
    fn contradictions_are_refused_with_the_remedy() {
        let layout = Layout::new(&Shape::Classic, 1000, Order::Ascending, 1).unwrap();
        let check = |config: Config| config.check(&layout).map_err(|error| error.to_string());
        assert_eq!(check(Config::default()), Ok(()));
        assert!(check(Config { mmio: 60, gap: 41, ..Config::default() }).unwrap_err().contains("exceed 100"));
        assert!(
            check(Config { refault: Refault::Dirty, ..Config::default() }).unwrap_err().contains("--write")
        );
        assert!(check(Config { vcpus: 65, ..Config::default() }).unwrap_err().contains("1 to 64 vCPUs"));
        assert!(check(Config { rounds: 0, ..Config::default() }).is_err());
    }
}
