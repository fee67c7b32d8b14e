//! Runs the commands of the documents and help texts that need a kernel; `memslot-user/tests/commands.rs` runs the others.

use super::lab_tests;
use crate::command::{Tool, quote};
use crate::lab::{KernelChoice, Series};
use crate::paths;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const IN_THE_LAB: &str = include_str!("documents.sh");

/// Commands of memslot that need probes, KVM or root.
const NEED_A_KERNEL: [&str; 3] = ["doctor", "record", "workload"];

pub(super) fn run(memslot: &Path) -> Result<()> {
    let mut lines: BTreeSet<String> = BTreeSet::new();
    for path in documents()? {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        lines.extend(block_lines(&text).into_iter().filter(|line| needs_a_kernel(line)));
    }
    lines.extend(examples(memslot)?.into_iter().filter(|line| needs_a_kernel(line)));
    ensure!(lines.len() > 20, "only {} commands were found", lines.len());
    let calls: Vec<String> = lines.iter().map(|line| format!("try {}\n", quote(line))).collect();
    let script = IN_THE_LAB.replace("@LINES@", &calls.concat());
    lab_tests::script(&KernelChoice::Series(Series::V6_12), memslot, &script, None)?;
    println!("{} commands that need a kernel were run", lines.len());
    Ok(())
}

/// Every document of the workspace.
fn documents() -> Result<Vec<PathBuf>> {
    let root = paths::workspace();
    let mut found = Vec::new();
    for folder in [root.clone(), root.join("docs"), root.join("docs/schema"), root.join("charts")] {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// Lines of the code blocks for a shell, those that go on joined.
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
fn examples(memslot: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(path) = open.pop() {
        let help = Tool::new(memslot).args(&path).arg("--help").text()?;
        let after = |heading: &str| -> Vec<&str> {
            let lines = help.lines().skip_while(|line| *line != heading).skip(1);
            lines.take_while(|line| line.starts_with("  ")).collect()
        };
        found.extend(after("Examples:").into_iter().map(|line| line.trim().to_owned()));
        for line in after("Commands:").into_iter().filter(|line| !line.starts_with("   ")) {
            let name = line.split_whitespace().next().unwrap_or("help");
            if name != "help" {
                open.push(path.iter().cloned().chain([name.to_owned()]).collect());
            }
        }
    }
    Ok(found)
}

fn needs_a_kernel(line: &str) -> bool {
    let Some(rest) = line.strip_prefix("sudo ").unwrap_or(line).strip_prefix("memslot ") else {
        return false;
    };
    let command = rest.split_whitespace().next().unwrap_or_default();
    let serves_host = ["serve", "exporter"].contains(&command) && !line.contains("--recording");
    // On a terminal it is tried by memslot's own tests.
    let prints_host = command == "top"
        && !line.contains("--recording")
        && (line.contains("--once") || line.contains("--json"));
    NEED_A_KERNEL.contains(&command) || serves_host || prints_host
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[test]
    fn commands_are_found_in_blocks_for_a_shell_alone() {
        let text = "`memslot a`\n```sh\nsudo memslot record \\\n  -o x\ncargo xtask run\n```\n```text\nmemslot c\n```\n";
        assert_eq!(block_lines(text), ["sudo memslot record    -o x", "cargo xtask run"]);
        assert!(needs_a_kernel("sudo memslot record -o x") && !needs_a_kernel("memslot summary x"));
        assert!(needs_a_kernel("memslot serve") && !needs_a_kernel("memslot serve --recording rec"));
    }

    /// Running them all would take days; that the real parser takes them keeps them true.
    #[test]
    fn every_xtask_command_of_the_documents_is_one() {
        let mut checked = 0;
        // What the reader is to have built is there.
        let built = tempfile::tempdir().unwrap();
        for module in ["memslot_truth.ko", "memslot_klp_vhost.ko", "memslot_klp_kvm.ko"] {
            fs::write(built.path().join(module), "").unwrap();
        }
        let built = format!("{}/", built.path().display());
        for path in documents().unwrap() {
            for line in block_lines(&fs::read_to_string(&path).unwrap()) {
                let Some(start) = line.find("cargo xtask ") else { continue };
                let words = line[start..].trim_end_matches(|c| "\")".contains(c) || c == '/');
                let words = words.split(")\"").next().unwrap();
                let words = Tool::new("sh").args(["-c", &format!("printf '%s\\n' {words}")]).text().unwrap();
                let words = words.replace("DIR/", &built);
                let words = words.lines().skip(1);
                let parsed = crate::Cli::try_parse_from(words.clone());
                let error = parsed.err().map(|error| error.to_string()).unwrap_or_default();
                assert!(error.is_empty(), "{}: {line}: {error}", path.display());
                checked += 1;
            }
        }
        assert!(checked > 25, "only {checked} commands were found");
        assert!(crate::Cli::try_parse_from(["xtask", "lab", "--nonsense"]).is_err());
    }
}
