//! The filters of the command line.

use super::stop;
use anyhow::{bail, ensure};
use memslot::{
    model::Class,
    probe::{self, Filter},
};
use std::{fs, time::Duration};

/// Which calls are wanted. A condition that a probe does not know leaves its calls alone.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Filters (in the kernel; what they leave out is counted)")]
pub(super) struct FilterArgs {
    /// Only the VM of this process, by its number or the VM's name, and stop when it ends
    #[arg(long, visible_alias = "pid", value_name = "PID|NAME")]
    vm: Option<String>,
    /// Only page faults and PLE exits of the vCPU with this id
    #[arg(long, value_name = "ID")]
    vcpu: Option<u32>,
    /// Only page faults on the slot with this id
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u32).range(..=32_767))]
    slot: Option<u32>,
    /// Only translations of the queue with this index
    #[arg(long, value_name = "INDEX", value_parser = clap::value_parser!(u32).range(..=65_534))]
    queue: Option<u32>,
    /// Only page faults of these classes
    #[arg(long, value_delimiter = ',', value_name = "CLASS")]
    class: Vec<Class>,
    /// Only calls that took at least so long, e.g. 5us
    #[arg(long, value_parser = humantime::parse_duration, value_name = "TIME")]
    min_latency: Option<Duration>,
}

impl FilterArgs {
    /// The filter, with the VM's process found.
    pub(super) fn resolve(&self) -> anyhow::Result<Filter> {
        Ok(Filter {
            pid: self.vm.as_deref().map(process).transpose()?,
            vcpu: self.vcpu,
            slot: self.slot,
            queue: self.queue,
            classes: self.class.clone(),
            min_latency: self
                .min_latency
                .map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
        })
    }

    /// What was asked for, a word each.
    pub(super) fn words(&self) -> Vec<String> {
        let number = |name: &str, value: Option<u32>| value.map(|value| format!("--{name}={value}"));
        let classes: Vec<_> = self.class.iter().map(|class| class.name()).collect();
        [
            self.vm.as_ref().map(|vm| format!("--vm={vm}")),
            number("vcpu", self.vcpu),
            number("slot", self.slot),
            number("queue", self.queue),
            (!classes.is_empty()).then(|| format!("--class={}", classes.join(","))),
            self.min_latency.map(|time| format!("--min-latency={}", humantime::format_duration(time))),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The process that owns a VM, by its number or the VM's name.
fn process(vm: &str) -> anyhow::Result<u32> {
    if let Ok(pid) = vm.parse() {
        ensure!(
            stop::is_alive(pid),
            "there is no process {pid}; `memslot record` without --vm records every VM"
        );
        ensure!(
            stop::has_vm(pid),
            "process {pid} has no VM; --vm takes the process that owns one, such as QEMU's"
        );
        return Ok(pid);
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let found: Vec<u32> = processes.filter(|&pid| stop::holds_vm(pid) && probe::vm_name(pid) == vm).collect();
    match found.as_slice() {
        [pid] => Ok(*pid),
        [] => bail!("no running VM is called {vm}; `memslot record` without --vm records every VM"),
        several => {
            let pids: Vec<_> = several.iter().map(u32::to_string).collect();
            bail!("{} VMs are called {vm}; name one by its process: {}", several.len(), pids.join(", "))
        }
    }
}
