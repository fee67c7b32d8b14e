//! The lab: boots an unmodified kernel in QEMU and runs a command in it as root.

mod accel;
pub(crate) mod cli;
mod cpio;
mod initramfs;
pub(crate) mod kernel;
mod modules;
pub(crate) mod outcome;
mod qemu;
pub(crate) mod selftest;
pub(crate) mod vmlinux;

pub(crate) use accel::Accelerator;
pub(crate) use initramfs::{ForeignModule, Module, is_static};
pub(crate) use kernel::{Kernel, KernelChoice, Series};
pub(crate) use outcome::Failure;
pub(crate) use qemu::PROGRAM as QEMU;

use crate::{interrupt, paths, scratch};
use anyhow::{Context, Result, ensure};
use qemu::{Machine, Mode};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What to run, and in what machine.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// The kernel to boot.
    pub(crate) kernel: KernelChoice,
    /// One guest nanosecond is one instruction, and every run of the same is the same. One CPU only.
    pub(crate) exact: bool,
    /// Virtual CPUs.
    pub(crate) smp: u32,
    /// Memory in MiB.
    pub(crate) memory: u32,
    /// KVM or emulation; the exact mode always emulates.
    pub(crate) accelerator: Accelerator,
    /// Wall-clock time that one boot may take.
    pub(crate) time_limit: Duration,
    /// Modules to load; [`default_modules`] unless changed. KVM's own comes on top, by the CPU's maker.
    pub(crate) modules: Vec<Module>,
    /// Whether to load KVM's module.
    pub(crate) load_kvm: bool,
    /// Modules that the kernel does not have, to load after all others.
    pub(crate) foreign_modules: Vec<ForeignModule>,
    /// More arguments for the guest's kernel.
    pub(crate) kernel_arguments: Vec<String>,
    /// The static `memslot`, put into the guest's `$PATH`.
    pub(crate) memslot: Option<PathBuf>,
    /// Files and directories for the command's working directory, which is in `$PATH` too.
    pub(crate) files: Vec<PathBuf>,
    /// Where the files that the command leaves in `$LAB_OUT` go; without it they are dropped.
    pub(crate) out: Option<PathBuf>,
    /// The command and its arguments, taken as they are.
    pub(crate) command: Vec<String>,
}

impl Request {
    /// Two CPUs, 2 GiB, ten minutes, the usual modules, whatever accelerator works.
    pub(crate) fn new(kernel: KernelChoice, command: Vec<String>) -> Self {
        Self {
            kernel,
            exact: false,
            smp: 2,
            memory: 2048,
            accelerator: Accelerator::Auto,
            time_limit: Duration::from_secs(600),
            modules: default_modules(),
            load_kvm: true,
            foreign_modules: Vec::new(),
            kernel_arguments: Vec::new(),
            memslot: None,
            files: Vec::new(),
            out: None,
            command,
        }
    }

    /// Makes the run exact, which takes a single CPU.
    pub(crate) fn exact(mut self) -> Self {
        self.exact = true;
        self.smp = 1;
        self
    }
}

/// What the probes and the workloads need besides KVM.
pub(crate) fn default_modules() -> Vec<Module> {
    [("tun", ""), ("vhost", "max_mem_regions=4096"), ("vhost_net", "")]
        .map(|(name, parameters)| Module { name: name.into(), parameters: parameters.into() })
        .to_vec()
}

/// What came of a guest that ended as it should.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The command's exit code.
    pub(crate) exit_code: u8,
    /// All that the command wrote to its standard output and error.
    pub(crate) output: String,
    /// Whether it was run by KVM, emulated, or exact.
    pub(crate) mode: &'static str,
    /// Things a person should know: modules that did not load, kernel warnings, a second attempt.
    pub(crate) notes: Vec<String>,
}

/// Boots a guest and runs the command; its output goes to `sink` as it comes.
///
/// A QEMU that stops answering and a guest that shuts down early are tried once more, and noted; `sink` then gets the
/// second attempt's output after what the first had written ([`Outcome::output`] is the last attempt's alone).
///
/// # Errors
/// A [`Failure`] when the guest failed, [`interrupt::Interrupted`] on Ctrl-C, else what is wrong with the request or
/// the host.
pub(crate) fn run(request: &Request, sink: &mut dyn Write) -> Result<Outcome> {
    check(request)?;
    let kernel = request.kernel.locate()?;
    let (mode, note) = accel::choose(request, &kernel)?;
    let mut notes: Vec<String> = note.into_iter().collect();
    let mut result = attempt(request, &kernel, mode, sink);
    if let Err(error) = &result
        && let Some(failure) = error.downcast_ref::<Failure>()
        && failure.kind.is_retryable()
    {
        notes.push(format!("first attempt: {}; it was tried once more", failure.summary()));
        result = attempt(request, &kernel, mode, sink);
    }
    match result {
        Ok(mut outcome) => {
            notes.append(&mut outcome.notes);
            outcome.notes = notes;
            Ok(outcome)
        }
        // The failure stays the root, for callers look for it there.
        Err(error) if notes.is_empty() => Err(error),
        Err(error) => {
            let notes = notes.join("\n");
            Err(error.context(notes))
        }
    }
}

fn check(request: &Request) -> Result<()> {
    ensure!(!request.command.is_empty(), "there is no command to run in the guest; give it after --");
    ensure!(request.smp > 0, "a guest needs at least one CPU (--smp)");
    ensure!(
        !request.exact || request.smp == 1,
        "the exact mode has one CPU only, for the kernel 6.1 hangs at boot with more when instructions are counted; \
         leave out --smp {} or --exact",
        request.smp
    );
    ensure!(
        !request.exact || request.accelerator != Accelerator::Kvm,
        "the exact mode counts emulated instructions and cannot use KVM; leave out --accel kvm or --exact"
    );
    ensure!(request.memory >= 256, "a guest needs at least 256 MiB (--memory)");
    Ok(())
}

/// One boot. What it writes on the host lies in a directory of its own that goes with it.
fn attempt(request: &Request, kernel: &Kernel, mode: Mode, sink: &mut dyn Write) -> Result<Outcome> {
    let guard = interrupt::guard()?;
    let directory = scratch::directory(&paths::lab().join("runs"))?;

    let mut load = request.modules.clone();
    if request.load_kvm {
        let name = if mode == Mode::Kvm && host_is_intel() { "kvm_intel" } else { "kvm_amd" };
        load.push(Module { name: name.to_owned(), parameters: String::new() });
    }
    let initramfs = directory.path().join("initramfs");
    let contents = initramfs::Contents {
        modules: &kernel.modules,
        replacements: &kernel.replacements,
        load: &load,
        foreign: &request.foreign_modules,
        memslot: request.memslot.as_deref(),
        files: &request.files,
        command: &request.command,
    };
    initramfs::write(&contents, &initramfs)?;

    let machine = Machine {
        mode,
        smp: request.smp,
        memory: request.memory,
        kernel: &kernel.image,
        initramfs: &initramfs,
        kernel_arguments: &request.kernel_arguments,
        directory: directory.path(),
        time_limit: request.time_limit,
    };
    let finished = machine.run(sink, &guard)?;

    let returned = unpack(&machine.returned(), request.out.as_deref())?;
    let mut notes: Vec<String> = finished
        .report
        .complaints
        .iter()
        .map(|text| format!("a module did not load in the guest: {text}"))
        .collect();
    notes.extend(
        outcome::warnings(&finished.console)
            .into_iter()
            .map(|text| format!("the guest's kernel warned: {text}")),
    );
    if request.out.is_none() && returned > 0 {
        notes.push(format!(
            "{returned} files that the guest left in $LAB_OUT were dropped; keep them with --out"
        ));
    }
    let output = fs::read(machine.output()).context("cannot read the guest's output")?;
    Ok(Outcome {
        exit_code: finished.exit_code,
        output: String::from_utf8_lossy(&output).into_owned(),
        mode: match mode {
            Mode::Kvm => "kvm",
            Mode::Emulated => "emulated",
            Mode::Exact => "exact",
        },
        notes,
    })
}

/// Unpacks the returned files, or only counts them.
fn unpack(tar: &Path, out: Option<&Path>) -> Result<usize> {
    let context = || "the files from the guest came back damaged".to_owned();
    let file = File::open(tar).with_context(context)?;
    let mut archive = tar::Archive::new(std::io::BufReader::new(file));
    if let Some(out) = out {
        fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    }
    let mut count = 0;
    for entry in archive.entries().with_context(context)? {
        let mut entry = entry.with_context(context)?;
        if entry.header().entry_type().is_file() {
            count += 1;
        }
        if let Some(out) = out {
            // It refuses names that lead out of the directory.
            entry
                .unpack_in(out)
                .with_context(|| format!("cannot unpack the guest's files to {}", out.display()))?;
        }
    }
    Ok(count)
}

fn host_is_intel() -> bool {
    fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains("GenuineIntel"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request::new(KernelChoice::Series(Series::V6_1), vec!["true".into()])
    }

    #[test]
    fn what_cannot_work_is_refused_in_words() {
        let refused = |change: fn(&mut Request)| {
            let mut request = request();
            change(&mut request);
            check(&request).unwrap_err().to_string()
        };
        assert!(refused(|r| r.exact = true).contains("one CPU only"));
        assert!(refused(|r| r.command.clear()).contains("no command"));
        assert!(refused(|r| r.smp = 0).contains("at least one CPU"));
        assert!(refused(|r| r.memory = 1).contains("256 MiB"));
        assert!(check(&request()).is_ok());
        let mut exact = request().exact();
        assert!(check(&exact).is_ok());
        exact.accelerator = Accelerator::Kvm;
        assert!(check(&exact).unwrap_err().to_string().contains("cannot use KVM"));
    }

    #[test]
    fn returned_files_are_unpacked_and_a_cut_archive_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let tar = directory.path().join("x.tar");
        let mut builder = tar::Builder::new(File::create(&tar).unwrap());
        let content = vec![7_u8; 5000];
        let mut header = tar::Header::new_gnu();
        header.set_size(5000);
        header.set_mode(0o644);
        builder.append_data(&mut header, "./a/b", content.as_slice()).unwrap();
        builder.finish().unwrap();
        let out = directory.path().join("out");
        assert_eq!(unpack(&tar, Some(&out)).unwrap(), 1);
        assert_eq!(fs::read(out.join("a/b")).unwrap(), content);
        assert_eq!(unpack(&tar, None).unwrap(), 1);
        File::options().write(true).open(&tar).unwrap().set_len(3000).unwrap();
        assert!(unpack(&tar, Some(&out)).is_err());
    }
}
