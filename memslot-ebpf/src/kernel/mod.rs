//! The only place that reads kernel memory: members by the offsets of the running kernel's BTF, and
//! walks through live trees.

mod iotlb;
mod memslots;

pub use iotlb::{RegionNode, RegionWalk, Request, Table, search as search_regions};
pub use memslots::{SlotNode, Slots, id_of, search as search_slots};

use aya_ebpf::helpers::bpf_probe_read_kernel;
use memslot_common::settings::{Settings, kfunc};

/// Set by the user side before the object is loaded; constant from then on.
#[unsafe(no_mangle)]
pub static SETTINGS: Settings = Settings::ZERO;

/// A member of [`SETTINGS`], which the compiler must not take for the zero it was compiled with.
macro_rules! setting {
    ($member:ident) => {
        // SAFETY: the static is initialised and never written.
        unsafe { core::ptr::read_volatile(&raw const $crate::kernel::SETTINGS.$member) }
    };
}
pub(crate) use setting;

/// The kernel did not let us read the address: the object went, or an offset is wrong.
pub struct Unreadable;

/// Reads a value at a kernel address.
#[inline(always)]
pub fn read<T>(address: u64) -> Result<T, Unreadable> {
    // SAFETY: the helper checks the address and fails where it cannot be read.
    unsafe { bpf_probe_read_kernel(address as *const T) }.map_err(|_| Unreadable)
}

/// How the members of a structure are read.
pub trait Access {
    /// A read costs a load, and no call.
    const IS_CHEAP: bool;

    /// A member of a structure, a scalar or a pointer.
    fn member<T: Copy>(structure: u64, offset: u32) -> Result<T, Unreadable>;

    /// Two members of one structure.
    fn two(structure: u64, first: u32, second: u32) -> Result<(u64, u64), Unreadable>;

    /// Any address can be read by [`seen`].
    fn sees() -> bool;
}

/// By the helper, from any address.
pub struct Helper;

impl Access for Helper {
    const IS_CHEAP: bool = false;

    #[inline(always)]
    fn member<T: Copy>(structure: u64, offset: u32) -> Result<T, Unreadable> {
        read(structure + u64::from(offset))
    }

    /// In one go where they are neighbours: most of a read's cost is the call.
    #[inline(always)]
    fn two(structure: u64, first: u32, second: u32) -> Result<(u64, u64), Unreadable> {
        if second == first + 8 {
            let [first, second] = read::<[u64; 2]>(structure + u64::from(first))?;
            return Ok((first, second));
        }
        if first == second + 8 {
            let [second, first] = read::<[u64; 2]>(structure + u64::from(second))?;
            return Ok((first, second));
        }
        Ok((read(structure + u64::from(first))?, read(structure + u64::from(second))?))
    }

    #[inline(always)]
    fn sees() -> bool {
        false
    }
}

/// By a load, from a pointer whose type the verifier knows: an argument of a function that is traced by fentry, and
/// what its members point to. The kernel gives 0 where the address cannot be read. The type ends where the pointer
/// goes through a map's memory ([`Opaque`]).
pub struct Typed;

impl Access for Typed {
    const IS_CHEAP: bool = true;

    #[inline(always)]
    fn member<T: Copy>(structure: u64, offset: u32) -> Result<T, Unreadable> {
        // SAFETY: the verifier lets only members of the pointer's type be read, and the load does not fault.
        Ok(unsafe { core::ptr::read_volatile((structure + u64::from(offset)) as *const T) })
    }

    #[inline(always)]
    fn two(structure: u64, first: u32, second: u32) -> Result<(u64, u64), Unreadable> {
        Ok((Self::member(structure, first)?, Self::member(structure, second)?))
    }

    #[inline(always)]
    fn sees() -> bool {
        setting!(words_type) != 0
    }
}

/// Words in a row, by a load each; 0 where the address cannot be read. Only where [`Access::sees`].
///
/// What lies behind a tree's node has no type that the verifier knows. Since 6.2 it takes our word for one.
#[inline(always)]
pub fn seen<const COUNT: usize>(address: u64) -> [u64; COUNT] {
    // SAFETY: the user side puts the kernel's function in the place of this helper, which there is none of; the
    // function changes nothing but the type that the verifier has of the pointer.
    let cast: unsafe extern "C" fn(u64, u32) -> u64 = unsafe { core::mem::transmute(kfunc::RDONLY_CAST) };
    let words_type = setting!(words_type);
    // SAFETY: likewise.
    let view = unsafe { cast(address, words_type) } as *const u64;
    let mut words = [0; COUNT];
    let mut at = 0;
    while at < COUNT {
        // SAFETY: the verifier knows the pointer as one that is read without a fault.
        words[at] = unsafe { core::ptr::read_volatile(view.add(at)) };
        at += 1;
    }
    words
}

/// A word at a kernel address.
#[inline(always)]
pub fn word<A: Access>(address: u64) -> Result<u64, Unreadable> {
    if A::sees() {
        let [word] = seen(address);
        return Ok(word);
    }
    read(address)
}

/// `struct rb_node`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RbNode {
    /// Address of the parent, and the colour in bit 0.
    pub parent_color: u64,
    pub right: u64,
    pub left: u64,
}

impl RbNode {
    /// `RB_BLACK` is 1.
    #[inline(always)]
    pub fn is_black(&self) -> bool {
        self.parent_color & 1 == 1
    }

    /// `rb_parent`
    #[inline(always)]
    pub fn parent(&self) -> u64 {
        self.parent_color & !3
    }
}

/// What a search cost, as the kernel makes it.
#[derive(Clone, Copy)]
pub struct Length {
    pub visited: u16,
    pub touched: u16,
}

impl Length {
    /// A search that could not be followed.
    pub const UNKNOWN: Self = Self {
        visited: memslot_common::event::UNKNOWN_LENGTH,
        touched: memslot_common::event::UNKNOWN_LENGTH,
    };
}

/// A value in map memory that is read and written where it stands.
///
/// The verifier follows every value that it knows, and a counter in a register makes each turn of a loop
/// another state: a walk that keeps several is too much for it. What comes from a map is unknown to it.
#[repr(transparent)]
pub struct Opaque<T>(T);

impl<T: Copy> Opaque<T> {
    #[inline(always)]
    pub fn get(&self) -> T {
        // SAFETY: the reference is to initialised memory.
        unsafe { core::ptr::read_volatile(&raw const self.0) }
    }

    #[inline(always)]
    pub fn set(&mut self, value: T) {
        // SAFETY: the reference is to memory that is ours to write.
        unsafe { core::ptr::write_volatile(&raw mut self.0, value) }
    }

    /// The same value, of which the verifier knows no more: neither what it is nor what it points to.
    #[inline(always)]
    pub fn forget(&mut self, value: T) -> T {
        self.set(value);
        self.get()
    }
}

/// How a walk ended.
pub enum Walk {
    /// It reached the kernel's own end.
    Done,
    /// Memory could not be read.
    Failed,
    /// It was longer than our bound.
    Truncated,
}
