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

use crate::chart::text::plain;
pub use compare::{Compared, of_comparison};
pub use recordings::of_recordings;
