//! Charts as PNG and SVG: series first, then shapes, pixels last. [`series`] turns a [`Digest`] into numbers, which its
//! tests compute by hand; [`draw`] only places them. Nothing of the system is needed: the font is
//! embedded, and no display is asked for.

mod canvas;
pub mod compare;
mod draw;
pub mod experiment;
#[cfg(test)]
pub(crate) mod fixture;
mod font;
mod footer;
mod page;
mod palette;
mod panels;
mod raster;
mod rows;
mod scale;
mod series;
mod svg;
pub mod text;

pub use canvas::Picture;
pub use footer::virtualised;
pub use raster::Image;

use crate::digest::Digest;
use crate::model::Probe;
use std::path::{Path, PathBuf};

/// Why a chart could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// plotters refused.
    #[error("the chart could not be drawn: {0}; this is a fault of memslot, please report it")]
    Draw(String),
    /// The picture could not be encoded.
    #[error("the chart could not be encoded as PNG: {0}")]
    Encode(#[from] png::EncodingError),
    /// The file could not be written.
    #[error("cannot write {}: {}; choose another directory with --out or make room", path.display(), kind)]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// What the system said; without the error itself, whose number helps nobody.
        kind: std::io::ErrorKind,
    },
}

/// What a chart shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Chart {
    /// Latency distribution by kind of call.
    Latency,
    /// Latency over time, with what was lost.
    OverTime,
    /// Share of the calls that took no longer.
    Ecdf,
    /// Latency by percentile, out to the last call.
    Percentiles,
    /// Search length observed against each engine's.
    SearchLength,
    /// Predicted against observed latency.
    Prediction,
    /// What the line of the predictions leaves unexplained.
    Residuals,
    /// Latency against search length.
    LengthLatency,
    /// Search length, look-up time and latency from recording to recording.
    Scaling,
    /// Slots along the guest's addresses, by accesses.
    Layout,
    /// PLE window over time, by vCPU.
    PleWindow,
    /// What the yields of PLE exits came to.
    PleYield,
    /// The recorded exits under other policies.
    PleReplay,
    /// Policies under loads, simulated.
    PlePolicies,
}

impl clap::ValueEnum for Chart {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.name()))
    }
}

impl Chart {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Latency,
        Self::OverTime,
        Self::Ecdf,
        Self::Percentiles,
        Self::SearchLength,
        Self::Prediction,
        Self::Residuals,
        Self::LengthLatency,
        Self::Scaling,
        Self::Layout,
        Self::PleWindow,
        Self::PleYield,
        Self::PleReplay,
        Self::PlePolicies,
    ];

    /// The charts of a probe, in the order of [`Self::ALL`].
    pub fn of(probe: Probe) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |chart| chart.shows(probe))
    }

    fn shows(self, probe: Probe) -> bool {
        match self {
            Self::Latency | Self::OverTime | Self::Ecdf | Self::Percentiles => true,
            Self::SearchLength | Self::Prediction | Self::Residuals | Self::LengthLatency | Self::Scaling => {
                probe != Probe::Ple
            }
            Self::Layout => probe == Probe::PageFault,
            Self::PleWindow | Self::PleYield | Self::PleReplay | Self::PlePolicies => probe == Probe::Ple,
        }
    }

    /// The name in file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::OverTime => "over-time",
            Self::Ecdf => "ecdf",
            Self::Percentiles => "percentiles",
            Self::SearchLength => "search-length",
            Self::Prediction => "prediction",
            Self::Residuals => "residuals",
            Self::LengthLatency => "latency-by-search-length",
            Self::Scaling => "scaling",
            Self::Layout => "layout",
            Self::PleWindow => "window",
            Self::PleYield => "yields",
            Self::PleReplay => "replay",
            Self::PlePolicies => "policies",
        }
    }

    /// The file's name without its ending: probe, chart.
    #[must_use]
    pub fn file_stem(self, probe: Probe) -> String {
        format!("{}-{}", probe.name().replace('_', "-"), self.name())
    }
}

/// Size of the pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pixels across.
    pub width: u32,
    /// Pixels down at least; a chart that needs more to stay legible is taller.
    pub height: u32,
}

impl Size {
    /// Narrowest and widest picture that stays legible.
    pub const WIDTHS: std::ops::RangeInclusive<u32> = 1000..=4000;
    /// Least and greatest height to ask for.
    pub const HEIGHTS: std::ops::RangeInclusive<u32> = 300..=4000;
}

impl Default for Size {
    fn default() -> Self {
        Self { width: 1600, height: 640 }
    }
}

/// Recordings that a chart compares at most; the subtitle says when there are more.
pub const MOST_RECORDINGS: usize = 24;

/// Draws one chart of one probe over some recordings. Without anything to show it says so.
#[must_use]
pub fn draw(chart: Chart, probe: Probe, digests: &[&Digest], size: Size) -> Picture {
    let size = Size {
        width: size.width.clamp(*Size::WIDTHS.start(), *Size::WIDTHS.end()),
        height: size.height.clamp(*Size::HEIGHTS.start(), *Size::HEIGHTS.end()),
    };
    let having: Vec<&Digest> =
        digests.iter().filter(|digest| digest.probe(probe).latency.count() > 0).copied().collect();
    // With no event anywhere, the footer still says whose recordings were empty.
    let shown = if having.is_empty() { digests } else { &having };
    let shown = by_size(shown, probe);
    let more = shown.len().saturating_sub(MOST_RECORDINGS);
    let shown = shown.get(..MOST_RECORDINGS).unwrap_or(&shown);
    let job = draw::Job { probe, digests: shown, more, size };
    match chart {
        Chart::Latency => draw::latency::draw(&job),
        Chart::OverTime => draw::over_time::draw(&job),
        Chart::Ecdf => draw::distribution::ecdf(&job),
        Chart::Percentiles => draw::distribution::percentiles(&job),
        Chart::SearchLength => draw::search_length::draw(&job),
        Chart::Prediction => draw::prediction::draw(&job),
        Chart::Residuals => draw::residuals::draw(&job),
        Chart::LengthLatency => draw::length_latency::draw(&job),
        Chart::Scaling => draw::scaling::draw(&job),
        Chart::Layout => draw::layout::draw(&job),
        Chart::PleWindow => draw::ple::window(&job),
        Chart::PleYield => draw::ple::yields(&job),
        Chart::PleReplay => draw::ple_policies::replayed(&job),
        Chart::PlePolicies => draw::ple_policies::simulated(&job),
    }
}

/// The recordings by number of slots or regions, if these all differ; else as they were given.
fn by_size<'a>(digests: &[&'a Digest], probe: Probe) -> Vec<&'a Digest> {
    let mut sorted = digests.to_vec();
    sorted.sort_by_key(|digest| digest.size(probe));
    let differ = sorted.windows(2).all(|pair| match pair {
        // Unknown sizes sort first, so that the first tells of all.
        [a, b] => a.size(probe).is_some() && a.size(probe) != b.size(probe),
        _ => true,
    });
    if differ { sorted } else { digests.to_vec() }
}

/// Whether a chart of these recordings has something to show that no other has: a comparison needs
/// two recordings.
#[must_use]
pub fn worthwhile(chart: Chart, probe: Probe, digests: &[&Digest]) -> bool {
    let having = |least: usize, has: fn(&Digest, Probe) -> bool| {
        digests.iter().filter(|digest| has(digest, probe)).count() >= least
    };
    match chart {
        Chart::Scaling => having(2, |digest, probe| digest.probe(probe).visited.total() > 0),
        Chart::Residuals => {
            having(1, |digest, probe| digest.replay(probe).is_some_and(|replay| replay.fit.is_some()))
        }
        Chart::PleReplay => having(1, |digest, _| {
            digest.ple_analysis.as_ref().is_some_and(|analysis| !analysis.policies.is_empty())
        }),
        Chart::PlePolicies => having(1, |digest, _| !digest.ple_simulated.is_empty()),
        Chart::OverTime => having(1, |digest, probe| !digest.probe(probe).over_time.is_empty()),
        Chart::Layout => having(1, |digest, _| {
            digest.layouts.values().any(|slots| slots.largest().iter().any(|slot| slot.1 > 0))
        }),
        _ => having(1, |digest, probe| digest.probe(probe).latency.count() > 0),
    }
}

/// Makes the directory for charts, with its parents.
///
/// # Errors
/// Where the system refuses.
pub fn make_directory(path: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(path).map_err(|error| Error::Write { path: path.to_owned(), kind: error.kind() })
}

/// What a picture is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Format {
    /// Pixels.
    #[default]
    Png,
    /// Shapes and text, sharp at any size.
    Svg,
}

impl Format {
    /// The ending of file names.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Svg => "svg",
        }
    }
}

impl Picture {
    /// The picture as a file's bytes.
    ///
    /// # Errors
    /// As [`Picture::raster`] and [`Image::png`].
    pub fn encode(&self, format: Format) -> Result<Vec<u8>, Error> {
        match format {
            Format::Png => self.raster()?.png(),
            Format::Svg => Ok(self.svg().into_bytes()),
        }
    }

    /// Writes the picture so that a reader sees the old file or the whole new one.
    ///
    /// # Errors
    /// As [`Picture::encode`], or where the file cannot be written.
    pub fn save(&self, path: &Path, format: Format) -> Result<(), Error> {
        let bytes = self.encode(format)?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".part");
        let beside = PathBuf::from(beside);
        std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, path)).map_err(|error| {
            // What is half written helps nobody; that it may be gone already is no second failure.
            let _ = std::fs::remove_file(&beside);
            Error::Write { path: path.to_owned(), kind: error.kind() }
        })
    }
}

#[cfg(test)]
mod tests;
