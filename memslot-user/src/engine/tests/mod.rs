//! Every engine answers as `linear` does, and keeps its own rules, whatever the order of operations.

mod edges;

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn range(start: u64, last: u64, key: u32) -> Range {
    Range { start, last, key }
}

/// `count` ranges of `size` addresses, `step` apart, in ascending order.
fn row(count: u32, step: u64, size: u64) -> Vec<Range> {
    (0..count).map(|key| range(u64::from(key) * step, u64::from(key) * step + size - 1, key)).collect()
}

/// Deterministic shuffle.
fn shuffled(mut ranges: Vec<Range>) -> Vec<Range> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for place in (1..ranges.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ranges.swap(place, usize::try_from(state >> 33).unwrap() % (place + 1));
    }
    ranges
}

/// Addresses at which answers can change.
fn edges(ranges: &[Range]) -> impl Iterator<Item = u64> {
    ranges
        .iter()
        .flat_map(|range| [range.start.wrapping_sub(1), range.start, range.last, range.last.wrapping_add(1)])
        .chain([0, u64::MAX])
}

/// Validates `engine` and compares it with the oracle at every edge; visited must agree with both ways
/// of searching.
fn agrees<E: Engine>(engine: &E, oracle: &Linear, ranges: &[Range]) {
    engine.validate().unwrap();
    assert_eq!(engine.len(), oracle.len());
    for addr in edges(ranges) {
        let search = engine.find_counted(addr);
        let name = E::ID.name();
        assert_eq!(search.found, oracle.find(addr), "{name} at {addr:#x}");
        assert_eq!(search.found, engine.find(addr), "{name} at {addr:#x}");
        assert!(search.length.visited <= search.length.touched, "{name} at {addr:#x}: {search:?}");
        let most = u32::try_from(engine.len()).unwrap();
        assert!(search.length.touched <= most, "{name} at {addr:#x}: {search:?}");
        let lines = u32::try_from(engine.footprint().div_ceil(LINE)).unwrap() + 2;
        assert!(search.lines <= lines || E::ID == EngineId::Btreemap, "{name} at {addr:#x}: {search:?}");
        assert_eq!(search.lines == 0, search.length.touched == 0, "{name} at {addr:#x}: {search:?}");
    }
}

fn all_agree(ranges: &[Range]) {
    let oracle = Linear::build(ranges).unwrap();
    agrees(&oracle, &oracle, ranges);
    agrees(&LinearBySize::build(ranges).unwrap(), &oracle, ranges);
    agrees(&SortedArray::build(ranges).unwrap(), &oracle, ranges);
    agrees(&SortedArrayKernel::build(ranges).unwrap(), &oracle, ranges);
    agrees(&BTreeMapEngine::build(ranges).unwrap(), &oracle, ranges);
    agrees(&Eytzinger::build(ranges).unwrap(), &oracle, ranges);
    agrees(&WbTree::build(ranges).unwrap(), &oracle, ranges);
    agrees(&RbTree::build(ranges).unwrap(), &oracle, ranges);
    agrees(&IntervalTree::build(ranges).unwrap(), &oracle, ranges);
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u64, u64),
    Remove(prop::sample::Index),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    // A small space, so that ranges meet, touch and overlap; at either end of the addresses.
    let start = prop_oneof![0..120_u64, (u64::MAX - 60)..=u64::MAX];
    let insert =
        (start, 0..9_u64).prop_map(|(start, more)| Operation::Insert(start, start.saturating_add(more)));
    let one = prop_oneof![3 => insert, 1 => any::<prop::sample::Index>().prop_map(Operation::Remove)];
    prop::collection::vec(one, 0..80)
}

/// All engines side by side.
#[derive(Default)]
struct All {
    linear: Linear,
    by_size: LinearBySize,
    sorted: SortedArray,
    kernel: SortedArrayKernel,
    btreemap: BTreeMapEngine,
    wbtree: WbTree,
    rbtree: RbTree,
    interval: IntervalTree,
}

impl All {
    fn insert(&mut self, new: Range) -> bool {
        let expected = self.linear.insert(new);
        let ok = expected.is_ok();
        let refused = |result: Result<(), BuildError>| {
            assert_eq!(result.is_ok(), ok, "{new:?}");
            assert!(matches!(result, Ok(()) | Err(BuildError::Overlap(..))));
        };
        refused(self.by_size.insert(new));
        refused(self.sorted.insert(new));
        refused(self.kernel.insert(new));
        refused(self.btreemap.insert(new));
        refused(self.wbtree.insert(new));
        refused(self.rbtree.insert(new));
        if ok {
            self.interval.insert(new).unwrap();
        }
        ok
    }

    fn remove(&mut self, start: u64) {
        let expected = self.linear.remove(start);
        assert_eq!(self.by_size.remove(start), expected);
        assert_eq!(self.sorted.remove(start), expected);
        assert_eq!(self.kernel.remove(start), expected);
        assert_eq!(self.btreemap.remove(start), expected);
        assert_eq!(self.wbtree.remove(start), expected);
        assert_eq!(self.rbtree.remove(start), expected);
        assert_eq!(self.interval.remove(start), expected);
    }

    fn check(&self, ranges: &[Range]) {
        agrees(&self.linear, &self.linear, ranges);
        agrees(&self.by_size, &self.linear, ranges);
        agrees(&self.sorted, &self.linear, ranges);
        agrees(&self.kernel, &self.linear, ranges);
        agrees(&self.btreemap, &self.linear, ranges);
        // Built anew: it does not change.
        agrees(&Eytzinger::build(ranges).unwrap(), &self.linear, ranges);
        agrees(&self.wbtree, &self.linear, ranges);
        agrees(&self.rbtree, &self.linear, ranges);
        agrees(&self.interval, &self.linear, ranges);
    }
}

/// The Cartesian tree of ranges of distinct weights, in pre-order: the heaviest is the root.
fn cartesian(sorted: &[Range], out: &mut Vec<Range>) {
    if let Some((top, heaviest)) = sorted.iter().enumerate().max_by_key(|(_, range)| range.weight()) {
        out.push(*heaviest);
        cartesian(&sorted[..top], out);
        cartesian(&sorted[top + 1..], out);
    }
}

/// Hears what a search reads, and that it is told no node twice.
#[derive(Default)]
struct Heard(Vec<u32>);

impl Observer for Heard {
    fn visit(&mut self, key: u32) {
        self.touch(key);
    }
    fn touch(&mut self, key: u32) {
        assert!(!self.0.contains(&key), "node {key} is told twice");
        self.0.push(key);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn after_every_operation_all_engines_agree(operations in operations()) {
        let mut all = All::default();
        let mut held: BTreeMap<u64, Range> = BTreeMap::new();
        for (key, operation) in operations.into_iter().enumerate() {
            match operation {
                Operation::Insert(start, last) => {
                    let new = range(start, last, u32::try_from(key).unwrap());
                    if all.insert(new) {
                        held.insert(start, new);
                    }
                }
                Operation::Remove(index) if !held.is_empty() => {
                    let start = *held.keys().nth(index.index(held.len())).unwrap();
                    held.remove(&start);
                    all.remove(start);
                }
                Operation::Remove(_) => all.remove(7777),
            }
            let ranges: Vec<Range> = held.values().copied().collect();
            all.check(&ranges);
        }
    }

    #[test]
    fn a_wbtree_of_distinct_weights_has_one_shape(
        gaps in prop::collection::vec(0..5_u64, 1..60),
        order in any::<u64>(),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        // Sizes are a permutation of 1..=n: distinct.
        let count = gaps.len() as u64;
        let mut start = 0;
        let mut sorted = Vec::new();
        for (place, gap) in gaps.iter().enumerate() {
            let size = 1 + (place as u64 * (order % count * 2 + 1) + order) % count;
            let size = if sorted.iter().any(|held: &Range| held.weight() + 1 == size) { count + place as u64 + 1 } else { size };
            sorted.push(range(start, start + size - 1, u32::try_from(place).unwrap()));
            start += size + gap;
        }
        let mut tree = WbTree::build(&shuffled(sorted.clone())).unwrap();
        for index in removed {
            if sorted.len() > 1 {
                let gone = sorted.remove(index.index(sorted.len()));
                prop_assert_eq!(tree.remove(gone.start), Some(gone));
            }
        }
        tree.validate().unwrap();
        let mut expected = Vec::new();
        cartesian(&sorted, &mut expected);
        prop_assert_eq!(tree.pre_order(), expected);
    }

    #[test]
    fn an_interval_tree_finds_the_lowest_of_overlapping_ranges(
        ranges in prop::collection::vec((0..60_u64, 0..20_u64), 0..40),
        removed in prop::collection::vec((0..80_u64, 0..20_u64), 0..10),
        queries in prop::collection::vec((0..90_u64, 0..30_u64), 1..40),
    ) {
        let ranges: Vec<Range> = ranges.iter().zip(0..)
            .map(|(&(start, more), key)| range(start, start + more, key)).collect();
        let mut tree = IntervalTree::build(&ranges).unwrap();
        let mut sorted = ranges;
        sorted.sort_by_key(|range| range.start);
        for (start, more) in removed {
            let wanted = range(start, start + more, 0);
            let place = sorted.iter().position(|held| held.overlaps(&wanted));
            let gone = place.map(|place| sorted.remove(place));
            prop_assert_eq!(tree.remove_first(start, start + more), gone);
            tree.validate().unwrap();
        }
        for (start, more) in queries {
            let wanted = range(start, start + more, 0);
            let expected = sorted.iter().find(|held| held.overlaps(&wanted)).copied();
            let mut heard = Heard::default();
            prop_assert_eq!(tree.first(start, start + more, &mut heard), expected);
            let mut length = SearchLength::default();
            tree.first(start, start + more, &mut length);
            prop_assert_eq!(length.touched as usize, heard.0.len());
        }
    }

    #[test]
    fn a_snapshot_gives_the_same_tree(operations in operations()) {
        let (mut slots, mut regions) = (RbTree::default(), IntervalTree::default());
        let mut starts = Vec::new();
        for (key, operation) in operations.into_iter().enumerate() {
            match operation {
                Operation::Insert(start, last) => {
                    let new = range(start, last, u32::try_from(key).unwrap());
                    if slots.insert(new).is_ok() {
                        regions.insert(new).unwrap();
                        starts.push(start);
                    }
                }
                Operation::Remove(index) if !starts.is_empty() => {
                    let start = starts.swap_remove(index.index(starts.len()));
                    slots.remove(start);
                    regions.remove(start);
                }
                Operation::Remove(_) => {}
            }
        }
        // The two have the same shape, and each comes back from its own walk.
        prop_assert_eq!(slots.pre_order(), regions.pre_order());
        let again = RbTree::from_snapshot(&slots.pre_order()).unwrap();
        prop_assert_eq!(again.pre_order(), slots.pre_order());
        let again = IntervalTree::from_snapshot(&regions.pre_order()).unwrap();
        prop_assert_eq!(again.pre_order(), regions.pre_order());
        for addr in 0..130 {
            // The nodes lie elsewhere in memory, so not the lines.
            let (again, before) = (again.find_counted(addr), regions.find_counted(addr));
            prop_assert_eq!((again.found, again.length), (before.found, before.length));
        }
    }
}

#[test]
fn the_edges_of_the_addresses_are_held() {
    all_agree(&[]);
    all_agree(&[range(0, 0, 0)]);
    all_agree(&[range(u64::MAX, u64::MAX, 0)]);
    all_agree(&[range(0, u64::MAX, 0)]);
    all_agree(&[range(0, 0, 0), range(1, 1, 1), range(2, u64::MAX, 2)]);
    all_agree(&[range(0, u64::MAX - 1, 5), range(u64::MAX, u64::MAX, 6)]);
}

#[test]
fn as_many_slots_as_kvm_allows_are_held() {
    let ranges = shuffled(row(32_764, 4, 3));
    // The oracle takes 32,764 steps an address: a few of them.
    let oracle = Linear::build(&ranges).unwrap();
    let few: Vec<Range> = ranges.iter().step_by(1000).copied().collect();
    agrees(&LinearBySize::build(&ranges).unwrap(), &oracle, &few);
    agrees(&SortedArray::build(&ranges).unwrap(), &oracle, &few);
    agrees(&RbTree::build(&ranges).unwrap(), &oracle, &few);
    agrees(&IntervalTree::build(&ranges).unwrap(), &oracle, &few);
    agrees(&WbTree::build(&ranges).unwrap(), &oracle, &few);
    let tree = RbTree::build(&ranges).unwrap();
    let deepest = ranges.iter().map(|range| tree.find_counted(range.start).length.visited).max().unwrap();
    assert!(deepest <= 30, "{deepest}");
}

#[test]
fn what_the_kernel_refuses_is_refused() {
    let overlapping = [range(0, 9, 0), range(20, 29, 1), range(9, 12, 2)];
    let error = BuildError::Overlap(overlapping[2], overlapping[0]);
    assert_eq!(Linear::build(&overlapping).unwrap_err(), error);
    assert_eq!(LinearBySize::build(&overlapping).unwrap_err(), error);
    assert_eq!(SortedArray::build(&overlapping).unwrap_err(), error);
    assert_eq!(WbTree::build(&overlapping).unwrap_err(), error);
    assert_eq!(RbTree::build(&overlapping).unwrap_err(), error);
    assert_eq!(error.to_string(), "the range 0x9..=0xc overlaps 0x0..=0x9");
    let backwards = [range(5, 4, 0)];
    assert_eq!(IntervalTree::build(&backwards).unwrap_err(), BuildError::Backwards(backwards[0]));
    assert_eq!(Linear::build(&backwards).unwrap_err(), BuildError::Backwards(backwards[0]));
}

/// Pre-order as text, a lower-case r behind red ones.
fn shape(walk: &[SnapshotNode]) -> String {
    let node = |node: &SnapshotNode| format!("{}{}", node.range.start, if node.black { "" } else { "r" });
    walk.iter().map(node).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_rbtree_has_the_textbooks_shapes() {
    // Ascending insertion: two levels of recolouring and two rotations at the root.
    let mut tree = RbTree::build(&row(8, 1, 1)).unwrap();
    assert_eq!(shape(&tree.pre_order()), "3 1r 0 2 5r 4 6 7r");
    // The root has two children and gives way to its successor 4; its place lacks a black node, whose
    // sibling 6 lends its red child.
    tree.remove(3);
    assert_eq!(shape(&tree.pre_order()), "4 1r 0 2 6r 5 7");
    // A leaf goes whose sibling has no red child: recolour.
    tree.remove(0);
    assert_eq!(shape(&tree.pre_order()), "4 1 2r 6r 5 7");
    // A node with one child gives way to it.
    tree.remove(1);
    assert_eq!(shape(&tree.pre_order()), "4 2 6r 5 7");
    // A red sibling: rotate, then recolour.
    tree.remove(2);
    assert_eq!(shape(&tree.pre_order()), "6 4 5r 7");
    // An inner red nephew: two rotations.
    tree.remove(7);
    assert_eq!(shape(&tree.pre_order()), "5 4 6");
    tree.validate().unwrap();
}

#[test]
fn an_interval_search_counts_what_the_kernel_reads() {
    //        3
    //      /   \
    //     1     5      each 10 addresses from 100 times its number
    //    / \   / \
    //   0   2 4   6 - 7
    let ranges: Vec<Range> =
        (0..8).map(|key| range(u64::from(key) * 100, u64::from(key) * 100 + 9, key)).collect();
    let tree = IntervalTree::build(&ranges).unwrap();
    let count = |start, last| {
        let mut length = SearchLength::default();
        let found = tree.first(start, last, &mut length).map(|range| range.key);
        (found, length.visited, length.touched)
    };
    // Down the left side: 3, 1, 0; 0 is the leftmost.
    assert_eq!(count(5, 5), (Some(0), 3, 3));
    // 3 rejects 1 (read), goes to 5, whose left child 4 is rejected; hit; the leftmost 0 was read first.
    assert_eq!(count(505, 505), (Some(5), 2, 5));
    // At 3 the left child 1 is rejected, hit at 3; leftmost 0.
    assert_eq!(count(300, 300), (Some(3), 1, 3));
    // Past every end: only the root is read.
    assert_eq!(count(800, 900), (None, 0, 1));
    // A gap: 3 (1 rejected), 5, 4; 4 starts past the end of the search.
    assert_eq!(count(350, 360), (None, 3, 5));
    // The same gap with a longer search: 4 is found.
    assert_eq!(count(350, 400), (Some(4), 3, 5));
    // A gap at the right of a subtree: 3, 1, 2; the way ends at 2, and 0, rejected, is the leftmost.
    assert_eq!(count(110, 150), (None, 3, 4));
    // 7 hangs right of 6: 3, 5, 6, 7, rejected 1 and 4, leftmost 0.
    assert_eq!(count(700, 700), (Some(7), 4, 7));

    let later = IntervalTree::build(&ranges[1..]).unwrap();
    let mut length = SearchLength::default();
    assert_eq!(later.first(0, 50, &mut length), None);
    assert_eq!((length.visited, length.touched), (0, 2), "root and leftmost");
    let mut length = SearchLength::default();
    assert_eq!(IntervalTree::build(&ranges[1..2]).unwrap().first(0, 50, &mut length), None);
    assert_eq!((length.visited, length.touched), (0, 1), "the root is the leftmost");
}

#[test]
fn equal_dimms_in_order_degenerate_the_wbtree_and_shuffled_do_not() {
    let equal = row(256, 10, 10);
    assert_eq!(WbTree::build(&equal).unwrap().depth(), 256);
    let depth = WbTree::build(&shuffled(equal)).unwrap().depth();
    assert!((9..40).contains(&depth), "{depth}");
}

#[test]
fn a_halving_does_not_stop_at_a_hit() {
    fn lengths<E: Engine>() -> Vec<u32> {
        let engine = E::build(&row(509, 10, 10)).unwrap();
        let lengths: std::collections::BTreeSet<u32> =
            (0..5200).map(|addr| engine.find_counted(addr).length.visited).collect();
        lengths.into_iter().collect()
    }
    // The tenth is the first range, which nothing else compares.
    assert_eq!(lengths::<SortedArray>(), [9, 10]);
    assert_eq!(lengths::<SortedArrayKernel>(), [8, 9]);
    // Past the last range the way leads over unused places.
    assert_eq!(lengths::<Eytzinger>(), [7, 9, 10]);
}

#[test]
fn a_linear_search_counts_up_to_the_hit() {
    let ranges = [range(50, 59, 0), range(0, 29, 1), range(30, 49, 2)];
    let (linear, by_size) = (Linear::build(&ranges).unwrap(), LinearBySize::build(&ranges).unwrap());
    let visited =
        |addr| (linear.find_counted(addr).length.visited, by_size.find_counted(addr).length.visited);
    assert_eq!(visited(55), (1, 3));
    assert_eq!(visited(5), (2, 1));
    assert_eq!(visited(60), (3, 3));
}

#[test]
fn a_walk_that_is_no_red_black_tree_is_refused() {
    let node = |start, black| SnapshotNode { range: range(start, start, 0), black };
    let refused = |walk: &[SnapshotNode]| RbTree::from_snapshot(walk).unwrap_err().to_string();
    assert_eq!(RbTree::from_snapshot(&[]).unwrap().len(), 0);
    assert_eq!(refused(&[node(1, false)]), "rbtree: the root is red");
    assert!(refused(&[node(1, true), node(0, true)]).contains("black nodes left of"));
    assert!(refused(&[node(2, true), node(1, false), node(0, false)]).contains("and its parent are red"));
    // Slots cannot start at the same frame.
    assert!(refused(&[node(1, true), node(1, false)]).contains("stands before"));
    let deep: Vec<SnapshotNode> = (0..100).map(|start| node(start, true)).collect();
    assert!(refused(&deep).contains("deeper than"));
}

#[test]
fn the_last_used_slot_answers_first_and_is_counted_as_the_kernel_does() {
    let ranges = row(7, 10, 10);
    let tree = LastUsed::<RbTree>::build(&ranges).unwrap();
    let count = |addr| {
        let search = tree.find_counted(addr);
        (search.found, search.length.visited, search.length.touched)
    };
    // The root of seven ascending ones is 1: 1, 3, 5, 6.
    assert_eq!(shape(&tree.engine().pre_order()), "10 0 30r 20 50 40r 60r");
    assert_eq!(count(65), (Some(6), 4, 4));
    assert_eq!(tree.last_used().map(|range| range.key), Some(6));
    assert_eq!(count(60), (Some(6), 0, 1));
    // 6 was asked in vain and is not on the way.
    assert_eq!(count(15), (Some(1), 1, 2));
    // 1 is asked in vain, and is the root of the search.
    assert_eq!(count(25), (Some(2), 3, 3));
    // A search in vain leaves it.
    assert_eq!(count(1000), (None, 4, 5));
    assert_eq!(tree.last_used().map(|range| range.key), Some(2));
    tree.invalidate();
    assert_eq!(count(25), (Some(2), 3, 3));
    assert_eq!(tree.find(u64::MAX), None);
    tree.validate().unwrap();
}

#[test]
fn a_footprint_covers_the_ranges() {
    let ranges = row(100, 10, 10);
    let bytes = size_of::<Range>() * 100;
    assert!(Linear::build(&ranges).unwrap().footprint() >= bytes);
    assert!(SortedArray::build(&ranges).unwrap().footprint() >= bytes);
    assert!(WbTree::build(&ranges).unwrap().footprint() > bytes);
    assert!(RbTree::build(&ranges).unwrap().footprint() > bytes);
    assert!(BTreeMapEngine::build(&ranges).unwrap().footprint() > bytes);
    // A 32-bit key each, in a full tree.
    assert_eq!(Eytzinger::build(&ranges).unwrap().footprint(), bytes + 128 * 4);
    assert_eq!(Linear::build(&[]).unwrap().footprint(), 0);
}

#[test]
fn names_are_read_back() {
    for id in EngineId::ALL {
        assert_eq!(id.name().parse(), Ok(id));
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{}\"", id.name()));
    }
    assert!("btree".parse::<EngineId>().unwrap_err().contains("choose from linear, "));
}
