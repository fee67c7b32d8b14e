//! PLE policies against a base: the recorded exits replayed, and the table of 2012 from the simulator.

use super::Job;
use crate::chart::page::{Key, Page};
use crate::chart::palette::{self, KERNEL};
use crate::chart::rows::{Mark, Row, Rows, Section};
use crate::chart::scale::Axis;
use crate::chart::series::ple_policies::{self as series, Part};
use crate::chart::{Picture, text};
use crate::ple::UNCONFIRMED;

pub(crate) fn simulated(job: &Job<'_>) -> Picture {
    let subtitle = format!(
        "Work done by simulated VMs whose vCPUs take locks and spin, under each policy, against the first policy at the \
         same load. Bars: range of the runs. No recording: {UNCONFIRMED}."
    );
    let mut page = job.page("What PLE policies cost and gain, simulated".into(), &subtitle);
    let parts = series::simulated(job.digests);
    if parts.is_empty() {
        return job.empty(&page, "no simulation: no recording with PLE exits".into());
    }
    page.legend = vec![
        (Key::Marker(KERNEL, false), "mean of the runs".into()),
        (Key::Bar(palette::GREY), "from the lowest to the highest run".into()),
        (Key::Tick(None), "the base".into()),
    ];
    draw(job, &page, &parts, true)
}

pub(crate) fn replayed(job: &Job<'_>) -> Picture {
    let subtitle = format!(
        "Exits that each policy would have had over the recorded spins, against the first policy. Bars: what a recording \
         leaves open, for nothing tells how long a spin went on after its last exit. Unconfirmed: {UNCONFIRMED}."
    );
    let mut page = job.page("What other PLE policies would have done".into(), &subtitle);
    let parts = series::replayed(job.digests);
    if parts.is_empty() {
        return job.empty(&page, job.no_events());
    }
    if parts.iter().all(|part| part.rows.is_empty())
        && let [Part { note: Some(note), .. }] = parts.as_slice()
    {
        return job.empty(&page, note.clone());
    }
    page.legend = vec![
        (Key::Marker(KERNEL, false), "if every spin ended with its last exit".into()),
        (Key::Bar(palette::GREY), "up to almost a window more".into()),
        (Key::Tick(None), "the base".into()),
    ];
    draw(job, &page, &parts, false)
}

/// `with_work`: the rows show work done, else exits.
fn draw(job: &Job<'_>, page: &Page, parts: &[Part], with_work: bool) -> Picture {
    let (low, high) = series::range(parts);
    let columns = ["work", "exits", "in handler", "spun before exit", "boosted"];
    let rows = Rows {
        axis: Axis::signed(low, high, text::signed_percent),
        axis_name: format!("{} against the base", if with_work { "work" } else { "exits" }),
        columns: columns.iter().skip(usize::from(!with_work)).map(|name| (*name).to_owned()).collect(),
        sections: parts.iter().map(|part| section(part, with_work)).collect(),
        row_height: (34.0, 60.0),
    };
    rows.draw(page, job.size.width, job.size.height)
}

fn section(part: &Part, with_work: bool) -> Section {
    let percent = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), text::signed_percent);
    let rows = part.rows.iter().enumerate().map(|(place, row)| {
        let look = palette::numbered(place);
        let against = &row.against_base;
        let mut cells: Vec<String> =
            [against.exits, against.handler, against.spun_before_exit, against.boosted].map(percent).into();
        if with_work {
            cells.insert(0, percent(row.change));
        }
        let mut marks = vec![Mark::Tick { at: 0.0, dash: None, name: "" }];
        if let Some((from, to)) = row.range {
            marks.push(Mark::Range { from, to, thickness: 14.0, colour: look.colour, alpha: 0.35 });
        }
        marks.extend(row.change.map(|at| Mark::Point { at, look, hollow: false }));
        Row { label: row.policy.clone(), colour: look.colour, cells, marks }
    });
    Section { heading: part.heading.clone(), note: part.note.clone(), rows: rows.collect() }
}
