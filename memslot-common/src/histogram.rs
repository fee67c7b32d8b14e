//! Latency histograms, kept per CPU in the kernel: which bucket a value falls into, and the key that a
//! bucket is kept under.
//!
//! Buckets are log-linear: values below 64 have one each, and every octave from there on has 64, so that
//! none is wider than 1/64 of its values. Each holds the exact number and sum of its values.

/// log2 of the buckets an octave has.
const SUB_BITS: u32 = 6;

/// Buckets that there are: the whole range of 64 bits.
pub const BUCKETS: u32 = (64 - SUB_BITS + 1) << SUB_BITS;

/// Search lengths from here on share one histogram.
pub const LONGEST: u32 = 510;

/// The length of a search that is not known, or was not made.
pub const NO_LENGTH: u32 = 511;

/// Entries that share one element of the map; the key picks two elements, either of which may hold it.
pub const WAYS: usize = 8;

/// Kinds of calls that are told apart, within their probe.
pub mod kind {
    /// Page fault: a slot covers the guest frame.
    pub const RAM: u32 = 0;
    /// Page fault: the kernel searches, and no slot covers the guest frame.
    pub const NO_SLOT: u32 = 1;
    /// Page fault: a cached MMIO entry, emulated without a search.
    pub const MMIO_CACHED: u32 = 2;
    /// Page fault: shadow or nested paging.
    pub const SHADOW: u32 = 3;
    /// Page fault whose search was not to be followed, so that its kind is not known.
    pub const NOT_FOLLOWED: u32 = 4;
    /// PLE exit that boosted another vCPU.
    pub const BOOSTED: u32 = 0;
    /// PLE exit whose yields the scheduler declined.
    pub const DECLINED: u32 = 1;
    /// PLE exit whose yields failed because both run queues held one task.
    pub const UNDERCOMMIT: u32 = 2;
    /// PLE exit that found no vCPU to yield to.
    pub const NO_YIELD: u32 = 3;
    /// Translation through the memory table.
    pub const MEMORY_TABLE: u32 = 0;
    /// Translation through the device IOTLB.
    pub const IOTLB: u32 = 1;
    /// Translation that ended in an error.
    pub const FAILED: u32 = 2;
}

/// Which time a bucket counts.
pub mod clock {
    /// Wall and on-CPU time alike: the task never left its CPU, or nobody looked.
    pub const BOTH: u32 = 0;
    /// Wall time of a call that left its CPU.
    pub const WALL: u32 = 1;
    /// Its time on a CPU.
    pub const ON_CPU: u32 = 2;
}

record! {
    /// A bucket that is in use.
    pub struct Entry {
        /// [`Key::pack`]; 0 = free.
        pub key: u64,
        /// Values in it.
        pub count: u64,
        /// Their sum, ns.
        pub sum: u64,
    }
}

/// What a bucket is kept under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Number of the VM or vhost device (`account::SUBJECTS`).
    pub subject: u32,
    /// One of `account::probe`.
    pub probe: u32,
    /// One of [`kind`].
    pub kind: u32,
    /// One of [`clock`].
    pub clock: u32,
    /// Nodes visited, up to [`LONGEST`], or [`NO_LENGTH`].
    pub visited: u32,
    /// [`bucket_of`] the value.
    pub bucket: u32,
}

impl Key {
    /// The key in one word, never 0.
    #[inline(always)]
    #[must_use]
    pub const fn pack(&self) -> u64 {
        1 << 63
            | (self.subject as u64) << 32
            | (self.probe as u64) << 28
            | (self.kind as u64) << 24
            | (self.clock as u64) << 21
            | (self.visited as u64) << 12
            | self.bucket as u64
    }

    /// The key that was packed.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a field is narrower than 32 bits")]
    pub fn unpack(word: u64) -> Self {
        let field = |shift: u32, bits: u32| (word >> shift & ((1 << bits) - 1)) as u32;
        Self {
            subject: field(32, 16),
            probe: field(28, 4),
            kind: field(24, 4),
            clock: field(21, 3),
            visited: field(12, 9),
            bucket: field(0, 12),
        }
    }
}

/// The search length as a [`Key`] has it.
#[inline(always)]
#[must_use]
pub const fn length(visited: u16, unknown: u16) -> u32 {
    if visited == unknown {
        NO_LENGTH
    } else if visited as u32 > LONGEST {
        LONGEST
    } else {
        visited as u32
    }
}

/// Floor of log2 of a value that is not 0. The kernel's machine has no instruction for it, and what the
/// compiler makes of `leading_zeros` is twice as long.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "what is left is 0 or 1")]
const fn log2(value: u64) -> u32 {
    let mut rest = value;
    let mut log = 0;
    if rest >> 32 != 0 {
        rest >>= 32;
        log += 32;
    }
    if rest >> 16 != 0 {
        rest >>= 16;
        log += 16;
    }
    if rest >> 8 != 0 {
        rest >>= 8;
        log += 8;
    }
    if rest >> 4 != 0 {
        rest >>= 4;
        log += 4;
    }
    if rest >> 2 != 0 {
        rest >>= 2;
        log += 2;
    }
    log + (rest >> 1) as u32
}

/// The bucket that a value falls into.
#[inline(always)]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "only the low bits are asked for")]
pub const fn bucket_of(value: u64) -> u32 {
    if value < 1 << SUB_BITS {
        return value as u32;
    }
    let shift = log2(value) - SUB_BITS;
    ((shift + 1) << SUB_BITS) + ((value >> shift) as u32 & ((1 << SUB_BITS) - 1))
}

/// The smallest and the largest value of a bucket.
#[must_use]
pub const fn bounds(bucket: u32) -> (u64, u64) {
    let (octave, place) = (bucket >> SUB_BITS, (bucket & ((1 << SUB_BITS) - 1)) as u64);
    if octave == 0 {
        return (place, place);
    }
    let shift = octave - 1;
    let low = ((1 << SUB_BITS) + place) << shift;
    (low, low + ((1 << shift) - 1))
}

/// The two elements of a map of `mask` + 1 that may hold a key.
#[inline(always)]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "only the low bits are asked for")]
pub const fn places(key: u64, mask: u32) -> [u32; 2] {
    // Fibonacci hashing: the high bits of the product depend on every bit of the key.
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [(hash >> 40) as u32 & mask, (hash >> 16) as u32 & mask]
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS, Key, bounds, bucket_of};

    #[test]
    fn buckets_adjoin_and_their_bounds_fall_into_them() {
        let mut next = 0u64;
        for bucket in 0..BUCKETS {
            let (low, high) = bounds(bucket);
            assert_eq!(low, next, "{bucket}");
            assert_eq!((bucket_of(low), bucket_of(high)), (bucket, bucket));
            assert!((high - low) <= low / 64, "{bucket} is wider than a 64th of its values");
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends with the last value");
    }

    #[test]
    fn a_key_survives_being_packed() {
        let key = Key { subject: 511, probe: 2, kind: 4, clock: 2, visited: 511, bucket: BUCKETS - 1 };
        assert_eq!(Key::unpack(key.pack()), key);
        let zero = Key { subject: 0, probe: 0, kind: 0, clock: 0, visited: 0, bucket: 0 };
        assert_ne!(zero.pack(), 0);
        assert_eq!(Key::unpack(zero.pack()), zero);
    }
}
