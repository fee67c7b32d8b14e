//! Figures for Prometheus: what the kernel counted, as OpenMetrics text and as protobuf with native histograms.
//!
//! [`Totals`] adds up what comes interval by interval, from live probes or from a recording; a [`Snapshot`] of them is
//! handed to the server, which renders it at most once a format, however many ask.

mod encode;
mod families;
mod family;
mod http;
mod names;
mod native;
mod times;
mod totals;

pub use encode::Format;
pub use families::Source;
pub use http::{Limits, Server};
pub use names::MAX_VMS;
pub use totals::Totals;

use family::Family;
use std::sync::OnceLock;

/// The figures of one moment.
#[derive(Debug)]
pub struct Snapshot {
    families: Vec<Family>,
    rendered: [OnceLock<hyper::body::Bytes>; Format::ALL.len()],
}

impl Snapshot {
    fn new(families: Vec<Family>) -> Self {
        Self { families, rendered: Default::default() }
    }

    /// The figures as a format writes them.
    pub fn render(&self, format: Format) -> hyper::body::Bytes {
        let place = Format::ALL.iter().position(|known| *known == format).unwrap_or_default();
        self.rendered[place].get_or_init(|| encode::encode(&self.families, format).into()).clone()
    }
}

#[cfg(test)]
mod tests;
