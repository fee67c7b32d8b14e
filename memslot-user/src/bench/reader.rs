//! How fast the user side takes records from the ring's bytes to a recording on disk, and how small they get.

use super::{Error, Interval};
use crate::probe::{Event, Resolver, decode};
use crate::recording::{Meta, Options, Recording, Writer};
use crate::stats::median_interval;
use memslot_common::event::{Fault, Translation, class, kind};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;
use std::path::Path;

/// Records of a round; a batch of the writer is a quarter of it.
const ROUND: usize = 1 << 18;
/// Slots of the VM and regions of the table.
const RANGES: u64 = 53;
/// Pages that each of them covers.
const PAGES: u64 = 1 << 14;

/// Whose records are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Records {
    /// Of `kvm_mmu_page_fault`.
    PageFault,
    /// Of `translate_desc`.
    Translate,
}

/// Decoding and recording, of one kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReaderFigure {
    /// Of which kind.
    pub records: Records,
    /// Events recorded; as many were read back.
    pub events: u64,
    /// Events in a second of CPU time of one thread, from the ring's bytes to the files: the median of the rounds.
    pub events_per_s: Interval,
    /// On disk, everything in the tables taken together.
    pub bytes_per_event: f64,
}

/// Records so many rounds of synthetic records in the directory `dir`, which must not exist, and reads them back.
///
/// # Errors
/// The recording cannot be written or read, a record was not understood, or an event is missing.
pub fn measure_reader(dir: &Path, records: Records, rounds: u32) -> Result<ReaderFigure, Error> {
    let meta = Meta { label: Some("synthetic".to_owned()), ..Meta::default() };
    let mut writer = Writer::create(dir, &meta, Options::default())?;
    let mut resolver = Resolver::default();
    let mut ring = Ring { random: SmallRng::seed_from_u64(1), time: 1 << 40, bytes: Vec::new() };
    let mut rates = Vec::new();
    // The first round warms up. It is recorded, but its time does not count.
    for round in 0..=rounds {
        let size = ring.fill(records);
        let start = cpu_time()?;
        for record in ring.bytes.chunks_exact(size) {
            match resolver.resolve(&decode(record)?) {
                Event::Fault(fault) => writer.push_fault(&fault)?,
                Event::Translation(call) => writer.push_translation(&call)?,
                _ => {}
            }
        }
        writer.flush()?;
        if round > 0 {
            rates.push(ROUND as f64 / (cpu_time()? - start));
        }
    }
    let bytes = writer.finish(meta)?;
    let events = u64::from(rounds + 1) * ROUND as u64;
    let recording = Recording::open(dir)?;
    let read = match records {
        Records::PageFault => count(recording.faults()?)?,
        Records::Translate => count(recording.translations()?)?,
    };
    if read != events {
        return Err(Error::Lost { recorded: events, read });
    }
    rates.sort_unstable_by(f64::total_cmp);
    let (value, low, high) = median_interval(&rates).unwrap_or_default();
    let events_per_s = Interval { value, low, high };
    Ok(ReaderFigure { records, events, events_per_s, bytes_per_event: bytes as f64 / events as f64 })
}

fn count<T>(rows: impl Iterator<Item = Result<T, crate::recording::Error>>) -> Result<u64, Error> {
    let mut count = 0;
    for row in rows {
        row?;
        count += 1;
    }
    Ok(count)
}

/// What the kernel's ring would hold, with as much chance in it as a busy host has.
struct Ring {
    random: SmallRng,
    time: u64,
    bytes: Vec<u8>,
}

impl Ring {
    /// Fills it with a round of one kind of record; the size of each.
    fn fill(&mut self, records: Records) -> usize {
        self.bytes.clear();
        let (fill, size): (fn(&mut Self), _) = match records {
            Records::PageFault => (Self::fault, Fault::SIZE),
            Records::Translate => (Self::translation, Translation::SIZE),
        };
        (0..ROUND).for_each(|_| fill(self));
        size
    }

    /// Nodes of a search, a time that grows with them and varies, and a page in some range.
    fn search(&mut self, base: u64) -> (u16, u64, u64, u64) {
        let visited = self.random.random_range(1..=7_u16);
        let latency = base + 25 * u64::from(visited) + self.random.random_range(0..base / 8);
        self.time += latency + self.random.random_range(200..1200);
        let range = self.random.random_range(0..RANGES);
        (visited, latency, range, range * 2 * PAGES + self.random.random_range(0..PAGES))
    }

    fn fault(&mut self) {
        let (visited, latency, range, page) = self.search(2000);
        let fault = Fault {
            kind: kind::FAULT,
            cpu: self.random.random_range(0..4),
            time: self.time,
            latency,
            kvm: 0xffff_8881_0400_0000,
            gpa: page << 12 | self.random.random_range(0..512_u64) << 3,
            error_code: 0x1_0000_0006,
            generation: 2 * RANGES,
            vcpu: self.random.random_range(0..4),
            ret: 1,
            slot: i32::try_from(range).unwrap_or(-1),
            last_used: self.random.random_range(0..53),
            visited,
            touched: visited + 1,
            class: class::RAM,
            ..Fault::ZERO
        };
        self.bytes.extend_from_slice(&fault.to_bytes());
    }

    fn translation(&mut self) {
        let (visited, latency, _, page) = self.search(250);
        let call = Translation {
            kind: kind::TRANSLATION,
            cpu: self.random.random_range(0..4),
            time: self.time,
            latency,
            device: 0xffff_8881_0500_0000,
            iotlb: 0xffff_8881_0600_0000,
            addr: page << 12 | self.random.random_range(0..64_u64) << 6,
            len: [12, 64, 1500, 4096][self.random.random_range(0..4)],
            worker: 4711,
            ret: 1,
            regions: 53,
            visited,
            touched: visited + 2,
            queue: self.random.random_range(0..2),
            access: 1,
            ..Translation::ZERO
        };
        self.bytes.extend_from_slice(&call.to_bytes());
    }
}

/// Time that this thread has run, s: the first figure of `schedstat`, which is in ns. Other programs on the machine
/// do not count.
fn cpu_time() -> Result<f64, Error> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").map_err(|_| Error::NoTime)?;
    let ns: f64 = text.split_whitespace().next().and_then(|ns| ns.parse().ok()).ok_or(Error::NoTime)?;
    Ok(ns / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_synthetic_record_is_recorded_and_measured() {
        for records in [Records::PageFault, Records::Translate] {
            let parent = tempfile::tempdir().unwrap();
            let figure = measure_reader(&parent.path().join("recording"), records, 1).unwrap();
            assert_eq!(figure.events, 2 * ROUND as u64);
            assert!(figure.events_per_s.value > 0.0, "{figure:?}");
            // Time, latency and address alone cannot be less than their own chance.
            assert!(figure.bytes_per_event > 4.0, "{figure:?}");
        }
    }
}
