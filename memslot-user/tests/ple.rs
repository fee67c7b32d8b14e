//! `memslot ple` as a user runs it.
#![expect(
    clippy::unwrap_used,
    reason = "a test may panic; clippy.toml exempts test functions, not their helpers"
)]

use assert_cmd::Command;
use std::path::Path;

fn ple(arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::cargo_bin("memslot").unwrap().arg("ple").args(arguments).assert()
}

fn json(assert: assert_cmd::assert::Assert) -> serde_json::Value {
    serde_json::from_slice(&assert.success().get_output().stdout).unwrap()
}

#[test]
fn recorded_windows_are_held_against_the_rules() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let names =
        ["ple-over-6.1", "ple-over-6.12"].map(|name| fixtures.join(name).to_str().unwrap().to_owned());
    let document = json(ple(&[&names[0], &names[1], "--json", "--ns-per-unit", "10"]));
    assert_eq!(document["schema"], 1);
    let recordings = document["ple"].as_array().unwrap();
    assert_eq!(recordings.len(), 2);
    for recording in recordings {
        let trail = &recording["trail"];
        assert_eq!((&trail["differ"], &trail["steps_differ"]), (&0.into(), &0.into()));
        assert_eq!(recording["policies"].as_array().unwrap().len(), 5);
        assert!(recording["unconfirmed"].as_str().unwrap().contains("PLE hardware"));
    }
}

#[test]
fn a_simulation_repeats_and_what_is_wrong_is_said() {
    let arguments =
        ["--simulate", "--json", "--cpus", "4", "--milliseconds", "20", "--runs", "2", "--loads", "1,2"];
    let document = json(ple(&arguments));
    assert_eq!(document, json(ple(&arguments)));
    assert_eq!(document["simulated"]["rows"].as_array().unwrap().len(), 10);
    for wrong in [
        vec![],
        vec!["nowhere"],
        vec!["--simulate", "--policy", "never"],
        vec!["--simulate", "--loads", "0"],
        vec!["--simulate", "--cpus", "5000"],
        vec!["nowhere", "--ns-per-unit", "0"],
    ] {
        let output = ple(&wrong).code(2).get_output().stderr.clone();
        assert!(!output.is_empty(), "{wrong:?}");
    }
}
