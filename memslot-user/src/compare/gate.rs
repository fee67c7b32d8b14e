//! Which outcomes fail a gate.

use super::outcome::{Comparison, Row};
use super::verdict::Verdict;
use std::fmt;
use std::str::FromStr;

/// A share given as per cent: `5%`, `0.5%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percent(pub f64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no percentage; write it like 2% or 0.5%");
        let number = text.strip_suffix('%').ok_or_else(wrong)?.trim();
        let value: f64 = number.parse().map_err(|_| wrong())?;
        if (0.0..=1000.0).contains(&value) { Ok(Self(value / 100.0)) } else { Err(wrong()) }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What went in by /100 comes out without the noise of its last bits.
        write!(out, "{}%", (self.0 * 1e8).round() / 1e6)
    }
}

/// An outcome that fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    /// A figure is slower by the share or more.
    Slower(f64),
    /// A figure is faster by the share or more.
    Faster(f64),
    /// Something could not be compared.
    NotComparable,
    /// Something could not be told for want of runs.
    TooFewRuns,
    /// None of the above; alone.
    Never,
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, share) = match text.split_once(':') {
            Some((name, share)) => (name, Some(share.parse::<Percent>()?.0)),
            None => (text, None),
        };
        match (name, share) {
            ("slower", share) => Ok(Self::Slower(share.unwrap_or(0.0))),
            ("faster", share) => Ok(Self::Faster(share.unwrap_or(0.0))),
            ("not-comparable", None) => Ok(Self::NotComparable),
            ("too-few-runs", None) => Ok(Self::TooFewRuns),
            ("never", None) => Ok(Self::Never),
            _ => Err(format!(
                "{text:?} is no outcome; there are slower, slower:5%, faster, faster:5%, not-comparable, too-few-runs and \
                 never"
            )),
        }
    }
}

/// The conditions of a gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate(Vec<Condition>);

impl Gate {
    /// The given conditions. What could not be compared or told fails besides, or a gate would be passed by a
    /// comparison that compared nothing; only `never` takes that back. Without any: slower by any share.
    #[must_use]
    pub fn new(conditions: &[Condition]) -> Self {
        if conditions.contains(&Condition::Never) {
            return Self(Vec::new());
        }
        let given = if conditions.is_empty() { &[Condition::Slower(0.0)] } else { conditions };
        Self(given.iter().copied().chain([Condition::NotComparable, Condition::TooFewRuns]).collect())
    }

    /// Whether the comparison fails: a figure meets a condition, or the control did not pass.
    #[must_use]
    pub fn fails(&self, comparison: &Comparison) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let control = comparison.control.as_ref().is_some_and(|control| !control.passed);
        // That nothing was there to compare makes no row.
        let nothing = comparison.comparisons.is_empty();
        control || nothing || comparison.comparisons.iter().any(|row| self.0.iter().any(|one| one.meets(row)))
    }
}

impl Condition {
    fn meets(self, row: &Row) -> bool {
        let change = row.change.map_or(f64::INFINITY, |change| change.value.abs());
        match self {
            Self::Slower(share) => row.verdict == Verdict::Slower && change >= share,
            Self::Faster(share) => row.verdict == Verdict::Faster && change >= share,
            Self::NotComparable => row.verdict == Verdict::NotComparable,
            Self::TooFewRuns => row.verdict == Verdict::TooFewRuns,
            Self::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_and_outcomes_are_read_strictly() {
        assert_eq!("2%".parse(), Ok(Percent(0.02)));
        assert_eq!("0.5 %".parse(), Ok(Percent(0.005)));
        assert_eq!(Percent(0.07).to_string(), "7%");
        for wrong in ["2", "", "%", "-1%", "x%", "nan%", "2000%"] {
            assert!(wrong.parse::<Percent>().is_err(), "{wrong}");
        }
        assert_eq!("slower:5%".parse(), Ok(Condition::Slower(0.05)));
        assert_eq!("slower".parse(), Ok(Condition::Slower(0.0)));
        for wrong in ["slow", "slower:", "slower:5", "never:1%", ""] {
            assert!(wrong.parse::<Condition>().is_err(), "{wrong}");
        }
    }
}
