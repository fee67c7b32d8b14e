//! The counters of each probe and each VM or vhost device, kept per CPU in the kernel.
//!
//! Each call that is seen at entry ends in exactly one of the counters below, so that an account closes:
//! `ENTRY` = `BEGUN` + `NESTED` + `START_FULL`; `BEGUN` = `FINISHED` + `RETURN_LOST` + `GONE` + calls in flight;
//! `FINISHED` = `EMITTED` + `RING_FULL` + `NOT_SAMPLED` + `FILTERED` + `CLOCK_BACK`.

/// The probed functions, in the order of their rows in the counter map.
pub mod probe {
    /// `kvm_mmu_page_fault`
    pub const PAGE_FAULT: u32 = 0;
    /// `pause_interception` or `handle_pause`
    pub const PLE: u32 = 1;
    /// `translate_desc`
    pub const TRANSLATE: u32 = 2;
    /// Layout records: slots, regions, VMs.
    pub const LAYOUT: u32 = 3;
    /// How many there are.
    pub const COUNT: u32 = 4;
}

/// VMs and vhost devices that are told apart in counters and histograms. A number is given once and
/// never again; what comes after the last goes under [`OTHERS`].
pub const SUBJECTS: u32 = 512;

/// The subject of calls whose VM or device is not known, or came after the last number was given.
pub const OTHERS: u32 = 0;

/// What is counted, in the order of the columns of a row.
pub mod count {
    /// Entries seen.
    pub const ENTRY: usize = 0;
    /// Of them: put on record, to be matched with their return.
    pub const BEGUN: usize = 1;
    /// Returns seen.
    pub const RETURN: usize = 2;
    /// Returns that were matched with their entry.
    pub const FINISHED: usize = 3;
    /// Records handed to the ring buffer.
    pub const EMITTED: usize = 4;
    /// The ring buffer was full; the event is lost.
    pub const RING_FULL: usize = 5;
    /// Not one of the sample: the mode asks for no event of this call.
    pub const NOT_SAMPLED: usize = 6;
    /// Left out, because a filter asked for others.
    pub const FILTERED: usize = 7;
    /// The histogram had no place for one more bucket; the call is in no histogram.
    pub const HISTOGRAM_FULL: usize = 8;
    /// A call was found on record whose return never came (a missed kretprobe).
    pub const RETURN_LOST: usize = 9;
    /// A return without a start: the call began before the probe was attached, or its entry was missed.
    pub const NO_START: usize = 10;
    /// No memory for the task's start record.
    pub const START_FULL: usize = 11;
    /// More calls of the function in one task at once than are kept on record.
    pub const NESTED: usize = 12;
    /// The clock at the return was before the clock at the entry.
    pub const CLOCK_BACK: usize = 13;
    /// The task ended with the call still on record.
    pub const GONE: usize = 14;
    /// The walk met memory that could not be read.
    pub const WALK_FAILED: usize = 15;
    /// The walk was longer than its bound.
    pub const WALK_TRUNCATED: usize = 16;
    /// Columns of a row.
    pub const COUNT: usize = 17;
}

/// Index of a row in the map.
#[must_use]
pub const fn row(probe: u32, subject: u32) -> u32 {
    subject * probe::COUNT + probe
}
