//! What came of a guest: its exit code, or why it counts as failed.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Lines of the console that a failure shows.
const CONSOLE_END: usize = 60;

/// Why a guest failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FailureKind {
    /// The kernel gave up.
    Panic,
    /// The kernel faulted, or a `BUG()` was hit.
    Oops,
    /// A CPU did not schedule for the watchdog's time.
    SoftLockup,
    /// A CPU did not take interrupts for the watchdog's time.
    HardLockup,
    /// An RCU grace period did not end.
    RcuStall,
    /// A task slept uninterruptibly for longer than the kernel allows.
    HungTask,
    /// The guest did not end in the time allowed.
    TimeOut,
    /// The guest ended without reporting success.
    NoMarker,
    /// QEMU no longer answered its monitor.
    QemuStuck,
    /// QEMU itself failed.
    QemuFailed,
}

impl FailureKind {
    /// Whether the fault is the emulator's as likely as the guest's, so that one more try is fair.
    pub(crate) fn is_retryable(self) -> bool {
        matches!(self, Self::NoMarker | Self::QemuStuck)
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Panic => "the guest's kernel panicked",
            Self::Oops => "the guest's kernel hit a bug",
            Self::SoftLockup => "a CPU of the guest was locked up (soft lockup)",
            Self::HardLockup => "a CPU of the guest was locked up (hard lockup)",
            Self::RcuStall => "the guest's kernel reported an RCU stall",
            Self::HungTask => "a task hung in the guest's kernel",
            Self::TimeOut => "the guest did not end in time",
            Self::NoMarker => "the guest shut down early",
            Self::QemuStuck => "QEMU stopped answering",
            Self::QemuFailed => "QEMU failed",
        }
    }
}

/// A guest's failure with what there is to judge it by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Its class.
    pub(crate) kind: FailureKind,
    /// The console's line that gave it away, or another detail.
    pub(crate) detail: String,
    /// The end of the console, or of QEMU's messages when QEMU failed.
    pub(crate) console_end: String,
}

impl Failure {
    /// The failure in one line, without the console.
    pub(crate) fn summary(&self) -> String {
        if self.detail.is_empty() {
            return self.kind.sentence().to_owned();
        }
        let mut summary = format!("{}: {}", self.kind.sentence(), self.detail);
        // QEMU's last message is the reason; a console's last line is not.
        if self.kind == FailureKind::QemuFailed
            && let Some(line) = self.console_end.lines().next_back()
        {
            summary.push_str(&format!(" ({line})"));
        }
        summary
    }

    /// A failure whose `console` ends the report.
    pub(crate) fn new(kind: FailureKind, detail: impl Into<String>, console: &str) -> Self {
        Self { kind, detail: detail.into(), console_end: crate::command::last_lines(console, CONSOLE_END) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.kind.sentence())?;
        if !self.detail.is_empty() {
            write!(formatter, ": {}", self.detail)?;
        }
        if self.console_end.is_empty() {
            write!(formatter, " (nothing on its console)")
        } else {
            write!(formatter, "; its console ends:\n{}", crate::command::indent(&self.console_end))
        }
    }
}

impl std::error::Error for Failure {}

/// Marks of trouble on a kernel's console, the more telling before the vaguer one it contains.
///
/// The texts are those of `kernel/panic.c`, `arch/x86/mm/fault.c`, `arch/x86/kernel/{dumpstack,traps}.c`,
/// `lib/bug.c`, `kernel/watchdog.c`, `kernel/watchdog_perf.c`, `kernel/rcu/tree_stall.h`, `kernel/rcu/tree_exp.h`
/// and `kernel/hung_task.c` in 6.1 and 6.12.
const MARKS: &[(&str, FailureKind)] = &[
    ("BUG: soft lockup", FailureKind::SoftLockup),
    ("hard LOCKUP", FailureKind::HardLockup),
    ("self-detected stall", FailureKind::RcuStall),
    ("detected stalls on CPUs", FailureKind::RcuStall),
    ("detected expedited stalls", FailureKind::RcuStall),
    ("kthread starved for", FailureKind::RcuStall),
    ("Kernel panic - not syncing", FailureKind::Panic),
    ("kernel BUG at ", FailureKind::Oops),
    ("BUG: ", FailureKind::Oops),
    ("Oops: ", FailureKind::Oops),
    ("general protection fault", FailureKind::Oops),
    ("invalid opcode: ", FailureKind::Oops),
    ("divide error: ", FailureKind::Oops),
    ("stack segment: ", FailureKind::Oops),
    ("int3: ", FailureKind::Oops),
    ("double fault: ", FailureKind::Oops),
    ("kernel stack overflow", FailureKind::Oops),
    ("Unable to handle kernel", FailureKind::Oops),
    ("rcu: INFO: ", FailureKind::RcuStall),
];

/// The first sign of a kernel's trouble on `console`, with its line.
pub(crate) fn trouble(console: &str) -> Option<(FailureKind, String)> {
    console.lines().find_map(|line| {
        if line.contains("INFO: task ") && line.contains(" blocked for more than ") {
            return Some((FailureKind::HungTask, message(line)));
        }
        // A fault in user space is the program's own affair: "traps: x[12] general protection fault ip:…".
        if line.contains(" ip:") && line.contains(" sp:") {
            return None;
        }
        MARKS.iter().find(|(mark, _)| line.contains(mark)).map(|&(_, kind)| (kind, message(line)))
    })
}

/// The kernel's warnings (`WARN_ON`) on `console`: no failure, but worth a note.
pub(crate) fn warnings(console: &str) -> Vec<String> {
    console.lines().filter(|line| line.contains("WARNING: CPU: ")).map(message).collect()
}

/// A console line without its time stamp.
fn message(line: &str) -> String {
    let line = line.trim();
    let text = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
        .filter(|(stamp, _)| stamp.trim().chars().all(|c| c.is_ascii_digit() || c == '.'))
        .map_or(line, |(_, text)| text);
    text.trim().to_owned()
}

/// What the guest's init said on its report port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The command was started.
    pub(crate) started: bool,
    /// The command's exit code; only there together with the marker of success.
    pub(crate) exit_code: Option<u8>,
    /// Modules that did not load, with the reason.
    pub(crate) complaints: Vec<String>,
}

impl Report {
    /// Reads the report port's bytes; a report that was cut off has no exit code.
    pub(crate) fn parse(text: &str) -> Self {
        let mut report = Self::default();
        let mut code = None;
        // Only whole lines count.
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            if line == "start" {
                report.started = true;
            } else if let Some(complaint) = line.strip_prefix("module ") {
                report.complaints.push(complaint.to_owned());
            } else if let Some(number) = line.strip_prefix("exit ") {
                code = number.parse().ok();
            } else if line == "end" {
                report.exit_code = code;
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as the kernels print them.
    #[test]
    fn every_kind_of_trouble_is_told_apart() {
        use FailureKind::{HardLockup, HungTask, Oops, Panic, RcuStall, SoftLockup};
        let cases = [
            ("[    1.5] Kernel panic - not syncing: sysrq triggered crash", Panic),
            ("[    1.5] BUG: kernel NULL pointer dereference, address: 0000000000000000", Oops),
            ("[    1.5] BUG: unable to handle page fault for address: ffffdead00000000", Oops),
            ("[    1.5] kernel BUG at mm/slub.c:435!", Oops),
            ("[    1.5] invalid opcode: 0000 [#1] PREEMPT SMP NOPTI", Oops),
            ("[    1.5] Oops: 0002 [#1] PREEMPT SMP NOPTI", Oops),
            (
                "[    1.5] Oops: general protection fault, probably for non-canonical address 0xdead: 0000 [#1]",
                Oops,
            ),
            (
                "[    1.5] general protection fault, probably for non-canonical address 0xdead000000000122",
                Oops,
            ),
            ("[    1.5] int3: 0000 [#1] PREEMPT SMP NOPTI", Oops),
            ("[    1.5] BUG: scheduling while atomic: sh/1/0x00000002", Oops),
            ("[   30.1] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [sh:84]", SoftLockup),
            ("[   30.1] NMI watchdog: Watchdog detected hard LOCKUP on cpu 0", HardLockup),
            ("[   30.1] watchdog: Watchdog detected hard LOCKUP on cpu 0", HardLockup),
            ("[   30.1] rcu: INFO: rcu_preempt self-detected stall on CPU", RcuStall),
            ("[   30.1] rcu: INFO: rcu_sched detected stalls on CPUs/tasks:", RcuStall),
            ("[   30.1] rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 1-... }", RcuStall),
            ("[  200.1] INFO: task sh:84 blocked for more than 120 seconds.", HungTask),
        ];
        for (line, kind) in cases {
            let console = format!("[    0.1] Linux version 6.1\r\n{line}\r\n[  300.0] more\r\n");
            let (found, detail) = trouble(&console).unwrap_or_else(|| panic!("missed: {line}"));
            assert_eq!(found, kind, "{line}");
            assert!(line.ends_with(&detail) && !detail.starts_with('['), "{detail}");
        }
    }

    #[test]
    fn the_first_trouble_is_the_cause() {
        let console = "[ 1.0] BUG: kernel NULL pointer dereference, address: 0\n\
                       [ 1.1] Oops: 0000 [#1]\n[ 1.2] Kernel panic - not syncing: Fatal exception\n";
        assert_eq!(trouble(console).unwrap().0, FailureKind::Oops);
    }

    #[test]
    fn ordinary_lines_are_no_trouble() {
        let console = "[    0.0] Linux version 6.12.1 (debian-kernel@lists.debian.org)\n\
            [    0.5] rcu: Hierarchical RCU implementation.\n\
            [    0.5] rcu: \tRCU restricting CPUs from NR_CPUS=8192 to nr_cpu_ids=2.\n\
            [    0.6] NMI watchdog: Perf NMI watchdog permanently disabled\n\
            [    0.7] printk: debug: ignoring loglevel setting.\n\
            [    2.0] sh[84]: segfault at 0 ip 00007f sp 00007ffe error 4 in busybox\n\
            [    2.1] traps: x[85] general protection fault ip:401000 sp:7ffe error:0 in x[401000+1000]\n\
            [    3.0] kvm_amd: TSC scaling supported\n";
        assert_eq!(trouble(console), None);
        assert!(warnings(console).is_empty());
    }

    #[test]
    fn warnings_are_noted_apart() {
        let console = "[ 2.0] WARNING: CPU: 0 PID: 7 at kernel/x.c:1 f+0x1/0x2\n";
        assert_eq!(trouble(console), None);
        assert_eq!(warnings(console), ["WARNING: CPU: 0 PID: 7 at kernel/x.c:1 f+0x1/0x2"]);
    }

    #[test]
    fn an_exit_code_needs_the_marker() {
        let whole = "module x.ko: insmod: no\nstart\nexit 7\nend\n";
        let report = Report::parse(whole);
        assert_eq!(report.exit_code, Some(7));
        assert_eq!(report.complaints, ["x.ko: insmod: no"]);
        for length in 0..whole.len() {
            assert_eq!(Report::parse(&whole[..length]).exit_code, None, "cut at {length}");
        }
        assert_eq!(Report::parse("start\nend\n").exit_code, None);
        assert_eq!(Report::parse("start\nexit 300\nend\n").exit_code, None);
    }

    #[test]
    fn a_failure_reads_well() {
        let failure = Failure::new(FailureKind::Panic, "Kernel panic", "one\ntwo\n");
        assert_eq!(
            failure.to_string(),
            "the guest's kernel panicked: Kernel panic; its console ends:\n    one\n    two"
        );
    }
}
