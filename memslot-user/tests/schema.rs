//! The schemas of `docs/schema`: they are the program's own, and what it prints is as they say.

#![expect(
    clippy::unwrap_used,
    reason = "a test may panic; clippy.toml exempts test functions, not their helpers"
)]

use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const KEPT: [&str; 5] =
    ["ple-over-6.1", "ple-over-6.12", "regions-cross-6.1", "slots-churn-6.12", "small-6.12"];

fn fixture(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name).to_str().unwrap().to_owned()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema")
}

/// The schema, with every object closed: what it does not name must not be there. As published it is open, so
/// that a reader of today takes the fields of tomorrow.
fn closed(name: &str) -> Value {
    fn close(schema: &mut Value) {
        match schema {
            Value::Object(object) => {
                object.values_mut().for_each(close);
                if object.get("properties").is_some_and(Value::is_object)
                    && !object.contains_key("additionalProperties")
                {
                    object.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
                }
            }
            Value::Array(values) => values.iter_mut().for_each(close),
            _ => {}
        }
    }
    let path = folder().join(format!("{name}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut schema = serde_json::from_str(&text).unwrap();
    close(&mut schema);
    schema
}

fn hold(document: &Value, name: &str, what: &str) {
    let validator = jsonschema::validator_for(&closed(name)).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| {
            format!(
                "{} at {}",
                error.to_string().chars().take(300).collect::<String>(),
                error.instance_path()
            )
        })
        .collect();
    assert!(errors.is_empty(), "{what} is not as {name}.json says:\n{}", errors.join("\n"));
}

fn printed(words: &[&str]) -> Value {
    let output = Command::new(cargo_bin!("memslot")).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code().is_some_and(|code| code < 2), "{words:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

#[test]
fn the_published_schemas_are_those_of_the_program() {
    let made = tempfile::tempdir().unwrap();
    let status = Command::new(cargo_bin!("memslot"))
        .args(["generate", "schemas", "--out"])
        .arg(made.path())
        .status()
        .unwrap();
    assert!(status.success());
    let read = |folder: &Path| -> BTreeMap<String, String> {
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let schemas = files.filter(|path| path.extension() == Some("json".as_ref()));
        schemas
            .map(|path| {
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                (name, fs::read_to_string(path).unwrap())
            })
            .collect()
    };
    let (made, published) = (read(made.path()), read(&folder()));
    assert!(made.len() >= 15);
    for name in made.keys().chain(published.keys()) {
        assert!(
            made.get(name) == published.get(name),
            "docs/schema/{name} is not what the program prints; run `memslot generate schemas --out docs/schema`"
        );
    }
}

#[test]
fn what_is_printed_is_as_the_schemas_say() {
    let old = KEPT.map(fixture);
    let all: Vec<&str> = old.iter().map(String::as_str).collect();
    let with = |first: &[&str], recordings: &[&str], last: &[&str]| {
        let words: Vec<&str> = first.iter().chain(recordings).chain(last).copied().collect();
        printed(&words)
    };
    hold(&with(&["summary", "--json", "--rounds", "1"], &all, &[]), "summary", "summary");
    hold(&with(&["summary", "--json", "--no-replay"], &all, &[]), "summary", "summary without replay");
    for by in ["vm", "vcpu", "slot", "queue", "class", "cpu"] {
        hold(&with(&["summary", "--json", "--by", by], &all, &[]), "summary-by", by);
    }
    for recording in &all {
        hold(&printed(&["replay", "--json", "--rounds", "1", recording]), "replay", recording);
        hold(&printed(&["ple", "--json", recording]), "ple", recording);
        let meta = fs::read_to_string(Path::new(recording).join("meta.json")).unwrap();
        hold(&serde_json::from_str(&meta).unwrap(), "recording-meta", recording);
    }
    let simulated = printed(&["ple", "--simulate", "--json", "--milliseconds", "5", "--runs", "1"]);
    hold(&simulated, "ple-simulate", "ple --simulate");
    let direct = ["replay", "--json", "--rounds", "1", "--accesses", "1000", "--generate"];
    for layout in ["qemu-q35", "dimms:64", "2011"] {
        hold(&with(&direct, &[layout], &[]), "replay-direct", layout);
    }
    hold(&printed(&["engines", "--json"]), "engines", "engines");
    for tree in ["wbtree", "rbtree", "interval_tree"] {
        hold(&printed(&["engines", "--json", "--show", tree]), "engines-show", tree);
    }
    let exports = tempfile::tempdir().unwrap();
    let out = exports.path().to_str().unwrap();
    hold(&with(&["export", "--json", "--out", out], &all, &[]), "export", "export");
    let charts = tempfile::tempdir().unwrap();
    let out = charts.path().to_str().unwrap();
    hold(&with(&["chart", "--json", "--no-replay", "--out", out], &all[..1], &[]), "chart", "chart");
    let compared = ["compare", "--json", "--control", "--before", all[0], "--after", all[1]];
    hold(&printed(&compared), "compare", "compare");
    hold(&printed(&["compare", "--json", "-b", all[0], "-a", all[3]]), "compare", "nothing to compare");
}

#[test]
fn a_document_that_is_not_as_its_schema_says_is_found() {
    let validator = jsonschema::validator_for(&closed("engines")).unwrap();
    assert!(validator.is_valid(&serde_json::json!([{"name": "a", "what": "b"}])));
    for wrong in [
        serde_json::json!([{"name": "a"}]),
        serde_json::json!([{"name": "a", "what": 3}]),
        serde_json::json!([{"name": "a", "what": "b", "more": 1}]),
    ] {
        assert!(!validator.is_valid(&wrong), "{wrong}");
    }
}

/// What only a real kernel lets be printed; the lab leaves it in the folder that `MEMSLOT_LAB` names.
#[test]
#[ignore = "needs what the lab printed; `cargo xtask test --stage fleet` runs it"]
fn what_the_lab_printed_is_as_the_schemas_say() {
    let folder = PathBuf::from(std::env::var_os("MEMSLOT_LAB").expect("MEMSLOT_LAB names no folder"));
    let read =
        |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    hold(&serde_json::from_str(&read("doctor.json")).unwrap(), "doctor", "doctor");
    let meta = read("live.rec/meta.json");
    hold(&serde_json::from_str(&meta).unwrap(), "recording-meta", "a new recording");
    for (name, schema, lines) in [
        ("record.ndjson", "record", 2),
        ("slots.ndjson", "workload", 3),
        ("ple.ndjson", "workload", 1),
        ("vhost.ndjson", "workload", 1),
    ] {
        let text = read(name);
        assert!(text.lines().count() >= lines, "{name}: {text}");
        for line in text.lines() {
            hold(&serde_json::from_str(line).unwrap(), schema, name);
        }
    }
}
