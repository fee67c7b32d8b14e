//! The PLE window as KVM moves it: `__grow_ple_window` and `__shrink_ple_window`.

use crate::recording::Meta;
use serde::{Deserialize, Serialize};

/// What a window counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// TSC cycles spent in a loop of PAUSEs (Intel).
    Cycles,
    /// PAUSEs executed (AMD).
    Pauses,
}

impl Unit {
    /// The unit's name in the plural, for texts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::Pauses => "PAUSEs",
        }
    }

    /// The window's upper limit if no parameter lowers it: Intel's VMCS field has 32 bits, AMD's
    /// VMCB field 16.
    #[must_use]
    pub fn limit(self) -> u32 {
        match self {
            Self::Cycles => u32::MAX,
            Self::Pauses => u32::from(u16::MAX),
        }
    }
}

/// The module parameters that govern a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema, Deserialize)]
pub struct Parameters {
    /// `ple_window` or `pause_filter_count`: where a window starts, and never less.
    pub base: u32,
    /// `ple_window_grow` or `pause_filter_count_grow`: 0 resets to the base, less than the base
    /// multiplies, anything else adds.
    pub grow: u32,
    /// `ple_window_shrink` or `pause_filter_count_shrink`: likewise, dividing and subtracting.
    pub shrink: u32,
    /// `ple_window_max` or `pause_filter_count_max`.
    pub max: u32,
}

impl Parameters {
    /// What kvm_intel (in cycles) or kvm_amd (in PAUSEs) are loaded with unless told otherwise.
    #[must_use]
    pub fn defaults(unit: Unit) -> Self {
        let base = match unit {
            Unit::Cycles => 4096,
            Unit::Pauses => 3000,
        };
        Self { base, grow: 2, shrink: 0, max: unit.limit() }
    }

    /// The parameters that a recording's host had, and the unit of its windows; `None` where it does
    /// not hold them all.
    #[must_use]
    pub fn of_recording(meta: &Meta) -> Option<(Self, Unit)> {
        let number = |name: String| meta.parameters.get(&name).and_then(|value| value.parse::<u32>().ok());
        let read = |module: &str, base: &str| {
            Some(Self {
                base: number(format!("{module}.{base}"))?,
                grow: number(format!("{module}.{base}_grow"))?,
                shrink: number(format!("{module}.{base}_shrink"))?,
                max: number(format!("{module}.{base}_max"))?,
            })
        };
        let amd = || Some((read("kvm_amd", "pause_filter_count")?, Unit::Pauses));
        read("kvm_intel", "ple_window").map(|parameters| (parameters, Unit::Cycles)).or_else(amd)
    }

    /// The window after an exit (`__grow_ple_window`).
    #[must_use]
    pub fn grown(&self, window: u32) -> u32 {
        if self.grow < 1 {
            return self.base;
        }
        let (window, grow) = (u64::from(window), u64::from(self.grow));
        let grown = if self.grow < self.base { window * grow } else { window + grow };
        u32::try_from(grown).unwrap_or(u32::MAX).min(self.max)
    }

    /// The window once its vCPU was scheduled in again (`__shrink_ple_window`; the floor that both
    /// vendors pass is the base).
    #[must_use]
    pub fn shrunk(&self, window: u32) -> u32 {
        if self.shrink < 1 {
            return self.base;
        }
        // The kernel subtracts in unsigned 32 bits: a window below the amount wraps round, and stays.
        let shrunk =
            if self.shrink < self.base { window / self.shrink } else { window.wrapping_sub(self.shrink) };
        shrunk.max(self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exits_to(max: u32, parameters: Parameters) -> u32 {
        let (mut window, mut exits) = (parameters.base, 0);
        while window != max {
            (window, exits) = (parameters.grown(window), exits + 1);
        }
        exits
    }

    #[test]
    fn the_defaults_saturate_after_the_known_numbers_of_exits() {
        assert_eq!(exits_to(65_535, Parameters::defaults(Unit::Pauses)), 5);
        assert_eq!(exits_to(u32::MAX, Parameters::defaults(Unit::Cycles)), 20);
        let defaults = Parameters::defaults(Unit::Cycles);
        assert_eq!(defaults.shrunk(u32::MAX), 4096);
        assert_eq!(defaults.grown(4096), 8192);
    }

    #[test]
    fn every_branch_is_the_kernels() {
        let with = |grow, shrink| Parameters { base: 100, grow, shrink, max: 1000 };
        assert_eq!(with(0, 0).grown(700), 100);
        assert_eq!(with(3, 0).grown(200), 600);
        assert_eq!(with(3, 0).grown(999), 1000);
        // From the base on it adds.
        assert_eq!(with(100, 0).grown(200), 300);
        assert_eq!(with(u32::MAX, 0).grown(200), 1000);
        assert_eq!(with(2, 4).shrunk(800), 200);
        assert_eq!(with(2, 4).shrunk(300), 100);
        assert_eq!(with(2, 150).shrunk(800), 650);
        assert_eq!(with(2, 150).shrunk(240), 100);
        // A window below the amount: `val -= modifier` on an unsigned int.
        assert_eq!(with(2, 150).shrunk(120), u32::MAX - 29);
    }

    #[test]
    fn parameters_come_from_the_module_that_the_recording_names() {
        let mut meta = Meta::default();
        assert_eq!(Parameters::of_recording(&meta), None);
        for (name, value) in [("", "3000"), ("_grow", "2"), ("_shrink", "0"), ("_max", "65535")] {
            meta.parameters.insert(format!("kvm_amd.pause_filter_count{name}"), value.to_owned());
        }
        let expected = Parameters::defaults(Unit::Pauses);
        assert_eq!(Parameters::of_recording(&meta), Some((expected, Unit::Pauses)));
        for (name, value) in [("", "4096"), ("_grow", "2"), ("_shrink", "0"), ("_max", "4294967295")] {
            meta.parameters.insert(format!("kvm_intel.ple_window{name}"), value.to_owned());
        }
        let expected = Parameters::defaults(Unit::Cycles);
        assert_eq!(Parameters::of_recording(&meta), Some((expected, Unit::Cycles)));
    }
}
