//! A reader of the kernel's BTF: ids of functions, offsets of members.
//!
//! A module's BTF is "split": its type ids and string offsets count on from vmlinux's. Format:
//! Documentation/bpf/btf.rst. Input is a file of the kernel's, but read as if it were hostile: sizes
//! and ids are checked, walks are bounded.

use thiserror::Error;

/// Why BTF could not answer.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum BtfError {
    /// The bytes are no BTF, or cut off, or inconsistent.
    #[error("the BTF data is damaged at byte {0}")]
    Damaged(usize),
    /// A kind that this reader does not know.
    #[error("the BTF data holds a type of unknown kind {0}; this kernel needs a newer memslot")]
    UnknownKind(u32),
    /// No such structure.
    #[error("this kernel's BTF has no struct {0}")]
    NoStruct(String),
    /// No such member.
    #[error("this kernel's BTF has no member {0}")]
    NoMember(String),
    /// No such function.
    #[error("this kernel's BTF has no function {0}")]
    NoFunction(String),
    /// Several functions share the name, and the kernel would not say which is meant.
    #[error("this kernel's BTF has {1} functions named {0}")]
    Ambiguous(String, usize),
}

type Result<T> = std::result::Result<T, BtfError>;

const MAGIC: u16 = 0xeb9f;
const TYPE_HEADER: usize = 12;
/// Members inside members inside anonymous members: C does not nest deeper in practice.
const MAX_NESTING: usize = 32;

const KIND_ARRAY: u32 = 3;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_TYPEDEF: u32 = 8;
const KIND_RESTRICT: u32 = 11;
const KIND_FUNC: u32 = 12;
const KIND_TYPE_TAG: u32 = 18;

/// Where a member lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Bits from the start of the outermost structure.
    pub bit_offset: u32,
    /// Bits, for a bit field; 0 otherwise.
    pub bit_size: u32,
    type_id: u32,
}

impl Member {
    /// Bytes from the start of the structure.
    #[must_use]
    pub fn offset(self) -> u32 {
        self.bit_offset / 8
    }
}

/// vmlinux's BTF, with a module's on top or without.
pub struct Btf {
    types: Vec<u8>,
    strings: Vec<u8>,
    /// Start of each type in `types`; id 0 is void.
    starts: Vec<u32>,
    /// First id that belongs to the module.
    split_from: usize,
}

struct Sections<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

fn word(bytes: &[u8], at: usize) -> Result<u32> {
    let chunk = bytes.get(at..).and_then(|rest| rest.first_chunk());
    chunk.map(|chunk| u32::from_le_bytes(*chunk)).ok_or(BtfError::Damaged(at))
}

fn size(bytes: &[u8], at: usize) -> Result<usize> {
    usize::try_from(word(bytes, at)?).map_err(|_| BtfError::Damaged(at))
}

fn sections(bytes: &[u8]) -> Result<Sections<'_>> {
    let magic = bytes.first_chunk().map(|chunk| u16::from_le_bytes(*chunk));
    if magic != Some(MAGIC) {
        return Err(BtfError::Damaged(0));
    }
    let header = size(bytes, 4)?;
    let section = |at: usize| -> Result<&[u8]> {
        let start = header.checked_add(size(bytes, at)?).ok_or(BtfError::Damaged(at))?;
        let end = start.checked_add(size(bytes, at + 4)?).ok_or(BtfError::Damaged(at))?;
        bytes.get(start..end).ok_or(BtfError::Damaged(at))
    };
    Ok(Sections { types: section(8)?, strings: section(16)? })
}

/// Bytes that follow a type's header.
fn trailer(kind: u32, length: usize) -> Result<usize> {
    Ok(match kind {
        // INT, VAR, DECL_TAG
        1 | 14 | 17 => 4,
        KIND_ARRAY => 12,
        // STRUCT, UNION, DATASEC, ENUM64
        KIND_STRUCT | KIND_UNION | 15 | 19 => 12 * length,
        // ENUM, FUNC_PROTO
        6 | 13 => 8 * length,
        // PTR, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FLOAT, TYPE_TAG
        2 | 7..=KIND_FUNC | 16 | KIND_TYPE_TAG => 0,
        other => return Err(BtfError::UnknownKind(other)),
    })
}

impl Btf {
    /// Reads vmlinux's BTF (`/sys/kernel/btf/vmlinux`) and, on top of it, a module's
    /// (`/sys/kernel/btf/<module>`).
    ///
    /// # Errors
    /// When the bytes are no BTF of a known version, or inconsistent.
    pub fn parse(base: &[u8], module: Option<&[u8]>) -> Result<Self> {
        let base = sections(base)?;
        let module = module.map(sections).transpose()?.unwrap_or(Sections { types: &[], strings: &[] });
        let types = [base.types, module.types].concat();
        let strings = [base.strings, module.strings].concat();
        let mut starts = vec![0];
        let mut split_from = None;
        let mut at = 0;
        while at < types.len() {
            if at >= base.types.len() && split_from.is_none() {
                split_from = Some(starts.len());
            }
            let info = word(&types, at + 4)?;
            starts.push(u32::try_from(at).map_err(|_| BtfError::Damaged(at))?);
            at += TYPE_HEADER + trailer(info >> 24 & 0x1f, (info & 0xffff) as usize)?;
        }
        if at != types.len() {
            return Err(BtfError::Damaged(at));
        }
        let split_from = split_from.unwrap_or(starts.len());
        Ok(Self { types, strings, starts, split_from })
    }

    fn start(&self, id: u32) -> Result<usize> {
        let start = self.starts.get(id as usize).filter(|_| id != 0);
        start.map(|&start| start as usize).ok_or(BtfError::Damaged(id as usize))
    }

    fn info(&self, id: u32) -> Result<u32> {
        word(&self.types, self.start(id)? + 4)
    }

    fn kind(&self, id: u32) -> Result<u32> {
        Ok(self.info(id)? >> 24 & 0x1f)
    }

    fn has_name(&self, at: usize, name: &str) -> Result<bool> {
        let from = size(&self.types, at)?;
        let Some(rest) = self.strings.get(from..) else { return Err(BtfError::Damaged(at)) };
        Ok(rest.strip_prefix(name.as_bytes()).and_then(<[u8]>::first) == Some(&0))
    }

    /// Ids of a kind and name; the module's own where it has some, else vmlinux's.
    fn ids(&self, kind: u32, name: &str) -> Result<Vec<u32>> {
        let search = |range: std::ops::Range<usize>| -> Result<Vec<u32>> {
            let mut found = Vec::new();
            for id in range {
                let id = u32::try_from(id).map_err(|_| BtfError::Damaged(id))?;
                if self.kind(id)? == kind && self.has_name(self.start(id)?, name)? {
                    found.push(id);
                }
            }
            Ok(found)
        };
        let own = search(self.split_from..self.starts.len())?;
        if own.is_empty() { search(1..self.split_from) } else { Ok(own) }
    }

    /// The id of a function, for `attach_btf_id`.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub fn function(&self, name: &str) -> Result<u32> {
        match *self.ids(KIND_FUNC, name)? {
            [id] => Ok(id),
            [] => Err(BtfError::NoFunction(name.to_owned())),
            ref many => Err(BtfError::Ambiguous(name.to_owned(), many.len())),
        }
    }

    /// Number of parameters of a function.
    ///
    /// # Errors
    /// When there is no such function.
    pub fn parameters(&self, name: &str) -> Result<u32> {
        let prototype = self.size_or_type(self.function(name)?)?;
        Ok(self.info(prototype)? & 0xffff)
    }

    fn size_or_type(&self, id: u32) -> Result<u32> {
        word(&self.types, self.start(id)? + 8)
    }

    /// The type behind typedefs, const, volatile, restrict and type tags.
    fn strip(&self, mut id: u32) -> Result<u32> {
        for _ in 0..MAX_NESTING {
            match self.kind(id)? {
                KIND_TYPEDEF..=KIND_RESTRICT | KIND_TYPE_TAG => id = self.size_or_type(id)?,
                _ => return Ok(id),
            }
        }
        Err(BtfError::Damaged(id as usize))
    }

    /// The id of a structure.
    ///
    /// # Errors
    /// When there is none.
    pub fn structure(&self, name: &str) -> Result<u32> {
        self.ids(KIND_STRUCT, name)?.first().copied().ok_or_else(|| BtfError::NoStruct(name.to_owned()))
    }

    /// Bytes of a structure.
    ///
    /// # Errors
    /// When there is no such structure.
    pub fn size_of(&self, structure: &str) -> Result<u32> {
        self.size_or_type(self.structure(structure)?)
    }

    /// Elements of a member that is an array; 1 where it is none.
    ///
    /// # Errors
    /// As [`Btf::member`].
    pub fn elements(&self, structure: &str, path: &str) -> Result<u32> {
        let id = self.strip(self.member(structure, path)?.type_id)?;
        if self.kind(id)? != KIND_ARRAY {
            return Ok(1);
        }
        word(&self.types, self.start(id)? + TYPE_HEADER + 8)
    }

    /// Where a member lies; `path` may go through members (`arch.mmu`), and through anonymous ones
    /// without naming them.
    ///
    /// # Errors
    /// When the structure or the member does not exist.
    pub fn member(&self, structure: &str, path: &str) -> Result<Member> {
        let mut member = Member { bit_offset: 0, bit_size: 0, type_id: self.structure(structure)? };
        for name in path.split('.') {
            let inner = self
                .find(self.strip(member.type_id)?, name, 0)?
                .ok_or_else(|| BtfError::NoMember(format!("{structure}.{path}")))?;
            member = Member { bit_offset: member.bit_offset + inner.bit_offset, ..inner };
        }
        Ok(member)
    }

    fn find(&self, id: u32, name: &str, depth: usize) -> Result<Option<Member>> {
        let info = self.info(id)?;
        if !matches!(info >> 24 & 0x1f, KIND_STRUCT | KIND_UNION) || depth > MAX_NESTING {
            return Ok(None);
        }
        let has_bit_fields = info >> 31 == 1;
        for index in 0..(info & 0xffff) as usize {
            let at = self.start(id)? + TYPE_HEADER + 12 * index;
            let (type_id, place) = (word(&self.types, at + 4)?, word(&self.types, at + 8)?);
            let (bit_offset, bit_size) =
                if has_bit_fields { (place & 0xff_ffff, place >> 24) } else { (place, 0) };
            if self.has_name(at, name)? {
                return Ok(Some(Member { bit_offset, bit_size, type_id }));
            }
            if word(&self.types, at)? == 0
                && let Some(inner) = self.find(self.strip(type_id)?, name, depth + 1)?
            {
                return Ok(Some(Member { bit_offset: bit_offset + inner.bit_offset, ..inner }));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::{Btf, BtfError};

    /// Builds BTF by hand: `struct outer { int a; struct { int b; int flag:1 at bit 7; }; int c[3]; }`
    /// and a function `f(int, int)`.
    fn sample() -> Vec<u8> {
        let strings = b"\0int\0outer\0a\0b\0flag\0c\0f\0";
        let name = |wanted: &str| {
            let text = std::str::from_utf8(strings).unwrap();
            u32::try_from(text.find(&format!("\0{wanted}\0")).unwrap() + 1).unwrap()
        };
        let info = |kind: u32, length: u32, flag: u32| flag << 31 | kind << 24 | length;
        let types: Vec<u32> = [
            // 1: int
            vec![name("int"), info(1, 0, 0), 4, 32],
            // 2: anonymous struct with a bit field
            vec![0, info(4, 2, 1), 8, name("b"), 1, 0, name("flag"), 1, 1 << 24 | 39],
            // 3: int[3]
            vec![0, info(3, 0, 0), 0, 1, 1, 3],
            // 4: struct outer
            vec![name("outer"), info(4, 3, 0), 24, name("a"), 1, 0, 0, 2, 32, name("c"), 3, 96],
            // 5: int (int, int), 6: f
            vec![0, info(13, 2, 0), 1, 0, 1, 0, 1],
            vec![name("f"), info(12, 0, 0), 5],
        ]
        .concat();
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let length = u32::try_from(types.len() * 4).unwrap();
        for value in [24, 0, length, length, u32::try_from(strings.len()).unwrap()] {
            bytes.extend(value.to_le_bytes());
        }
        bytes.extend(types.iter().flat_map(|value| value.to_le_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn members_are_found_through_anonymous_structures_and_bit_fields_by_their_bits() {
        let btf = Btf::parse(&sample(), None).unwrap();
        assert_eq!(btf.member("outer", "a").unwrap().offset(), 0);
        assert_eq!(btf.member("outer", "b").unwrap().offset(), 4);
        let flag = btf.member("outer", "flag").unwrap();
        assert_eq!((flag.bit_offset, flag.bit_size), (32 + 39, 1));
        assert_eq!(btf.elements("outer", "c"), Ok(3));
        assert_eq!(btf.elements("outer", "a"), Ok(1));
        assert_eq!(btf.size_of("outer"), Ok(24));
        assert_eq!(btf.parameters("f"), Ok(2));
        assert_eq!(btf.function("f"), Ok(6));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let btf = Btf::parse(&sample(), None).unwrap();
        assert_eq!(btf.member("outer", "d"), Err(BtfError::NoMember("outer.d".into())));
        assert_eq!(btf.member("inner", "a"), Err(BtfError::NoStruct("inner".into())));
        assert_eq!(btf.function("g"), Err(BtfError::NoFunction("g".into())));
    }

    #[test]
    fn data_cut_off_or_flipped_anywhere_is_an_error_or_an_answer_but_no_panic() {
        let good = sample();
        for length in 0..good.len() {
            if let Ok(btf) = Btf::parse(&good[..length], None) {
                let _ = btf.member("outer", "flag");
            }
        }
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                if let Ok(btf) = Btf::parse(&bad, None) {
                    let _ = (btf.member("outer", "flag"), btf.function("f"), btf.parameters("f"));
                }
            }
        }
    }

    #[test]
    fn a_modules_types_count_on_from_those_of_vmlinux() {
        let base = sample();
        // A module with one function "int" (string of the base) of prototype 5 (type of the base).
        let mut module = vec![0x9f, 0xeb, 1, 0];
        for value in [24u32, 0, 12, 12, 0, 1, 12 << 24, 5] {
            module.extend(value.to_le_bytes());
        }
        let btf = Btf::parse(&base, Some(&module)).unwrap();
        assert_eq!(btf.function("int"), Ok(7));
        assert_eq!(btf.parameters("int"), Ok(2));
    }
}
