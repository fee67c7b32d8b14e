//! Replays of recordings whose truth is known.

use super::layouts::{self, SlotHistory, SlotLayout, generation_step};
use super::synthetic::{self, Shape};
use super::tables::{self, TableHistory};
use super::unjoined::Unjoined;
use super::*;
use crate::engine::{Engine, EngineId};
use crate::model::*;
use crate::recording::{Meta, Recording, TableMeta, VmMeta, Writer};
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub(super) fn place() -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("recording");
    (parent, dir)
}

pub(super) fn replay(dir: &Path, options: &Options) -> Vec<ProbeReplay> {
    run(&Recording::open(dir).unwrap(), options, &|_| {}).unwrap()
}

fn quick() -> Options {
    Options { rounds: 7, ..Options::default() }
}

pub(super) fn of(replays: &[ProbeReplay], probe: Probe) -> &ProbeReplay {
    replays.iter().find(|replay| replay.probe == probe).unwrap()
}

#[test]
fn every_event_is_joined_and_modelled_as_it_was_made() {
    for (older, seed) in [(false, 1), (true, 2), (false, 3)] {
        let (_parent, dir) = place();
        let shape = Shape { older, seed, ..Shape::default() };
        synthetic::write(&dir, &shape).unwrap();
        let replays = replay(&dir, &quick());
        assert_eq!(replays.len(), 2);
        for replay in &replays {
            assert_eq!(replay.left_out, std::collections::BTreeMap::new(), "{:?}", replay.probe);
            assert!(replay.sound(), "{:?}", replay.check);
            assert_eq!(replay.check.compared, replay.check.events);
            assert_eq!(replay.check.notes.len(), usize::from(older), "{:?}", replay.check.notes);
            assert_eq!(replay.observed.total(), replay.check.events);
            assert_eq!(replay.engines.len(), 5);
            for engine in &replay.engines {
                assert_eq!((engine.lookups, engine.mismatches), (replay.lookups, 0), "{}", engine.engine);
                assert_eq!(engine.visited.total(), replay.lookups);
                assert!(engine.ns_per_lookup.value > 0.0 && engine.ns_per_lookup.low > 0.0);
            }
        }
        let faults = of(&replays, Probe::PageFault);
        assert!(faults.check.events >= u64::from(shape.faults));
        assert_eq!(faults.lookups + faults.check.last_used.answered, faults.check.events);
        assert_eq!(faults.observed.0.get(&0), Some(&faults.check.last_used.answered));
        let calls = of(&replays, Probe::Translate);
        assert_eq!(calls.check.events, u64::from(shape.translations));
        assert!(calls.lookups > calls.check.events, "calls of two segments search twice");
    }
}

/// `kvm_swap_active_memslots` puts the new set in force under the old generation, with bit 63.
#[test]
fn faults_during_an_update_are_joined_with_the_new_set() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { faults: 4000, churn: 3, translations: 0, ..Shape::default() }).unwrap();
    let recording = Recording::open(&dir).unwrap();
    let ambiguous = recording.faults().unwrap().filter(|fault| fault.as_ref().unwrap().ambiguous).count();
    assert!(ambiguous > 500, "{ambiguous}");
    let replays = replay(&dir, &Options { rounds: 0, ..quick() });
    let faults = of(&replays, Probe::PageFault);
    assert!(faults.left_out.is_empty() && faults.sound(), "{:?} {:?}", faults.left_out, faults.check);
    assert_eq!(faults.check.events, recording.faults().unwrap().map(|_| 1).sum::<u64>());
}

#[test]
fn generations_are_two_apart_unless_one_is_odd() {
    let step = |space, generations: &[u64]| generation_step(space, generations.iter().any(|g| g % 2 == 1));
    assert_eq!(step((VmId(0), 0), &[0, 2, 14]), 2);
    assert_eq!(step((VmId(0), 0), &[0, 3]), 1);
    assert_eq!(step((VmId(0), 1), &[1, 3]), 2);
}

#[test]
fn the_kernels_engine_has_the_observed_lengths_and_predicts_the_observed_latency() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { slots: 300, faults: 60_000, ..Shape::default() }).unwrap();
    let replays = replay(&dir, &quick());
    let faults = of(&replays, Probe::PageFault);
    let kernel = faults.engines.iter().find(|engine| engine.engine == "rbtree").unwrap();
    let mut searched = faults.observed.clone();
    searched.0.remove(&0);
    assert_eq!(kernel.visited, searched);
    let fit = faults.fit.unwrap();
    #[expect(clippy::cast_precision_loss, reason = "25")]
    let step = synthetic::STEP as f64;
    assert!((fit.slope.value - step).abs() < 3.0, "{fit:?}");
    assert!(fit.slope.low <= step && step <= fit.slope.high, "{fit:?}");
    assert_eq!(kernel.predicted.unwrap().latency_ns, faults.latency_ns);
    assert!(!kernel.predicted.unwrap().extrapolates);
    let linear = faults.engines.iter().find(|engine| engine.engine == "linear").unwrap();
    assert!(linear.visited_mean > 10.0 * kernel.visited_mean);
    assert!(linear.predicted.unwrap().extrapolates);
    assert!(linear.predicted.unwrap().median_ns.value > faults.latency_ns.p50 + 1000.0);
    assert!(linear.ns_per_lookup.value > kernel.ns_per_lookup.value);
}

#[test]
fn without_the_last_used_slot_every_fault_is_a_look_up() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { translations: 0, ..Shape::default() }).unwrap();
    let replays = replay(&dir, &Options { rounds: 0, last_used: LastUsed::Off, ..quick() });
    let faults = of(&replays, Probe::PageFault);
    assert!(faults.sound());
    assert_eq!((faults.lookups, faults.check.last_used.asked), (faults.check.events, 0));
}

#[test]
fn engines_and_probes_can_be_chosen() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { faults: 2000, translations: 500, ..Shape::default() }).unwrap();
    let options = Options {
        probes: vec![Probe::Translate],
        engines: Some(EngineId::ALL.to_vec()),
        rounds: 0,
        ..quick()
    };
    let replays = replay(&dir, &options);
    assert_eq!(replays.len(), 1);
    assert_eq!(
        replays[0].engines.iter().map(|engine| engine.engine.as_str()).collect::<Vec<_>>(),
        EngineId::ALL.map(EngineId::name)
    );
    assert!(replays[0].sound());
    assert!(replays[0].engines.iter().all(|engine| engine.ns_per_lookup == Interval::default()));
    let faults = Options { probes: vec![Probe::PageFault], ..options };
    assert!(replay(&dir, &faults)[0].sound());
    let ple = Options { probes: vec![Probe::Ple], ..faults };
    let error = run(&Recording::open(&dir).unwrap(), &ple, &|_| {}).unwrap_err();
    assert_eq!(error.to_string(), "ple makes no look-ups to replay; choose page_fault or translate");
}

#[test]
fn a_wrong_search_length_is_found() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { faults: 100, translations: 0, churn: 0, ..Shape::default() }).unwrap();
    let recording = Recording::open(&dir).unwrap();
    let (_other, copy) = place();
    let mut writer = Writer::create(&copy, recording.meta(), crate::recording::Options::default()).unwrap();
    for change in recording.slot_changes().unwrap() {
        writer.push_slot_change(&change.unwrap()).unwrap();
    }
    for (number, fault) in recording.faults().unwrap().enumerate() {
        let mut fault = fault.unwrap();
        let length = fault.length.as_mut().unwrap();
        match number {
            3 => length.visited += 1,
            5 => length.touched += 1,
            7 => fault.length = None,
            // Of a layout that never was, and in the middle of an update.
            9 => fault.slot = Some(999),
            11 => (fault.ambiguous, fault.slot) = (true, Some(999)),
            13 => fault.vm = VmId(5),
            _ => {}
        }
        writer.push_fault(&fault).unwrap();
    }
    // VM 5 was older, and no snapshot came.
    let mut meta = recording.meta().clone();
    meta.vms.push(VmMeta { vm: VmId(5), pid: 2, name: String::new(), older: true, gone: None });
    writer.finish(meta).unwrap();
    let replays = replay(&copy, &quick());
    let faults = of(&replays, Probe::PageFault);
    assert!(!faults.sound());
    assert_eq!(faults.mismatches(), 0);
    let check = &faults.check;
    assert_eq!((check.events, check.compared, check.visited_differ, check.touched_differ), (97, 96, 1, 1));
    let left: Vec<(&str, u64)> =
        faults.left_out.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(left, [("ambiguous generation", 1), ("layout disagrees with the event", 1), ("no layout", 1)]);
}

#[test]
fn a_recording_that_was_cut_off_is_replayed_and_says_so() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { faults: 1000, translations: 0, ..Shape::default() }).unwrap();
    let path = dir.join("faults.arrow");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 8]).unwrap();
    let replays = replay(&dir, &quick());
    assert_eq!(replays[0].check.notes, ["faults.arrow was cut off; its whole batches were read"]);
    assert!(replays[0].check.events >= 1000);
}

#[test]
fn nothing_recorded_gives_nothing() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { faults: 0, translations: 0, ..Shape::default() }).unwrap();
    assert_eq!(replay(&dir, &quick()), []);
}

#[test]
fn a_replay_goes_through_json() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { faults: 500, translations: 300, ..Shape::default() }).unwrap();
    let replays = replay(&dir, &quick());
    let text = serde_json::to_string(&replays).unwrap();
    let again: Vec<ProbeReplay> = serde_json::from_str(&text).unwrap();
    assert_eq!(again.len(), replays.len());
    for (again, replay) in again.iter().zip(&replays) {
        // Floating-point figures may differ in their last digit, which those of the classes are.
        let plain = |replay: &ProbeReplay| Check { classes: Vec::new(), ..replay.check.clone() };
        assert_eq!(
            (&again.observed, &again.left_out, plain(again)),
            (&replay.observed, &replay.left_out, plain(replay))
        );
        let lengths = |replay: &ProbeReplay| -> Vec<u32> {
            let residuals = replay.check.classes.iter().filter_map(|class| class.residuals.as_ref());
            residuals.flat_map(|left| &left.by_length).map(|length| length.length).collect()
        };
        assert_eq!(lengths(again), lengths(replay));
        for (again, engine) in again.engines.iter().zip(&replay.engines) {
            assert_eq!((&again.engine, &again.visited), (&engine.engine, &engine.visited));
            assert!((again.ns_per_lookup.value - engine.ns_per_lookup.value).abs() < 1e-6);
        }
    }
}

fn slot(id: i32, base: u64, npages: u64) -> Memslot {
    Memslot { id, base_gfn: Gfn(base), npages }
}

fn change(generation: u64, kind: SlotChangeKind, slot: Memslot) -> SlotChange {
    SlotChange { time: generation * 10, vm: VmId(0), as_id: 0, generation, kind, slot, flags: 0, hva: 0 }
}

fn slots(history: &mut SlotHistory, generation: u64) -> Result<Rc<SlotLayout>, Unjoined> {
    let step = history.step_at(generation);
    history.at(step)
}

#[test]
fn slots_change_at_their_generation_whatever_the_order_of_arrival() {
    let changes = vec![
        change(12, SlotChangeKind::Delete, slot(1, 100, 10)),
        change(2, SlotChangeKind::Create, slot(0, 0, 10)),
        change(8, SlotChangeKind::Move { old_base_gfn: Gfn(0) }, slot(0, 50, 10)),
        change(4, SlotChangeKind::Create, slot(1, 100, 10)),
    ];
    let mut history = layouts::history(changes, false);
    let mut starts = |generation| {
        let layout = slots(&mut history, generation).unwrap();
        layout.tree.validate().unwrap();
        layout.ranges.iter().map(|range| range.start).collect::<Vec<_>>()
    };
    assert_eq!(starts(0), [0; 0]);
    assert_eq!(starts(2), [0]);
    assert_eq!(starts(4), [0, 100]);
    assert_eq!(starts(6), [0, 100], "the first generation of the move: still the old slot");
    assert_eq!(starts(8), [50, 100], "a moved slot keeps its place in the order");
    assert_eq!(starts(10), [50, 100]);
    assert_eq!(starts(14), [50]);
}

#[test]
fn lost_changes_are_noticed_until_a_snapshot_comes() {
    let snapshot = |order, black| SlotChangeKind::Snapshot { order, black };
    let changes = vec![
        change(2, SlotChangeKind::Create, slot(0, 0, 10)),
        // The creation of slot 1 is lost.
        change(6, SlotChangeKind::Delete, slot(1, 100, 10)),
        change(8, SlotChangeKind::Create, slot(2, 200, 10)),
        change(20, snapshot(0, true), slot(0, 0, 10)),
        // Taken again: the second counts.
        change(20, snapshot(0, true), slot(0, 0, 10)),
        change(20, snapshot(1, false), slot(2, 200, 10)),
        change(30, snapshot(0, false), slot(0, 0, 10)),
    ];
    let mut history = layouts::history(changes.clone(), false);
    assert!(slots(&mut history, 4).is_ok());
    assert_eq!(slots(&mut history, 6).err(), Some(Unjoined::ChangesLost));
    assert_eq!(slots(&mut history, 8).err(), Some(Unjoined::ChangesLost));
    assert_eq!(slots(&mut history, 20).unwrap().ranges.len(), 2);
    assert_eq!(slots(&mut history, 30).err(), Some(Unjoined::BadSnapshot), "a red root");
    let mut history = layouts::history(changes, true);
    assert_eq!(slots(&mut history, 4).err(), Some(Unjoined::BeforeSnapshot));
    assert_eq!(slots(&mut history, 20).unwrap().slot(2).map(|range| range.last), Some(209));
    assert_eq!(slots(&mut layouts::history(Vec::new(), true), 9).err(), Some(Unjoined::NoLayout));
    let overlapping = vec![
        change(2, SlotChangeKind::Create, slot(0, 0, 10)),
        change(4, SlotChangeKind::Create, slot(1, 5, 10)),
    ];
    assert_eq!(slots(&mut layouts::history(overlapping, false), 4).err(), Some(Unjoined::ChangesLost));
}

fn add(time: u64, start: u64, last: u64) -> RegionChange {
    region(time, RegionChangeKind::Add, start, last)
}

fn region(time: u64, kind: RegionChangeKind, start: u64, last: u64) -> RegionChange {
    RegionChange { time, table: TableId(0), kind, region: Region { start, last }, hva: 0, perm: 3 }
}

/// The regions in force at a time, in the order in which they were added.
fn held(history: &mut TableHistory, time: u64) -> Vec<(u64, u64)> {
    let step = history.step_at(time);
    let layout = history.at(step).unwrap();
    layout.tree.validate().unwrap();
    layout.ranges.iter().map(|range| (range.start, range.last)).collect()
}

#[test]
fn a_table_changes_as_vhost_changes_it() {
    let changes = vec![
        add(10, 0, 9),
        add(20, 10, 19),
        add(30, 20, 29),
        // Takes every region that it overlaps, whole.
        region(40, RegionChangeKind::RemoveRange, 5, 12),
        region(50, RegionChangeKind::Free, 0, u64::MAX),
        add(60, 0, u64::MAX),
    ];
    let mut history = tables::history(changes, Some(false), 2048);
    assert_eq!(held(&mut history, 9), []);
    assert_eq!(held(&mut history, 30), [(0, 9), (10, 19), (20, 29)]);
    assert_eq!(held(&mut history, 45), [(20, 29)]);
    assert_eq!(held(&mut history, 55), []);
    let halves = [(0, u64::MAX / 2), (u64::MAX / 2 + 1, u64::MAX)];
    assert_eq!(held(&mut history, 60), halves);
    // The inner call for the lower half is seen too, before or after the outer one.
    for inner in [59, 61] {
        let mut history =
            tables::history(vec![add(60, 0, u64::MAX), add(inner, 0, u64::MAX / 2)], None, 2048);
        assert_eq!(held(&mut history, 70), halves, "{inner}");
    }
    // At its limit the table retires the oldest.
    let mut history = tables::history(vec![add(1, 50, 59), add(2, 0, 9), add(3, 20, 29)], Some(false), 2);
    assert_eq!(held(&mut history, 5), [(0, 9), (20, 29)]);
}

#[test]
fn a_snapshot_holds_from_the_start_if_nothing_changed_before_it() {
    let snapshot = |time, order, black, start| {
        region(time, RegionChangeKind::Snapshot { order, black }, start, start + 9)
    };
    let rows = vec![snapshot(100, 0, true, 20), snapshot(101, 1, false, 0)];
    let mut history = tables::history(rows.clone(), Some(true), 2048);
    assert_eq!(held(&mut history, 5), [(0, 9), (20, 29)]);
    let changed: Vec<RegionChange> = rows.into_iter().chain([add(50, 40, 49), add(110, 60, 69)]).collect();
    let mut history = tables::history(changed, Some(true), 2048);
    let step = history.step_at(60);
    assert_eq!(history.at(step).err(), Some(Unjoined::BeforeSnapshot));
    assert_eq!(held(&mut history, 105), [(0, 9), (20, 29)]);
    assert_eq!(held(&mut history, 115), [(0, 9), (20, 29), (60, 69)]);
    assert_eq!(tables::history(Vec::new(), Some(true), 2048).at(0).err(), Some(Unjoined::NoLayout));
}

/// A translation of a table with regions 0..=9, 10..=19 and 30..=39.
fn call(addr: u64, len: u32, ret: i32) -> Translation {
    Translation {
        time: 1000,
        latency: 100,
        on_cpu: None,
        cpu: 0,
        device: DeviceId(0),
        table: TableId(0),
        worker: 1,
        queue: None,
        addr,
        len,
        access: 1,
        ret,
        regions: 3,
        length: None,
        is_iotlb: false,
    }
}

#[test]
fn calls_that_fail_or_contradict_the_layout_are_told_apart() {
    let (_parent, dir) = place();
    let meta = Meta {
        tables: vec![TableMeta { table: TableId(0), device: DeviceId(0), older: false }],
        ..Meta::default()
    };
    let mut writer = Writer::create(&dir, &meta, crate::recording::Options::default()).unwrap();
    for change in [add(1, 0, 9), add(2, 10, 19), add(3, 30, 39)] {
        writer.push_region_change(&change).unwrap();
    }
    let good = [
        (call(0, 20, 2), 2),
        (call(0, 10, 1), 1),
        (call(5, 0, 0), 0),
        // Runs into the gap after two segments, or starts in it.
        (call(5, 20, -14), 3),
        (call(20, 5, -14), 1),
        (Translation { is_iotlb: true, ret: -11, ..call(20, 5, 0) }, 1),
        (Translation { access: 4, ret: -1, ..call(0, 5, 0) }, 1),
    ];
    let lookups: u64 = good.iter().map(|(_, searches)| searches).sum();
    let bad = [call(0, 20, 1), call(0, 10, 2), Translation { regions: 4, ..call(0, 10, 1) }];
    good.iter().map(|(call, _)| call).chain(&bad).for_each(|call| writer.push_translation(call).unwrap());
    writer.push_translation(&call(0, 20, -105)).unwrap();
    writer.finish(meta).unwrap();
    let replays = replay(&dir, &quick());
    let calls = of(&replays, Probe::Translate);
    assert_eq!((calls.check.events, calls.lookups, calls.mismatches()), (7, lookups, 0));
    let left: Vec<(&str, u64)> =
        calls.left_out.iter().map(|(reason, count)| (reason.as_str(), *count)).collect();
    assert_eq!(left, [("ended by a full iovec", 1), ("layout disagrees with the event", 3)]);
    assert_eq!(
        calls.no_fit.as_deref(),
        Some(
            "a line needs 3 search lengths with 20 events each, and the translations into one segment have 0"
        )
    );
}

/// Kept from the lab: slots that come, go and move on 6.12, calls across regions on 6.1.
#[test]
fn recordings_of_real_kernels_are_joined_and_modelled_whole() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for (name, probe) in [("slots-churn-6.12", Probe::PageFault), ("regions-cross-6.1", Probe::Translate)] {
        let replays = replay(&fixtures.join(name), &Options { rounds: 0, ..quick() });
        let replay = of(&replays, probe);
        assert!(replay.sound() && replay.left_out.is_empty(), "{name}: {:?}", replay.left_out);
        assert_eq!(replay.check.compared, replay.check.events);
        assert!(replay.check.events > 1900, "{name}: {}", replay.check.events);
    }
}
