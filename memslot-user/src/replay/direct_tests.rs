//! The claims of 2011, on the layouts of 2011.

use super::{Direct, DirectEngine, DirectOptions, LastUsed, direct};
use crate::engine::EngineId;
use crate::given::{Layout, Pattern, accesses};
use crate::layouts;

fn run(form: &str, pattern: Pattern, last_used: bool) -> Direct {
    with(form, pattern, if last_used { LastUsed::On } else { LastUsed::Off })
}

fn with(form: &str, pattern: Pattern, last_used: LastUsed) -> Direct {
    let layout = Layout::from(layouts::parse(form).unwrap());
    let accesses = accesses(&layout, pattern, 20_000, 2, 1).unwrap();
    let engines = vec![EngineId::Linear, EngineId::LinearBySize, EngineId::Wbtree];
    let direct =
        direct(&layout, &accesses, &DirectOptions { engines, last_used, rounds: 0 }, &|_| {}).unwrap();
    assert!(direct.sound());
    direct
}

fn of<'a>(direct: &'a Direct, engine: &str) -> &'a DirectEngine {
    direct.engines.iter().find(|figures| figures.engine == engine).unwrap()
}

/// "a miss visits 6-7 nodes against 32 array entries"
#[test]
fn a_miss_visits_six_or_seven_nodes_of_32() {
    for pattern in [Pattern::Miss, Pattern::Mmio] {
        let direct = run("32-slots", pattern, true);
        assert_eq!((direct.ranges, direct.last_used_answered), (32, 0));
        let steps = |engine| {
            let figures = of(&direct, engine);
            if pattern == Pattern::Miss { &figures.misses } else { &figures.mmio }
        };
        for engine in ["linear", "linear_by_size"] {
            assert_eq!(steps(engine).visited.0.keys().copied().collect::<Vec<_>>(), [32], "{engine}");
        }
        let wbtree = steps("wbtree");
        assert!((6.0..=7.0).contains(&wbtree.visited_mean), "{pattern:?}: {wbtree:?}");
    }
}

/// The common hit is in the largest slot, at the root: one node, or two.
#[test]
fn the_common_hit_visits_one_or_two_nodes() {
    for form in ["2011", "32-slots"] {
        for pattern in [Pattern::Random, Pattern::Sequential] {
            let direct = run(form, pattern, false);
            assert_eq!(direct.last_used_answered, 0);
            let wbtree = &of(&direct, "wbtree").hits;
            let common = wbtree.visited.quantile(900).unwrap();
            assert!((1..=2).contains(&common), "{form} {pattern:?}: {wbtree:?}");
            // Largest first does as well on a hit, and as badly as any list on a miss.
            let reordered = &of(&direct, "linear_by_size").hits;
            assert!((reordered.visited_mean - wbtree.visited_mean).abs() < 0.5, "{reordered:?} {wbtree:?}");
            assert!(of(&direct, "linear").hits.visited_mean > reordered.visited_mean, "{form}");
        }
    }
}

#[test]
fn the_last_used_slot_answers_what_stays_in_it() {
    let on = run("32-slots", Pattern::Sequential, true);
    assert!(on.last_used_answered > 19_000, "{on:?}");
    let off = run("32-slots", Pattern::Sequential, false);
    let lookups = |direct: &Direct| of(direct, "wbtree").hits.lookups;
    assert_eq!(lookups(&off), 20_000);
    assert_eq!(lookups(&on) + on.last_used_answered, 20_000);
    assert_eq!((off.hit_rate, on.hit_rate.map(|rate| rate > 0.95)), (None, Some(true)));
    // One for both vCPUs, or one for each.
    let shared = with("32-slots", Pattern::Random, LastUsed::Vm);
    let each = with("32-slots", Pattern::Random, LastUsed::Vcpu);
    assert_eq!(each, with("32-slots", Pattern::Random, LastUsed::On));
    assert_ne!(shared.last_used_answered, each.last_used_answered);
}
