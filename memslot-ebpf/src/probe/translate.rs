//! vhost's `translate_desc(vq, addr, len, iov, iov_size, access)`.

use crate::{
    account::Row,
    flight::{self, Call},
    frame,
    kernel::{
        Access, Helper, Opaque, RegionWalk, Request, Table, Typed, Unreadable, Walk, read, search_regions,
        setting,
    },
    measured::Measured,
    subject,
    task::{self, now},
    words,
};
use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id},
    macros::{fentry, fexit, kprobe, kretprobe},
    programs::{FEntryContext, FExitContext, ProbeContext, RetProbeContext},
};
use aya_log_ebpf::warn;
use memslot_common::{
    account::{OTHERS, count, probe},
    event::{Translation, UNKNOWN_LENGTH, kind},
    histogram,
    settings::ABSENT,
};

/// Queues of a device that are looked through; vhost-net has 2, vhost-scsi up to 128.
const MAX_QUEUES: u32 = 128;
const UNKNOWN_QUEUE: u16 = u16::MAX;
/// How a search ended.
const WALK_DONE: u64 = 0;
const WALK_TRUNCATED: u64 = 1;
const WALK_FAILED: u64 = 2;
/// A task that has met a queue, but not asked for its index.
const NOT_LOOKED_FOR: u64 = u64::MAX;

#[inline(always)]
fn enter<A: Access, C: EbpfContext>(context: &C, frame: u64, vq: u64, request: &Request) {
    let Some(task) = task::current_or_new() else {
        if let Some(row) = Row::of(probe::TRANSLATE, OTHERS) {
            row.add(count::ENTRY);
            row.add(count::START_FULL);
        }
        return;
    };
    // A queue belongs to one device for its life, and a worker to one device.
    if task.known_queue != vq {
        task.known_device = device_of::<Helper>(vq);
        task.queue = NOT_LOOKED_FOR;
        task.known_queue = vq;
    }
    let device = task.known_device;
    // Before all that branches: the verifier would follow the search anew for each way that leads to it. The
    // outcome goes through the task's memory, where the verifier forgets it.
    let walk = &mut task.region_walk;
    let typed = if A::IS_CHEAP { device_of::<A>(vq) } else { device };
    let walked = &mut task.walked;
    walked.set(match describe::<A>(typed, device, request, &mut task.translation, walk, &mut task.cell) {
        Ok(Walk::Done) => WALK_DONE,
        Ok(Walk::Truncated) => WALK_TRUNCATED,
        Ok(Walk::Failed) | Err(Unreadable) => WALK_FAILED,
    });
    subject::meet_device(&mut task.device, device);
    let subject = task.device.subject;
    let Some(row) = Row::of(probe::TRANSLATE, subject) else { return };
    row.add(count::ENTRY);
    let Some(call) = task.translations.begin(probe::TRANSLATE, frame, subject) else { return };
    row.add(count::BEGUN);
    call.wanted = task.device.wanted;
    words::copy(&task.translation, &mut call.detail);
    let event = &mut call.detail;
    event.subject = subject;
    let walked = task.walked.get();
    if walked == WALK_TRUNCATED && row.add(count::WALK_TRUNCATED) == 0 {
        warn!(context, "a region search was longer than the probe follows; its length is left out");
    }
    if walked == WALK_FAILED && row.add(count::WALK_FAILED) == 0 {
        warn!(context, "a vhost table could not be read; search lengths are left out");
    }
    if setting!(sample_every) != 0 {
        // SAFETY: the helper has no arguments and no effect.
        event.cpu = unsafe { bpf_get_smp_processor_id() };
        event.worker = bpf_get_current_pid_tgid() as u32;
    }
    // After the search: the verifier would follow it anew for each index that this loop may end with.
    event.queue = UNKNOWN_QUEUE;
    if device != 0 && (setting!(sample_every) != 0 || setting!(filter_queue) != ABSENT) {
        if task.queue == NOT_LOOKED_FOR {
            task.queue = u64::from(queue(device, vq).unwrap_or(UNKNOWN_QUEUE));
        }
        event.queue = task.queue as u16;
    }
    super::regions::meet(&mut task.known_iotlb, event);
    let off_cpu = task.off_cpu;
    call.detail.time = call.start_clock(off_cpu);
}

/// `vq->dev`; 0 where it is not to be had, also where the compiler has changed the parameters.
#[inline(always)]
fn device_of<A: Access>(vq: u64) -> u64 {
    if setting!(walk_regions) == 0 { 0 } else { A::member(vq, setting!(vq_dev)).unwrap_or(0) }
}

/// Fills in what the kernel's structures say at entry.
#[inline(always)]
fn describe<A: Access>(
    typed: u64,
    device: u64,
    request: &Request,
    event: &mut Translation,
    region_walk: &mut RegionWalk,
    cell: &mut Opaque<u64>,
) -> Result<Walk, Unreadable> {
    words::clear(event);
    event.kind = kind::TRANSLATION;
    event.device = device;
    event.visited = UNKNOWN_LENGTH;
    event.touched = UNKNOWN_LENGTH;
    if event.device == 0 {
        return if setting!(walk_regions) == 0 { Ok(Walk::Done) } else { Err(Unreadable) };
    }
    event.addr = request.addr;
    event.len = request.len;
    event.access = request.access as u8;
    let (umem, iotlb) = A::two(typed, setting!(dev_umem), setting!(dev_iotlb))?;
    event.is_iotlb = u8::from(iotlb != 0);
    // Its worker and its regions are for those who replay the events.
    if setting!(follow) == 0 && setting!(sample_every) == 0 {
        return Ok(Walk::Done);
    }
    let table = if iotlb == 0 { umem } else { iotlb };
    event.iotlb = cell.forget(table);
    let table = Table::at::<A>(table, cell)?;
    event.regions = table.regions;
    if setting!(follow) == 0 {
        return Ok(Walk::Done);
    }
    let (length, walk) = search_regions::<A>(&table, request, region_walk)?;
    event.visited = length.visited;
    event.touched = length.touched;
    Ok(walk)
}

/// Index of the queue in `vhost_dev.vqs`.
#[inline(always)]
fn queue(device: u64, vq: u64) -> Result<u16, Unreadable> {
    let vqs: u64 = read(device + u64::from(setting!(dev_vqs)))?;
    let count: u32 = read(device + u64::from(setting!(dev_nvqs)))?;
    let mut index = 0u32;
    while index < MAX_QUEUES && index < count {
        if read::<u64>(vqs + u64::from(index) * 8)? == vq {
            return Ok(index as u16);
        }
        index += 1;
    }
    Ok(UNKNOWN_QUEUE)
}

#[inline(always)]
fn leave(frame: u64, ret: i32) {
    let end = now();
    let Some(task) = task::current() else { return flight::no_start(probe::TRANSLATE) };
    let off_cpu = task.off_cpu;
    let Some(call) = task.translations.end(probe::TRANSLATE, frame) else { return };
    let Some(row) = Row::of(probe::TRANSLATE, call.subject) else { return };
    row.add(count::RETURN);
    row.add(count::FINISHED);
    let Some(took) = call.took(end, off_cpu) else {
        row.add(count::CLOCK_BACK);
        return;
    };
    let wanted = wanted(call);
    let event = &mut call.detail;
    event.latency = took.wall;
    event.on_cpu = if setting!(on_cpu) == 0 { u64::MAX } else { took.on_cpu };
    event.ret = ret;
    let measured = Measured {
        probe: probe::TRANSLATE,
        subject: call.subject,
        kind: outcome(event),
        visited: histogram::length(event.visited, UNKNOWN_LENGTH),
        took,
        wanted,
    };
    measured.deliver(&row, event);
}

/// Is it one that the filters ask for?
#[inline(always)]
fn wanted(call: &Call<Translation>) -> bool {
    let queue = setting!(filter_queue);
    call.wanted != 0 && (queue == ABSENT || queue == u32::from(call.detail.queue))
}

#[inline(always)]
fn outcome(event: &Translation) -> u32 {
    if event.ret < 0 {
        histogram::kind::FAILED
    } else if event.is_iotlb != 0 {
        histogram::kind::IOTLB
    } else {
        histogram::kind::MEMORY_TABLE
    }
}

#[fentry(function = "translate_desc")]
pub fn translate_entry(context: FEntryContext) -> u32 {
    let request = Request {
        addr: context.arg(1),
        len: context.arg(2),
        iov_size: context.arg(4),
        access: context.arg(5),
    };
    enter::<Typed, _>(&context, frame::of_trampoline(&context), context.arg(0), &request);
    0
}

#[fexit(function = "translate_desc")]
pub fn translate_return(context: FExitContext) -> u32 {
    // The return value stands behind the six arguments.
    leave(frame::of_trampoline(&context), context.arg(6));
    0
}

#[kprobe]
pub fn translate_kprobe(context: ProbeContext) -> u32 {
    let request = Request {
        addr: context.arg(1).unwrap_or(0),
        len: context.arg(2).unwrap_or(0),
        iov_size: context.arg(4).unwrap_or(0),
        access: context.arg(5).unwrap_or(0),
    };
    enter::<Helper, _>(&context, frame::at_entry(&context), context.arg(0).unwrap_or(0), &request);
    0
}

#[kretprobe]
pub fn translate_kretprobe(context: RetProbeContext) -> u32 {
    leave(frame::at_return(&context), context.ret());
    0
}
