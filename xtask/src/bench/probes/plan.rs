//! What is measured in a guest, and the script that does it.

use crate::command::quote;
use std::fmt::Write as _;

/// A way of attaching, and what is added to a tool's name for it.
const ATTACH: [(&str, &str); 2] = [("fentry", ""), ("kprobe", "_kprobe")];
/// Regions or slots at which the tools are compared.
pub(super) const COMPARED: u32 = 53;
/// Regions at which the walk of the tree is measured.
pub(super) const WALKED: [u32; 3] = [3, COMPARED, 509];

/// A probe of ours and the function that it and the other tools measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Function {
    /// The kernel's function.
    pub(super) name: &'static str,
    /// Our probe on it.
    pub(super) probe: &'static str,
}

/// vhost's translation of an address.
pub(super) const TRANSLATE: Function = Function { name: "translate_desc", probe: "translate" };
/// KVM's handler of page faults.
pub(super) const PAGE_FAULT: Function = Function { name: "kvm_mmu_page_fault", probe: "page_fault" };

/// What calls the function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Workload {
    /// Which function.
    pub(super) function: Function,
    /// Regions or slots.
    pub(super) ranges: u32,
}

impl Workload {
    /// The arguments of `memslot workload`.
    fn arguments(&self) -> String {
        let ranges = self.ranges;
        if self.function == TRANSLATE {
            // 60 times a queue of 1024.
            format!("vhost --regions {ranges} --order shuffled --kicks 60")
        } else {
            format!("slots --slots {ranges} --order shuffled --accesses 1024 --rounds 24")
        }
    }
}

/// The modes of `memslot record`.
const MODES: [&str; 3] = ["histogram", "sample", "events"];

/// What measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tool {
    /// Nothing; the second time, to see what else differs.
    Nothing { again: bool },
    /// A probe of ours.
    Memslot {
        /// As `memslot record --mode` calls it.
        mode: &'static str,
        /// As `memslot record --attach` calls it.
        attach: &'static str,
        /// Whether the recorder reads while the workload runs, or stands still until it is over.
        reads: bool,
    },
    /// A histogram by bpftrace, by `kprobe` or `kfunc`.
    Bpftrace(&'static str),
    /// `perf ftrace latency`.
    PerfFtrace,
}

impl Tool {
    /// Its name in the figures.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Nothing { again: false } => "baseline".to_owned(),
            Self::Nothing { again: true } => "baseline_again".to_owned(),
            Self::Memslot { mode, attach, reads } => {
                let mode = if *mode == "events" { "event" } else { mode };
                let suffix = ATTACH.iter().find(|(name, _)| name == attach).map_or("", |(_, suffix)| suffix);
                format!("{mode}{suffix}{}", if *reads { "_read" } else { "" })
            }
            Self::Bpftrace(kind) => format!("bpftrace_{kind}"),
            Self::PerfFtrace => "perf_ftrace".to_owned(),
        }
    }

    /// The shell's words that start it, in front of the command to trace; `name` is the measurement's.
    fn words(&self, function: Function, name: &str) -> String {
        match self {
            Self::Nothing { .. } => String::new(),
            Self::Memslot { mode, attach, reads } => {
                let still = if *reads { "" } else { "env STANDS_STILL=1 " };
                let probe = function.probe;
                format!(
                    " {still}memslot record -o \"$LAB_OUT/{name}.recording\" --probe {probe} --attach {attach} --mode {mode} --"
                )
            }
            Self::Bpftrace(kind) => {
                let returned = if *kind == "kprobe" { "kretprobe" } else { "kretfunc" };
                let function = function.name;
                let program = format!(
                    "{kind}:{function} {{ @start[tid] = nsecs; }} {returned}:{function} /@start[tid]/ \
                     {{ @ns = hist(nsecs - @start[tid]); delete(@start[tid]); }}"
                );
                format!(" bpftrace-while {}", quote(&program))
            }
            Self::PerfFtrace => format!(" perf ftrace latency -a -T {} --", function.name),
        }
    }
}

/// A workload under a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Measurement {
    /// What runs.
    pub(super) workload: Workload,
    /// What measures it.
    pub(super) tool: Tool,
}

impl Measurement {
    /// Names its files.
    pub(super) fn name(&self) -> String {
        format!("{}-{}.{}", self.workload.function.probe, self.workload.ranges, self.tool.key())
    }
}

/// All measurements of one boot.
pub(super) fn measurements() -> Vec<Measurement> {
    let mut all = Vec::new();
    for ranges in WALKED {
        let workload = Workload { function: TRANSLATE, ranges };
        all.extend(tools(ranges == COMPARED, true).into_iter().map(|tool| (workload.clone(), tool)));
    }
    let workload = Workload { function: PAGE_FAULT, ranges: COMPARED };
    all.extend(tools(true, false).into_iter().map(|tool| (workload.clone(), tool)));
    all.into_iter().map(|(workload, tool)| Measurement { workload, tool }).collect()
}

/// The tools in turn: ours, with `peers` the others too, and `everything` those whose reader takes CPU time besides.
fn tools(peers: bool, everything: bool) -> Vec<Tool> {
    let mut tools = vec![Tool::Nothing { again: false }];
    for mode in MODES {
        for (attach, _) in ATTACH {
            tools.push(Tool::Memslot { mode, attach, reads: false });
        }
        if everything && peers && mode == "events" {
            tools.push(Tool::Memslot { mode, attach: ATTACH[0].0, reads: true });
        }
    }
    if peers {
        tools.extend([Tool::Bpftrace("kprobe"), Tool::Bpftrace("kfunc")]);
        if everything {
            tools.push(Tool::PerfFtrace);
        }
        tools.push(Tool::Nothing { again: true });
    }
    tools
}

/// The script for a guest: one call of `measure` (peers/measure.sh) a line.
pub(super) fn script(measurements: &[Measurement]) -> String {
    let mut script = String::new();
    for measurement in measurements {
        let name = measurement.name();
        let workload = quote(&measurement.workload.arguments());
        let tool = measurement.tool.words(measurement.workload.function, &name);
        let _ = writeln!(script, "measure {name} {workload}{tool}");
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_name_of_its_own_and_a_baseline() {
        let all = measurements();
        let mut names: Vec<String> = all.iter().map(Measurement::name).collect();
        for measurement in &all {
            let baseline = Measurement { tool: Tool::Nothing { again: false }, ..measurement.clone() };
            assert!(names.contains(&baseline.name()), "{measurement:?}");
        }
        for name in [
            "translate-53.event",
            "translate-509.event_kprobe",
            "translate-3.histogram",
            "page_fault-53.bpftrace_kfunc",
        ] {
            assert!(names.iter().any(|other| other == name), "{name}");
        }
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_script_starts_each_tool_in_front_of_the_command_to_trace() {
        let workload = Workload { function: TRANSLATE, ranges: 53 };
        let line = |tool| {
            let all = [Measurement { workload: workload.clone(), tool }];
            script(&all).lines().next_back().unwrap().to_owned()
        };
        let begin = "'vhost --regions 53 --order shuffled --kicks 60'";
        assert_eq!(line(Tool::Nothing { again: false }), format!("measure translate-53.baseline {begin}"));
        assert_eq!(
            line(Tool::Memslot { mode: "histogram", attach: "kprobe", reads: false }),
            format!(
                "measure translate-53.histogram_kprobe {begin} env STANDS_STILL=1 memslot record -o \
                 \"$LAB_OUT/translate-53.histogram_kprobe.recording\" --probe translate --attach kprobe \
                 --mode histogram --"
            )
        );
        assert_eq!(
            line(Tool::PerfFtrace),
            format!("measure translate-53.perf_ftrace {begin} perf ftrace latency -a -T translate_desc --")
        );
        assert!(line(Tool::Bpftrace("kfunc")).ends_with("delete(@start[tid]); }'"));
    }
}
