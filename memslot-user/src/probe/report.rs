//! What became of the probes: by function, and summed up by probe.

use super::kernel_types::Gaps;
use crate::{
    model::Probe,
    recording::{AttachKind, Attached},
};
use serde::Serialize;

/// What became of one function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct FunctionReport {
    /// The symbol as probed, or its usual name where it was not found.
    pub function: String,
    /// `page_fault`, `ple`, `translate`, `slots` or `regions`.
    pub purpose: String,
    /// How it is attached; `None`: it is not.
    pub attached: Option<AttachKind>,
    /// Why it is not attached, or not by fentry, and what to do.
    pub reason: Option<String>,
    /// What is lost without it, where it is not essential.
    pub without: Option<String>,
}

/// How well a probe does on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All of it.
    Available,
    /// It measures, but the notes say what it leaves out.
    Degraded,
    /// It measures nothing.
    Missing,
}

/// What became of a probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Verdict {
    /// How well it does.
    pub status: Status,
    /// Its probed functions, the one that gives the latency first.
    pub attached: Vec<Attached>,
    /// What is missing, why, and what to do; a sentence each.
    pub notes: Vec<String>,
}

impl Verdict {
    /// Sums up what became of a probe's functions.
    #[must_use]
    pub fn new(probe: Probe, functions: &[FunctionReport], gaps: &Gaps) -> Self {
        let (layout, gap) = match probe {
            Probe::PageFault => (Some("slots"), gaps.slots.as_ref()),
            Probe::Ple => (None, gaps.window.as_ref()),
            Probe::Translate => (Some("regions"), gaps.regions.as_ref()),
        };
        let mut notes: Vec<String> = gap.iter().map(|gap| format!("figures are left out: {gap}")).collect();
        let mut attached = Vec::new();
        let mut missing = true;
        for report in functions {
            let own = report.purpose == probe.name();
            if !own && Some(report.purpose.as_str()) != layout {
                continue;
            }
            if let (true, Some(kind)) = (own, report.attached) {
                let function = Attached { function: report.function.clone(), kind };
                if report.without.is_none() {
                    missing = false;
                    attached.insert(0, function);
                } else {
                    attached.push(function);
                }
            }
            if let Some(reason) = &report.reason {
                let lost = report.without.as_ref().filter(|_| report.attached.is_none());
                let lost = lost.map(|lost| format!(" ({lost})")).unwrap_or_default();
                notes.push(format!("{}: {reason}{lost}", report.function));
            }
        }
        let status = match (missing, notes.is_empty()) {
            (true, _) => Status::Missing,
            (false, true) => Status::Available,
            (false, false) => Status::Degraded,
        };
        Self { status, attached, notes }
    }
}

#[cfg(test)]
mod tests {
    use super::{FunctionReport, Status, Verdict};
    use crate::{model::Probe, probe::Gaps, recording::AttachKind};

    fn function(attached: Option<AttachKind>, reason: Option<&str>, without: Option<&str>) -> FunctionReport {
        FunctionReport {
            function: "f".into(),
            purpose: "ple".into(),
            attached,
            reason: reason.map(Into::into),
            without: without.map(Into::into),
        }
    }

    #[test]
    fn a_probe_is_missing_without_its_essential_function_and_degraded_without_another() {
        let essential = function(Some(AttachKind::Fentry), None, None);
        let status =
            |functions: &[FunctionReport]| Verdict::new(Probe::Ple, functions, &Gaps::default()).status;
        assert_eq!(status(std::slice::from_ref(&essential)), Status::Available);
        let lost = function(None, Some("inlined"), Some("yields are not counted"));
        let judged = Verdict::new(Probe::Ple, &[essential.clone(), lost], &Gaps::default());
        assert_eq!(judged.status, Status::Degraded);
        assert_eq!(judged.notes, ["f: inlined (yields are not counted)"]);
        assert_eq!(status(&[function(None, Some("not loaded"), None)]), Status::Missing);
        let gaps = Gaps { window: Some("no BTF".into()), ..Gaps::default() };
        assert_eq!(Verdict::new(Probe::Ple, &[essential], &gaps).status, Status::Degraded);
    }
}
