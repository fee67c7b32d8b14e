//! The guests' machine code: 64-bit, position independent, all parameters in registers.
//!
//! Each program ends in HLT, which KVM without an in-kernel interrupt controller hands to us. With
//! RCX = 0 each halts at once: that run maps the code and the page tables and nothing else.

/// Puts instructions one after the other and resolves short jumps.
#[derive(Default)]
struct Assembler(Vec<u8>);

/// A short jump whose target is not yet known.
struct Forward(usize);

impl Assembler {
    /// The bytes of an instruction; `_mnemonic` is for the reader (Intel syntax).
    fn op(&mut self, _mnemonic: &str, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn here(&self) -> usize {
        self.0.len()
    }

    /// A short jump back to `target`.
    fn back(&mut self, _mnemonic: &str, opcode: u8, target: usize) {
        let distance = self.0.len() + 2 - target;
        assert!(distance <= 128, "a short jump reaches 128 bytes back");
        self.0.extend([opcode, u8::try_from(256 - distance).unwrap_or(0)]);
    }

    /// A short jump ahead, to be landed later.
    fn ahead(&mut self, _mnemonic: &str, opcode: u8) -> Forward {
        self.0.extend([opcode, 0]);
        Forward(self.0.len())
    }

    fn land(&mut self, jump: Forward) {
        let distance = self.0.len() - jump.0;
        assert!(distance < 128, "a short jump reaches 127 bytes ahead");
        self.0[jump.0 - 1] = u8::try_from(distance).unwrap_or(0);
    }
}

const JE: u8 = 0x74;
const JNE: u8 = 0x75;
const JMP: u8 = 0xeb;

/// Reads or writes one byte at each of the RCX addresses that the list at RSI holds.
pub(crate) fn walk_list(write: bool) -> Vec<u8> {
    let mut a = Assembler::default();
    a.op("test rcx, rcx", &[0x48, 0x85, 0xc9]);
    let end = a.ahead("je end", JE);
    let next = a.here();
    a.op("lodsq", &[0x48, 0xad]);
    if write {
        a.op("mov [rax], cl", &[0x88, 0x08]);
    } else {
        a.op("mov bl, [rax]", &[0x8a, 0x18]);
    }
    a.op("dec rcx", &[0x48, 0xff, 0xc9]);
    a.back("jne next", JNE, next);
    a.land(end);
    a.op("hlt", &[0xf4]);
    a.0
}

/// Executes PAUSE RCX times.
pub(crate) fn pause() -> Vec<u8> {
    let mut a = Assembler::default();
    a.op("test rcx, rcx", &[0x48, 0x85, 0xc9]);
    let end = a.ahead("je end", JE);
    let spin = a.here();
    a.op("pause", &[0xf3, 0x90]);
    a.op("dec rcx", &[0x48, 0xff, 0xc9]);
    a.back("jne spin", JNE, spin);
    a.land(end);
    a.op("hlt", &[0xf4]);
    a.0
}

/// Offsets within the block at RBX that [`ticket_lock`] uses; a cache line each.
pub(crate) mod lock {
    /// 32 bits: the next ticket to draw.
    pub(crate) const NEXT: usize = 0;
    /// 32 bits: the ticket being served.
    pub(crate) const SERVING: usize = 64;
    /// 64 bits: acquisitions so far, counted inside the lock without an atomic: it comes out right
    /// only if the lock excludes.
    pub(crate) const ACQUIRED: usize = 128;
    /// 64 bits a vCPU, every 64 bytes: PAUSEs executed.
    pub(crate) const PAUSES: usize = 192;
}

/// Takes the ticket lock at RBX RCX times and holds it for RDX (at least 1) turns of an empty loop;
/// waits by PAUSE and counts each in the quadword at RDI.
pub(crate) fn ticket_lock() -> Vec<u8> {
    let mut a = Assembler::default();
    // Maps the block writable, even when there is nothing to acquire.
    a.op("lock add dword [rbx], 0", &[0xf0, 0x83, 0x03, 0x00]);
    a.op("test rcx, rcx", &[0x48, 0x85, 0xc9]);
    let end = a.ahead("je end", JE);
    let again = a.here();
    a.op("mov eax, 1", &[0xb8, 0x01, 0x00, 0x00, 0x00]);
    a.op("lock xadd [rbx], eax", &[0xf0, 0x0f, 0xc1, 0x03]);
    let wait = a.here();
    a.op("cmp eax, [rbx + 64]", &[0x3b, 0x43, 0x40]);
    let taken = a.ahead("je taken", JE);
    a.op("pause", &[0xf3, 0x90]);
    a.op("inc qword [rdi]", &[0x48, 0xff, 0x07]);
    a.back("jmp wait", JMP, wait);
    a.land(taken);
    a.op("mov r8, rdx", &[0x49, 0x89, 0xd0]);
    let hold = a.here();
    a.op("dec r8", &[0x49, 0xff, 0xc8]);
    a.back("jne hold", JNE, hold);
    a.op("inc qword [rbx + 128]", &[0x48, 0xff, 0x83, 0x80, 0x00, 0x00, 0x00]);
    a.op("inc dword [rbx + 64]", &[0xff, 0x43, 0x40]);
    a.op("dec rcx", &[0x48, 0xff, 0xc9]);
    a.back("jne again", JNE, again);
    a.land(end);
    a.op("hlt", &[0xf4]);
    a.0
}

#[cfg(test)]
mod tests {
    use super::{lock, pause, ticket_lock, walk_list};

    // The expected bytes come from GNU as; the listings are what objdump makes of them.
    #[test]
    fn walk_list_is_what_the_assembler_makes_of_it() {
        let read = [0x48, 0x85, 0xc9, 0x74, 0x09, 0x48, 0xad, 0x8a, 0x18, 0x48, 0xff, 0xc9, 0x75, 0xf7, 0xf4];
        assert_eq!(walk_list(false), read);
        let mut write = read;
        write[7..9].copy_from_slice(&[0x88, 0x08]);
        assert_eq!(walk_list(true), write);
    }

    #[test]
    fn pause_is_what_the_assembler_makes_of_it() {
        assert_eq!(pause(), [0x48, 0x85, 0xc9, 0x74, 0x07, 0xf3, 0x90, 0x48, 0xff, 0xc9, 0x75, 0xf9, 0xf4]);
    }

    #[test]
    fn ticket_lock_is_what_the_assembler_makes_of_it() {
        assert_eq!(
            ticket_lock(),
            [
                0xf0, 0x83, 0x03, 0x00, 0x48, 0x85, 0xc9, 0x74, 0x2c, 0xb8, 0x01, 0x00, 0x00, 0x00, 0xf0,
                0x0f, 0xc1, 0x03, 0x3b, 0x43, 0x40, 0x74, 0x07, 0xf3, 0x90, 0x48, 0xff, 0x07, 0xeb, 0xf4,
                0x49, 0x89, 0xd0, 0x49, 0xff, 0xc8, 0x75, 0xfb, 0x48, 0xff, 0x83, 0x80, 0x00, 0x00, 0x00,
                0xff, 0x43, 0x40, 0x48, 0xff, 0xc9, 0x75, 0xd4, 0xf4,
            ]
        );
    }

    #[test]
    fn the_displacements_in_the_code_are_the_named_offsets() {
        let code = ticket_lock();
        assert!(lock::NEXT == 0 && code.starts_with(&[0xf0, 0x83, 0x03, 0x00]));
        let contains = |bytes: &[u8]| code.windows(bytes.len()).any(|window| window == bytes);
        assert!(contains(&[0x3b, 0x43, u8::try_from(lock::SERVING).unwrap()]));
        assert!(contains(&[0x48, 0xff, 0x83, u8::try_from(lock::ACQUIRED).unwrap()]));
        const { assert!(lock::PAUSES >= lock::ACQUIRED + 64) };
    }
}
