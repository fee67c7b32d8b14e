//! PAUSE exits: vCPUs that spin, alone or for a lock, on as many CPUs as wanted.

use super::expectation::PAGE_FAULT;
use super::machine::{Machine, SlotSetting, Vcpu, write_page_tables};
use super::memory::Mapping;
use super::program::{self, lock};
use super::thread::{allowed_cpus, opt_out_of_numa_balancing, pin};
use super::{Expectation, Host, Observer, WorkloadError};
use crate::model::{Gfn, Gpa};
use kvm_bindings::kvm_regs;
use serde::Serialize;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::Instant;

/// What the vCPUs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each executes this many PAUSEs and halts: the number is known beforehand.
    Pauses(u64),
    /// Each takes one ticket lock this many times, holds it for this many turns of an empty loop, and
    /// waits by PAUSE. How often it waits depends on scheduling, so the guest counts; the number is
    /// exact afterwards.
    Lock {
        /// Acquisitions of each vCPU.
        acquisitions: u64,
        /// Turns of an empty loop that the lock is held for, at least 1.
        hold: u64,
    },
}

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// vCPUs.
    pub vcpus: u32,
    /// CPUs that they are bound to, in turn; empty leaves them to the scheduler.
    pub cpus: Vec<usize>,
    /// What they do.
    pub mode: Mode,
}

/// vCPUs at most: their counters share a page with the lock.
pub const MAX_VCPUS: u32 = 60;

impl Config {
    /// One vCPU on each CPU that this process may use (at most [`MAX_VCPUS`]).
    ///
    /// # Errors
    /// When the kernel does not tell the CPUs.
    pub fn undercommit(mode: Mode) -> Result<Self, WorkloadError> {
        let mut cpus = allowed_cpus()?;
        cpus.truncate(MAX_VCPUS as usize);
        Ok(Self { vcpus: u32::try_from(cpus.len()).unwrap_or(MAX_VCPUS), cpus, mode })
    }

    /// Four vCPUs on the first CPU that this process may use.
    ///
    /// # Errors
    /// When the kernel does not tell the CPUs.
    pub fn overcommit(mode: Mode) -> Result<Self, WorkloadError> {
        let cpus = allowed_cpus()?.into_iter().take(1).collect();
        Ok(Self { vcpus: 4, cpus, mode })
    }

    fn check(&self) -> Result<(), WorkloadError> {
        if self.vcpus == 0 || self.vcpus > MAX_VCPUS {
            return Err(WorkloadError::options(format!("--vcpus goes from 1 to {MAX_VCPUS}")));
        }
        if let Mode::Lock { acquisitions, hold } = self.mode {
            if hold == 0 {
                return Err(WorkloadError::options("--hold is at least 1"));
            }
            if acquisitions.saturating_mul(u64::from(self.vcpus)) > u64::from(u32::MAX) {
                return Err(WorkloadError::options("more acquisitions than 32-bit tickets; lower --lock"));
            }
        }
        if self.cpus.is_empty() {
            return Ok(());
        }
        let allowed = allowed_cpus()?;
        match self.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
            None => Ok(()),
            Some(cpu) => Err(WorkloadError::options(format!(
                "CPU {cpu} is not online or not allowed for this process; choose --cpus among {}",
                allowed.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            ))),
        }
    }
}

/// One vCPU of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct VcpuReport {
    /// Its number.
    pub vcpu: u32,
    /// The CPU that it was bound to.
    pub cpu: Option<usize>,
    /// PAUSEs that it executed.
    pub pauses: u64,
}

/// What a run was and what it caused.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Report {
    /// `ple`
    pub workload: &'static str,
    /// The process that owned the VM.
    pub pid: u32,
    /// Calls of the probed functions: with a lock, from the PAUSEs that the guest counted.
    #[serde(flatten)]
    pub expectation: Expectation,
    /// PAUSEs executed by all vCPUs.
    pub pauses: u64,
    /// What the vCPUs did.
    pub mode: Mode,
    /// By vCPU.
    pub vcpus: Vec<VcpuReport>,
    /// Length of the counted part, ns.
    pub duration_ns: u64,
}

/// Frames of the one slot: code, two page tables, and the page of the lock and the counters.
const PAGES: u64 = 4;
const PML4: u64 = 0x1000;
const LOCK: usize = 0x3000;

/// Runs the workload: sets the VM up, announces the forecast, performs it, announces the end.
///
/// # Errors
/// Contradicting options, a host without usable KVM, or a lock that did not exclude.
pub fn run(config: &Config, host: &Host, observer: &mut dyn Observer) -> Result<Report, WorkloadError> {
    config.check()?;
    let mut expectation = Expectation::new(host);
    let (code, touched) = match config.mode {
        Mode::Pauses(_) => (program::pause(), PAGES - 1),
        Mode::Lock { .. } => (program::ticket_lock(), PAGES),
    };
    expectation.set(PAGE_FAULT, touched, host.page_faults_inexact(false));
    match config.mode {
        Mode::Pauses(each) => {
            let pauses = each
                .checked_mul(u64::from(config.vcpus))
                .ok_or_else(|| WorkloadError::options("more PAUSEs than 64 bits count; lower --pauses"))?;
            expectation.set_pauses(host, pauses);
        }
        Mode::Lock { .. } => {
            let reason = "how often a vCPU waits for the lock depends on scheduling; the guest counts";
            expectation.set(host.vendor.pause_handler(), 0, Some(reason.to_owned()));
            expectation.set(super::expectation::ON_SPIN, 0, Some(reason.to_owned()));
        }
    }

    let ram = Arc::new(Mapping::new(usize::try_from(PAGES << 12).unwrap_or(0))?);
    opt_out_of_numa_balancing();
    let machine = Machine::new(Arc::clone(&ram))?;
    machine.set_slot(SlotSetting { id: 0, base_gfn: Gfn(0), npages: PAGES, offset: 0, log_dirty: false })?;
    ram.populate(0..usize::try_from(PAGES << 12).unwrap_or(0));
    ram.copy(0, &code);
    write_page_tables(&ram, usize::try_from(PML4).unwrap_or(0), Gpa(PML4));
    let spinners = (0..config.vcpus)
        .map(|id| Spinner::new(&machine, config, id))
        .collect::<Result<Vec<_>, WorkloadError>>()?;

    observer.ready(&expectation).map_err(WorkloadError::Announce)?;
    let start = Instant::now();
    spin(spinners)?;
    let duration_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    observer.end().map_err(WorkloadError::Announce)?;

    let pauses = |vcpu: u32| match config.mode {
        Mode::Pauses(each) => each,
        Mode::Lock { .. } => ram.u64(LOCK + pause_counter(vcpu)).load(Ordering::Relaxed),
    };
    let vcpus: Vec<VcpuReport> = (0..config.vcpus)
        .map(|vcpu| VcpuReport { vcpu, cpu: cpu_of(config, vcpu), pauses: pauses(vcpu) })
        .collect();
    let total = vcpus.iter().map(|vcpu| vcpu.pauses).sum();
    if let Mode::Lock { acquisitions, .. } = config.mode {
        let expected = acquisitions.wrapping_mul(u64::from(config.vcpus));
        let seen = ram.u64(LOCK + lock::ACQUIRED).load(Ordering::Relaxed);
        let served = ram.u32(LOCK + lock::SERVING).load(Ordering::Relaxed);
        if seen != expected || served != ram.u32(LOCK + lock::NEXT).load(Ordering::Relaxed) {
            return Err(WorkloadError::Miscount { what: "acquisitions of the lock", expected, seen });
        }
        expectation.set_pauses(host, total);
    }
    Ok(Report {
        workload: "ple",
        pid: std::process::id(),
        expectation,
        pauses: total,
        mode: config.mode,
        vcpus,
        duration_ns,
    })
}

fn cpu_of(config: &Config, vcpu: u32) -> Option<usize> {
    (!config.cpus.is_empty()).then(|| config.cpus[vcpu as usize % config.cpus.len()])
}

fn pause_counter(vcpu: u32) -> usize {
    lock::PAUSES + vcpu as usize * 64
}

/// One vCPU and what it is to do.
struct Spinner {
    vcpu: Vcpu,
    id: u32,
    cpu: Option<usize>,
    registers: kvm_regs,
}

impl Spinner {
    fn new(machine: &Machine, config: &Config, id: u32) -> Result<Self, WorkloadError> {
        let (rcx, rdx) = match config.mode {
            Mode::Pauses(each) => (each, 0),
            Mode::Lock { acquisitions, hold } => (acquisitions, hold),
        };
        let lock = LOCK as u64;
        let registers =
            kvm_regs { rcx, rdx, rbx: lock, rdi: lock + pause_counter(id) as u64, ..kvm_regs::default() };
        Ok(Self { vcpu: machine.vcpu(id, Gpa(PML4))?, id, cpu: cpu_of(config, id), registers })
    }

    /// Maps the guest's pages by a run with nothing to do, while no other vCPU runs.
    fn warm_up(&mut self) -> Result<(), WorkloadError> {
        self.vcpu.run(&kvm_regs { rcx: 0, ..self.registers }).map(drop)
    }

    fn spin(&mut self) -> Result<(), WorkloadError> {
        self.vcpu.run(&self.registers)?;
        match self.vcpu.registers()?.rcx {
            0 => Ok(()),
            left => {
                Err(WorkloadError::Miscount { what: "turns left of a vCPU's loop", expected: 0, seen: left })
            }
        }
    }
}

/// Runs all vCPUs at the same time, each in a thread of its own, after vCPU 0 has mapped the pages.
fn spin(spinners: Vec<Spinner>) -> Result<(), WorkloadError> {
    let count = spinners.len();
    let barrier = Arc::new(Barrier::new(count));
    let (report, done) = channel();
    for mut spinner in spinners {
        let (barrier, report) = (Arc::clone(&barrier), report.clone());
        std::thread::Builder::new()
            .name(format!("vcpu{}", spinner.id))
            .spawn(move || {
                let mut ready = spinner.cpu.map_or(Ok(()), pin);
                if spinner.id == 0 && ready.is_ok() {
                    ready = spinner.warm_up();
                }
                barrier.wait();
                let _ = report.send(ready.and_then(|()| spinner.spin()));
            })
            .map_err(|error| WorkloadError::system("start a vCPU's thread", "ask for fewer vCPUs", error))?;
    }
    drop(report);
    // The first error ends the run: with a lock, the other vCPUs would wait for ever.
    (0..count).try_for_each(|_| {
        done.recv().map_err(|_| {
            WorkloadError::host(
                "a vCPU's thread ended early",
                "this is a defect; report it with the command line",
            )
        })?
    })
}

#[cfg(test)]
mod tests {
    use super::{Config, MAX_VCPUS, Mode, cpu_of, pause_counter};

    #[test]
    fn the_presets_use_what_is_there() {
        let under = Config::undercommit(Mode::Pauses(1)).unwrap();
        assert_eq!(under.cpus.len(), under.vcpus as usize);
        let over = Config::overcommit(Mode::Pauses(1)).unwrap();
        assert_eq!((over.vcpus, over.cpus.len()), (4, 1));
        assert!((0..4).all(|vcpu| cpu_of(&over, vcpu) == Some(over.cpus[0])));
    }

    #[test]
    fn counters_of_all_vcpus_fit_into_the_page_of_the_lock() {
        assert!(pause_counter(MAX_VCPUS - 1) + 8 <= 4096);
        let config = Config { vcpus: MAX_VCPUS + 1, cpus: vec![], mode: Mode::Pauses(1) };
        assert!(config.check().unwrap_err().to_string().contains("1 to 60"));
        let config = Config { vcpus: 1, cpus: vec![], mode: Mode::Lock { acquisitions: 1, hold: 0 } };
        assert!(config.check().unwrap_err().to_string().contains("--hold"));
        let config = Config { vcpus: 4, cpus: vec![], mode: Mode::Lock { acquisitions: 1 << 30, hold: 1 } };
        assert!(config.check().unwrap_err().to_string().contains("tickets"));
        let config = Config { vcpus: 1, cpus: vec![1023], mode: Mode::Pauses(1) };
        assert!(config.check().unwrap_err().to_string().starts_with("CPU 1023 is not online"));
    }
}
