//! The shape of a tree: as text, as Graphviz dot, and in figures.

use super::{BuildError, Engine, EngineId, IntervalTree, Range, RbTree, WbTree};
use serde::Serialize;
use std::fmt::Write;

/// A node of a tree that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ShapeNode {
    /// First address, in the unit of the ranges.
    pub start: u64,
    /// Last address, inclusive.
    pub last: u64,
    /// The range's key.
    pub key: u32,
    /// Nodes from the root to this one, both counted: what a search for it visits.
    pub depth: u32,
    /// The parent's place in the pre-order; none for the root.
    pub parent: Option<usize>,
    /// Does it hang at the parent's right?
    pub right: bool,
    /// Its colour in a red-black tree.
    pub black: Option<bool>,
}

impl ShapeNode {
    fn range(&self) -> Range {
        Range { start: self.start, last: self.last, key: self.key }
    }
}

/// A tree's nodes in pre-order.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TreeShape {
    /// Which tree.
    pub engine: EngineId,
    /// Nodes on the longest way down.
    pub depth: u32,
    /// Nodes that a search for an address visits, on average over all addresses that are held.
    pub visited_by_address: f64,
    /// The same on average over the ranges.
    pub visited_by_range: f64,
    /// Nodes that a search in vain visits, on average over the places between and beside the ranges.
    pub visited_by_miss: f64,
    /// The nodes.
    pub nodes: Vec<ShapeNode>,
}

/// Why there is no shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// The engine is no tree of nodes.
    #[error("{} is no tree that could be shown; choose wbtree, rbtree or interval_tree", .0.name())]
    NoTree(EngineId),
    /// The ranges cannot be held.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl TreeShape {
    /// The tree that an engine makes of `ranges`, inserted in this order.
    ///
    /// # Errors
    /// The engine is no tree, or refuses the ranges.
    pub fn new(engine: EngineId, ranges: &[Range]) -> Result<Self, ShapeError> {
        let walk: Vec<(Range, Option<bool>)> = match engine {
            EngineId::Wbtree => {
                WbTree::build(ranges)?.pre_order().into_iter().map(|range| (range, None)).collect()
            }
            EngineId::Rbtree => coloured(&RbTree::build(ranges)?.pre_order()),
            EngineId::IntervalTree => coloured(&IntervalTree::build(ranges)?.pre_order()),
            other => return Err(ShapeError::NoTree(other)),
        };
        Ok(Self::from_walk(engine, &walk))
    }

    /// In a search tree the pre-order alone says where each node hangs.
    #[expect(clippy::cast_precision_loss, reason = "averages for people")]
    fn from_walk(engine: EngineId, walk: &[(Range, Option<bool>)]) -> Self {
        let mut nodes: Vec<ShapeNode> = Vec::with_capacity(walk.len());
        // Ancestors whose right side is still open, from the root down.
        let mut open: Vec<usize> = Vec::new();
        let mut children = vec![0_u32; walk.len()];
        for (place, &(range, black)) in walk.iter().enumerate() {
            let (mut parent, mut right) = (open.last().copied(), false);
            while let Some(above) = open.last().copied().filter(|above| nodes[*above].start <= range.start) {
                (parent, right) = (Some(above), true);
                open.pop();
            }
            let depth = parent.map_or(1, |parent| nodes[parent].depth + 1);
            if let Some(parent) = parent {
                children[parent] += 1;
            }
            let Range { start, last, key } = range;
            nodes.push(ShapeNode { start, last, key, depth, parent, right, black });
            open.push(place);
        }
        let mean = |sum: f64, count: f64| if count > 0.0 { sum / count } else { 0.0 };
        let weight = |node: &ShapeNode| node.range().weight() as f64 + 1.0;
        let depth = |node: &ShapeNode| f64::from(node.depth);
        let count = nodes.len() as f64;
        // A search in vain ends where a child is missing.
        let ends = nodes.iter().zip(&children).map(|(node, children)| f64::from(2 - children) * depth(node));
        Self {
            engine,
            depth: nodes.iter().map(|node| node.depth).max().unwrap_or(0),
            visited_by_address: mean(
                nodes.iter().map(|node| weight(node) * depth(node)).sum(),
                nodes.iter().map(weight).sum(),
            ),
            visited_by_range: mean(nodes.iter().map(depth).sum(), count),
            visited_by_miss: mean(ends.sum(), count + 1.0),
            nodes,
        }
    }

    /// Is the longest way down longer than half of a tree that is no small one? The `wbtree`'s bad case.
    fn is_a_list(&self) -> bool {
        self.nodes.len() >= 16 && self.depth as usize * 2 > self.nodes.len()
    }

    /// The tree of ranges of bytes as text: a line a node, in pre-order, indented by depth.
    #[must_use]
    pub fn text(&self, name: &dyn Fn(u32) -> String) -> String {
        /// Levels that are indented; deeper nodes stand below each other.
        const INDENTED: u32 = 24;
        let mut out = format!(
            "{}: {} ranges, {} deep. Nodes visited on average: {:.2} for an address that is held, {:.2} for a range, \
             {:.2} in vain\n",
            self.engine.name(),
            self.nodes.len(),
            self.depth,
            self.visited_by_address,
            self.visited_by_range,
            self.visited_by_miss,
        );
        if self.is_a_list() {
            out += "This is nearly a list: most ranges hang one below the other, as equal sizes do that were \
                    inserted in ascending order.\n";
        }
        out += "\n depth\n";
        for node in &self.nodes {
            let indent = "  ".repeat((node.depth - 1).min(INDENTED) as usize);
            let side = match (node.parent, node.right) {
                (None, _) => "",
                (_, false) => "L ",
                (_, true) => "R ",
            };
            let colour = match node.black {
                None => "",
                Some(true) => ", black",
                Some(false) => ", red",
            };
            let (start, last) = (node.start, node.last);
            let _ = writeln!(
                out,
                "{:6}  {indent}{side}{start:#x}..={last:#x}, {}{colour}, {}",
                node.depth,
                bytes(node.range().weight()),
                name(node.key),
            );
        }
        out
    }

    /// The tree of ranges of bytes for Graphviz: `dot -Tsvg`.
    #[must_use]
    pub fn dot(&self, name: &dyn Fn(u32) -> String) -> String {
        let mut out = format!("digraph {} {{\n  node [shape=box fontname=monospace]\n", self.engine.name());
        for (place, node) in self.nodes.iter().enumerate() {
            let look = match node.black {
                None => "",
                Some(true) => " style=filled fillcolor=black fontcolor=white",
                Some(false) => " color=red",
            };
            let (start, last) = (node.start, node.last);
            let _ = writeln!(
                out,
                "  n{place} [label=\"{start:#x}..={last:#x}\\n{}\\n{}, depth {}\"{look}]",
                bytes(node.range().weight()),
                name(node.key),
                node.depth,
            );
            if let Some(parent) = node.parent {
                let side = if node.right { "R" } else { "L" };
                let _ = writeln!(out, "  n{parent} -> n{place} [label={side}]");
            }
        }
        out + "}\n"
    }
}

fn coloured(walk: &[super::SnapshotNode]) -> Vec<(Range, Option<bool>)> {
    walk.iter().map(|node| (node.range, Some(node.black))).collect()
}

/// A weight (bytes less one) in words, without a loss.
fn bytes(weight: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let Some(bytes) = weight.checked_add(1) else { return "2^64 B".to_owned() };
    let unit = (bytes.trailing_zeros() / 10).min(3);
    format!("{} {}", bytes >> (10 * unit), UNITS[unit as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges() -> Vec<Range> {
        [(0, 9), (10, 99), (100, 104), (200, 200)]
            .into_iter()
            .zip(0..)
            .map(|((start, last), key)| Range { start, last, key })
            .collect()
    }

    #[test]
    fn a_wbtree_is_shown_by_weight() {
        let shape = TreeShape::new(EngineId::Wbtree, &ranges()).unwrap();
        let name = |key: u32| format!("slot {key}");
        assert_eq!(
            shape.text(&name),
            "wbtree: 4 ranges, 3 deep. Nodes visited on average: 1.16 for an address that is held, 2.00 for a range, \
             2.40 in vain\n\n depth\n     \
             1  0xa..=0x63, 90 B, slot 1\n     \
             2    L 0x0..=0x9, 10 B, slot 0\n     \
             2    R 0x64..=0x68, 5 B, slot 2\n     \
             3      R 0xc8..=0xc8, 1 B, slot 3\n"
        );
        let dot = shape.dot(&name);
        assert!(dot.starts_with("digraph wbtree {\n") && dot.ends_with("}\n"), "{dot}");
        assert!(dot.contains("n0 [label=\"0xa..=0x63\\n90 B\\nslot 1, depth 1\"]"), "{dot}");
        assert_eq!(dot.matches(" -> ").count(), 3);
    }

    #[test]
    fn the_bad_case_is_told() {
        let told = |size: fn(u64) -> u64| {
            let ranges: Vec<Range> = (0..16_u32)
                .map(|key| (u64::from(key) * 100, key))
                .map(|(start, key)| Range { start, last: start + size(start), key })
                .collect();
            let shape = TreeShape::new(EngineId::Wbtree, &ranges).unwrap();
            shape.text(&|key| key.to_string()).contains("\nThis is nearly a list: ")
        };
        assert!(told(|_| 9));
        assert!(!told(|start| start * 7 % 90));
    }

    #[test]
    fn weights_are_told_without_a_loss() {
        let told = [0, 4095, 0xa_0000 - 1, (3 << 30) - 1, 4096, (1 << 50) - 1, u64::MAX].map(bytes);
        assert_eq!(told, ["1 B", "4 KiB", "640 KiB", "3 GiB", "4097 B", "1048576 GiB", "2^64 B"]);
    }

    #[test]
    fn averages_are_what_the_engine_counts() {
        for engine in [EngineId::Wbtree, EngineId::Rbtree] {
            let shape = TreeShape::new(engine, &ranges()).unwrap();
            let visited = |addr| match engine {
                EngineId::Wbtree => WbTree::build(&ranges()).unwrap().find_counted(addr),
                _ => RbTree::build(&ranges()).unwrap().find_counted(addr),
            };
            let held: Vec<u64> = (0..=104).chain([200]).collect();
            let sum: u32 = held.iter().map(|addr| visited(*addr).length.visited).sum();
            let mean = f64::from(sum) / f64::from(u32::try_from(held.len()).unwrap());
            assert!((mean - shape.visited_by_address).abs() < 1e-9, "{engine:?} {mean}");
            for node in &shape.nodes {
                assert_eq!(visited(node.start).length.visited, node.depth);
            }
        }
    }

    #[test]
    fn red_black_trees_show_their_colours_and_arrays_are_none() {
        let shape = TreeShape::new(EngineId::IntervalTree, &ranges()).unwrap();
        assert!(shape.text(&|key| key.to_string()).contains(", red, "));
        assert!(shape.dot(&|key| key.to_string()).contains("fillcolor=black"));
        let error = TreeShape::new(EngineId::Eytzinger, &ranges()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "eytzinger is no tree that could be shown; choose wbtree, rbtree or interval_tree"
        );
        assert_eq!(TreeShape::new(EngineId::Rbtree, &[]).unwrap().depth, 0);
    }
}
