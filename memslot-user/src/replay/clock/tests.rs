use super::measure::of_probe;
use super::times::{CLOCK, check_clock};
use super::*;
use crate::engine::EngineId;
use crate::recording::{Clock, Meta};
use crate::replay::synthetic::{self, BASE, STEP, Shape};
use crate::replay::{Interval, LastUsed, Options, ProbeReplay};
use std::path::PathBuf;

fn synthetic(shape: &Shape) -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("recording");
    synthetic::write(&dir, shape).unwrap();
    (parent, dir)
}

fn sure(value: f64) -> Interval {
    Interval { value, low: value, high: value }
}

/// An engine whose look-up takes `base` and `step` a node.
fn engine(probe: Probe, id: EngineId, base: f64, step: f64) -> EngineTime {
    let at = |visited: u32| LengthTime { visited, ns: sure(base + step * f64::from(visited)) };
    EngineTime {
        probe,
        engine: id.name().to_owned(),
        lookups: 1,
        mean: sure(base),
        by_visited: vec![at(0), at(10), at(100)],
    }
}

fn times(engines: Vec<EngineTime>, recording: Clock) -> EngineTimes {
    EngineTimes {
        schema: 1,
        tool: "0".to_owned(),
        kernel: "6.12".to_owned(),
        clock: CLOCK.to_owned(),
        recording,
        measured: recording,
        exact: true,
        identical: 1.0,
        rounds: 11,
        engines,
    }
}

fn replays(recording: &Recording, last_used: LastUsed) -> Vec<ProbeReplay> {
    let options = Options { rounds: 0, last_used, ..Options::default() };
    crate::replay::run(recording, &options, &|_| {}).unwrap()
}

/// Synthetic latencies are a base and a step for every node, and some noise that does not depend on them.
#[test]
fn the_kernels_search_is_taken_off_and_the_engines_put_on() {
    let (_parent, dir) = synthetic(&Shape { faults: 6000, churn: 900, translations: 0, ..Shape::default() });
    let recording = Recording::open(&dir).unwrap();
    let mut replays = replays(&recording, LastUsed::On);
    let slope = replays[0].fit.unwrap().slope.value;
    // The kernel's own tree at the kernel's own cost, and a hundred more; and a search that is free.
    let engines = vec![
        engine(Probe::PageFault, EngineId::Rbtree, 100.0, slope),
        engine(Probe::PageFault, EngineId::Linear, 0.0, 0.0),
        engine(Probe::Translate, EngineId::Wbtree, 1.0, 1.0),
    ];
    predict(&recording, &times(engines, recording.meta().start), &Options::default(), &mut replays, &|_| {})
        .unwrap();
    let replay = &replays[0];
    let same = replay.check.same_clock.as_ref().unwrap();
    let names: Vec<_> = same.engines.iter().map(|engine| engine.engine.as_str()).collect();
    assert_eq!(names, ["linear", "rbtree"], "wbtree was timed over other look-ups");
    let own = same.engine("rbtree").unwrap().predicted.unwrap();
    // The slow ones searched; of the median's neighbours some were answered by the last-used slot.
    assert!((own.latency_ns.p90 - replay.latency_ns.p90 - 100.0).abs() <= 2.0, "{own:?}");
    assert!((own.latency_ns.p99 - replay.latency_ns.p99 - 100.0).abs() <= 2.0, "{own:?}");
    assert_eq!(own_error(replay), Some(own.latency_ns.p50 - replay.latency_ns.p50));
    let free = same.engine("linear").unwrap().predicted.unwrap();
    let intercept = replay.fit.unwrap().intercept.value;
    assert!((free.latency_ns.p50 - intercept).abs() < STEP as f64, "{free:?} {intercept} {BASE}");
    assert!(free.median_ns.low <= free.latency_ns.p50 && free.latency_ns.p50 <= free.median_ns.high);
}

#[test]
fn a_translation_of_two_segments_costs_two_searches() {
    let (_parent, dir) = synthetic(&Shape { faults: 0, translations: 3000, ..Shape::default() });
    let recording = Recording::open(&dir).unwrap();
    let mut replays = replays(&recording, LastUsed::On);
    assert!(replays[0].lookups > replays[0].check.events);
    let mean = |replays: &[ProbeReplay]| {
        let same = replays[0].check.same_clock.as_ref().unwrap();
        same.engine("linear").unwrap().predicted.unwrap().latency_ns.p99
    };
    let mut with = |base| {
        let engines = vec![engine(Probe::Translate, EngineId::Linear, base, 0.0)];
        let times = times(engines, recording.meta().start);
        predict(&recording, &times, &Options::default(), &mut replays, &|_| {}).unwrap();
        mean(&replays)
    };
    // The slowest calls are those of two segments.
    assert!((with(5000.0) - with(1000.0) - 8000.0).abs() < 1.0);
}

#[test]
fn without_a_fit_the_times_are_shown_and_nothing_is_predicted() {
    let (_parent, dir) = synthetic(&Shape { slots: 1, faults: 30, translations: 0, ..Shape::default() });
    let recording = Recording::open(&dir).unwrap();
    let mut replays = replays(&recording, LastUsed::On);
    assert!(replays[0].fit.is_none());
    let engines = vec![engine(Probe::PageFault, EngineId::Linear, 7.0, 1.0)];
    predict(&recording, &times(engines, recording.meta().start), &Options::default(), &mut replays, &|_| {})
        .unwrap();
    let same = replays[0].check.same_clock.as_ref().unwrap();
    assert_eq!(same.engines[0].ns_per_lookup, sure(7.0));
    assert_eq!(same.engines[0].predicted, None);
}

#[test]
fn every_engine_is_timed_over_the_lengths_that_it_has() {
    let shape = Shape { slots: 200, faults: 3000, churn: 1000, translations: 500, ..Shape::default() };
    let (_parent, dir) = synthetic(&shape);
    let recording = Recording::open(&dir).unwrap();
    for probe in [Probe::PageFault, Probe::Translate] {
        let (engines, same) =
            of_probe(&recording, probe, &EngineId::ALL, &Options::default(), &|_| {}).unwrap();
        assert_eq!(engines.len(), EngineId::ALL.len());
        assert!(same.iter().all(|share| (0.0..=1.0).contains(share)));
        for engine in &engines {
            assert!((1..=200).contains(&engine.by_visited.len()), "{}", engine.engine);
            assert!(engine.by_visited.is_sorted_by(|one, other| one.visited < other.visited));
            assert!(engine.lookups > 0 && engine.mean.low <= engine.mean.high, "{engine:?}");
            assert_eq!(engine.lookups, engines[0].lookups);
        }
        let longest = |id: EngineId| {
            let engine = engines.iter().find(|engine| engine.engine == id.name()).unwrap();
            engine.by_visited.last().unwrap().visited
        };
        assert!(longest(EngineId::Linear) > 4 * longest(EngineId::Rbtree));
    }
}

#[test]
fn between_two_lengths_lies_a_line_and_beyond_it_goes_on() {
    let engine = engine(Probe::PageFault, EngineId::Linear, 5.0, 2.0);
    for visited in [0, 3, 10, 55, 100, 200] {
        let ns = engine.of_visited(visited).unwrap();
        assert!((ns.value - 5.0 - 2.0 * f64::from(visited)).abs() < 1e-9, "{visited}: {ns:?}");
    }
    let one = EngineTime { by_visited: vec![engine.by_visited[1]], ..engine.clone() };
    assert_eq!(one.of_visited(3), Some(sure(25.0)));
    assert_eq!(EngineTime { by_visited: Vec::new(), ..engine }.of_visited(3), None);
}

#[test]
fn the_file_comes_back_and_that_of_another_recording_is_refused() {
    let (_parent, dir) = synthetic(&Shape { faults: 10, translations: 0, ..Shape::default() });
    let recording = Recording::open(&dir).unwrap();
    assert_eq!(EngineTimes::read(&recording).unwrap(), None);
    let saved = times(vec![engine(Probe::PageFault, EngineId::Linear, 1.5, 2.25)], recording.meta().start);
    saved.save(&dir).unwrap();
    saved.save(&dir).unwrap();
    assert_eq!(EngineTimes::read(&recording).unwrap(), Some(saved.clone()));
    let refused = |wrong: EngineTimes, what: &str| {
        wrong.save(&dir).unwrap();
        let error = EngineTimes::read(&recording).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("--save-times"), "{error}");
    };
    let start = Clock { monotonic: 5, realtime: 6 };
    refused(EngineTimes { recording: start, ..saved.clone() }, "another recording");
    refused(EngineTimes { clock: "CLOCK_BOOTTIME".to_owned(), ..saved.clone() }, "another clock");
    refused(EngineTimes { schema: 2, ..saved.clone() }, "version 2");
    let mut engines = saved.engines.clone();
    engines[0].by_visited.reverse();
    refused(EngineTimes { engines, ..saved }, "do not ascend");
    std::fs::write(dir.join(FILE), "{").unwrap();
    assert!(EngineTimes::read(&recording).unwrap_err().to_string().contains("cannot be used: "));
}

#[test]
fn only_the_recordings_own_boot_has_its_clock() {
    let mut meta = Meta::default();
    (meta.host.name, meta.host.kernel) = ("host".to_owned(), "6.12".to_owned());
    meta.start = Clock { monotonic: 1_000_000_000_000, realtime: 9_000_000_000_000 };
    meta.end = Clock { monotonic: 2_000_000_000_000, realtime: 10_000_000_000_000 };
    let now = |monotonic, realtime| Clock { monotonic, realtime };
    let later = now(3_000_000_000_000, 11_000_100_000_000);
    assert!(check_clock(&meta, "6.12", "host", later).is_ok());
    for (kernel, name, clock, what) in [
        ("6.1", "host", later, "of Linux 6.12, and this is 6.1;"),
        ("6.12", "other", later, "of host host, and this is other;"),
        ("6.12", "host", now(1_500_000_000_000, 11_000_000_000_000), "has been booted since"),
        ("6.12", "host", now(3_000_000_000_000, 99_000_000_000_000), "has been booted since"),
    ] {
        let error = check_clock(&meta, kernel, name, clock).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}
