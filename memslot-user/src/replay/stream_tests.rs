//! A recording in pieces gives what it gives whole; last-used slots; hits and misses apart.

use super::layouts::{self, SlotHistory};
use super::synthetic::{self, Shape};
use super::tests::{of, place, replay};
use super::*;
use crate::engine::{Engine, EngineId};
use crate::model::*;
use crate::recording::{self, Recording, Writer};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use std::path::{Path, PathBuf};

fn untimed() -> Options {
    Options { rounds: 0, engines: Some(EngineId::ALL.to_vec()), ..Options::default() }
}

/// A copy of the recording with other faults.
fn with_faults(dir: &Path, change: impl FnOnce(&mut Vec<Fault>)) -> (tempfile::TempDir, PathBuf) {
    let recording = Recording::open(dir).unwrap();
    let (parent, copy) = place();
    let mut writer = Writer::create(&copy, recording.meta(), recording::Options::default()).unwrap();
    recording.slot_changes().unwrap().for_each(|row| writer.push_slot_change(&row.unwrap()).unwrap());
    let mut faults: Vec<Fault> = recording.faults().unwrap().map(Result::unwrap).collect();
    change(&mut faults);
    faults.iter().for_each(|fault| writer.push_fault(fault).unwrap());
    writer.finish(recording.meta().clone()).unwrap();
    (parent, copy)
}

/// Everything but times, and what depends on which events are neighbours (the bootstrap's intervals).
fn assert_same(one: &ProbeReplay, other: &ProbeReplay) {
    assert_eq!(
        (one.lookups, &one.left_out, &one.observed),
        (other.lookups, &other.left_out, &other.observed)
    );
    assert_eq!(one.latency_ns, other.latency_ns);
    let checks = |replay: &ProbeReplay| {
        let check = replay.check.clone();
        (check.events, check.sampled, check.compared, check.last_used, check.mmio_cached, check.notes)
    };
    assert_eq!(checks(one), checks(other));
    let line = |replay: &ProbeReplay| {
        replay.fit.map(|fit| (fit.slope.value, fit.intercept.value, fit.r_squared, fit.events, fit.range))
    };
    assert_eq!(line(one), line(other));
    for (one, other) in one.engines.iter().zip(&other.engines) {
        let figures = |engine: &EngineOutcome| {
            let predicted = engine.predicted.map(|predicted| (predicted.latency_ns, predicted.extrapolates));
            (engine.engine.clone(), engine.lookups, engine.mismatches, engine.visited.clone(), predicted)
        };
        assert_eq!(figures(one), figures(other));
        assert_eq!(one.classes, other.classes);
    }
}

#[test]
fn a_recording_in_chunks_gives_what_it_gives_whole() {
    for older in [false, true] {
        let (_parent, dir) = place();
        let shape = Shape { faults: 6000, translations: 3000, churn: 40, older, ..Shape::default() };
        synthetic::write(&dir, &shape).unwrap();
        let whole = replay(&dir, &untimed());
        for chunk in [1, 97, 5000] {
            let chunked = replay(&dir, &Options { chunk, ..untimed() });
            assert_eq!(chunked.len(), whole.len());
            whole.iter().zip(&chunked).for_each(|(one, other)| assert_same(one, other));
        }
        assert!(whole.iter().all(|replay| replay.sound() && replay.check.sampled == replay.check.events));
    }
}

/// Faults of all generations mixed: each chunk goes through the whole history.
#[test]
fn faults_in_any_order_are_joined_as_in_their_own() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { faults: 4000, translations: 0, churn: 25, ..Shape::default() }).unwrap();
    let (_other, shuffled) = with_faults(&dir, |faults| faults.shuffle(&mut SmallRng::seed_from_u64(5)));
    let (_third, backwards) = with_faults(&dir, |faults| faults.reverse());
    let ordered = replay(&dir, &untimed());
    assert!(ordered[0].sound() && ordered[0].left_out.is_empty());
    for dir in [shuffled, backwards] {
        for chunk in [50, 1 << 18] {
            let replays = replay(&dir, &Options { chunk, ..untimed() });
            assert_same(&ordered[0], &replays[0]);
        }
    }
}

#[test]
fn a_layout_is_the_same_whichever_way_it_is_reached() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { faults: 2000, translations: 0, churn: 20, ..Shape::default() }).unwrap();
    let changes: Vec<SlotChange> =
        Recording::open(&dir).unwrap().slot_changes().unwrap().map(Result::unwrap).collect();
    let last = changes.iter().map(|change| change.generation).max().unwrap();
    let tree = |history: &mut SlotHistory, generation| {
        let step = history.step_at(generation);
        let layout = history.at(step).unwrap();
        layout.tree.validate().unwrap();
        (format!("{:?}", layout.tree.pre_order()), layout.ranges.clone())
    };
    let mut generations: Vec<u64> = (0..=last).collect();
    generations.shuffle(&mut SmallRng::seed_from_u64(9));
    let mut wandering = layouts::history(changes.clone(), false);
    for generation in generations.into_iter().take(120) {
        let mut fresh = layouts::history(changes.clone(), false);
        assert_eq!(tree(&mut wandering, generation), tree(&mut fresh, generation), "{generation}");
    }
}

/// Fit and predictions rest on a part, and everything else on the whole.
#[test]
fn a_sample_says_nearly_what_the_whole_says() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { slots: 300, faults: 60_000, translations: 0, ..Shape::default() })
        .unwrap();
    let whole = &replay(&dir, &untimed())[0];
    let part = &replay(&dir, &Options { sample: 8192, chunk: 10_000, ..untimed() })[0];
    assert_eq!((part.check.sampled, part.check.events), (8192, whole.check.events));
    assert_eq!((&part.observed, part.lookups), (&whole.observed, whole.lookups));
    for (one, other) in whole.engines.iter().zip(&part.engines) {
        assert_eq!((&one.visited, &one.classes), (&other.visited, &other.classes));
        let (one, other) = (one.predicted.unwrap(), other.predicted.unwrap());
        assert_eq!(one.extrapolates, other.extrapolates);
        // A line that is drawn out by hundreds of nodes is as far off as its slope, which is looked at below.
        let ratio = one.latency_ns.p50 / other.latency_ns.p50;
        assert!(one.extrapolates || (ratio - 1.0).abs() < 0.02, "{one:?} {other:?}");
    }
    // The latencies are short, so that their histogram is exact.
    let quantiles =
        |replay: &ProbeReplay| [replay.latency_ns.p50, replay.latency_ns.p90, replay.latency_ns.p99];
    let differ = |(one, other): (f64, f64)| (one - other).abs() > 1e-6;
    assert!(!quantiles(whole).into_iter().zip(quantiles(part)).any(differ));
    let (slope, of_part) = (whole.fit.unwrap().slope, part.fit.unwrap().slope);
    assert!(of_part.low <= slope.high && slope.low <= of_part.high, "{slope:?} {of_part:?}");
    assert!(of_part.high - of_part.low > slope.high - slope.low, "fewer events say less");
    let text = text(std::slice::from_ref(part));
    assert!(text.contains("rest on a sample of 8,192 of the 60,"), "{text}");
    assert_eq!(
        part,
        &replay(&dir, &Options { sample: 8192, chunk: 10_000, ..untimed() })[0],
        "the same again"
    );
}

/// The kernel's own slot, rebuilt from the faults alone.
#[test]
fn a_simulated_slot_for_each_vcpu_is_the_one_that_the_recording_has() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { faults: 20_000, translations: 0, churn: 30, ..Shape::default() })
        .unwrap();
    let recorded = &replay(&dir, &untimed())[0];
    for chunk in [333, 1 << 18] {
        let options = Options { last_used: LastUsed::Vcpu, chunk, ..untimed() };
        let simulated = &replay(&dir, &options)[0];
        let check = &simulated.check.last_used;
        assert_eq!((check.whose.as_str(), check.agreed), ("vcpu", check.compared));
        assert_eq!((check.asked, check.compared), (simulated.check.events, simulated.check.events));
        assert_eq!(check.answered, recorded.check.last_used.answered);
        assert!(check.answered > 1000);
        assert_eq!(simulated.engines, recorded.engines);
    }
}

#[test]
fn whose_slot_is_asked_decides_how_often_it_answers() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { regions: 3, ..Shape::default() }).unwrap();
    let with = |last_used| replay(&dir, &Options { last_used, ..untimed() });
    let (own, vm, queue, off) =
        (with(LastUsed::On), with(LastUsed::Vm), with(LastUsed::Queue), with(LastUsed::Off));
    let check = |replays, probe| of(replays, probe).check.last_used.clone();
    // vCPUs that look in different places drive each other's slot out.
    let (own_faults, vm_faults) = (check(&own, Probe::PageFault), check(&vm, Probe::PageFault));
    assert_eq!((own_faults.whose.as_str(), vm_faults.whose.as_str()), ("recorded", "vm"));
    assert!(0 < vm_faults.answered && vm_faults.answered < own_faults.answered / 2, "{vm_faults:?}");
    // The kernel has no last-used region.
    assert_eq!(check(&own, Probe::Translate).hit_rate, None);
    let calls = check(&queue, Probe::Translate);
    let (all, left) = (of(&own, Probe::Translate).lookups, of(&queue, Probe::Translate).lookups);
    assert_eq!((calls.whose.as_str(), calls.asked, calls.answered + left), ("queue", all, all));
    // Three regions: about every third call stays where the last one was.
    assert!((0.25..0.5).contains(&calls.hit_rate.unwrap()), "{calls:?}");
    let faults = of(&off, Probe::PageFault);
    assert_eq!((faults.lookups, faults.check.last_used.hit_rate), (faults.check.events, None));
    assert!([own, vm, queue, off].iter().flatten().all(ProbeReplay::sound));
}

#[test]
fn hits_and_misses_are_told_apart_and_cached_mmio_is_no_look_up() {
    let (_parent, dir) = place();
    synthetic::write(&dir, &Shape { faults: 5000, translations: 0, ..Shape::default() }).unwrap();
    let (_other, copy) = with_faults(&dir, |faults| {
        for (number, fault) in faults.iter_mut().enumerate() {
            let class = match number % 10 {
                0 => Class::MmioCached,
                1 => Class::Shadow,
                _ => continue,
            };
            (fault.class, fault.slot, fault.last_used, fault.length) = (class, None, None, None);
        }
    });
    let faults: Vec<Fault> = Recording::open(&copy).unwrap().faults().unwrap().map(Result::unwrap).collect();
    let of_class = |class| faults.iter().filter(|fault| fault.class == class).count() as u64;
    let replay = &replay(&copy, &Options { rounds: 3, last_used: LastUsed::Off, ..untimed() })[0];
    assert_eq!(replay.check.mmio_cached, of_class(Class::MmioCached));
    assert_eq!(replay.left_out, [("shadow or nested paging".to_owned(), of_class(Class::Shadow))].into());
    for engine in &replay.engines {
        let classes: Vec<(&str, u64)> =
            engine.classes.iter().map(|class| (class.class.as_str(), class.steps.lookups)).collect();
        assert_eq!(classes, [("hit", of_class(Class::Ram)), ("miss", of_class(Class::NoSlot))]);
        assert!(engine.classes.iter().all(|class| class.steps.ns_per_lookup.value > 0.0));
        let sum: u64 = engine.classes.iter().map(|class| class.steps.visited.total()).sum();
        assert_eq!((sum, engine.lookups), (engine.visited.total(), replay.check.events));
    }
    // A scan ends at a hit and has to go through all on a miss.
    let linear = &replay.engines[0].classes;
    assert!(linear[0].steps.visited_max <= 53 && linear[1].steps.visited.0.len() <= 2, "{linear:?}");
    let text = text(std::slice::from_ref(replay));
    assert!(
        text.contains("more faults met a cached MMIO entry: no search, and no look-up of any engine."),
        "{text}"
    );
    assert!(text.contains("\n| linear ") && text.contains(" | miss "), "{text}");
}

/// Kept from the lab. Where the kernel's own slot was another, the vCPU's fault before was on no slot: KVM
/// then emulates the access, and the emulator's look-ups, which are not recorded, move the slot.
#[test]
fn the_last_used_slot_of_a_real_kernel_is_rebuilt_but_for_emulation() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/slots-churn-6.12");
    let replays = replay(&dir, &Options { last_used: LastUsed::Vcpu, ..untimed() });
    let check = &of(&replays, Probe::PageFault).check.last_used;
    assert!(check.agreed < check.compared, "{check:?}");
    let mut held = std::collections::BTreeMap::new();
    let mut differ = 0;
    for fault in Recording::open(&dir).unwrap().faults().unwrap().map(Result::unwrap) {
        let generation = (fault.generation, fault.ambiguous);
        let (of, slot, before) = held.entry(fault.vcpu).or_insert((generation, None, Class::NoSlot));
        if *of != generation {
            (*of, *slot) = (generation, None);
        }
        if fault.class.searches() && *slot != fault.last_used {
            differ += 1;
            assert!(matches!(before, Class::NoSlot | Class::MmioCached), "{fault:?}");
        }
        *slot = fault.slot.or(*slot);
        *before = fault.class;
    }
    assert_eq!(differ, check.compared - check.agreed);
}
