//! Latency by search length, and the line fitted to it.

use crate::digest::Digest;
use crate::model::Probe;
use crate::replay::{CANNOT_TELL, Fit};

/// The calls whose search had one length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) length: u32,
    pub(crate) count: u64,
    /// First quartile, median, third quartile, ns.
    pub(crate) quartiles: [f64; 3],
}

/// One recording.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) recording: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) fit: Option<Fit>,
    /// What is to be said of the fit: its figures, or why there is none.
    pub(crate) note: Option<String>,
}

/// The latencies of one probe by search length, a part for each recording with searches.
pub(crate) fn series(digests: &[&Digest], probe: Probe) -> Vec<Part> {
    digests
        .iter()
        .filter_map(|digest| {
            let columns: Vec<Column> = digest
                .probe(probe)
                .by_length
                .iter()
                .filter_map(|(length, sample)| {
                    let quartiles = sample.quantiles([250, 500, 750])?;
                    Some(Column { length: *length, count: sample.count(), quartiles })
                })
                .collect();
            let replay = digest.replay(probe);
            let fit = replay.and_then(|replay| replay.fit).filter(finite);
            let note = match (fit, replay) {
                (Some(fit), _) => Some(describe(&fit)),
                (None, Some(replay)) => {
                    let reason = replay.no_fit.as_deref().unwrap_or("the latencies tell no cost of a step");
                    Some(format!("No fit: {reason}"))
                }
                (None, None) => Some("No fit: the recording was not replayed.".into()),
            };
            (!columns.is_empty()).then(|| Part { recording: digest.title(probe), columns, fit, note })
        })
        .collect()
}

fn finite(fit: &Fit) -> bool {
    [fit.intercept, fit.slope]
        .into_iter()
        .all(|interval| interval.value.is_finite() && interval.low.is_finite() && interval.high.is_finite())
}

fn describe(fit: &Fit) -> String {
    use super::super::text::{figure, time};
    let cannot_tell = if fit.tells() { String::new() } else { format!(". {CANNOT_TELL}.") };
    format!(
        "{} {} {} ns a node ({} to {} at 95 %), R² {}{cannot_tell}",
        time(fit.intercept.value),
        if fit.slope.value < 0.0 { "−" } else { "+" },
        figure(fit.slope.value.abs()),
        figure(fit.slope.low),
        figure(fit.slope.high),
        figure(fit.r_squared)
    )
}

/// The fitted latency at a length, ns, with the widest interval that the parameters' own allow.
pub(crate) fn band(fit: &Fit, length: f64) -> (f64, f64, f64) {
    let at = |a: f64, b: f64| a + b * length;
    (
        at(fit.intercept.low, fit.slope.low),
        at(fit.intercept.value, fit.slope.value),
        at(fit.intercept.high, fit.slope.high),
    )
}

/// Times that the chart shows, ns: all quartiles, and the fitted lines where they are not far off.
pub(crate) fn range(parts: &[Part]) -> (f64, f64) {
    let columns = || parts.iter().flat_map(|part| &part.columns);
    let low = columns().map(|column| column.quartiles[0]).fold(f64::MAX, f64::min);
    let high = columns().map(|column| column.quartiles[2]).fold(0.0, f64::max);
    let fits = parts.iter().filter_map(|part| part.fit);
    let ends = fits.flat_map(|fit| {
        [fit.range.0, fit.range.1].into_iter().flat_map(move |length| {
            let (low, _, high) = band(&fit, f64::from(length));
            [low, high]
        })
    });
    ends.filter(|time| *time > low / 2.0 && *time < high * 2.0)
        .fold((low, high), |(low, high), time| (low.min(time), high.max(time)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Class, Fault, Gpa, SearchLength, VmId};
    use crate::recording::Meta;
    use crate::replay::Interval;

    #[test]
    fn quartiles_are_taken_length_by_length() {
        let mut digest = Digest::new("a".into(), Meta::default());
        for (visited, latency) in [(2, 10), (2, 20), (2, 30), (2, 40), (5, 7)] {
            digest.add_fault(&Fault {
                time: 0,
                latency,
                on_cpu: None,
                cpu: 0,
                vm: VmId(0),
                vcpu: 0,
                gpa: Gpa(0),
                error_code: 0,
                class: Class::Ram,
                as_id: 0,
                slot: None,
                last_used: None,
                ret: 1,
                length: Some(SearchLength { visited, touched: visited }),
                generation: 0,
                ambiguous: false,
            });
        }
        let parts = series(&[&digest], Probe::PageFault);
        assert_eq!(
            parts[0].columns,
            [
                Column { length: 2, count: 4, quartiles: [17.5, 25.0, 32.5] },
                Column { length: 5, count: 1, quartiles: [7.0; 3] }
            ]
        );
        assert_eq!(range(&parts), (7.0, 32.5));
        assert_eq!(parts[0].note.as_deref(), Some("No fit: the recording was not replayed."));
    }

    #[test]
    fn the_band_spans_the_intervals_of_both_parameters() {
        let interval = |value, low, high| Interval { value, low, high };
        let fit = Fit {
            intercept: interval(100.0, 90.0, 110.0),
            slope: interval(5.0, 4.0, 6.0),
            r_squared: 0.987_6,
            events: 10,
            range: (1, 4),
        };
        assert_eq!(band(&fit, 10.0), (130.0, 150.0, 170.0));
        let said = "100 ns + 5 ns a node (4 to 6 at 95 %), R² 0.988";
        assert_eq!(describe(&fit), said);
        let vague = Fit { slope: interval(5.0, 0.0, 6.0), ..fit };
        assert_eq!(describe(&vague), format!("{}. {CANNOT_TELL}.", said.replace("4 to", "0 to")));
    }
}
