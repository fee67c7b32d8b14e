//! The rows as a table for people, once.

use super::rows::{Row, searches};
use super::source::Tick;
use crate::chart::text::{count, figure, share, time};
use crate::report::tables::table;

/// The rows with their headings, and what was lost.
#[must_use]
pub fn table_of(rows: &[Row], tick: &Tick) -> String {
    let mut table = table(
        &["whose", "probe"],
        &["calls", "calls/s", "p50", "p99", "max", "nodes", "last-used hits", "window", "lost"],
    );
    let none = || "–".to_owned();
    for row in rows {
        let [p50, p99] = [
            |row: &Row| row.latency.map(|latency| latency.p50),
            |row: &Row| row.latency.map(|latency| latency.p99),
        ]
        .map(|of| of(row).map_or_else(none, time));
        let about = if row.estimated { "~" } else { "" };
        #[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
        let max = row.latency.map_or_else(none, |latency| time(latency.max as f64));
        table.add_row([
            row.name.clone(),
            row.key.probe.name().to_owned(),
            format!("{about}{}", count(row.calls)),
            format!("{about}{}", figure(row.rate)),
            p50,
            p99,
            max,
            row.nodes.filter(|_| searches(row.key.probe)).map_or_else(none, figure),
            row.hits.map_or_else(none, share),
            row.window.map_or_else(none, |window| format!("{}–{}", window.low, window.high)),
            count(row.lost),
        ]);
    }
    #[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
    let span = time(tick.span as f64);
    let body = if rows.is_empty() { "no call\n".to_owned() } else { table.trim_fmt() + "\n" };
    format!("In {span}, {} lost\n{body}", count(tick.lost()))
}
