//! Charts of two sides: before and after.

mod change;
mod ecdf;
mod length;
mod prediction;
mod share;
mod shift;
mod size;
#[cfg(test)]
mod tests;

use super::page::{Key, Page, Remark};
use super::palette::{BLUE, Look, Marker, ORANGE};
use super::scale::Axis;
use super::{Picture, Size, footer, text};
use crate::compare::{Clock, Comparison, Pooled, SideSummary};
use crate::model::Probe;

/// Looks of before and after; shape and dash repeat what the colour says.
const SIDES: [(&str, Look); 2] = [
    ("before", Look { colour: BLUE, shape: Marker::Circle, dash: None }),
    ("after", Look { colour: ORANGE, shape: Marker::Square, dash: Some((9.0, 4.0)) }),
];

/// What charts are made of.
struct Job<'a> {
    comparison: &'a Comparison,
    /// All calls of each side.
    pooled: [&'a Pooled; 2],
    probe: Probe,
    size: Size,
}

/// Draws all charts that have something to show, with the names of their files, which lack the ending.
#[must_use]
pub fn draw_all(comparison: &Comparison, pooled: [&Pooled; 2]) -> Vec<(String, Picture)> {
    let mut probes: Vec<Probe> = comparison.strata().into_iter().map(|stratum| stratum.0).collect();
    probes.dedup();
    let mut images = Vec::new();
    for probe in probes {
        let job = Job { comparison, pooled, probe, size: Size::default() };
        let charts = [
            ("ecdf", ecdf::draw(&job)),
            ("shift", shift::draw(&job)),
            ("change", change::draw(&job)),
            ("size", size::draw(&job)),
            ("share-of-time", share::draw(&job)),
            ("search-length", length::draw(&job)),
            ("prediction", prediction::draw(&job)),
        ];
        let name = probe.name().replace('_', "-");
        images.extend(
            charts.into_iter().filter_map(|(chart, image)| Some((format!("compare-{name}-{chart}"), image?))),
        );
    }
    images
}

impl Job<'_> {
    fn page(&self, title: String, subtitle: &str) -> Page {
        Page {
            title,
            subtitle: subtitle.to_owned(),
            legend: SIDES.map(|(name, look)| (Key::Line(look), name.to_owned())).into(),
            footer: self.footer(),
        }
    }

    fn subject(&self) -> &'static str {
        match self.probe {
            Probe::PageFault => "KVM page faults",
            Probe::Ple => "PLE exits",
            Probe::Translate => "vhost translations",
        }
    }

    /// What there are more or fewer of.
    fn things(&self) -> &'static str {
        match self.probe {
            Probe::PageFault => "slots",
            Probe::Ple => "vCPUs",
            Probe::Translate => "regions",
        }
    }

    fn footer(&self) -> Vec<Remark> {
        let side = |name: &str, side: &SideSummary| {
            let of = side.runs.iter().flat_map(|run| &run.probes).filter(|one| one.probe == self.probe);
            let (calls, lost) = of.fold((0, 0), |sum, one| (sum.0 + one.calls, sum.1 + one.lost));
            format!(
                "{name}: Linux {}, {} calls in {} runs, {} lost",
                side.kernels.join(" and "),
                text::count(calls),
                side.runs.len(),
                text::count(lost)
            )
        };
        let sides = [side("before", &self.comparison.before), side("after", &self.comparison.after)];
        let mut remarks = vec![Remark { text: sides.join(" · "), warning: false }];
        let clocks = self.comparison.before.clocks.iter().chain(&self.comparison.after.clocks);
        let mut emulated: Vec<String> = clocks
            .filter_map(|clock| match clock {
                Clock::Exact => Some(footer::virtualised("icount")),
                Clock::Emulated => Some(footer::virtualised("QEMU-TCG")),
                Clock::Virtualised => Some(footer::virtualised("a hypervisor")),
                Clock::Hardware => None,
            })
            .collect();
        emulated.dedup();
        remarks.extend(emulated.into_iter().map(|text| Remark { text, warning: false }));
        let mut reasons: Vec<&String> = self
            .comparison
            .comparisons
            .iter()
            .filter(|row| row.probe == self.probe)
            .flat_map(|row| &row.reasons)
            .collect();
        reasons.sort();
        reasons.dedup();
        remarks.extend(
            reasons.into_iter().map(|text| Remark { text: format!("not comparable: {text}"), warning: true }),
        );
        remarks
    }

    /// An axis of latencies, with its name: instructions where both sides counted them.
    fn latencies(&self, name: &str, low: f64, high: f64) -> (Axis, String) {
        let axis = Axis::time(whole(low), whole(high));
        if self.comparison.exact {
            (axis.in_instructions(), format!("{name}, instructions (logarithmic)"))
        } else {
            (axis, format!("{name} (logarithmic)"))
        }
    }

    fn draw(&self, panels: &super::panels::Panels, page: &Page) -> Option<Picture> {
        Some(panels.draw(page, self.size.width, self.size.height))
    }
}

/// Saturating, as an axis takes it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a saturating cast")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}
