//! `cargo xtask btf-extract`: what the tests keep of a kernel's BTF.
//!
//! A kernel's BTF is megabytes, and the probes need a dozen structures and functions of it. An extract is BTF of the same
//! format: an empty `vmlinux`, and on top of it one file a module with the named structures, whole, the structures that
//! lie within them, and the prototypes of the named functions. Pointers lead nowhere. Format: Documentation/bpf/btf.rst.

use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::ExitCode,
};

/// Keep of a kernel's BTF what the tests need
///
/// RAW is a folder with `vmlinux` and a file for each module, as in /sys/kernel/btf, or taken from the modules by
/// `objcopy -O binary --only-section=.BTF kvm.ko kvm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder with the kernel's BTF
    #[arg(value_name = "RAW")]
    raw: PathBuf,
    /// Folder for the extract
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Structures and functions by the module that they are wanted of.
const WANTED: &[(&str, &[&str], &[&str])] = &[
    (
        "kvm",
        &["kvm_vcpu", "kvm", "kvm_memslots", "kvm_memory_slot", "kvm_mmu", "rb_node"],
        &[
            "kvm_mmu_page_fault",
            "kvm_tdp_page_fault",
            "kvm_vcpu_on_spin",
            "kvm_vcpu_gfn_to_memslot",
            "gfn_to_memslot",
            "kvm_arch_init_vm",
            "kvm_arch_destroy_vm",
            "kvm_arch_commit_memory_region",
        ],
    ),
    ("kvm_amd", &["vcpu_svm", "vmcb"], &["pause_interception"]),
    ("kvm_intel", &["vcpu_vmx"], &["handle_pause"]),
    ("vhost", &["vhost_virtqueue", "vhost_dev", "vhost_umem", "vhost_umem_node"], &["translate_desc"]),
    (
        "vhost_iotlb",
        &["vhost_iotlb", "vhost_iotlb_map", "rb_node"],
        &[
            "vhost_iotlb_itree_first",
            "vhost_iotlb_add_range_ctx",
            "vhost_iotlb_del_range",
            "vhost_iotlb_free",
        ],
    ),
];

/// Structures within structures are kept so deep; what lies deeper keeps its size only.
const DEPTH: u32 = 3;

mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const POINTER: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNCTION: u32 = 12;
    pub(super) const PROTOTYPE: u32 = 13;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

impl Args {
    /// Writes the extract.
    ///
    /// # Errors
    /// When the BTF cannot be read, or the folder not be written.
    pub(crate) fn run(self) -> Result<ExitCode> {
        let read = |name: &str| {
            let path = self.raw.join(name);
            fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let core = read("vmlinux")?;
        fs::create_dir_all(&self.out).with_context(|| format!("cannot create {}", self.out.display()))?;
        let write = |name: &str, bytes: &[u8]| {
            let path = self.out.join(name);
            fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
        };
        write("vmlinux", &Extract::default().bytes())?;
        for (module, structures, functions) in WANTED {
            if !self.raw.join(module).exists() {
                eprintln!("xtask: {} has no BTF of {module}", self.raw.display());
                continue;
            }
            let own = read(module)?;
            let raw = Raw::new(&core, &own).with_context(|| format!("{module}: damaged BTF"))?;
            let whole = structures.iter().filter_map(|name| raw.id(kind::STRUCT, name)).collect();
            let mut extract = Extract { whole, ..Extract::default() };
            for structure in *structures {
                match raw.id(kind::STRUCT, structure) {
                    Some(id) => drop(extract.copy(&raw, id, DEPTH)),
                    None => eprintln!("xtask: {module} has no struct {structure}"),
                }
            }
            for function in *functions {
                match raw.id(kind::FUNCTION, function) {
                    Some(id) => extract.function(&raw, id),
                    None => eprintln!("xtask: {module} has no function {function}"),
                }
            }
            let bytes = extract.bytes();
            println!("{module}: {} bytes", bytes.len());
            write(module, &bytes)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// One type, as far as it is copied.
struct Type<'a> {
    name: u32,
    info: u32,
    size: u32,
    rest: &'a [u8],
}

impl Type<'_> {
    fn kind(&self) -> u32 {
        self.info >> 24 & 0x1f
    }
}

/// The BTF of a module on top of vmlinux's.
struct Raw<'a> {
    types: Vec<Type<'a>>,
    strings: Vec<u8>,
    own: usize,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn section(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let [header, offset, length] = [word(bytes, 4)?, word(bytes, at)?, word(bytes, at + 4)?];
    bytes.get((header + offset) as usize..)?.get(..length as usize)
}

impl<'a> Raw<'a> {
    fn new(core: &'a [u8], module: &'a [u8]) -> Option<Self> {
        let strings = [section(core, 16)?, section(module, 16)?].concat();
        let mut types = vec![Type { name: 0, info: 0, size: 0, rest: &[] }];
        let mut own = 0;
        for bytes in [section(core, 8)?, section(module, 8)?] {
            own = types.len();
            let mut at = 0;
            while at < bytes.len() {
                let info = word(bytes, at + 4)?;
                let length = (info & 0xffff) as usize;
                let rest = match info >> 24 & 0x1f {
                    kind::INT | 14 | 17 => 4,
                    kind::ARRAY => 12,
                    kind::STRUCT | kind::UNION | 15 | kind::ENUM64 => 12 * length,
                    kind::ENUM | kind::PROTOTYPE => 8 * length,
                    _ => 0,
                };
                let rest = bytes.get(at + 12..at + 12 + rest)?;
                types.push(Type { name: word(bytes, at)?, info, size: word(bytes, at + 8)?, rest });
                at += 12 + rest.len();
            }
        }
        Some(Self { types, strings, own })
    }

    fn name(&self, at: u32) -> &[u8] {
        let rest = self.strings.get(at as usize..).unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }

    /// The module's own type of that name, or vmlinux's.
    fn id(&self, kind: u32, name: &str) -> Option<usize> {
        let is =
            |id: &usize| self.types[*id].kind() == kind && self.name(self.types[*id].name) == name.as_bytes();
        (self.own..self.types.len()).find(is).or_else(|| (1..self.own).find(is))
    }

    /// The type behind typedefs, const, volatile, restrict and type tags.
    fn strip(&self, mut id: usize) -> usize {
        while matches!(self.types[id].kind(), kind::TYPEDEF..=kind::RESTRICT | kind::TYPE_TAG) {
            id = self.types[id].size as usize;
        }
        id
    }
}

/// The extract of one module. The empty vmlinux below it has no type and one byte of strings.
#[derive(Default)]
struct Extract {
    types: Vec<u8>,
    strings: Vec<u8>,
    names: BTreeMap<Vec<u8>, u32>,
    /// New id by old id and depth.
    ids: BTreeMap<(usize, u32), u32>,
    count: u32,
    /// The structures that were asked for.
    whole: BTreeSet<usize>,
}

impl Extract {
    fn name(&mut self, name: &[u8]) -> u32 {
        if name.is_empty() {
            return 0;
        }
        if let Some(at) = self.names.get(name) {
            return *at;
        }
        // Behind the one byte of the file below.
        let at = u32::try_from(self.strings.len()).unwrap_or(u32::MAX) + 1;
        self.strings.extend(name);
        self.strings.push(0);
        self.names.insert(name.to_owned(), at);
        at
    }

    fn push(&mut self, words: impl IntoIterator<Item = u32>) -> u32 {
        self.types.extend(words.into_iter().flat_map(u32::to_le_bytes));
        self.count += 1;
        self.count
    }

    /// Copies a type; structures within it down to `depth`. The new id.
    fn copy(&mut self, raw: &Raw<'_>, id: usize, depth: u32) -> u32 {
        let id = raw.strip(id);
        if id == 0 {
            return 0;
        }
        // A structure that was asked for is whole wherever it lies: a reader takes the first of its name.
        let depth = if self.whole.contains(&id) { DEPTH } else { depth };
        if let Some(known) = self.ids.get(&(id, depth)) {
            return *known;
        }
        let Type { name, info, size, rest } = raw.types[id];
        let words: Vec<u32> = (0..rest.len() / 4).filter_map(|index| word(rest, index * 4)).collect();
        let new = match raw.types[id].kind() {
            kind::POINTER => self.push([0, info, 0]),
            kind::ARRAY => {
                let element = self.copy(raw, words[0] as usize, depth);
                self.push([0, info, 0, element, 0, words[2]])
            }
            kind::STRUCT | kind::UNION if depth == 0 => {
                let name = self.name(raw.name(name));
                self.push([name, info & 0x1f00_0000, size])
            }
            kind::STRUCT | kind::UNION => {
                let mut copied = vec![self.name(raw.name(name)), info, size];
                for member in words.chunks_exact(3) {
                    let name = self.name(raw.name(member[0]));
                    // What is in an anonymous member belongs to the structure itself.
                    let depth = if name == 0 { depth } else { depth - 1 };
                    copied.extend([name, self.copy(raw, member[1] as usize, depth), member[2]]);
                }
                self.push(copied)
            }
            // Whatever else it is, only its size matters.
            _ => self.push([0, kind::INT << 24, size.min(16), size.min(16) * 8]),
        };
        self.ids.insert((id, depth), new);
        new
    }

    fn function(&mut self, raw: &Raw<'_>, id: usize) {
        let function = &raw.types[id];
        let prototype = &raw.types[function.size as usize];
        let parameters = prototype.info & 0xffff;
        let words = [0, prototype.info, 0].into_iter().chain((0..parameters * 2).map(|_| 0));
        let prototype = self.push(words);
        let name = self.name(raw.name(function.name));
        self.push([name, function.info, prototype]);
    }

    fn bytes(&self) -> Vec<u8> {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // The empty file below holds the empty name.
        let strings: &[u8] = if self.count == 0 { &[0] } else { &self.strings };
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let types = length(&self.types);
        bytes.extend([24, 0, types, types, length(strings)].into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(&self.types);
        bytes.extend(strings);
        bytes
    }
}
