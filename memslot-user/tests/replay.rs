//! `memslot replay` as a user runs it.
#![expect(
    clippy::unwrap_used,
    reason = "a test may panic; clippy.toml exempts test functions, not their helpers"
)]

use assert_cmd::Command;
use memslot::replay::synthetic::{self, Shape};
use std::path::PathBuf;

fn recording(shape: &Shape) -> (tempfile::TempDir, PathBuf) {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("recording");
    synthetic::write(&dir, shape).unwrap();
    (parent, dir)
}

fn replay() -> Command {
    let mut command = Command::cargo_bin("memslot").unwrap();
    command.args(["replay", "--rounds", "3"]);
    command
}

#[test]
fn tables_for_both_probes_are_printed() {
    let (_parent, dir) = recording(&Shape { faults: 3000, translations: 1000, ..Shape::default() });
    let output = replay().arg(&dir).assert().success().stderr("").get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    assert!(text.starts_with("Memory-slot look-ups (kvm_mmu_page_fault): "), "{text}");
    assert!(text.contains("\nvhost region look-ups (translate_desc): "), "{text}");
    for engine in ["linear", "linear_by_size", "sorted_array", "wbtree", "rbtree", "interval_tree"] {
        assert!(text.contains(&format!("\n| {engine} ")), "{engine}: {text}");
    }
    assert!(!text.contains("WRONG") && !text.contains("Left out"), "{text}");
}

#[test]
fn json_holds_what_was_asked_for() {
    let (_parent, dir) = recording(&Shape { faults: 3000, translations: 1000, ..Shape::default() });
    let arguments = ["--json", "--engines", "wbtree,rbtree", "--probe", "page_fault"];
    let output = replay().arg(&dir).args(arguments).assert().success().get_output().stdout.clone();
    let document: serde_json::Value = serde_json::from_slice(&output).unwrap();
    assert_eq!(document["schema"], 1);
    let replays = document["replay"].as_array().unwrap();
    assert_eq!(replays.len(), 1);
    assert_eq!(replays[0]["probe"], "page_fault");
    let engines: Vec<&str> = replays[0]["engines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|engine| engine["engine"].as_str().unwrap())
        .collect();
    assert_eq!(engines, ["wbtree", "rbtree"]);
    assert_eq!(replays[0]["engines"][0]["mismatches"], 0);
    assert!(replays[0]["engines"][0]["ns_per_lookup"]["value"].as_f64().unwrap() > 0.0);
}

#[test]
fn an_empty_recording_exits_with_1_and_no_recording_with_2() {
    let (parent, dir) = recording(&Shape { faults: 0, translations: 0, ..Shape::default() });
    replay()
        .arg(&dir)
        .assert()
        .code(1)
        .stdout("The recording has no faults and no translations to replay.\n");
    let expected = format!("memslot: {} is no recording: it has no meta.json\n", parent.path().display());
    replay().arg(parent.path()).assert().code(2).stderr(expected);
}

#[test]
fn an_unknown_engine_is_refused_with_the_known_ones() {
    let output = replay().args(["x", "--engines", "btree"]).assert().code(2).get_output().stderr.clone();
    let text = String::from_utf8(output).unwrap();
    assert!(text.contains("invalid value 'btree'") && text.contains("linear, linear_by_size"), "{text}");
}

#[test]
fn a_layout_and_addresses_are_replayed_without_a_recording() {
    let folder = tempfile::tempdir().unwrap();
    let (layout, addresses) = (folder.path().join("layout.csv"), folder.path().join("addresses.json"));
    std::fs::write(
        &layout,
        "id,start,size,kind\n0,0,0x10000,ram\n1,0x20000,0x1000,ram\n,0xf0000,0x1000,mmio\n",
    )
    .unwrap();
    std::fs::write(&addresses, "[0, 4096, \"0x20000\", 0x1]").unwrap();
    let with = |last_used: &str| {
        let mut command = replay();
        command
            .arg("--layout")
            .arg(&layout)
            .arg("--addresses")
            .arg(&addresses)
            .args(["--last-used", last_used]);
        command
    };
    let error = with("on").assert().code(2).get_output().stderr.clone();
    assert!(
        String::from_utf8(error).unwrap().contains("addresses.json: line 1: this is no JSON as expected")
    );
    std::fs::write(&addresses, "[0, 4096, \"0x20000\", \"0xf0010\", 262144]").unwrap();
    for (last_used, answered, hits) in [("on", 1, 2), ("off", 0, 3)] {
        let output = with(last_used).arg("--json").assert().success().get_output().stdout.clone();
        let document: serde_json::Value = serde_json::from_slice(&output).unwrap();
        let direct = &document["direct"];
        assert_eq!((&direct["accesses"], &direct["last_used_answered"]), (&5.into(), &answered.into()));
        let engine = &direct["engines"][0];
        let lookups = ["hits", "misses", "mmio"].map(|kind| engine[kind]["lookups"].as_u64().unwrap());
        assert_eq!(lookups, [hits, 1, 1]);
    }
    std::fs::write(&layout, "id,start,size\n0,0,0x10000\n1,0xf000,1\n").unwrap();
    let error = with("on").assert().code(2).get_output().stderr.clone();
    let error = String::from_utf8(error).unwrap();
    assert!(error.contains("layout.csv: line 3: 0xf000..=0xf000 overlaps 0x0..=0xffff of line 2"), "{error}");
}

#[test]
fn a_generated_layout_is_replayed_and_what_is_wrong_is_said() {
    let mut command = replay();
    command.args(["--generate", "32-slots", "--pattern", "miss", "--accesses", "1000"]);
    let text = String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap();
    assert!(text.starts_with("1,000 accesses to a layout of 32 slots\n"), "{text}");
    for wrong in [vec!["--generate", "dims:4"], vec!["--layout", "nowhere"], vec![]] {
        replay().args(&wrong).assert().code(2);
    }
}
