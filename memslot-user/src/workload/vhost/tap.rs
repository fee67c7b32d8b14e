//! A tap of our own, which goes when its file is closed, however the process ends.

use super::super::WorkloadError;
use super::super::error::device;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const TUNSETVNETHDRSZ: libc::Ioctl = 0x4004_54d8;
/// `sizeof(struct virtio_net_hdr_v1)`
static HEADER_SIZE: libc::c_int = 12;

/// The tap.
pub(crate) struct Tap {
    file: File,
    name: String,
}

impl Tap {
    /// Creates the tap `memslot<N>`, without IPv6 traffic of its own, and brings it up.
    pub(crate) fn new() -> Result<Self, WorkloadError> {
        let path = "/dev/net/tun";
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| device(path, "tun", error))?;
        let mut request = request("memslot%d");
        request.ifr_ifru.ifru_flags = flags(libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR);
        // SAFETY: the request reads and writes one ifreq, which is ours.
        check("create a tap", unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) })?;
        // SAFETY: the request reads one int.
        let answer = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETVNETHDRSZ, &raw const HEADER_SIZE) };
        check("set the tap's header size", answer)?;
        let bytes = request.ifr_name.iter().take_while(|&&byte| byte != 0);
        let name: String = bytes.map(|byte| char::from(byte.cast_unsigned())).collect();
        // Best effort: without IPv6 there is nothing to switch off, and its packets would only be noise.
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        up(&mut request)?;
        Ok(Self { file, name })
    }

    /// The interface's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The file to hand to vhost.
    pub(crate) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Packets that the host's stack got from the tap, dropped ones included; `None` if sysfs is not there.
    pub(crate) fn received(&self) -> Option<u64> {
        ["rx_packets", "rx_dropped", "rx_errors"]
            .iter()
            .map(|counter| {
                let path = format!("/sys/class/net/{}/statistics/{counter}", self.name);
                std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
            })
            .sum()
    }
}

fn request(name: &str) -> libc::ifreq {
    // SAFETY: an ifreq is plain data, for which all zeros is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte.cast_signed();
    }
    request
}

#[expect(clippy::cast_possible_truncation, reason = "interface flags are 16 bits wide in an ifreq")]
fn flags(flags: libc::c_int) -> libc::c_short {
    flags as libc::c_short
}

fn up(request: &mut libc::ifreq) -> Result<(), WorkloadError> {
    // SAFETY: makes a new file, touches no memory.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    check("make a socket", fd)?;
    // SAFETY: the socket was just made and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the request writes the flags of one ifreq, which is ours.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut *request) };
    check("read the tap's flags", answer)?;
    // SAFETY: SIOCGIFFLAGS has just filled the flags of the union.
    let now = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = now | flags(libc::IFF_UP);
    // SAFETY: the request reads one ifreq, which is ours.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut *request) };
    check("bring the tap up", answer)
}

fn check(action: &str, answer: libc::c_int) -> Result<(), WorkloadError> {
    if answer >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            WorkloadError::host(format!("no permission to {action}"), "run as root, or with CAP_NET_ADMIN")
        }
        _ => WorkloadError::system(action, "check that the tun module is loaded: modprobe tun", error),
    })
}
