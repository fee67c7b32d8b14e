//! Memory that is copied or cleared a word at a time.
//!
//! Of an assignment of some size the compiler makes a call of `memcpy` or `memset`, which here is a loop over
//! bytes: nine instructions for each, 800 for one record. Volatile, the words stay what is written.

use core::ptr;

/// A whole number of words.
const fn words<T>() -> usize {
    assert!(size_of::<T>() % 8 == 0 && align_of::<T>() >= 8);
    size_of::<T>() / 8
}

/// Copies a record.
#[inline(always)]
pub fn copy<T: Copy>(from: &T, to: &mut T) {
    let (from, to) = (ptr::from_ref(from).cast::<u64>(), ptr::from_mut(to).cast::<u64>());
    let mut at = 0;
    while at < const { words::<T>() } {
        // SAFETY: the words of two references to a `T`.
        unsafe { ptr::write_volatile(to.add(at), ptr::read_volatile(from.add(at))) };
        at += 1;
    }
}

/// Makes all of a record 0, which every record may be.
#[inline(always)]
pub fn clear<T: Copy>(record: &mut T) {
    let record = ptr::from_mut(record).cast::<u64>();
    let mut at = 0;
    while at < const { words::<T>() } {
        // SAFETY: the words of a reference to a `T`.
        unsafe { ptr::write_volatile(record.add(at), 0) };
        at += 1;
    }
}

/// Stores a member by itself, where with its neighbours it would become a `memset`.
#[inline(always)]
pub fn put<T: Copy>(member: &mut T, value: T) {
    // SAFETY: a reference that is ours to write through.
    unsafe { ptr::write_volatile(member, value) };
}
