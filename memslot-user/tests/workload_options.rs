//! What `memslot workload` refuses before it touches KVM or vhost: one sentence, exit code 2.

#![expect(clippy::unwrap_used, reason = "a helper outside the test functions")]

use assert_cmd::Command;

fn refused(args: &[&str]) -> String {
    let output = Command::cargo_bin("memslot").unwrap().arg("workload").args(args).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn contradictions_are_told_in_one_sentence() {
    for (args, sentence) in [
        (&["slots", "--slots", "2"][..], "at least 3 slots"),
        (&["slots", "--mmio", "70", "--gap", "31"], "exceed 100 percent"),
        (&["slots", "--refault", "dirty"], "add --write"),
        (&["slots", "--vcpus", "65"], "1 to 64 vCPUs"),
        (&["slots", "--large", "3041"], "1 to 3040 MiB"),
        (&["slots", "--slots", "5", "--churn", "delete", "--rounds", "9"], "no slot is left to change"),
        (&["ple", "--vcpus", "0"], "from 1 to 60"),
        (&["ple", "--cpus", "1023"], "CPU 1023 is not online"),
        (&["vhost", "--queue", "1000"], "power of two"),
        (&["vhost", "--chain", "300"], "from 1 to 256"),
    ] {
        let text = refused(args);
        assert!(text.starts_with("memslot: ") && text.contains(sentence), "{args:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    }
}

#[test]
fn a_bad_layout_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("layout.json");
    let name = path.to_str().unwrap();
    let args = ["slots", "--layout", "file", "--layout-file", name];
    assert!(refused(&args).contains("cannot read the layout file"));
    std::fs::write(&path, "{}").unwrap();
    assert!(refused(&args).contains("is no layout"));
    std::fs::write(
        &path,
        r#"{"layout":[{"id":3,"base_gfn":0,"npages":600},{"id":4,"base_gfn":599,"npages":1}]}"#,
    )
    .unwrap();
    assert_eq!(refused(&args), "memslot: slots 3 and 4 overlap; correct the layout\n");
    assert!(refused(&args[..3]).contains("--layout-file"));
}
