//! The way in: a TAP device, on which whatever is written is handed by a program to the guarded device as if it had just
//! arrived there. The device ends with its descriptor, hence with the process, however that ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use nix::net::if_::if_nametoindex;

use crate::attach::{self, Inward as Attached};
use crate::device::Device;
use crate::error::Error;

/// `TUNSETIFF` (include/uapi/linux/if_tun.h).
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;

const WHAT: &str = "make a TAP device that puts frames back on their way in";

/// The device, open.
#[derive(Debug)]
pub(super) struct Inward {
    tap: File,
    _attached: Attached,
    lost: u64,
}

impl Inward {
    pub(super) fn new(guarded: &Device, program: BorrowedFd<'_>, clsact: bool) -> Result<Self, Error> {
        let failed = |source| Error::from_io(WHAT, source);
        let name = format!("ackgate{}", guarded.index);
        let tap = open(&name).map_err(failed)?;
        // No address, no neighbours: nothing travels here but what we write.
        for command in [format!("link set {name} arp off addrgenmode none"), format!("link set {name} up")] {
            let output = Command::new("ip").args(command.split(' ')).output().map_err(failed)?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(failed(io::Error::other(format!("`ip {command}` said: {}", said.trim()))));
            }
        }
        let index = if_nametoindex(name.as_str()).map_err(|errno| Error::from_errno(WHAT, errno))?;
        let device = Device { name, index: index.cast_signed() };
        Ok(Self { tap, _attached: attach::inward(clsact, &device, program)?, lost: 0 })
    }

    /// Frames that the kernel would not take.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Puts frames, each behind its virtio header, back on their way.
    pub(super) fn write(&mut self, frames: &mut Vec<Vec<u8>>) {
        for frame in frames.drain(..) {
            self.lost += u64::from(self.tap.write_all(&frame).is_err());
        }
    }
}

/// Makes a TAP device of this name; it goes when the file is closed.
pub(super) fn open(name: &str) -> io::Result<File> {
    const DEVICE: &str = "/dev/net/tun";
    let tap = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(DEVICE)
        .map_err(|e| io::Error::new(e.kind(), format!("{DEVICE}: {e} (this needs TAP devices: CONFIG_TUN)")))?;
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes an ifreq, which lives until the call returns.
    if unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETIFF as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(tap)
}
