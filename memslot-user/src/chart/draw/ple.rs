//! PLE: the window over time by vCPU, and what the yields came to.

use super::{Job, float, of};
use crate::chart::palette::{self, Look};
use crate::chart::rows::{Mark, Row, Rows, Section, Step};
use crate::chart::scale::Axis;
use crate::chart::{Picture, text};
use crate::digest::{Digest, Group, Span, Windows};
use crate::model::VmId;
use std::collections::BTreeSet;

/// vCPUs that a section shows; the heading says when there are more.
const MOST_VCPUS: usize = 8;

pub(crate) fn window(job: &Job<'_>) -> Picture {
    let having: Vec<&&Digest> = job.digests.iter().filter(|digest| !digest.windows.is_empty()).collect();
    let spans = || having.iter().flat_map(|digest| digest.windows.values()).flat_map(Windows::spans);
    let low = spans().map(|span| span.low).min().unwrap_or(0);
    let high = spans().map(|span| span.high).max().unwrap_or(0);
    let units: BTreeSet<&str> = having.iter().map(|digest| unit(digest)).collect();
    let subtitle = format!(
        "The window at entry of each PLE exit and as the exit grows it, by vCPU; it holds until the next one. Below \
         each, in grey, the windows that KVM's rules give for the same exits: they must be the same. Height: {} to {} {} (logarithmic).",
        text::count(low.into()),
        text::count(high.into()),
        units.into_iter().collect::<Vec<_>>().join(" or ")
    );
    if having.is_empty() {
        return job.empty(&job.page("How the PLE window moves".into(), ""), job.no_events());
    }
    let page = job.page("How the PLE window moves".into(), &subtitle);
    let scale = Axis::number(low.into(), high.into());
    let longest =
        having.iter().map(|digest| extent(digest)).map(|(start, end)| end - start).max().unwrap_or(0);
    let rows = Rows {
        axis: Axis::even(float(longest), text::tick),
        axis_name: "time since the recording's first exit".into(),
        columns: ["lowest", "highest", "last", "exits", "as ruled"].map(str::to_owned).into(),
        sections: having.iter().map(|digest| section(digest, &scale)).collect(),
        row_height: (62.0, 170.0),
    };
    rows.draw(&page, job.size.width, job.size.height)
}

/// What the windows of a host are counted in.
fn unit(digest: &Digest) -> &'static str {
    match digest.meta.host.cpu_vendor.as_str() {
        "AuthenticAMD" | "HygonGenuine" => "PAUSEs",
        "GenuineIntel" => "TSC cycles",
        _ => "PAUSEs (AMD) or TSC cycles (Intel)",
    }
}

/// Times of the first and the last observation, ns.
fn extent(digest: &Digest) -> (u64, u64) {
    let spans = || digest.windows.values().flat_map(Windows::spans);
    let start = spans().map(|span| span.start).min().unwrap_or(0);
    (start, spans().map(|span| span.end).max().unwrap_or(0).max(start))
}

fn section(digest: &Digest, scale: &Axis) -> Section {
    let (start, _) = extent(digest);
    let vms: BTreeSet<VmId> = digest.windows.keys().map(|(vm, _)| *vm).collect();
    let since = |time: u64| float(time.saturating_sub(start));
    let height = |window: u32| scale.at(window.into());
    let figure = |window: Option<u32>| window.map_or_else(|| "–".into(), |window| text::count(window.into()));
    let row = |label: String, colour, windows: &Windows, as_ruled: Option<u64>| {
        let spans = || windows.spans().iter();
        let step = |span: &Span| Step {
            from: since(span.start),
            to: since(span.end),
            low: height(span.low),
            high: height(span.high),
            last: height(span.last),
        };
        Row {
            label,
            colour,
            cells: vec![
                figure(spans().map(|span| span.low).min()),
                figure(spans().map(|span| span.high).max()),
                figure(spans().last().map(|span| span.last)),
                // Each exit observes its window twice.
                text::count(windows.observations() / 2),
                as_ruled.map(text::count).unwrap_or_default(),
            ],
            marks: vec![Mark::Steps(spans().map(step).collect(), colour)],
        }
    };
    let mut rows = Vec::new();
    for (place, ((vm, vcpu), windows)) in digest.windows.iter().take(MOST_VCPUS).enumerate() {
        let label = if vms.len() > 1 { format!("VM {} vCPU {vcpu}", vm.0) } else { format!("vCPU {vcpu}") };
        let ruled = digest.ruled_windows.get(&(*vm, *vcpu));
        let Look { colour, .. } = palette::numbered(place);
        rows.push(row(label, colour, windows, ruled.map(|ruled| ruled.equal)));
        rows.extend(
            ruled.map(|ruled| row("as KVM's rules have it".into(), palette::GREY, &ruled.windows, None)),
        );
    }
    let more = digest.windows.len().saturating_sub(MOST_VCPUS);
    let note = (more > 0).then(|| format!("The first {MOST_VCPUS} vCPUs of {}.", digest.windows.len()));
    let exits = text::count(digest.ple.latency.count());
    Section { heading: format!("{}: {exits} exits", digest.label), note, rows }
}

pub(crate) fn yields(job: &Job<'_>) -> Picture {
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
            let rows = if all.tried == 0 { Vec::new() } else { rows.into() };
            Section { heading, note, rows }
        })
        .collect();
    let rows = Rows {
        axis: Axis::even(1.0, text::share),
        axis_name: "share of the yields".into(),
        columns: ["share", "yields"].map(str::to_owned).into(),
        sections,
        row_height: (46.0, 70.0),
    };
    rows.draw(&page, job.size.width, job.size.height)
}
