//! The command line itself: help, exit codes, colours, closed pipes, completions, man pages.

#![expect(
    clippy::unwrap_used,
    reason = "a test may panic; clippy.toml exempts test functions, not their helpers"
)]

use assert_cmd::cargo::cargo_bin;
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/slots-churn-6.12");

fn memslot(words: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin!("memslot"));
    command.args(words).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").stdin(Stdio::null());
    command
}

fn answer(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().expect("it was killed"), text(&output.stdout), text(&output.stderr))
}

fn run(words: &[&str]) -> (i32, String, String) {
    answer(&memslot(words).output().unwrap())
}

/// The commands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Every command, with its help text.
fn commands() -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let words: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
        let (code, help, _) = run(&words);
        assert_eq!(code, 0, "{path:?}");
        for name in listed(&help).into_iter().filter(|name| name != "help") {
            open.push(path.iter().cloned().chain([name]).collect());
        }
        found.push((path, help));
    }
    found
}

#[test]
fn every_command_shows_examples_that_are_right_and_says_its_exit_codes() {
    let commands = commands();
    assert!(commands.len() > 15, "only {} commands", commands.len());
    let mut examples = 0;
    for (path, help) in commands {
        assert!(help.contains("Exit codes: 0 "), "{path:?} does not say its exit codes");
        let lines = help.lines().skip_while(|line| *line != "Examples:").skip(1);
        let own: Vec<&str> = lines.take_while(|line| line.starts_with("  ")).collect();
        assert!(!own.is_empty(), "{path:?} shows no example");
        for line in own {
            let line = line.trim().trim_start_matches("sudo ");
            if !line.starts_with("memslot ") {
                continue;
            }
            let words = line.split_whitespace().take_while(|word| !["--", "|", ">"].contains(word));
            let words: Vec<&str> = words.skip(1).chain(["--help"]).collect();
            let (code, _, said) = run(&words);
            assert_eq!(code, 0, "{line}: {said}");
            examples += 1;
        }
    }
    assert!(examples > 30, "only {examples} examples");
}

#[test]
fn exit_codes_are_those_that_are_documented() {
    let truncated = tempfile::tempdir().unwrap();
    let meta = fs::read_to_string(Path::new(RECORDING).join("meta.json")).unwrap();
    fs::write(truncated.path().join("meta.json"), meta.replace("\"complete\": true", "\"complete\": false"))
        .unwrap();
    let truncated = truncated.path().to_str().unwrap();
    for (code, words) in [
        (0, vec!["summary", RECORDING, "--no-replay"]),
        (1, vec!["summary", truncated, "--no-replay"]),
        (2, vec!["summary", "no-such-recording"]),
        (2, vec!["summary"]),
        (2, vec!["nonsense"]),
        (2, vec!["summary", "--nonsense"]),
        (0, vec!["--version"]),
        (0, vec!["help", "record"]),
    ] {
        assert_eq!(run(&words).0, code, "{words:?}");
    }
}

#[test]
fn a_slip_of_the_finger_is_understood_or_answered_with_what_was_meant() {
    for (words, meant) in [
        (&["sumary", RECORDING][..], "'summary'"),
        (&["summary", "--jsom", RECORDING], "'--json'"),
        (&["replay", "--engines", "rbtre", RECORDING], "'rbtree'"),
        (&["record", "--probe", "page_falt"], "'page_fault'"),
        (&["workload", "solts"], "'slots'"),
    ] {
        let (code, _, said) = run(words);
        assert!(code == 2 && said.contains("tip: a similar") && said.contains(meant), "{said}");
    }
    assert_eq!(run(&["summ", RECORDING, "--no-replay"]), run(&["summary", RECORDING, "--no-replay"]));
    assert_eq!(run(&["show", RECORDING, "-j", "--no-replay"]).0, 0);
}

#[test]
fn colours_come_only_where_they_are_wanted() {
    let words = ["summary", RECORDING, "--no-replay"];
    let plain = run(&words).1;
    assert!(!plain.contains('\u{1b}'), "a pipe got colours");
    let mut always = words.to_vec();
    always.extend(["--color", "always"]);
    let painted = run(&always).1;
    assert!(painted.contains("\u{1b}[1mProbes\u{1b}[0m"), "{painted}");
    assert_eq!(anstream::adapter::strip_str(&painted).to_string(), plain);
    for (forced, option, coloured) in
        [(false, "always", true), (true, "auto", true), (true, "never", false), (false, "auto", false)]
    {
        let mut command = memslot(&["summary", "no-such-recording", "--color", option]);
        if forced {
            command.env("CLICOLOR_FORCE", "1");
        }
        let (_, _, said) = answer(&command.output().unwrap());
        assert_eq!(said.contains('\u{1b}'), coloured, "{forced} {option}: {said}");
        let mut command = memslot(&["--color", option, "record", "--nonsense"]);
        if forced {
            command.env("CLICOLOR_FORCE", "1");
        }
        let (_, _, said) = answer(&command.output().unwrap());
        assert_eq!(said.contains('\u{1b}'), coloured, "the parser, {forced} {option}: {said}");
    }
    let mut command = memslot(&["summary", "no-such-recording"]);
    let output = command.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").output().unwrap();
    assert!(!answer(&output).2.contains('\u{1b}'), "NO_COLOR was not obeyed");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let lists = [
        &["summary", RECORDING, "--no-replay"][..],
        &["summary", RECORDING, "--no-replay", "--json"],
        &["summary", RECORDING, "--by", "vm"],
        &["engines"],
        &["engines", "--show", "rbtree"],
        &["generate", "man"],
        &["generate", "schemas"],
        &["generate", "completions", "bash"],
        &["--help"],
        &["--version"],
    ];
    for words in lists {
        let mut child = memslot(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let (code, _, said) = answer(&child.wait_with_output().unwrap());
        assert_eq!((code, said.as_str()), (0, ""), "{words:?}");
    }
    // Nobody listens to the error either.
    let mut child = memslot(&["summary", "no-such-recording"]).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn a_full_disk_behind_standard_output_is_an_error() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let child = memslot(&["engines"]).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let (code, _, said) = answer(&child.wait_with_output().unwrap());
    assert!(code == 2 && said.contains("standard output cannot be written"), "{said}");
}

#[test]
fn the_version_names_the_revision() {
    let (_, text, _) = run(&["--version"]);
    let revision = text.trim().strip_prefix(concat!("memslot ", env!("CARGO_PKG_VERSION"))).unwrap();
    let inner = revision.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    // A source archive has none.
    let is_repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.git").exists();
    assert_eq!(inner.is_some(), is_repository, "{text}");
    let hexadecimal = |text: &str| text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(inner.is_none_or(hexadecimal), "{text}");
    assert_eq!(run(&["record", "-V"]).1.replace("memslot-record", "memslot"), text);
}

#[test]
fn completions_are_scripts_of_their_shell_and_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, script, _) = run(&["generate", "completions", shell]);
        assert_eq!(code, 0, "{shell}");
        // elvish and PowerShell do not complete values.
        let values = ["bash", "zsh", "fish"].contains(&shell).then_some("sorted_array_kernel");
        for word in ["summary", "min-latency"].into_iter().chain(values) {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    let (_, script, _) = run(&["generate", "completions", "bash"]);
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), script).unwrap();
    // What the shell itself completes, after `memslot summary --no-`.
    let ask = "source \"$1\"; COMP_WORDS=(memslot summary --no-); COMP_CWORD=2; \
               _memslot memslot --no- summary; echo \"${COMPREPLY[@]}\"";
    let output = Command::new("bash").args(["-c", ask, "bash"]).arg(file.path()).output().unwrap();
    assert_eq!(answer(&output), (0, "--no-replay\n".to_owned(), String::new()));
}

#[test]
fn every_command_has_a_man_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("man");
    assert_eq!(run(&["generate", "man", "--out", path.to_str().unwrap()]).0, 0);
    let (_, main, _) = run(&["generate", "man"]);
    assert!(main.contains(".TH memslot 1"), "{main}");
    for (command, _) in commands() {
        let name = ["memslot"].into_iter().chain(command.iter().map(String::as_str)).collect::<Vec<_>>();
        let page = path.join(format!("{}.1", name.join("-")));
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        assert!(text.contains(".SH NAME") && text.contains("Exit codes"), "{}", page.display());
    }
}
