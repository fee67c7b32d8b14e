//! The scheduler's tracepoints: how long a task was off its CPU, and that it ended.

use aya::{
    Btf, Ebpf,
    programs::{
        BtfTracePoint, ProgramError, RawTracePoint, raw_trace_point::RawTracePointLink,
        tp_btf::BtfTracePointLink,
    },
};

/// The attached tracepoints; dropping them detaches both.
#[derive(Default)]
pub(super) struct Sched {
    switched: Option<BtfTracePointLink>,
    ended: Option<RawTracePointLink>,
    /// `sched_switch` is watched.
    pub(super) on_cpu: bool,
    /// What is lost without one of them, and why.
    pub(super) notes: Vec<String>,
}

impl Sched {
    /// Attaches both; what cannot be attached is noted.
    pub(super) fn attach(ebpf: &mut Ebpf) -> Self {
        let mut sched = Self::default();
        match switched(ebpf) {
            Ok(link) => sched.switched = Some(link),
            Err(error) => sched.notes.push(format!("time on a CPU is not known: no sched_switch: {error}")),
        }
        match ended(ebpf) {
            Ok(link) => sched.ended = Some(link),
            Err(error) => {
                let note =
                    format!("ends of tasks in the midst of a call go unseen: no sched_process_exit: {error}");
                sched.notes.push(note);
            }
        }
        sched.on_cpu = sched.switched.is_some();
        sched
    }

    pub(super) fn detach(&mut self) {
        self.switched = None;
        self.ended = None;
    }
}

fn switched(ebpf: &mut Ebpf) -> Result<BtfTracePointLink, String> {
    let text = |error: ProgramError| super::attach::explain(&error);
    let btf = Btf::from_sys_fs().map_err(|error| error.to_string())?;
    let program: &mut BtfTracePoint = program(ebpf, "task_switched")?.try_into().map_err(text)?;
    program.load("sched_switch", &btf).map_err(text)?;
    let link = program.attach().map_err(text)?;
    program.take_link(link).map_err(text)
}

fn ended(ebpf: &mut Ebpf) -> Result<RawTracePointLink, String> {
    let text = |error: ProgramError| super::attach::explain(&error);
    let program: &mut RawTracePoint = program(ebpf, "task_ended")?.try_into().map_err(text)?;
    program.load().map_err(text)?;
    let link = program.attach("sched_process_exit").map_err(text)?;
    program.take_link(link).map_err(text)
}

fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut aya::programs::Program, String> {
    ebpf.program_mut(name).ok_or_else(|| format!("the embedded probes have no program {name}"))
}
