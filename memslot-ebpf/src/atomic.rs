//! Words in map memory that are changed in one instruction. `core` has no such operations for BPF.

use core::{arch::asm, cell::UnsafeCell};

/// A word that programs on one CPU share.
#[repr(transparent)]
pub struct Word(UnsafeCell<u64>);

// SAFETY: all that is done with the word is done in one instruction.
unsafe impl Sync for Word {}

impl Word {
    #[inline(always)]
    pub fn get(&self) -> u64 {
        // SAFETY: the reference is to initialised memory, and an aligned word is read whole.
        unsafe { self.0.get().read_volatile() }
    }

    /// Adds; what it was is not asked for, so that this takes no register.
    #[inline(always)]
    pub fn add(&self, value: u64) {
        // SAFETY: the instruction changes the word alone.
        unsafe {
            asm!("lock *(u64 *)({word} + 0) += {value}", word = in(reg) self.0.get(), value = in(reg) value);
        }
    }

    /// Puts a value where zero is; what was there.
    #[inline(always)]
    pub fn put_where_zero(&self, value: u64) -> u64 {
        let found;
        // SAFETY: the instruction changes the word alone; it compares with r0, and leaves there what it found.
        unsafe {
            asm!(
                "r0 = cmpxchg_64({word} + 0, r0, {value})",
                word = in(reg) self.0.get(),
                value = in(reg) value,
                inout("r0") 0u64 => found,
            );
        }
        found
    }
}
