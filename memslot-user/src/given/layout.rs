//! A layout: what is looked up, in the order of registration.

use super::Error;
use super::mtree;
use super::rows::{Row, rows};
use crate::engine::Range;
use crate::layouts::Generator;
use crate::model::PAGE_SHIFT;
use std::collections::BTreeMap;

/// Ranges and what else is known of the address space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The slots or regions, bytes, in the order of registration; keys count from 0.
    pub ranges: Vec<Range>,
    /// What the file calls each range, in the order of registration; none where it names no ids.
    pub ids: Vec<Option<u64>>,
    /// Where devices answer, bytes; an address there is MMIO, any other without a range is a miss.
    pub mmio: Vec<Range>,
}

impl Layout {
    /// What people call the range of this key.
    #[must_use]
    pub fn name(&self, key: u32) -> String {
        match self.ids.get(key as usize) {
            Some(Some(id)) => format!("slot {id}"),
            _ => format!("number {key}"),
        }
    }
}

/// A range as it was read.
pub(super) struct Read {
    pub(super) line: usize,
    pub(super) id: Option<u64>,
    pub(super) start: u64,
    pub(super) last: u64,
    pub(super) is_mmio: bool,
}

const COLUMNS: [&str; 7] = ["id", "base_gfn", "npages", "start", "size", "last", "kind"];

/// Reads a layout: JSON or CSV with id, base_gfn and npages (pages) or start and size or last (bytes), or
/// the text of QEMU's `info mtree -f`.
///
/// # Errors
/// The first line that makes no layout: no size, past 2^64, a second use of an id, an overlap.
pub fn layout(text: &str) -> Result<Layout, Error> {
    let read = if mtree::is_mtree(text) {
        mtree::parse(text)?
    } else {
        rows(text, "slots", &COLUMNS)?.iter().map(range).collect::<Result<_, _>>()?
    };
    assemble(read)
}

fn range(row: &Row) -> Result<Read, Error> {
    let wrong = |reason: String| Error::new(row.line, reason);
    let is_mmio = match row.text("kind") {
        None | Some("ram") => false,
        Some("mmio") => true,
        Some(other) => return Err(wrong(format!("kind is \"{other}\"; it is ram or mmio"))),
    };
    let in_pages = row.has("base_gfn") || row.has("npages");
    let (start, size) = if in_pages {
        let (Some(base), Some(npages)) = (row.number("base_gfn")?, row.number("npages")?) else {
            return Err(wrong("base_gfn and npages are needed together".to_owned()));
        };
        let bytes = |pages: u64| {
            pages.checked_mul(1 << PAGE_SHIFT).ok_or_else(|| {
                wrong(format!("{pages:#x} pages reach past 2^64 bytes; lower base_gfn or npages"))
            })
        };
        (bytes(base)?, Some(bytes(npages)?))
    } else {
        let Some(start) = row.number("start")? else {
            return Err(wrong(
                "there is neither base_gfn with npages nor start with size or last".to_owned(),
            ));
        };
        (start, row.number("size")?)
    };
    let last = match (size, row.number("last")?) {
        (Some(_), Some(_)) => {
            return Err(wrong("a size and last are given; one of them says it all".to_owned()));
        }
        (None, None) => return Err(wrong("start needs size or last (inclusive)".to_owned())),
        (Some(0), None) => return Err(wrong("the size is 0; a range holds something".to_owned())),
        (Some(size), None) => start.checked_add(size - 1).ok_or_else(|| {
            wrong(format!("{start:#x} + {size:#x} bytes reach past 2^64; lower one of them"))
        })?,
        (None, Some(last)) if last < start => {
            return Err(wrong(format!("last {last:#x} lies before start {start:#x}")));
        }
        (None, Some(last)) => last,
    };
    Ok(Read { line: row.line, id: row.number("id")?, start, last, is_mmio })
}

/// Checks what was read as a whole.
fn assemble(read: Vec<Read>) -> Result<Layout, Error> {
    let mut ids: BTreeMap<u64, usize> = BTreeMap::new();
    for range in &read {
        if let Some(id) = range.id
            && let Some(first) = ids.insert(id, range.line)
        {
            return Err(Error::new(range.line, format!("the id {id} is used already on line {first}")));
        }
    }
    let mut sorted: Vec<&Read> = read.iter().collect();
    sorted.sort_by_key(|range| (range.start, range.line));
    for pair in sorted.windows(2) {
        let [one, next] = pair else { continue };
        if one.last >= next.start {
            let (first, second) = if one.line < next.line { (one, next) } else { (next, one) };
            return Err(Error::new(
                second.line,
                format!(
                    "{:#x}..={:#x} overlaps {:#x}..={:#x} of line {}, which KVM refuses",
                    second.start, second.last, first.start, first.last, first.line
                ),
            ));
        }
    }
    let mut layout = Layout::default();
    for range in read {
        let list = if range.is_mmio { &mut layout.mmio } else { &mut layout.ranges };
        let key = u32::try_from(list.len()).unwrap_or(u32::MAX);
        list.push(Range { start: range.start, last: range.last, key });
        if !range.is_mmio {
            layout.ids.push(range.id);
        }
    }
    if layout.ranges.is_empty() {
        return Err(Error::new(1, "the layout has no slots; there is nothing to look up"));
    }
    Ok(layout)
}

impl From<Generator> for Layout {
    /// A generated layout. Its devices answer in the last 32 MiB below 4 GiB, as local APIC, I/O APIC
    /// and firmware do, where no slot lies.
    fn from(generator: Generator) -> Self {
        let slots = generator.slots();
        let ranges: Vec<Range> = slots
            .iter()
            .zip(0..)
            .filter_map(|(slot, key)| {
                let range = Range::of_slot(slot, key)?;
                let start = range.start << PAGE_SHIFT;
                Some(Range { start, last: (range.last << PAGE_SHIFT) | ((1 << PAGE_SHIFT) - 1), key })
            })
            .collect();
        let mut mmio = Vec::new();
        let (mut from, end) = (0xfe00_0000_u64, 0xffff_ffff_u64);
        let mut sorted = ranges.clone();
        sorted.sort_by_key(|range| range.start);
        for range in sorted.iter().filter(|range| range.last >= 0xfe00_0000 && range.start <= end) {
            if range.start > from {
                mmio.push(Range { start: from, last: range.start - 1, key: 0 });
            }
            from = range.last.saturating_add(1);
        }
        if from <= end {
            mmio.push(Range { start: from, last: end, key: 0 });
        }
        let ids = slots.iter().map(|slot| u64::try_from(slot.id).ok()).collect();
        Self { ranges, ids, mmio }
    }
}
