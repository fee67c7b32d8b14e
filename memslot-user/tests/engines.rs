//! `memslot engines` as a user runs it.
#![expect(
    clippy::unwrap_used,
    reason = "a test may panic; clippy.toml exempts test functions, not their helpers"
)]

use assert_cmd::Command;

fn show(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("memslot").unwrap();
    command.args(["engines", "--show"]).args(arguments);
    command
}

fn printed(arguments: &[&str]) -> String {
    String::from_utf8(show(arguments).assert().success().stderr("").get_output().stdout.clone()).unwrap()
}

#[test]
fn every_format_of_a_layout_gives_the_same_tree_in_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("layout.json", r#"[{"id":0,"base_gfn":0,"npages":160},{"id":1,"base_gfn":256,"npages":3840}]"#),
        ("layout.csv", "id,start,last\n0,0,0x9ffff\n1,0x100000,0xffffff\n"),
    ];
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        assert_eq!(
            printed(&["wbtree", "--layout", path.to_str().unwrap()]),
            "wbtree: 2 ranges, 2 deep. Nodes visited on average: 1.04 for an address that is held, 1.50 for a \
             range, 1.67 in vain\n\n depth\n     1  0x100000..=0xffffff, 15 MiB, slot 1\n     \
             2    L 0x0..=0x9ffff, 640 KiB, slot 0\n"
        );
    }
    let path = folder.path().join("mtree.txt");
    std::fs::write(
        &path,
        "FlatView #0\n AS \"memory\", root: system\n  0000000000000000-000000000009ffff (prio 0, ram): pc.ram KVM\n  \
         0000000000100000-0000000000ffffff (prio 0, ram): pc.ram @0000000000100000 KVM\n",
    )
    .unwrap();
    let dot = printed(&["rbtree", "--dot", "--layout", path.to_str().unwrap()]);
    assert!(dot.contains("n0 [label=\"0x0..=0x9ffff\\n640 KiB\\nnumber 0, depth 1\" style=filled"), "{dot}");
    assert!(
        dot.contains("n1 [label=\"0x100000..=0xffffff\\n15 MiB\\nnumber 1, depth 2\" color=red]"),
        "{dot}"
    );
    assert!(dot.contains("n0 -> n1 [label=R]"), "{dot}");
}

#[test]
fn a_malformed_layout_is_refused_with_line_and_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layout");
    std::fs::write(&path, "id,start,size\n0,0,0x10000\n1,0xf000,1\n").unwrap();
    let error = show(&["wbtree"]).arg("--layout").arg(&path).assert().code(2).get_output().stderr.clone();
    let error = String::from_utf8(error).unwrap();
    assert!(error.contains("layout: line 3: 0xf000..=0xf000 overlaps 0x0..=0xffff of line 2"), "{error}");
    show(&["wbtree", "--layout", "x", "--generate", "2011"]).assert().code(2);
    show(&["wbtree", "--generate", "dims:4"]).assert().code(2);
}

#[test]
fn the_guests_of_2011_and_the_bad_case_are_shown() {
    // The averages that were told for guests of 2, 4 and 8 GiB: the RAM is on top.
    for (guest, visited) in [("2011:2", "1.00"), ("2011:4", "1.13"), ("2011:8", "1.44")] {
        let text = printed(&["wbtree", "--generate", guest]);
        assert!(text.contains(&format!("on average: {visited} for an address that is held")), "{text}");
        for engine in ["rbtree", "interval_tree"] {
            assert!(printed(&[engine, "--generate", guest]).contains(", black, slot "));
        }
    }
    let list = printed(&["wbtree", "--generate", "dimms:256"]);
    assert!(list.starts_with("wbtree: 269 ranges, 257 deep.") && list.contains("\nThis is nearly a list: "));
    let shuffled = printed(&["wbtree", "--generate", "dimms:256", "--shuffle", "1"]);
    assert!(!shuffled.contains("This is nearly a list: "), "{shuffled}");
}
