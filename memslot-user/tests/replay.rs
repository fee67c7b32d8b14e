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
    assert!(text.contains("there is no engine btree; choose from linear, linear_by_size"), "{text}");
}
