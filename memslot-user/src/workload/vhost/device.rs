//! vhost-net through its ioctls (include/uapi/linux/vhost.h).
//!
//! The `vhost` crate refuses more than 255 regions, and thousands are the point here.

use super::super::error::device;
use super::super::{WorkloadError, host};
use crate::model::Region;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The transmit queue of vhost-net; 0 would be the receive queue.
const TX: u32 = 1;
const VIRTIO_F_VERSION_1: u64 = 1 << 32;

#[expect(clippy::cast_possible_truncation, reason = "sizes of structures are small")]
const fn ioctl_number(direction: u32, number: u32, size: usize) -> libc::Ioctl {
    ((direction << 30) | ((size as u32) << 16) | (0xaf << 8) | number) as libc::Ioctl
}
const fn write_number(number: u32, size: usize) -> libc::Ioctl {
    ioctl_number(1, number, size)
}

const VHOST_GET_FEATURES: libc::Ioctl = ioctl_number(2, 0x00, 8);
const VHOST_SET_FEATURES: libc::Ioctl = write_number(0x00, 8);
const VHOST_SET_OWNER: libc::Ioctl = ioctl_number(0, 0x01, 0);
const VHOST_SET_MEM_TABLE: libc::Ioctl = write_number(0x03, 8);
const VHOST_SET_VRING_NUM: libc::Ioctl = write_number(0x10, size_of::<RingState>());
const VHOST_SET_VRING_ADDR: libc::Ioctl = write_number(0x11, size_of::<RingAddresses>());
const VHOST_SET_VRING_BASE: libc::Ioctl = write_number(0x12, size_of::<RingState>());
const VHOST_SET_VRING_KICK: libc::Ioctl = write_number(0x20, size_of::<RingFile>());
const VHOST_SET_VRING_CALL: libc::Ioctl = write_number(0x21, size_of::<RingFile>());
const VHOST_SET_VRING_ERR: libc::Ioctl = write_number(0x22, size_of::<RingFile>());
const VHOST_NET_SET_BACKEND: libc::Ioctl = write_number(0x30, size_of::<RingFile>());

/// `struct vhost_vring_state`
#[repr(C)]
struct RingState {
    index: u32,
    num: u32,
}

/// `struct vhost_vring_file`
#[repr(C)]
struct RingFile {
    index: u32,
    fd: RawFd,
}

/// `struct vhost_vring_addr`
#[repr(C)]
struct RingAddresses {
    index: u32,
    flags: u32,
    descriptors: u64,
    used: u64,
    available: u64,
    log: u64,
}

/// Where the parts of a split virtqueue lie in this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingPlace {
    pub(crate) size: u32,
    pub(crate) descriptors: u64,
    pub(crate) available: u64,
    pub(crate) used: u64,
}

/// An open vhost-net device with one queue.
pub(crate) struct VhostNet {
    file: File,
    kick: File,
    call: OwnedFd,
    error: OwnedFd,
}

impl VhostNet {
    /// Opens the device and makes this process its owner, which starts its worker thread.
    pub(crate) fn open() -> Result<Self, WorkloadError> {
        let path = "/dev/vhost-net";
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .map_err(|error| device(path, "vhost_net", error))?;
        let vhost = Self { file, kick: event_fd()?.into(), call: event_fd()?, error: event_fd()? };
        vhost.control::<()>("become the owner of /dev/vhost-net", VHOST_SET_OWNER, None)?;
        let mut offered = 0_u64;
        // SAFETY: the request writes one u64 to the address given, which is that of `offered`.
        let answer = unsafe { libc::ioctl(vhost.file.as_raw_fd(), VHOST_GET_FEATURES, &raw mut offered) };
        if answer < 0 || offered & VIRTIO_F_VERSION_1 == 0 {
            return Err(WorkloadError::host(
                "this vhost-net does not offer virtio 1.0",
                "use a kernel from 4.0 on",
            ));
        }
        vhost.control("set vhost's features", VHOST_SET_FEATURES, Some(&VIRTIO_F_VERSION_1))?;
        Ok(vhost)
    }

    /// Hands the regions over, each with its address in this process, in the given order.
    pub(crate) fn set_regions(&self, regions: &[(Region, u64)]) -> Result<(), WorkloadError> {
        let count = regions.len() as u64;
        refuse_too_many(count, host::vhost_limit("max_mem_regions"), host::vhost_limit("max_iotlb_entries"))?;
        // struct vhost_memory: u32 nregions, u32 padding, then the regions of four u64 each.
        let mut table = vec![count];
        for (region, address) in regions {
            table.extend([region.start, region.last - region.start + 1, *address, 0]);
        }
        // SAFETY: the kernel reads the header and as many regions as it says, which `table` holds.
        let answer = unsafe { libc::ioctl(self.file.as_raw_fd(), VHOST_SET_MEM_TABLE, table.as_ptr()) };
        if answer == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        Err(match error.raw_os_error() {
            Some(libc::E2BIG) => too_many("max_mem_regions", count, None),
            _ => WorkloadError::system(
                format!("hand {count} regions to vhost"),
                "try fewer --regions; the kernel log (dmesg) may say more",
                error,
            ),
        })
    }

    /// Sets the transmit queue up and lets it send to `tap`.
    pub(crate) fn start(&self, ring: RingPlace, tap: RawFd) -> Result<(), WorkloadError> {
        let state = |num| RingState { index: TX, num };
        let file = |fd| RingFile { index: TX, fd };
        let addresses = RingAddresses {
            index: TX,
            flags: 0,
            descriptors: ring.descriptors,
            used: ring.used,
            available: ring.available,
            log: 0,
        };
        self.control("set the size of vhost's queue", VHOST_SET_VRING_NUM, Some(&state(ring.size)))?;
        self.control("set the start of vhost's queue", VHOST_SET_VRING_BASE, Some(&state(0)))?;
        self.control("set the place of vhost's queue", VHOST_SET_VRING_ADDR, Some(&addresses))?;
        let event = "give vhost an eventfd";
        self.control(event, VHOST_SET_VRING_KICK, Some(&file(self.kick.as_raw_fd())))?;
        self.control(event, VHOST_SET_VRING_CALL, Some(&file(self.call.as_raw_fd())))?;
        self.control(event, VHOST_SET_VRING_ERR, Some(&file(self.error.as_raw_fd())))?;
        self.control("let vhost send to the tap", VHOST_NET_SET_BACKEND, Some(&file(tap)))
    }

    /// Tells vhost that packets are there.
    pub(crate) fn kick(&self) -> Result<(), WorkloadError> {
        (&self.kick).write_all(&1_u64.to_ne_bytes()).map_err(|error| {
            WorkloadError::system("wake vhost", "this is a defect; report it with the command line", error)
        })
    }

    /// Waits until vhost says that it has used packets.
    pub(crate) fn wait(&self) -> Result<(), WorkloadError> {
        let mut events = [&self.call, &self.error].map(|fd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        // SAFETY: the array holds the two entries that the length says.
        let answer = unsafe { libc::poll(events.as_mut_ptr(), 2, PATIENCE_MS) };
        if answer < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                return Ok(());
            }
            return Err(WorkloadError::system("wait for vhost", "run it again", error));
        }
        if events[1].revents != 0 {
            return Err(WorkloadError::host(
                "vhost met a descriptor or ring that it could not use and stopped the queue",
                "this is a defect; report it with the command line and the kernel log (dmesg)",
            ));
        }
        if answer == 0 {
            return Err(WorkloadError::host(
                format!("vhost sent nothing for {} seconds", PATIENCE_MS / 1000),
                "its worker may be starved or stuck: look at the vhost thread in top and at dmesg",
            ));
        }
        let mut count = [0_u8; 8];
        // SAFETY: reads at most the 8 bytes of `count`.
        unsafe { libc::read(self.call.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        Ok(())
    }

    fn control<T>(
        &self,
        action: &str,
        request: libc::Ioctl,
        argument: Option<&T>,
    ) -> Result<(), WorkloadError> {
        let pointer = argument.map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: every request used reads at most the T whose size its number carries.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), request, pointer) } {
            answer if answer >= 0 => Ok(()),
            _ => Err(WorkloadError::system(
                action,
                "the kernel log (dmesg) may say why",
                io::Error::last_os_error(),
            )),
        }
    }
}

/// How long vhost may take for one queue of packets; a loaded emulated machine takes seconds.
const PATIENCE_MS: i32 = 60_000;

fn event_fd() -> Result<OwnedFd, WorkloadError> {
    // SAFETY: makes a new file, touches no memory.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        let remedy = "raise the limit of open files (ulimit -n)";
        return Err(WorkloadError::system("make an eventfd", remedy, io::Error::last_os_error()));
    }
    // SAFETY: the file was just made and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Both limits of the vhost module. The second is not refused by the kernel: past it, inserting a
/// region silently retires the oldest one (`vhost_iotlb_add_range_ctx`), and its addresses would stop
/// the queue.
fn refuse_too_many(count: u64, regions: Option<u64>, entries: Option<u64>) -> Result<(), WorkloadError> {
    for (parameter, limit) in [("max_mem_regions", regions), ("max_iotlb_entries", entries)] {
        if limit.is_some_and(|limit| count > limit) {
            return Err(too_many(parameter, count, limit));
        }
    }
    Ok(())
}

fn too_many(parameter: &str, count: u64, limit: Option<u64>) -> WorkloadError {
    let limit = limit.map_or_else(|| "fewer".to_owned(), |limit| limit.to_string());
    let entries = if count > 2048 { format!(" max_iotlb_entries={count}") } else { String::new() };
    WorkloadError::host(
        format!("vhost takes {limit} regions here ({parameter}), not {count}"),
        format!(
            "reload it with more, while no VM uses it: modprobe -r vhost_net vhost && modprobe vhost \
             max_mem_regions={count}{entries} && modprobe vhost_net; to keep that, put 'options vhost \
             max_mem_regions={count}{entries}' into /etc/modprobe.d/vhost.conf"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::{VHOST_NET_SET_BACKEND, VHOST_SET_MEM_TABLE, VHOST_SET_VRING_ADDR, refuse_too_many};

    #[test]
    fn requests_have_the_numbers_of_the_kernels_header() {
        assert_eq!(VHOST_SET_MEM_TABLE, 0x4008_af03);
        assert_eq!(VHOST_SET_VRING_ADDR, 0x4028_af11);
        assert_eq!(VHOST_NET_SET_BACKEND, 0x4008_af30);
    }

    #[test]
    fn both_limits_of_the_module_are_told_with_the_remedy() {
        assert!(refuse_too_many(64, Some(64), Some(2048)).is_ok());
        assert!(refuse_too_many(65, None, None).is_ok());
        let text = refuse_too_many(509, Some(64), Some(2048)).unwrap_err().to_string();
        assert!(text.starts_with("vhost takes 64 regions here (max_mem_regions), not 509; "));
        assert!(text.contains("modprobe vhost max_mem_regions=509 &&"));
        assert!(text.contains("'options vhost max_mem_regions=509'"));
        let text = refuse_too_many(4096, Some(4096), Some(2048)).unwrap_err().to_string();
        assert!(text.starts_with("vhost takes 2048 regions here (max_iotlb_entries), not 4096; "));
        assert!(text.contains("max_mem_regions=4096 max_iotlb_entries=4096"));
    }
}
