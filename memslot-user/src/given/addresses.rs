//! Addresses to look up, and who asks.

use super::Error;
use super::rows::rows;
use crate::model::PAGE_SHIFT;

/// A look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The address, bytes.
    pub addr: u64,
    /// vCPU or queue: each has a last-used range of its own.
    pub by: u32,
}

const COLUMNS: [&str; 5] = ["address", "gfn", "vcpu", "queue", "time"];

/// Reads addresses: JSON (an array of addresses, or of objects, or an object with `addresses`) or CSV, with
/// address (bytes) or gfn, and if wanted vcpu or queue, and time, in whose order the look-ups must come.
///
/// # Errors
/// The first line that is no access.
pub fn addresses(text: &str) -> Result<Vec<Access>, Error> {
    let mut accesses = Vec::new();
    let mut time_before: Option<(u64, usize)> = None;
    for row in rows(text, "addresses", &COLUMNS)? {
        let wrong = |reason: String| Error::new(row.line, reason);
        let addr = match (row.number("address")?, row.number("gfn")?) {
            (Some(address), None) => address,
            (None, Some(gfn)) => gfn
                .checked_mul(1 << PAGE_SHIFT)
                .ok_or_else(|| wrong(format!("the gfn {gfn:#x} lies past 2^64 bytes")))?,
            (Some(_), Some(_)) => return Err(wrong("address and gfn are given; choose one".to_owned())),
            (None, None) => return Err(wrong("there is neither address nor gfn".to_owned())),
        };
        let by = match (row.number("vcpu")?, row.number("queue")?) {
            (Some(_), Some(_)) => return Err(wrong("vcpu and queue are given; choose one".to_owned())),
            (Some(by), None) | (None, Some(by)) => {
                u32::try_from(by).map_err(|_| wrong(format!("{by} is no number of a vCPU or queue")))?
            }
            (None, None) => 0,
        };
        if let Some(time) = row.number("time")? {
            if let Some((before, line)) = time_before
                && time < before
            {
                return Err(wrong(format!(
                    "the time {time} is before {before} of line {line}; sort by time"
                )));
            }
            time_before = Some((time, row.line));
        }
        accesses.push(Access { addr, by });
    }
    if accesses.is_empty() {
        return Err(Error::new(1, "there are no addresses; there is nothing to look up"));
    }
    Ok(accesses)
}
