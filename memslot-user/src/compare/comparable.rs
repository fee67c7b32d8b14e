//! Whether two sides may be compared at all, and what a reader must know of them. Kernels may differ.

use super::run::{ProbeRun, Run};
use crate::chart::text::share;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Share of the calls that may be of another class after than before.
const MIX: f64 = 0.05;
/// Share of the calls that a run may have lost.
const LOST: f64 = 0.01;
/// By how much the shares lost may differ.
const LOST_DIFFERENCE: f64 = 0.001;
/// Boot times closer than this are of one boot: clocks are adjusted now and then, ns.
const BOOT: u64 = 2_000_000_000;

/// What a nanosecond of a recording is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// An instruction: QEMU counts them for time, and every run of the same is the same.
    Exact,
    /// Time of an emulated machine.
    Emulated,
    /// Time of a machine that is itself a guest.
    Virtualised,
    /// Time of hardware.
    Hardware,
}

impl Clock {
    /// That of a run.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        match run.meta.host.virtualised.as_deref().map(str::to_lowercase) {
            None => Self::Hardware,
            Some(name) if name.contains("icount") => Self::Exact,
            Some(name) if name.contains("tcg") => Self::Emulated,
            Some(_) => Self::Virtualised,
        }
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Exact => "counted instructions",
            Self::Emulated => "emulated time",
            Self::Virtualised => "a virtual machine's time",
            Self::Hardware => "hardware time",
        })
    }
}

fn each<T: Ord>(runs: &[Run], of: impl Fn(&Run) -> T) -> BTreeSet<T> {
    runs.iter().map(of).collect()
}

fn list<T: fmt::Display>(values: &BTreeSet<T>) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// Why nothing of the two sides can be compared; empty where something can.
pub(crate) fn of_sides(before: &[Run], after: &[Run]) -> Vec<String> {
    let mut reasons = Vec::new();
    let clocks = [before, after].map(|side| each(side, Clock::of));
    if clocks[0] != clocks[1] || clocks[0].len() > 1 {
        reasons.push(format!("clock: {} before, {} after", list(&clocks[0]), list(&clocks[1])));
    }
    let machine = |run: &Run| {
        let host = &run.meta.host;
        let named = |what: &str| if what.is_empty() { "unknown".to_owned() } else { what.to_owned() };
        format!("{} ({}, {} CPUs)", named(&host.name), named(&host.cpu_model), host.cpus)
    };
    let machines = [before, after].map(|side| each(side, machine));
    if machines[0] != machines[1] {
        reasons.push(format!("machine: {} before, {} after", list(&machines[0]), list(&machines[1])));
    }
    for run in before.iter().chain(after).filter(|run| !run.meta.complete) {
        reasons
            .push(format!("loss: {} was cut off, and what it lost is not known; record it again", run.name));
    }
    reasons
}

/// Why one probe cannot be compared at one size.
pub(crate) fn of_probe(before: &[&ProbeRun], after: &[&ProbeRun]) -> Vec<String> {
    let mut reasons = Vec::new();
    let sides = [before, after];
    let attached = sides.map(|side| side.iter().map(|run| run.attached.as_str()).collect::<BTreeSet<_>>());
    if attached[0] != attached[1] {
        reasons.push(format!(
            "probes: attached by {} before, by {} after",
            list(&attached[0]),
            list(&attached[1])
        ));
    }
    let mixes = sides.map(mix);
    let classes: BTreeSet<&str> = mixes.iter().flat_map(|mix| mix.keys().copied()).collect();
    let part = |side: usize, class: &str| mixes[side].get(class).copied().unwrap_or(0.0);
    let moved: f64 = classes.iter().map(|class| (part(0, class) - part(1, class)).abs()).sum::<f64>() / 2.0;
    if moved > MIX {
        let all: Vec<String> = classes
            .iter()
            .map(|class| format!("{class} {} and {}", share(part(0, class)), share(part(1, class))))
            .collect();
        reasons.push(format!("workload: another mix of calls before and after: {}", all.join(", ")));
    }
    let layouts = sides.map(|side| side.iter().map(|run| run.layout).collect::<BTreeSet<_>>());
    // Where they vary on a side, they vary by the workload, and cannot be told apart from a difference.
    if layouts.iter().all(|side| side.len() == 1) && layouts[0] != layouts[1] {
        reasons.push("layout: as many ranges before as after, but not the same ones".into());
    }
    let lost = sides.map(|side| side.iter().map(|run| lost(run)).fold(0.0, f64::max));
    let means =
        sides.map(|side| side.iter().map(|run| lost_of(run)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)));
    let [mean_before, mean_after] = means.map(|(lost, all)| lost as f64 / all.max(1) as f64);
    if lost.iter().any(|lost| *lost > LOST) || (mean_before - mean_after).abs() > LOST_DIFFERENCE {
        reasons.push(format!(
            "loss: {} of the calls lost before, {} after (at worst {} in a run)",
            share(mean_before),
            share(mean_after),
            share(lost[0].max(lost[1]))
        ));
    }
    reasons
}

fn lost_of(run: &ProbeRun) -> (u64, u64) {
    (run.lost, run.lost + run.calls)
}

fn lost(run: &ProbeRun) -> f64 {
    let (lost, all) = lost_of(run);
    lost as f64 / all.max(1) as f64
}

/// The mean share of each class over a side's runs.
fn mix(side: &[&ProbeRun]) -> BTreeMap<&'static str, f64> {
    let mut shares = BTreeMap::new();
    for run in side {
        let all = run.mix.values().sum::<u64>().max(1) as f64;
        for (class, count) in &run.mix {
            *shares.entry(*class).or_default() += *count as f64 / all / side.len() as f64;
        }
    }
    shares
}

/// A module parameter that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Setting {
    /// `module.name`
    pub name: String,
    /// Its values before.
    pub before: String,
    /// Its values after.
    pub after: String,
}

/// Module parameters that both sides have, with other values.
pub(crate) fn settings(before: &[Run], after: &[Run]) -> Vec<Setting> {
    let names: BTreeSet<&String> =
        before.iter().chain(after).flat_map(|run| run.meta.parameters.keys()).collect();
    let values = |side: &[Run], name: &String| {
        list(&side.iter().filter_map(|run| run.meta.parameters.get(name)).collect::<BTreeSet<_>>())
    };
    names
        .into_iter()
        .map(|name| Setting { name: name.clone(), before: values(before, name), after: values(after, name) })
        .filter(|setting| {
            setting.before != setting.after && !setting.before.is_empty() && !setting.after.is_empty()
        })
        .collect()
}

/// What hinders no comparison, but bears on what it means.
pub(crate) fn notes(before: &[Run], after: &[Run], exact: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let kernels = [before, after].map(|side| each(side, kernel));
    if kernels[0] == kernels[1] {
        notes.push(format!(
            "both sides ran Linux {}: what differs can only be modules or settings",
            list(&kernels[0])
        ));
    }
    let tools = [before, after].map(|side| each(side, |run| run.meta.tool.clone()));
    if tools[0] != tools[1] {
        notes.push(format!(
            "recorded by memslot {} before and {} after: the probes themselves may cost otherwise",
            list(&tools[0]),
            list(&tools[1])
        ));
    }
    // In the exact mode every boot begins at the same time.
    for (side, name) in [(before, "before"), (after, "after")].into_iter().filter(|_| !exact) {
        let boots = boots(side);
        if boots < side.len() && !side.is_empty() {
            notes.push(format!(
                "{} recordings {name} are of {boots} boot{}: what a boot changes by chance is taken for the kernel's \
                 doing where each side has few boots",
                side.len(),
                if boots == 1 { "" } else { "s" }
            ));
        }
    }
    notes
}

fn kernel(run: &Run) -> String {
    run.meta.host.kernel.clone()
}

fn boots(side: &[Run]) -> usize {
    let mut times: Vec<(&str, u64)> = side
        .iter()
        .map(|run| {
            let start = run.meta.start;
            (run.meta.host.name.as_str(), start.realtime.saturating_sub(start.monotonic))
        })
        .collect();
    times.sort_unstable();
    times.chunk_by(|a, b| a.0 == b.0 && b.1 - a.1 < BOOT).count()
}
