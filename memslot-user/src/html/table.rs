//! Tables that can be sorted: the same cells as on the terminal, each figure with its value.

use super::plain;
use maud::{Markup, html};

/// Headings and rows.
pub(super) struct Table {
    pub(super) headings: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Table {
    /// From a table as the terminal shows it.
    pub(super) fn of(table: &comfy_table::Table) -> Self {
        let cells = |row: &comfy_table::Row| row.cell_iter().map(|cell| cell.content()).collect();
        Self {
            headings: table.header().map(cells).unwrap_or_default(),
            rows: table.row_iter().map(cells).collect(),
        }
    }

    /// A column of figures: each has a value or is a dash, and one has a value.
    fn is_figures(&self, column: usize) -> bool {
        let cells = || self.rows.iter().filter_map(|row| row.get(column));
        cells().all(|cell| value(cell).is_some() || cell == "–" || cell.is_empty())
            && cells().any(|cell| value(cell).is_some())
    }

    /// As HTML; `mark` says which cells are good or bad.
    pub(super) fn html(&self, caption: &str, mark: impl Fn(&str) -> Option<&'static str>) -> Markup {
        let figures: Vec<bool> = (0..self.headings.len()).map(|column| self.is_figures(column)).collect();
        let is_figure = |column: usize| figures.get(column).copied().unwrap_or(false);
        html! {
            div.table {
                table aria-label=(plain(caption)) {
                    thead { tr {
                        @for (column, heading) in self.headings.iter().enumerate() {
                            th.figure[is_figure(column)] scope="col" aria-sort="none" {
                                button type="button" { (plain(heading)) }
                            }
                        }
                    } }
                    tbody {
                        @for row in &self.rows { tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @let number = value(cell).filter(|_| is_figure(column));
                                @let class = class(is_figure(column), mark(cell));
                                td class=[class] data-v=[number] { (plain(cell)) }
                            }
                        } }
                    }
                }
            }
        }
    }
}

fn class(is_figure: bool, mark: Option<&'static str>) -> Option<String> {
    let classes: Vec<&str> = is_figure.then_some("figure").into_iter().chain(mark).collect();
    (!classes.is_empty()).then(|| classes.join(" "))
}

/// The value of a figure as it is written: times in ns, shares in per cent.
fn value(cell: &str) -> Option<f64> {
    let cell = cell.trim().trim_start_matches(['<', '>', '+']);
    let (sign, cell) = match cell.strip_prefix(['−', '-']) {
        Some(rest) => (-1.0, rest),
        None => (1.0, cell),
    };
    let end = cell.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(cell.len());
    let (digits, rest) = cell.split_at(end);
    let number: f64 = digits.replace(',', "").parse().ok()?;
    let mut words = rest.split_whitespace();
    let scale = match words.next() {
        // A name that begins with a digit is no figure.
        Some(_) if !rest.starts_with([' ', '\u{a0}']) => return None,
        Some("µs") => 1e3,
        Some("ms") => 1e6,
        Some("s") => 1e9,
        _ => 1.0,
    };
    Some(sign * number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_value_that_they_show() {
        for (cell, number) in [
            ("824 ns", Some(824.0)),
            ("4.05 µs", Some(4050.0)),
            ("1,235 s", Some(1.235e12)),
            ("5.05 µs *", Some(5050.0)),
            ("6.16 (5.91–6.4)", Some(6.16)),
            ("<0.1 %", Some(0.1)),
            ("+12.3 %", Some(12.3)),
            ("−3 %", Some(-3.0)),
            ("1,104 incomplete", Some(1104.0)),
            ("–", None),
            ("", None),
            ("slots-53", None),
            ("53-slots", None),
            ("6.12.48+deb12", None),
        ] {
            assert_eq!(value(cell), number, "{cell}");
        }
    }

    #[test]
    fn only_columns_of_figures_sort_as_such() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).into();
        let table = Table {
            headings: ["a", "b", "c"].map(str::to_owned).into(),
            rows: vec![row(["3 nodes", "900 ns", "–"]), row(["x", "–", "–"]), row(["4", "1.2 µs", "–"])],
        };
        assert_eq!((0..3).map(|column| table.is_figures(column)).collect::<Vec<_>>(), [false, true, false]);
        let html = table.html("t", |_| None).into_string();
        assert!(html.contains("<td class=\"figure\" data-v=\"1200\">1.2 µs</td>"), "{html}");
    }
}
