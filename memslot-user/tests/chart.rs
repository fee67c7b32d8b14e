//! `memslot chart` and `memslot summary` as a user runs them.
#![expect(
    clippy::unwrap_used,
    reason = "a test may panic; clippy.toml exempts test functions, not their helpers"
)]

use assert_cmd::Command;
use memslot::replay::synthetic::{self, Shape};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn recording(parent: &Path, name: &str, shape: &Shape) -> PathBuf {
    let dir = parent.join(name);
    synthetic::write(&dir, shape).unwrap();
    dir
}

fn memslot(command: &str) -> Command {
    let mut memslot = Command::cargo_bin("memslot").unwrap();
    // No display, no home, no fonts: nothing of the system is needed.
    memslot.env_clear().args([command, "--rounds", "3"]);
    memslot
}

fn json(output: &[u8]) -> Value {
    serde_json::from_slice(output).unwrap()
}

/// Width and height of a PNG, decoded to the last pixel.
fn size_of(path: &Path) -> (u32, u32) {
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert!(pixels.iter().any(|byte| *byte != u8::MAX), "{} is blank", path.display());
    (info.width, info.height)
}

#[test]
fn several_recordings_are_drawn_and_summed_up_in_one_go() {
    let parent = tempfile::tempdir().unwrap();
    let dirs = [3, 53, 509].map(|size| {
        let shape = Shape {
            slots: size,
            regions: size,
            faults: 1500,
            translations: 800,
            seed: 7,
            ..Shape::default()
        };
        recording(parent.path(), &format!("size-{size}"), &shape)
    });
    let out = parent.path().join("a/b/charts");
    let summary = parent.path().join("summary.json");
    let output = memslot("chart")
        .args(&dirs)
        .arg("--json")
        .arg("-o")
        .arg(&out)
        .arg("--summary")
        .arg(&summary)
        .args(["--mode", "lab", "--width", "1300", "--height", "700"])
        .assert()
        .success()
        .stderr("");
    let document = json(&output.get_output().stdout);
    assert_eq!((&document["schema"], &document["sound"]), (&Value::from(1), &Value::from(true)));
    let charts = document["charts"].as_array().unwrap();
    assert_eq!(charts.len(), 19, "ten of page faults, nine of translations, none of PLE");
    for chart in charts {
        let (width, height) = size_of(&out.join(chart["file"].as_str().unwrap()));
        assert_eq!(Value::from(width), chart["width"]);
        assert_eq!(Value::from(height), chart["height"]);
        assert!(width == 1300 && height >= 700);
    }
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), charts.len());

    let summary = json(&std::fs::read(&summary).unwrap());
    assert_eq!(summary["mode"], "lab");
    assert_eq!(summary["charts"].as_array().unwrap().len(), charts.len());
    assert_eq!(summary["recordings"][2]["slots"], 509);
    assert_eq!(summary["recordings"][2]["regions"], 509);
    let engines = summary["engines"].as_array().unwrap();
    assert!(engines.iter().all(|engine| engine["mismatches"] == 0));
    let mean = |name: &str, label: &str| {
        let found = engines.iter().find(|engine| {
            engine["engine"] == name && engine["probe"] == "page_fault" && engine["recording"] == label
        });
        found.unwrap()["visited_mean"].as_f64().unwrap()
    };
    assert!(mean("linear", "synthetic, size-509") > 4.0 * mean("linear", "synthetic, size-53"));
    assert!(mean("wbtree", "synthetic, size-509") < mean("linear", "synthetic, size-509"));
}

#[test]
fn one_probe_is_drawn_even_without_events() {
    let parent = tempfile::tempdir().unwrap();
    let dir = recording(parent.path(), "r", &Shape { faults: 200, translations: 0, ..Shape::default() });
    let out = parent.path().join("charts");
    let output =
        memslot("chart").arg(&dir).args(["--no-replay", "--probe", "ple", "-o"]).arg(&out).assert().success();
    let listed = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    let expected = ["latency", "over-time", "ecdf", "percentiles", "window", "yields", "replay", "policies"]
        .map(|chart| format!("ple-{chart}.png"))
        .map(|file| format!("{}\n", out.join(file).display()));
    assert_eq!(listed, expected.concat());
}

#[test]
fn charts_can_be_chosen_and_written_as_svg_or_both() {
    let parent = tempfile::tempdir().unwrap();
    let dir = recording(parent.path(), "r", &Shape { faults: 900, translations: 300, ..Shape::default() });
    let out = parent.path().join("charts");
    let output = memslot("chart")
        .arg(&dir)
        .args([
            "--no-replay",
            "--json",
            "--only",
            "over-time",
            "--only",
            "layout",
            "--format",
            "svg,png",
            "-o",
        ])
        .arg(&out)
        .assert()
        .success();
    let document = json(&output.get_output().stdout);
    let charts: Vec<_> =
        document["charts"].as_array().unwrap().iter().map(|one| one["file"].as_str().unwrap()).collect();
    let expected = ["page-fault-over-time", "page-fault-layout", "translate-over-time"];
    let expected: Vec<String> = expected
        .into_iter()
        .flat_map(|stem| ["png", "svg"].map(|ending| format!("{stem}.{ending}")))
        .collect();
    assert_eq!(charts, expected);
    for chart in charts {
        let path = out.join(chart);
        if chart.ends_with(".png") {
            assert_eq!(size_of(&path).0, 1600);
        } else {
            let svg = std::fs::read_to_string(&path).unwrap();
            assert!(
                svg.starts_with("<svg ") && svg.contains("width=\"1600\"") && svg.contains("<text "),
                "{chart}"
            );
        }
    }
    // What was asked for and has nothing to show says so, and is no error.
    memslot("chart").arg(&dir).args(["--no-replay", "--only", "yields", "-o"]).arg(&out).assert().success();
    assert!(out.join("ple-yields.png").exists());
    memslot("chart").arg(&dir).args(["--only", "nonsense"]).assert().code(2);
}

#[test]
fn a_report_is_one_file_that_says_what_is_missing() {
    let parent = tempfile::tempdir().unwrap();
    let dir = recording(parent.path(), "r", &Shape { faults: 900, translations: 300, ..Shape::default() });
    let file = parent.path().join("report.html");
    memslot("report").arg(&dir).arg("-o").arg(&file).assert().success();
    let html = std::fs::read_to_string(&file).unwrap();
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains("<strong>Whole</strong>"));
    for part in
        ["Page faults", "vhost translations", "Engines over the same look-ups", "Provenance of synthetic"]
    {
        assert!(html.contains(part), "{part}");
    }
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 2, "nothing lies beside it");
    // A comparison's directory is told from a recording's.
    let other =
        recording(parent.path(), "s", &Shape { faults: 900, translations: 300, seed: 2, ..Shape::default() });
    let compared = parent.path().join("compared");
    let mut compare = Command::cargo_bin("memslot").unwrap();
    let code = compare
        .arg("compare")
        .arg("--before")
        .arg(&dir)
        .arg("--after")
        .arg(&other)
        .arg("--out")
        .arg(&compared);
    assert!(code.output().unwrap().status.code() <= Some(1));
    memslot("report").arg(&compared).arg("-o").arg(&file).assert().success();
    let html = std::fs::read_to_string(&file).unwrap();
    assert!(html.contains("What changed") && html.contains("data:image/png;base64,"), "{html}");
    memslot("report").arg(&compared).arg(&dir).arg("-o").arg(&file).assert().code(2);

    let table = dir.join("faults.arrow");
    let bytes = std::fs::read(&table).unwrap();
    std::fs::write(&table, &bytes[..bytes.len() - 4]).unwrap();
    memslot("report").arg(&dir).arg("-o").arg(&file).assert().code(1);
    let html = std::fs::read_to_string(&file).unwrap();
    assert!(html.contains("Incomplete") && html.contains("synthetic: the recording was cut off"));
}

#[test]
fn an_empty_recording_is_drawn_and_exits_with_1() {
    let parent = tempfile::tempdir().unwrap();
    let dir = recording(parent.path(), "empty", &Shape { faults: 0, translations: 0, ..Shape::default() });
    let out = parent.path().join("charts");
    memslot("chart")
        .arg(&dir)
        .arg("-o")
        .arg(&out)
        .assert()
        .code(1)
        .stderr("memslot: no recording holds an event, and the charts say so\n");
    assert_eq!(size_of(&out.join("page-fault-latency.png")).0, 1600);
}

#[test]
fn recordings_of_one_name_are_told_apart() {
    let parent = tempfile::tempdir().unwrap();
    let shape = Shape { faults: 100, translations: 0, ..Shape::default() };
    std::fs::create_dir(parent.path().join("x")).unwrap();
    let dirs = [recording(parent.path(), "r", &shape), recording(parent.path(), "x/r", &shape)];
    let output = memslot("summary").args(&dirs).args(["--json", "--no-replay"]).assert().success();
    let recordings = json(&output.get_output().stdout)["recordings"].clone();
    assert_ne!(recordings[0]["label"], recordings[1]["label"]);
}

#[test]
fn tables_are_printed_and_a_file_is_written() {
    let parent = tempfile::tempdir().unwrap();
    let dir = recording(parent.path(), "r", &Shape { faults: 800, translations: 300, ..Shape::default() });
    let output = memslot("summary").arg(&dir).assert().success().stderr("");
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    for heading in ["Probes\n", "\nLatency by kind of call\n", "\nEngines over the same look-ups\n"] {
        assert!(text.contains(heading), "{heading}: {text}");
    }
    let file = parent.path().join("summary.json");
    memslot("summary").arg(&dir).args(["--json", "-o"]).arg(&file).assert().success().stdout("");
    assert_eq!(json(&std::fs::read(&file).unwrap())["probes"]["translate"]["events"], 300);
}

#[test]
fn what_was_cut_off_is_read_and_exits_with_1() {
    let parent = tempfile::tempdir().unwrap();
    let dir = recording(parent.path(), "r", &Shape { faults: 800, translations: 300, ..Shape::default() });
    let table = dir.join("faults.arrow");
    let bytes = std::fs::read(&table).unwrap();
    std::fs::write(&table, &bytes[..bytes.len() - 4]).unwrap();
    let output = memslot("summary").arg(&dir).assert().code(1);
    let text = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    assert!(text.contains("synthetic: the recording was cut off; what was written is read"), "{text}");
}

#[test]
fn bad_input_is_one_sentence_and_exit_code_2() {
    let parent = tempfile::tempdir().unwrap();
    let missing = parent.path().join("missing");
    let output = memslot("summary").arg(&missing).assert().code(2);
    let text = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert_eq!(text, format!("memslot: {} does not exist; check the path\n", missing.display()));

    let dir = recording(parent.path(), "r", &Shape { faults: 10, translations: 0, ..Shape::default() });
    let file = parent.path().join("file");
    std::fs::write(&file, "").unwrap();
    let output = memslot("chart").arg(&dir).arg("-o").arg(file.join("x")).assert().code(2);
    let text = String::from_utf8(output.get_output().stderr.clone()).unwrap();
    assert!(text.starts_with("memslot: cannot write ") && text.lines().count() == 1, "{text}");
    assert!(!text.contains("os error"), "{text}");

    for arguments in [&["chart"][..], &["chart", "r", "--width", "7"], &["chart", "r", "--probe", "x"]] {
        Command::cargo_bin("memslot").unwrap().args(arguments).assert().code(2);
    }
}
