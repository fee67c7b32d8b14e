//! Tables for people.

use super::summary::{Latency, Lost, attach_kind};
use crate::chart::text::{count, figure, share, time};
use crate::digest::{Digest, Source};
use crate::model::Probe;
use crate::replay::{EngineOutcome, Lengths};
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};

/// All tables of some recordings, with a heading each; those without rows are left out.
#[must_use]
pub fn all(digests: &[Digest]) -> String {
    let parts = sections(digests)
        .into_iter()
        .filter(|(_, table)| !table.is_empty())
        .map(|(heading, table)| format!("{heading}\n{}\n", table.trim_fmt()));
    let notes = notes(digests);
    let notes = (!notes.is_empty()).then(|| format!("Notes\n  {}\n", notes.join("\n  ")));
    parts.chain(notes).collect::<Vec<_>>().join("\n")
}

/// The tables with their headings, those without rows included.
#[must_use]
pub fn sections(digests: &[Digest]) -> [(&'static str, Table); 6] {
    [
        ("Probes", probes(digests)),
        ("Latency by kind of call", kinds(digests)),
        ("Time on a CPU", on_cpu(digests)),
        ("Search length in the kernel (nodes visited)", search_lengths(digests)),
        ("Engines over the same look-ups", engines(digests)),
        ("Yields of PLE exits", yields(digests)),
    ]
}

/// One line under the headings and none between rows: figures are compared down a column.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// A table of names at the left and figures at the right.
pub(crate) fn table(names: &[&str], figures: &[&str]) -> Table {
    let mut table = Table::new();
    // The same text in a terminal, a file and a test.
    table.load_style(STYLE).force_no_tty();
    table.set_header(names.iter().chain(figures).copied());
    for place in names.len()..names.len() + figures.len() {
        if let Some(column) = table.column_mut(place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

fn each(digests: &[Digest]) -> impl Iterator<Item = (&Digest, Probe)> {
    digests.iter().flat_map(|digest| Probe::ALL.map(|probe| (digest, probe)))
}

pub(super) fn quantiles(latency: Option<Latency>) -> [String; 3] {
    latency.map_or_else(
        || ["–", "–", "–"].map(str::to_owned),
        |latency| [latency.p50, latency.p90, latency.p99].map(time),
    )
}

/// By recording and probe: how it was attached, calls, losses, latency.
#[must_use]
pub fn probes(digests: &[Digest]) -> Table {
    let mut table = table(
        &["recording", "probe", "attached"],
        &["entries", "returns", "counted", "events", "lost", "p50", "p90", "p99"],
    );
    for (digest, probe) in each(digests) {
        let figures = digest.probe(probe);
        let latency = &figures.latency;
        let meta = digest.probe_meta(probe);
        if meta.is_none() && latency.count() == 0 {
            continue;
        }
        let attached = meta.map_or_else(|| "unknown".into(), |meta| attach_kind(meta.attached.iter()));
        let account = meta.map(|meta| meta.account).unwrap_or_default();
        let lost = Lost::new(&account, figures.events);
        let head = [digest.label.clone(), probe.name().to_owned(), attached];
        let whole =
            meta.is_none_or(|meta| meta.is_whole(digest.meta.max_lost)) && lost.total <= digest.meta.max_lost;
        let counts = [
            count(account.entries),
            count(account.returns),
            // A recording of version 1 has no histograms.
            meta.and_then(|meta| meta.counted).map_or_else(|| "–".into(), |_| count(figures.counted)),
            count(figures.events),
            count(lost.total) + if whole { "" } else { " incomplete" },
        ];
        table.add_row(head.into_iter().chain(counts).chain(quantiles(Latency::new(latency))));
    }
    table
}

/// By recording and kind of call: its share and latency.
#[must_use]
pub fn kinds(digests: &[Digest]) -> Table {
    let mut table = table(&["recording", "probe", "kind"], &["calls", "share", "p50", "p90", "p99", "max"]);
    for (digest, probe) in each(digests) {
        let figures = digest.probe(probe);
        for (group, sample) in &figures.by_group {
            let Some(latency) = Latency::new(sample) else { continue };
            let head = [digest.label.clone(), probe.name().to_owned(), group.name().to_owned()];
            let counts = [count(latency.count), part(latency.count, figures.latency.count())];
            #[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
            let max = [time(latency.max as f64)];
            table.add_row(head.into_iter().chain(counts).chain(quantiles(Some(latency))).chain(max));
        }
    }
    table
}

/// By recording and probe: how much of the latency the task was on a CPU.
#[must_use]
pub fn on_cpu(digests: &[Digest]) -> Table {
    let mut table = table(
        &["recording", "probe"],
        &["calls", "wall p50", "p90", "p99", "on CPU p50", "p90", "p99", "off CPU"],
    );
    for (digest, probe) in each(digests) {
        let figures = digest.probe(probe);
        let (wall, on_cpu) = (Latency::new(&figures.latency), Latency::new(&figures.on_cpu));
        let (Some(wall), Some(on_cpu)) = (wall, on_cpu) else { continue };
        let head = [digest.label.clone(), probe.name().to_owned(), count(on_cpu.count)];
        let away = if wall.mean > 0.0 {
            share((wall.mean - on_cpu.mean).max(0.0) / wall.mean)
        } else {
            "–".into()
        };
        let times = quantiles(Some(wall)).into_iter().chain(quantiles(Some(on_cpu)));
        table.add_row(head.into_iter().chain(times).chain([away]));
    }
    table
}

pub(super) fn part(count: u64, total: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown as per cent")]
    share(count as f64 / total.max(1) as f64)
}

/// By recording and probe: how far the kernel searched.
#[must_use]
pub fn search_lengths(digests: &[Digest]) -> Table {
    let mut table = table(
        &["recording", "probe"],
        &["slots or regions", "searches", "last used", "mean", "p50", "p99", "max", "unknown"],
    );
    for (digest, probe) in each(digests) {
        let figures = digest.probe(probe);
        let searches = figures.visited.total();
        if searches + figures.unknown_length == 0 {
            continue;
        }
        let size = digest.size(probe).map_or_else(|| "–".into(), count);
        let last_used = match probe {
            Probe::PageFault => part(figures.visited.0.get(&0).copied().unwrap_or(0), searches),
            Probe::Ple | Probe::Translate => "–".into(),
        };
        let [p50, p99, max] = [500, 990, 1000].map(|q| length(&figures.visited, q));
        let unknown = count(figures.unknown_length);
        let mean = figure(figures.visited.mean());
        let head = [digest.label.clone(), probe.name().to_owned()];
        table.add_row(head.into_iter().chain([
            size,
            count(searches),
            last_used,
            mean,
            p50,
            p99,
            max,
            unknown,
        ]));
    }
    table
}

fn length(lengths: &Lengths, per_mille: u32) -> String {
    lengths.quantile(per_mille).map_or_else(|| "–".into(), |length| count(length.into()))
}

/// By recording, probe and engine: how far it searched, and what it cost and would cost.
#[must_use]
pub fn engines(digests: &[Digest]) -> Table {
    let mut table = table(
        &["recording", "probe", "engine"],
        &["look-ups", "mismatches", "mean", "p99", "max", "ns a look-up", "predicted p50"],
    );
    for digest in digests {
        for engine in digest.replays.iter().flat_map(|replay| &replay.engines) {
            let head = [digest.label.clone(), engine.probe.name().to_owned(), engine.engine.clone()];
            table.add_row(head.into_iter().chain(engine_cells(engine)));
        }
    }
    table
}

fn engine_cells(engine: &EngineOutcome) -> [String; 7] {
    let cost = engine.ns_per_lookup;
    let predicted = engine.predicted.map_or_else(
        || "–".into(),
        |prediction| {
            let mark = if prediction.extrapolates { " *" } else { "" };
            time(prediction.latency_ns.p50) + mark
        },
    );
    [
        count(engine.lookups),
        count(engine.mismatches),
        figure(engine.visited_mean),
        length(&engine.visited, 990),
        length(&engine.visited, 1000),
        format!("{} ({}–{})", figure(cost.value), figure(cost.low), figure(cost.high)),
        predicted,
    ]
}

/// By recording: what the yields of its PLE exits came to.
#[must_use]
pub fn yields(digests: &[Digest]) -> Table {
    let mut table = table(&["recording"], &["exits", "yields", "boosted", "declined", "undercommitted"]);
    for digest in digests.iter().filter(|digest| digest.ple.latency.count() > 0) {
        let all = digest.yields;
        let shares = [all.boosted, all.declined, all.undercommit].map(|outcome| part(outcome, all.tried));
        let counts = [count(digest.ple.latency.count()), count(all.tried)];
        table.add_row([digest.label.clone()].into_iter().chain(counts).chain(shares));
    }
    table
}

/// What a reader must know besides: losses by reason, probes not attached, missing fits.
#[must_use]
pub fn notes(digests: &[Digest]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (digest, probe) in each(digests) {
        let of = format!("{}, {}", digest.label, probe.name());
        if let Some(meta) = digest.probe_meta(probe) {
            let figures = digest.probe(probe);
            let lost = Lost::new(&meta.account, figures.events);
            for (reason, number) in lost.reasons() {
                lines.push(format!("{of}: lost, {reason}: {}", count(number)));
            }
            if meta.residual() > 0 {
                lines.push(format!("{of}: the account does not close by {}", count(meta.residual())));
            }
            if meta.account.filtered > 0 {
                lines.push(format!("{of}: filtered out: {}", count(meta.account.filtered)));
            }
            if figures.source == Source::Histogram {
                let (events, counted) = (count(figures.events), count(figures.counted));
                lines.push(format!(
                    "{of}: from the histograms of {counted} calls; {events} of them are events"
                ));
            }
            lines.extend(meta.note.iter().map(|note| format!("{of}: {note}")));
        }
        if let Some(replay) = digest.replay(probe) {
            for (reason, number) in &replay.left_out {
                lines.push(format!("{of}: left out of the replay, {reason}: {}", count(*number)));
            }
            lines.extend(replay.no_fit.iter().map(|reason| format!("{of}: no prediction: {reason}")));
        }
    }
    for digest in digests.iter().filter(|digest| !digest.meta.complete) {
        lines.push(format!("{}: the recording was cut off; what was written is read", digest.label));
    }
    let extrapolates = digests
        .iter()
        .flat_map(|digest| &digest.replays)
        .flat_map(|replay| &replay.engines)
        .any(|engine| engine.predicted.is_some_and(|prediction| prediction.extrapolates));
    if extrapolates {
        lines.push("* extrapolates: the engine's searches are longer or shorter than any observed".into());
    }
    lines
}
