//! Layouts without a guest: the memory slots that real virtual machines have, and random ones.
//!
//! A [`Generator`] is pure: the same text gives the same slots, in the same order of creation, on
//! every machine.

mod guest;

use crate::model::{Gfn, Memslot, PAGE_SHIFT};
use crate::random::Random;
use std::fmt;
use std::str::FromStr;

/// User slots that KVM allows since 5.15 (`KVM_USER_MEM_SLOTS` on x86).
pub const MOST_SLOTS: u32 = 32_764;
/// `ACPI_MAX_RAM_SLOTS`: DIMMs that QEMU lets a guest have.
const MOST_DIMMS: u32 = 256;
/// vCPUs that KVM can be built for on x86 (`NR_CPUS` bounds it at 4096).
const MOST_VCPUS: u32 = 4096;
/// Of RAM, so that every generated layout stays within 46 address bits.
const MOST_GIB: u32 = 4096;
/// RAM of a guest whose size is not said, GiB.
const USUAL_GIB: u32 = 8;
/// Size of a DIMM whose size is not said, MiB.
const USUAL_DIMM: u32 = 1024;

/// Pages of a MiB and of a GiB.
const MIB: u64 = 1 << (20 - PAGE_SHIFT);
const GIB: u64 = MIB << 10;

/// What can be asked for, one line each, for help texts.
pub const FORMS: &str = "\
qemu-q35[:GIB]     a QEMU q35 guest of so much RAM [8 GiB]
dimms:N[:MIB]      that guest with N equal DIMMs, plugged in ascending order [1024 MiB each]
vfio:N             that guest with N mapped BARs of passed-through devices, one slot each
hyperv:N           that guest under Windows with N vCPUs: two SynIC pages a vCPU split its RAM
2011[:GIB]         a qemu-kvm guest of early 2011 [4 GiB]
32-slots           the 2011 guest of 8 GiB with devices until the 32 slots of that time are full
random:N[:SEED]    N slots of log-uniform sizes, gaps between some, created in random order [seed 1]";

/// A layout that can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generator {
    /// A QEMU q35 guest.
    Q35 {
        /// RAM.
        gib: u32,
    },
    /// A q35 guest with equal DIMMs in ascending order: up to about 260 slots, the `wbtree`'s bad case.
    Dimms {
        /// DIMMs.
        count: u32,
        /// Size of one, MiB.
        mib: u32,
    },
    /// A q35 guest with passed-through devices: VFIO maps each BAR as a slot of its own.
    Vfio {
        /// Mapped BARs.
        bars: u32,
    },
    /// A q35 guest with the Hyper-V synthetic interrupt controller.
    Hyperv {
        /// Virtual CPUs.
        vcpus: u32,
    },
    /// A guest of early 2011.
    Classic {
        /// RAM.
        gib: u32,
    },
    /// The guest of 2011 whose 32 slots are all in use.
    Full,
    /// Slots of random sizes at random places.
    Random {
        /// Slots.
        count: u32,
        /// Of the random numbers.
        seed: u64,
    },
}

/// Why a text names no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GenerateError {
    /// No such kind.
    #[error("there is no layout \"{0}\" to generate; choose one of\n{FORMS}")]
    Unknown(String),
    /// A number is missing, is none, or is out of bounds.
    #[error("in the layout \"{text}\" {what} must be a whole number from {least} to {most}")]
    Number {
        /// The whole text.
        text: String,
        /// What the number says.
        what: &'static str,
        /// The least allowed.
        least: u64,
        /// The most allowed.
        most: u64,
    },
    /// More parts than the kind has.
    #[error("the layout \"{0}\" says more than this kind has; it is written\n{FORMS}")]
    TooLong(String),
}

/// The generator that `text` names, e.g. `dimms:256`.
///
/// # Errors
/// There is none, or a number of it is out of bounds.
pub fn parse(text: &str) -> Result<Generator, GenerateError> {
    text.parse()
}

/// Reads the numbers of a generator's text.
struct Numbers<'a> {
    text: &'a str,
    parts: std::str::Split<'a, char>,
}

impl Numbers<'_> {
    fn wide(
        &mut self,
        what: &'static str,
        usual: Option<u64>,
        least: u64,
        most: u64,
    ) -> Result<u64, GenerateError> {
        let error = || GenerateError::Number { text: self.text.to_owned(), what, least, most };
        match (self.parts.next(), usual) {
            (None, Some(usual)) => Ok(usual),
            (None, None) => Err(error()),
            (Some(part), _) => {
                part.parse().ok().filter(|number| (least..=most).contains(number)).ok_or_else(error)
            }
        }
    }

    fn next(&mut self, what: &'static str, usual: Option<u32>, most: u32) -> Result<u32, GenerateError> {
        let number = self.wide(what, usual.map(u64::from), 1, u64::from(most))?;
        Ok(u32::try_from(number).unwrap_or(most))
    }

    /// Nothing may follow.
    fn end(mut self) -> Result<(), GenerateError> {
        match self.parts.next() {
            None => Ok(()),
            Some(_) => Err(GenerateError::TooLong(self.text.to_owned())),
        }
    }
}

impl FromStr for Generator {
    type Err = GenerateError;

    fn from_str(text: &str) -> Result<Self, GenerateError> {
        let mut parts = text.split(':');
        let kind = parts.next().unwrap_or_default();
        let mut numbers = Numbers { text, parts };
        let generator = match kind {
            "qemu-q35" => Self::Q35 { gib: numbers.next("the RAM in GiB", Some(USUAL_GIB), MOST_GIB)? },
            "dimms" => Self::Dimms {
                count: numbers.next("the number of DIMMs", None, MOST_DIMMS)?,
                mib: numbers.next("the size of a DIMM in MiB", Some(USUAL_DIMM), 1 << 20)?,
            },
            "vfio" => {
                Self::Vfio { bars: numbers.next("the number of BARs", None, MOST_SLOTS - guest::BASE_SLOTS)? }
            }
            "hyperv" => Self::Hyperv { vcpus: numbers.next("the number of vCPUs", None, MOST_VCPUS)? },
            "2011" => Self::Classic { gib: numbers.next("the RAM in GiB", Some(4), 64)? },
            "32-slots" => Self::Full,
            "random" => Self::Random {
                count: numbers.next("the number of slots", None, MOST_SLOTS)?,
                seed: numbers.wide("the seed", Some(1), 0, u64::MAX)?,
            },
            _ => return Err(GenerateError::Unknown(text.to_owned())),
        };
        numbers.end()?;
        Ok(generator)
    }
}

impl fmt::Display for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Q35 { gib } => write!(f, "qemu-q35:{gib}"),
            Self::Dimms { count, mib: USUAL_DIMM } => write!(f, "dimms:{count}"),
            Self::Dimms { count, mib } => write!(f, "dimms:{count}:{mib}"),
            Self::Vfio { bars } => write!(f, "vfio:{bars}"),
            Self::Hyperv { vcpus } => write!(f, "hyperv:{vcpus}"),
            Self::Classic { gib } => write!(f, "2011:{gib}"),
            Self::Full => f.write_str("32-slots"),
            Self::Random { count, seed: 1 } => write!(f, "random:{count}"),
            Self::Random { count, seed } => write!(f, "random:{count}:{seed}"),
        }
    }
}

impl Generator {
    /// The slots, none overlapping another, in the order of creation. KVM's private ones (TSS, APIC
    /// page, identity map) have ids from [`MOST_SLOTS`] on, as in the kernel.
    #[must_use]
    pub fn slots(&self) -> Vec<Memslot> {
        match *self {
            Self::Q35 { gib } => guest::q35(gib),
            Self::Dimms { count, mib } => guest::dimms(count, mib),
            Self::Vfio { bars } => guest::vfio(bars),
            Self::Hyperv { vcpus } => guest::hyperv(vcpus),
            Self::Classic { gib } => guest::classic(gib),
            Self::Full => guest::full(),
            Self::Random { count, seed } => random(count, seed),
        }
    }
}

/// Slots in an order that `seed` draws: the same layout, created differently.
pub fn shuffle<T>(slots: &mut [T], seed: u64) {
    Random::new(seed, &[SHUFFLE]).shuffle(slots);
}

/// Streams of random numbers that must not depend on each other.
const SHUFFLE: u64 = 1;
const SIZES: u64 = 2;

/// Sizes from a page to 1 GiB, each power of two as likely as the others; every other slot touches the
/// one before.
fn random(count: u32, seed: u64) -> Vec<Memslot> {
    let mut random = Random::new(seed, &[SIZES]);
    let mut base = 0;
    let mut slots = Vec::with_capacity(count as usize);
    for id in (0..).take(count as usize) {
        let power = random.below(18);
        let npages = (1 << power) + random.below(1 << power);
        if random.chance(50) {
            base += 1 + random.below(npages);
        }
        slots.push(Memslot { id, base_gfn: Gfn(base), npages });
        base += npages;
    }
    random.shuffle(&mut slots);
    slots
}

#[cfg(test)]
mod tests;
