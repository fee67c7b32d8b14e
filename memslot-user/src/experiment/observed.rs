//! What the engines really took: recordings of the probes, and the module's own counts.

use super::predict::{ByKind, Figures, Kind, Lists, kind_of_fault, mean};
use super::setup::{Error, Setup, read_json};
use crate::model::{Fault, Probe, SearchLength, Translation};
use crate::recording::Recording;
use crate::replay::Interval;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How often each engine runs: A B B A.
pub const RUNS: u32 = 2;

/// What the module counted while it verified every answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Look-ups that the stock search was asked for, too.
    pub verified: u64,
    /// Of these, where it answered differently.
    pub mismatches: u64,
    /// Look-ups that the stock search answered for want of an index.
    pub unsure: u64,
}

/// An engine's run.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Figures by kind.
    pub kinds: ByKind,
    /// Calls of the probed function, of all runs, but for the first of each.
    pub calls: u64,
    /// The first call of a run, on average, ns.
    pub first: f64,
    /// What they took together, ns.
    pub sum: f64,
    /// Mean and median of the whole function, run by run.
    pub runs: BTreeMap<Kind, (Vec<f64>, Vec<f64>)>,
    /// What the workload took without probes, ns.
    pub duration: Option<f64>,
    /// Its look-ups then.
    pub descriptors: u64,
    /// The comparison with the stock search.
    pub verified: Verified,
}

/// A call as it was recorded.
#[derive(Clone, Copy, Debug)]
struct Seen {
    kind: Option<Kind>,
    latency: f64,
    length: Option<SearchLength>,
}

/// The calls of a boot, run by run.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// By engine, `off` among them.
    runs: BTreeMap<String, Vec<Vec<Seen>>>,
    lost: u64,
}

impl Recorded {
    /// Reads the recordings of a boot.
    ///
    /// # Errors
    /// One is missing or damaged, or has not the runs that it should have.
    pub fn read(boot: &Path, setup: &Setup) -> Result<Self, Error> {
        let mut recorded = Self { runs: BTreeMap::new(), lost: 0 };
        let there = std::iter::once("stock").chain(setup.engines.iter().map(String::as_str));
        let there_and_back: Vec<&str> = there.clone().chain(there.rev()).collect();
        recorded.take(&boot.join("runs"), setup, &there_and_back)?;
        for run in 1..=RUNS {
            recorded.take(&boot.join(format!("off-{run}")), setup, &["off"])?;
        }
        Ok(recorded)
    }

    /// Each run has a VM or a memory table of its own, numbered as they came.
    fn take(&mut self, path: &Path, setup: &Setup, engines: &[&str]) -> Result<(), Error> {
        let recording = Recording::open(path)?;
        let mut runs: BTreeMap<u32, Vec<Call>> = BTreeMap::new();
        calls(&recording, setup, &mut |subject, call| runs.entry(subject).or_default().push(call))?;
        if runs.len() != engines.len() {
            return Err(Error::bad(path, format!("it has {} runs, not {}", runs.len(), engines.len())));
        }
        for (engine, calls) in engines.iter().zip(runs.into_values()) {
            let run = seen(&calls, setup.asks_last(engine));
            self.runs.entry((*engine).to_owned()).or_default().push(run);
        }
        let probe = setup.module.probe();
        self.lost += recording.meta().probes.get(&probe).map_or(0, |of| of.account.lost());
        Ok(())
    }

    /// Calls that the recordings of the boot lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// What an engine's runs came to; `off` is the kernel without the patch.
///
/// # Errors
/// Something is missing or damaged.
pub fn observed(boot: &Path, recorded: &Recorded, engine: &str) -> Result<Observed, Error> {
    let mut observed = Observed::default();
    let mut lists: BTreeMap<Kind, Lists> = BTreeMap::new();
    let mut lengths: BTreeMap<Kind, Vec<f64>> = BTreeMap::new();
    let runs = recorded.runs.get(engine).map_or(&[][..], Vec::as_slice);
    for run in runs {
        let mut here: BTreeMap<Kind, Vec<f64>> = BTreeMap::new();
        // The first call of a run builds the index, which is no search: it stands apart.
        let Some((first, run)) = run.split_first() else { continue };
        observed.first += first.latency / f64::from(RUNS);
        for seen in run {
            observed.calls += 1;
            observed.sum += seen.latency;
            let Some(kind) = seen.kind else { continue };
            lists.entry(kind).or_default().whole.push(seen.latency);
            here.entry(kind).or_default().push(seen.latency);
            if let Some(length) = seen.length {
                lengths.entry(kind).or_default().push(f64::from(length.visited));
            }
        }
        for (kind, mut latencies) in here {
            let (means, medians) = observed.runs.entry(kind).or_default();
            means.extend(mean(&latencies).map(|mean| mean.value));
            medians.extend(crate::stats::median(&mut latencies));
        }
    }
    observed.kinds = lists.into_iter().map(|(kind, lists)| (kind, lists.figures())).collect();
    for (kind, figures) in &mut observed.kinds {
        if let Some((means, medians)) = observed.runs.get(kind) {
            figures.whole_runs.clone_from(means);
            figures.median_runs.clone_from(medians);
        }
    }
    workload(boot, engine, &mut observed)?;
    if engine != "off" {
        timed(boot, engine, &mut observed)?;
    }
    // The probes follow the kernel's own tree, so for that they tell the nodes; the module counts the others'.
    if engine == "stock" || engine == "off" {
        for (kind, figures) in &mut observed.kinds {
            let follows = matches!(kind, Kind::Hit | Kind::Miss);
            figures.nodes = lengths.get(kind).filter(|_| follows).and_then(|lengths| mean(lengths));
        }
    }
    Ok(observed)
}

/// A recorded call of either function.
enum Call {
    Fault(Fault),
    Translation(Translation),
}

fn calls(recording: &Recording, setup: &Setup, take: &mut dyn FnMut(u32, Call)) -> Result<(), Error> {
    if setup.module.probe() == Probe::PageFault {
        for fault in recording.faults()? {
            let fault = fault?;
            take(fault.vm.0, Call::Fault(fault));
        }
    } else {
        for call in recording.translations()? {
            let call = call?;
            take(call.table.0, Call::Translation(call));
        }
    }
    Ok(())
}

/// Tells the calls of a run apart. `asks_last`: what was found last is asked first.
#[expect(clippy::cast_precision_loss, reason = "instructions of a call")]
fn seen(calls: &[Call], asks_last: bool) -> Vec<Seen> {
    // A table's last item is vhost's module's, and no probe sees it: simulated, as the prediction does.
    let mut last = None;
    let kind = |call: &Call| match call {
        Call::Fault(fault) => {
            let visited = fault.length.map(|length| length.visited);
            kind_of_fault(fault.class, fault.ret, visited, asks_last)
        }
        Call::Translation(call) => {
            // Regions of the workload begin at multiples of 64 KiB and are as long.
            let region = Some(call.addr >> 16);
            let again = asks_last && std::mem::replace(&mut last, region) == region;
            let found = if again { Kind::LastUsed } else { Kind::Hit };
            (call.ret == 1).then_some(found)
        }
    };
    let kinds: Vec<Option<Kind>> = calls.iter().map(kind).collect();
    let seen = |(call, kind): (&Call, Option<Kind>)| match call {
        Call::Fault(fault) => Seen { kind, latency: fault.latency as f64, length: fault.length },
        Call::Translation(call) => Seen { kind, latency: call.latency as f64, length: call.length },
    };
    calls.iter().zip(kinds).map(seen).collect()
}

#[derive(Deserialize)]
struct Workload {
    duration_ns: u64,
    #[serde(default)]
    descriptors: u64,
}

/// The last line of the workload's output without probes.
fn workload(boot: &Path, engine: &str, observed: &mut Observed) -> Result<(), Error> {
    let found: Workload = read_json(&boot.join(format!("{engine}.workload.json")))?;
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53 ns")]
    let duration = found.duration_ns as f64;
    observed.duration = Some(duration);
    observed.descriptors = found.descriptors;
    Ok(())
}

/// `ENGINE-N.timed`: the module's files `timed`, `verified`, `mismatches` and `unsure`.
fn timed(boot: &Path, engine: &str, observed: &mut Observed) -> Result<(), Error> {
    let mut by_kind: BTreeMap<Kind, Vec<[f64; 3]>> = BTreeMap::new();
    for run in 1..=RUNS {
        let path = boot.join(format!("{engine}-{run}.timed"));
        let text = fs::read_to_string(&path).map_err(|error| Error::bad(&path, error.kind()))?;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let figures: Vec<u64> = words.iter().skip(1).filter_map(|word| word.parse().ok()).collect();
            let kind = match (words.first().copied(), &figures[..]) {
                (Some("own_found"), [_, _, _]) => Kind::Hit,
                (Some("own_none"), [_, _, _]) => Kind::Miss,
                (Some("other_found" | "other_none"), [_, _, _]) => Kind::Mmio,
                (Some("verified"), [count]) => {
                    observed.verified.verified += count;
                    continue;
                }
                (Some("mismatches"), [count]) => {
                    observed.verified.mismatches += count;
                    continue;
                }
                (Some("unsure"), [count]) => {
                    observed.verified.unsure += count;
                    continue;
                }
                _ => return Err(Error::bad(&path, format!("it says {line:?}"))),
            };
            #[expect(clippy::cast_precision_loss, reason = "sums of one run, below 2^53")]
            let sums = [figures[0] as f64, figures[1] as f64, figures[2] as f64];
            let runs = by_kind.entry(kind).or_default();
            match runs.get_mut(run as usize - 1) {
                // Both kinds of the emulator's are one.
                Some(held) => held.iter_mut().zip(sums).for_each(|(held, sum)| *held += sum),
                None => runs.push(sums),
            }
        }
    }
    for (kind, runs) in by_kind {
        let lookups = runs.iter().map(|run| run[0]).sum::<f64>();
        if lookups == 0.0 {
            continue;
        }
        let figures: &mut Figures = observed.kinds.entry(kind).or_default();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        {
            figures.lookups = (lookups / f64::from(RUNS)) as u64;
        }
        figures.search = of_runs(&runs, 1);
        figures.nodes = of_runs(&runs, 2);
    }
    Ok(())
}

/// The mean a look-up, between the runs' least and largest.
fn of_runs(runs: &[[f64; 3]], what: usize) -> Option<Interval> {
    let each: Vec<f64> = runs.iter().filter(|run| run[0] > 0.0).map(|run| run[what] / run[0]).collect();
    let low = each.iter().copied().reduce(f64::min)?;
    let high = each.iter().copied().reduce(f64::max)?;
    #[expect(clippy::cast_precision_loss, reason = "a number of runs")]
    let value = each.iter().sum::<f64>() / each.len() as f64;
    Some(Interval { value, low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_counts_become_means_between_the_runs() {
        let boot = tempfile::tempdir().unwrap();
        let write = |run: u32, hits: &str| {
            let rest =
                "own_none 0 0 0\nother_found 4 8 4\nother_none 2 10 4\nverified 10\nmismatches 1\nunsure 0\n";
            fs::write(boot.path().join(format!("linear-{run}.timed")), format!("own_found {hits}\n{rest}"))
                .unwrap();
        };
        write(1, "10 100 50");
        write(2, "10 120 50");
        let mut observed = Observed::default();
        timed(boot.path(), "linear", &mut observed).unwrap();
        let search = observed.kinds[&Kind::Hit].search.unwrap();
        assert_eq!((search.value, search.low, search.high), (11.0, 10.0, 12.0));
        assert_eq!(observed.kinds[&Kind::Mmio].search.unwrap().value, 3.0);
        assert!(!observed.kinds.contains_key(&Kind::Miss));
        assert_eq!(observed.verified, Verified { verified: 20, mismatches: 2, unsure: 0 });
        fs::write(boot.path().join("linear-2.timed"), "own_found 1").unwrap();
        assert!(timed(boot.path(), "linear", &mut observed).unwrap_err().to_string().contains("own_found 1"));
    }
}
