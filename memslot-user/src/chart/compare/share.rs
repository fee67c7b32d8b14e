//! Share of the vCPUs' or workers' time that the function takes.

use super::{Job, SIDES};
use crate::chart::rows::{Mark, Row as ChartRow, Rows, Section};
use crate::chart::scale::Axis;
use crate::chart::{Picture, text};
use crate::compare::{Row, sized};
use crate::model::Probe;

pub(super) fn draw(job: &Job<'_>) -> Option<Picture> {
    let rows: Vec<&Row> = job
        .comparison
        .comparisons
        .iter()
        .filter(|row| row.probe == job.probe && row.figure == "share_of_time")
        .collect();
    let most =
        rows.iter().flat_map(|row| [row.before, row.after]).flatten().map(|one| one.high).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let threads = if job.probe == Probe::Translate { "vhost workers" } else { "vCPU threads" };
    let page = job.page(
        format!("Share of their time that {threads} spend in {}", job.subject()),
        "Sum of the latencies against the time from a thread's first call to the end of its last; median over runs, \
         with 95 % intervals.",
    );
    let sections = rows.iter().map(|row| Section {
        heading: sized(job.probe, row.size),
        note: None,
        rows: [row.before, row.after]
            .into_iter()
            .zip(SIDES)
            .filter_map(|(one, (name, look))| {
                let one = one?;
                let bar = Mark::Range {
                    from: 0.0,
                    to: one.value,
                    thickness: 22.0,
                    colour: look.colour,
                    alpha: 0.6,
                };
                let interval = Mark::Range {
                    from: one.low,
                    to: one.high,
                    thickness: 4.0,
                    colour: look.colour,
                    alpha: 1.0,
                };
                let cells = vec![format!("{} %", text::figure(one.value * 100.0))];
                Some(ChartRow { label: name.into(), colour: look.colour, cells, marks: vec![bar, interval] })
            })
            .collect(),
    });
    let chart = Rows {
        axis: Axis::even(most, text::share),
        axis_name: "share of time".into(),
        columns: vec!["share".into()],
        sections: sections.collect(),
        row_height: (34.0, 60.0),
    };
    Some(chart.draw(&page, job.size.width, job.size.height))
}
