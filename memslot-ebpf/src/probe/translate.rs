//! vhost's `translate_desc(vq, addr, len, iov, iov_size, access)`.

use crate::{
    account,
    emit::emit,
    kernel::{RegionWalk, Request, Unreadable, Walk, read, search_regions, setting},
    task::{self, now},
};
use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_current_pid_tgid, bpf_get_smp_processor_id},
    macros::{fentry, fexit, kprobe, kretprobe},
    programs::{FEntryContext, FExitContext, ProbeContext, RetProbeContext},
};
use aya_log_ebpf::warn;
use memslot_common::{
    account::{count, probe},
    event::{Translation, UNKNOWN_LENGTH, kind},
};

/// Queues of a device that are looked through; vhost-net has 2, vhost-scsi up to 128.
const MAX_QUEUES: u32 = 128;
const UNKNOWN_QUEUE: u16 = u16::MAX;

#[inline(always)]
fn enter<C: EbpfContext>(context: &C, vq: u64, request: &Request) {
    account::add(probe::TRANSLATE, count::ENTRY);
    let Some(task) = task::current_or_new() else {
        account::add(probe::TRANSLATE, count::START_FULL);
        return;
    };
    task.translate.begin(probe::TRANSLATE);
    let event = &mut task.translate.event;
    event.kind = kind::TRANSLATION;
    // SAFETY: the helper has no arguments and no effect.
    event.cpu = unsafe { bpf_get_smp_processor_id() };
    event.worker = bpf_get_current_pid_tgid() as u32;
    match describe(vq, request, event, &mut task.region_walk) {
        Ok(Walk::Done) => {}
        Ok(Walk::Truncated) => {
            if account::add(probe::TRANSLATE, count::WALK_TRUNCATED) == 0 {
                warn!(context, "a region search was longer than the probe follows; its length is left out");
            }
        }
        Ok(Walk::Failed) | Err(Unreadable) => {
            if account::add(probe::TRANSLATE, count::WALK_FAILED) == 0 {
                warn!(context, "a vhost table could not be read; search lengths are left out");
            }
        }
    }
    super::regions::meet(task);
    let start = task.translate.start_clock();
    task.translate.event.time = start;
}

/// Fills in what the kernel's structures say at entry.
#[inline(always)]
fn describe(
    vq: u64,
    request: &Request,
    event: &mut Translation,
    region_walk: &mut RegionWalk,
) -> Result<Walk, Unreadable> {
    event.visited = UNKNOWN_LENGTH;
    event.touched = UNKNOWN_LENGTH;
    event.queue = UNKNOWN_QUEUE;
    event.is_iotlb = 0;
    event.regions = 0;
    event.device = 0;
    event.iotlb = 0;
    event.addr = 0;
    event.len = 0;
    event.access = 0;
    // 0 also where the compiler has changed the parameters.
    if setting!(walk_regions) == 0 {
        return Ok(Walk::Done);
    }
    event.addr = request.addr;
    event.len = request.len;
    event.access = request.access as u8;
    let device: u64 = read(vq + u64::from(setting!(vq_dev)))?;
    event.device = device;
    let mut iotlb: u64 = read(device + u64::from(setting!(dev_iotlb)))?;
    if iotlb == 0 {
        iotlb = read(device + u64::from(setting!(dev_umem)))?;
    } else {
        event.is_iotlb = 1;
    }
    event.iotlb = iotlb;
    event.regions = read(iotlb + u64::from(setting!(iotlb_nmaps)))?;
    let (length, walk) = search_regions(iotlb, request, region_walk)?;
    event.visited = length.visited;
    event.touched = length.touched;
    // Last: the verifier would follow the search anew for each index that this loop may end with.
    event.queue = queue(device, vq).unwrap_or(UNKNOWN_QUEUE);
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
fn leave(ret: i32) {
    let end = now();
    account::add(probe::TRANSLATE, count::RETURN);
    let Some(task) = task::current() else {
        account::add(probe::TRANSLATE, count::NO_START);
        return;
    };
    let Some(latency) = task.translate.finish(probe::TRANSLATE, end) else { return };
    task.translate.event.latency = latency;
    task.translate.event.ret = ret;
    emit(probe::TRANSLATE, &task.translate.event);
}

#[fentry(function = "translate_desc")]
pub fn translate_entry(context: FEntryContext) -> u32 {
    let request = Request {
        addr: context.arg(1),
        len: context.arg(2),
        iov_size: context.arg(4),
        access: context.arg(5),
    };
    enter(&context, context.arg(0), &request);
    0
}

#[fexit(function = "translate_desc")]
pub fn translate_return(context: FExitContext) -> u32 {
    // The return value stands behind the six arguments.
    leave(context.arg(6));
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
    enter(&context, context.arg(0).unwrap_or(0), &request);
    0
}

#[kretprobe]
pub fn translate_kretprobe(context: RetProbeContext) -> u32 {
    leave(context.ret());
    0
}
