//! `memslot top` as a user runs it: printed, and on a terminal that it must leave as it was.
#![expect(
    clippy::unwrap_used,
    reason = "a test may panic; clippy.toml exempts test functions, not their helpers"
)]

use assert_cmd::Command;
use memslot::replay::synthetic::{self, Shape};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

fn recording(parent: &Path) -> PathBuf {
    let dir = parent.join("rec");
    synthetic::write(&dir, &Shape { faults: 2000, churn: 0, translations: 500, ..Shape::default() }).unwrap();
    dir
}

fn memslot() -> Command {
    Command::cargo_bin("memslot").unwrap()
}

#[test]
fn a_recording_is_printed_once_as_a_table_or_json() {
    let parent = tempfile::tempdir().unwrap();
    let dir = recording(parent.path());
    let top = |more: &[&str]| {
        let output = memslot().args(["top", "--once", "--recording"]).arg(&dir).args(more).assert().success();
        String::from_utf8(output.get_output().stdout.clone()).unwrap()
    };
    let table = top(&["--by", "queue"]);
    assert!(table.contains("device 0/") && table.contains("500"), "{table}");
    let value: Value = serde_json::from_str(&top(&["--json", "--sort", "name"])).unwrap();
    let calls: Vec<_> = value["rows"].as_array().unwrap().iter().map(|row| row["calls"].clone()).collect();
    assert_eq!(calls, [2000, 500]);
    let value: Value = serde_json::from_str(&top(&["--json", "--filter", "translate"])).unwrap();
    assert_eq!(value["rows"].as_array().unwrap().len(), 1);
}

#[test]
fn without_a_terminal_it_says_what_does_without() {
    let parent = tempfile::tempdir().unwrap();
    let dir = recording(parent.path());
    memslot().args(["top", "--recording"]).arg(&dir).assert().code(2).stderr(
        "memslot: there is no terminal for a live table; --once prints it once, --json line by line\n",
    );
    for wrong in
        [&["--once", "--count", "3"][..], &["--recording", "r", "--mode", "events"], &["--sort", "x"]]
    {
        memslot().arg("top").args(wrong).assert().code(2);
    }
}

/// `memslot top` on a terminal of 110 by 30, which `script` of util-linux provides.
struct Session {
    script: Child,
    /// Where the settings before and after, and the process's number, are written.
    folder: PathBuf,
    said: Vec<u8>,
}

impl Session {
    fn start(folder: &Path, dir: &Path, more: &str) -> Self {
        let command = format!(
            "stty rows 30 cols 110; stty -a >'{0}/before'; \
             sh -c 'echo $$ >\"{0}/pid\"; exec \"{1}\" top --recording \"{2}\" {more}'; stty -a >'{0}/after'",
            folder.display(),
            assert_cmd::cargo::cargo_bin("memslot").display(),
            dir.display()
        );
        let script = std::process::Command::new("script")
            .args(["--quiet", "--return", "--command", &command, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script of util-linux is on every Debian");
        Self { script, folder: folder.to_owned(), said: Vec::new() }
    }

    /// Reads until the screen has said this.
    fn wait_for(&mut self, text: &str) {
        let mut byte = [0];
        while !self.said.ends_with(text.as_bytes()) {
            let read = self.script.stdout.as_mut().unwrap().read(&mut byte).unwrap();
            assert!(read > 0, "it never said {text}: {}", String::from_utf8_lossy(&self.said));
            self.said.push(byte[0]);
        }
    }

    fn press(&mut self, keys: &str) {
        self.script.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end, and looks at how the terminal was left; what was said.
    fn finish(mut self) -> String {
        self.script.stdout.as_mut().unwrap().read_to_end(&mut self.said).unwrap();
        self.script.wait().unwrap();
        let settings = |name: &str| std::fs::read_to_string(self.folder.join(name)).unwrap();
        assert!(settings("before").contains("icanon"));
        assert_eq!(settings("after"), settings("before"), "the terminal's settings");
        let said = String::from_utf8_lossy(&self.said).into_owned();
        // Alternate screen and cursor: taken, and last of all given back.
        let last = |of: &str| said.rfind(of).unwrap_or_else(|| panic!("never {of:?}"));
        assert!(last("\u{1b}[?1049h") < last("\u{1b}[?1049l"), "the screen");
        assert!(last("\u{1b}[?25l") < last("\u{1b}[?25h"), "the cursor");
        said
    }
}

#[test]
fn keys_work_and_quitting_leaves_the_terminal_as_it_was() {
    let parent = tempfile::tempdir().unwrap();
    let dir = recording(parent.path());
    let mut session = Session::start(parent.path(), &dir, "");
    session.wait_for("CALLS/S");
    session.press("?");
    // Of the help; a screen draws only what changes, so no more than a word is sure to come in one piece.
    session.wait_for("another");
    session.press("x/translate\rq");
    session.finish();
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    for signal in ["-TERM", "-HUP", "-INT"] {
        let parent = tempfile::tempdir().unwrap();
        let dir = recording(parent.path());
        let mut session = Session::start(parent.path(), &dir, "");
        session.wait_for("CALLS/S");
        let pid = std::fs::read_to_string(parent.path().join("pid")).unwrap();
        let killed = std::process::Command::new("kill").args([signal, pid.trim()]).status().unwrap();
        assert!(killed.success());
        session.finish();
    }
}

#[test]
fn a_panic_speaks_on_the_terminal_as_it_was() {
    let parent = tempfile::tempdir().unwrap();
    let dir = recording(parent.path());
    let said = Session::start(parent.path(), &dir, "--panic").finish();
    let panic = said.find("asked for by --panic").expect("the panic is told");
    assert!(said.find("\u{1b}[?1049l").unwrap() < panic, "after the screen was given back: {said:?}");
}
