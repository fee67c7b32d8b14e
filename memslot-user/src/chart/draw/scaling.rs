//! What grows with the number of slots or regions, or from recording to recording.

use super::{Job, engine_look, engine_name, time_axis};
use crate::chart::Picture;
use crate::chart::page::{Key, SMALL};
use crate::chart::palette::{BLACK, Look, Marker};
use crate::chart::panels::{Item, Panel, Panels};
use crate::chart::scale::Axis;
use crate::chart::series::scaling::{self, Places, Series};
use crate::model::Probe;

/// Looks of the observed quantiles.
const OBSERVED: [(&str, Look); 3] = [
    ("observed p50", Look { colour: BLACK, shape: Marker::Circle, dash: None }),
    ("observed p90", Look { colour: BLACK, shape: Marker::Diamond, dash: Some((8.0, 4.0)) }),
    ("observed p99", Look { colour: BLACK, shape: Marker::Up, dash: Some((2.0, 4.0)) }),
];

pub(crate) fn draw(job: &Job<'_>) -> Picture {
    let things = if job.probe == Probe::PageFault { "slots" } else { "regions" };
    let Some(series) = scaling::series(job.digests, job.probe) else {
        let page = job.page(format!("{} compared", capital(job.subject())), "");
        let several = job.digests.iter().filter(|digest| digest.probe(job.probe).visited.total() > 0).count();
        let words = match several {
            0 => job.no_events(),
            _ => "nothing to compare: this needs two recordings or more with searches".into(),
        };
        return job.empty(&page, words);
    };
    let (title, x_name) = match &series.places {
        Places::Sizes(_) => (
            format!("What more {things} cost {}", job.subject()),
            format!("number of {things} (logarithmic)"),
        ),
        Places::Names(_) => {
            (format!("{} compared, recording by recording", capital(job.subject())), "recording".into())
        }
    };
    let mut page = job.page(
        title,
        "Left: nodes that a look-up visits on average, in the kernel and with each engine. Middle: time of one \
         look-up of each engine on the replaying machine, with 95 % intervals. Right: observed latency of the \
         calls that searched.",
    );
    let engines = series.visited.iter().map(|line| line.engine.as_deref());
    page.legend = engines.map(|engine| (Key::Series(engine_look(engine)), engine_name(engine))).collect();
    page.legend.extend(OBSERVED.map(|(name, look)| (Key::Series(look), name.to_owned())));
    let x = match &series.places {
        Places::Sizes(sizes) => {
            Axis::number(sizes.first().copied().unwrap_or(1), sizes.last().copied().unwrap_or(1))
                .at_values(sizes)
        }
        Places::Names(names) => {
            #[expect(clippy::cast_precision_loss, reason = "a number of recordings")]
            let room = (f64::from(job.size.width) / 3.0 - 120.0) / names.len() as f64;
            let names: Vec<String> = names.iter().map(|name| SMALL.fit(name, room.max(110.0))).collect();
            Axis::names(&names)
        }
    };
    let panels = [visited(&series), lookup(&series), latency(&series)]
        .into_iter()
        .map(|panel| Panel { x: x.clone(), x_name: x_name.clone(), ..panel })
        .collect();
    Panels { panels, columns: 3, least_height: 520.0 }.draw(&page, job.size.width, job.size.height)
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

fn panel(heading: &str, y_name: &str, y: Axis, items: Vec<Item>, nothing: &str) -> Panel {
    Panel {
        heading: heading.into(),
        note: items.is_empty().then(|| nothing.to_owned()),
        x: Axis::names(&[]),
        x_name: String::new(),
        y,
        y_name: y_name.into(),
        items,
    }
}

fn visited(series: &Series) -> Panel {
    let highest =
        series.visited.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a saturating cast")]
    let axis = Axis::length(highest.ceil() as u32);
    let items = series.visited.iter().map(|line| Item::Line {
        points: line.points.clone(),
        look: engine_look(line.engine.as_deref()),
        width: 2.5,
        marked: true,
    });
    panel("Search length", "mean nodes visited (logarithmic, from 0)", axis, items.collect(), "no searches")
}

fn lookup(series: &Series) -> Panel {
    let all = || series.lookup.iter().flat_map(|line| &line.points);
    let low = all().map(|(_, time)| time.low.min(time.value)).fold(f64::MAX, f64::min);
    let high = all().map(|(_, time)| time.high.max(time.value)).fold(1.0, f64::max);
    let mut items = Vec::new();
    for line in &series.lookup {
        let look = engine_look(line.engine.as_deref());
        let intervals = line.points.iter().map(|(at, time)| Item::Interval {
            at: *at,
            low: time.low,
            high: time.high,
            colour: look.colour,
        });
        items.extend(intervals);
        let points = line.points.iter().map(|(at, time)| (*at, time.value)).collect();
        items.push(Item::Line { points, look, width: 2.5, marked: true });
    }
    let nothing = "not replayed: no engine was timed";
    panel("Look-up time", "time of one look-up (logarithmic)", time_axis(low.min(high), high), items, nothing)
}

fn latency(series: &Series) -> Panel {
    let all = || series.latency.iter().flatten().map(|point| point.1);
    let axis = time_axis(all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    let items = series.latency.iter().zip(OBSERVED).map(|(points, (_, look))| Item::Line {
        points: points.clone(),
        look,
        width: 2.5,
        marked: true,
    });
    panel("Latency in the kernel", "latency of one call (logarithmic)", axis, items.collect(), "no searches")
}
