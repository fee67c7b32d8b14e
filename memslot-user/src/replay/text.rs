//! A replay as text for people.

use super::clock;
use super::direct::Direct;
use super::outcome::{ClassFit, EngineOutcome, Interval, LastUsedCheck, ProbeReplay, Steps};
use crate::model::Probe;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use std::fmt::Write;

/// What is said where a replay is not sound.
pub const UNSOUND: &str = "an engine answered wrongly, or the kernel searched otherwise than the model says; \
                           do not rest anything on these figures before that is understood";

/// What is said where the slope's interval holds 0.
pub const CANNOT_TELL: &str =
    "The interval of a node's cost holds 0, so this recording cannot tell what a node costs";

/// Tables and sentences, one block a probe.
#[must_use]
pub fn text(replays: &[ProbeReplay]) -> String {
    if replays.is_empty() {
        return "The recording has no faults and no translations to replay.\n".to_owned();
    }
    let mut blocks: Vec<String> = replays.iter().map(block).collect();
    if !replays.iter().all(ProbeReplay::sound) {
        blocks.push(format!("WRONG: {UNSOUND}.\n"));
    }
    blocks.join("\n")
}

fn block(replay: &ProbeReplay) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_block(&mut out, replay);
    out
}

fn write_block(out: &mut String, replay: &ProbeReplay) -> std::fmt::Result {
    let check = &replay.check;
    let (title, events) = match replay.probe {
        Probe::Translate => ("vhost region look-ups (translate_desc)", "translations"),
        _ => ("Memory-slot look-ups (kvm_mmu_page_fault)", "faults"),
    };
    writeln!(out, "{title}: {} look-ups of {} {events}", count(replay.lookups), count(check.events))?;
    write_last_used(out, &check.last_used)?;
    if check.mmio_cached > 0 {
        writeln!(
            out,
            "  {} more faults met a cached MMIO entry: no search, and no look-up of any engine.",
            count(check.mmio_cached)
        )?;
    }
    for (reason, left_out) in &replay.left_out {
        writeln!(out, "  Left out: {} ({reason}).", count(*left_out))?;
    }
    let equal = check.compared - check.visited_differ.max(check.touched_differ).min(check.compared);
    if check.compared > 0 {
        writeln!(
            out,
            "  Search lengths equal to the model of the kernel's tree: {} of {}.",
            count(equal),
            count(check.compared)
        )?;
    } else {
        writeln!(out, "  No event has a search length, so the model of the kernel's tree stays unchecked.")?;
    }
    if let Some((most, _)) = replay.observed.0.last_key_value() {
        let mean = replay.observed.mean();
        writeln!(out, "  Nodes visited by the kernel: {mean:.2} on average, {most} at most.")?;
    }
    let latency = replay.latency_ns;
    writeln!(
        out,
        "  Latency: p50 {:.0} ns, p90 {:.0} ns, p99 {:.0} ns.",
        latency.p50, latency.p90, latency.p99
    )?;
    match (&replay.fit, &replay.no_fit) {
        (Some(fit), _) => writeln!(
            out,
            "  A node costs {} ns, a call without its search {} ns\n  (95 % intervals; {} {}; lengths {} to {}).",
            interval(fit.slope),
            interval(fit.intercept),
            count(fit.events),
            check.fit_basis.as_deref().unwrap_or("events"),
            fit.range.0,
            fit.range.1
        )
        .and_then(|()| if fit.tells() { Ok(()) } else { writeln!(out, "  {CANNOT_TELL}.") })?,
        (None, Some(reason)) => writeln!(out, "  No prediction: {reason}.")?,
        (None, None) => {}
    }
    for class in &check.classes {
        write_class(out, class)?;
    }
    for note in &check.notes {
        writeln!(out, "  Note: {note}.")?;
    }
    if check.sampled < check.events {
        writeln!(
            out,
            "  Note: line, residuals and predictions rest on a sample of {} of the {} events, in blocks of \
             neighbours drawn with equal chance; all other counts are of every event.",
            count(check.sampled),
            count(check.events)
        )?;
    }
    writeln!(out, "{}", table(&replay.engines))?;
    writeln!(out, "{}", classes(&replay.engines))?;
    let extrapolates =
        |engine: &EngineOutcome| engine.predicted.is_some_and(|predicted| predicted.extrapolates);
    if replay.engines.iter().any(extrapolates) {
        writeln!(out, "  * beyond the lengths that were observed: the line is drawn out.")?;
    }
    if check.timed_lookups > 0 && check.rounds > 0 {
        writeln!(
            out,
            "  Times: this machine, warm caches, back to back; median of {} rounds of {} look-ups.",
            check.rounds,
            count(check.timed_lookups)
        )?;
    }
    check.same_clock.as_ref().map_or(Ok(()), |same_clock| out.write_str(&clock::text(replay, same_clock)))
}

/// What stood in front of the engines, and how often it answered.
fn write_last_used(out: &mut String, check: &LastUsedCheck) -> std::fmt::Result {
    let Some(rate) = check.hit_rate else { return Ok(()) };
    let whose = match check.whose.as_str() {
        "vcpu" => "A last-used slot for each vCPU, simulated, answered",
        "vm" => "A last-used slot for each VM, simulated, answered",
        "queue" => "A last-used region for each queue, simulated, answered",
        _ => "The last-used slot answered",
    };
    writeln!(
        out,
        "  {whose} {} of {} ({:.1} %); it stays in front of every engine, which sees the others only.",
        count(check.answered),
        count(check.asked),
        100.0 * rate
    )?;
    if check.compared > 0 {
        writeln!(
            out,
            "  It was the slot that the recording has in {} of {} faults.",
            count(check.agreed),
            count(check.compared)
        )?;
    }
    Ok(())
}

/// How well a class's line tells the latency of events that it has not seen.
fn write_class(out: &mut String, class: &ClassFit) -> std::fmt::Result {
    let (Some(fit), Some(left)) = (class.fit, &class.residuals) else { return Ok(()) };
    writeln!(
        out,
        "  {}: {} ns a node; of {} held out {:.1} % lie in the 95 % interval, {:+.0} to {:+.0} ns, about the line; median \
         {:+.0}.",
        class.class,
        interval(fit.slope),
        count(left.held_out),
        100.0 * left.coverage,
        left.interval.0,
        left.interval.1,
        left.median
    )
}

fn table(engines: &[EngineOutcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["engine", "look-ups", "wrong", "visited", "most", "ns a look-up", "predicted p50, ns"]);
    for engine in engines {
        let most = engine.visited.0.last_key_value().map_or(0, |(most, _)| *most);
        let predicted = engine.predicted.map_or("-".to_owned(), |predicted| {
            format!("{}{}", whole(predicted.median_ns), if predicted.extrapolates { " *" } else { "" })
        });
        table.add_row([
            engine.engine.clone(),
            count(engine.lookups),
            count(engine.mismatches),
            format!("{:.2}", engine.visited_mean),
            count(u64::from(most)),
            interval(engine.ns_per_lookup),
            predicted,
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Hits and misses apart.
fn classes(engines: &[EngineOutcome]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["engine", "class", "look-ups", "visited", "most", "ns a look-up"]);
    for (engine, class) in
        engines.iter().flat_map(|engine| engine.classes.iter().map(move |class| (engine, class)))
    {
        table.add_row([
            engine.engine.clone(),
            class.class.clone(),
            count(class.steps.lookups),
            format!("{:.2}", class.steps.visited_mean),
            count(u64::from(class.steps.visited_max)),
            interval(class.steps.ns_per_lookup),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// A replay without a recording.
#[must_use]
pub fn direct_text(direct: &Direct) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header([
        "engine",
        "wrong",
        "hits",
        "visited",
        "ns",
        "misses",
        "visited",
        "ns",
        "mmio",
        "visited",
        "ns",
        "ns a look-up",
    ]);
    let visited = |steps: &Steps| match steps.lookups {
        0 => "-".to_owned(),
        _ => format!("{:.2}, most {}", steps.visited_mean, steps.visited_max),
    };
    for engine in &direct.engines {
        table.add_row([
            engine.engine.clone(),
            count(engine.mismatches),
            count(engine.hits.lookups),
            visited(&engine.hits),
            interval(engine.hits.ns_per_lookup),
            count(engine.misses.lookups),
            visited(&engine.misses),
            interval(engine.misses.ns_per_lookup),
            count(engine.mmio.lookups),
            visited(&engine.mmio),
            interval(engine.mmio.ns_per_lookup),
            interval(engine.ns_per_lookup),
        ]);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let cache = match direct.hit_rate {
        Some(rate) => format!(
            "  The last-used slot answered {} ({:.1} %); the engines see the others.",
            count(direct.last_used_answered),
            100.0 * rate
        ),
        None => "  No last-used slot: the engines see every access.".to_owned(),
    };
    let wrong = if direct.sound() { String::new() } else { format!("WRONG: {UNSOUND}.\n") };
    let times = if direct.timed_lookups > 0 && direct.rounds > 0 {
        format!(
            "  Times: this machine, warm caches, back to back; median of {} rounds of {} look-ups.\n",
            direct.rounds,
            count(direct.timed_lookups)
        )
    } else {
        String::new()
    };
    format!(
        "{} accesses to a layout of {} slots\n{cache}\n{table}\n{times}{wrong}",
        count(direct.accesses),
        count(direct.ranges)
    )
}

pub(super) fn interval(figure: Interval) -> String {
    if figure == Interval::default() {
        return "-".to_owned();
    }
    format!("{:.1} [{:.1}, {:.1}]", figure.value, figure.low, figure.high)
}

pub(super) fn whole(figure: Interval) -> String {
    format!("{:.0} [{:.0}, {:.0}]", figure.value, figure.low, figure.high)
}

/// A count with its thousands apart.
fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::clock::{SameClock, SameClockEngine};
    use crate::replay::{Check, ClassSteps, Fit, Lengths, Prediction, Quantiles, Residuals};

    fn engine(name: &str, mismatches: u64, predicted: bool) -> EngineOutcome {
        let quantiles = Quantiles { p50: 2412.4, p90: 2600.0, p99: 3000.0 };
        let median_ns = Interval { value: 2412.4, low: 2390.0, high: 2440.6 };
        EngineOutcome {
            engine: name.to_owned(),
            probe: Probe::PageFault,
            lookups: 1_234_567,
            mismatches,
            visited_mean: 27.25,
            visited: Lengths([(1, 234_567), (53, 1_000_000)].into()),
            ns_per_lookup: Interval { value: 18.26, low: 18.0, high: 19.1 },
            classes: vec![
                class("hit", [(1, 234_567), (53, 765_433)].into(), 17.0),
                class("miss", [(53, 234_567)].into(), 0.0),
            ],
            predicted: predicted.then_some(Prediction {
                latency_ns: quantiles,
                median_ns,
                extrapolates: true,
            }),
        }
    }

    /// A class without a time was not among the look-ups that were timed.
    fn class(name: &str, lengths: std::collections::BTreeMap<u32, u64>, ns: f64) -> ClassSteps {
        let ns = if ns > 0.0 {
            Interval { value: ns, low: ns - 1.0, high: ns + 1.5 }
        } else {
            Interval::default()
        };
        ClassSteps { class: name.to_owned(), steps: Steps::new(Lengths(lengths), ns) }
    }

    fn replay() -> ProbeReplay {
        ProbeReplay {
            probe: Probe::PageFault,
            lookups: 1_234_567,
            left_out: [("ambiguous generation".to_owned(), 12), ("no layout".to_owned(), 3)].into(),
            observed: Lengths([(0, 1000), (4, 1_234_567)].into()),
            latency_ns: Quantiles { p50: 2178.0, p90: 2299.5, p99: 2346.0 },
            fit: Some(Fit {
                intercept: Interval { value: 2000.0, low: 1990.0, high: 2010.0 },
                slope: Interval { value: 25.04, low: 24.0, high: 26.0 },
                r_squared: 0.98,
                events: 1_000_000,
                range: (1, 7),
            }),
            no_fit: None,
            engines: vec![engine("linear", 0, true), engine("rbtree", 0, false)],
            check: Check {
                events: 1_235_567,
                sampled: 262_144,
                last_used: LastUsedCheck {
                    whose: "recorded".to_owned(),
                    asked: 1_235_567,
                    answered: 1000,
                    hit_rate: Some(1000.0 / 1_235_567.0),
                    ..LastUsedCheck::default()
                },
                mmio_cached: 77,
                compared: 1_235_567,
                fit_basis: Some("faults on a slot after which the guest resumed".to_owned()),
                timed_lookups: 32_768,
                rounds: 21,
                classes: vec![ClassFit {
                    class: "faults on no slot".to_owned(),
                    fit: Some(Fit {
                        intercept: Interval { value: 900.0, low: 890.0, high: 910.0 },
                        slope: Interval { value: 20.0, low: 19.0, high: 21.0 },
                        r_squared: 0.9,
                        events: 5000,
                        range: (1, 7),
                    }),
                    reason: None,
                    residuals: Some(Residuals {
                        held_out: 1000,
                        low: -60.4,
                        median: 2.0,
                        high: 390.0,
                        coverage: 0.941,
                        interval: (-60.4, 410.0),
                        by_length: Vec::new(),
                    }),
                }],
                notes: vec!["faults.arrow was cut off; its whole batches were read".to_owned()],
                ..Check::default()
            },
        }
    }

    #[test]
    fn a_replay_reads_like_this() {
        let expected = "\
Memory-slot look-ups (kvm_mmu_page_fault): 1,234,567 look-ups of 1,235,567 faults
  The last-used slot answered 1,000 of 1,235,567 (0.1 %); it stays in front of every engine, which sees the others only.
  77 more faults met a cached MMIO entry: no search, and no look-up of any engine.
  Left out: 12 (ambiguous generation).
  Left out: 3 (no layout).
  Search lengths equal to the model of the kernel's tree: 1,235,567 of 1,235,567.
  Nodes visited by the kernel: 4.00 on average, 4 at most.
  Latency: p50 2178 ns, p90 2300 ns, p99 2346 ns.
  A node costs 25.0 [24.0, 26.0] ns, a call without its search 2000.0 [1990.0, 2010.0] ns
  (95 % intervals; 1,000,000 faults on a slot after which the guest resumed; lengths 1 to 7).
  faults on no slot: 20.0 [19.0, 21.0] ns a node; of 1,000 held out 94.1 % lie in the 95 % interval, -60 to +410 ns, about the line; median +2.
  Note: faults.arrow was cut off; its whole batches were read.
  Note: line, residuals and predictions rest on a sample of 262,144 of the 1,235,567 events, in blocks of neighbours drawn with equal chance; all other counts are of every event.
| engine |  look-ups | wrong | visited | most |      ns a look-up |   predicted p50, ns |
|--------|-----------|-------|---------|------|-------------------|---------------------|
| linear | 1,234,567 |     0 |   27.25 |   53 | 18.3 [18.0, 19.1] | 2412 [2390, 2441] * |
| rbtree | 1,234,567 |     0 |   27.25 |   53 | 18.3 [18.0, 19.1] |                   - |
| engine | class |  look-ups | visited | most |      ns a look-up |
|--------|-------|-----------|---------|------|-------------------|
| linear | hit   | 1,000,000 |   40.80 |   53 | 17.0 [16.0, 18.5] |
| linear | miss  |   234,567 |   53.00 |   53 |                 - |
| rbtree | hit   | 1,000,000 |   40.80 |   53 | 17.0 [16.0, 18.5] |
| rbtree | miss  |   234,567 |   53.00 |   53 |                 - |
  * beyond the lengths that were observed: the line is drawn out.
  Times: this machine, warm caches, back to back; median of 21 rounds of 32,768 look-ups.
";
        assert_eq!(text(&[replay()]), expected);
    }

    #[test]
    fn the_two_predictions_are_told_apart() {
        let mut replay = replay();
        let engine = |name: &str, p50| SameClockEngine {
            engine: name.to_owned(),
            ns_per_lookup: Interval { value: 95.5, low: 95.5, high: 96.0 },
            predicted: Some(Prediction {
                latency_ns: Quantiles { p50, p90: p50, p99: p50 },
                median_ns: Interval { value: p50, low: p50 - 9.0, high: p50 + 9.0 },
                extrapolates: false,
            }),
        };
        let engines = vec![engine("linear", 2250.0), engine("rbtree", 2190.0)];
        replay.check.same_clock = Some(SameClock { exact: true, tool: "0.1.0".to_owned(), engines });
        let slope = replay.fit.as_mut().unwrap();
        slope.slope.low = -1.0;
        let expected = "\
  Times: this machine, warm caches, back to back; median of 21 rounds of 32,768 look-ups.
  The engines by the recording's clock, which counts instructions (timed by memslot 0.1.0):
| engine | ns a look-up, recording's clock | predicted p50, same clock, ns |
|--------|---------------------------------|-------------------------------|
| linear |               95.5 [95.5, 96.0] |             2250 [2241, 2259] |
| rbtree |               95.5 [95.5, 96.0] |             2190 [2181, 2199] |
  Above, a prediction gives the engine's nodes the cost of the kernel's; here it gives the engine's search its own time:
  observed, less the kernel's nodes at their cost, plus the engine's search.
  The kernel's own structure, rbtree, comes out +12 ns from what was observed: so far off is the method; compare the others with it.
";
        let said = text(&[replay]);
        assert!(said.ends_with(expected), "{said}");
        assert!(
            said.contains("  The interval of a node's cost holds 0, so this recording cannot tell"),
            "{said}"
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        let mut wrong = replay();
        wrong.engines[1] = engine("wbtree", 2, false);
        wrong.fit = None;
        wrong.no_fit = Some("no event searched".to_owned());
        let said = text(&[wrong]);
        assert!(said.ends_with("before that is understood.\n"), "{said}");
        assert!(said.contains("No prediction: no event searched."), "{said}");
        let mut differs = replay();
        differs.check.visited_differ = 5;
        differs.check.touched_differ = 7;
        let said = text(&[differs]);
        assert!(said.contains("WRONG: "), "{said}");
        assert!(said.contains("1,235,560 of 1,235,567"), "{said}");
        assert!(text(&[]).contains("no faults and no translations"));
    }

    #[test]
    fn thousands_stand_apart() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), expected);
        }
    }
}
