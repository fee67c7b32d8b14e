//! Why an event cannot be joined with a layout.

/// Why an event cannot be joined with a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unjoined {
    /// The VM or table is older than the recording, and no snapshot tells what it held.
    NoLayout,
    /// The event came before the snapshot.
    BeforeSnapshot,
    /// A slot set was being exchanged, and the fault does not agree with the new one.
    Ambiguous,
    /// Changes contradict each other: some were lost.
    ChangesLost,
    /// The snapshot is none of a red-black tree: it was taken while the tree changed.
    BadSnapshot,
    /// The fault found another slot, or the call another result, than the layout gives.
    Disagrees,
    /// Regions overlap, so that engines may differ without fault.
    Overlap,
    /// The call ended because its iovec was full; how many searches it made is unknown.
    IovecFull,
    /// The address is no guest physical address of this VM.
    Shadow,
}

impl Unjoined {
    /// The reason in tables and JSON.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::NoLayout => "no layout",
            Self::BeforeSnapshot => "before the layout was known",
            Self::Ambiguous => "ambiguous generation",
            Self::ChangesLost => "layout changes lost",
            Self::BadSnapshot => "unusable snapshot",
            Self::Disagrees => "layout disagrees with the event",
            Self::Overlap => "overlapping regions",
            Self::IovecFull => "ended by a full iovec",
            Self::Shadow => "shadow or nested paging",
        }
    }
}
