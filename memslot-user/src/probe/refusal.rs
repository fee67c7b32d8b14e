//! Why the kernel refuses BPF, and what to do: a bare EPERM helps nobody.

use std::{fs, io};

/// Bits of `CapEff` in `/proc/self/status`.
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

/// The kernel's own `ENOTSUPP`, which libc does not name.
const ENOTSUPP: i32 = 524;

/// What bears on a refusal.
#[derive(Clone, Debug, Default)]
struct Circumstances {
    /// Effective capabilities.
    capabilities: u64,
    /// The mode in `/sys/kernel/security/lockdown`, where that is mounted.
    lockdown: Option<String>,
}

impl Circumstances {
    fn of_this_process() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
        let lockdown =
            fs::read_to_string("/sys/kernel/security/lockdown").ok().and_then(|text| chosen(&text));
        Self { capabilities, lockdown }
    }

    fn explain(&self, error: &io::Error) -> String {
        match error.raw_os_error() {
            Some(libc::EPERM) => self.explain_permission(),
            Some(libc::EACCES) => {
                "this kernel's verifier refused the probe; please report the kernel's version".to_owned()
            }
            Some(libc::ENOSYS) => {
                "this kernel was built without BPF (CONFIG_BPF_SYSCALL); use a distribution's kernel"
                    .to_owned()
            }
            Some(libc::ENOMEM) => {
                "the kernel has no memory for the probes; free some or ask for a smaller --ring-size"
                    .to_owned()
            }
            // Under this lockdown the helpers that read the kernel do not exist.
            Some(libc::EINVAL) if self.lockdown.as_deref() == Some("confidentiality") => {
                self.explain_permission()
            }
            Some(libc::EBUSY) => "another tool or a livepatch holds the function; detach it first".to_owned(),
            Some(libc::EINVAL | ENOTSUPP) => {
                format!("this kernel does not support what the probe needs ({})", plain(error))
            }
            Some(libc::ENOENT) => {
                "this kernel has no kprobes (CONFIG_KPROBE_EVENTS); use a distribution's kernel".to_owned()
            }
            Some(libc::E2BIG) => {
                "this kernel's verifier gave the probe up as too complex; please report the kernel's version"
                    .to_owned()
            }
            _ => format!("the kernel refused the probe ({})", plain(error)),
        }
    }

    fn explain_permission(&self) -> String {
        let may = self.capabilities & CAP_SYS_ADMIN != 0
            || self.capabilities & (CAP_BPF | CAP_PERFMON) == CAP_BPF | CAP_PERFMON;
        if !may {
            return "loading probes needs root, or the capabilities CAP_BPF and CAP_PERFMON; run memslot with sudo"
                .to_owned();
        }
        match self.lockdown.as_deref() {
            Some(mode) if mode != "none" => format!(
                "the kernel is locked down ({mode}) and refuses probes even to root; boot without lockdown \
                 (lockdown=none, or Secure Boot off), or use `cargo xtask run --lab`"
            ),
            _ => "the kernel refuses probes even to root: it is locked down or a security policy (lockdown, SELinux, \
                  a container) forbids bpf(2); see `dmesg`, run on the host itself, or use `cargo xtask run --lab`"
                .to_owned(),
        }
    }
}

/// The error in words, without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// The word in brackets: `none [integrity] confidentiality`.
fn chosen(text: &str) -> Option<String> {
    Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
}

/// Does the error say that we may not, rather than that it cannot be done?
pub(super) fn is_permission(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EPERM)
}

/// One sentence on why bpf(2) failed, with the remedy.
#[must_use]
pub(super) fn explain(error: &io::Error) -> String {
    Circumstances::of_this_process().explain(error)
}

#[cfg(test)]
mod tests {
    use super::{CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, Circumstances, chosen};
    use std::io;

    fn said(capabilities: u64, lockdown: Option<&str>, errno: i32) -> String {
        Circumstances { capabilities, lockdown: lockdown.map(str::to_owned) }
            .explain(&io::Error::from_raw_os_error(errno))
    }

    /// Lockdown shown as an obscure error: github.com/cilium/tetragon/issues/5507
    #[test]
    fn a_refusal_says_why_and_what_to_do() {
        assert!(said(0, None, libc::EPERM).contains("sudo"));
        assert!(said(CAP_BPF, None, libc::EPERM).contains("CAP_PERFMON"));
        assert!(said(CAP_SYS_ADMIN, Some("integrity"), libc::EPERM).contains("locked down (integrity)"));
        assert!(said(CAP_BPF | CAP_PERFMON, Some("none"), libc::EPERM).contains("even to root"));
        assert!(said(u64::MAX, None, libc::ENOSYS).contains("CONFIG_BPF_SYSCALL"));
        assert!(said(u64::MAX, Some("confidentiality"), libc::EINVAL).contains("locked down"));
        assert!(said(u64::MAX, Some("none"), libc::EACCES).contains("verifier"));
        // Whatever the number, no bare errno reaches a user.
        for errno in 1..600 {
            let text = said(u64::MAX, Some("none"), errno);
            assert!(text.starts_with(char::is_alphabetic) && !text.contains("os error"), "{errno}: {text}");
        }
    }

    #[test]
    fn the_lockdown_mode_is_the_one_in_brackets() {
        assert_eq!(chosen("none [integrity] confidentiality\n").as_deref(), Some("integrity"));
        assert_eq!(chosen("garbage"), None);
    }
}
