//! `--mode`: which calls become events.

use std::{fmt, str::FromStr};

/// One in so many calls, where no number is given.
const USUAL_SAMPLE: u32 = 100;
/// The kernel draws gaps of up to twice as many calls from 32 random bits.
const RAREST: u32 = 1 << 30;

/// Which calls become events. The histograms count every call in each mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// None.
    Histogram,
    /// One in so many, at random.
    Sample(u32),
    /// Every one.
    Events,
}

impl Mode {
    /// As the probes are told.
    pub(crate) fn sample_every(self) -> u32 {
        match self {
            Self::Histogram => 0,
            Self::Sample(every) => every,
            Self::Events => 1,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Histogram => out.write_str("histogram"),
            Self::Sample(every) => write!(out, "sample:{every}"),
            Self::Events => out.write_str("events"),
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let every = match text.split_once(':') {
            None if text == "histogram" => return Ok(Self::Histogram),
            None if text == "events" => return Ok(Self::Events),
            None if text == "sample" => USUAL_SAMPLE,
            Some(("sample", number)) => number
                .parse()
                .ok()
                .filter(|every| (2..=RAREST).contains(every))
                .ok_or_else(|| format!("sample:N takes an N from 2 to {RAREST}, not {number}"))?,
            _ => return Err("it is histogram, sample, sample:N or events".to_owned()),
        };
        Ok(Self::Sample(every))
    }
}

#[cfg(test)]
mod tests {
    use super::Mode;

    #[test]
    fn a_mode_survives_being_written_and_anything_else_is_refused() {
        for mode in [Mode::Histogram, Mode::Sample(100), Mode::Sample(7), Mode::Events] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!("sample".parse(), Ok(Mode::Sample(100)));
        for wrong in ["", "sample:", "sample:1", "sample:x", "sample:4294967295", "all", "events:3"] {
            assert!(wrong.parse::<Mode>().is_err(), "{wrong}");
        }
    }
}
