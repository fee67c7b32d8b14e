//! What the module's searches take on known inputs, measured by the module itself in the guest.
//!
//! The inputs are tables and addresses of our own, which have nothing to do with an experiment's: other numbers
//! of ranges, other places, other orders. So a prediction rests on the stock recording and on the module's code,
//! and not on the run that it predicts.

use super::ENGINES;
use super::setup::{Error, Module};
use crate::engine::Range;
use crate::random::Random;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Ranges of the tables.
const COUNTS: [u64; 11] = [1, 2, 4, 7, 12, 20, 34, 60, 100, 180, 400];
/// Addresses of each table that a range holds, and that lie between two.
const HELD: u64 = 10;
const BETWEEN: u64 = 4;

/// A table of ranges in the order of registration, and the addresses that are looked up in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The ranges.
    pub ranges: Vec<Range>,
    /// The addresses.
    pub addresses: Vec<u64>,
}

/// The known inputs: always the same. Frames for KVM, bytes for vhost.
#[must_use]
pub fn tables(module: Module) -> Vec<Table> {
    let size = match module {
        Module::Kvm => 24,
        Module::Vhost => 24 << 12,
    };
    let mut tables = Vec::new();
    for count in COUNTS {
        for (shuffled, sizes) in [(false, 1), (true, 1), (true, 3)] {
            let mut random = Random::new(11, &[count, u64::from(shuffled), sizes]);
            let mut ranges: Vec<Range> = (0..count)
                .map(|place| {
                    let start = (1 << 20) * size + place * 2 * size;
                    Range { start, last: start + size / (1 + place % sizes) - 1, key: 0 }
                })
                .collect();
            let mut addresses: Vec<u64> = Vec::new();
            for _ in 0..HELD {
                let range = ranges[random.index(ranges.len())];
                addresses.push(range.start + random.below(range.weight() + 1));
            }
            for _ in 0..BETWEEN {
                addresses.push(ranges[random.index(ranges.len())].last + 1);
            }
            addresses.extend([7, ranges[ranges.len() - 1].last + 3 * size]);
            if shuffled {
                random.shuffle(&mut ranges);
            }
            for (range, key) in ranges.iter_mut().zip(0..) {
                range.key = key;
            }
            tables.push(Table { ranges, addresses });
        }
    }
    tables
}

/// One look-up of a known input, in ticks of the TSC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Place of the table among [`tables`].
    pub table: usize,
    /// The address.
    pub address: u64,
    /// Of the engine's search alone, beyond a call that does nothing; 0 for `stock`.
    pub search: u64,
    /// Of the replaced function with all that leads to the search.
    pub whole: u64,
    /// The same, called again at once.
    pub again: u64,
    /// There was an answer.
    pub found: bool,
}

/// The samples of an engine; `off` is the kernel's own function, not patched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineSamples {
    /// The parameter `engine`, or `off`.
    pub engine: String,
    /// In the order of tables and addresses.
    pub samples: Vec<Sample>,
}

/// `calibration.json` and `calibration-off.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calibration {
    /// Which module.
    pub module: Module,
    /// Its engines.
    pub engines: Vec<EngineSamples>,
}

/// What is calibrated: the module's engines, or the kernel's own function while the patch is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// All engines, the kernel's own tree among them.
    Engines,
    /// The function as it is without the patch.
    Off,
}

/// Measures, by the module's file in debugfs. To be done as root in the guest, with the module loaded.
///
/// # Errors
/// The module is not loaded, or debugfs is not mounted.
pub fn measure(module: Module, what: What) -> Result<Calibration, Error> {
    let control = Path::new("/sys/kernel/debug").join(module.name()).join("calibrate");
    let parameter = Path::new("/sys/module").join(module.name()).join("parameters/engine");
    let names: Vec<&str> = match what {
        What::Engines => {
            let mut names = ENGINES.to_vec();
            names.push(module.own_tree().name());
            names
        }
        What::Off => vec!["off"],
    };
    let mut engines: Vec<EngineSamples> =
        names.iter().map(|name| EngineSamples { engine: (*name).to_owned(), samples: Vec::new() }).collect();
    for (number, table) in tables(module).iter().enumerate() {
        say(&control, "empty")?;
        for range in &table.ranges {
            say(&control, &format!("range {} {}", range.start, range.last))?;
        }
        for engine in &mut engines {
            say(&parameter, if what == What::Off { "stock" } else { &engine.engine })?;
            for &address in &table.addresses {
                say(&control, &format!("time {address}"))?;
                engine.samples.push(answer(&control, number, address)?);
            }
        }
    }
    say(&control, "empty")?;
    say(&parameter, "stock")?;
    Ok(Calibration { module, engines })
}

fn say(file: &PathBuf, text: &str) -> Result<(), Error> {
    fs::write(file, text).map_err(|error| Error::bad(file, error.kind()))
}

fn answer(control: &PathBuf, table: usize, address: u64) -> Result<Sample, Error> {
    let text = fs::read_to_string(control).map_err(|error| Error::bad(control, error.kind()))?;
    let figures: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match figures[..] {
        [search, whole, again, found] => {
            Ok(Sample { table, address, search, whole, again, found: found != 0 })
        }
        _ => Err(Error::bad(control, format!("it said {text:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_sound_and_of_no_size_that_experiments_have() {
        for module in [Module::Kvm, Module::Vhost] {
            for table in tables(module) {
                assert!(![3, 32, 53, 117, 509, 4096].contains(&table.ranges.len()));
                let mut sorted = table.ranges.clone();
                sorted.sort_by_key(|range| range.start);
                assert!(sorted.windows(2).all(|pair| pair[0].last < pair[1].start));
                let held = |address: &u64| sorted.iter().any(|range| range.contains(*address));
                assert_eq!(table.addresses.iter().filter(|address| held(address)).count(), 10);
            }
        }
    }
}
