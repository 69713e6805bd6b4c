//! Segmentation and receive offloads of a device, by the ethtool ioctls (include/uapi/linux/ethtool.h).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use nix::libc;

/// `ETHTOOL_STSO`, `ETHTOOL_SGSO`, `ETHTOOL_SGRO`.
const TSO_GSO_GRO: [u32; 3] = [0x1f, 0x24, 0x2c];

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    cmd: u32,
    data: u32,
}

/// Switches TSO, GSO and GRO of `device` in the calling thread's network namespace on or off, so that what crosses the
/// device are single frames, as on a wire.
///
/// # Errors
/// When the device is not there or does not know the setting.
pub(super) fn set_offloads(device: &str, on: bool) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    for cmd in TSO_GSO_GRO {
        let mut value = EthtoolValue { cmd, data: on.into() };
        // SAFETY: an all-zero ifreq is a valid value of that C struct.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if device.len() >= request.ifr_name.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("device name `{device}` is too long")));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: `request` and the `value` it points to live until the call returns, and are what SIOCETHTOOL expects.
        if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } != 0 {
            let error = io::Error::last_os_error();
            return Err(io::Error::new(error.kind(), format!("offloads of {device}: {error}")));
        }
    }
    Ok(())
}
