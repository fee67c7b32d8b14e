//! Generated layouts are legal, and as large as they say.

use super::*;
use crate::engine::{Engine, Range, SortedArray};
use std::collections::BTreeSet;

fn slots(text: &str) -> Vec<Memslot> {
    let slots = parse(text).unwrap().slots();
    let ranges: Vec<Range> =
        slots.iter().zip(0..).map(|(slot, key)| Range::of_slot(slot, key).unwrap()).collect();
    SortedArray::build(&ranges).unwrap_or_else(|error| panic!("{text}: {error}"));
    let ids: BTreeSet<i32> = slots.iter().map(|slot| slot.id).collect();
    assert_eq!(ids.len(), slots.len(), "{text}: ids are distinct");
    slots
}

#[test]
fn every_layout_is_legal_and_as_large_as_it_says() {
    let sizes = [
        ("qemu-q35", 13),
        ("qemu-q35:2", 12),
        ("qemu-q35:4096", 13),
        ("dimms:1", 14),
        ("dimms:256", 269),
        ("dimms:3:128", 16),
        ("vfio:40", 53),
        ("vfio:32751", 32_764),
        ("hyperv:1", 16),
        ("hyperv:128", 397),
        ("hyperv:4096", 12_301),
        ("2011:2", 9),
        ("2011", 10),
        ("2011:8", 10),
        ("32-slots", 32),
        ("random:1", 1),
        ("random:32764", 32_764),
    ];
    for (text, count) in sizes {
        assert_eq!(slots(text).len(), count, "{text}");
    }
}

#[test]
fn a_q35_guest_has_the_ram_that_it_was_given() {
    for gib in [1, 2, 3, 8, 64] {
        let ram: u64 = slots(&format!("qemu-q35:{gib}"))
            .iter()
            .filter(|slot| slot.base_gfn.0 < 3 * GIB || slot.base_gfn.0 >= 4 * GIB)
            .map(|slot| slot.npages)
            .sum();
        // The VGA window of 128 KiB hides as much RAM.
        assert_eq!(ram, gib * GIB - 32, "{gib} GiB");
    }
}

#[test]
fn hyperv_pages_cover_all_ram_in_small_pieces() {
    let (plain, split) = (slots("qemu-q35"), slots("hyperv:128"));
    let pages = |slots: &[Memslot]| slots.iter().map(|slot| slot.npages).sum::<u64>();
    assert_eq!(pages(&plain), pages(&split));
    assert_eq!(split.iter().filter(|slot| slot.npages == 1).count(), 2 + 256);
}

#[test]
fn random_layouts_repeat_and_differ_by_seed() {
    assert_eq!(slots("random:100"), slots("random:100:1"));
    assert_ne!(slots("random:100"), slots("random:100:2"));
    let mut shuffled = slots("dimms:16");
    shuffle(&mut shuffled, 1);
    let mut again = slots("dimms:16");
    assert_ne!(shuffled, again);
    shuffle(&mut again, 1);
    assert_eq!(shuffled, again);
}

#[test]
fn names_are_read_back() {
    for text in [
        "qemu-q35:8",
        "dimms:256",
        "dimms:2:64",
        "vfio:64",
        "hyperv:128",
        "2011:4",
        "32-slots",
        "random:9",
        "random:9:3",
    ] {
        assert_eq!(parse(text).unwrap().to_string(), text);
    }
}

#[test]
fn what_cannot_be_made_is_refused_with_the_remedy() {
    let refused = |text: &str| parse(text).unwrap_err().to_string();
    assert!(refused("q35").starts_with("there is no layout \"q35\" to generate; choose one of\nqemu-q35"));
    assert_eq!(
        refused("dimms:257"),
        "in the layout \"dimms:257\" the number of DIMMs must be a whole number from 1 to 256"
    );
    assert!(refused("vfio").ends_with("the number of BARs must be a whole number from 1 to 32751"));
    assert!(refused("hyperv:0").contains("from 1 to 4096"));
    assert!(refused("random:5:-1").contains("the seed must be"));
    assert!(refused("qemu-q35:8:8").contains("says more than this kind has"));
}
