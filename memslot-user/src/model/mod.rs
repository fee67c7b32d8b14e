//! The terms of the field: addresses, slots, regions, layouts and events.

mod address;
mod event;
mod histogram;
mod layout;

pub use address::{Gfn, Gpa, PAGE_SHIFT, PAGE_SIZE};
pub use event::{Class, DeviceId, Fault, PleExit, Probe, SearchLength, TableId, Translation, VmId};
pub use histogram::{AccountRow, Bucket, CallKind, HistogramClock};
pub use layout::{Memslot, Region, RegionChange, RegionChangeKind, SlotChange, SlotChangeKind};
