//! Tables and summaries, word for word.

use super::summary::Summary;
use super::tables;
use crate::chart::fixture::lifelike;
use crate::digest::Digest;
use crate::model::Probe;
use serde_json::{Value, json};

fn digests() -> Vec<Digest> {
    vec![
        lifelike::slots("slots-3", 3, 500, 1),
        lifelike::slots("slots-53", 53, 500, 2),
        lifelike::regions("regions-53", 53, 400, 5),
        lifelike::ple("overcommitted", 4, true, 8),
    ]
}

#[test]
fn tables_are_as_they_were() {
    let found = tables::all(&digests());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/golden/tables.txt");
    if std::env::var_os("MEMSLOT_BLESS").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    let known = std::fs::read_to_string(path).unwrap();
    assert_eq!(found, known, "if the change is meant: MEMSLOT_BLESS=1 cargo test");
}

#[test]
fn no_recording_makes_no_table() {
    assert_eq!(tables::all(&[]), "");
}

#[test]
fn losses_are_told_by_reason() {
    let mut digests = [lifelike::ple("PLE", 2, false, 7)];
    let meta = digests[0].meta.probes.get_mut(&Probe::Ple).unwrap();
    meta.account.entries += 6;
    meta.account.begun += 6;
    meta.account.finished += 6;
    meta.account.ring_full = 4;
    meta.account.missed = 1;
    meta.account.emitted += 2;
    meta.note = Some("kprobe, because the module has no BTF".into());
    digests[0].meta.complete = false;
    let text = tables::all(&digests);
    let notes = text.split("Notes\n").nth(1).unwrap();
    assert_eq!(
        notes,
        "  PLE, ple: lost, ring buffer full: 4
  PLE, ple: lost, probe skipped by the kernel: 1
  PLE, ple: lost, not recorded: 2
  PLE, ple: kprobe, because the module has no BTF
  PLE: the recording was cut off; what was written is read
"
    );
    let summary = Summary::new("live", &digests, Vec::new());
    assert!(!summary.complete);
    assert_eq!(summary.probes[&Probe::Ple].lost.total, 7);
    assert_eq!(summary.recordings[0].probes[&Probe::Ple].lost.not_recorded, 2);
}

#[test]
fn the_summary_has_the_keys_that_readers_rely_on() {
    let summary = Summary::new("lab", &digests(), vec!["page-fault-latency.png".into()]);
    let value: Value = serde_json::from_str(&summary.to_json().unwrap()).unwrap();
    assert_eq!(value["schema"], 1);
    assert_eq!(value["mode"], "lab");
    assert_eq!(value["kernel"], "6.12.48+deb12-cloud-amd64");
    assert_eq!(value["attach"], json!({"page_fault": "fentry", "ple": "fentry", "translate": "fentry"}));
    assert_eq!(value["charts"], json!(["page-fault-latency.png"]));
    let fault = &value["probes"]["page_fault"];
    assert_eq!((&fault["entries"], &fault["returns"]), (&json!(1000), &json!(1000)));
    assert_eq!(fault["lost"]["total"], 0);
    for quantile in ["p50", "p90", "p99"] {
        assert!(fault["latency_ns"][quantile].as_f64().unwrap() > 2900.0, "{quantile}");
    }
    let histogram = fault["search_length"]["histogram"].as_object().unwrap();
    assert!(histogram.contains_key("0"));
    let searched: u64 = histogram.values().map(|count| count.as_u64().unwrap()).sum();
    let by_kind = |kind: &str| fault["latency_ns_by_kind"][kind]["count"].as_u64().unwrap();
    assert_eq!(searched, by_kind("ram_last_used") + by_kind("ram_searched") + by_kind("no_slot"));
    assert_eq!(by_kind("mmio_cached") + searched, 1000);
    assert_eq!(value["probes"]["ple"]["search_length"], Value::Null);
    assert_eq!(value["probes"]["translate"]["entries"], 400);
    let engines = value["engines"].as_array().unwrap();
    assert_eq!(engines.len(), 12, "three replays of four engines");
    let wbtree =
        engines.iter().find(|engine| engine["engine"] == "wbtree" && engine["recording"] == "slots-53");
    let wbtree = wbtree.unwrap();
    assert_eq!((&wbtree["probe"], &wbtree["mismatches"]), (&json!("page_fault"), &json!(0)));
    for key in ["lookups", "visited_mean", "ns_per_lookup"] {
        assert!(wbtree[key].as_f64().unwrap() > 0.0, "{key}");
    }
    let recordings = value["recordings"].as_array().unwrap();
    assert_eq!(recordings.len(), 4);
    assert_eq!(recordings[1]["label"], "slots-53");
    assert_eq!(recordings[1]["slots"], 53);
    assert_eq!(recordings[1]["probes"]["page_fault"]["entries"], 500);
    assert_eq!(recordings[1]["attach"]["ple"], "none");
    assert_eq!(recordings[3]["yields"]["tried"], 3003);
    assert_eq!(
        recordings[0]["replays"]["page_fault"]["no_fit"],
        "searches of 2 lengths only; a line needs 3"
    );
}

#[test]
fn a_summary_survives_being_written_and_read() {
    let summary = Summary::new("live", &digests(), Vec::new());
    let read: Summary = serde_json::from_str(&summary.to_json().unwrap()).unwrap();
    assert_eq!(read.recordings.len(), summary.recordings.len());
    assert_eq!(read.probes[&Probe::PageFault].search_length, summary.probes[&Probe::PageFault].search_length);
    assert_eq!(read.attach, summary.attach);
}

#[test]
fn nothing_recorded_is_null_not_zero() {
    let value = serde_json::to_value(Summary::new("live", &[Digest::default()], Vec::new())).unwrap();
    assert_eq!(value["probes"]["page_fault"]["latency_ns"], Value::Null);
    assert_eq!(value["recordings"][0]["slots"], Value::Null);
    assert_eq!(value["attach"]["page_fault"], "none");
}
