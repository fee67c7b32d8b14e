//! PLE: the window over time by vCPU, and what the yields came to.

use super::{Job, float, of};
use crate::chart::page::Key;
use crate::chart::palette::{self, Look};
use crate::chart::panels::{Item, Panel, Panels};
use crate::chart::rows::{Mark, Row, Rows, Section};
use crate::chart::scale::Axis;
use crate::chart::{Error, Image, text};
use crate::digest::{Digest, Group, Windows};
use crate::model::VmId;

/// vCPUs that a panel shows; the heading says when there are more.
const MOST_VCPUS: usize = 6;

pub(crate) fn window(job: &Job<'_>) -> Result<Image, Error> {
    let mut page = job.page(
        "How the PLE window moves".into(),
        "The window of each vCPU at entry and return of its PLE exits; between exits it is not observed.",
    );
    let having: Vec<&&Digest> = job.digests.iter().filter(|digest| !digest.windows.is_empty()).collect();
    if having.is_empty() {
        return job.empty(&page, job.no_events());
    }
    let most = having.iter().map(|digest| digest.windows.len().min(MOST_VCPUS)).max().unwrap_or(0);
    page.legend = (0..most)
        .map(|place| (Key::Series(palette::numbered(place)), format!("vCPU in place {place}")))
        .collect();
    if having.iter().all(|digest| digest.windows.keys().all(|(vm, vcpu)| *vm == VmId(0) && *vcpu < 6)) {
        page.legend =
            (0..most).map(|place| (Key::Series(palette::numbered(place)), format!("vCPU {place}"))).collect();
    }
    let spans = || having.iter().flat_map(|digest| digest.windows.values()).flat_map(Windows::spans);
    let low = spans().map(|span| span.low).min().unwrap_or(1);
    let high = spans().map(|span| span.high).max().unwrap_or(1);
    let y = Axis::number(u64::from(low), u64::from(high));
    let panels = having.iter().map(|digest| panel(digest, &y)).collect();
    Panels { panels, columns: 1, least_height: 320.0 }.draw(&page, job.size.width, job.size.height)
}

/// The places of vCPUs in the legend: their number where that is one of the first, else their order.
fn look_of(digest: &Digest, place: usize, vcpu: u32) -> Look {
    let simple = digest.windows.keys().all(|(vm, vcpu)| *vm == VmId(0) && *vcpu < 6);
    palette::numbered(if simple { usize::try_from(vcpu).unwrap_or(place) } else { place })
}

fn panel(digest: &Digest, y: &Axis) -> Panel {
    let spans = || digest.windows.values().flat_map(Windows::spans);
    let start = spans().map(|span| span.start).min().unwrap_or(0);
    let end = spans().map(|span| span.end).max().unwrap_or(0);
    let seconds = |time: u64| float(time.saturating_sub(start)) / 1e9;
    let items: Vec<Item> = digest
        .windows
        .iter()
        .take(MOST_VCPUS)
        .enumerate()
        .map(|(place, ((_, vcpu), windows))| {
            let mut points: Vec<(f64, f64)> = Vec::new();
            for span in windows.spans() {
                // A step: the old window holds until the new one is seen. Joined spans draw their
                // whole extent, so that no peak is lost.
                if let Some((_, window)) = points.last().copied() {
                    points.push((seconds(span.start), window));
                }
                points.push((seconds(span.start), f64::from(span.first)));
                if span.low != span.high {
                    points.push((seconds(span.start), f64::from(span.low)));
                    points.push((seconds(span.start), f64::from(span.high)));
                }
                points.push((seconds(span.end), f64::from(span.last)));
            }
            Item::Line { points, look: look_of(digest, place, *vcpu), width: 2.0, marked: false }
        })
        .collect();
    let exits = digest.ple.latency.count();
    let vcpus = digest.windows.len();
    let shown = if vcpus > MOST_VCPUS { format!(", first {MOST_VCPUS} shown") } else { String::new() };
    let heading = format!("{}: {} exits of {vcpus} vCPUs{shown}", digest.label, text::count(exits));
    let unit = match digest.meta.host.cpu_vendor.as_str() {
        "AuthenticAMD" | "HygonGenuine" => "PAUSEs",
        "GenuineIntel" => "TSC cycles",
        _ => "PAUSEs on AMD, TSC cycles on Intel",
    };
    Panel {
        heading,
        note: items.is_empty().then(|| "no events".to_owned()),
        x: Axis::even(seconds(end), |value| format!("{} s", text::figure(value))),
        x_name: "time since the first exit".into(),
        y: y.clone(),
        y_name: format!("PLE window, {unit} (logarithmic)"),
        items,
    }
}

pub(crate) fn yields(job: &Job<'_>) -> Result<Image, Error> {
    let page = job.page(
        "What the yields of PLE exits come to".into(),
        "Outcomes of yield_to as shares of all its calls: another vCPU boosted, declined by the scheduler, or \
         refused because both run queues held one task (undercommitted).",
    );
    let having: Vec<&&Digest> = job.digests.iter().filter(|digest| digest.ple.latency.count() > 0).collect();
    if having.is_empty() {
        return job.empty(&page, job.no_events());
    }
    let sections = having
        .iter()
        .map(|digest| {
            let all = digest.yields;
            let exits = digest.ple.latency.count();
            let heading = format!(
                "{}: {} exits, {} yields tried ({} an exit)",
                digest.label,
                text::count(exits),
                text::count(all.tried),
                text::figure(float(all.tried) / float(exits.max(1)))
            );
            let rows = [
                ("boosted", all.boosted, Group::Boosted),
                ("declined", all.declined, Group::Declined),
                ("undercommitted", all.undercommit, Group::Undercommit),
            ]
            .map(|(name, count, group)| Row {
                label: name.to_owned(),
                colour: palette::group(group),
                cells: vec![of(count, all.tried), text::count(count)],
                marks: if count > 0 {
                    let share = float(count) / float(all.tried.max(1));
                    let colour = palette::group(group);
                    vec![Mark::Range { from: 0.0, to: share, thickness: 24.0, colour, alpha: 1.0 }]
                } else {
                    Vec::new()
                },
            });
            let note = (all.tried == 0).then(|| "No exit tried to yield.".to_owned());
            Section { heading, note, rows: rows.into() }
        })
        .collect();
    let rows = Rows {
        axis: Axis::even(1.0, text::share),
        axis_name: "share of the yields".into(),
        columns: ["share", "yields"].map(str::to_owned).into(),
        sections,
        row_height: (40.0, 70.0),
    };
    rows.draw(&page, job.size.width, job.size.height)
}
