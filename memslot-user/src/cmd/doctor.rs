//! `memslot doctor`: attaches every probe for a moment and says what became of it.

use super::output;
use anyhow::Context;
use memslot::{
    model::Probe,
    probe::{FunctionReport, Options, Preference, Probes, Status, Verdict},
    recording::AttachKind,
};
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Write as _, process::ExitCode};

/// Bytes of the ring while nothing is read from it: the smallest that every kernel takes.
const SMALL_RING: u32 = 1 << 16;

/// What to know of fentry where tasks are preempted.
const PREEMPTIBLE: &str = "
This kernel is preemptible: it skips an fentry program while another task is inside the same one on that CPU. A
recording counts such calls as lost; with `--attach kprobe` there are none.
";

#[derive(Debug, clap::Args)]
#[command(after_help = "\
It really attaches each probe on this host, for a moment: only that shows whether it works.

Examples:
  sudo memslot doctor
  sudo memslot doctor --attach kprobe --json

Exit codes: 0 every probe is available; 1 some are degraded or missing; 2 nothing can be probed here.")]
pub(crate) struct Args {
    /// Try this attach kind only
    #[arg(short, long, value_enum, default_value_t)]
    attach: Preference,
    /// Print JSON
    #[arg(short, long)]
    json: bool,
}

/// What works on this host, and how.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(rename = "doctor")]
pub(crate) struct Report {
    /// Version of this document, 1.
    schema: u32,
    /// `uname -r`
    kernel: String,
    /// It may take a CPU from a task inside a probe's program; null where it does not say.
    preemptible: Option<bool>,
    /// Summed up by probe.
    probes: BTreeMap<Probe, Verdict>,
    /// By kernel function.
    functions: Vec<FunctionReport>,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let options = Options { preference: self.attach, ring_bytes: SMALL_RING, ..Options::default() };
        let probes = Probes::attach(&options).context("nothing can be probed on this host")?;
        let report = Report {
            schema: 1,
            kernel: memslot::probe::kernel_release(),
            preemptible: memslot::probe::is_preemptible(),
            probes: Probe::ALL.into_iter().map(|probe| (probe, probes.verdict(probe))).collect(),
            functions: probes.functions.clone(),
        };
        drop(probes);
        if self.json { output::print_json(&report) } else { output::print(&text(&report)) }?;
        let whole = report.probes.values().all(|verdict| verdict.status == Status::Available);
        Ok(ExitCode::from(u8::from(!whole)))
    }
}

fn text(report: &Report) -> String {
    let mut text = format!("Linux {}\n\n", report.kernel);
    for (probe, verdict) in &report.probes {
        let status = match verdict.status {
            Status::Available => "available",
            Status::Degraded => "degraded",
            Status::Missing => "missing",
        };
        let attach = verdict.attached.first().map(|function| format!("by {}", function.kind.name()));
        let line = format!("{:<11} {status:<10} {}", probe.name(), attach.unwrap_or_default());
        let _ = writeln!(text, "{}", line.trim_end());
        for note in &verdict.notes {
            let _ = writeln!(text, "    {}", note.replace('\n', "\n      "));
        }
    }
    let by_fentry = |verdict: &Verdict| verdict.attached.iter().any(|at| at.kind == AttachKind::Fentry);
    if report.preemptible == Some(true) && report.probes.values().any(by_fentry) {
        text += PREEMPTIBLE;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{PREEMPTIBLE, Report, text};
    use memslot::{
        model::Probe,
        probe::{Status, Verdict},
        recording::{AttachKind, Attached},
    };

    #[test]
    fn notes_stand_under_their_probe() {
        let attached = |kind| vec![Attached { function: "f".into(), kind }];
        let degraded = Verdict {
            status: Status::Degraded,
            attached: attached(AttachKind::Kprobe),
            notes: vec!["g: inlined\nlog".into()],
        };
        let missing =
            Verdict { status: Status::Missing, attached: Vec::new(), notes: vec!["h: not loaded".into()] };
        let mut report = Report {
            schema: 1,
            kernel: "6.1".into(),
            preemptible: Some(true),
            probes: [(Probe::Ple, degraded), (Probe::Translate, missing)].into(),
            functions: Vec::new(),
        };
        let expected = "Linux 6.1\n\nple         degraded   by kprobe\n    g: inlined\n      log\ntranslate   missing\n    \
                        h: not loaded\n";
        assert_eq!(text(&report), expected);
        let fentry =
            Verdict { status: Status::Available, attached: attached(AttachKind::Fentry), notes: Vec::new() };
        report.probes.insert(Probe::PageFault, fentry);
        assert!(text(&report).ends_with(PREEMPTIBLE));
        report.preemptible = None;
        assert!(!text(&report).contains("preemptible"));
    }
}
