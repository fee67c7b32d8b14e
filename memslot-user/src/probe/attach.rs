//! Loads the probes and attaches each in the best way that this kernel allows.
//!
//! aya creates maps and globals and handles kprobes. Its fentry knows vmlinux's BTF alone, while KVM
//! and vhost are modules everywhere, so fentry programs are relocated with aya-obj and loaded here.

use super::{
    filter::Filter,
    histogram,
    kernel_types::{Gaps, KernelTypesError},
    object, refusal,
    report::{FunctionReport, Verdict},
    sched::Sched,
    snapshot, subjects, sys,
    target::{Pair, Purpose, TARGETS, Target},
    this_kernel::{Found, Kernel, find},
};
use crate::{model::Probe, recording::AttachKind};
use aya::{
    Ebpf, EbpfLoader,
    programs::{KProbe, kprobe::KProbeLink},
};
use aya_obj::Object;
use memslot_common::settings::Settings;
use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};
use thiserror::Error as ThisError;

/// Why no probe could be attached at all.
#[derive(Debug, ThisError)]
pub enum AttachError {
    /// bpf(2) was refused; the text says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// The kernel's types are not to be had.
    #[error(transparent)]
    KernelTypes(#[from] KernelTypesError),
    /// `/proc/kallsyms` is not to be had.
    #[error("cannot read /proc/kallsyms ({0}); mount /proc")]
    Symbols(io::Error),
    /// The number of CPUs is not to be had.
    #[error("cannot read the number of CPUs ({0}); mount /sys")]
    Cpus(io::Error),
    /// This build carries no probes.
    #[error("this memslot was built without its probes; build it with `cargo xtask build`")]
    NoObject,
    /// The embedded object does not fit this program.
    #[error("the embedded probes are damaged: {0}; build memslot again with `cargo xtask build`")]
    Object(String),
}

/// Which attach kind to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Preference {
    /// fentry where it works, else kprobe.
    #[default]
    Auto,
    /// Only fentry.
    Fentry,
    /// Only kprobe.
    Kprobe,
}

/// What to attach.
#[derive(Clone, Debug)]
pub struct Options {
    /// The measured things.
    pub probes: BTreeSet<Probe>,
    /// How.
    pub preference: Preference,
    /// Bytes of the ring buffer: a power of two and a multiple of the page size.
    pub ring_bytes: u32,
    /// Elements of the histogram map of each CPU, a power of two; `None` = as many as fit the CPUs.
    pub histogram_elements: Option<u32>,
    /// One call in so many becomes an event: 1 = every one, 0 = none.
    pub sample_every: u32,
    /// Follow the searches.
    pub follow: bool,
    /// Only these calls.
    pub filter: Filter,
}

impl Default for Options {
    /// Every event of every probe.
    fn default() -> Self {
        Self {
            probes: Probe::ALL.into(),
            preference: Preference::Auto,
            ring_bytes: 1 << 24,
            histogram_elements: None,
            sample_every: 1,
            follow: true,
            filter: Filter::default(),
        }
    }
}

impl Options {
    /// Elements of the histogram map.
    fn elements(&self) -> Result<u32, AttachError> {
        let Some(elements) = self.histogram_elements else {
            let cpus = aya::util::nr_cpus().map_err(|(_, error)| AttachError::Cpus(error))?;
            return Ok(histogram::elements(cpus));
        };
        Ok(elements)
    }

    /// What the probes are told besides the places of members.
    fn settings(&self, settings: &mut Settings, elements: u32) {
        settings.sample_every = self.sample_every;
        settings.histogram_mask = elements - 1;
        settings.follow = u32::from(self.follow);
        // Where it cannot be attached, all time is taken to be on a CPU, and the user side knows.
        settings.on_cpu = 1;
        self.filter.settings(settings);
    }
}

/// A loaded tracing program. Fields drop in order: the link first.
struct Tracer {
    link: Option<OwnedFd>,
    program: OwnedFd,
    at_return: bool,
    purpose: Purpose,
    essential: bool,
}

struct KprobeHandle {
    link: Option<KProbeLink>,
    program: &'static str,
    at_return: bool,
    purpose: Purpose,
    essential: bool,
}

/// The attached probes; dropping them detaches every one.
pub struct Probes {
    tracers: Vec<Tracer>,
    kprobes: Vec<KprobeHandle>,
    ebpf: Ebpf,
    /// What became of each function.
    pub functions: Vec<FunctionReport>,
    /// Figures that are left out because the kernel's structures are not known.
    pub gaps: Gaps,
    /// Address spaces of a VM.
    pub(super) address_spaces: u16,
    /// Elements of the histogram map.
    pub(super) histogram_elements: u32,
    sched: Sched,
}

/// The first I/O error in a chain of causes.
fn io_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return Some(io);
        }
        next = error.source();
    }
    None
}

pub(super) fn explain(error: &(dyn Error + 'static)) -> String {
    io_cause(error).map_or_else(|| error.to_string(), refusal::explain)
}

impl Probes {
    /// Loads the probes, attaches what can be attached, and says what became of each function.
    ///
    /// # Errors
    /// When nothing at all can be probed: no permission, no BTF, no probes in this build. A single
    /// function that cannot be probed is no error but a [`FunctionReport`].
    pub fn attach(options: &Options) -> Result<Self, AttachError> {
        let bytes = object::bytes().ok_or(AttachError::NoObject)?;
        let mut kernel = Kernel::of_this_host()?;
        let (mut settings, gaps) = kernel.settings();
        let address_spaces = kernel.address_spaces;
        let histogram_elements = options.elements()?;
        options.settings(&mut settings, histogram_elements);
        let settings = settings.to_bytes();
        let mut ebpf = EbpfLoader::new()
            .allow_unsupported_maps()
            .override_global("SETTINGS", settings.as_slice(), true)
            .map_max_entries("EVENTS", options.ring_bytes)
            .map_max_entries("HISTOGRAM", histogram_elements)
            .load(bytes)
            .map_err(|error| AttachError::Refused(explain(&error)))?;
        snapshot::load(&mut ebpf).map_err(|error| AttachError::Refused(explain(&error)))?;
        subjects::fill(&mut ebpf, &options.filter).map_err(|error| AttachError::Refused(explain(&error)))?;
        let rdonly_cast = kernel.types.rdonly_cast().map(|(function, _)| function);
        let relocated = object::relocated(bytes, &ebpf, rdonly_cast)?;
        let mut attacher = Attacher {
            options,
            kernel,
            object: relocated,
            ebpf: &mut ebpf,
            btf: BTreeMap::new(),
            tracers: Vec::new(),
            kprobes: Vec::new(),
            refused: None,
        };
        let mut functions = Vec::new();
        for target in TARGETS {
            if !attacher.wanted(target) {
                continue;
            }
            let report = attacher.attach(target);
            functions.push(report);
        }
        let (tracers, kprobes, refused) = (attacher.tracers, attacher.kprobes, attacher.refused);
        // Refused everywhere: that is the reason, and not what each function has to say of it.
        if let (true, Some(reason)) = (tracers.is_empty() && kprobes.is_empty(), refused) {
            return Err(AttachError::Refused(reason));
        }
        let sched = Sched::attach(&mut ebpf);
        Ok(Self { tracers, kprobes, ebpf, functions, gaps, address_spaces, histogram_elements, sched })
    }

    /// What became of a probe: of its own functions and of those that report its layouts.
    #[must_use]
    pub fn verdict(&self, probe: Probe) -> Verdict {
        Verdict::new(probe, &self.functions, &self.gaps)
    }

    /// Why the time that calls spent on a CPU is not known, or the ends of tasks go unseen.
    #[must_use]
    pub fn scheduler_notes(&self) -> &[String] {
        &self.sched.notes
    }

    /// Is the time that calls spent on a CPU known?
    #[must_use]
    pub fn knows_on_cpu(&self) -> bool {
        self.sched.on_cpu
    }

    /// Detaches every probe; the counters stay. A call that is under way sees no return any more.
    pub fn detach(&mut self) {
        for at_return in [false, true] {
            for tracer in self.tracers.iter_mut().filter(|tracer| tracer.at_return == at_return) {
                tracer.link = None;
            }
            for kprobe in self.kprobes.iter_mut().filter(|kprobe| kprobe.at_return == at_return) {
                kprobe.link = None;
            }
        }
        self.sched.detach();
    }

    /// The maps.
    pub(super) fn ebpf(&self) -> &Ebpf {
        &self.ebpf
    }

    /// The maps, to take some out. Only after the programs have been relocated to them.
    pub(super) fn ebpf_mut(&mut self) -> &mut Ebpf {
        &mut self.ebpf
    }

    /// Runs of a probe's programs that the kernel skipped: one of them was running on that CPU already, or it
    /// had no memory to see a return.
    #[must_use]
    pub fn missed(&self, probe: Probe) -> Missed {
        let purpose = Purpose::Measure(probe);
        let of = |fd: BorrowedFd<'_>| sys::recursion_misses(fd).unwrap_or(0);
        let mut missed = Missed::default();
        for tracer in self.tracers.iter().filter(|tracer| tracer.essential && tracer.purpose == purpose) {
            missed.add(tracer.at_return, of(tracer.program.as_fd()));
        }
        // A program that serves several clones counts for all of them.
        let mut counted = BTreeSet::new();
        for kprobe in self.kprobes.iter().filter(|kprobe| kprobe.essential && kprobe.purpose == purpose) {
            if counted.insert(kprobe.program)
                && let Some(Ok(fd)) = self.ebpf.program(kprobe.program).map(|program| program.fd())
            {
                missed.add(kprobe.at_return, of(fd.as_fd()));
            }
        }
        missed
    }
}

/// Runs that the kernel skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// Of programs at entry: calls that nobody counted.
    pub entries: u64,
    /// Of programs at return: calls whose start stays on record.
    pub returns: u64,
}

impl Missed {
    fn add(&mut self, at_return: bool, count: u64) {
        *(if at_return { &mut self.returns } else { &mut self.entries }) += count;
    }
}

struct Attacher<'a> {
    options: &'a Options,
    kernel: Kernel,
    object: Object,
    ebpf: &'a mut Ebpf,
    /// BTF objects of modules; `None`: the module has none.
    btf: BTreeMap<String, Option<OwnedFd>>,
    tracers: Vec<Tracer>,
    kprobes: Vec<KprobeHandle>,
    /// Why the kernel lets us load no program at all, if it said so.
    refused: Option<String>,
}

impl Attacher<'_> {
    fn wanted(&self, target: &Target) -> bool {
        let probes = &self.options.probes;
        match target.purpose {
            Purpose::Measure(probe) => probes.contains(&probe),
            // Without the ends of VMs, one that is started anew at the same address is taken for the old one.
            Purpose::Slots => probes.contains(&Probe::PageFault) || probes.contains(&Probe::Ple),
            Purpose::Regions => probes.contains(&Probe::Translate),
        }
    }

    fn attach(&mut self, target: &Target) -> FunctionReport {
        let mut report = FunctionReport {
            function: target.functions.join(" or "),
            purpose: target.purpose.name().to_owned(),
            attached: None,
            reason: None,
            without: target.without.map(str::to_owned),
        };
        let found = match find(target, &self.kernel.symbols) {
            Ok(found) => found,
            Err(reason) => {
                report.reason = Some(reason);
                return report;
            }
        };
        report.function = found.names.join(", ");
        let mut reasons = Vec::new();
        if self.options.preference != Preference::Kprobe {
            match self.attach_tracing(target, &found) {
                Ok(()) => {
                    report.attached = Some(AttachKind::Fentry);
                    return report;
                }
                Err(reason) => reasons.push(format!("no fentry: {reason}")),
            }
        }
        if self.options.preference != Preference::Fentry {
            match self.attach_kprobes(target, &found) {
                Ok(()) => report.attached = Some(AttachKind::Kprobe),
                Err(reason) => reasons.push(format!("no kprobe: {reason}")),
            }
        }
        report.reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        report
    }

    fn attach_tracing(&mut self, target: &Target, found: &Found) -> Result<(), String> {
        let [name] = found.names.as_slice() else {
            return Err(format!("the compiler split it into {}", found.names.join(", ")));
        };
        let types = self.kernel.types.module(&found.module).map_err(|error| error.to_string())?;
        let Some(types) = types else {
            return Err(format!("the module {} has no BTF (CONFIG_DEBUG_INFO_BTF_MODULES)", found.module));
        };
        let function = types.function(name).map_err(|error| error.to_string())?;
        let parameters = types.parameters(name).map_err(|error| error.to_string())?;
        if parameters != target.parameters {
            return Err(format!(
                "it has {parameters} parameters here, where {} are known",
                target.parameters
            ));
        }
        let mut tracers = Vec::new();
        for (pair, at_return) in sides(target) {
            tracers.push(self.attach_tracer(target, pair, at_return, function, &found.module)?);
        }
        self.tracers.append(&mut tracers);
        Ok(())
    }

    fn attach_tracer(
        &mut self,
        target: &Target,
        pair: Pair,
        at_return: bool,
        function: u32,
        module: &str,
    ) -> Result<Tracer, String> {
        if !module.is_empty() && !self.btf.contains_key(module) {
            let fd = sys::module_btf(module).map_err(|error| refusal::explain(&error))?;
            self.btf.insert(module.to_owned(), fd);
        }
        let btf = self.btf.get(module).and_then(Option::as_ref);
        if !module.is_empty() && btf.is_none() {
            return Err(format!("the kernel holds no BTF of the module {module}"));
        }
        let lacking = || format!("the embedded probes have no program {}", pair.tracing);
        let program = self.object.programs.get(pair.tracing).ok_or_else(lacking)?;
        let code = self.object.functions.get(&program.function_key()).ok_or_else(lacking)?;
        let instructions = object::instruction_bytes(&code.instructions);
        let request = sys::Tracing {
            name: pair.tracing,
            at_return,
            instructions: &instructions,
            license: &program.license,
            function,
            module: btf,
        };
        let program = sys::load_tracing(&request).map_err(|refused| {
            if refusal::is_permission(&refused.error) {
                self.refused = Some(refusal::explain(&refused.error));
            }
            let log = if refused.log.is_empty() { String::new() } else { format!("\n{}", refused.log) };
            format!("{}{log}", refusal::explain(&refused.error))
        })?;
        // That it loads says nothing of whether it attaches.
        let link = sys::attach_tracing(&program).map_err(|error| refusal::explain(&error))?;
        let essential = target.without.is_none();
        Ok(Tracer { link: Some(link), program, at_return, purpose: target.purpose, essential })
    }

    fn attach_kprobes(&mut self, target: &Target, found: &Found) -> Result<(), String> {
        let mut handles = Vec::new();
        for (pair, at_return) in sides(target) {
            let program: &mut KProbe = self
                .ebpf
                .program_mut(pair.kprobe)
                .and_then(|program| program.try_into().ok())
                .ok_or_else(|| format!("the embedded probes have no program {}", pair.kprobe))?;
            if program.fd().is_err() {
                program.load().map_err(|error| {
                    if io_cause(&error).is_some_and(refusal::is_permission) {
                        self.refused = Some(explain(&error));
                    }
                    explain(&error)
                })?;
            }
            for name in &found.names {
                let link = program.attach(name, 0).and_then(|id| program.take_link(id));
                handles.push(KprobeHandle {
                    link: Some(link.map_err(|error| explain(&error))?),
                    program: pair.kprobe,
                    at_return,
                    purpose: target.purpose,
                    essential: target.without.is_none(),
                });
            }
        }
        self.kprobes.append(&mut handles);
        Ok(())
    }
}

/// The programs of a target, returns first.
fn sides(target: &Target) -> impl Iterator<Item = (Pair, bool)> {
    target.at_return.map(|pair| (pair, true)).into_iter().chain(target.at_entry.map(|pair| (pair, false)))
}
