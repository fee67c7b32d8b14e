//! What can go wrong, each with what to do about it.

use std::io;

/// Why a workload could not be run, as one sentence with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// Options that contradict each other or the host's limits.
    #[error("{0}")]
    Options(String),
    /// A device file or a facility of the kernel is missing or refused.
    #[error("{problem}; {remedy}")]
    Host {
        /// What is the matter.
        problem: String,
        /// What to do.
        remedy: String,
    },
    /// A system call failed for a reason that has no sentence of its own.
    #[error("cannot {action}: {}; {remedy}", reason(answer))]
    System {
        /// What was tried.
        action: String,
        /// What to do.
        remedy: &'static str,
        /// The kernel's answer; already part of the sentence, so not its source.
        answer: io::Error,
    },
    /// The guest stopped in a way that its program has no part in.
    #[error("vCPU {vcpu} stopped unexpectedly: {what}; {remedy}")]
    Exit {
        /// Which vCPU.
        vcpu: u32,
        /// The exit, by name.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
    /// What happened differs from the forecast.
    #[error("{what}: {expected} expected, {seen} seen; the counts of this run are not exact, run it again")]
    Miscount {
        /// Of what.
        what: &'static str,
        /// By the forecast.
        expected: u64,
        /// In the run.
        seen: u64,
    },
    /// Ready or end could not be announced.
    #[error(
        "cannot announce the start or end of the counted part: {}; check where stdin and stdout lead",
        reason(.0)
    )]
    Announce(io::Error),
}

impl WorkloadError {
    /// An error of the options.
    pub(crate) fn options(text: impl Into<String>) -> Self {
        Self::Options(text.into())
    }

    /// A missing facility.
    pub(crate) fn host(problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Host { problem: problem.into(), remedy: remedy.into() }
    }

    /// A failed system call; lack of memory gets its own sentence, for it can befall any of them.
    pub(crate) fn system(action: impl Into<String>, remedy: &'static str, answer: io::Error) -> Self {
        let action = action.into();
        if answer.raw_os_error() == Some(libc::ENOMEM) {
            return Self::host(
                format!("the host has not enough memory to {action}"),
                "free memory, raise vm.overcommit_memory or the cgroup's limit, or ask for fewer slots, \
                 regions or pages",
            );
        }
        Self::System { action, remedy, answer }
    }
}

/// What the kernel answered, in words, without the number.
fn reason(answer: &io::Error) -> String {
    let text = answer.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// The error of opening a device file `path`, which `module` provides.
pub(crate) fn device(path: &str, module: &str, source: io::Error) -> WorkloadError {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
            WorkloadError::host(format!("there is no {path}"), format!("load its module: modprobe {module}"))
        }
        Some(libc::EACCES | libc::EPERM) => WorkloadError::host(
            format!("no permission to open {path}"),
            "run as root, or as a member of the group that owns it (ls -l shows which)",
        ),
        Some(libc::EBUSY) => WorkloadError::host(
            format!("{path} is busy"),
            "another program holds it exclusively; stop that program and try again",
        ),
        _ => WorkloadError::system(format!("open {path}"), "the kernel log (dmesg) may say why", source),
    }
}

#[cfg(test)]
mod tests {
    use super::{WorkloadError, device};
    use std::io;

    #[test]
    fn each_reason_to_refuse_a_device_has_its_own_remedy() {
        let text = |errno| device("/dev/kvm", "kvm", io::Error::from_raw_os_error(errno)).to_string();
        assert_eq!(text(libc::ENOENT), "there is no /dev/kvm; load its module: modprobe kvm");
        assert!(text(libc::EACCES).contains("run as root"));
        assert!(text(libc::EBUSY).contains("is busy"));
        assert_eq!(
            text(libc::EIO),
            "cannot open /dev/kvm: input/output error; the kernel log (dmesg) may say why"
        );
    }

    #[test]
    fn want_of_memory_is_said_in_words_whatever_call_met_it() {
        let error = WorkloadError::system("map RAM", "-", io::Error::from_raw_os_error(libc::ENOMEM));
        assert!(error.to_string().starts_with("the host has not enough memory to map RAM; free memory"));
    }
}
