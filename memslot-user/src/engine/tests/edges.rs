//! Where a look-up goes wrong first: the ends of the addresses, one page, neighbours, none, very many,
//! equal sizes, overlaps, and legal trees of any shape.

use super::*;
use crate::layouts;
use crate::model::{Memslot, Region};

#[test]
fn no_ranges_hold_nothing() {
    all_agree(&[]);
    fn nothing<E: Engine>() {
        let search = E::build(&[]).unwrap().find_counted(0);
        assert_eq!((search.found, search.length.touched, search.lines), (None, 0, 0));
    }
    nothing::<SortedArrayKernel>();
    nothing::<BTreeMapEngine>();
    nothing::<Eytzinger>();
    nothing::<RbTree>();
}

#[test]
fn the_ends_of_the_addresses_are_found() {
    all_agree(&[range(0, 0, 0)]);
    all_agree(&[range(u64::MAX, u64::MAX, 0)]);
    all_agree(&[range(0, u64::MAX, 0)]);
    all_agree(&[range(0, 0, 0), range(u64::MAX, u64::MAX, 1)]);
    all_agree(&[range(1, u64::MAX - 1, 0), range(0, 0, 1), range(u64::MAX, u64::MAX, 2)]);
    // Keys of 32 bits are just enough, and just not.
    let far = 1_u64 << 32;
    all_agree(&[range(0, 0, 0), range(far - 1, far - 1, 1)]);
    all_agree(&[range(0, 0, 0), range(1, 1, 1), range(far, far + 1, 2)]);
}

#[test]
fn one_page_and_neighbours_are_told_apart() {
    all_agree(&row(100, 1, 1));
    all_agree(&row(64, 2, 1));
    all_agree(&shuffled(row(65, 4096, 4096)));
}

#[test]
fn kvms_most_slots_of_one_size_are_found() {
    let ranges = row(layouts::MOST_SLOTS, 16, 10);
    fn spot<E: Engine>(ranges: &[Range], most: u32) {
        let engine = E::build(ranges).unwrap();
        engine.validate().unwrap();
        for place in (0..ranges.len()).step_by(97).chain([ranges.len() - 1]) {
            let held = ranges[place];
            let search = engine.find_counted(held.last);
            assert_eq!(search.found, Some(held.key), "{}", E::ID.name());
            assert!(search.length.visited <= most, "{}: {search:?}", E::ID.name());
            assert_eq!(engine.find(held.last + 1), None, "{}", E::ID.name());
        }
    }
    spot::<Linear>(&ranges, 32_764);
    spot::<LinearBySize>(&ranges, 32_764);
    spot::<SortedArray>(&ranges, 16);
    spot::<SortedArrayKernel>(&ranges, 15);
    spot::<RbTree>(&ranges, 30);
    spot::<IntervalTree>(&ranges, 30);
    // 11 keys a node, of which those up to the wanted one are compared.
    spot::<BTreeMapEngine>(&ranges, 60);
    spot::<Eytzinger>(&ranges, 16);
    // Its bad case is a list; shuffled it is a tree.
    spot::<WbTree>(&shuffled(ranges), 60);
}

#[test]
fn dimms_in_order_make_the_wbtree_a_list() {
    let mut slots = layouts::parse("dimms:256").unwrap().slots();
    let depth = |slots: &[Memslot]| {
        let ranges: Vec<Range> =
            slots.iter().zip(0..).map(|(slot, key)| Range::of_slot(slot, key).unwrap()).collect();
        WbTree::build(&ranges).unwrap().depth()
    };
    // The 6 GiB above 4 GiB are the root, the DIMMs a list at its right.
    assert_eq!(depth(&slots), 257);
    layouts::shuffle(&mut slots, 1);
    let shuffled = depth(&slots);
    assert!((10..=24).contains(&shuffled), "{shuffled}");
}

#[test]
fn overlaps_are_refused_as_kvm_does_and_resolved_as_vhost_does() {
    let held = range(100, 199, 0);
    // `kvm_check_memslot_overlap`: at either end, inside, around, and the same again.
    for (start, last) in [(50, 100), (199, 250), (120, 130), (0, 300), (100, 199), (100, 100)] {
        let new = range(start, last, 1);
        let expected = Err(BuildError::Overlap(new, held));
        fn into<E: DynamicEngine>(held: Range, new: Range) -> Result<(), BuildError> {
            let mut engine = E::build(&[held]).unwrap();
            let refused = engine.insert(new);
            engine.validate().unwrap();
            assert_eq!(engine.len(), 1, "{}: nothing has changed", E::ID.name());
            assert_eq!(E::build(&[held, new]).err().is_some(), refused.is_err(), "{}", E::ID.name());
            refused
        }
        assert_eq!(into::<Linear>(held, new), expected);
        assert_eq!(into::<LinearBySize>(held, new), expected);
        assert_eq!(into::<SortedArray>(held, new), expected);
        assert_eq!(into::<SortedArrayKernel>(held, new), expected);
        assert_eq!(into::<WbTree>(held, new), expected);
        assert_eq!(into::<RbTree>(held, new), expected);
        assert_eq!(into::<BTreeMapEngine>(held, new), expected);
        assert!(matches!(Eytzinger::build(&[held, new]), Err(BuildError::Overlap(..))));

        // `vhost_iotlb_itree_first`: the lowest start that reaches the address.
        let tree = IntervalTree::build(&[held, new]).unwrap();
        tree.validate().unwrap();
        let lowest = if start < 100 { 1 } else { 0 };
        assert_eq!(tree.find(start.max(100)), Some(lowest), "{start}..={last}");
    }
    // Neighbours are no overlap.
    all_agree(&[held, range(99, 99, 1), range(200, 200, 2)]);
}

#[test]
fn what_is_no_range_is_refused() {
    let slot = |base_gfn, npages| {
        Range::of_slot(&Memslot { id: 0, base_gfn: crate::model::Gfn(base_gfn), npages }, 0)
    };
    assert_eq!(slot(5, 0), None);
    assert_eq!(slot(u64::MAX, 2), None);
    assert_eq!(slot(u64::MAX, 1), Some(range(u64::MAX, u64::MAX, 0)));
    assert_eq!(Range::of_region(&Region { start: 2, last: 1 }, 0), None);
    let backwards = range(2, 1, 0);
    assert_eq!(Eytzinger::build(&[backwards]).unwrap_err(), BuildError::Backwards(backwards));
    assert_eq!(BTreeMapEngine::build(&[backwards]).unwrap_err(), BuildError::Backwards(backwards));
    assert_eq!(SortedArrayKernel::build(&[backwards]).unwrap_err(), BuildError::Backwards(backwards));
}

#[test]
fn cache_lines_are_those_of_the_layout() {
    // 24 bytes a range: 8 ranges in 3 lines.
    assert_eq!(size_of::<Range>(), 24);
    let ranges = row(8, 10, 10);
    let lines = |addr| Linear::build(&ranges).unwrap().find_counted(addr).lines;
    assert_eq!([5, 15, 25, 45, 55, 75, 100].map(lines), [1, 1, 2, 2, 3, 3, 3]);
    // Seven 32-bit keys are one line, the range one or two more.
    let lines = |addr| Eytzinger::build(&ranges).unwrap().find_counted(addr).lines;
    assert_eq!([5, 25, 55].map(lines), [2, 3, 3]);
    // 24 bytes a node, and the root's right side, the larger one, first: 3, 5, 6, 7, 4, 1, 2, 0. The key of
    // the one found lies in another line.
    let ranges: Vec<Range> = row(8, 10, 10);
    let tree = RbTree::build(&ranges).unwrap();
    assert_eq!(shape(&tree.pre_order()), "30 10r 0 20 50r 40 60 70r");
    let lines = |addr| tree.find_counted(addr).lines;
    assert_eq!([35, 55, 65, 75, 45, 5].map(lines), [2, 2, 3, 3, 3, 4]);
    // 32 bytes a node: vhost's search reads the root's end beside the key, the leftmost node, and the way.
    let tree = IntervalTree::build(&ranges).unwrap();
    let lines = |addr| tree.find_counted(addr).lines;
    assert_eq!([35, 55, 75].map(lines), [3, 3, 5]);
    assert_eq!(lines(100), 1, "past every end only that of the root is read");
    let many = Eytzinger::build(&row(32_764, 16, 16)).unwrap();
    // 15 levels of 4 bytes: four levels in the first line, one line a level after that; the range
    // may lie across two.
    let most = (0..32_764 * 16).step_by(1001).map(|addr| many.find_counted(addr).lines).max();
    assert_eq!(most, Some(14));
}

/// A legal red-black tree of any shape: `bits` says what is red wherever the rules leave a choice.
fn any_legal_tree(
    ranges: &[Range],
    black_height: u32,
    may_be_red: bool,
    bits: &mut u64,
    out: &mut Vec<SnapshotNode>,
) {
    if ranges.is_empty() {
        return;
    }
    *bits = bits.rotate_right(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let count = ranges.len();
    // So many nodes a subtree of this black height can have: all black, or red and black in turn.
    let fits = |count: usize, height: u32, red: bool| {
        let (least, most) = ((1_usize << height) - 1, (1_usize << (2 * height)) - 1);
        count >= least && count <= if red { 2 * most + 1 } else { most }
    };
    let options: Vec<(bool, usize)> = [true, false]
        .into_iter()
        .filter(|red| !red || may_be_red)
        .flat_map(|red| (0..count).map(move |top| (red, top)))
        .filter(|&(red, top)| {
            let below = if red { black_height } else { black_height.wrapping_sub(1) };
            below <= black_height && fits(top, below, !red) && fits(count - 1 - top, below, !red)
        })
        .collect();
    let (red, top) = options[usize::try_from(*bits >> 20).unwrap() % options.len()];
    out.push(SnapshotNode { range: ranges[top], black: !red });
    let below = if red { black_height } else { black_height - 1 };
    any_legal_tree(&ranges[..top], below, !red, bits, out);
    any_legal_tree(&ranges[top + 1..], below, !red, bits, out);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn trees_of_any_legal_shape_agree_before_and_after_changes(
        count in 1..80_u32,
        seed in any::<u64>(),
        tall in any::<bool>(),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let mut ranges = row(count, 10, 8);
        // A black height between the least and the most that so many nodes can have.
        let most = (u32::BITS - (count + 1).leading_zeros()) - 1;
        let least = (1..).find(|height| (1_u64 << (2 * height)) > u64::from(count)).unwrap();
        let height = if tall { most } else { least };
        let (mut walk, mut bits) = (Vec::new(), seed);
        any_legal_tree(&ranges, height, false, &mut bits, &mut walk);
        let mut slots = RbTree::from_snapshot(&walk).unwrap();
        let mut regions = IntervalTree::from_snapshot(&walk).unwrap();
        let mut oracle = Linear::build(&ranges).unwrap();
        agrees(&slots, &oracle, &ranges);
        agrees(&regions, &oracle, &ranges);
        for (index, number) in removed.into_iter().zip(0..) {
            if number % 3 == 2 {
                let start = 10 * u64::from(count) + 20 * number;
                let new = range(start, start + 5, 1000 + u32::try_from(number).unwrap());
                for result in [slots.insert(new), regions.insert(new), oracle.insert(new)] {
                    result.unwrap();
                }
                ranges.push(new);
            } else if !ranges.is_empty() {
                let gone = ranges.swap_remove(index.index(ranges.len()));
                prop_assert_eq!(slots.remove(gone.start), Some(gone));
                prop_assert_eq!(regions.remove(gone.start), Some(gone));
                oracle.remove(gone.start);
            }
            agrees(&slots, &oracle, &ranges);
            agrees(&regions, &oracle, &ranges);
        }
    }

    #[test]
    fn static_layouts_of_any_spread_agree(
        gaps in prop::collection::vec((0..3_u64, 0..40_u32, 0..3_u64, 0..36_u32), 0..70),
        first in prop_oneof![Just(0_u64), any::<u64>().prop_map(|first| first >> 1)],
        order in any::<u64>(),
    ) {
        let mut next = Some(first);
        let mut ranges = Vec::new();
        for ((gap, gap_power, size, power), key) in gaps.into_iter().zip(0..) {
            let start = next.and_then(|next| next.checked_add(gap << gap_power));
            let last = start.and_then(|start| start.checked_add(size << power));
            let (Some(start), Some(last)) = (start, last) else { break };
            ranges.push(range(start, last, key));
            next = last.checked_add(1);
        }
        let turn = usize::try_from(order % 71).unwrap() % ranges.len().max(1);
        ranges.rotate_left(turn);
        all_agree(&ranges);
    }
}
