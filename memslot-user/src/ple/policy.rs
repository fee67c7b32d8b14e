//! How a window is chosen: fixed, off, or moved as KVM moves it.

use super::window::{Parameters, Unit};
use serde::Serialize;

/// A way to set the PLE window of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Always the same window.
    Fixed(u32),
    /// No PLE exits at all (`ple_gap=0`, `pause_filter_count=0`).
    Off,
    /// KVM's: grown by every exit, shrunk whenever the vCPU is scheduled in.
    Dynamic(Parameters),
}

impl Policy {
    /// The policies of the 2012 table, and KVM's own since 2014: `dynamic` has `parameters`.
    #[must_use]
    pub fn usual(parameters: Parameters) -> Vec<Self> {
        vec![
            Self::Fixed(4096),
            Self::Fixed(16_384),
            Self::Fixed(32_768),
            Self::Off,
            Self::Dynamic(parameters),
        ]
    }

    /// The window of a vCPU that never exited; `None`, there are no exits.
    #[must_use]
    pub fn start(&self) -> Option<u32> {
        match self {
            Self::Fixed(window) => Some(*window),
            Self::Off => None,
            Self::Dynamic(parameters) => Some(parameters.base),
        }
    }

    /// The window after an exit at `window`.
    #[must_use]
    pub fn exited(&self, window: u32) -> u32 {
        match self {
            Self::Dynamic(parameters) => parameters.grown(window),
            Self::Fixed(_) | Self::Off => window,
        }
    }

    /// The window once the vCPU was scheduled in again.
    #[must_use]
    pub fn scheduled_in(&self, window: u32) -> u32 {
        match self {
            Self::Dynamic(parameters) => parameters.shrunk(window),
            Self::Fixed(_) | Self::Off => window,
        }
    }

    /// Reads `off`, a number (`4096`, `16k`), or `dynamic[:name=value,…]` with base, grow, shrink and
    /// max; those not named are `parameters`.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn parse(text: &str, parameters: Parameters, unit: Unit) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let Some(rest) = text.strip_prefix("dynamic") else {
            return Ok(Self::Fixed(window(text, unit)?));
        };
        let mut parameters = parameters;
        let settings = match rest.strip_prefix(':') {
            Some(settings) => settings,
            None if rest.is_empty() => return Ok(Self::Dynamic(parameters)),
            None => return Err(unknown(text)),
        };
        for setting in settings.split(',') {
            let Some((name, value)) = setting.split_once('=') else { return Err(unknown(text)) };
            match name {
                "base" => parameters.base = window(value, unit)?,
                "max" => parameters.max = window(value, unit)?,
                "grow" => parameters.grow = number(value)?,
                "shrink" => parameters.shrink = number(value)?,
                _ => return Err(unknown(text)),
            }
        }
        if parameters.max < parameters.base {
            return Err(format!(
                "the policy {text} has a largest window of {} below its base of {}; raise max or lower base",
                parameters.max, parameters.base
            ));
        }
        Ok(Self::Dynamic(parameters))
    }
}

fn unknown(text: &str) -> String {
    format!(
        "there is no policy {text}; give a window (4096, 16k), off, or dynamic[:base=4096,grow=2,shrink=0,max=65535]"
    )
}

fn number(text: &str) -> Result<u32, String> {
    let (digits, factor) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    digits.parse::<u32>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(|| unknown(text))
}

fn window(text: &str, unit: Unit) -> Result<u32, String> {
    match number(text)? {
        0 => Err("a window of 0 has no meaning; for no PLE exits choose the policy off".to_owned()),
        window if window > unit.limit() => {
            Err(format!("a window of {window} {} is more than {}", unit.name(), unit.limit()))
        }
        window => Ok(window),
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(window) if window.is_multiple_of(1024) => write!(out, "{}k", window / 1024),
            Self::Fixed(window) => write!(out, "{window}"),
            Self::Off => out.write_str("off"),
            Self::Dynamic(parameters) => {
                let Parameters { base, grow, shrink, max } = parameters;
                write!(out, "dynamic:base={base},grow={grow},shrink={shrink},max={max}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_and_written_alike() {
        let defaults = Parameters::defaults(Unit::Cycles);
        let parse = |text: &str| Policy::parse(text, defaults, Unit::Cycles);
        assert_eq!(parse("off"), Ok(Policy::Off));
        assert_eq!(parse("4096"), Ok(Policy::Fixed(4096)));
        assert_eq!(parse("16k"), Ok(Policy::Fixed(16_384)));
        assert_eq!(parse("dynamic"), Ok(Policy::Dynamic(defaults)));
        let other = Parameters { base: 8192, grow: 3, shrink: 2, ..defaults };
        assert_eq!(parse("dynamic:base=8k,grow=3,shrink=2"), Ok(Policy::Dynamic(other)));
        for policy in [Policy::Off, Policy::Fixed(3000), Policy::Fixed(32_768), Policy::Dynamic(other)] {
            assert_eq!(parse(&policy.to_string()), Ok(policy));
        }
    }

    #[test]
    fn what_is_no_policy_is_refused_with_what_is_one() {
        let parse = |text: &str| Policy::parse(text, Parameters::defaults(Unit::Pauses), Unit::Pauses);
        for wrong in ["on", "dynamics", "dynamic:", "dynamic:base", "dynamic:gap=1", "4x", ""] {
            assert!(parse(wrong).unwrap_err().contains("give a window"), "{wrong}");
        }
        assert!(parse("0").unwrap_err().contains("choose the policy off"));
        assert!(parse("65536").unwrap_err().contains("more than 65535"));
        assert!(parse("dynamic:max=2000").unwrap_err().contains("below its base of 3000"));
    }
}
