//! Memory that guests, vhost and this process share.
//!
//! The only place that turns offsets into pointers. Everything shared is reached through atomics, so
//! that the other side may read and write at the same time.

use super::WorkloadError;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

/// Anonymous zeroed memory, reserved but not committed, in pages of 4 KiB only.
///
/// Huge pages are forbidden (`MADV_NOHUGEPAGE`): with them one fault would map 512 pages, and the
/// number of faults would depend on the state of the host's memory.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory belongs to the mapping until it is dropped, and is only reached through atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method hands out a plain reference into the memory.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `length` bytes, a multiple of the page size.
    pub(crate) fn new(length: usize) -> Result<Self, WorkloadError> {
        let failed =
            |source| WorkloadError::system(format!("reserve {length} bytes"), "ask for less memory", source);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice disturbs nothing.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_ANONYMOUS | libc::MAP_PRIVATE | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(failed(io::Error::last_os_error()));
        }
        let Some(base) = NonNull::new(address.cast::<u8>()) else {
            return Err(failed(io::Error::from_raw_os_error(libc::EINVAL)));
        };
        let mapping = Self { base, length };
        match mapping.advise(0..length, libc::MADV_NOHUGEPAGE) {
            // A kernel without huge pages knows no such advice, and needs none.
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => Err(WorkloadError::system(
                "forbid huge pages for the guest's memory",
                "the kernel log (dmesg) may say why",
                error,
            )),
            _ => Ok(mapping),
        }
    }

    /// Where byte `offset` lies in this process.
    pub(crate) fn address(&self, offset: usize) -> u64 {
        self.base.as_ptr().addr() as u64 + offset as u64
    }

    /// Gives the pages of `range` back, so that each faults again and reads as zero.
    pub(crate) fn discard(&self, range: Range<usize>) -> Result<(), WorkloadError> {
        self.advise(range, libc::MADV_DONTNEED).map_err(|source| {
            WorkloadError::system(
                "give guest memory back (MADV_DONTNEED)",
                "memory locked by a limit or policy cannot be refaulted so; use --refault mprotect",
                source,
            )
        })
    }

    /// Takes write permission away and gives it back: KVM unmaps the pages, the contents stay.
    pub(crate) fn reprotect(&self, range: Range<usize>) -> Result<(), WorkloadError> {
        let (start, length) = self.part(range);
        for protection in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
            // SAFETY: `part` keeps to this mapping, and no plain reference into it exists.
            let answer = unsafe { libc::mprotect(start.cast(), length, protection) };
            if answer != 0 {
                return Err(WorkloadError::system(
                    "change the protection of guest memory (mprotect)",
                    "raise vm.max_map_count, or use --refault dontneed",
                    io::Error::last_os_error(),
                ));
            }
        }
        Ok(())
    }

    /// Brings the pages of `range` in, writable, and asks the kernel to keep them in: the guest then
    /// maps each by exactly one fault.
    pub(crate) fn populate(&self, range: Range<usize>) {
        for offset in range.clone().step_by(4096) {
            self.u64(offset).fetch_or(0, Ordering::Relaxed);
        }
        let (start, length) = self.part(range);
        // SAFETY: locking pages of our own changes nothing but their residency. A refusal
        // (RLIMIT_MEMLOCK) only leaves a swapping host free to swap these few pages.
        let _ = unsafe { libc::mlock(start.cast(), length) };
    }

    /// The 16-bit word at byte `offset`.
    pub(crate) fn u16(&self, offset: usize) -> &AtomicU16 {
        // SAFETY: `word` has checked bounds and alignment, and the memory lives as long as `self`.
        unsafe { AtomicU16::from_ptr(self.word(offset)) }
    }

    /// The 32-bit word at byte `offset`.
    pub(crate) fn u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as in `u16`.
        unsafe { AtomicU32::from_ptr(self.word(offset)) }
    }

    /// The 64-bit word at byte `offset`.
    pub(crate) fn u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as in `u16`.
        unsafe { AtomicU64::from_ptr(self.word(offset)) }
    }

    /// Copies `bytes` to byte `offset`, which is a multiple of 8.
    pub(crate) fn copy(&self, offset: usize, bytes: &[u8]) {
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.u64(offset + index * 8).store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }

    /// A pointer to an aligned `T` wholly inside; outside is a fault of the program.
    fn word<T>(&self, offset: usize) -> *mut T {
        assert!(
            offset.is_multiple_of(align_of::<T>()) && offset + size_of::<T>() <= self.length,
            "offset {offset:#x} of a mapping of {:#x} bytes",
            self.length
        );
        // SAFETY: the sum was checked to stay inside the mapping.
        unsafe { self.base.as_ptr().add(offset) }.cast()
    }

    fn part(&self, range: Range<usize>) -> (*mut u8, usize) {
        assert!(range.start <= range.end && range.end <= self.length, "a range outside the mapping");
        // SAFETY: the sum was checked to stay inside the mapping.
        (unsafe { self.base.as_ptr().add(range.start) }, range.len())
    }

    fn advise(&self, range: Range<usize>, advice: libc::c_int) -> io::Result<()> {
        let (start, length) = self.part(range);
        // SAFETY: `part` keeps to this mapping; all advice given here is defined for anonymous memory,
        // which nobody holds a plain reference into.
        match unsafe { libc::madvise(start.cast(), length, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and length are those of the mapping, which nothing uses any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::Mapping;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn discarded_memory_reads_as_zero_and_reprotected_memory_keeps_its_contents() {
        let mapping = Mapping::new(3 << 12).unwrap();
        mapping.copy(4096, b"memory slots");
        mapping.reprotect(0..3 << 12).unwrap();
        assert_eq!(mapping.u64(4096).load(Relaxed).to_le_bytes(), *b"memory s");
        assert_eq!(mapping.u32(4104).load(Relaxed).to_le_bytes(), *b"lots");
        mapping.discard(4096..8192).unwrap();
        assert_eq!(mapping.u64(4096).load(Relaxed), 0);
        mapping.populate(0..4096);
    }

    #[test]
    #[should_panic(expected = "of a mapping of 0x1000 bytes")]
    fn a_word_across_the_end_is_refused() {
        let mapping = Mapping::new(4096).unwrap();
        mapping.u64(4096).load(Relaxed);
    }
}
