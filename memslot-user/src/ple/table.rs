//! The table of the 2012 discussion, from the simulator: policies under loads, as % against a base.

use super::UNCONFIRMED;
use super::policy::Policy;
use super::sim::{Config, Outcome, run};
use serde::Serialize;

/// A policy under a load; means over the runs.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Row {
    /// VMs on the host, each with a vCPU a CPU.
    pub load: u32,
    /// The policy, as it is written.
    pub policy: String,
    /// Work done against the base at this load and the same seeds, %.
    pub work_percent: f64,
    /// The smallest and the largest of the runs, %.
    pub work_range: (f64, f64),
    /// Exits and what they cost and gained, against the base at this load.
    pub against_base: AgainstBase,
    /// PLE exits.
    pub exits: f64,
    /// Time in the handler, % of all CPUs' time.
    pub handler_percent: f64,
    /// Time spun in windows that ended in an exit, % of all CPUs' time.
    pub spun_before_exit_percent: f64,
    /// All time spun, likewise.
    pub spun_percent: f64,
    /// Calls of `yield_to` that boosted, a run.
    pub boosted: f64,
}

/// Figures of a policy against those of the base, %; `None` where the base has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct AgainstBase {
    /// PLE exits.
    pub exits: Option<f64>,
    /// Time in the handler.
    pub handler: Option<f64>,
    /// Time spun in windows that ended in an exit.
    pub spun_before_exit: Option<f64>,
    /// Yields that boosted.
    pub boosted: Option<f64>,
}

/// More than the base's, %.
pub(super) fn percent(value: f64, base: f64) -> Option<f64> {
    (base > 0.0).then(|| 100.0 * (value / base - 1.0))
}

/// A table of rows.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Table {
    /// The base's policy.
    pub base: String,
    /// Runs a row, each with a seed of its own that all policies share.
    pub runs: u32,
    /// What was simulated; its load and seed are those of the first run.
    pub config: Config,
    /// By load, then by policy.
    pub rows: Vec<Row>,
    /// [`UNCONFIRMED`]
    pub unconfirmed: &'static str,
}

/// Simulates every policy under every load; the first policy is the base.
///
/// # Errors
/// A sentence, where there is nothing to simulate.
pub fn simulate(config: &Config, loads: &[u32], policies: &[Policy], runs: u32) -> Result<Table, String> {
    let base = policies.first().ok_or("no policy was given to simulate")?;
    let mut rows = Vec::new();
    for &load in loads {
        let config = Config { load, ..*config };
        config.check()?;
        let outcomes: Vec<Vec<Outcome>> = policies
            .iter()
            .map(|policy| {
                (0..runs.max(1))
                    .map(|run_number| {
                        let seed = config.seed.wrapping_add(u64::from(run_number));
                        run(&Config { seed, ..config }, *policy, &mut |_| {})
                    })
                    .collect()
            })
            .collect();
        rows.extend(
            policies.iter().zip(&outcomes).map(|(policy, runs)| row(load, policy, runs, &outcomes[0])),
        );
    }
    let config = Config { load: loads.first().copied().unwrap_or(1), ..*config };
    Ok(Table { base: base.to_string(), runs: runs.max(1), config, rows, unconfirmed: UNCONFIRMED })
}

#[expect(clippy::cast_precision_loss, reason = "counts and cycles stay far below 2^53")]
fn row(load: u32, policy: &Policy, runs: &[Outcome], base: &[Outcome]) -> Row {
    let mean = |of: &dyn Fn(&Outcome) -> f64, all: &[Outcome]| {
        all.iter().map(of).sum::<f64>() / all.len().max(1) as f64
    };
    let share = |of: &dyn Fn(&Outcome) -> u64| {
        mean(&|outcome| 100.0 * of(outcome) as f64 / outcome.capacity.max(1) as f64, runs)
    };
    let against = |of: &dyn Fn(&Outcome) -> u64| {
        percent(mean(&|outcome| of(outcome) as f64, runs), mean(&|outcome| of(outcome) as f64, base))
    };
    let by_run: Vec<f64> =
        runs.iter().zip(base).filter_map(|(run, base)| percent(run.work as f64, base.work as f64)).collect();
    Row {
        load,
        policy: policy.to_string(),
        work_percent: by_run.iter().sum::<f64>() / by_run.len().max(1) as f64,
        work_range: (
            by_run.iter().copied().reduce(f64::min).unwrap_or(0.0),
            by_run.iter().copied().reduce(f64::max).unwrap_or(0.0),
        ),
        against_base: AgainstBase {
            exits: against(&|outcome| outcome.exits),
            handler: against(&|outcome| outcome.handler),
            spun_before_exit: against(&|outcome| outcome.spun_before_exit),
            boosted: against(&|outcome| outcome.boosted),
        },
        exits: mean(&|outcome| outcome.exits as f64, runs),
        handler_percent: share(&|outcome| outcome.handler),
        spun_before_exit_percent: share(&|outcome| outcome.spun_before_exit),
        spun_percent: share(&|outcome| outcome.spun),
        boosted: mean(&|outcome| outcome.boosted as f64, runs),
    }
}
