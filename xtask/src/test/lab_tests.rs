//! Tests that boot a kernel. Both kernels run at once, each on a CPU of its own.

use super::cargo;
use crate::{
    kbuild::{self, Own},
    lab::{self, Accelerator, KernelChoice, Request, Series, selftest},
    paths,
};
use anyhow::{Context, Result, anyhow, ensure};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

const SERIES: [Series; 2] = [Series::V6_1, Series::V6_12];

/// Makes the recordings that `memslot-user/tests/lab.rs` checks.
const RECORDINGS: &str = include_str!("recordings.sh");
/// Provokes the errors that users meet, and checks what is said.
const TROUBLE: &str = include_str!("trouble.sh");
/// Holds our own kernel modules to what they say.
const MODULES: &str = include_str!("modules.sh");

/// Does `work` for both kernels at once; the first error of each kernel is reported.
pub(super) fn on_both(work: impl Fn(KernelChoice) -> Result<()> + Sync) -> Result<()> {
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = SERIES
            .into_iter()
            .map(|series| {
                let kernel = KernelChoice::Series(series);
                let name = kernel.to_string();
                (name, scope.spawn(|| work(kernel)))
            })
            .collect();
        threads.into_iter().map(|(name, thread)| (name, thread.join())).collect()
    });
    let mut errors = Vec::new();
    for (name, result) in results {
        match result {
            Ok(Ok(())) => {}
            Ok(Err(error)) => errors.push(format!("{name}: {error:#}")),
            Err(_) => errors.push(format!("{name}: the test panicked")),
        }
    }
    ensure!(errors.is_empty(), "{}", errors.join("\n"));
    Ok(())
}

pub(super) fn lab_itself() -> Result<()> {
    on_both(|kernel| selftest::run(&kernel))
}

fn folder(kernel: &KernelChoice) -> PathBuf {
    paths::target().join("test/recordings").join(kernel.to_string().replace(['/', ' '], "_"))
}

/// Runs a script in the guest; its output is shown only when it fails.
pub(super) fn script(kernel: &KernelChoice, memslot: &Path, text: &str, out: Option<PathBuf>) -> Result<()> {
    let mut request = Request::new(kernel.clone(), ["sh", "-c", text].map(str::to_owned).to_vec());
    // Under KVM the CPU's own PAUSE filter would decide how many exits there are.
    request.accelerator = Accelerator::Tcg;
    // Ten minutes are not enough where others use the machine too.
    request.time_limit = Duration::from_secs(1800);
    request.memslot = Some(memslot.to_owned());
    request.out = out;
    in_guest(&request)
}

/// Runs a request, whose output is shown only when it fails.
pub(super) fn in_guest(request: &Request) -> Result<()> {
    let outcome = lab::run(request, &mut io::sink())?;
    ensure!(
        outcome.exit_code == 0,
        "exit code {} in the guest, which said\n{}",
        outcome.exit_code,
        outcome.output
    );
    Ok(())
}

pub(super) fn probes(memslot: &Path) -> Result<()> {
    on_both(|kernel| {
        let folder = folder(&kernel);
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        script(&kernel, memslot, RECORDINGS, Some(folder))
    })?;
    for series in SERIES {
        let kernel = KernelChoice::Series(series);
        println!("{kernel}:");
        cargo()
            .env("MEMSLOT_LAB", folder(&kernel))
            .args([
                "test",
                "--package",
                "memslot-user",
                "--locked",
                "--quiet",
                "--test",
                "lab",
                "--",
                "--ignored",
            ])
            .run()
            .map_err(|error| anyhow!("recordings of {kernel}: {error:#}"))?;
    }
    Ok(())
}

pub(super) fn trouble(memslot: &Path) -> Result<()> {
    on_both(|kernel| script(&kernel, memslot, TROUBLE, None))
}

/// Our own kernel modules, on both kernels: to the instruction, and under load.
pub(super) fn modules(memslot: &Path) -> Result<()> {
    let built: Vec<_> = SERIES
        .into_iter()
        .map(|series| Ok((kbuild::build(Own::Truth, series)?, kbuild::build(Own::Livepatch, series)?)))
        .collect::<Result<_>>()?;
    on_both(|kernel| {
        let series = SERIES.iter().position(|series| kernel == KernelChoice::Series(*series));
        let (truth, livepatch) = &built[series.context("a kernel that was not built for")?];
        for mode in ["exact", "busy"] {
            let command = ["sh", "-c", MODULES, "sh", mode].map(str::to_owned).to_vec();
            let mut request = Request::new(kernel.clone(), command);
            if mode == "exact" {
                request = request.exact();
            }
            request.accelerator = Accelerator::Tcg;
            request.time_limit = Duration::from_secs(1800);
            request.memslot = Some(memslot.to_owned());
            request.files = vec![
                truth.join("memslot_truth.ko"),
                livepatch.join("memslot_klp_vhost.ko"),
                livepatch.join("memslot_klp_kvm.ko"),
            ];
            let outcome = lab::run(&request, &mut io::sink())?;
            ensure!(outcome.exit_code == 0, "{mode}: the guest said\n{}", outcome.output);
        }
        Ok(())
    })
}
