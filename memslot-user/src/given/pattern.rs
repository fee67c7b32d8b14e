//! Addresses that are made up, the same from the same seed.

use super::{Access, Layout};
use crate::engine::Range;
use crate::model::{PAGE_SHIFT, PAGE_SIZE};
use crate::random::Random;

/// In what order addresses come, and what they meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pattern {
    /// Page by page through all ranges, in ascending order, beginning anew at the end.
    Sequential,
    /// Any page of any range, each page as likely.
    Random,
    /// Nine in ten in the largest range, the rest in any range.
    Skewed,
    /// Where neither a range nor a device is.
    Miss,
    /// A few pages of devices, over and over.
    Mmio,
}

/// Pages that MMIO meets: a device has few registers.
const MMIO_PAGES: u64 = 4;

/// Makes `count` accesses, by `vcpus` in turn.
///
/// # Errors
/// The layout has nothing for the pattern; a sentence says what.
pub fn accesses(
    layout: &Layout,
    pattern: Pattern,
    count: usize,
    vcpus: u32,
    seed: u64,
) -> Result<Vec<Access>, String> {
    let mut random = Random::new(seed, &[0xadd2]);
    let pool = match pattern {
        Pattern::Miss => gaps(layout),
        Pattern::Mmio => layout.mmio.clone(),
        _ => sorted(&layout.ranges),
    };
    if pool.is_empty() {
        return Err(match pattern {
            Pattern::Mmio => "the layout has no MMIO; give it ranges of kind mmio, or choose another pattern",
            _ => "the layout leaves no address free to miss; choose another pattern",
        }
        .to_owned());
    }
    let pages: Vec<u64> = pool.iter().map(|range| (range.weight() >> PAGE_SHIFT) + 1).collect();
    let mut before = Vec::with_capacity(pages.len());
    let mut total = 0_u64;
    for pages in &pages {
        before.push(total);
        total = total.saturating_add(*pages);
    }
    let largest = (0..pool.len()).max_by_key(|place| pages[*place]).unwrap_or(0);
    let page = |place: usize, page: u64| {
        let range = pool[place];
        range.start.saturating_add(page.min(range.weight() >> PAGE_SHIFT) << PAGE_SHIFT).min(range.last)
    };
    let of_all = |number: u64| {
        let place = before.partition_point(|before| *before <= number).saturating_sub(1);
        page(place, number - before[place])
    };
    let access = |number: usize| {
        let number_of_page = number as u64;
        let start = match pattern {
            Pattern::Sequential => of_all(number_of_page % total),
            Pattern::Skewed if random.chance(90) => page(largest, random.below(pages[largest])),
            // A slot is as likely as another, as a miss beside it is.
            Pattern::Skewed | Pattern::Miss => {
                let place = random.index(pool.len());
                page(place, random.below(pages[place]))
            }
            Pattern::Random => of_all(random.below(total)),
            Pattern::Mmio => of_all(random.below(total.min(MMIO_PAGES))),
        };
        let by = u32::try_from(number_of_page % u64::from(vcpus.max(1))).unwrap_or(0);
        Access { addr: start, by }
    };
    Ok((0..count).map(access).collect())
}

fn sorted(ranges: &[Range]) -> Vec<Range> {
    let mut sorted = ranges.to_vec();
    sorted.sort_by_key(|range| range.start);
    sorted
}

/// Whole pages between all that the layout has, and as many behind it as it is long.
fn gaps(layout: &Layout) -> Vec<Range> {
    let taken = sorted(&[&layout.ranges[..], &layout.mmio[..]].concat());
    let end = taken.last().map_or(0, |range| range.last);
    let (mut gaps, mut from) = (Vec::new(), Some(0_u64));
    for range in taken {
        if let Some(from) = from.and_then(|from| from.checked_next_multiple_of(PAGE_SIZE))
            && from < range.start
            && range.start - from >= PAGE_SIZE
        {
            gaps.push(Range { start: from, last: range.start - 1, key: 0 });
        }
        from = range.last.checked_add(1);
    }
    if let Some(from) = from.and_then(|from| from.checked_next_multiple_of(PAGE_SIZE)) {
        gaps.push(Range { start: from, last: from.saturating_add(end | (PAGE_SIZE - 1)), key: 0 });
    }
    gaps
}
