//! `memslot workload`

use super::output;
use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use memslot::workload::slots::{self, Churn, Refault, Shape, Slot};
use memslot::workload::{Expectation, Host, Observer, Order, name_process, ple, vhost};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  memslot workload slots --slots 53 --mmio 5
  memslot workload ple --overcommit --json
  sudo memslot workload vhost --regions 509
  sudo memslot record --output rec -- memslot workload slots --slots 53

Exit codes: 0 done; 2 this host cannot run it, or it did not keep to its forecast.")]
pub(crate) struct Args {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// Page faults: a VM with many slots, its vCPUs touch RAM, MMIO and gaps
    Slots(SlotsArgs),
    /// PAUSE exits: vCPUs that spin, alone or for a lock
    Ple(PleArgs),
    /// Translations: a vhost-net transmit queue with many regions (needs root)
    Vhost(VhostArgs),
}

/// What all workloads have in common.
#[derive(Debug, clap::Args)]
struct Common {
    /// Print JSON, one document a line; the last line is the result
    #[arg(short, long)]
    json: bool,
    /// Print "ready" when all is set up and begin on a line (or the end) of standard input, so that a
    /// tool can attach before the counted part; print "end" when it is over
    #[arg(long)]
    wait: bool,
    /// After the counted part, print "end" and keep the VM or device until a line (or the end) of
    /// standard input
    #[arg(long)]
    hold_open: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LayoutKind {
    /// 1 MiB at 0, a large slot at 1 GiB, small ones of 64 KiB every 128 KiB from 8 GiB on
    Uniform,
    /// The three slots of 2011: below 1 MiB, 1 MiB to 3.5 GiB, from 4 GiB on
    #[value(name = "2011")]
    Classic,
    /// From --layout-file
    File,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  memslot workload slots --slots 509 --accesses 20000 --vcpus 2
  memslot workload slots --layout 2011 --mmio 5 --gap 5
  memslot workload slots --wait --json

Exit codes: 0 done; 2 this host cannot run it, or it did not keep to its forecast.")]
struct SlotsArgs {
    /// Shape of the layout
    #[arg(long, value_enum, default_value = "uniform")]
    layout: LayoutKind,
    /// JSON file with the slots in the order of creation: [{"id":0,"base_gfn":0,"npages":256},…], or an
    /// object with such a "layout", as --json prints it
    #[arg(long, value_name = "FILE", required_if_eq("layout", "file"))]
    layout_file: Option<PathBuf>,
    /// Slots of the uniform layout, at least 3
    #[arg(long, value_name = "N", default_value_t = 32)]
    slots: usize,
    /// MiB of the large slot, reserved but not committed
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..1 << 19))]
    large: u64,
    /// Order in which the slots are created (a file's order is its own unless shuffled)
    #[arg(long, value_enum, default_value = "ascending")]
    order: Order,
    /// Order in which RAM is touched
    #[arg(long, value_enum, default_value = "random")]
    pattern: slots::Pattern,
    /// Percent of accesses to a few MMIO frames
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    mmio: u32,
    /// Percent of accesses to frames right behind slots
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    gap: u32,
    /// Accesses of each vCPU in each round
    #[arg(long, value_name = "N", default_value_t = 4096)]
    accesses: u64,
    /// Rounds; between two of them pages are taken away and slots changed
    #[arg(long, value_name = "N", default_value_t = 4)]
    rounds: u64,
    /// How pages are made to fault again
    #[arg(long, value_enum, default_value = "dontneed")]
    refault: Refault,
    /// What is done to one slot between two rounds; deleting or moving makes every page fault again
    #[arg(long, value_enum, default_value = "none")]
    churn: Churn,
    /// vCPUs, each with pages of its own
    #[arg(long, value_name = "N", default_value_t = 1)]
    vcpus: u32,
    /// Write instead of read
    #[arg(long)]
    write: bool,
    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  memslot workload ple --undercommit
  memslot workload ple --vcpus 4 --cpus 1 --pauses 5000
  memslot workload ple --lock 1000 --hold 5000

Exit codes: 0 done; 2 this host cannot run it, or it did not keep to its forecast.")]
struct PleArgs {
    /// vCPUs
    #[arg(long, value_name = "N", default_value_t = 2)]
    vcpus: u32,
    /// CPUs that the vCPUs are bound to, in turn; several vCPUs may share one
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// One vCPU on each CPU
    #[arg(long, conflicts_with_all = ["vcpus", "cpus", "overcommit"])]
    undercommit: bool,
    /// Four vCPUs on one CPU
    #[arg(long, conflicts_with_all = ["vcpus", "cpus"])]
    overcommit: bool,
    /// PAUSEs that each vCPU executes
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pauses: u64,
    /// Take a ticket lock this many times on each vCPU instead, waiting by PAUSE; the guest counts
    #[arg(long, value_name = "N", conflicts_with = "pauses")]
    lock: Option<u64>,
    /// Turns of an empty loop that the lock is held for
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "lock")]
    hold: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo memslot workload vhost --regions 53 --chain 16
  sudo memslot workload vhost --regions 509 --cross 10 --json

Exit codes: 0 done; 2 this host cannot run it, or it did not keep to its forecast.")]
struct VhostArgs {
    /// Regions in the table
    #[arg(long, value_name = "N", default_value_t = 53)]
    regions: u32,
    /// Order in which they are inserted
    #[arg(long, value_enum, default_value = "ascending")]
    order: Order,
    /// Which region a descriptor points into
    #[arg(long, value_enum, default_value = "random")]
    pattern: vhost::Pattern,
    /// Descriptors of a packet
    #[arg(long, value_name = "N", default_value_t = 16)]
    chain: u32,
    /// Percent of descriptors that cross into the next region; above 0 the regions adjoin
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    cross: u32,
    /// How often the queue is filled and vhost woken
    #[arg(long, value_name = "N", default_value_t = 10)]
    kicks: u64,
    /// Descriptors of the queue, a power of two
    #[arg(long, value_name = "N", default_value_t = 1024)]
    queue: u32,
    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.workload {
            Workload::Slots(args) => args.run(),
            Workload::Ple(args) => args.run(),
            Workload::Vhost(args) => args.run(),
        }
    }
}

impl SlotsArgs {
    fn run(self) -> anyhow::Result<ExitCode> {
        name_process("slots");
        let shape = match (self.layout, &self.layout_file) {
            (LayoutKind::Uniform, _) => Shape::Uniform { slots: self.slots },
            (LayoutKind::Classic, _) => Shape::Classic,
            (LayoutKind::File, Some(path)) => Shape::Listed(read_layout(path)?),
            (LayoutKind::File, None) => anyhow::bail!("--layout file needs --layout-file"),
        };
        let config = slots::Config {
            shape,
            large: self.large * 256,
            order: self.order,
            pattern: self.pattern,
            mmio: self.mmio,
            gap: self.gap,
            accesses: self.accesses,
            rounds: self.rounds,
            refault: self.refault,
            churn: self.churn,
            vcpus: self.vcpus,
            write: self.write,
            seed: self.seed,
        };
        let report = slots::run(&config, &Host::read(), &mut Announcer(&self.common))?;
        let forecast = &report.forecast;
        let details = [
            format!("pages of RAM that faulted   {}", forecast.ram_faults),
            format!("pages of the guest itself   {}", forecast.control_faults),
            format!("accesses without a slot     {}", forecast.no_slot_exits()),
            format!("slots, changes              {}, {}", report.layout.len(), report.changes.len()),
        ];
        print(&self.common, &report, &report.expectation, &details)
    }
}

impl PleArgs {
    fn run(self) -> anyhow::Result<ExitCode> {
        name_process("ple");
        let mode = match self.lock {
            Some(acquisitions) => ple::Mode::Lock { acquisitions, hold: self.hold },
            None => ple::Mode::Pauses(self.pauses),
        };
        let config = if self.undercommit {
            ple::Config::undercommit(mode)?
        } else if self.overcommit {
            ple::Config::overcommit(mode)?
        } else {
            ple::Config { vcpus: self.vcpus, cpus: self.cpus, mode }
        };
        let report = ple::run(&config, &Host::read(), &mut Announcer(&self.common))?;
        let mut details =
            vec![format!("PAUSEs executed, each exits where the CPU does not filter: {}", report.pauses)];
        details.extend(report.vcpus.iter().map(|vcpu| {
            let cpu = vcpu.cpu.map_or_else(|| "any CPU".to_owned(), |cpu| format!("CPU {cpu}"));
            format!("vCPU {} on {cpu}: {}", vcpu.vcpu, vcpu.pauses)
        }));
        print(&self.common, &report, &report.expectation, &details)
    }
}

impl VhostArgs {
    fn run(self) -> anyhow::Result<ExitCode> {
        name_process("vhost");
        let config = vhost::Config {
            regions: self.regions,
            order: self.order,
            pattern: self.pattern,
            chain: self.chain,
            cross: self.cross,
            kicks: self.kicks,
            queue: self.queue,
            seed: self.seed,
        };
        let report = vhost::run(&config, &Host::read(), &mut Announcer(&self.common))?;
        let details = [
            format!("packets, descriptors        {}, {}", report.packets, report.descriptors),
            format!("searches of the table       {}", report.searches),
            format!("regions                     {}", report.regions.len()),
        ];
        print(&self.common, &report, &report.expectation, &details)
    }
}

/// Reads the slots of a layout file.
fn read_layout(path: &PathBuf) -> anyhow::Result<Vec<Slot>> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Document {
        Slots(Vec<Slot>),
        Result { layout: Vec<Slot> },
    }
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("cannot read the layout file {}; name a readable JSON file", path.display())
    })?;
    let document: Document = serde_json::from_str(&text).with_context(|| {
        format!(
            "{} is no layout; it should hold [{{\"id\":0,\"base_gfn\":0,\"npages\":256}},…]",
            path.display()
        )
    })?;
    Ok(match document {
        Document::Slots(slots) | Document::Result { layout: slots } => slots,
    })
}

/// A line of `--json` before the last one.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Line<'a> {
    /// `ready` or `end`.
    event: &'a str,
    /// The workload's process.
    pid: u32,
    /// With `ready`: the calls that it will cause.
    #[serde(flatten)]
    expected: Option<&'a Expectation>,
}

/// A line of `memslot workload --json`; the last one is the result.
#[derive(schemars::JsonSchema)]
#[schemars(rename = "workload", untagged)]
#[expect(dead_code, reason = "it describes what the workloads print, each by its own structure")]
pub(crate) enum Printed<'a> {
    /// When it begins or ends, with `--wait` or `--hold-open`.
    Line(Line<'a>),
    /// The result of `slots`.
    Slots(slots::Report),
    /// The result of `ple`.
    Ple(ple::Report),
    /// The result of `vhost`.
    Vhost(vhost::Report),
}

/// Says when the counted part begins and ends, and waits where it was asked to.
struct Announcer<'a>(&'a Common);

impl Announcer<'_> {
    fn say(&self, event: &str, expected: Option<&Expectation>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.0.json {
            let line = Line { event, pid: std::process::id(), expected };
            serde_json::to_writer(&mut out, &line)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{event}")?;
        }
        out.flush()
    }
}

/// Waits for a line of standard input; its end will do as well.
fn wait_for_line() -> io::Result<()> {
    io::stdin().lock().read_line(&mut String::new()).map(drop)
}

impl Observer for Announcer<'_> {
    fn ready(&mut self, expected: &Expectation) -> io::Result<()> {
        if self.0.wait {
            self.say("ready", Some(expected))?;
            wait_for_line()?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        if self.0.wait || self.0.hold_open {
            self.say("end", None)?;
        }
        if self.0.hold_open {
            wait_for_line()?;
        }
        Ok(())
    }
}

/// Prints the result: what was called how often, and where that is not certain.
fn print(
    common: &Common,
    report: &impl Serialize,
    expectation: &Expectation,
    details: &[String],
) -> anyhow::Result<ExitCode> {
    if common.json {
        output::print_line(report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("Calls caused, process {}:\n", std::process::id());
    for (function, calls) in &expectation.calls {
        let uncertain = expectation.inexact.iter().find(|inexact| inexact.function == *function);
        let remark = uncertain.map(|inexact| format!("  not exact: {}", inexact.reason)).unwrap_or_default();
        text += &format!("  {function:<20} {calls:>12}{remark}\n");
    }
    for detail in details {
        text += &format!("  {detail}\n");
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
