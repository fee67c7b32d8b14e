//! What is recorded when there is no VM to record: the cases that the mailing-list threads argued about.

use crate::command::Tool;
use std::fmt::Write as _;

/// A workload and the name of its recording.
pub(crate) struct Scenario {
    /// Label and folder name.
    pub(crate) label: &'static str,
    /// What is going on, for the progress line.
    pub(crate) what: &'static str,
    /// The probe that it is about; the few events of the others would say nothing.
    probe: &'static str,
    /// Arguments of `memslot workload`.
    arguments: &'static str,
}

/// Slots and regions at 3, 53 and 509; vCPUs that spin alone and four to a CPU.
pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario(
        "page_fault",
        "slots-3",
        "faults with 3 slots",
        "slots --slots 3 --accesses 2500 --rounds 4 --mmio 5 --gap 5",
    ),
    scenario(
        "page_fault",
        "slots-53",
        "faults with 53 slots",
        "slots --slots 53 --order shuffled --accesses 2500 --rounds 4 --mmio 5 --gap 5",
    ),
    scenario(
        "page_fault",
        "slots-509",
        "faults with 509 slots",
        "slots --slots 509 --order shuffled --accesses 2500 --rounds 4 --mmio 5 --gap 5",
    ),
    scenario("ple", "ple-undercommit", "PLE exits, a vCPU to a CPU", "ple --undercommit --pauses 1500"),
    scenario("ple", "ple-overcommit", "PLE exits, four vCPUs to a CPU", "ple --overcommit --pauses 1500"),
    scenario("translate", "regions-3", "translations with 3 regions", "vhost --regions 3 --kicks 10"),
    scenario(
        "translate",
        "regions-53",
        "translations with 53 regions",
        "vhost --regions 53 --order shuffled --kicks 10",
    ),
    scenario(
        "translate",
        "regions-509",
        "translations with 509 regions",
        "vhost --regions 509 --order shuffled --kicks 10",
    ),
];

const fn scenario(
    probe: &'static str,
    label: &'static str,
    what: &'static str,
    arguments: &'static str,
) -> Scenario {
    Scenario { label, what, probe, arguments }
}

impl Scenario {
    /// PLE exits take vCPUs that run at the same time.
    pub(crate) fn needs_cpus(&self) -> bool {
        self.probe == "ple"
    }

    /// The command that records it on this host.
    pub(crate) fn record(&self, memslot: &str, folder: &str) -> Tool {
        let output = format!("{folder}/{}", self.label);
        Tool::new(memslot)
            .args(["record", "--probe", self.probe, "--output", &output, "--label", self.label])
            .args(["--", memslot, "workload"])
            .args(self.arguments.split(' '))
    }

    /// The command that times the engines over the recording, by the clock of the host that recorded.
    fn time_engines(&self, memslot: &str, folder: &str) -> Tool {
        let recording = format!("{folder}/{}", self.label);
        Tool::new(memslot).args(["replay", &recording, "--save-times", "--rounds", "1"])
    }
}

/// The shell script that records scenarios in the lab; its exit code is the worst of theirs. Where it is asked for, the
/// engines are timed by the guest's clock, too.
pub(crate) fn script<'a>(scenarios: impl Iterator<Item = &'a Scenario>, time_engines: bool) -> String {
    let mut script = String::from("worst=0\ncd \"$LAB_OUT\" || exit 2\n");
    for scenario in scenarios {
        let command = scenario.record("memslot", ".").command_line();
        let _ = writeln!(
            script,
            "echo 'recording {}'\n{command} >/dev/null\ncode=$?\n[ $code -gt $worst ] && worst=$code",
            scenario.what
        );
        if time_engines {
            let timing = scenario.time_engines("memslot", ".").command_line();
            let _ = writeln!(
                script,
                "echo 'timing the engines over {}'\n{timing} >/dev/null\ncode=$?\n[ $code -gt $worst ] && worst=$code",
                scenario.label
            );
        }
    }
    script.push_str("exit $worst\n");
    script
}

#[cfg(test)]
mod tests {
    use super::{SCENARIOS, script};
    use std::collections::BTreeSet;

    #[test]
    fn every_scenario_has_a_recording_of_its_own_and_a_line_in_the_script() {
        let labels: BTreeSet<_> = SCENARIOS.iter().map(|scenario| scenario.label).collect();
        assert_eq!(labels.len(), SCENARIOS.len());
        let script = script(SCENARIOS.iter(), true);
        for scenario in SCENARIOS {
            let line = format!("--label {} -- memslot workload {} >", scenario.label, scenario.arguments);
            assert_eq!(script.matches(&line).count(), 1, "{line} in\n{script}");
        }
    }
}
