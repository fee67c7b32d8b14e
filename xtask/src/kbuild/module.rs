//! `cargo xtask module`.

use super::own::{self, Own};
use super::patched::{self, Change, Group};
use crate::lab::Series;
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;

/// Build a patched vhost or KVM for a lab kernel, and print the directory with the modules
///
/// They are built from the distribution's source and headers of the very version that the lab boots, with BTF. Those
/// that the change affects are put into a directory of their own: `cargo xtask lab --kernel SERIES+DIR` boots the stock
/// kernel with them in place of its own. What was built before is not built again.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// 6.1 or 6.12
    #[arg(long, default_value = "6.12", value_parser = series)]
    kernel: Series,
    /// A patch, from the root of the kernel's source
    #[arg(long, value_name = "FILE", conflicts_with = "edit")]
    patch: Option<PathBuf>,
    /// A shell script or program that edits the source; it runs in its root
    #[arg(long, value_name = "SCRIPT")]
    edit: Option<PathBuf>,
    /// Build the source as it is: shows what another compilation alone changes
    #[arg(long, conflicts_with_all = ["patch", "edit"])]
    unchanged: bool,
    /// Where the modules go [default: a directory of target/lab/modules]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What to build [default: by the files that are changed]
    #[arg(value_enum, required_unless_present_any = ["patch", "edit"])]
    what: Option<What>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// drivers/vhost
    Vhost,
    /// arch/x86/kvm and virt
    Kvm,
    /// memslot_truth, our own: functions of known length
    Truth,
}

/// A lab kernel by its name.
pub(crate) fn series(text: &str) -> Result<Series, String> {
    text.parse().map_err(|()| format!("{text} is neither 6.1 nor 6.12"))
}

impl Args {
    /// Builds.
    ///
    /// # Errors
    /// As [`patched::build`] and [`own::build`].
    pub(crate) fn run(self) -> Result<ExitCode> {
        let change = match (self.patch, self.edit) {
            (Some(patch), _) => Change::Patch(patch),
            (None, Some(script)) => Change::Edit(script),
            (None, None) => Change::None,
        };
        let group = match self.what {
            Some(What::Vhost) => Some(Group::Vhost),
            Some(What::Kvm) => Some(Group::Kvm),
            None => None,
            Some(What::Truth) => {
                anyhow::ensure!(
                    matches!(change, Change::None) && !self.unchanged && self.out.is_none(),
                    "memslot_truth is ours: it takes no patch; edit xtask/lab/truth instead"
                );
                println!("{}", own::build(Own::Truth, self.kernel)?.display());
                return Ok(ExitCode::SUCCESS);
            }
        };
        anyhow::ensure!(
            self.unchanged || !matches!(change, Change::None),
            "say what to change by --patch or --edit, or build the source as it is by --unchanged"
        );
        let directory = patched::build(self.kernel, &change, group, self.out.as_deref())?;
        eprintln!(
            "xtask: boot it by `cargo xtask lab --kernel {}+{}`",
            self.kernel.name(),
            directory.display()
        );
        println!("{}", directory.display());
        Ok(ExitCode::SUCCESS)
    }
}
