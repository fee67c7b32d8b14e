//! Reports: one HTML file that needs nothing else, from the verdict to the provenance.
//!
//! Names of VMs, hosts and recordings come from elsewhere and are hostile until proved otherwise: maud
//! escapes what means something to HTML, [`plain`] replaces what means something to a terminal or turns
//! text round. The page's policy forbids every request, and every script but the one that sorts tables.

mod compare;
mod page;
mod recordings;
mod table;
#[cfg(test)]
mod tests;

pub use compare::{Compared, of_comparison};
pub use recordings::of_recordings;

/// Text without control characters, and without those that change the direction of writing.
#[must_use]
pub fn plain(text: &str) -> String {
    let is_harmful = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect()
}
