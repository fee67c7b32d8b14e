//! `cargo xtask livepatch`.

use super::module::series;
use super::own::{self, Own};
use crate::lab::Series;
use anyhow::Result;
use std::process::ExitCode;

/// Build the modules that replace the kernel's searches while it runs, and print their directory
///
/// memslot_klp_vhost and memslot_klp_kvm, from xtask/lab/livepatch. docs/lab-modules.md tells how they are used.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// 6.1 or 6.12
    #[arg(long, default_value = "6.12", value_parser = series)]
    kernel: Series,
}

impl Args {
    /// Builds.
    ///
    /// # Errors
    /// As [`own::build`].
    pub(crate) fn run(self) -> Result<ExitCode> {
        println!("{}", own::build(Own::Livepatch, self.kernel)?.display());
        Ok(ExitCode::SUCCESS)
    }
}
