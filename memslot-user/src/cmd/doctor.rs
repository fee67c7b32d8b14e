//! `memslot doctor`: attaches every probe for a moment and says what became of it.

use anyhow::Context;
use memslot::{
    model::Probe,
    probe::{FunctionReport, Gaps, Options, Preference, Probes},
    recording::AttachKind,
};
use serde::Serialize;
use std::{collections::BTreeMap, process::ExitCode};

/// Bytes of the ring while nothing is read from it: the smallest that every kernel takes.
const SMALL_RING: u32 = 1 << 16;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo memslot doctor
  sudo memslot doctor --attach kprobe --json

Exit codes: 0 every probe is available; 1 some are degraded or missing; 2 nothing can be probed here.")]
pub(crate) struct Args {
    /// Try this attach kind only
    #[arg(long, value_enum, default_value_t)]
    attach: Preference,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Available,
    Degraded,
    Missing,
}

#[derive(Debug, Serialize)]
struct ProbeReport {
    status: Status,
    attach: Option<AttachKind>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    kernel: String,
    probes: BTreeMap<Probe, ProbeReport>,
    functions: Vec<FunctionReport>,
}

/// Sums up what became of a probe's functions.
fn judge(probe: Probe, functions: &[FunctionReport], gaps: &Gaps) -> ProbeReport {
    let (layout, gap) = match probe {
        Probe::PageFault => (Some("slots"), gaps.slots.as_ref()),
        Probe::Ple => (None, gaps.window.as_ref()),
        Probe::Translate => (Some("regions"), gaps.regions.as_ref()),
    };
    let own =
        |report: &&FunctionReport| report.purpose == probe.name() || Some(report.purpose.as_str()) == layout;
    let mut notes: Vec<String> = gap.iter().map(|gap| format!("figures are left out: {gap}")).collect();
    let mut attach = None;
    let mut missing = true;
    for report in functions.iter().filter(own) {
        if report.without.is_none() && report.attached.is_some() {
            missing = false;
            attach = report.attached;
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
    ProbeReport { status, attach, notes }
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let options = Options {
            probes: Probe::ALL.into_iter().collect(),
            preference: self.attach,
            ring_bytes: SMALL_RING,
        };
        let probes = Probes::attach(&options).context("nothing can be probed on this host")?;
        let functions = probes.functions.clone();
        let gaps = probes.gaps.clone();
        drop(probes);
        let judged = Probe::ALL.into_iter().map(|probe| (probe, judge(probe, &functions, &gaps)));
        let kernel = memslot::probe::kernel_release();
        let report = Report { schema: 1, kernel, probes: judged.collect(), functions };
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            print!("{}", text(&report));
        }
        let whole = report.probes.values().all(|probe| probe.status == Status::Available);
        Ok(ExitCode::from(u8::from(!whole)))
    }
}

fn text(report: &Report) -> String {
    let mut text = format!("Linux {}\n\n", report.kernel);
    for (probe, judged) in &report.probes {
        let status = match judged.status {
            Status::Available => "available",
            Status::Degraded => "degraded",
            Status::Missing => "missing",
        };
        let attach = judged.attach.map(|kind| format!("by {}", kind.name())).unwrap_or_default();
        let line = format!("{:<11} {status:<10} {attach}", probe.name());
        text.push_str(line.trim_end());
        text.push('\n');
        for note in &judged.notes {
            text.push_str(&format!("    {}\n", note.replace('\n', "\n      ")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Report, Status, judge, text};
    use memslot::{
        model::Probe,
        probe::{FunctionReport, Gaps},
        recording::AttachKind,
    };

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
        let judged = |functions: &[FunctionReport]| judge(Probe::Ple, functions, &Gaps::default()).status;
        assert_eq!(judged(std::slice::from_ref(&essential)), Status::Available);
        let lost = function(None, Some("inlined"), Some("yields are not counted"));
        assert_eq!(judged(&[essential.clone(), lost]), Status::Degraded);
        assert_eq!(judged(&[function(None, Some("not loaded"), None)]), Status::Missing);
        let report = Report {
            schema: 1,
            kernel: "6.1".into(),
            probes: [(
                Probe::Ple,
                judge(Probe::Ple, &[function(None, Some("not loaded"), None)], &Gaps::default()),
            )]
            .into(),
            functions: Vec::new(),
        };
        assert_eq!(text(&report), "Linux 6.1\n\nple         missing\n    f: not loaded\n");
        let gaps = Gaps { window: Some("no BTF".into()), ..Gaps::default() };
        assert_eq!(judge(Probe::Ple, &[essential], &gaps).status, Status::Degraded);
    }
}
