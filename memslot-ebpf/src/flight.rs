//! Calls in flight: what a probe's entry leaves for its return, matched by identity.
//!
//! An entry and its return are those of one call where both saw the same frame: for fentry and fexit the
//! address of the trampoline's own frame, for a kprobe and its kretprobe the stack pointer. Frames are only
//! ever compared for equality: between two system calls the kernel moves the stack at random.

use crate::{account, kernel::Opaque, task::now};
use memslot_common::account::{OTHERS, count};

/// Calls of one function that are kept for a task at once.
pub const DEPTH: usize = 4;

/// Calls in a row that found no place, after which the ones on record are given up: none of the measured
/// functions calls itself, so those are calls whose returns were lost.
const GIVE_UP: u32 = 64;

/// One call in flight.
#[repr(C)]
pub struct Call<T: 'static> {
    /// What the probe knows of it.
    pub detail: T,
    frame: u64,
    /// Time of entry, ns.
    start: u64,
    /// Time that the task had spent off its CPU at entry, ns.
    off_cpu: u64,
    /// Number of its VM or device.
    pub subject: u32,
    /// 1 = its VM or device is one that was asked for.
    pub wanted: u32,
}

/// How long a call took, ns.
#[derive(Clone, Copy)]
pub struct Took {
    pub wall: u64,
    pub on_cpu: u64,
}

impl<T> Call<T> {
    /// Starts the clock: the last thing that an entry does.
    #[inline(always)]
    pub fn start_clock(&mut self, off_cpu: u64) -> u64 {
        self.off_cpu = off_cpu;
        self.start = now();
        self.start
    }

    /// The time since, at `end`; `None` where the clock ran backwards.
    #[inline(always)]
    pub fn took(&self, end: u64, off_cpu: u64) -> Option<Took> {
        if end < self.start {
            return None;
        }
        let wall = end - self.start;
        let away = off_cpu.wrapping_sub(self.off_cpu);
        Some(Took { wall, on_cpu: wall.saturating_sub(away) })
    }
}

/// The calls of one function that a task has in flight, the innermost last. All zero is none.
#[repr(C)]
pub struct Calls<T: 'static> {
    calls: [Call<T>; DEPTH],
    depth: Opaque<u32>,
    /// Calls within them that found no place.
    beyond: Opaque<u32>,
}

impl<T> Calls<T> {
    /// Puts a call on record; `None`, and counted, where there are too many.
    #[inline(always)]
    pub fn begin(&mut self, probe: u32, frame: u64, subject: u32) -> Option<&mut Call<T>> {
        let mut depth = self.depth.get() as usize;
        if depth != 0 {
            depth = self.make_room(probe, frame, depth);
        }
        let Some(call) = self.calls.get_mut(depth) else {
            account::add(probe, subject, count::NESTED);
            return None;
        };
        self.depth.set(depth as u32 + 1);
        call.frame = frame;
        call.subject = subject;
        Some(call)
    }

    /// Takes calls off the record that cannot be in flight any more; how many are left.
    #[inline(always)]
    fn make_room(&mut self, probe: u32, frame: u64, depth: usize) -> usize {
        // No two calls in flight have one frame: that return never came, and none of a call within.
        let mut at = 0;
        while at < DEPTH {
            if at < depth && self.calls[at].frame == frame {
                self.lose(probe, at, depth);
                self.beyond.set(0);
                return at;
            }
            at += 1;
        }
        if depth < DEPTH {
            return depth;
        }
        let beyond = self.beyond.get() + 1;
        self.beyond.set(beyond);
        if beyond < GIVE_UP {
            return depth;
        }
        self.lose(probe, 0, depth);
        self.beyond.set(0);
        0
    }

    /// Counts the calls from a place on as ones whose return was lost.
    #[inline(always)]
    fn lose(&self, probe: u32, from: usize, depth: usize) {
        let mut at = 0;
        while at < DEPTH {
            if at >= from && at < depth {
                account::add(probe, self.calls[at].subject, count::RETURN_LOST);
            }
            at += 1;
        }
    }

    /// Takes the call that returns off the record; `None`, and counted, where it is not there.
    #[inline(always)]
    pub fn end(&mut self, probe: u32, frame: u64) -> Option<&mut Call<T>> {
        let depth = self.depth.get() as usize;
        let mut at = DEPTH;
        let mut place = DEPTH;
        while place > 0 {
            place -= 1;
            if place < depth && self.calls[place].frame == frame {
                at = place;
                break;
            }
        }
        if at == DEPTH {
            let beyond = self.beyond.get();
            if beyond > 0 {
                self.beyond.set(beyond - 1);
                account::add(probe, OTHERS, count::RETURN);
            } else {
                no_start(probe);
            }
            return None;
        }
        if at + 1 < depth {
            self.lose(probe, at + 1, depth);
        }
        self.beyond.set(0);
        self.depth.set(at as u32);
        self.calls.get_mut(at)
    }

    /// The innermost call in flight.
    #[inline(always)]
    pub fn innermost(&mut self) -> Option<&mut Call<T>> {
        let depth = self.depth.get() as usize;
        // By places that the verifier knows: of a difference it would not know that it lies within.
        let mut place = 0;
        while place < DEPTH {
            if depth == place + 1 {
                return Some(&mut self.calls[place]);
            }
            place += 1;
        }
        None
    }

    /// The task ends: counts what is still on record.
    #[inline(always)]
    pub fn gone(&mut self, probe: u32) {
        let depth = self.depth.get() as usize;
        let mut at = 0;
        while at < DEPTH {
            if at < depth {
                account::add(probe, self.calls[at].subject, count::GONE);
            }
            at += 1;
        }
        self.depth.set(0);
    }
}

/// A return whose call is not on record.
#[inline(always)]
pub fn no_start(probe: u32) {
    if let Some(row) = account::Row::of(probe, OTHERS) {
        row.add(count::RETURN);
        row.add(count::NO_START);
    }
}
