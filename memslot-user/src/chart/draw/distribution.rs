//! Distributions of the latency, a panel for each kind of call, a line for each recording: the shares of
//! the calls, and the percentiles out to the last call.

use super::{Job, time_axis};
use crate::chart::page::Key;
use crate::chart::panels::{Item, Panel, Panels};
use crate::chart::scale::Axis;
use crate::chart::series::distribution::{self, Part};
use crate::chart::{Picture, palette, text};

type Line = Vec<(f64, f64)>;

pub(crate) fn ecdf(job: &Job<'_>) -> Picture {
    let title = format!("How many {} take how long", job.subject());
    let subtitle = "Share of the calls that took no longer, from 0.1 to 99.9 %, by kind of call. Steep: all take about \
                    the same. A step half way up: there are two ways through the function.";
    draw(job, title, subtitle, distribution::ecdf, |lines, _| {
        let ends = lines.iter().flatten().map(|point| point.0);
        (range(ends), "latency of one call (logarithmic)".into(), None)
    })
}

pub(crate) fn percentiles(job: &Job<'_>) -> Picture {
    let title = format!("How long the slowest {} take", job.subject());
    let subtitle = "Latency by percentile, on the axis of HdrHistogram: each step to the right is ten times rarer, and the \
                    last point is the longest call. A line that rises to the right has a tail that medians do not show.";
    draw(job, title, subtitle, distribution::percentiles, |lines, calls| {
        let ends = lines.iter().flatten().map(|point| point.1);
        (range(ends), "latency of one call (logarithmic)".into(), Some(Axis::percentiles(calls)))
    })
}

/// `lines` of a sample; `axis` of the latency and, if these lie upright, of the percentiles.
fn draw(
    job: &Job<'_>,
    title: String,
    subtitle: &str,
    lines: fn(&crate::stats::Sample) -> Line,
    axes: impl Fn(&[Line], u64) -> (Axis, String, Option<Axis>),
) -> Picture {
    let mut page = job.page(title, subtitle);
    let parts = distribution::parts(job.digests, job.probe);
    if parts.is_empty() {
        return job.empty(&page, job.no_events());
    }
    page.legend = job
        .digests
        .iter()
        .enumerate()
        .filter(|(place, _)| parts.iter().any(|part| part.samples.iter().any(|one| one.0 == *place)))
        .map(|(place, digest)| (Key::Line(palette::numbered(place)), digest.title(job.probe)))
        .collect();
    let panel = |part: &Part<'_>| {
        let drawn: Vec<Line> = part.samples.iter().map(|(_, sample)| lines(sample)).collect();
        let calls = part.samples.iter().map(|(_, sample)| sample.count());
        let (latency, name, percentiles) = axes(&drawn, calls.clone().max().unwrap_or(0));
        let items = drawn.into_iter().zip(&part.samples).map(|(points, (place, _))| Item::Line {
            // A single place is still to be seen.
            marked: points.windows(2).all(|pair| pair[0] == pair[1]),
            points,
            look: palette::numbered(*place),
            width: 2.5,
        });
        let (x, x_name, y, y_name) = match percentiles {
            Some(axis) => (axis, "percentile of the calls".into(), latency, name),
            None => {
                (latency, name, Axis::even(1.0, text::share), "share of the calls that took no longer".into())
            }
        };
        let note = Some(text::counted(calls.sum(), "call"));
        Panel { heading: part.group.name().into(), note, x, x_name, y, y_name, items: items.collect() }
    };
    let panels: Vec<Panel> = parts.iter().map(panel).collect();
    let columns = if panels.len() == 4 { 2 } else { panels.len().min(3) };
    Panels { panels, columns, least_height: 420.0 }.draw(&page, job.size.width, job.size.height)
}

fn range(ends: impl Iterator<Item = f64>) -> Axis {
    let (low, high) = ends.fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    time_axis(low, high)
}
