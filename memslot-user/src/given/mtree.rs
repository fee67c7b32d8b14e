//! The text of QEMU's `info mtree -f`: the flat view of guest memory, from which KVM's slots are made.

use super::Error;
use super::layout::Read;
use crate::model::PAGE_SIZE;

/// Kinds of memory that become slots; a ROM device does while it reads as a ROM.
const BACKED: [&str; 6] = ["ram", "rom", "ramd", "romd", "nv-ram", "nv-rom"];

/// A line of a flat view.
struct Line<'a> {
    line: usize,
    start: u64,
    last: u64,
    kind: &'a str,
    /// The accelerator says that it holds it as a slot (since QEMU 3.0).
    in_kvm: bool,
}

pub(super) fn is_mtree(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with("FlatView #"))
}

/// The ranges of the flat view of the address space `memory`: slots in ascending order, as QEMU
/// registers them when a machine starts, and the devices between them.
pub(super) fn parse(text: &str) -> Result<Vec<Read>, Error> {
    let mut view: Vec<Line<'_>> = Vec::new();
    let (mut is_memory, mut found) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.starts_with("FlatView #") {
            if found {
                break;
            }
            (is_memory, view) = (false, Vec::new());
        } else if line.starts_with("AS \"memory\"") {
            (is_memory, found) = (true, true);
        } else if is_memory && line.starts_with(|first| matches!(first, '0'..='9' | 'a'..='f')) {
            let range = range(number, line)?;
            if let Some(before) = view.last().filter(|before| before.last >= range.start) {
                let reason = format!(
                    "{:#x} does not come after {:#x} of line {}; a flat view ascends without overlaps, so paste it \
                     as QEMU prints it",
                    range.start, before.last, before.line
                );
                return Err(Error::new(number, reason));
            }
            view.push(range);
        }
    }
    if !found {
        return Err(Error::new(
            1,
            "no flat view is that of the address space \"memory\"; paste all of info mtree -f",
        ));
    }
    let marked = view.iter().any(|line| line.in_kvm);
    Ok(view
        .iter()
        .filter_map(|line| {
            let is_slot = if marked { line.in_kvm } else { BACKED.contains(&line.kind) };
            if !is_slot {
                let is_mmio = line.kind == "i/o";
                return is_mmio.then_some(Read {
                    line: line.line,
                    id: None,
                    start: line.start,
                    last: line.last,
                    is_mmio,
                });
            }
            // `kvm_align_section` keeps whole pages only.
            let start = line.start.checked_next_multiple_of(PAGE_SIZE)?;
            let end = (u128::from(line.last) + 1) / u128::from(PAGE_SIZE) * u128::from(PAGE_SIZE);
            let last = u64::try_from(end.checked_sub(1)?).ok()?;
            (start <= last).then_some(Read { line: line.line, id: None, start, last, is_mmio: false })
        })
        .collect())
}

/// `0000000000000000-000000000009ffff (prio 0, ram): pc.ram KVM`
fn range(number: usize, line: &str) -> Result<Line<'_>, Error> {
    let wrong = || {
        Error::new(number, format!("\"{line}\" is no range of a flat view (0000…-0000… (prio 0, ram): name)"))
    };
    let (addresses, rest) = line.split_once(" (prio ").ok_or_else(wrong)?;
    let (start, last) = addresses.split_once('-').ok_or_else(wrong)?;
    let hex = |text: &str| u64::from_str_radix(text, 16).map_err(|_| wrong());
    let (start, last) = (hex(start)?, hex(last)?);
    let (_, rest) = rest.split_once(", ").ok_or_else(wrong)?;
    let (kind, name) = rest.split_once("):").ok_or_else(wrong)?;
    if last < start {
        return Err(Error::new(number, format!("the range ends at {last:#x}, before its start {start:#x}")));
    }
    Ok(Line { line: number, start, last, kind, in_kvm: name.trim_end().ends_with(" KVM") })
}
