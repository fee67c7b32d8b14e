//! A look-up in each engine, under criterion: `cargo bench --bench engines`.
//!
//! Criterion measures one engine after the other, which suits watching one engine change. Ratios
//! between engines come from `cargo xtask bench engines`, which lets them take turns.

use criterion::{BenchmarkId, Criterion, Throughput};
use memslot::bench::{Pattern, SLOTS, Traces, case, contenders};
use std::time::Duration;

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .sample_size(20)
        .configure_from_args();
    for pattern in Pattern::ALL {
        for slots in SLOTS {
            let case = case(slots, pattern, &Traces::default());
            // So few that the linear ones end in time, so many that no branch predictor learns them.
            let addresses = &case.addresses[..2048];
            let mut group = criterion.benchmark_group(format!("{}/{slots}", pattern.name()));
            group.throughput(Throughput::Elements(addresses.len() as u64));
            for contender in contenders(&case.ranges).expect("generated layouts are legal") {
                let id = BenchmarkId::from_parameter(contender.name);
                group.bench_function(id, |bencher| {
                    bencher.iter_custom(|passes| {
                        (contender.run)(addresses, usize::try_from(passes).unwrap_or(usize::MAX)).0
                    });
                });
            }
            group.finish();
        }
    }
    criterion.final_summary();
}
