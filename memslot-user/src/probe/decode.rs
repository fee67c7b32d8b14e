//! Bytes of the ring buffer to records, strictly: nothing is guessed.

use memslot_common::event::{Fault, PleExit, RegionChange, SlotChange, Table, Translation, Vm, kind};
use thiserror::Error;

/// One record as the kernel wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// `kvm_mmu_page_fault`
    Fault(Fault),
    /// A PLE exit
    PleExit(PleExit),
    /// `translate_desc`
    Translation(Translation),
    /// A VM came, was met or went.
    Vm(Vm),
    /// A slot changed.
    SlotChange(SlotChange),
    /// A table of regions was met.
    Table(Table),
    /// A region changed.
    RegionChange(RegionChange),
}

/// Bytes that are no record of ours: the probes and this program are of different versions.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "the ring buffer held a record of kind {kind:?} and {length} bytes, which this version does not know"
)]
pub struct DecodeError {
    /// Its first word, if it has one.
    pub kind: Option<u32>,
    /// Its length.
    pub length: usize,
}

/// Reads one record.
///
/// # Errors
/// When its kind is unknown, or its length is not exactly that of its kind.
pub fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
    let kind = bytes.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk));
    let record = match kind {
        Some(kind::FAULT) => Fault::from_bytes(bytes).map(Record::Fault),
        Some(kind::PLE_EXIT) => PleExit::from_bytes(bytes).map(Record::PleExit),
        Some(kind::TRANSLATION) => Translation::from_bytes(bytes).map(Record::Translation),
        Some(kind::VM_CREATED | kind::VM_SEEN | kind::VM_GONE) => Vm::from_bytes(bytes).map(Record::Vm),
        Some(kind::SLOT_CHANGE) => SlotChange::from_bytes(bytes).map(Record::SlotChange),
        Some(kind::TABLE_SEEN) => Table::from_bytes(bytes).map(Record::Table),
        Some(kind::REGION_CHANGE) => RegionChange::from_bytes(bytes).map(Record::RegionChange),
        _ => None,
    };
    record.ok_or(DecodeError { kind, length: bytes.len() })
}

#[cfg(test)]
mod tests {
    use super::{Record, decode};
    use memslot_common::event::{Fault, Vm, kind};

    #[test]
    fn each_length_but_the_right_one_and_each_unknown_kind_is_refused() {
        let fault = Fault { kind: kind::FAULT, vcpu: 3, ..Fault::ZERO };
        let bytes = fault.to_bytes();
        assert_eq!(decode(&bytes), Ok(Record::Fault(fault)));
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]).unwrap_err().length, length);
        }
        let unknown = Vm { kind: 99, ..Vm::ZERO };
        assert_eq!(decode(&unknown.to_bytes()).unwrap_err().kind, Some(99));
    }
}
