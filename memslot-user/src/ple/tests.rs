use super::policy::Policy;
use super::replay::{Replay, Replayed};
use super::sim::{Config, run};
use super::trail::Follower;
use super::window::{Parameters, Unit};
use super::{Error, Pace, analyse, recorded_text, simulate, simulated_text};
use crate::model::PleExit;
use crate::recording::Recording;
use std::path::Path;

fn fixture(name: &str) -> Recording {
    Recording::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

/// PLE recordings of real kernels.
const FIXTURES: [&str; 2] = ["ple-over-6.1", "ple-over-6.12"];

fn exits_of(config: &Config, policy: Policy) -> Vec<PleExit> {
    let mut exits = Vec::new();
    run(config, policy, &mut |exit| exits.push(exit));
    exits
}

fn replay(exits: &[PleExit], pace: f64, policies: &[Policy]) -> Vec<Replayed> {
    let mut replay = Replay::new(Parameters::defaults(Unit::Cycles), pace, policies);
    exits.iter().for_each(|exit| replay.add(exit));
    replay.finish().0
}

#[test]
fn the_kernels_policy_gives_the_windows_that_kernels_recorded() {
    for name in FIXTURES {
        let analysed = analyse(&fixture(name), &[], None).unwrap();
        let trail = &analysed.trail;
        assert!(trail.exact(), "{name}: {trail:?}");
        assert!(trail.exits >= 1000 && trail.shrunk_between > 100, "{name}: {trail:?}");
        assert_eq!((trail.grown, trail.shrunk_inside), (trail.exits, 0), "{name}: read before the yield");
        let others = Parameters { grow: 3, ..analysed.parameters };
        let mut follower = Follower::new(others);
        for exit in fixture(name).ple_exits().unwrap() {
            follower.add(&exit.unwrap());
        }
        assert!(!follower.trail().exact(), "{name}: other rules must not fit");
    }
}

#[test]
fn the_kernels_policy_replayed_gives_the_exits_that_kernels_recorded() {
    for name in FIXTURES {
        let analysed =
            analyse(&fixture(name), &["dynamic".to_owned(), "off".to_owned()], Some(10.0)).unwrap();
        let kernel = &analysed.policies[0];
        let spun: u64 =
            fixture(name).ple_exits().unwrap().map(|exit| u64::from(exit.unwrap().window.0)).sum();
        let boosted =
            fixture(name).ple_exits().unwrap().filter(|exit| exit.as_ref().unwrap().boosted > 0).count();
        assert_eq!((kernel.exits, kernel.spun), (analysed.trail.exits, spun), "{name}");
        assert_eq!(kernel.boosted, boosted as u64, "{name}");
        assert_eq!(analysed.policies[1].exits_most, 0, "{name}: off has no exits");
    }
}

#[test]
fn software_emulation_is_noticed_and_not_replayed() {
    let analysed = analyse(&fixture("ple-over-6.1"), &[], None).unwrap();
    assert!(analysed.policies.is_empty());
    let said = recorded_text(&analysed);
    assert!(said.contains("No replay of policies: larger windows did not last longer"), "{said}");
    assert!(said.contains("KVM's rules give every recorded window"), "{said}");
    assert!(said.contains("Unconfirmed: "), "{said}");
}

#[test]
fn a_policy_that_is_none_is_an_error() {
    let error = analyse(&fixture("ple-over-6.1"), &["often".to_owned()], None).unwrap_err();
    assert!(matches!(error, Error::Policy(_)) && error.to_string().contains("no policy often"), "{error}");
}

#[test]
fn the_simulators_kernel_policy_keeps_the_kernels_rules() {
    for (load, unit) in [(1, Unit::Cycles), (2, Unit::Cycles), (3, Unit::Pauses)] {
        let parameters = Parameters::defaults(unit);
        let mut follower = Follower::new(parameters);
        for exit in exits_of(&Config::new(load, unit), Policy::Dynamic(parameters)) {
            assert_eq!(follower.add(&exit), exit.window);
        }
        let trail = follower.trail();
        assert!(trail.exact() && trail.exits > 10, "{load}: {trail:?}");
        assert_eq!(load > 1, trail.shrunk_inside > 0, "{load}: {trail:?}");
    }
}

#[test]
fn a_run_is_determined_by_its_seed() {
    let config = Config::new(2, Unit::Cycles);
    let (one, same) = (exits_of(&config, Policy::Fixed(4096)), exits_of(&config, Policy::Fixed(4096)));
    assert_eq!(one, same);
    assert_ne!(one, exits_of(&Config { seed: 2, ..config }, Policy::Fixed(4096)));
}

/// The result of 2012: no fixed window suits both under- and overcommit, the dynamic one does.
#[test]
fn policies_rank_as_they_must() {
    let usual = Policy::usual(Parameters::defaults(Unit::Cycles));
    let table = simulate(&Config::new(1, Unit::Cycles), &[1, 2, 3], &usual, 3).unwrap();
    let work: Vec<Vec<f64>> =
        table.rows.chunks(5).map(|rows| rows.iter().map(|row| row.work_percent).collect()).collect();
    let [under, over, far_over] = work.as_slice() else { panic!("{}", simulated_text(&table)) };
    let said = simulated_text(&table);
    // 4k, 16k, 32k, off, dynamic.
    assert!(under[1] > 5.0 && under[2] > under[1] && under[3] > under[1], "{said}");
    for load in [over, far_over] {
        assert!(load[1] < -5.0 && load[2] < load[1] - 5.0 && load[3] < load[2] - 20.0, "{said}");
    }
    let best = |load: &[f64]| load[..4].iter().copied().fold(f64::MIN, f64::max);
    for load in [under, over, far_over] {
        assert!(load[4] > best(load) - 3.0, "the dynamic window is near the best: {said}");
    }
    // Undercommitted there is nobody to boost; overcommitted most yields do.
    assert!(table.rows[..5].iter().all(|row| row.boosted == 0.0), "{said}");
    assert!(table.rows[5].boosted > 1000.0, "{said}");
}

#[test]
fn larger_windows_replayed_have_the_exits_that_simulating_them_gives() {
    // Undercommitted, a wait does not depend on the policy much, so the simulator knows the answer.
    let config =
        Config { exit: 300, look: 10, hold: 20_000, compute: 200_000, ..Config::new(1, Unit::Cycles) };
    let exits = exits_of(&config, Policy::Fixed(4096));
    let policies = [4096, 8192, 16_384, 32_768].map(Policy::Fixed);
    let mut kernel = Replay::new(Parameters { base: 4096, grow: 0, shrink: 0, max: 4096 }, 1.0, &policies);
    exits.iter().for_each(|exit| kernel.add(exit));
    let (replayed, _) = kernel.finish();
    assert_eq!(replayed[0].exits, exits.len() as u64);
    for (policy, figures) in policies.iter().zip(&replayed) {
        let truth = exits_of(&config, *policy).len() as f64;
        let (low, high) = (figures.exits as f64 * 0.9, figures.exits_most as f64 * 1.1);
        assert!(truth >= low && truth <= high, "{policy}: {truth} exits, {figures:?}");
    }
}

#[test]
fn the_pace_of_simulated_exits_is_a_cycle_a_unit() {
    let parameters = Parameters::defaults(Unit::Cycles);
    let mut gauge = super::Gauge::default();
    let config = Config { hold: 30_000, ..Config::new(1, Unit::Cycles) };
    exits_of(&config, Policy::Fixed(4096)).iter().for_each(|exit| gauge.add(exit));
    let Pace::Known(pace) = gauge.pace() else { panic!("no pace") };
    assert!((pace - 1.0).abs() < 0.05, "{pace}");
    assert_eq!(parameters.base, 4096);
}

#[test]
fn smaller_windows_than_recorded_are_marked() {
    let exits = exits_of(&Config::new(1, Unit::Cycles), Policy::Fixed(4096));
    let figures = replay(&exits, 1.0, &[Policy::Fixed(2048), Policy::Fixed(4096), Policy::Off]);
    assert_eq!(figures.iter().map(|figures| figures.at_least).collect::<Vec<_>>(), [true, false, false]);
    assert!(figures[0].exits > figures[1].exits && figures[2].exits == 0, "{figures:?}");
}

/// A replay of exits at 4k must rank fixed windows by exits as simulating each of them does, under every load.
#[test]
fn windows_replayed_rank_as_simulating_them_does() {
    let policies = [Policy::Fixed(4096), Policy::Fixed(16_384), Policy::Fixed(32_768), Policy::Off];
    for load in 1..=3 {
        let config = Config::new(load, Unit::Cycles);
        let fixed = Parameters { base: 4096, grow: 0, shrink: 0, max: 4096 };
        let mut replay = Replay::new(fixed, 1.0, &policies);
        exits_of(&config, policies[0]).iter().for_each(|exit| replay.add(exit));
        let (replayed, _) = replay.finish();
        let truth: Vec<usize> = policies.iter().map(|policy| exits_of(&config, *policy).len()).collect();
        for (one, other) in (0..4).flat_map(|one| (0..4).map(move |other| (one, other))) {
            // What differs by less than a quarter is no rank.
            if truth[one] * 4 < truth[other] * 3 {
                let (fewer, more) = (&replayed[one], &replayed[other]);
                assert!(fewer.exits < more.exits, "load {load}: {truth:?}, replayed {fewer:?}, {more:?}");
            }
        }
        assert_eq!(replayed[3].against_base.exits, Some(-100.0));
        assert!(replayed.iter().all(|figures| !figures.at_least));
    }
}

/// Where windows had grown, spins shorter than they were left no trace.
#[test]
fn windows_smaller_than_grown_ones_are_marked() {
    let parameters = Parameters::defaults(Unit::Cycles);
    let exits = exits_of(&Config::new(1, Unit::Cycles), Policy::Dynamic(parameters));
    let figures = replay(&exits, 1.0, &Policy::usual(parameters));
    let marked: Vec<bool> = figures.iter().map(|figures| figures.at_least).collect();
    // 4k, 16k, 32k, off, and what was recorded.
    assert_eq!(marked, [true, true, false, false, false], "{figures:?}");
}
