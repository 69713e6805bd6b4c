//! Devices' settings below /sys of a namespace, through an instance of sysfs that is mounted nowhere: that needs no root that is a
//! mount point (a chroot has none), and nobody else sees it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use nix::fcntl::{OFlag, openat};
use nix::libc;
use nix::sys::stat::Mode;

use super::namespace::Namespace;

/// `FSCONFIG_CMD_CREATE` of include/uapi/linux/mount.h.
const CREATE: libc::c_uint = 6;

/// Writes a file of the namespace's sysfs; `path` is relative to /sys.
///
/// # Errors
/// When the namespace cannot be entered, its sysfs not be opened (Linux 5.2 and later can), or the file not be written.
pub(super) fn write(namespace: &Namespace, path: &Path, value: &str) -> io::Result<()> {
    namespace.inside(|| {
        let root = instance()?;
        let file = openat(&root, path, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
        File::from(file).write_all(value.as_bytes())
    })?
}

/// The root of a sysfs that shows the devices of this thread's namespace.
fn instance() -> io::Result<OwnedFd> {
    // SAFETY: the name is a string that ends with a zero byte and lives for the call.
    let context = fd(unsafe { libc::syscall(libc::SYS_fsopen, c"sysfs".as_ptr(), 0) })?;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: this command takes neither key nor value.
    let created = unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, none, none, 0) };
    if created != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes and returns plain numbers.
    fd(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 0, 0) })
}

/// What a call returned that makes a file descriptor.
fn fd(returned: libc::c_long) -> io::Result<OwnedFd> {
    match i32::try_from(returned) {
        // SAFETY: the kernel has just made it, and nobody else knows it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}
