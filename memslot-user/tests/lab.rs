//! Checks recordings that the lab made on a real kernel: `cargo xtask test` boots each kernel, makes
//! them with both attach kinds, and runs these tests with `MEMSLOT_LAB` naming their folder.
//!
//! What a recording is held against comes from the workload's own forecast and from the model of the
//! kernel's trees, never from the probes.

#![allow(clippy::cast_precision_loss, reason = "counts of a test are small")]
#![allow(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

use memslot::{
    digest::Digest,
    model::{Class, Memslot, Probe, Region, RegionChangeKind, SlotChangeKind},
    ple::{policy::Policy, window::Parameters},
    recording::{AttachKind, Recording, Rows, Stored},
    replay::{self, Check},
    stats::Sample,
};
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::PathBuf};

/// Both attach kinds; each recording was made with either.
const KINDS: [AttachKind; 2] = [AttachKind::Fentry, AttachKind::Kprobe];

struct Case {
    name: String,
    recording: Recording,
    /// What the workload printed last: its forecast and its layout.
    workload: Value,
}

impl Case {
    fn open(kind: AttachKind, name: &str) -> Self {
        let folder =
            std::env::var_os("MEMSLOT_LAB").expect("MEMSLOT_LAB names the folder of the lab's recordings");
        let name = format!("{}-{name}", kind.name());
        let folder = PathBuf::from(folder);
        let recording =
            Recording::open(&folder.join(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let printed = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
        let workload =
            serde_json::from_str(printed.lines().last().expect("the workload printed nothing")).unwrap();
        Self { name, recording, workload }
    }

    fn calls(&self, function: &str) -> u64 {
        assert_eq!(self.workload["exact"], true, "{}: the forecast is not exact", self.name);
        self.workload["calls"][function].as_u64().unwrap_or_else(|| panic!("{}: no {function}", self.name))
    }

    /// Entries, returns and events equal the forecast, and nothing was lost or left over.
    fn assert_counts(&self) {
        let meta = self.recording.meta();
        assert!(meta.complete, "{}", self.name);
        assert!(meta.warnings.is_empty(), "{}: {:?}", self.name, meta.warnings);
        let functions = [
            (Probe::PageFault, "kvm_mmu_page_fault"),
            (Probe::Ple, "pause_interception"),
            (Probe::Translate, "translate_desc"),
        ];
        let rows = [
            rows(self.recording.faults()).len(),
            rows(self.recording.ple_exits()).len(),
            rows(self.recording.translations()).len(),
        ];
        for ((probe, function), rows) in functions.into_iter().zip(rows) {
            let expected = self.calls(function);
            let seen = &meta.probes[&probe];
            let account = seen.account;
            let counted = (account.entries, account.returns, account.emitted, seen.events, rows as u64);
            assert_eq!(
                counted,
                (expected, expected, expected, expected, expected),
                "{}: {function}",
                self.name
            );
            assert_eq!(
                account.lost() + account.no_start + account.in_flight() + seen.residual(),
                0,
                "{}: {account:?}",
                self.name
            );
            assert_eq!(account.walk_failed + account.walk_truncated, 0, "{}: {account:?}", self.name);
            assert!(seen.note.is_none(), "{}: {:?}", self.name, seen.note);
            self.assert_histograms(probe, expected);
        }
    }

    /// The kernel's histograms hold every call, and the account by interval and VM adds up to it.
    fn assert_histograms(&self, probe: Probe, expected: u64) {
        self.assert_counted(probe, expected);
        let accounts = rows(self.recording.accounts());
        let entries = accounts.iter().filter(|row| row.probe == probe).map(|row| row.account.entries);
        assert_eq!(entries.sum::<u64>(), expected, "{}: {} by interval", self.name, probe.name());
    }

    /// So many calls are in the histograms, each in a bucket that it fits.
    fn assert_counted(&self, probe: Probe, expected: u64) {
        let buckets: Vec<_> =
            rows(self.recording.histograms()).into_iter().filter(|bucket| bucket.probe == probe).collect();
        let counted: u64 =
            buckets.iter().filter(|bucket| bucket.counts_calls()).map(|bucket| bucket.count).sum();
        assert_eq!(counted, expected, "{}: {} in histograms", self.name, probe.name());
        for bucket in &buckets {
            let (low, high) = (bucket.low * bucket.count, bucket.high.saturating_mul(bucket.count));
            assert!(low <= bucket.sum && bucket.sum <= high, "{}: {bucket:?}", self.name);
        }
    }

    /// Count and sum of the latencies in the events and in the histograms are the same to the last digit, and
    /// quantiles within 1 %.
    fn assert_histograms_agree(&self, probe: Probe) {
        let digest = Digest::read(&self.recording, String::new(), &|_| {}).unwrap();
        let events = &digest.probe(probe).latency;
        let mut histogram = Sample::default();
        for bucket in rows(self.recording.histograms()) {
            if bucket.probe == probe && bucket.counts_calls() {
                let (mean, above) = (bucket.sum / bucket.count, bucket.sum % bucket.count);
                histogram.add_many(mean, bucket.count - above);
                histogram.add_many(mean + 1, above);
            }
        }
        assert_eq!((histogram.count(), histogram.mean()), (events.count(), events.mean()), "{}", self.name);
        let quantiles = [100, 500, 900, 990];
        let (raw, kept) = (events.quantiles(quantiles).unwrap(), histogram.quantiles(quantiles).unwrap());
        for (raw, kept) in raw.into_iter().zip(kept) {
            assert!(
                (raw - kept).abs() <= raw / 100.0,
                "{}: {raw} in events, {kept} in histograms",
                self.name
            );
        }
    }

    /// Every search was as long as the independent model of the kernel's tree says.
    fn assert_lengths(&self, probe: Probe, searching: u64) {
        let replays = replay::run(&self.recording, &replay::Options::default(), &|_| {}).unwrap();
        let replay = replays.iter().find(|replay| replay.probe == probe).expect("nothing was replayed");
        assert!(replay.left_out.is_empty(), "{}: {:?}", self.name, replay.left_out);
        let Check { compared, visited_differ, touched_differ, .. } = replay.check;
        assert_eq!((compared, visited_differ, touched_differ), (searching, 0, 0), "{}", self.name);
        assert_eq!(replay.mismatches(), 0, "{}", self.name);
    }

    fn layout(&self, key: &str) -> Vec<Value> {
        self.workload[key].as_array().unwrap_or_else(|| panic!("{}: no {key}", self.name)).clone()
    }
}

fn rows<T: Stored>(rows: Result<Rows<T>, memslot::recording::Error>) -> Vec<T> {
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn memslot(value: &Value) -> Memslot {
    Memslot {
        id: i32::try_from(number(value, "id")).unwrap(),
        base_gfn: memslot::model::Gfn(number(value, "base_gfn")),
        npages: number(value, "npages"),
    }
}

fn region(value: &Value) -> Region {
    Region { start: number(value, "start"), last: number(value, "last") }
}

fn for_each_kind(name: &str, check: impl Fn(Case)) {
    for kind in KINDS {
        check(Case::open(kind, name));
    }
}

fn searching(case: &Case) -> u64 {
    rows(case.recording.faults()).iter().filter(|fault| fault.class.searches()).count() as u64
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn faults_on_ram_are_counted_and_searched_as_the_kernel_does() {
    for_each_kind("slots-ram", |case| {
        case.assert_counts();
        let faults = rows(case.recording.faults());
        assert!(
            faults.iter().all(|fault| fault.class == Class::Ram && fault.slot.is_some()),
            "{}",
            case.name
        );
        case.assert_lengths(Probe::PageFault, faults.len() as u64);
        // Nothing but RAM faults: the last-used slot is that of the fault before, except after the HLT that
        // ends a round, which this CPU has KVM decode: it fetches the code from slot 0.
        let mut fetches = 0;
        for pair in faults.windows(2) {
            if pair[1].last_used != pair[0].slot {
                assert_eq!(pair[1].last_used, Some(0), "{}", case.name);
                fetches += 1;
            }
        }
        assert!(fetches < number(&case.workload, "rounds"), "{}: {fetches}", case.name);
    });
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn accesses_without_a_slot_fall_into_the_classes_that_kvm_gives_them() {
    for_each_kind("slots-mmio", |case| {
        case.assert_counts();
        case.assert_lengths(Probe::PageFault, searching(&case));
        let faults = rows(case.recording.faults());
        let forecast = &case.workload["forecast"];
        let without = number(forecast, "mmio_accesses") + number(forecast, "gap_accesses");
        let mut first = BTreeMap::new();
        let (mut searched, mut cached) = (0, 0);
        for fault in faults.iter().filter(|fault| fault.class != Class::Ram) {
            // The first touch of a frame searches; from then on the MMIO entry is cached.
            if first.insert(fault.gpa.gfn(), ()).is_none() {
                assert_eq!(fault.class, Class::NoSlot, "{}", case.name);
                searched += 1;
            } else {
                assert_eq!(fault.class, Class::MmioCached, "{}", case.name);
                cached += 1;
            }
        }
        assert!(searched > 0 && cached > 0, "{}", case.name);
        assert_eq!(searched + cached, without, "{}", case.name);
    });
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn slots_are_recorded_in_the_order_of_their_creation() {
    for name in ["slots-ram", "slots-mmio", "slots-2011"] {
        for_each_kind(name, |case| {
            case.assert_counts();
            let expected: Vec<_> = case.layout("layout").iter().map(memslot).collect();
            let changes = rows(case.recording.slot_changes());
            let created: Vec<_> = changes
                .iter()
                .filter(|change| change.kind == SlotChangeKind::Create)
                .map(|change| change.slot)
                .collect();
            assert_eq!(created, expected, "{}", case.name);
        });
    }
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn changes_between_rounds_are_recorded_with_growing_generations() {
    for_each_kind("slots-churn", |case| {
        case.assert_counts();
        case.assert_lengths(Probe::PageFault, searching(&case));
        let expected = case.layout("changes");
        assert!(expected.len() >= 3, "{}: too few changes to say anything", case.name);
        let changes = rows(case.recording.slot_changes());
        let made = changes.len() - case.layout("layout").len();
        // The VM's end deletes its slots without a commit.
        assert_eq!(made, expected.len(), "{}", case.name);
        for (change, expected) in changes[changes.len() - made..].iter().zip(&expected) {
            let kind = match change.kind {
                SlotChangeKind::Create => "create",
                SlotChangeKind::Delete => "delete",
                SlotChangeKind::Move { old_base_gfn } => {
                    assert_eq!(old_base_gfn.0, number(expected, "old_base_gfn"), "{}", case.name);
                    "move"
                }
                other => panic!("{}: {other:?}", case.name),
            };
            assert_eq!(kind, expected["change"], "{}", case.name);
            assert_eq!(change.slot, memslot(expected), "{}", case.name);
        }
        for pair in changes.windows(2) {
            assert!(pair[0].generation < pair[1].generation, "{}", case.name);
        }
    });
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn a_vm_that_is_older_than_the_recording_has_its_layout_and_the_shape_of_its_tree() {
    for_each_kind("slots-older", |case| {
        case.assert_counts();
        assert!(case.recording.meta().vms.iter().all(|vm| vm.older), "{}", case.name);
        let mut expected: Vec<_> = case.layout("layout").iter().map(memslot).collect();
        let changes = rows(case.recording.slot_changes());
        assert!(
            changes.iter().all(|change| matches!(change.kind, SlotChangeKind::Snapshot { .. })),
            "{}",
            case.name
        );
        let mut found: Vec<_> =
            changes.iter().filter(|change| change.as_id == 0).map(|change| change.slot).collect();
        expected.sort_by_key(|slot| slot.id);
        found.sort_by_key(|slot| slot.id);
        assert_eq!(found, expected, "{}", case.name);
        case.assert_lengths(Probe::PageFault, searching(&case));
    });
}

/// `__grow_ple_window`: see the module parameters in the recording.
fn grown(window: u64, parameters: &BTreeMap<String, String>) -> u64 {
    let parameter = |name: &str| parameters[&format!("kvm_amd.{name}")].parse::<u64>().unwrap();
    let (base, grow) = (parameter("pause_filter_count"), parameter("pause_filter_count_grow"));
    let grown = match grow {
        0 => base,
        grow if grow < base => window * grow,
        grow => window + grow,
    };
    grown.min(parameter("pause_filter_count_max"))
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn ple_exits_grow_the_window_as_kvm_does_and_account_for_every_yield() {
    for name in ["ple-under", "ple-over"] {
        for_each_kind(name, |case| {
            case.assert_counts();
            let meta = case.recording.meta();
            let exits = rows(case.recording.ple_exits());
            for exit in &exits {
                assert_eq!(
                    u64::from(exit.window.1),
                    grown(u64::from(exit.window.0), &meta.parameters),
                    "{}: {exit:?}",
                    case.name
                );
                assert_eq!(exit.yields, exit.boosted + exit.declined + exit.undercommit, "{}", case.name);
                let on_spin = exit.on_spin.expect("kvm_vcpu_on_spin was not seen inside the exit");
                assert!(on_spin <= exit.latency, "{}: {exit:?}", case.name);
            }
            let mut by_vcpu = BTreeMap::<u32, u64>::new();
            exits.iter().for_each(|exit| *by_vcpu.entry(exit.vcpu).or_default() += 1);
            let expected: BTreeMap<_, _> = case
                .layout("vcpus")
                .iter()
                .map(|vcpu| (u32::try_from(number(vcpu, "vcpu")).unwrap(), number(vcpu, "pauses")))
                .collect();
            assert_eq!(by_vcpu, expected, "{}", case.name);
        });
    }
    // Overcommitted, the spinner gives way to those that wait for its CPU.
    for_each_kind("ple-over", |case| {
        assert!(rows(case.recording.ple_exits()).iter().any(|exit| exit.yields > 0), "{}", case.name);
    });
}

/// A vCPU as the kernel's trace events tell of it.
#[derive(Default)]
struct TracedVcpu {
    /// The window that the policy gives it.
    window: u32,
    /// Its thread is in `KVM_RUN`, where being scheduled in shrinks the window.
    runs: bool,
    /// Changes of the window, by the policy and by `kvm_ple_window_update`.
    replayed: Vec<(u32, u32)>,
    updates: Vec<(u32, u32)>,
    /// The policy's windows before and after each exit.
    exits: Vec<(u32, u32)>,
}

impl TracedVcpu {
    fn moved(&mut self, window: u32) {
        if window != self.window {
            self.replayed.push((self.window, window));
        }
        self.window = window;
    }
}

/// The number that follows a word of a trace event's text.
fn after(text: &str, word: &str) -> u32 {
    let rest = text.split_once(word).unwrap_or_else(|| panic!("no {word} in {text}")).1;
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

/// Runs the policy over a trace's exits and switches alone; beside it stand the windows that the kernel traced.
fn traced(trace: &str, parameters: Parameters) -> BTreeMap<u32, TracedVcpu> {
    let policy = Policy::Dynamic(parameters);
    let mut threads = BTreeMap::<u32, u32>::new();
    let mut vcpus = BTreeMap::<u32, TracedVcpu>::new();
    for line in trace.lines().filter(|line| !line.starts_with('#')) {
        let (task, rest) = line.split_once(" [").unwrap();
        let thread: u32 = task.trim_end().rsplit_once('-').unwrap().1.parse().unwrap();
        let mut parts = rest.splitn(3, ": ");
        let (event, text) = (parts.nth(1).unwrap(), parts.next().unwrap_or_default());
        if event == "kvm_entry" {
            let id = after(text, "vcpu ");
            threads.insert(thread, id);
            let fresh = TracedVcpu { window: parameters.base, ..TracedVcpu::default() };
            vcpus.entry(id).or_insert(fresh).runs = true;
        }
        let whose = if event == "sched_switch" { after(text, "next_pid=") } else { thread };
        let Some(vcpu) = threads.get(&whose).and_then(|id| vcpus.get_mut(id)) else { continue };
        match event {
            "kvm_exit" if text.contains("reason pause ") => {
                let before = vcpu.window;
                vcpu.moved(policy.exited(before));
                vcpu.exits.push((before, vcpu.window));
            }
            "sched_switch" if vcpu.runs => vcpu.moved(policy.scheduled_in(vcpu.window)),
            "kvm_userspace_exit" => vcpu.runs = false,
            "kvm_ple_window_update" => vcpu.updates.push((after(text, " old "), after(text, " new "))),
            _ => {}
        }
    }
    vcpus
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn the_policy_replayed_gives_the_windows_that_the_kernel_traced_and_memslot_recorded() {
    let case = Case::open(AttachKind::Fentry, "ple-traced");
    case.assert_counts();
    let trace = fs::read_to_string(case.recording.dir().with_extension("trace")).unwrap();
    let kept =
        trace.lines().find_map(|line| line.strip_prefix("# entries-in-buffer/entries-written: ")).unwrap();
    let (kept, written) = kept.split_whitespace().next().unwrap().split_once('/').unwrap();
    assert_eq!(kept, written, "the trace lost events");
    let (parameters, _) = Parameters::of_recording(case.recording.meta()).unwrap();
    let vcpus = traced(&trace, parameters);
    let mut recorded = BTreeMap::<u32, Vec<(u32, u32)>>::new();
    for exit in rows(case.recording.ple_exits()) {
        recorded.entry(exit.vcpu).or_default().push(exit.window);
    }
    let exits: BTreeMap<_, _> = vcpus
        .iter()
        .filter(|(_, vcpu)| !vcpu.exits.is_empty())
        .map(|(id, vcpu)| (*id, vcpu.exits.clone()))
        .collect();
    assert_eq!(exits, recorded, "the policy's windows against the recorded ones");
    for (id, vcpu) in &vcpus {
        assert_eq!(
            vcpu.replayed, vcpu.updates,
            "vCPU {id}: the policy's windows against kvm_ple_window_update's"
        );
    }
    let updates = || vcpus.values().flat_map(|vcpu| &vcpu.updates);
    assert!(updates().filter(|(old, new)| new > old).count() > 20, "hardly a window grew");
    assert!(updates().filter(|(old, new)| new < old).count() > 20, "hardly a window shrank");
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn translations_are_counted_and_searched_as_the_kernel_does() {
    for name in ["regions-53", "regions-cross", "regions-509"] {
        for_each_kind(name, |case| {
            case.assert_counts();
            let calls = rows(case.recording.translations());
            case.assert_lengths(Probe::Translate, calls.len() as u64);
            let regions: Vec<_> = case.layout("regions").iter().map(region).collect();
            let changes = rows(case.recording.region_changes());
            let added: Vec<_> = changes
                .iter()
                .filter(|change| change.kind == RegionChangeKind::Add)
                .map(|change| change.region)
                .collect();
            assert_eq!(added, regions, "{}", case.name);
            assert!(calls.iter().all(|call| call.regions as usize == regions.len()), "{}", case.name);
            // The transmit queue of vhost-net is its second.
            assert!(calls.iter().all(|call| call.queue == Some(1) && !call.is_iotlb), "{}", case.name);
            let segments: u64 = calls.iter().map(|call| u64::try_from(call.ret).unwrap()).sum();
            assert_eq!(segments, number(&case.workload, "searches"), "{}", case.name);
        });
    }
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn a_vhost_table_that_is_older_than_the_recording_has_its_regions() {
    for_each_kind("regions-older", |case| {
        case.assert_counts();
        let mut expected: Vec<_> = case.layout("regions").iter().map(region).collect();
        let changes = rows(case.recording.region_changes());
        let mut found: Vec<_> = changes
            .iter()
            .filter(|change| matches!(change.kind, RegionChangeKind::Snapshot { .. }))
            .map(|change| change.region)
            .collect();
        expected.sort_by_key(|region| region.start);
        found.sort_by_key(|region| region.start);
        assert_eq!(found, expected, "{}", case.name);
        case.assert_lengths(Probe::Translate, rows(case.recording.translations()).len() as u64);
    });
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn quantiles_of_the_histograms_agree_with_the_events() {
    for_each_kind("slots-ram", |case| case.assert_histograms_agree(Probe::PageFault));
    for_each_kind("regions-53", |case| case.assert_histograms_agree(Probe::Translate));
    for_each_kind("ple-over", |case| case.assert_histograms_agree(Probe::Ple));
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn the_histogram_mode_counts_every_call_and_records_none() {
    for_each_kind("mode-histogram", |case| {
        let expected = case.calls("translate_desc");
        let meta = &case.recording.meta().probes[&Probe::Translate];
        assert_eq!((meta.account.entries, meta.account.not_sampled, meta.events), (expected, expected, 0));
        assert!(meta.is_whole(0), "{}: {meta:?}", case.name);
        case.assert_histograms(Probe::Translate, expected);
        // Each search of this layout has a length, which the histogram keeps.
        let buckets = rows(case.recording.histograms());
        assert!(
            buckets.iter().all(|bucket| bucket.visited.is_some() && bucket.device.is_some()),
            "{}",
            case.name
        );
    });
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn a_sample_is_unbiased_and_its_histogram_complete() {
    for_each_kind("mode-sample", |case| {
        let expected = case.calls("translate_desc");
        let meta = &case.recording.meta().probes[&Probe::Translate];
        let account = meta.account;
        assert_eq!((account.entries, account.emitted + account.not_sampled), (expected, expected));
        assert!(meta.is_whole(0), "{}: {meta:?}", case.name);
        case.assert_histograms(Probe::Translate, expected);
        // 1 in 10 of random gaps, whose variance is that of a uniform number from 1 to 19: within 5 deviations.
        let calls = rows(case.recording.translations());
        let (seen, mean) = (calls.len() as f64, expected as f64 / 10.0);
        let deviation = (mean * (361.0 - 1.0) / 12.0 / 100.0).sqrt();
        assert!((seen - mean).abs() < 5.0 * deviation, "{}: {seen} of {expected}", case.name);
        // The descriptors come in chains of 16: a sample that kept step with them would miss some places.
        let places: BTreeMap<_, u64> = calls.iter().fold(BTreeMap::new(), |mut places, call| {
            *places.entry(call.addr).or_default() += 1;
            places
        });
        assert!(places.len() > 16, "{}: {} addresses", case.name, places.len());
    });
}

/// Ring buffer loss unnoticed: github.com/iovisor/bcc/issues/3476; loss reported twice, or out of order:
/// github.com/bpftrace/bpftrace/issues/2646.
#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn a_ring_that_is_full_loses_events_and_no_counts() {
    for_each_kind("ring-full", |case| {
        let expected = case.calls("translate_desc");
        let meta = &case.recording.meta().probes[&Probe::Translate];
        let account = meta.account;
        assert!(account.ring_full > 0, "{}: {account:?}", case.name);
        assert_eq!(
            (account.entries, account.emitted + account.ring_full),
            (expected, expected),
            "{}",
            case.name
        );
        assert_eq!((account.lost(), meta.residual()), (account.ring_full, 0), "{}: {account:?}", case.name);
        assert_eq!(rows(case.recording.translations()).len() as u64, account.emitted, "{}", case.name);
        case.assert_histograms(Probe::Translate, expected);
    });
}

/// Histogram map too small, keys lost: github.com/iovisor/bcc/pull/5342; map overflow gives absurd latencies:
/// github.com/iovisor/bcc/pull/4284.
#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn a_histogram_that_is_full_says_how_many_calls_it_lacks() {
    for_each_kind("histogram-full", |case| {
        let expected = case.calls("translate_desc");
        let meta = &case.recording.meta().probes[&Probe::Translate];
        let account = meta.account;
        assert!(account.histogram_full > 0, "{}: {account:?}", case.name);
        assert_eq!(account.entries, expected, "{}", case.name);
        case.assert_counted(Probe::Translate, expected - account.histogram_full);
        assert_eq!((meta.residual(), meta.is_whole(0)), (0, false), "{}: {account:?}", case.name);
        // The events are all there.
        assert_eq!(rows(case.recording.translations()).len() as u64, expected, "{}", case.name);
    });
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn filters_leave_out_what_they_say_and_count_it() {
    for_each_kind("filter-class", |case| {
        let expected = case.calls("kvm_mmu_page_fault");
        let account = case.recording.meta().probes[&Probe::PageFault].account;
        let faults = rows(case.recording.faults());
        assert!(
            !faults.is_empty() && faults.iter().all(|fault| fault.class == Class::NoSlot),
            "{}",
            case.name
        );
        assert_eq!((account.entries, account.emitted), (expected, faults.len() as u64), "{}", case.name);
        assert_eq!(account.filtered, expected - faults.len() as u64, "{}", case.name);
        assert!(case.recording.meta().probes[&Probe::PageFault].is_whole(0), "{}", case.name);
    });
    for_each_kind("filter-queue", |case| {
        // All descriptors are the transmit queue's, which is not the one that was asked for.
        let expected = case.calls("translate_desc");
        let account = case.recording.meta().probes[&Probe::Translate].account;
        assert_eq!(
            (account.entries, account.filtered, account.emitted),
            (expected, expected, 0),
            "{}",
            case.name
        );
    });
}

/// What `memslot top` printed while a workload ran, and what that forecast.
fn topped(kind: AttachKind, name: &str) -> (Value, Value) {
    let folder = PathBuf::from(
        std::env::var_os("MEMSLOT_LAB").expect("MEMSLOT_LAB names the folder of the lab's recordings"),
    );
    let read = |ending: &str| -> Value {
        let path = folder.join(format!("{}-top-{name}.{ending}", kind.name()));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap()
    };
    (read("top"), read("workload"))
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn top_shows_every_call_of_a_workload() {
    for kind in KINDS {
        for (name, probe, function) in [
            ("vm", "page_fault", "kvm_mmu_page_fault"),
            ("vcpu", "page_fault", "kvm_mmu_page_fault"),
            ("device", "translate", "translate_desc"),
            ("queue", "translate", "translate_desc"),
            ("ple", "ple", "pause_interception"),
        ] {
            let (top, workload) = topped(kind, name);
            let of = format!("{} {name}", kind.name());
            assert_eq!((&top["schema"], &top["lost"]), (&1.into(), &0.into()), "{of}");
            let rows: Vec<&Value> =
                top["rows"].as_array().unwrap().iter().filter(|row| row["probe"] == probe).collect();
            let calls: u64 = rows.iter().map(|row| number(row, "calls")).sum();
            assert_eq!(workload["exact"], true, "{of}");
            assert_eq!(Some(calls), workload["calls"][function].as_u64(), "{of}");
            for row in &rows {
                assert_eq!(row["estimated"], false, "{of}");
                assert!(row["p50_ns"].as_f64() > Some(0.0), "{of}: {row}");
                let searches = probe != "ple";
                assert_eq!(row["mean_visited"].as_f64().is_some(), searches, "{of}: {row}");
                assert_eq!(row["window"].is_object(), probe == "ple", "{of}: {row}");
                let keys = ["vm", "vcpu", "device", "queue"].map(|key| row[key].is_u64());
                let expected = match name {
                    "vm" => [true, false, false, false],
                    "vcpu" | "ple" => [true, true, false, false],
                    "device" => [false, false, true, false],
                    _ => [false, false, true, true],
                };
                assert_eq!(keys, expected, "{of}: {row}");
            }
        }
    }
}

#[test]
#[ignore = "needs the lab's recordings: cargo xtask test"]
fn top_prints_a_line_of_json_for_each_interval() {
    let folder = PathBuf::from(std::env::var_os("MEMSLOT_LAB").expect("MEMSLOT_LAB names the folder"));
    let text = fs::read_to_string(folder.join("top.ndjson")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    for pair in lines.windows(2) {
        let (before, after) = (number(&pair[0], "time_ns"), number(&pair[1], "time_ns"));
        assert_eq!(after - before, number(&pair[1], "span_ns"), "one follows the other");
        assert!(number(&pair[1], "span_ns") >= 300_000_000);
    }
}
