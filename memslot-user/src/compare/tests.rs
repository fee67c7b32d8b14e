//! What is found where something differs, and how seldom anything is where nothing does.

use super::rows::{Pair, strata};
use super::simulate::{World, run, side};
use super::verdict::{Judged, judge};
use super::*;
use crate::digest::Group;

fn quiet(_: &str) {}

fn compared(before: &[Run], after: &[Run]) -> Comparison {
    compare(before, after, &Options::default(), &quiet)
}

fn judged(before: &[Run], after: &[Run]) -> Vec<(Kind, Figure, Judged)> {
    let strata = strata(before, after);
    let pairs: Vec<Pair<'_>> = strata.iter().flat_map(Stratum::pairs).collect();
    let judged = judge(&pairs, false, 0.02);
    pairs.iter().zip(judged).map(|(pair, one)| (pair.kind, pair.figure, one)).collect()
}

fn row<'a>(comparison: &'a Comparison, kind: &str, figure: &str) -> &'a Row {
    comparison.comparisons.iter().find(|row| row.kind == kind && row.figure == figure).unwrap()
}

#[test]
fn equal_kernels_are_seldom_called_different() {
    let (mut significant, mut changed) = (0, 0);
    for comparison in 0..200 {
        let seed = 1000 * comparison;
        let found = judged(&side(World::default(), seed, 10), &side(World::default(), seed + 500, 10));
        assert!(found.len() >= 10, "{}", found.len());
        significant += usize::from(found.iter().any(|one| one.2.p_adjusted.unwrap() <= SIGNIFICANT));
        changed += usize::from(found.iter().any(|one| !matches!(one.2.verdict, Verdict::NoDifference)));
    }
    println!("of 200 comparisons {significant} significant, {changed} called a change");
    assert!(significant <= 10, "significant: {significant} of 200");
    assert!(changed <= 2, "called a change: {changed} of 200");
}

#[test]
fn a_shift_of_a_tenth_is_found_in_ten_runs() {
    let slower = World { factor: 1.1, ..World::default() };
    let mut found = 0;
    for comparison in 0..100 {
        let seed = 100_000 + 1000 * comparison;
        let (before, after) = (side(World::default(), seed, 10), side(slower, seed + 500, 10));
        let strata = strata(&before, &after);
        let pairs: Vec<Pair<'_>> = strata.iter().flat_map(Stratum::pairs).collect();
        // The family is that of all figures; the interval is drawn of the one that is looked at.
        let judged = judge(&pairs, false, 0.02);
        let looked = (Kind::Group(Group::Searched), Figure::Quantile(500));
        let place = pairs.iter().position(|pair| (pair.kind, pair.figure) == looked).unwrap();
        let rows = outcome::rows(&pairs[place..=place], &judged[place..=place], false, &quiet);
        found += usize::from(rows[0].verdict == Verdict::Slower);
    }
    println!("found in {found} of 100 comparisons");
    assert!(found >= 95, "{found} of 100");
}

#[test]
fn intervals_and_bands_cover_what_is_true() {
    // No shift: an interval must hold 0 in 95 % of cases, and a band all of its levels at once.
    let (mut intervals, mut bands) = (0, 0);
    for comparison in 0..60 {
        let seed = 500_000 + 1000 * comparison;
        let few = World { faults: 600, ..World::default() };
        let (before, after) = (side(few, seed, 8), side(few, seed + 500, 8));
        let strata = strata(&before, &after);
        let mut pairs = strata[0].pairs();
        pairs
            .retain(|pair| (pair.kind, pair.figure) == (Kind::Group(Group::Searched), Figure::Quantile(500)));
        let row = &outcome::rows(&pairs, &judge(&pairs, false, 0.02), false, &quiet)[0];
        let difference = row.difference.unwrap();
        intervals += usize::from(difference.low <= 0.0 && difference.high >= 0.0);
        let shift = &shift::shifts(&strata, &pairs, false, &quiet)[0];
        bands += usize::from(shift.levels.iter().all(|level| level.low <= 0.0 && level.high >= 0.0));
    }
    println!("of 60, {intervals} intervals and {bands} bands hold the truth");
    assert!(intervals >= 54, "{intervals} of 60");
    assert!(bands >= 54, "{bands} of 60");
}

#[test]
fn a_change_is_told_with_its_size() {
    let slower = World { factor: 1.1, ..World::default() };
    let found = compared(&side(World::default(), 1, 10), &side(slower, 100, 10));
    assert_eq!(found.verdict, Verdict::Slower);
    let median = row(&found, "ram_searched", "p50");
    let change = median.change.unwrap();
    assert!(change.low < 0.1 && change.high > 0.1 && change.low > 0.0 && change.high < 0.2, "{change:?}");
    assert_eq!((median.verdict, median.intervals), (Verdict::Slower, Basis::Runs));
    assert!(median.effect.unwrap() > 0.9 && median.p.unwrap() < median.p_adjusted.unwrap());
    let length = row(&found, "all", "search_length");
    assert_eq!((length.verdict, length.difference.unwrap().value), (Verdict::NoDifference, 0.0));
    // A run of 450 hits has no p99, and none has a p99.9.
    assert!(!found.comparisons.iter().any(|row| row.figure == "p99.9"));
    assert!(!found.comparisons.iter().any(|row| row.kind == "ram_last_used" && row.figure == "p99"));
    let faster = compared(&side(slower, 1, 10), &side(World::default(), 100, 10));
    assert_eq!(row(&faster, "ram_searched", "p50").verdict, Verdict::Faster);
}

#[test]
fn hits_that_become_misses_show_in_length_and_in_the_latency_of_both_together() {
    let broken = World { no_hits: true, ..World::default() };
    let found = compared(&side(World::default(), 1, 10), &side(broken, 100, 10));
    assert_eq!(row(&found, "all", "search_length").verdict, Verdict::Slower);
    assert_eq!(row(&found, "ram", "p50").verdict, Verdict::Slower);
    let hits = row(&found, "ram_last_used", "p50");
    assert_eq!(hits.verdict, Verdict::NotComparable);
    assert_eq!(hits.reasons, ["calls: fewer than 20 of the kind in a run after"]);
}

#[test]
fn few_runs_are_said_to_be_few() {
    let slower = World { factor: 1.5, ..World::default() };
    for runs in [1, 2] {
        let found = compared(&side(World::default(), 1, runs), &side(slower, 100, runs));
        assert_eq!(found.verdict, Verdict::TooFewRuns);
        let median = row(&found, "ram_searched", "p50");
        assert_eq!(median.intervals, Basis::WithinRuns);
        assert!(median.change.unwrap().low > 0.2, "{:?}", median.change);
        assert!(found.notes.iter().any(|note| note.starts_with("too few runs: ")), "{:?}", found.notes);
        assert!(Gate::new(&[]).fails(&found) && !Gate::new(&[Condition::Never]).fails(&found));
    }
}

#[test]
fn in_the_exact_mode_every_instruction_counts() {
    let exact = World { exact: true, ..World::default() };
    let before = side(exact, 1, 2);
    let same = compared(&before, &side(exact, 100, 2));
    assert_eq!(same.verdict, Verdict::NoDifference);
    assert!(same.comparisons.iter().all(|row| row.words == "exact: equal" && row.p.is_none()));
    let slower = compared(&before, &side(World { factor: 1.1, ..exact }, 100, 2));
    let median = row(&slower, "ram_last_used", "p50");
    assert_eq!((median.verdict, median.words.as_str()), (Verdict::Slower, "exact: 200 instructions more"));
    assert_eq!((median.unit, median.intervals), (Unit::Instructions, Basis::Exact));
    assert_eq!(median.difference, Some(Interval { value: 200.0, low: 200.0, high: 200.0 }));
    let little = compared(&before, &side(World { factor: 1.01, ..exact }, 100, 2));
    let median = row(&little, "ram_last_used", "p50");
    assert_eq!(median.verdict, Verdict::NoDifference);
    assert_eq!(median.words, "exact: 20 instructions more, below the threshold of 2 %");
    // One differing instruction on a side, and it is no longer exact.
    let mixed = [before[0].clone(), run(World { factor: 1.001, ..exact }, 5, &mut Pooled::default())];
    let found = compared(&mixed, &side(exact, 100, 2));
    assert_eq!(row(&found, "ram_last_used", "p50").verdict, Verdict::TooFewRuns);
    assert!(found.notes.iter().any(|note| note.contains("runs of one side differ")));
}

#[test]
fn every_reason_against_comparing_is_listed() {
    let before = side(World::default(), 1, 2);
    let reasons = |change: fn(&mut Run)| {
        let mut after = side(World::default(), 100, 2);
        after.iter_mut().for_each(change);
        let found = compared(&before, &after);
        assert_eq!(found.verdict, Verdict::NotComparable);
        assert!(found.comparisons.iter().all(|row| row.verdict == Verdict::NotComparable && row.p.is_none()));
        let mut reasons = found.comparisons[0].reasons.clone();
        reasons.dedup();
        reasons
    };
    assert_eq!(
        reasons(|run| {
            run.meta.host.virtualised = Some("QEMU-TCG".into());
            run.meta.host.cpus = 2;
            run.meta.complete = false;
        }),
        [
            "clock: hardware time before, emulated time after",
            "machine: host (a CPU, 8 CPUs) before, host (a CPU, 2 CPUs) after",
            "loss: run-100 was cut off, and what it lost is not known; record it again",
            "loss: run-101 was cut off, and what it lost is not known; record it again",
        ]
    );
    assert_eq!(
        reasons(|run| {
            let probe = run.probes.get_mut(&Probe::PageFault).unwrap();
            probe.attached = "kprobe".into();
            probe.mix = [("ram", 900), ("mmio_cached", 100)].into();
            probe.layout = Some(1);
            probe.lost = 100;
        }),
        [
            "probes: attached by fentry before, by kprobe after",
            "workload: another mix of calls before and after: mmio_cached 0 % and 10 %, ram 100 % and 90 %",
            "layout: as many ranges before as after, but not the same ones",
            "loss: 0 % of the calls lost before, 6.3 % after (at worst 6.3 % in a run)",
        ]
    );
    let other = compared(&before, &side(World { slots: 3, ..World::default() }, 100, 2));
    let texts: Vec<_> = other.comparisons.iter().flat_map(|row| row.reasons.clone()).collect();
    assert!(texts.contains(&"layout: 3 slots only after".into()), "{texts:?}");
    assert!(texts.contains(&"layout: 53 slots only before".into()), "{texts:?}");
    let nothing = compared(&[], &[]);
    assert_eq!((nothing.verdict, nothing.comparisons.len()), (Verdict::NotComparable, 0));
    assert!(Gate::new(&[]).fails(&nothing));
}

#[test]
fn what_differs_besides_the_kernel_is_noted() {
    let mut before = side(World::default(), 1, 3);
    let mut after = side(World::default(), 100, 3);
    before.iter_mut().for_each(|run| {
        run.meta.parameters.insert("kvm_amd.pause_filter_count".into(), "3000".into());
    });
    after.iter_mut().for_each(|run| {
        run.meta.parameters.insert("kvm_amd.pause_filter_count".into(), "4096".into());
        run.meta.tool = "0.2.0".into();
        run.meta.start.realtime = 9_000_000_000_000;
    });
    let found = compared(&before, &after);
    let setting =
        Setting { name: "kvm_amd.pause_filter_count".into(), before: "3000".into(), after: "4096".into() };
    assert_eq!(found.settings, [setting]);
    let notes = found.notes.join("\n");
    assert!(notes.contains("both sides ran Linux 6.12.0"), "{notes}");
    assert!(notes.contains("recorded by memslot 0.1.0 before and 0.2.0 after"), "{notes}");
    assert!(notes.contains("3 recordings after are of 1 boot:"), "{notes}");
    assert!(!notes.contains("recordings before are of"), "{notes}");
}

#[test]
fn the_control_finds_nothing_where_nothing_is_and_says_where_it_could_not() {
    let options = Options { control: 200, ..Options::default() };
    let after = side(World { factor: 1.1, ..World::default() }, 100, 10);
    let found = compare(&side(World::default(), 1, 10), &after, &options, &quiet).control.unwrap();
    assert!(found.passed, "{found:?}");
    assert_eq!(found.comparisons, 200);
    let few = compare(&side(World::default(), 1, 3), &after[..3], &options, &quiet).control.unwrap();
    assert!(!few.passed && few.words.contains("nothing could be found"), "{few:?}");
    let one = compare(&side(World::default(), 1, 1), &after[..1], &options, &quiet).control.unwrap();
    assert!(!one.passed && one.words.contains("at least 3 runs"), "{one:?}");
}

#[test]
fn a_change_whose_interval_holds_0_is_not_called_one() {
    let slower = World { factor: 1.1, ..World::default() };
    let found = compared(&side(World::default(), 1, 8), &side(slower, 100, 8));
    for row in &found.comparisons {
        let difference = row.difference.unwrap();
        let holds = difference.low <= 0.0 && difference.high >= 0.0;
        assert!(!holds || row.verdict == Verdict::NoDifference, "{}, {}", row.kind, row.figure);
    }
    let p99 = row(&found, "ram_searched", "p99");
    assert_eq!(p99.words, "significant by ranks, but the interval holds 0");
    assert!(p99.p_adjusted.unwrap() <= CHANGE);
}

#[test]
fn the_gate_fails_on_what_it_is_told_to() {
    let slower = World { factor: 1.1, ..World::default() };
    let found = compared(&side(World::default(), 1, 10), &side(slower, 100, 10));
    assert!(Gate::new(&[]).fails(&found));
    assert!(Gate::new(&[Condition::Slower(0.05)]).fails(&found));
    assert!(!Gate::new(&[Condition::Slower(0.5)]).fails(&found));
    assert!(!Gate::new(&[Condition::Faster(0.0)]).fails(&found));
    assert!(!Gate::new(&[Condition::Never]).fails(&found));
}

fn golden(name: &str, found: &str) {
    let path = format!("{}/src/compare/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("MEMSLOT_BLESS").is_some() {
        std::fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
        std::fs::write(&path, found).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap();
    assert_eq!(found, known, "{name}: if the change is meant: MEMSLOT_BLESS=1 cargo test");
}

#[test]
fn texts_are_as_they_were() {
    let slower = World { factor: 1.1, ..World::default() };
    let options = Options { control: 20, ..Options::default() };
    let before = side(World::default(), 1, 8);
    let mut found = compare(&before, &side(slower, 100, 8), &options, &quiet);
    // It changes with every commit.
    found.tool = "0.1.0 (test)".into();
    golden("slower.txt", &text(&found));
    golden("slower.md", &markdown(&found));
    golden("slower.json", &found.to_json().unwrap());
    let exact = World { exact: true, ..World::default() };
    let found = compared(&side(exact, 1, 2), &side(World { no_hits: true, ..exact }, 100, 2));
    golden("exact.txt", &text(&found));
    let found = compared(&before[..2], &side(World { slots: 3, ..slower }, 100, 2));
    golden("not-comparable.txt", &text(&found));
    let found = compared(&before[..2], &side(slower, 100, 2));
    golden("too-few.txt", &text(&found));
}
