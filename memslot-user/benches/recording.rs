//! How fast faults are written and read, and what they take on disk: `cargo bench --bench recording`.

use memslot::model::{Class, Fault, Gpa, SearchLength, VmId};
use memslot::recording::{Meta, Options, Recording, Writer};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::time::Instant;

const EVENTS: usize = 4_000_000;

/// Faults as a VM of 53 slots has them: 4 vCPUs, 16 GiB touched in runs and at random, 5 % MMIO.
fn faults() -> Vec<Fault> {
    let mut rng = SmallRng::seed_from_u64(1);
    let (mut time, mut frame) = (5_000_000_000_000_u64, 0_u64);
    let event = |_| {
        time += 200 + rng.random_range(0..4000_u64);
        frame = if rng.random_ratio(1, 4) { rng.random_range(0..4 << 20) } else { (frame + 1) % (4 << 20) };
        let mmio = rng.random_ratio(1, 20);
        let slot = i32::try_from(frame / (80 << 10)).unwrap_or(0);
        let cached = rng.random_ratio(2, 3);
        let visited = if cached { 0 } else { rng.random_range(1..7) };
        let latency = 1500 + rng.random_range(0..1000_u64) * rng.random_range(1..4_u64);
        Fault {
            time,
            latency,
            on_cpu: Some(latency),
            cpu: rng.random_range(0..4),
            vm: VmId(0),
            vcpu: rng.random_range(0..4),
            gpa: Gpa((frame << 12) | if mmio { rng.random_range(0..4096_u64) & !3 } else { 0 }),
            error_code: if mmio { 0xd } else { 0x1_0000_0006 },
            class: if mmio { Class::MmioCached } else { Class::Ram },
            as_id: 0,
            slot: (!mmio).then_some(slot),
            last_used: Some(if cached { slot } else { slot / 2 }),
            ret: i32::from(!mmio),
            length: Some(SearchLength { visited, touched: visited + 1 }),
            generation: 212,
            ambiguous: false,
        }
    };
    (0..EVENTS).map(event).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let faults = faults();
    let parent = tempfile::tempdir()?;
    for round in 0..3 {
        let dir = parent.path().join(format!("recording{round}"));
        let mut writer = Writer::create(&dir, &Meta::default(), Options::default())?;
        let start = Instant::now();
        for fault in &faults {
            writer.push_fault(fault)?;
        }
        writer.flush()?;
        let write = start.elapsed().as_secs_f64();
        let bytes = writer.finish(Meta::default())?;
        let start = Instant::now();
        let mut read = 0;
        for fault in Recording::open(&dir)?.faults()? {
            read += usize::from(fault?.latency > 0);
        }
        assert_eq!(read, EVENTS);
        println!(
            "{:.2} M faults/s written, {:.2} M faults/s read, {:.1} bytes a fault",
            EVENTS as f64 / write / 1e6,
            EVENTS as f64 / start.elapsed().as_secs_f64() / 1e6,
            bytes as f64 / EVENTS as f64,
        );
    }
    Ok(())
}
