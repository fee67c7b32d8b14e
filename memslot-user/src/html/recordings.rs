//! The report of recordings: what they come to, what they show, where they come from.

use super::page::{chart, document, verdict};
use super::plain;
use super::table::Table;
use crate::chart::{self, Chart, Error, Size, text};
use crate::digest::Digest;
use crate::model::Probe;
use crate::recording::Meta;
use crate::report::summary::{Latency, Lost, attach_kind};
use crate::report::tables;
use maud::{Markup, html};

/// One document about some recordings, which are compared where there are several.
///
/// # Errors
/// Where a chart cannot be drawn, which no data does.
pub fn of_recordings(digests: &[Digest]) -> Result<String, Error> {
    let labels: Vec<&str> = digests.iter().map(|digest| digest.label.as_str()).collect();
    let title = format!("memslot: {}", labels.join(", "));
    let probes: Vec<Probe> = Probe::ALL.into_iter().filter(|probe| calls(digests, *probe) > 0).collect();
    let body = html! {
        h1 { (plain(&labels.join(", "))) }
        p.soft { (plain(&when_and_where(digests))) }
        (conclusion(digests))
        nav {
            @for probe in &probes { a href={ "#" (probe.name()) } { (heading(*probe)) } }
            a href="#tables" { "Tables" }
            a href="#notes" { "Losses and notes" }
            a href="#provenance" { "Provenance" }
        }
        div.cards { @for probe in &probes { @for digest in digests { (card(digest, *probe)) } } }
        @for probe in &probes { (charts(digests, *probe)?) }
        h2 id="tables" { "Tables" }
        p.soft { "A click on a heading sorts by it, a second click the other way." }
        @for (heading, table) in tables::sections(digests) {
            @if !table.is_empty() {
                h3 { (heading) }
                (Table::of(&table).html(heading, |cell| cell.ends_with("incomplete").then_some("bad")))
            }
        }
        h2 id="notes" { "Losses and notes" }
        (notes(digests))
        h2 id="provenance" { "Provenance" }
        @for digest in digests { (provenance(digest)) }
    };
    Ok(document(&title, &body))
}

fn calls(digests: &[Digest], probe: Probe) -> u64 {
    digests.iter().map(|digest| digest.probe(probe).latency.count()).sum()
}

fn heading(probe: Probe) -> &'static str {
    match probe {
        Probe::PageFault => "Page faults",
        Probe::Ple => "Pause-loop exits",
        Probe::Translate => "vhost translations",
    }
}

/// Nothing lost, cut off, or answered wrongly: then the figures rest on every call.
fn conclusion(digests: &[Digest]) -> Markup {
    let mut wrong = Vec::new();
    for digest in digests {
        for (probe, meta) in &digest.meta.probes {
            let lost = Lost::new(&meta.account, digest.probe(*probe).events);
            if !meta.is_whole(digest.meta.max_lost) || lost.total > digest.meta.max_lost {
                let reasons: Vec<String> = lost
                    .reasons()
                    .into_iter()
                    .map(|(reason, count)| format!("{reason}: {}", text::count(count)))
                    .collect();
                wrong.push(format!(
                    "{}, {}: {} of {} calls are missing ({}).",
                    digest.label,
                    probe.name(),
                    text::count(lost.total),
                    text::count(meta.account.entries),
                    reasons.join(", ")
                ));
            }
        }
        if !digest.meta.complete {
            wrong.push(format!("{}: the recording was cut off; what was written is read.", digest.label));
        }
        for replay in digest.replays.iter().filter(|replay| !replay.sound()) {
            wrong.push(format!(
                "{}, {}: a replay did not answer as the kernel did.",
                digest.label,
                replay.probe.name()
            ));
        }
    }
    let all: u64 = Probe::ALL.into_iter().map(|probe| calls(digests, probe)).sum();
    if all == 0 {
        wrong.push("No call was recorded.".into());
    }
    let clocks = clocks(digests);
    if wrong.is_empty() {
        let line = format!("All {} calls are in the figures; none was lost.", text::count(all));
        verdict(Some(true), "Whole", &[vec![line], clocks].concat())
    } else {
        verdict(Some(false), "Incomplete: read the figures with care", &[wrong, clocks].concat())
    }
}

/// What kind of time it is, where it is not that of the hardware.
fn clocks(digests: &[Digest]) -> Vec<String> {
    let mut words: Vec<String> = digests
        .iter()
        .filter_map(|digest| digest.meta.host.virtualised.as_deref())
        .map(|hypervisor| chart::virtualised(hypervisor) + ".")
        .collect();
    words.sort_unstable();
    words.dedup();
    words
}

fn card(digest: &Digest, probe: Probe) -> Markup {
    let figures = digest.probe(probe);
    let Some(latency) = Latency::new(&figures.latency) else { return html! {} };
    let lost = digest.probe_meta(probe).map_or(0, |meta| Lost::new(&meta.account, figures.events).total);
    #[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
    let hits = figures
        .visited
        .0
        .get(&0)
        .map(|hits| text::share(*hits as f64 / figures.visited.total().max(1) as f64));
    html! {
        div.card {
            h3 { (heading(probe)) ": " (plain(&digest.title(probe))) }
            dl {
                dt { "calls" } dd { (text::count(latency.count)) }
                dt { "p50" } dd { (text::time(latency.p50)) }
                dt { "p99" } dd { (text::time(latency.p99)) }
                @if figures.visited.total() > 0 {
                    dt { "mean search length" } dd { (text::figure(figures.visited.mean())) " nodes" }
                }
                @if let (Probe::PageFault, Some(hits)) = (probe, hits) {
                    dt { "last-used slot hit" } dd { (hits) }
                }
                @if probe == Probe::Ple && digest.yields.tried > 0 {
                    dt { "yields" } dd { (text::count(digest.yields.tried)) }
                    dt { "of them boosted" } dd { (text::count(digest.yields.boosted)) }
                }
                dt { "lost" } dd { (text::count(lost)) }
            }
        }
    }
}

fn charts(digests: &[Digest], probe: Probe) -> Result<Markup, Error> {
    let all: Vec<&Digest> = digests.iter().collect();
    let drawn: Vec<Markup> = Chart::of(probe)
        .filter(|one| chart::worthwhile(*one, probe, &all))
        .map(|one| {
            let picture = chart::draw(one, probe, &all, Size::default());
            let caption = format!(
                "Alone, as a file: memslot chart RECORDING --probe {} --only {} --format svg",
                probe.name(),
                one.name()
            );
            chart(&picture, &caption)
        })
        .collect::<Result<_, _>>()?;
    Ok(html! {
        h2 id=(probe.name()) { (heading(probe)) }
        @for one in drawn { (one) }
    })
}

fn notes(digests: &[Digest]) -> Markup {
    let mut lines = tables::notes(digests);
    for digest in digests {
        lines.extend(digest.meta.warnings.iter().map(|warning| format!("{}: {warning}", digest.label)));
    }
    html! {
        @if lines.is_empty() { p { "Nothing was lost, and there is nothing else to say." } }
        @else { ul { @for line in lines { li { (plain(&line)) } } } }
    }
}

fn when_and_where(digests: &[Digest]) -> String {
    let mut places: Vec<String> = Vec::new();
    for digest in digests {
        let host = &digest.meta.host;
        let place = format!("{}, Linux {}, {}", host.name, host.kernel, when(&digest.meta));
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places.join(" · ")
}

/// Begin by the wall clock, and how long.
fn when(meta: &Meta) -> String {
    let start = meta.start.realtime;
    if start == 0 {
        return "at an unknown time".into();
    }
    let begin = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(start);
    let length = meta.end.monotonic.saturating_sub(meta.start.monotonic);
    #[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
    let length = if meta.end.monotonic == 0 { "cut off".into() } else { text::time(length as f64) };
    format!("{}, {length}", humantime::format_rfc3339_seconds(begin))
}

fn provenance(digest: &Digest) -> Markup {
    let meta = &digest.meta;
    let host = &meta.host;
    let mut rows: Vec<(String, String)> = vec![
        ("recorded by".into(), format!("memslot {}", meta.tool)),
        ("command".into(), meta.command.join(" ")),
        ("when".into(), when(meta)),
        ("host".into(), host.name.clone()),
        ("kernel".into(), format!("{} {}", host.kernel, host.kernel_version)),
        ("CPU".into(), format!("{}, {} online", host.cpu_model, host.cpus)),
        ("runs under".into(), host.virtualised.clone().unwrap_or_else(|| "nothing: bare metal".into())),
        ("mode".into(), meta.mode.clone()),
        ("filters".into(), if meta.filters.is_empty() { "none".into() } else { meta.filters.join(" ") }),
        ("ended by".into(), meta.ended_by.clone()),
    ];
    for (probe, one) in &meta.probes {
        let functions: Vec<&str> = one.attached.iter().map(|attached| attached.function.as_str()).collect();
        let kind = attach_kind(one.attached.iter());
        rows.push((format!("probe {}", probe.name()), format!("{} by {kind}", functions.join(", "))));
        rows.extend(one.note.iter().map(|note| (format!("note on {}", probe.name()), note.clone())));
    }
    let parameters: Vec<String> =
        meta.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
    rows.push(("module parameters".into(), parameters.join(" ")));
    rows.extend(
        meta.vms.iter().map(|vm| (format!("VM {}", vm.vm.0), format!("{}, process {}", vm.name, vm.pid))),
    );
    rows.extend(
        meta.devices
            .iter()
            .map(|device| (format!("vhost device {}", device.device.0), format!("worker {}", device.worker))),
    );
    let rows = rows.into_iter().map(|(name, value)| vec![name, value]).collect();
    let table = Table { headings: vec!["what".into(), "value".into()], rows };
    html! {
        h3 { (plain(&digest.label)) }
        (table.html(&format!("Provenance of {}", digest.label), |_| None))
    }
}
