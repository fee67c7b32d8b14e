//! What an experiment is about: one layout, one kernel, one boot.

use crate::engine::EngineId;
use crate::model::Probe;
use crate::recording;
use crate::replay::{self, LastUsed};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A livepatch module of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Module {
    /// `memslot_klp_kvm`: the look-ups of memory slots
    Kvm,
    /// `memslot_klp_vhost`: the look-ups of vhost's regions
    Vhost,
}

impl Module {
    /// The module's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "memslot_klp_kvm",
            Self::Vhost => "memslot_klp_vhost",
        }
    }

    /// The function around the search, which the probes measure.
    #[must_use]
    pub fn probe(self) -> Probe {
        match self {
            Self::Kvm => Probe::PageFault,
            Self::Vhost => Probe::Translate,
        }
    }

    /// The kernel's own tree.
    #[must_use]
    pub fn own_tree(self) -> EngineId {
        match self {
            Self::Kvm => EngineId::Rbtree,
            Self::Vhost => EngineId::IntervalTree,
        }
    }

    /// The model of an engine of the module; `stock` is the kernel's own tree.
    #[must_use]
    pub fn model(self, engine: &str) -> Option<EngineId> {
        if engine == "stock" { Some(self.own_tree()) } else { engine.parse().ok() }
    }

    /// What the module's parameter `engine` is called where the search itself is timed: the kernel's own
    /// tree is then searched by way of an index, as the others are.
    #[must_use]
    pub fn timed_name(self, engine: &str) -> &str {
        if engine == "stock" { self.own_tree().name() } else { engine }
    }

    /// What is asked before the stock kernel's own search.
    pub(super) fn stock_last_used(self) -> LastUsed {
        LastUsed::On
    }

    /// What is asked before an engine. vhost's module keeps one region a table, and here one queue has one.
    pub(super) fn last_used(self, cached: bool) -> LastUsed {
        match (self, cached) {
            (Self::Kvm, true) | (Self::Vhost, false) => LastUsed::On,
            (Self::Kvm, false) => LastUsed::Off,
            (Self::Vhost, true) => LastUsed::Queue,
        }
    }
}

/// `setup.json` in a boot's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Which search is exchanged.
    pub module: Module,
    /// Series of the kernel.
    pub kernel: String,
    /// Engines besides `stock`, in the order of the runs.
    pub engines: Vec<String>,
    /// Slots or regions.
    pub slots: u64,
    /// How addresses are chosen.
    pub pattern: String,
    /// Order of registration.
    pub order: String,
    /// Is the item that was found last asked first?
    pub cached: bool,
    /// Calls that the workload is asked for, about.
    pub calls: u64,
    /// A nanosecond and a tick are an instruction.
    pub exact: bool,
}

/// Why an experiment cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the boot is not there or not as it should be.
    #[error("{} cannot be used: {reason}; run the experiment again", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(#[from] recording::Error),
    /// It cannot be replayed.
    #[error(transparent)]
    Replay(#[from] replay::Error),
}

impl Error {
    pub(super) fn bad(path: &Path, reason: impl ToString) -> Self {
        Self::Bad { path: path.to_owned(), reason: reason.to_string() }
    }
}

/// Reads a JSON file of a boot.
///
/// # Errors
/// It is not there, or not of that form.
pub(super) fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::bad(path, error.kind()))?;
    serde_json::from_str(&text).map_err(|error| Error::bad(path, error))
}

impl Setup {
    /// Does this engine ask the item that was found last? The stock kernel's vhost never does, whatever the module is
    /// set to, and its KVM does where there is no patch.
    #[must_use]
    pub fn asks_last(&self, engine: &str) -> bool {
        match (self.module, engine) {
            (Module::Vhost, "stock" | "off") => false,
            (Module::Kvm, "off") => true,
            _ => self.cached,
        }
    }

    /// Reads the setup of a boot.
    ///
    /// # Errors
    /// It is not there, or not of that form.
    pub fn read(boot: &Path) -> Result<Self, Error> {
        read_json(&boot.join("setup.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stock_kernel_asks_last_where_it_does() {
        let setup = |module, cached| Setup {
            module,
            kernel: "6.12".to_owned(),
            engines: Vec::new(),
            slots: 3,
            pattern: "random".to_owned(),
            order: "ascending".to_owned(),
            cached,
            calls: 1,
            exact: true,
        };
        let asks =
            |module, cached| ["off", "stock", "linear"].map(|engine| setup(module, cached).asks_last(engine));
        assert_eq!(asks(Module::Kvm, false), [true, false, false]);
        assert_eq!(asks(Module::Kvm, true), [true, true, true]);
        assert_eq!(asks(Module::Vhost, true), [false, false, true]);
        assert_eq!(asks(Module::Vhost, false), [false, false, false]);
    }
}
