//! The bpf(2) calls that aya does not make: fentry in modules, running a program, its missed count.

use aya_obj::generated::{
    bpf_attach_type, bpf_attr, bpf_btf_info, bpf_cmd, bpf_prog_info, bpf_prog_type::BPF_PROG_TYPE_TRACING,
};
use std::{
    ffi::CStr,
    io, mem,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

/// Bytes of the verifier's log that are asked for when a program is refused.
const LOG_BYTES: u32 = 1 << 20;

fn attributes() -> bpf_attr {
    // SAFETY: a union of integers and arrays of them; all zero is the documented "not set".
    unsafe { mem::zeroed() }
}

fn bpf(command: bpf_cmd, attributes: &mut bpf_attr) -> io::Result<i64> {
    let size = size_of::<bpf_attr>();
    // SAFETY: the kernel reads and writes at most `size` bytes at the pointer, which is valid for them;
    // pointers inside the attributes are to buffers that the callers keep alive over the call.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, &raw mut *attributes, size) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn new_fd(result: i64) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(result).map_err(io::Error::other)?;
    // SAFETY: bpf(2) has just returned it as a descriptor of ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[expect(clippy::cast_sign_loss, reason = "descriptors are never negative")]
fn raw(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd() as u32
}

/// The kernel's BTF object of a module (`-` written as `_`); `None` when it has none.
///
/// # Errors
/// When the kernel refuses to list its BTF objects.
pub(super) fn module_btf(module: &str) -> io::Result<Option<OwnedFd>> {
    let mut id = 0;
    loop {
        let mut attr = attributes();
        attr.__bindgen_anon_6.__bindgen_anon_1.start_id = id;
        match bpf(bpf_cmd::BPF_BTF_GET_NEXT_ID, &mut attr) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            Err(error) => return Err(error),
        }
        // SAFETY: the command wrote this member.
        id = unsafe { attr.__bindgen_anon_6.next_id };
        let mut attr = attributes();
        attr.__bindgen_anon_6.__bindgen_anon_1.btf_id = id;
        // It may have gone with its module since it was listed.
        let Ok(fd) = bpf(bpf_cmd::BPF_BTF_GET_FD_BY_ID, &mut attr) else { continue };
        let fd = new_fd(fd)?;
        let mut name = [0u8; 64];
        // SAFETY: a structure of integers.
        let mut info: bpf_btf_info = unsafe { mem::zeroed() };
        info.name = name.as_mut_ptr() as u64;
        info.name_len = 64;
        object_info(&fd, &mut info)?;
        let name = CStr::from_bytes_until_nul(&name).map(CStr::to_bytes).unwrap_or_default();
        if info.kernel_btf != 0 && name == module.as_bytes() {
            return Ok(Some(fd));
        }
    }
}

fn object_info<T>(fd: &OwnedFd, info: &mut T) -> io::Result<()> {
    let mut attr = attributes();
    attr.info.bpf_fd = raw(std::os::fd::AsFd::as_fd(fd));
    attr.info.info = &raw mut *info as u64;
    attr.info.info_len = u32::try_from(size_of::<T>()).map_err(io::Error::other)?;
    bpf(bpf_cmd::BPF_OBJ_GET_INFO_BY_FD, &mut attr).map(drop)
}

/// Runs of a program that the kernel skipped because it was running on that CPU already; `None` where
/// the kernel does not count them (before 5.12).
pub(super) fn recursion_misses(program: BorrowedFd<'_>) -> Option<u64> {
    // SAFETY: a structure of integers.
    let mut info: bpf_prog_info = unsafe { mem::zeroed() };
    object_info(&program.try_clone_to_owned().ok()?, &mut info).ok()?;
    Some(info.recursion_misses)
}

/// A tracing program to load.
pub(super) struct Tracing<'a> {
    /// Name that `bpftool prog` shows.
    pub(super) name: &'a str,
    /// fexit rather than fentry.
    pub(super) at_return: bool,
    /// Instructions, relocated, 8 bytes each.
    pub(super) instructions: &'a [u8],
    /// Licence.
    pub(super) license: &'a CStr,
    /// Id of the function in its BTF.
    pub(super) function: u32,
    /// BTF object of the function's module; `None` is vmlinux.
    pub(super) module: Option<&'a OwnedFd>,
}

/// Why the kernel refused a program, with the end of the verifier's log.
pub(super) struct Refused {
    pub(super) error: io::Error,
    pub(super) log: String,
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self { error, log: String::new() }
    }
}

/// Loads an fentry or fexit program.
pub(super) fn load_tracing(program: &Tracing<'_>) -> Result<OwnedFd, Refused> {
    match try_load(program, &mut []) {
        Ok(fd) => Ok(fd),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Err(error.into()),
        Err(error) => {
            // The second error may only say that the log was longer than our buffer.
            let mut log = vec![0; LOG_BYTES as usize];
            try_load(program, &mut log).map_err(|_| Refused { error, log: tail(&log) })
        }
    }
}

fn tail(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

fn try_load(program: &Tracing<'_>, log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut attr = attributes();
    // SAFETY: the union's member for BPF_PROG_LOAD; all of it is integers.
    let load = unsafe { &mut attr.__bindgen_anon_3 };
    load.prog_type = BPF_PROG_TYPE_TRACING as u32;
    load.expected_attach_type = if program.at_return {
        bpf_attach_type::BPF_TRACE_FEXIT as u32
    } else {
        bpf_attach_type::BPF_TRACE_FENTRY as u32
    };
    load.insns = program.instructions.as_ptr() as u64;
    load.insn_cnt = u32::try_from(program.instructions.len() / 8).map_err(io::Error::other)?;
    load.license = program.license.as_ptr() as u64;
    // 16 bytes, the last of them NUL.
    for (place, byte) in load.prog_name.iter_mut().take(15).zip(program.name.bytes()) {
        *place = byte.cast_signed();
    }
    load.attach_btf_id = program.function;
    load.__bindgen_anon_1.attach_btf_obj_fd =
        program.module.map_or(0, |fd| raw(std::os::fd::AsFd::as_fd(fd)));
    if !log.is_empty() {
        load.log_level = 1;
        load.log_buf = log.as_mut_ptr() as u64;
        load.log_size = u32::try_from(log.len()).map_err(io::Error::other)?;
    }
    new_fd(bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr)?)
}

/// Attaches an fentry or fexit program to the function that it was loaded for; dropping the result
/// detaches it.
pub(super) fn attach_tracing(program: &OwnedFd) -> io::Result<OwnedFd> {
    let mut attr = attributes();
    attr.raw_tracepoint.prog_fd = raw(std::os::fd::AsFd::as_fd(program));
    new_fd(bpf(bpf_cmd::BPF_RAW_TRACEPOINT_OPEN, &mut attr)?)
}

/// Runs a raw-tracepoint program once, here and now, with these arguments.
pub(super) fn run_program(program: BorrowedFd<'_>, arguments: &[u64]) -> io::Result<()> {
    let mut attr = attributes();
    attr.test.prog_fd = raw(program);
    attr.test.ctx_in = arguments.as_ptr() as u64;
    attr.test.ctx_size_in = u32::try_from(size_of_val(arguments)).map_err(io::Error::other)?;
    bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attr).map(drop)
}
