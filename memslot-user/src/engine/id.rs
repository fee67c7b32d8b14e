//! The engines by name.

use serde::{Deserialize, Serialize};

/// The engines by name.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, schemars::JsonSchema, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum EngineId {
    /// [`Linear`](super::Linear)
    Linear,
    /// [`LinearBySize`](super::LinearBySize)
    LinearBySize,
    /// [`SortedArray`](super::SortedArray)
    SortedArray,
    /// [`SortedArrayKernel`](super::SortedArrayKernel)
    SortedArrayKernel,
    /// [`WbTree`](super::WbTree)
    Wbtree,
    /// [`RbTree`](super::RbTree)
    Rbtree,
    /// [`IntervalTree`](super::IntervalTree)
    IntervalTree,
    /// [`BTreeMapEngine`](super::BTreeMapEngine)
    Btreemap,
    /// [`Eytzinger`](super::Eytzinger)
    Eytzinger,
}

impl EngineId {
    /// All of them, in the order of every table.
    pub const ALL: [Self; 9] = [
        Self::Linear,
        Self::LinearBySize,
        Self::SortedArray,
        Self::SortedArrayKernel,
        Self::Wbtree,
        Self::Rbtree,
        Self::IntervalTree,
        Self::Btreemap,
        Self::Eytzinger,
    ];

    /// The name in JSON, tables and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::LinearBySize => "linear_by_size",
            Self::SortedArray => "sorted_array",
            Self::SortedArrayKernel => "sorted_array_kernel",
            Self::Wbtree => "wbtree",
            Self::Rbtree => "rbtree",
            Self::IntervalTree => "interval_tree",
            Self::Btreemap => "btreemap",
            Self::Eytzinger => "eytzinger",
        }
    }

    /// What it is, and who has or had it, in one line.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Self::Linear => "an array in the order of creation, searched from the front; the oracle",
            Self::LinearBySize => "an array with the largest first: the \"reorder\" of 2011, KVM up to 3.19",
            Self::SortedArray => "an ascending array, halved without branches",
            Self::SortedArrayKernel => {
                "a descending array, halved to the end: KVM 3.20 to 5.16, vhost in 2015"
            }
            Self::Wbtree => "the weight-balanced tree proposed in 2011: the largest on top",
            Self::Rbtree => "KVM's red-black tree since 5.17, node by node",
            Self::IntervalTree => "vhost's augmented red-black tree, node by node; ranges may overlap",
            Self::Btreemap => "the standard library's B-tree, as a yardstick",
            Self::Eytzinger => "our own: 32-bit starts in Eytzinger order, without branches",
        }
    }
}

impl std::str::FromStr for EngineId {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|id| id.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no engine {name}; choose from {names}")
        })
    }
}
