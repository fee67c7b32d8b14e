//! Names, CPUs and memory policy of our threads.

use super::WorkloadError;
use std::io;

/// Names the process `memslot-<workload>`, so that tools and `ps` can tell what it is.
pub fn name_process(workload: &str) {
    let mut name = [0_u8; 16];
    let text = format!("memslot-{workload}");
    let length = text.len().min(15);
    name[..length].copy_from_slice(&text.as_bytes()[..length]);
    // SAFETY: PR_SET_NAME reads up to 16 bytes, and `name` ends in a zero within them.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// The CPUs that this process may use, in rising order.
pub(crate) fn allowed_cpus() -> Result<Vec<usize>, WorkloadError> {
    let mut set = empty_set();
    // SAFETY: the kernel writes at most the size given to a set that is ours.
    let answer = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if answer != 0 {
        return Err(WorkloadError::system(
            "ask which CPUs this process may use",
            "name them with --cpus",
            io::Error::last_os_error(),
        ));
    }
    let bits = usize::try_from(libc::CPU_SETSIZE).unwrap_or(0);
    // SAFETY: every index is below CPU_SETSIZE, so inside the set.
    Ok((0..bits).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Binds the calling thread to one CPU.
pub(crate) fn pin(cpu: usize) -> Result<(), WorkloadError> {
    let refused = |answer| {
        let remedy = "choose --cpus among those online and allowed (taskset -cp $$ shows them)";
        WorkloadError::system(format!("run a vCPU on CPU {cpu}"), remedy, answer)
    };
    if cpu >= usize::try_from(libc::CPU_SETSIZE).unwrap_or(0) {
        return Err(refused(io::Error::from_raw_os_error(libc::EINVAL)));
    }
    let mut set = empty_set();
    // SAFETY: the index was checked against the size of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the kernel reads the size given from a set that is ours.
    match unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) } {
        0 => Ok(()),
        _ => Err(refused(io::Error::last_os_error())),
    }
}

/// Takes this process out of automatic NUMA balancing, whose hinting faults unmap guest pages behind
/// our back and so would add page faults. A kernel without NUMA refuses, and has no balancing.
pub(crate) fn opt_out_of_numa_balancing() {
    const MPOL_LOCAL: libc::c_long = 4;
    let no_nodes: libc::c_long = 0;
    // SAFETY: MPOL_LOCAL takes an empty set of nodes, given as a null pointer and length 0.
    unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_LOCAL, no_nodes, no_nodes) };
}

fn empty_set() -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is a plain array of integers, for which all zeros is the empty set.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use super::{allowed_cpus, pin};

    #[test]
    fn a_thread_can_be_bound_to_any_allowed_cpu_and_to_no_other() {
        let allowed = allowed_cpus().unwrap();
        let last = *allowed.last().unwrap();
        std::thread::spawn(move || {
            pin(last).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [last]);
        })
        .join()
        .unwrap();
        assert!(pin(1_000_000).unwrap_err().to_string().contains("choose --cpus"));
        assert!(pin(1023).is_err());
    }
}
