//! The counters of each probe, kept per CPU in the kernel.

/// The probed functions, in the order of their rows in the counter map.
pub mod probe {
    /// `kvm_mmu_page_fault`
    pub const PAGE_FAULT: u32 = 0;
    /// `pause_interception` or `handle_pause`
    pub const PLE: u32 = 1;
    /// `kvm_vcpu_on_spin`
    pub const ON_SPIN: u32 = 2;
    /// `yield_to`
    pub const YIELD: u32 = 3;
    /// `translate_desc`
    pub const TRANSLATE: u32 = 4;
    /// Layout records: slots, regions, VMs.
    pub const LAYOUT: u32 = 5;
    /// How many there are.
    pub const COUNT: u32 = 6;
}

/// What is counted for each probe, in the order of the columns of the counter map.
pub mod count {
    /// Entries seen.
    pub const ENTRY: u32 = 0;
    /// Returns seen.
    pub const RETURN: u32 = 1;
    /// Records handed to the ring buffer.
    pub const EMITTED: u32 = 2;
    /// The ring buffer was full; the event is lost.
    pub const RING_FULL: u32 = 3;
    /// A start was found whose return never came (a missed kretprobe).
    pub const RETURN_LOST: u32 = 4;
    /// A return without a start: the call began before the probe was attached, or its entry was missed.
    pub const NO_START: u32 = 5;
    /// No memory for the task's start record.
    pub const START_FULL: u32 = 6;
    /// The clock at the return was before the clock at the entry.
    pub const CLOCK_BACK: u32 = 7;
    /// The walk met memory that could not be read.
    pub const WALK_FAILED: u32 = 8;
    /// The walk was longer than its bound.
    pub const WALK_TRUNCATED: u32 = 9;
    /// Columns of a row (a power of two, so that the index needs no multiplication).
    pub const COUNT: u32 = 16;
}

/// Index of a counter in the map.
#[must_use]
pub const fn index(probe: u32, count: u32) -> u32 {
    probe * count::COUNT + count
}
