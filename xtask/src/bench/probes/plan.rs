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

/// What measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tool {
    /// Nothing; the second time, to see what else differs.
    Nothing { again: bool },
    /// A probe of ours.
    Memslot {
        /// As `memslot record --mode` calls it; none where it has no modes and records events.
        mode: Option<String>,
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
                let mode = match mode.as_deref() {
                    None | Some("events") => "event",
                    Some(mode) => mode,
                };
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
                let mode = mode.as_ref().map(|mode| format!("--mode {mode} ")).unwrap_or_default();
                let probe = function.probe;
                format!(
                    " {still}memslot record -o \"$LAB_OUT/{name}.recording\" --probe {probe} --attach {attach} {mode}--"
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

/// All measurements of one boot. `modes` are those that `memslot record` offers.
pub(super) fn measurements(modes: &[String]) -> Vec<Measurement> {
    let mut all = Vec::new();
    for ranges in WALKED {
        let workload = Workload { function: TRANSLATE, ranges };
        all.extend(tools(modes, ranges == COMPARED, true).into_iter().map(|tool| (workload.clone(), tool)));
    }
    let workload = Workload { function: PAGE_FAULT, ranges: COMPARED };
    all.extend(tools(modes, true, false).into_iter().map(|tool| (workload.clone(), tool)));
    all.into_iter().map(|(workload, tool)| Measurement { workload, tool }).collect()
}

/// The tools in turn: ours, with `peers` the others too, and `everything` those whose reader takes CPU time besides.
fn tools(modes: &[String], peers: bool, everything: bool) -> Vec<Tool> {
    let mut tools = vec![Tool::Nothing { again: false }];
    let own: Vec<Option<String>> =
        if modes.is_empty() { vec![None] } else { modes.iter().cloned().map(Some).collect() };
    for mode in own {
        for (attach, _) in ATTACH {
            tools.push(Tool::Memslot { mode: mode.clone(), attach, reads: false });
        }
        let has_events = mode.as_deref().is_none_or(|mode| mode == "events");
        if everything && peers && has_events {
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

/// The words that `option` takes, from a command's help: `[possible values: a, b]` behind it, or one a line.
pub(super) fn possible_values(help: &str, option: &str) -> Vec<String> {
    let Some((_, rest)) = help.split_once(&format!("{option} <")) else { return Vec::new() };
    // Up to the next option.
    let own = rest.split("\n  -").next().unwrap_or(rest);
    let own = own.split("\n      --").next().unwrap_or(own);
    if let Some((_, values)) = own.split_once("[possible values: ") {
        let values = values.split(']').next().unwrap_or_default();
        return values.split(',').map(|value| value.split_whitespace().collect()).collect();
    }
    let listed = |line: &str| {
        let word = line.trim().strip_prefix("- ")?;
        Some(word.split(':').next().unwrap_or(word).to_owned())
    };
    own.lines().filter_map(listed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_name_of_its_own_and_a_baseline() {
        for modes in [vec![], ["histogram", "sample", "events"].map(str::to_owned).to_vec()] {
            let all = measurements(&modes);
            let mut names: Vec<String> = all.iter().map(Measurement::name).collect();
            for measurement in &all {
                let baseline = Measurement { tool: Tool::Nothing { again: false }, ..measurement.clone() };
                assert!(names.contains(&baseline.name()), "{measurement:?}");
            }
            for name in ["translate-53.event", "translate-509.event_kprobe", "page_fault-53.bpftrace_kfunc"] {
                assert!(names.iter().any(|other| other == name), "{name}");
            }
            assert_eq!(names.contains(&"translate-3.histogram".to_owned()), !modes.is_empty());
            let count = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), count);
        }
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
            line(Tool::Memslot { mode: Some("histogram".into()), attach: "kprobe", reads: false }),
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

    #[test]
    fn modes_are_found_in_both_forms_of_help() {
        let short = "  -o, --output <OUTPUT>  x [default: y]\n      --mode <MODE>      What [default: events] \
                     [possible values: histogram, sample, events]\n      --attach <ATTACH>  How [possible \
                     values: auto, fentry]\n";
        assert_eq!(possible_values(short, "--mode"), ["histogram", "sample", "events"]);
        assert_eq!(possible_values(short, "--attach"), ["auto", "fentry"]);
        let long = "      --mode <MODE>\n          What\n\n          Possible values:\n          - histogram: in \
                    the kernel\n          - events:    all\n          \n          [default: events]\n\n      --vm \
                    <PID>\n          - no: value\n";
        assert_eq!(possible_values(long, "--mode"), ["histogram", "events"]);
        assert!(possible_values(long, "--none").is_empty());
    }
}
