//! Runs every command of the documents and of the help texts: those that read and draw here, on the recordings that are
//! kept as fixtures; those that need a kernel are run in the lab by `cargo xtask test --stage documents`.

#![expect(
    clippy::unwrap_used,
    reason = "a test may panic; clippy.toml exempts test functions, not their helpers"
)]

use assert_cmd::cargo::cargo_bin;
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Mutex,
    thread,
};

/// Commands that need probes, KVM or root.
const NEED_A_KERNEL: [&str; 3] = ["doctor", "record", "workload"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Lines of the code blocks for a shell in a document, those that go on joined.
fn block_lines(text: &str) -> Vec<String> {
    let (mut found, mut inside) = (Vec::new(), false);
    for line in text.replace("\\\n", " ").lines() {
        match line.trim().strip_prefix("```") {
            Some(language) => inside = !inside && language == "sh",
            None if inside => found.push(line.trim().to_owned()),
            None => {}
        }
    }
    found
}

/// Examples of every command's help text.
fn examples() -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let output = Command::new(cargo_bin!("memslot")).args(&path).arg("--help").output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let after = |heading: &str| -> Vec<&str> {
            let lines = help.lines().skip_while(|line| *line != heading).skip(1);
            lines.take_while(|line| line.starts_with("  ")).collect()
        };
        found.extend(after("Examples:").into_iter().map(|line| line.trim().to_owned()));
        for line in after("Commands:").into_iter().filter(|line| !line.starts_with("   ")) {
            let name = line.split_whitespace().next().unwrap().to_owned();
            if name != "help" {
                open.push(path.iter().cloned().chain([name]).collect());
            }
        }
    }
    found
}

/// The command of memslot that a line runs.
fn command(line: &str) -> Option<&str> {
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    line.strip_prefix("memslot ")?.split_whitespace().next()
}

fn needs_a_kernel(line: &str) -> bool {
    let command = command(line).unwrap_or_default();
    let serves_host = ["serve", "exporter"].contains(&command) && !line.contains("--recording");
    // A live table takes a terminal, too: tests/top.rs has one.
    let prints_recording =
        line.contains("--recording") && (line.contains("--once") || line.contains("--json"));
    let shows_host = command == "top" && !prints_recording;
    NEED_A_KERNEL.contains(&command) || serves_host || shows_host
}

/// A folder with all that the documents speak of.
fn sandbox() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let bin = path.join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(cargo_bin!("memslot"), bin.join("memslot")).unwrap();
    // What may not be there is replaced by what takes the same input.
    for (name, script) in [("sudo", "exec \"$@\""), ("jq", "exec cat"), ("man", "exec cat")] {
        let tool = bin.join(name);
        fs::write(&tool, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let recordings = [
        ("small-6.12", vec!["rec", "host-a", "host-b", "before", "after"]),
        ("slots-churn-6.12", vec!["slots-3", "slots-53", "slots-509"]),
        ("ple-over-6.12", vec!["compared/before-1/ple-overcommit", "compared/after-1/ple-overcommit"]),
    ];
    let runs: Vec<String> = ["before", "after", "old", "new"]
        .iter()
        .flat_map(|side| (1..=4).map(move |run| format!("{side}-{run}")))
        .collect();
    let runs = runs.iter().map(|name| ("small-6.12", name.as_str()));
    for (fixture, name) in
        recordings.iter().flat_map(|(of, names)| names.iter().map(move |name| (*of, *name))).chain(runs)
    {
        let to = path.join(name);
        fs::create_dir_all(&to).unwrap();
        for file in fs::read_dir(fixtures.join(fixture)).unwrap() {
            let file = file.unwrap().path();
            fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
        }
    }
    let slots = "id,base_gfn,npages\n0,0,160\n1,1048576,1024\n2,2097152,4096\n";
    fs::write(path.join("slots.csv"), slots).unwrap();
    let layout = r#"[{"id":0,"base_gfn":0,"npages":160},{"id":1,"base_gfn":1048576,"npages":1024}]"#;
    fs::write(path.join("slots.json"), layout).unwrap();
    let addresses = "gfn,vcpu\n1,0\n1048577,0\n2097160,1\n9999999,1\n";
    fs::write(path.join("addresses.csv"), addresses).unwrap();
    let addresses = r#"[{"gfn":1,"vcpu":0},{"gfn":1048577,"vcpu":0},{"gfn":2097160,"vcpu":1}]"#;
    fs::write(path.join("addresses.json"), addresses).unwrap();
    let mtree = "FlatView #0\n AS \"memory\", root: system\n Root memory region: system\n  \
                 0000000000000000-000000000009ffff (prio 0, ram): pc.ram\n  \
                 0000000100000000-000000017fffffff (prio 0, ram): pc.ram @0000000080000000\n";
    fs::write(path.join("mtree.txt"), mtree).unwrap();
    let compare = "memslot compare --before before --after after --out comparison";
    let (code, said) = run(path, compare);
    // That two runs cannot tell is no error.
    assert!(matches!(code, Some(0 | 1)), "{said}");
    folder
}

/// Runs a line as a shell would; its exit code and all that it said.
fn run(sandbox: &Path, line: &str) -> (Option<i32>, String) {
    let path = format!("{}:{}", sandbox.join("bin").display(), std::env::var("PATH").unwrap());
    let serves = command(line).is_some_and(|command| ["serve", "exporter"].contains(&command));
    let mut child = Command::new(if serves { "timeout" } else { "bash" });
    if serves {
        // On a port of its own, and ended as a user would; that ends it with 0.
        let line = line.replace(":9752", ":0");
        let line = if line.contains("--listen") { line } else { format!("{line} --listen 127.0.0.1:0") };
        child.args(["--preserve-status", "--signal=INT", "2", "bash", "-c"]).arg(format!("exec {line}"));
    } else {
        child.arg("-c").arg(format!("set -o pipefail; {line}"));
    }
    let output = child.env("PATH", path).current_dir(sandbox).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[test]
fn every_command_that_needs_no_kernel_runs() {
    let sandbox = sandbox();
    let folders = [root(), root().join("docs"), root().join("docs/schema"), root().join("charts")];
    let files =
        folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|file| file.unwrap().path());
    let documents = files.filter(|path| path.extension() == Some("md".as_ref()));
    let mut lines: Vec<(String, String)> = documents
        .flat_map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            block_lines(&fs::read_to_string(&path).unwrap()).into_iter().map(move |line| (name.clone(), line))
        })
        .collect();
    lines.extend(examples().into_iter().map(|line| ("--help".to_owned(), line)));
    let mut once = BTreeSet::new();
    lines.retain(|(_, line)| command(line).is_some() && !needs_a_kernel(line) && once.insert(line.clone()));
    let (next, failed) = (Mutex::new(lines.iter()), Mutex::new(Vec::new()));
    let work = || {
        while let Some((whence, line)) = { next.lock().unwrap().next() } {
            let (code, said) = run(sandbox.path(), line);
            // 1 is a result: some of the recordings are too few or too small for what is asked of them.
            if code.is_none_or(|code| code > 1) || said.contains("panicked") {
                failed.lock().unwrap().push(format!("{whence}: {line}\n    {code:?} {}", said.trim()));
            }
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let (failed, count) = (failed.into_inner().unwrap(), lines.len());
    assert!(failed.is_empty(), "{} of {count} commands fail:\n{}", failed.len(), failed.join("\n"));
    assert!(count > 35, "only {count} commands were found");
    println!("{count} commands were run");
}

#[test]
fn a_command_that_is_none_is_found() {
    let sandbox = sandbox();
    assert_eq!(run(sandbox.path(), "memslot summary nothing").0, Some(2));
    assert_eq!(run(sandbox.path(), "memslot summary rec --nonsense | head").0, Some(2));
    assert_eq!(run(sandbox.path(), "memslot serve --recording nothing").0, Some(2));
    assert_eq!(run(sandbox.path(), "memslot engines").0, Some(0));
    assert!(needs_a_kernel("sudo memslot serve") && !needs_a_kernel("memslot serve --recording rec"));
}
