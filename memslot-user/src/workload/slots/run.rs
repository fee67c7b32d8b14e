//! Performs the plan on a real VM.

use super::super::expectation::PAGE_FAULT;
use super::super::machine::{Machine, SlotSetting, Vcpu, write_page_tables};
use super::super::memory::Mapping;
use super::super::program::walk_list;
use super::super::thread::opt_out_of_numa_balancing;
use super::super::{Expectation, Host, Observer, WorkloadError};
use super::forecast::{Forecast, forecast, list_capacity};
use super::layout::{Control, Layout, SMALL, Slot};
use super::plan::{Action, Change, Plan};
use super::{Churn, Config, Refault};
use crate::model::{Gpa, PAGE_SIZE};
use kvm_bindings::kvm_regs;
use serde::Serialize;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// What a run was and what it caused.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Report {
    /// `slots`
    pub workload: &'static str,
    /// The process that owned the VM.
    pub pid: u32,
    /// Calls of the probed functions.
    #[serde(flatten)]
    pub expectation: Expectation,
    /// Where the calls come from.
    pub forecast: Forecast,
    /// Exits to user space for accesses without a slot, as they were counted in the run.
    pub no_slot_exits: u64,
    /// Length of the counted part, ns.
    pub duration_ns: u64,
    /// vCPUs.
    pub vcpus: u32,
    /// Rounds.
    pub rounds: u64,
    /// The seed.
    pub seed: u64,
    /// The guest's own pages.
    pub control: Control,
    /// The slots at the beginning, in the order of creation.
    pub layout: Vec<Slot>,
    /// How they changed, in order.
    pub changes: Vec<Change>,
}

/// The addresses that a vCPU is to touch.
type Errand = Box<dyn Iterator<Item = Gpa> + Send>;

/// Runs the workload: sets the VM up, announces the forecast, performs it, announces the end.
///
/// # Errors
/// Contradicting options, a host without usable KVM, or a run that did not keep to the forecast.
pub fn run(config: &Config, host: &Host, observer: &mut dyn Observer) -> Result<Report, WorkloadError> {
    let layout = Layout::new(&config.shape, config.large, config.order, config.seed)?;
    config.check(&layout)?;
    let (forecast, changes) = forecast(config, &layout)?;
    let mut expectation = Expectation::new(host);
    let uncertain = host.page_faults_inexact(config.refault == Refault::Dirty);
    expectation.set(PAGE_FAULT, forecast.page_faults(), uncertain);

    let guest = Guest::new(config, &layout)?;
    let crew = Crew::new(config, &guest)?;
    observer.ready(&expectation).map_err(WorkloadError::Announce)?;
    let start = Instant::now();
    let no_slot_exits = perform(config, &layout, &guest, &crew)?;
    let duration_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    observer.end().map_err(WorkloadError::Announce)?;

    if no_slot_exits != forecast.no_slot_exits() {
        return Err(WorkloadError::Miscount {
            what: "exits for accesses without a slot",
            expected: forecast.no_slot_exits(),
            seen: no_slot_exits,
        });
    }
    Ok(Report {
        workload: "slots",
        pid: std::process::id(),
        expectation,
        forecast,
        no_slot_exits,
        duration_ns,
        vcpus: config.vcpus,
        rounds: config.rounds,
        seed: config.seed,
        control: layout.control,
        layout: layout.slots,
        changes,
    })
}

/// Goes through the rounds; returns the exits for accesses without a slot.
fn perform(config: &Config, layout: &Layout, guest: &Guest, crew: &Crew) -> Result<u64, WorkloadError> {
    let mut plan = Plan::new(config, layout);
    let mut no_slot_exits = 0;
    for round in 0..config.rounds {
        let content = plan.round()?;
        if !content.openings.is_empty() {
            crew.send(0, Box::new(content.openings.into_iter().map(|access| access.gfn.gpa())))?;
            no_slot_exits += crew.wait(1)?;
        }
        let vcpus = content.accesses.len();
        for (vcpu, accesses) in content.accesses.into_iter().enumerate() {
            crew.send(vcpu, Box::new(accesses.map(|access| access.gfn.gpa())))?;
        }
        no_slot_exits += crew.wait(vcpus)?;
        if round + 1 == config.rounds {
            break;
        }
        guest.refault(config.refault, &plan.slots)?;
        if let Some(change) = plan.advance()? {
            guest.change(&change)?;
        }
    }
    Ok(no_slot_exits)
}

/// The VM with its slots.
struct Guest {
    machine: Machine,
    ram: Arc<Mapping>,
    /// Byte offset of each slot's memory, by slot id.
    offsets: HashMap<u32, usize>,
    control: Control,
    control_offset: usize,
    length: usize,
    log_dirty: bool,
}

fn bytes(pages: u64) -> usize {
    usize::try_from(pages.saturating_mul(PAGE_SIZE)).unwrap_or(usize::MAX)
}

impl Guest {
    fn new(config: &Config, layout: &Layout) -> Result<Self, WorkloadError> {
        let mut offsets = HashMap::new();
        let mut length = 0;
        for slot in &layout.slots {
            offsets.insert(slot.id, length);
            length += bytes(slot.npages);
        }
        // Memory of the slots that churn creates; ids follow on from the highest.
        if matches!(config.churn, Churn::Create | Churn::Mixed) {
            let first = layout.slots.iter().map(|slot| slot.id).max().map_or(0, |id| id.saturating_add(1));
            for created in 0..u32::try_from(config.rounds).unwrap_or(u32::MAX) {
                offsets.insert(first.saturating_add(created), length);
                length += bytes(SMALL);
            }
        }
        let ram = Arc::new(Mapping::new(length)?);
        opt_out_of_numa_balancing();
        let machine = Machine::new(Arc::clone(&ram))?;
        refuse_too_much(config, layout, &machine)?;

        let control = layout.control;
        let owner = layout.slots.iter().find(|slot| slot.id == control.slot);
        let within = owner.map_or(0, |slot| control.first_gfn.0 - slot.base_gfn.0);
        let control_offset = offsets.get(&control.slot).copied().unwrap_or(0) + bytes(within);
        let log_dirty = config.refault == Refault::Dirty;
        let guest = Self { machine, ram, offsets, control, control_offset, length, log_dirty };
        for slot in &layout.slots {
            guest.machine.set_slot(guest.setting(slot, slot.npages))?;
        }
        guest.ram.populate(control_offset..control_offset + bytes(control.npages));
        guest.ram.copy(control_offset, &walk_list(config.write));
        write_page_tables(&guest.ram, control_offset + bytes(1), guest.pml4());
        Ok(guest)
    }

    fn pml4(&self) -> Gpa {
        Gpa(self.control.first_gfn.gpa().0 + PAGE_SIZE)
    }

    fn setting(&self, slot: &Slot, npages: u64) -> SlotSetting {
        SlotSetting {
            id: slot.id,
            base_gfn: slot.base_gfn,
            npages,
            offset: self.offsets.get(&slot.id).copied().unwrap_or(0),
            log_dirty: self.log_dirty && slot.id != self.control.slot,
        }
    }

    /// Makes every page of RAM but the guest's own fault again.
    fn refault(&self, how: Refault, slots: &[Slot]) -> Result<(), WorkloadError> {
        let own = self.control_offset..self.control_offset + bytes(self.control.npages);
        let parts: [Range<usize>; 2] = [0..own.start, own.end..self.length];
        let mut parts = parts.into_iter().filter(|part| !part.is_empty());
        match how {
            Refault::None => Ok(()),
            Refault::Dontneed => parts.try_for_each(|part| self.ram.discard(part)),
            Refault::Mprotect => parts.try_for_each(|part| self.ram.reprotect(part)),
            Refault::Dirty => slots
                .iter()
                .filter(|slot| slot.id != self.control.slot)
                .try_for_each(|slot| self.machine.reset_dirty(slot.id, slot.npages)),
        }
    }

    fn change(&self, change: &Change) -> Result<(), WorkloadError> {
        let npages = if change.action == Action::Delete { 0 } else { change.slot.npages };
        self.machine.set_slot(self.setting(&change.slot, npages))
    }
}

/// More slots or higher addresses than this host's KVM has.
fn refuse_too_much(config: &Config, layout: &Layout, machine: &Machine) -> Result<(), WorkloadError> {
    let created = match config.churn {
        Churn::Create => config.rounds - 1,
        Churn::Mixed => (config.rounds + 1) / 3,
        _ => 0,
    };
    let highest = layout.slots.iter().map(|slot| u64::from(slot.id)).max().unwrap_or(0);
    let limit = machine.max_slots() as u64;
    if highest + created >= limit {
        return Err(WorkloadError::options(format!(
            "slot ids up to {} are needed, but KVM_CAP_NR_MEMSLOTS says {limit} slots here; ask for fewer",
            highest + created
        )));
    }
    let top = layout.slots.iter().map(Slot::end).max().unwrap_or(0);
    let bits = machine.address_bits();
    if bits < 52 && super::access::Targets::reach(top, config.vcpus) > 1 << (bits - 12) {
        return Err(WorkloadError::options(format!(
            "the layout reaches beyond the {bits} address bits that guests have here; end it lower"
        )));
    }
    Ok(())
}

/// The vCPUs, each in a thread of its own.
struct Crew {
    errands: Vec<Sender<Errand>>,
    done: Receiver<Result<u64, WorkloadError>>,
}

impl Crew {
    fn new(config: &Config, guest: &Guest) -> Result<Self, WorkloadError> {
        let (report, done) = channel();
        let capacity = usize::try_from(list_capacity(&guest.control, config.vcpus)).unwrap_or(0);
        let mut errands = Vec::new();
        for id in 0..config.vcpus {
            let vcpu = guest.machine.vcpu(id, guest.pml4())?;
            let list = bytes(Control::FIXED) + id as usize * capacity * 8;
            let walker = Walker {
                vcpu,
                ram: Arc::clone(&guest.ram),
                list_offset: guest.control_offset + list,
                capacity,
                registers: kvm_regs {
                    rip: guest.control.first_gfn.gpa().0,
                    rsi: guest.control.first_gfn.gpa().0 + list as u64,
                    ..kvm_regs::default()
                },
            };
            let (sender, orders) = channel::<Errand>();
            let report = report.clone();
            std::thread::Builder::new()
                .name(format!("vcpu{id}"))
                .spawn(move || walker.serve(&orders, &report))
                .map_err(|error| {
                    WorkloadError::system("start a vCPU's thread", "ask for fewer vCPUs", error)
                })?;
            errands.push(sender);
        }
        Ok(Self { errands, done })
    }

    fn send(&self, vcpu: usize, errand: Errand) -> Result<(), WorkloadError> {
        self.errands[vcpu].send(errand).map_err(|_| lost_thread())
    }

    /// Waits for `count` errands; returns their exits.
    fn wait(&self, count: usize) -> Result<u64, WorkloadError> {
        (0..count).map(|_| self.done.recv().map_err(|_| lost_thread())?).sum()
    }
}

fn lost_thread() -> WorkloadError {
    WorkloadError::host("a vCPU's thread ended early", "this is a defect; report it with the command line")
}

/// One vCPU and the list that it walks.
struct Walker {
    vcpu: Vcpu,
    ram: Arc<Mapping>,
    list_offset: usize,
    capacity: usize,
    registers: kvm_regs,
}

impl Walker {
    fn serve(mut self, orders: &Receiver<Errand>, report: &Sender<Result<u64, WorkloadError>>) {
        for errand in orders {
            if report.send(self.walk(errand)).is_err() {
                return;
            }
        }
    }

    /// Fills the list and runs the guest over it until the errand is done.
    fn walk(&mut self, mut errand: Errand) -> Result<u64, WorkloadError> {
        let mut exits = 0;
        loop {
            let mut length = 0;
            for (index, gpa) in errand.by_ref().take(self.capacity).enumerate() {
                self.ram.u64(self.list_offset + index * 8).store(gpa.0, Ordering::Relaxed);
                length += 1;
            }
            if length == 0 {
                return Ok(exits);
            }
            exits += self.vcpu.run(&kvm_regs { rcx: length, ..self.registers })?;
        }
    }
}
