//! How many calls of each probed function a workload causes.

use super::Host;
use serde::Serialize;
use std::collections::BTreeMap;

/// A function whose number of calls cannot be promised on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Inexact {
    /// The kernel function.
    pub function: &'static str,
    /// Why.
    pub reason: String,
}

/// The forecast: calls by kernel function, from the options alone and the host's module parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Expectation {
    /// Calls in the counted part, by kernel function; a function that is not called stands at 0.
    pub calls: BTreeMap<&'static str, u64>,
    /// Every figure in `calls` is exact.
    pub exact: bool,
    /// Those that are not.
    pub inexact: Vec<Inexact>,
}

/// `kvm_mmu_page_fault`
pub(crate) const PAGE_FAULT: &str = "kvm_mmu_page_fault";
/// `kvm_vcpu_on_spin`, called once by each PAUSE exit
pub(crate) const ON_SPIN: &str = "kvm_vcpu_on_spin";
/// `translate_desc`
pub(crate) const TRANSLATE: &str = "translate_desc";

impl Expectation {
    /// The forecast of a workload that causes nothing yet.
    pub(crate) fn new(host: &Host) -> Self {
        let functions = [PAGE_FAULT, host.vendor.pause_handler(), ON_SPIN, TRANSLATE];
        Self { calls: functions.map(|function| (function, 0)).into(), exact: true, inexact: Vec::new() }
    }

    /// Sets what is expected of `function`, and why it is not certain.
    pub(crate) fn set(&mut self, function: &'static str, calls: u64, reason: Option<String>) {
        self.calls.insert(function, calls);
        self.inexact.retain(|inexact| inexact.function != function);
        self.inexact.extend(reason.map(|reason| Inexact { function, reason }));
        self.exact = self.inexact.is_empty();
    }

    /// Sets the PAUSE exits that `pauses` executed PAUSEs cause on `host`.
    pub(crate) fn set_pauses(&mut self, host: &Host, pauses: u64) {
        let (exits, reason) = host.pause_exits(pauses);
        self.set(host.vendor.pause_handler(), exits, reason.clone());
        self.set(ON_SPIN, exits, reason);
    }
}
