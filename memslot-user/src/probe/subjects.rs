//! Numbers that the probes give to VMs and vhost devices.

use super::filter::Filter;
use aya::{
    Ebpf,
    maps::{HashMap, MapError, Queue},
};
use memslot_common::account::{OTHERS, SUBJECTS};

/// Hands the probes the numbers that they may give, and the threads whose devices are wanted.
pub(super) fn fill(ebpf: &mut Ebpf, filter: &Filter) -> Result<(), MapError> {
    if let Some(map) = ebpf.map_mut("FREE_SUBJECTS") {
        let mut free: Queue<_, u32> = Queue::try_from(map)?;
        for subject in OTHERS + 1..SUBJECTS {
            free.push(subject, 0)?;
        }
    }
    if let Some(map) = ebpf.map_mut("FILTER_THREADS") {
        let mut threads: HashMap<_, u32, u8> = HashMap::try_from(map)?;
        for thread in filter.threads() {
            threads.insert(thread, 1, 0)?;
        }
    }
    Ok(())
}
