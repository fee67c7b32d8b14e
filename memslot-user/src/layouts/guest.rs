//! The slots of real guests.
//!
//! `q35` is what `info mtree -f` of QEMU 7.2 (`-M q35 -m 8G`, SeaBIOS) shows as `ram` and `rom` in the
//! CPU's address space, split at 0xa0000 as KVM sees it, with the three private slots that KVM has on
//! Intel. The orders of creation and the guests of 2011 (after `pc_memory_init` of that time) are our
//! reading.

use super::{GIB, MIB, MOST_SLOTS};
use crate::model::{Gfn, Memslot, PAGE_SHIFT};

/// Slots of the q35 guest with RAM above 4 GiB, KVM's own included.
pub(super) const BASE_SLOTS: u32 = 13;

/// The first frame above 4 GiB.
const ABOVE: u64 = 4 * GIB;

/// Slots being created, with ids in that order.
#[derive(Default)]
struct Slots(Vec<Memslot>);

impl Slots {
    /// KVM's own slots, then `ram` frames of RAM, of which `low` lie below 4 GiB.
    fn with_ram(ram: u64, low: u64) -> Self {
        let mut slots = Self::default();
        slots.private();
        slots.bytes(0, 0x9_ffff);
        slots.frames(0x100, low - 1);
        if ram > low {
            slots.frames(ABOVE, ABOVE + ram - low - 1);
        }
        slots
    }

    /// Frames `first..=last`.
    fn frames(&mut self, first: u64, last: u64) {
        let id = i32::try_from(self.0.iter().filter(|slot| !is_private(slot)).count()).unwrap_or(i32::MAX);
        self.0.push(Memslot { id, base_gfn: Gfn(first), npages: last - first + 1 });
    }

    /// Bytes `first..=last` of whole pages.
    fn bytes(&mut self, first: u64, last: u64) {
        self.frames(first >> PAGE_SHIFT, last >> PAGE_SHIFT);
    }

    /// `TSS_PRIVATE_MEMSLOT`, `APIC_ACCESS_PAGE_PRIVATE_MEMSLOT` and
    /// `IDENTITY_PAGETABLE_PRIVATE_MEMSLOT`, where QEMU puts them on Intel.
    fn private(&mut self) {
        for (id, base, npages) in (MOST_SLOTS..)
            .zip([0xf_effd, 0xf_ee00, 0xf_effc])
            .zip([3, 1, 1])
            .map(|((id, base), npages)| (id, base, npages))
        {
            let id = i32::try_from(id).unwrap_or(i32::MAX);
            self.0.push(Memslot { id, base_gfn: Gfn(base), npages });
        }
    }

    /// The first frame past all slots, on a GiB.
    fn end(&self) -> u64 {
        let end = self.0.iter().map(|slot| slot.base_gfn.0 + slot.npages).max().unwrap_or(0);
        end.max(ABOVE).next_multiple_of(GIB)
    }
}

fn is_private(slot: &Memslot) -> bool {
    u32::try_from(slot.id).is_ok_and(|id| id >= MOST_SLOTS)
}

/// A q35 guest. As `pc_q35_init`: RAM from 2.75 GiB on leaves the upper half of the first 4 GiB free.
fn machine(gib: u32) -> Slots {
    let ram = u64::from(gib) * GIB;
    let low = if ram >= 0xb_0000 { 2 * GIB } else { ram };
    let mut slots = Slots::with_ram(ram, low);
    slots.bytes(0xfffc_0000, 0xffff_ffff);
    // The firmware copies itself and the option ROMs to RAM, and write-protects parts of it.
    slots.bytes(0xc_0000, 0xc_afff);
    slots.bytes(0xc_b000, 0xc_dfff);
    slots.bytes(0xc_e000, 0xe_7fff);
    slots.bytes(0xe_8000, 0xe_ffff);
    slots.bytes(0xf_0000, 0xf_ffff);
    // The display's memory, once its BAR is set.
    slots.bytes(0xfd00_0000, 0xfdff_ffff);
    slots
}

pub(super) fn q35(gib: u32) -> Vec<Memslot> {
    machine(gib).0
}

pub(super) fn dimms(count: u32, mib: u32) -> Vec<Memslot> {
    let mut slots = machine(8);
    let base = slots.end();
    let size = u64::from(mib) * MIB;
    for number in 0..u64::from(count) {
        slots.frames(base + number * size, base + (number + 1) * size - 1);
    }
    slots.0
}

/// Sizes of mapped BARs in KiB, as devices have them: a network card's virtual functions, its
/// doorbells, a GPU's registers and window, an NVMe drive.
const BARS: [u64; 8] = [16, 64, 16 << 10, 256 << 10, 32 << 10, 512, 8, 128];

fn add_bars(slots: &mut Slots, count: usize) {
    let mut next = slots.end();
    for kib in BARS.into_iter().cycle().take(count) {
        let size = kib << 10 >> PAGE_SHIFT;
        // A BAR is aligned to its size.
        let base = next.next_multiple_of(size);
        slots.frames(base, base + size - 1);
        next = base + size;
    }
}

pub(super) fn vfio(bars: u32) -> Vec<Memslot> {
    let mut slots = machine(8);
    add_bars(&mut slots, bars as usize);
    slots.0
}

/// Each vCPU's message page and event-flag page lie over RAM wherever the guest wants them: they, and
/// what they leave of the RAM, are slots of their own. Here a pair stands every 256 KiB from 16 MiB on.
pub(super) fn hyperv(vcpus: u32) -> Vec<Memslot> {
    const FIRST: u64 = 16 * MIB;
    const STRIDE: u64 = MIB / 4;
    let mut slots = machine(8);
    let Some(place) = slots.0.iter().position(|slot| slot.base_gfn.0 == 0x100) else { return slots.0 };
    let end = slots.0[place].base_gfn.0 + slots.0[place].npages;
    // The RAM shrinks in place to what lies before the first page.
    slots.0[place].npages = FIRST - 0x100;
    for vcpu in 0..u64::from(vcpus) {
        let page = FIRST + vcpu * STRIDE;
        let next = if vcpu + 1 == u64::from(vcpus) { end } else { page + STRIDE };
        slots.frames(page, page);
        slots.frames(page + 1, page + 1);
        slots.frames(page + 2, next - 1);
    }
    slots.0
}

/// As `pc_memory_init` of QEMU 0.14: up to 3.5 GiB low, one block of option ROMs, the BIOS twice.
fn machine_2011(gib: u32) -> Slots {
    let ram = u64::from(gib) * GIB;
    let low = ram.min(0xe_0000);
    let mut slots = Slots::with_ram(ram, low);
    slots.bytes(0xe_0000, 0xf_ffff);
    slots.bytes(0xc_0000, 0xd_ffff);
    slots.bytes(0xfffe_0000, 0xffff_ffff);
    // The display's memory.
    slots.bytes(0xf000_0000, 0xf07f_ffff);
    slots
}

pub(super) fn classic(gib: u32) -> Vec<Memslot> {
    machine_2011(gib).0
}

pub(super) fn full() -> Vec<Memslot> {
    /// `KVM_MEMORY_SLOTS` of 2011.
    const SLOTS: usize = 32;
    let mut slots = machine_2011(8);
    let free = SLOTS - slots.0.len();
    add_bars(&mut slots, free);
    slots.0
}
