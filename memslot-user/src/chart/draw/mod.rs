//! From series to pictures, one file a chart.

pub(crate) mod distribution;
mod heat;
pub(crate) mod latency;
pub(crate) mod layout;
pub(crate) mod length_latency;
pub(crate) mod over_time;
pub(crate) mod ple;
pub(crate) mod ple_policies;
pub(crate) mod prediction;
pub(crate) mod residuals;
pub(crate) mod scaling;
pub(crate) mod search_length;

use super::page::Page;
use super::palette::Dash;
use super::panels::{Panel, Panels};
use super::scale::Axis;
use super::{Picture, Size, footer, text};
use crate::digest::Digest;
use crate::model::Probe;

/// What to draw.
pub(crate) struct Job<'a> {
    pub(crate) probe: Probe,
    pub(crate) digests: &'a [&'a Digest],
    /// Recordings left out because there were too many.
    pub(crate) more: usize,
    pub(crate) size: Size,
}

impl Job<'_> {
    /// The page with title, subtitle and footer.
    fn page(&self, title: String, subtitle: &str) -> Page {
        let more = match self.more {
            0 => String::new(),
            more => format!(" The first {} of {} recordings.", self.digests.len(), self.digests.len() + more),
        };
        Page {
            title,
            subtitle: format!("{subtitle}{more}"),
            legend: Vec::new(),
            footer: footer::remarks(self.digests, self.probe),
        }
    }

    /// The probed thing in plain words.
    fn subject(&self) -> &'static str {
        match self.probe {
            Probe::PageFault => "KVM page faults",
            Probe::Ple => "PLE exits",
            Probe::Translate => "vhost translations",
        }
    }

    /// What is searched.
    fn searched(&self) -> &'static str {
        match self.probe {
            Probe::PageFault | Probe::Ple => "memory slot",
            Probe::Translate => "region",
        }
    }

    /// A chart that has nothing to show and says so.
    fn empty(&self, page: &Page, words: String) -> Picture {
        let panel = Panel {
            heading: String::new(),
            note: Some(words),
            x: Axis::names(&[]),
            x_name: String::new(),
            y: Axis::names(&[]),
            y_name: String::new(),
            items: Vec::new(),
        };
        Panels { panels: vec![panel], columns: 1, least_height: 240.0 }.draw(
            page,
            self.size.width,
            self.size.height,
        )
    }

    /// Why nothing is there.
    fn no_events(&self) -> String {
        match self.digests {
            [] => "no recording".into(),
            digests => {
                let attached = digests.iter().any(|digest| {
                    digest.probe_meta(self.probe).is_some_and(|meta| !meta.attached.is_empty())
                });
                let notes: Vec<&str> = digests
                    .iter()
                    .filter_map(|digest| digest.probe_meta(self.probe)?.note.as_deref())
                    .collect();
                match (attached, notes.first()) {
                    (true, _) => "no events".into(),
                    (false, Some(note)) => format!("no events: {note}"),
                    (false, None) => format!("no events: the probe {} was not attached", self.probe.name()),
                }
            }
        }
    }
}

/// Solid, dashed and dotted: the median, the 90th and the 99th percentile.
const QUANTILES: [(&str, Dash); 3] = [("p50", None), ("p90", Some((7.0, 3.0))), ("p99", Some((2.0, 3.0)))];

/// Places on an axis and shares are floating point; counts stay far below 2^53.
#[expect(clippy::cast_precision_loss, reason = "a place on an axis")]
fn float(value: u64) -> f64 {
    value as f64
}

/// Names that stand for an engine, and for the kernel.
fn engine_name(engine: Option<&str>) -> String {
    engine.map_or_else(|| "kernel, observed".into(), str::to_owned)
}

fn engine_look(engine: Option<&str>) -> super::palette::Look {
    engine.map_or(super::palette::KERNEL, super::palette::engine)
}

/// An axis of times, ns.
fn time_axis(low: f64, high: f64) -> Axis {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a saturating cast")]
    Axis::time(low.floor() as u64, high.ceil() as u64)
}

fn of(count: u64, total: u64) -> String {
    if total == 0 { "–".into() } else { text::share(float(count) / float(total)) }
}
