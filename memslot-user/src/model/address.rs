//! Guest addresses and frames.

use serde::{Deserialize, Serialize};

/// Bits of an address within a page (4 KiB).
pub const PAGE_SHIFT: u32 = 12;
/// Bytes of a page.
pub const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;

/// Guest frame number: a guest physical address in pages.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    schemars::JsonSchema,
    Deserialize,
)]
#[serde(transparent)]
pub struct Gfn(pub u64);

/// Guest physical address, bytes.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    schemars::JsonSchema,
    Deserialize,
)]
#[serde(transparent)]
pub struct Gpa(pub u64);

impl Gpa {
    /// The frame that holds the address.
    #[must_use]
    pub fn gfn(self) -> Gfn {
        Gfn(self.0 >> PAGE_SHIFT)
    }
}

impl Gfn {
    /// The frame's first address; wraps past 2^64 as the kernel's shift does.
    #[must_use]
    pub fn gpa(self) -> Gpa {
        Gpa(self.0 << PAGE_SHIFT)
    }
}
