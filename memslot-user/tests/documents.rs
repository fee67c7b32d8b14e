//! Keeps the documents honest: their commands, their links, and the messages that they quote.

#![expect(
    clippy::unwrap_used,
    reason = "a test may panic; clippy.toml exempts test functions, not their helpers"
)]

use assert_cmd::Command;
use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Path and text of every document.
fn documents() -> Vec<(PathBuf, String)> {
    let root = root();
    let folders = [
        root.clone(),
        root.join("docs"),
        root.join("docs/experiments"),
        root.join("charts"),
        root.join("docs/schema"),
    ];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let paths = files.map(|file| file.unwrap().path()).filter(|path| path.extension() == Some("md".as_ref()));
    let documents: Vec<_> = paths.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    assert!(documents.len() >= 8, "documents are missing: {documents:?}");
    documents
}

/// Lines of the code blocks of a language, and, of shell, what stands between backticks in the text.
fn code(text: &str, language: &str) -> Vec<String> {
    let (mut found, mut block) = (Vec::new(), None);
    for line in text.lines() {
        match (block, line.trim().strip_prefix("```")) {
            (None, Some(opened)) => block = Some(opened),
            (Some(_), Some(_)) => block = None,
            (Some(of), None) if of == language => found.push(line.to_owned()),
            (None, None) if language == "sh" => {
                found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
            }
            _ => {}
        }
    }
    assert!(block.is_none(), "a code block is not closed");
    found
}

/// The words of a command line of `memslot`, with the part before `--` ended by `--help`, so that it is parsed
/// and not run.
fn help_for(line: &str) -> Option<Vec<&str>> {
    let line = line.trim();
    let command = line.strip_prefix("sudo ").unwrap_or(line).strip_prefix("memslot ")?;
    let words = command.split_whitespace().take_while(|word| !["--", "|", ">"].contains(word));
    Some(words.chain(["--help"]).collect())
}

#[test]
fn every_command_in_the_documents_is_one() {
    let mut checked = 0;
    for (path, text) in documents() {
        for line in code(&text, "sh") {
            if let Some(words) = help_for(&line) {
                let output = Command::cargo_bin("memslot").unwrap().args(&words).output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{}: {line}: {said}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 15, "only {checked} commands were found");
    // The check itself must be able to fail.
    let wrong = help_for("sudo memslot record --nonsense").unwrap();
    assert!(!Command::cargo_bin("memslot").unwrap().args(wrong).output().unwrap().status.success());
}

/// `cargo xtask` is another package's binary, so its source is asked.
#[test]
fn every_xtask_command_and_option_in_the_documents_is_one() {
    let sources = sources(&root().join("xtask/src"));
    let known = |word: &str| match word.strip_prefix("--") {
        Some(option) => {
            let member = format!("    {}: ", option.replace('-', "_"));
            sources.contains(&member) || sources.contains(&format!("long = \"{option}\""))
        }
        None => {
            let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
            let variant: String = word.split('-').map(capital).collect();
            sources.contains(&format!("    {variant}({}::", word.replace('-', "_")))
        }
    };
    let mut checked = 0;
    for (path, text) in documents() {
        for line in code(&text, "sh") {
            let Some(command) = line.trim().strip_prefix("cargo xtask ") else { continue };
            let own = command.split(" -- ").next().unwrap();
            let options = own.split_whitespace().filter(|word| word.starts_with("--"));
            for word in own.split_whitespace().take(1).chain(options) {
                assert!(known(word), "{}: {line}: there is no {word}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "only {checked} words were found");
    assert!(!known("nonsense") && !known("--nonsense"));
}

#[test]
fn every_link_and_picture_is_there() {
    let mut checked = 0;
    for (path, text) in documents() {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap();
            if !target.contains("://") && !file.is_empty() {
                let linked = path.with_file_name(file);
                assert!(linked.exists(), "{}: there is no {target}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "only {checked} links were found");
}

/// Folders that every Linux system has, or the lab's guest; and the one page of `memslot serve`.
const EVERYWHERE: [&str; 8] = ["proc", "sys", "dev", "usr", "lib", "boot", "etc", "metrics"];

#[test]
fn no_document_names_a_place_of_one_machine() {
    for (path, text) in documents() {
        let words = text.split(|c: char| c.is_whitespace() || "`'\"()[]<>,;|=".contains(c));
        for word in words.filter(|word| word.starts_with('/') && word.len() > 1) {
            let first = word.split('/').nth(1).unwrap();
            assert!(EVERYWHERE.contains(&first), "{}: {word}", path.display());
        }
    }
}

/// All Rust sources below a folder, with string literals that go on over lines joined.
fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.push_str(&sources(&path));
        } else if path.extension() == Some("rs".as_ref()) {
            let text = fs::read_to_string(&path).unwrap();
            let mut parts = text.split("\\\n");
            all.push_str(parts.next().unwrap());
            parts.for_each(|part| all.push_str(part.trim_start()));
        }
    }
    all
}

#[test]
fn every_message_that_is_quoted_is_said() {
    let sources = sources(&root().join("memslot-user/src")) + &sources(&root().join("xtask/src"));
    let faq = fs::read_to_string(root().join("docs/faq.md")).unwrap();
    let messages = code(&faq, "text");
    assert!(messages.len() > 20, "only {} messages were found", messages.len());
    for message in messages {
        // What stands between ellipses is said as it is.
        for part in message.split('…').map(str::trim).filter(|part| part.len() > 3) {
            assert!(sources.contains(part), "no source says \"{part}\"");
        }
    }
}
