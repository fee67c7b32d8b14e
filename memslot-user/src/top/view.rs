//! The screen, drawn.

use super::app::App;
use super::bins;
use super::rows::{By, Row, Sort, searches};
use crate::chart::text::{count, figure, share, time};
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as TableRow, Table, TableState};

/// Lines of the histogram with its frame.
const PANE: u16 = 14;

const HELP: &[(&str, &str)] = &[
    ("v c u, Tab", "by VM and device, by vCPU, by queue"),
    ("s > <", "sort by another column"),
    ("r", "the other way round"),
    ("/", "show only rows that hold a text (Esc: all)"),
    ("t", "last interval, or since the start"),
    ("p, Space", "pause, go on; nothing is lost meanwhile"),
    ("g, Enter", "histogram of the selected row"),
    ("j k, arrows", "select a row"),
    ("q, Ctrl-C", "quit"),
];

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, app: &App) {
    let rows = app.rows();
    let pane = if app.histogram { PANE.min(frame.area().height / 2) } else { 0 };
    let parts = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(pane),
        Constraint::Length(1),
    ]);
    let [head, table, histogram, foot] = parts.areas(frame.area());
    frame.render_widget(Paragraph::new(heading(app)), head);
    draw_table(frame, app, &rows, table);
    if app.histogram {
        draw_histogram(frame, app, rows.get(app.selected), histogram);
    }
    frame.render_widget(Paragraph::new(footer(app)), foot);
    if app.help {
        draw_help(frame, app);
    }
}

fn style(app: &App, colour: Color) -> Style {
    if app.colour { Style::new().fg(colour) } else { Style::new() }
}

fn heading(app: &App) -> Vec<Line<'static>> {
    let shown = app.shown();
    let calls: u64 = shown.counted.values().map(|figures| figures.latency.count()).sum();
    #[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
    let (rate, span) = (calls as f64 * 1e9 / shown.span.max(1) as f64, shown.span as f64);
    let scope = if app.total { "since the start" } else { "interval" };
    let mut second = vec![Span::raw(format!("{scope} {}   {} calls/s   ", time(span), figure(rate)))];
    let lost = format!("{} lost since the start", count(app.lost()));
    let alarm = style(app, Color::Red).add_modifier(Modifier::BOLD);
    second.push(if app.lost() > 0 { Span::styled(lost, alarm) } else { Span::raw(lost) });
    for (is_so, word) in [(app.paused, "PAUSED"), (app.ended, "ENDED")] {
        if is_so {
            second.push(Span::raw("   "));
            second.push(Span::styled(word, style(app, Color::Yellow).add_modifier(Modifier::REVERSED)));
        }
    }
    let title = Span::styled("memslot top", Style::new().add_modifier(Modifier::BOLD));
    let by = match app.by {
        By::Vm => "by VM and device, every call".to_owned(),
        By::Vcpu | By::Queue => {
            let what = if app.by == By::Vcpu { "vCPU" } else { "queue" };
            match shown.every {
                0 => format!("by {what}: needs --mode sample:N or events"),
                1 => format!("by {what}, every call"),
                every => format!("by {what}, from one call in {}", count(every.into())),
            }
        }
    };
    vec![Line::from(vec![title, Span::raw(format!("   {}   {by}", app.title))]), Line::from(second)]
}

fn draw_table(frame: &mut Frame<'_>, app: &App, rows: &[Row], place: Rect) {
    let names = ["", "CALLS/S", "P50", "P99", "MAX", "NODES", "HITS", "WINDOW", "LOST"];
    let of = match app.by {
        By::Vm => "VM OR DEVICE",
        By::Vcpu => "VM/VCPU",
        By::Queue => "DEVICE/QUEUE",
    };
    let mark = if app.reversed { "▲" } else { "▼" };
    let heading = |sort: Sort, name: &str| {
        let name = if name.is_empty() { of } else { name };
        let is_sorted = sort == app.sort;
        let text = if is_sorted { format!("{name}{mark}") } else { name.to_owned() };
        let look =
            if is_sorted { style(app, Color::Cyan).add_modifier(Modifier::BOLD) } else { Style::new() };
        let side = if sort == Sort::Name { Alignment::Left } else { Alignment::Right };
        Cell::from(Line::from(text).alignment(side)).style(look)
    };
    let mut headings: Vec<Cell<'_>> =
        Sort::ALL.into_iter().zip(names).map(|(sort, name)| heading(sort, name)).collect();
    headings.insert(1, Cell::from("FUNCTION"));
    let widths = [
        Constraint::Min(14),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(6),
        Constraint::Length(7),
        Constraint::Length(13),
        Constraint::Length(7),
    ];
    let lines = rows.iter().map(|row| line(app, row));
    let table = Table::new(lines, widths)
        .header(TableRow::new(headings).style(Style::new().add_modifier(Modifier::UNDERLINED)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected((!rows.is_empty()).then_some(app.selected));
    frame.render_stateful_widget(table, place, &mut state);
    if rows.is_empty() {
        let words = if app.filter.is_empty() { "no call yet" } else { "no row holds the filter's text" };
        let below = Rect { y: place.y + 1, height: place.height.saturating_sub(1), ..place };
        frame.render_widget(Paragraph::new(words), below);
    }
}

fn line<'a>(app: &App, row: &Row) -> TableRow<'a> {
    let none = || "–".to_owned();
    let latency = |of: fn(&crate::report::summary::Latency) -> f64| {
        row.latency.as_ref().map_or_else(none, |latency| time(of(latency)))
    };
    #[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
    let max = latency(|latency| latency.max as f64);
    let window = row.window.map_or_else(none, |window| {
        if window.low == window.high {
            count(window.last.into())
        } else {
            format!("{}–{}", window.low, window.high)
        }
    });
    let figures = [
        format!("{}{}", if row.estimated { "~" } else { "" }, figure(row.rate)),
        latency(|latency| latency.p50),
        latency(|latency| latency.p99),
        max,
        row.nodes.filter(|_| searches(row.key.probe)).map_or_else(none, figure),
        row.hits.map_or_else(none, share),
        window,
        count(row.lost),
    ];
    let alarm = row.lost > 0;
    let mut cells = vec![Cell::from(row.name.clone()), Cell::from(row.key.probe.name())];
    for (place, text) in figures.into_iter().enumerate() {
        let cell = Cell::from(Line::from(text).alignment(Alignment::Right));
        cells.push(if alarm && place == 7 { cell.style(style(app, Color::Red)) } else { cell });
    }
    TableRow::new(cells)
}

fn draw_histogram(frame: &mut Frame<'_>, app: &App, row: Option<&Row>, place: Rect) {
    let title = row.map_or_else(
        || "no row".to_owned(),
        |row| format!("{} {}: latency of {} calls", row.name, row.key.probe.name(), count(row.calls)),
    );
    let block = Block::bordered().title(title);
    let inside = block.inner(place);
    frame.render_widget(block, place);
    let Some(figures) = row.and_then(|row| app.figures(row)) else { return };
    let bins = bins::of(&figures.latency, inside.height.into());
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0).max(1);
    // From, to, count; the bar has the rest.
    let room = u64::from(inside.width.saturating_sub(34));
    let lines: Vec<Line<'_>> = bins
        .iter()
        .map(|bin| {
            #[expect(clippy::cast_precision_loss, reason = "shown to three digits")]
            let (from, to) = (time(bin.from as f64), time(bin.to as f64));
            // Something is never nothing.
            let eighths = (u128::from(bin.count) * u128::from(room) * 8).div_ceil(u128::from(most));
            let words = format!("{from:>9} – {to:>9} {:>10} ", count(bin.count));
            let bar = bar(usize::try_from(eighths).unwrap_or(0));
            Line::from(vec![Span::raw(words), Span::styled(bar, style(app, Color::Cyan))])
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), inside);
}

/// A bar of so many eighths of a cell.
fn bar(eighths: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

fn footer(app: &App) -> Line<'static> {
    if app.editing {
        return Line::from(vec![
            Span::raw("rows that hold: "),
            Span::styled(app.filter.clone(), Style::new().add_modifier(Modifier::BOLD)),
            Span::raw("▏  Enter keeps it, Esc shows all"),
        ]);
    }
    let filter =
        if app.filter.is_empty() { String::new() } else { format!("   rows that hold \"{}\"", app.filter) };
    Line::from(format!(
        "q quit  ? help  Tab by  s sort  r reverse  / filter  p pause  g histogram  t total{filter}"
    ))
}

fn draw_help(frame: &mut Frame<'_>, app: &App) {
    let area = frame.area();
    let lines = u16::try_from(HELP.len()).unwrap_or(0) + 8;
    let (width, height) = (area.width.min(72), area.height.min(lines));
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, place);
    let keys = HELP.iter().map(|(key, what)| {
        Line::from(vec![Span::styled(format!(" {key:<13}"), style(app, Color::Cyan)), Span::raw(*what)])
    });
    let words = [
        "",
        " NODES   mean number of nodes that a search visits",
        " HITS    searches for RAM that the last-used slot answered",
        " WINDOW  PLE windows seen: PAUSEs (AMD) or cycles (Intel)",
        " LOST    calls that are missing from the figures",
        " ~       from a sample of the calls, times its rate",
    ];
    let text: Vec<Line<'_>> = keys.chain(words.into_iter().map(Line::from)).collect();
    frame.render_widget(Paragraph::new(text).block(Block::bordered().title("memslot top: keys")), place);
}
