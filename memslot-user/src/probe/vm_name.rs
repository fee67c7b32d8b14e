//! What a VM is called, from its owner's command line.

use std::fs;

/// The name of a VM from the process that owns it; its `comm` where the command line gives none, and
/// "" where the process is gone.
#[must_use]
pub fn of_process(pid: u32) -> String {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = command.split(|&byte| byte == 0).map(printable).collect();
    let comm = || printable(fs::read(format!("/proc/{pid}/comm")).unwrap_or_default().trim_ascii_end());
    of_command_line(&words).unwrap_or_else(comm)
}

/// The process that a thread belongs to; the number itself where the thread is gone.
#[must_use]
pub(super) fn process_of(thread: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    field.and_then(|value| value.trim().parse().ok()).unwrap_or(thread)
}

/// Control characters replaced, so that a guest's owner cannot write to our terminal or report.
#[must_use]
pub(super) fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// QEMU's and libvirt's `-name NAME` or `-name guest=NAME,…`; Firecracker's `--id NAME`.
fn of_command_line(words: &[String]) -> Option<String> {
    let after = |option: &str| {
        let at = words.iter().position(|word| word == option)?;
        words.get(at + 1).filter(|value| !value.is_empty())
    };
    if let Some(value) = after("-name") {
        let field = value.split(',').find_map(|field| field.strip_prefix("guest="));
        let name = field.unwrap_or_else(|| value.split(',').next().unwrap_or_default());
        return Some(name.to_owned());
    }
    let program = words.first()?.rsplit('/').next()?;
    if program.starts_with("firecracker") { after("--id").cloned() } else { None }
}

#[cfg(test)]
mod tests {
    use super::{of_command_line, printable};

    fn name(line: &str) -> Option<String> {
        of_command_line(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn names_come_from_the_command_lines_of_the_usual_owners() {
        assert_eq!(
            name("qemu-system-x86_64 -name guest=web1,debug-threads=on -m 4G").as_deref(),
            Some("web1")
        );
        assert_eq!(name("qemu-system-x86_64 -name web2 -m 4G").as_deref(), Some("web2"));
        assert_eq!(name("/usr/bin/firecracker --id box --api-sock /tmp/s").as_deref(), Some("box"));
        assert_eq!(name("memslot workload slots --id 3"), None);
        assert_eq!(name("qemu-system-x86_64 -name"), None);
    }

    #[test]
    fn a_name_cannot_move_the_cursor() {
        assert_eq!(printable(b"a\x1b[2Jb"), "a\u{fffd}[2Jb");
    }
}
