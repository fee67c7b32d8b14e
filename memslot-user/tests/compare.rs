//! `memslot compare` from recordings on disk to exit codes, files and words.

#![expect(
    clippy::unwrap_used,
    reason = "a test may panic; clippy.toml exempts test functions, not their helpers"
)]

use assert_cmd::Command;
use memslot::model::{
    Class, Fault, Gfn, Gpa, Memslot, Probe, SearchLength, SlotChange, SlotChangeKind, VmId,
};
use memslot::recording::{Account, AttachKind, Attached, Clock, Meta, Options, ProbeMeta, Writer};
use serde_json::Value;
use std::path::{Path, PathBuf};

const FAULTS: u64 = 300;

/// A recording of one boot whose faults take `base` ns and a little more, which differs from boot to boot.
fn record(dir: &Path, boot: u64, base: u64) -> PathBuf {
    let path = dir.join(format!("boot-{boot}"));
    let attached = vec![Attached { function: "kvm_mmu_page_fault".into(), kind: AttachKind::Fentry }];
    let account = Account { entries: FAULTS, returns: FAULTS, emitted: FAULTS, ..Account::default() };
    let meta = Meta {
        start: Clock { monotonic: 0, realtime: boot * 1_000_000_000_000 },
        probes: [(Probe::PageFault, ProbeMeta { attached, account, events: FAULTS, ..ProbeMeta::default() })]
            .into(),
        ..Meta::default()
    };
    let mut writer = Writer::create(&path, &meta, Options::default()).unwrap();
    let slot = Memslot { id: 0, base_gfn: Gfn(0), npages: 4096 };
    let kind = SlotChangeKind::Create;
    let created = SlotChange { time: 0, vm: VmId(0), as_id: 0, generation: 2, kind, slot, flags: 0, hva: 0 };
    writer.push_slot_change(&created).unwrap();
    for event in 0..FAULTS {
        let fault = Fault {
            time: 1000 + event * 10_000,
            latency: base + boot % 7 * 3 + event * 7 % 40,
            on_cpu: None,
            cpu: 0,
            vm: VmId(0),
            vcpu: 0,
            gpa: Gpa(0x1000),
            error_code: 0,
            class: Class::Ram,
            as_id: 0,
            slot: Some(0),
            last_used: None,
            ret: 1,
            length: Some(SearchLength { visited: 1, touched: 1 }),
            generation: 2,
            ambiguous: false,
        };
        writer.push_fault(&fault).unwrap();
    }
    writer.finish(meta).unwrap();
    path
}

fn compare(before: &[PathBuf], after: &[PathBuf], more: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("memslot").unwrap();
    command.arg("compare").arg("--before").args(before).arg("--after").args(after).args(more);
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn a_slower_kernel_fails_a_faster_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let side =
        |first, base| (first..first + 7).map(|boot| record(dir.path(), boot, base)).collect::<Vec<_>>();
    let (fast, slow) = (side(1, 2000), side(101, 2200));
    let (code, text, _) = compare(&fast, &slow, &[]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("slower: page_fault, 1 slot, RAM, after a search, p50: +"), "{text}");
    assert_eq!(compare(&slow, &fast, &[]).0, 0);
    assert_eq!(compare(&fast, &slow, &["--fail-on", "slower:50%"]).0, 0);
    assert_eq!(compare(&fast, &slow, &["--fail-on", "slower:5%"]).0, 1);
    assert_eq!(compare(&slow, &fast, &["--fail-on", "faster:5%"]).0, 1);
    assert_eq!(compare(&fast, &slow, &["--threshold", "50%"]).0, 0);

    let out = dir.path().join("out");
    let (code, json, _) = compare(&fast, &slow, &["--json", "--control", "--out", out.to_str().unwrap()]);
    assert_eq!(code, 1);
    assert_eq!(json, std::fs::read_to_string(out.join("compare.json")).unwrap());
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&document["schema"], &document["verdict"]), (&Value::from(1), &Value::from("slower")));
    let row = &document["comparisons"][0];
    assert_eq!((row["figure"].as_str(), row["values"][0].as_array().unwrap().len()), (Some("p50"), 7));
    assert!(row["change"]["low"].as_f64().unwrap() > 0.08 && row["p_adjusted"].as_f64().unwrap() <= 0.01);
    assert_eq!(document["control"]["passed"], true);
    let markdown = std::fs::read_to_string(out.join("compare.md")).unwrap();
    assert_eq!(compare(&fast, &slow, &["--markdown", "--control"]).1, markdown);
    for chart in ["ecdf", "shift", "change", "share-of-time", "search-length"] {
        assert!(out.join(format!("compare-page-fault-{chart}.png")).is_file(), "{chart}");
    }
}

#[test]
fn two_real_boots_are_too_few_and_other_workloads_are_not_compared() {
    let (old, new) = (fixture("ple-over-6.1"), fixture("ple-over-6.12"));
    let (code, text, _) = compare(std::slice::from_ref(&old), &[new], &[]);
    assert_eq!(code, 1);
    assert!(text.contains("Linux 6.1.0-57-cloud-amd64, 1 run, emulated time"), "{text}");
    assert!(text.contains("too few runs: "), "{text}");
    assert!(text.contains("setting kvm.halt_poll_ns_shrink: 0 before, 2 after"), "{text}");
    let (code, text, _) = compare(&[old], &[fixture("regions-cross-6.1")], &[]);
    assert_eq!(code, 1);
    assert!(
        text.contains("not comparable: translate, 100 regions: layout: 100 regions only after"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_asked_is_refused_in_words() {
    let one = fixture("ple-over-6.1");
    let (code, _, said) = compare(&[one.clone(), one.clone()], &[fixture("ple-over-6.12")], &[]);
    assert_eq!(code, 2);
    assert!(said.contains("is given twice; each recording is one run and counts once"), "{said}");
    let (code, _, said) = compare(std::slice::from_ref(&one), &[PathBuf::from("nowhere")], &[]);
    assert_eq!(code, 2);
    assert!(said.contains("nowhere does not exist"), "{said}");
    let (code, _, said) = compare(&[one], &[fixture("ple-over-6.12")], &["--threshold", "2"]);
    assert_eq!(code, 2);
    assert!(said.contains("write it like 2% or 0.5%"), "{said}");
}
