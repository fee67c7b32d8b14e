//! A digest's figures, by hand-computed examples.

use super::*;
use crate::model::{Class, DeviceId, Gfn, Gpa, Memslot, SearchLength, SlotChangeKind, TableId};

fn fault(class: Class, visited: Option<u32>, latency: u64) -> Fault {
    Fault {
        time: 0,
        latency,
        on_cpu: None,
        cpu: 0,
        vm: VmId(0),
        vcpu: 0,
        gpa: Gpa(0x1000),
        error_code: 0,
        class,
        as_id: 0,
        slot: None,
        last_used: None,
        ret: 1,
        length: visited.map(|visited| SearchLength { visited, touched: visited + 1 }),
        generation: 2,
        ambiguous: false,
    }
}

#[test]
fn faults_are_told_apart_by_what_the_kernel_did() {
    let mut digest = Digest::new("test".into(), Meta::default());
    for fault in [
        fault(Class::Ram, Some(0), 10),
        fault(Class::Ram, Some(4), 20),
        fault(Class::Ram, Some(4), 30),
        fault(Class::Ram, None, 40),
        fault(Class::NoSlot, Some(6), 50),
        fault(Class::MmioCached, Some(0), 60),
        fault(Class::Shadow, None, 70),
    ] {
        digest.add_fault(&fault);
    }
    let counts: Vec<_> =
        digest.faults.by_group.iter().map(|(group, sample)| (*group, sample.count())).collect();
    assert_eq!(
        counts,
        [
            (Group::LastUsed, 1),
            (Group::Searched, 2),
            (Group::Unfollowed, 1),
            (Group::NoSlot, 1),
            (Group::MmioCached, 1),
            (Group::Shadow, 1)
        ]
    );
    // A cached MMIO fault searches nothing, so it has no length, not a length of 0.
    assert_eq!(digest.faults.visited.0, BTreeMap::from([(0, 1), (4, 2), (6, 1)]));
    assert_eq!(digest.faults.touched.0, BTreeMap::from([(1, 1), (5, 2), (7, 1)]));
    assert_eq!(digest.faults.unknown_length, 1);
    assert_eq!(digest.faults.by_length[&4].quantiles([500, 1000]), Some([25.0, 30.0]));
    assert_eq!(digest.faults.latency.count(), 7);
}

#[test]
fn ple_exits_count_by_their_best_outcome() {
    let exit = |boosted, declined, undercommit| PleExit {
        time: 100,
        latency: 5,
        on_cpu: None,
        on_spin: None,
        cpu: 0,
        vm: VmId(0),
        vcpu: 1,
        window: (3000, 6000),
        yields: boosted + declined + undercommit,
        boosted,
        declined,
        undercommit,
    };
    let mut digest = Digest::new("test".into(), Meta::default());
    for exit in [exit(1, 2, 0), exit(0, 3, 0), exit(0, 0, 3), exit(0, 0, 0)] {
        digest.add_ple_exit(&exit);
    }
    assert_eq!(digest.yields, Yields { tried: 9, boosted: 1, declined: 5, undercommit: 3 });
    let groups: Vec<_> = digest.ple.by_group.keys().copied().collect();
    assert_eq!(groups, [Group::Boosted, Group::Declined, Group::Undercommit, Group::NoYield]);
    let window = digest.windows[&(VmId(0), 1)].spans().last().copied().unwrap();
    assert_eq!((window.last, window.high), (6000, 6000));
}

#[test]
fn translations_carry_the_number_of_regions() {
    let translation = |ret, is_iotlb, regions| Translation {
        time: 0,
        latency: 800,
        on_cpu: None,
        cpu: 0,
        device: DeviceId(0),
        table: TableId(0),
        worker: 1,
        queue: Some(1),
        addr: 0,
        len: 64,
        access: 1,
        ret,
        regions,
        length: Some(SearchLength { visited: 3, touched: 5 }),
        is_iotlb,
    };
    let mut digest = Digest::new("regions".into(), Meta::default());
    for one in [translation(1, false, 53), translation(1, true, 12), translation(-14, false, 53)] {
        digest.add_translation(&one);
    }
    assert_eq!(digest.size(Probe::Translate), Some(53));
    assert_eq!(digest.title(Probe::Translate), "regions (53 regions)");
    let groups: Vec<_> = digest.translations.by_group.keys().copied().collect();
    assert_eq!(groups, [Group::MemoryTable, Group::Iotlb, Group::Failed]);
}

#[test]
fn slots_are_counted_as_they_come_and_go() {
    let change = |kind, id| SlotChange {
        time: 0,
        vm: VmId(0),
        as_id: 0,
        generation: 2,
        kind,
        slot: Memslot { id, base_gfn: Gfn(u64::from(id.unsigned_abs()) * 16), npages: 16 },
        flags: 0,
        hva: 0,
    };
    let mut digest = Digest::new("slots-3".into(), Meta::default());
    for id in 0..3 {
        digest.add_slot_change(&change(SlotChangeKind::Create, id));
    }
    digest.add_slot_change(&change(SlotChangeKind::Delete, 0));
    digest.add_slot_change(&change(SlotChangeKind::Create, 7));
    digest.add_slot_change(&change(SlotChangeKind::Flags, 7));
    assert_eq!(digest.slots, Some(3));
    assert_eq!(digest.title(Probe::PageFault), "slots-3");
    digest.add_slot_change(&change(SlotChangeKind::Snapshot { order: 0, black: true }, 1));
    assert_eq!(digest.slots, Some(3));
    assert_eq!(digest.layouts[&(VmId(0), 0)].live(), 1);
}

#[test]
fn merged_digests_hold_the_events_of_both() {
    let mut one = Digest::new("a".into(), Meta::default());
    one.add_fault(&fault(Class::Ram, Some(2), 10));
    let mut two = Digest::new("b".into(), Meta::default());
    two.add_fault(&fault(Class::Ram, Some(2), 30));
    two.add_fault(&fault(Class::Ram, None, 50));
    one.faults.merge(&two.faults);
    assert_eq!(one.faults.latency.count(), 3);
    assert_eq!(one.faults.visited.0, BTreeMap::from([(2, 2)]));
    assert_eq!(one.faults.by_length[&2].max(), Some(30));
    assert_eq!(one.faults.unknown_length, 1);
}
