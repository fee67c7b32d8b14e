//! The driver's side of a split virtqueue (virtio 1.1, section 2.6).

use super::super::WorkloadError;
use super::super::memory::Mapping;
use super::device::RingPlace;
use super::table::Descriptor;
use std::sync::atomic::{Ordering, fence};

const DESCRIPTOR_NEXT: u64 = 1;

/// The queue and its memory.
pub(crate) struct Queue {
    memory: Mapping,
    size: u16,
    /// Byte offsets of the rings; the descriptors lie at 0.
    available: usize,
    used: usize,
    /// Packets announced so far, modulo 2^16 as the ring counts them.
    announced: u16,
}

impl Queue {
    /// An empty queue of `size` descriptors, a power of two up to 32768.
    pub(crate) fn new(size: u16) -> Result<Self, WorkloadError> {
        let entries = usize::from(size);
        let available = entries * 16;
        let used = (available + 6 + entries * 2).next_multiple_of(4096);
        let length = (used + 6 + entries * 8).next_multiple_of(4096);
        let memory = Mapping::new(length)?;
        // vhost reads the rings on its own time: let no page come in by a fault there.
        memory.populate(0..length);
        Ok(Self { memory, size, available, used, announced: 0 })
    }

    /// Where the parts lie.
    pub(crate) fn place(&self) -> RingPlace {
        RingPlace {
            size: u32::from(self.size),
            descriptors: self.memory.address(0),
            available: self.memory.address(self.available),
            used: self.memory.address(self.used),
        }
    }

    /// Writes `packets` packets from the start of the descriptor table on and makes them available.
    /// All earlier packets have been used.
    pub(crate) fn offer(&mut self, packets: u64, descriptors: &mut impl Iterator<Item = Descriptor>) {
        let mut index: u16 = 0;
        for _ in 0..packets {
            let head = index;
            for descriptor in descriptors.by_ref() {
                // struct vring_desc: u64 addr, u32 len, u16 flags, u16 next.
                let next = u64::from(index + 1);
                let link = if descriptor.next { DESCRIPTOR_NEXT << 32 | next << 48 } else { 0 };
                let at = usize::from(index) * 16;
                self.memory.u64(at).store(descriptor.addr, Ordering::Relaxed);
                self.memory.u64(at + 8).store(u64::from(descriptor.len) | link, Ordering::Relaxed);
                index += 1;
                if !descriptor.next {
                    break;
                }
            }
            let slot = usize::from(self.announced & (self.size - 1));
            self.memory.u16(self.available + 4 + slot * 2).store(head, Ordering::Relaxed);
            self.announced = self.announced.wrapping_add(1);
        }
        self.memory.u16(self.available + 2).store(self.announced, Ordering::Release);
        // vhost checks the index again after it has asked for kicks; ours must be visible before.
        fence(Ordering::SeqCst);
    }

    /// vhost has used every packet.
    pub(crate) fn is_drained(&self) -> bool {
        self.memory.u16(self.used + 2).load(Ordering::Acquire) == self.announced
    }
}

#[cfg(test)]
mod tests {
    use super::{Descriptor, Queue};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn packets_are_chained_and_announced_as_virtio_lays_them_out() {
        let mut queue = Queue::new(4).unwrap();
        let descriptor = |addr, len, next| Descriptor { addr, len, crossing: false, next };
        let list =
            [descriptor(0x1000, 12, true), descriptor(0x2000, 64, false), descriptor(0x3000, 76, false)];
        queue.offer(2, &mut list.into_iter());
        let word = |offset| queue.memory.u64(offset).load(Relaxed);
        assert_eq!((word(0), word(8)), (0x1000, 0x0001_0001_0000_000c));
        assert_eq!((word(16), word(24)), (0x2000, 64));
        assert_eq!((word(32), word(40)), (0x3000, 76));
        // flags 0, index 2, heads 0 and 2
        assert_eq!(word(64), 0x0002_0000_0002_0000);
        assert!(!queue.is_drained());
        queue.memory.u16(queue.used + 2).store(2, Relaxed);
        assert!(queue.is_drained());
    }
}
