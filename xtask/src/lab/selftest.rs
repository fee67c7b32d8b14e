//! Checks of the lab itself, on a real kernel: what passes there must be believable.

use super::outcome::{Failure, FailureKind};
use super::{Accelerator, KernelChoice, Outcome, Request};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// A check by its name.
pub(crate) type Check = (&'static str, fn(&KernelChoice) -> Result<()>);

/// All checks; each boots at least once.
pub(crate) const CHECKS: &[Check] = &[
    ("the exit code and the output come through", exit_code),
    ("arguments reach the command as they are", arguments),
    ("modules are loaded and file systems mounted", environment),
    ("files go in and come back intact", files),
    ("a panic is a failure", panic),
    ("a bug on the console is a failure even if the command succeeds", bug),
    ("a lock-up ends the guest and is a failure", lock_up),
    ("a guest that takes too long is a failure", time_out),
    ("a guest that shuts down early is tried twice, then a failure", early_end),
    ("exact runs are the same to the byte", exactness),
];

/// Runs all checks on one kernel, and names each as it passes.
///
/// # Errors
/// The first check that fails.
pub(crate) fn run(kernel: &KernelChoice) -> Result<()> {
    for (name, check) in CHECKS {
        check(kernel).with_context(|| format!("lab check on {kernel}: {name}"))?;
        println!("ok  {kernel}: {name}");
    }
    Ok(())
}

fn shell(kernel: &KernelChoice, script: &str) -> Request {
    let mut request = Request::new(kernel.clone(), ["sh", "-c", script].map(str::to_owned).to_vec());
    // Emulated everywhere, so that the checks mean the same on every host.
    request.accelerator = Accelerator::Tcg;
    request.time_limit = Duration::from_secs(180);
    request
}

fn boot(request: &Request) -> Result<Outcome> {
    super::run(request, &mut io::sink())
}

/// The failure that the guest must end with.
fn failure(request: &Request, expected: FailureKind) -> Result<Failure> {
    match boot(request) {
        Ok(outcome) => bail!("it passed with exit code {}", outcome.exit_code),
        Err(error) => match error.downcast_ref::<Failure>() {
            Some(failure) if failure.kind == expected => Ok(failure.clone()),
            _ => Err(error.context(format!("expected {expected:?}"))),
        },
    }
}

fn exit_code(kernel: &KernelChoice) -> Result<()> {
    let mut streamed = Vec::new();
    let outcome = super::run(&shell(kernel, "echo out; echo error >&2; exit 7"), &mut streamed)?;
    ensure!(outcome.exit_code == 7, "exit code {} instead of 7", outcome.exit_code);
    ensure!(outcome.output == "out\nerror\n", "the output is {:?}", outcome.output);
    ensure!(streamed == outcome.output.as_bytes(), "streamed was {:?}", String::from_utf8_lossy(&streamed));
    Ok(())
}

fn arguments(kernel: &KernelChoice) -> Result<()> {
    let words = ["printf", "[%s]", "a b", "it's", "two\nlines", "$HOME `id`", "", "*", "\\"];
    let mut request = shell(kernel, "");
    request.command = words.map(str::to_owned).to_vec();
    let outcome = boot(&request)?;
    let expected: String = words[2..].iter().map(|word| format!("[{word}]")).collect();
    ensure!(outcome.output == expected, "the output is {:?}", outcome.output);
    Ok(())
}

fn environment(kernel: &KernelChoice) -> Result<()> {
    let script = "set -e; test -c /dev/kvm; test -c /dev/vhost-net; test -c /dev/net/tun; id -u; \
                  cat /sys/module/vhost/parameters/max_mem_regions; test -f /proc/self/status; \
                  test -d /sys/kernel/tracing/events; test -d /sys/kernel/debug/kvm; \
                  grep -c ' /sys/fs/bpf bpf ' /proc/mounts; nproc";
    let mut request = shell(kernel, script);
    request.smp = 3;
    let outcome = boot(&request)?;
    ensure!(outcome.exit_code == 0, "something is missing: {}", outcome.output);
    ensure!(outcome.output == "0\n4096\n1\n3\n", "the output is {:?}", outcome.output);
    ensure!(outcome.notes.is_empty(), "there are complaints: {:?}", outcome.notes);
    Ok(())
}

fn files(kernel: &KernelChoice) -> Result<()> {
    let directory = tempfile::tempdir()?;
    // Larger than every buffer on the way, and of no multiple of their sizes.
    let content: Vec<u8> =
        (0..3_000_017_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    fs::write(directory.path().join("data"), &content)?;
    let script = "mkdir \"$LAB_OUT/a\" && cp data \"$LAB_OUT/a/with space\" && : >\"$LAB_OUT/empty\"";
    let mut request = shell(kernel, script);
    request.files = vec![directory.path().join("data")];
    request.out = Some(directory.path().join("out"));
    let outcome = boot(&request)?;
    ensure!(outcome.exit_code == 0, "the copy failed: {}", outcome.output);
    ensure!(fs::read(directory.path().join("out/a/with space"))? == content, "the content has changed");
    ensure!(fs::read(directory.path().join("out/empty"))?.is_empty(), "the empty file is not empty");
    Ok(())
}

fn panic(kernel: &KernelChoice) -> Result<()> {
    let mut streamed = Vec::new();
    let request = shell(kernel, "echo last words; echo c >/proc/sysrq-trigger");
    let error = super::run(&request, &mut streamed).err().context("it passed")?;
    let failure = error.downcast_ref::<Failure>().context("it is no failure of the guest")?;
    ensure!(failure.kind == FailureKind::Panic, "it was taken for {:?}", failure.kind);
    ensure!(failure.console_end.contains("sysrq triggered crash"), "the console is not shown: {failure}");
    ensure!(streamed == b"last words\n", "what came before the panic is lost");
    Ok(())
}

fn bug(kernel: &KernelChoice) -> Result<()> {
    let request = shell(kernel, "echo '<2>BUG: made up by the lab check' >/dev/kmsg; sleep 1");
    let failure = failure(&request, FailureKind::Oops)?;
    ensure!(failure.detail.contains("made up by the lab check"), "the line is not shown: {failure}");
    Ok(())
}

/// The kernel's own words, for a lock-up cannot be had without a module of ours; the guest never ends by itself.
fn lock_up(kernel: &KernelChoice) -> Result<()> {
    let line = "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [sh:1]";
    let start = Instant::now();
    let request = shell(kernel, &format!("echo '<0>{line}' >/dev/kmsg; sleep 1000"));
    failure(&request, FailureKind::SoftLockup)?;
    ensure!(start.elapsed() < request.time_limit, "it waited for the time-out");
    Ok(())
}

fn time_out(kernel: &KernelChoice) -> Result<()> {
    let mut request = shell(kernel, "sleep 1000");
    request.time_limit = Duration::from_secs(20);
    failure(&request, FailureKind::TimeOut).map(drop)
}

fn early_end(kernel: &KernelChoice) -> Result<()> {
    let error = boot(&shell(kernel, "poweroff -f")).err().context("it passed")?;
    let failure = error.downcast_ref::<Failure>().context("it is no failure of the guest")?;
    ensure!(failure.kind == FailureKind::NoMarker, "it was taken for {:?}", failure.kind);
    ensure!(format!("{error:#}").contains("tried once more"), "the second attempt is not reported");
    Ok(())
}

fn exactness(kernel: &KernelChoice) -> Result<()> {
    let script = "cat /proc/uptime /proc/interrupts /proc/stat; head -c 32 /dev/urandom | od -x; \
                  head -c 100000 /dev/urandom >\"$LAB_OUT/random\"; dmesg";
    let once = || -> Result<(String, Vec<u8>)> {
        let directory = tempfile::tempdir()?;
        let mut request = shell(kernel, script).exact();
        request.out = Some(directory.path().to_owned());
        let outcome = boot(&request)?;
        ensure!(outcome.exit_code == 0 && outcome.mode == "exact", "it failed: {}", outcome.output);
        Ok((outcome.output, fs::read(directory.path().join("random"))?))
    };
    let (first, second) = (once()?, once()?);
    ensure!(first.0 == second.0, "two runs printed different things:\n{}\n---\n{}", first.0, second.0);
    ensure!(first.1 == second.1, "two runs returned different files");
    ensure!(!first.0.is_empty() && first.1.len() == 100_000, "the runs did not do what they should");
    Ok(())
}
