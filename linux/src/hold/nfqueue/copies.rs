//! Sends bare copies of packets that have left: raw IP, marked so that netfilter's rule lets them pass.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, sendto, setsockopt, socket,
    sockopt,
};

use crate::device::Device;
use crate::emitter::PASS_MARK;

#[derive(Debug)]
pub(crate) struct Copies {
    ipv4: OwnedFd,
    ipv6: OwnedFd,
}

impl Copies {
    pub(super) fn new(device: &Device) -> io::Result<Self> {
        let open = |family| {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            // "Raw" as a protocol means that packets come with their IP header, and that nothing is received.
            let socket = socket(family, SockType::Raw, flags, SockProtocol::Raw)?;
            setsockopt(&socket, sockopt::BindToDevice, &device.name.clone().into())?;
            setsockopt(&socket, sockopt::Mark, &PASS_MARK)?;
            Ok::<_, io::Error>(socket)
        };
        Ok(Self { ipv4: open(AddressFamily::Inet)?, ipv6: open(AddressFamily::Inet6)? })
    }

    /// The sockets.
    pub(crate) fn descriptors(&self) -> [RawFd; 2] {
        [self.ipv4.as_raw_fd(), self.ipv6.as_raw_fd()]
    }

    /// Sends a packet that begins with its IP header.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        let short = || io::Error::from(io::ErrorKind::InvalidInput);
        if packet.first().is_some_and(|byte| byte >> 4 == 6) {
            let address = packet.get(24..).and_then(|rest| rest.first_chunk::<16>()).ok_or_else(short)?;
            let to = SockaddrIn6::from(SocketAddrV6::new(Ipv6Addr::from(*address), 0, 0, 0));
            sendto(self.ipv6.as_raw_fd(), packet, &to, MsgFlags::empty())?;
        } else {
            let address = packet.get(16..).and_then(|rest| rest.first_chunk::<4>()).ok_or_else(short)?;
            let to = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::from(*address), 0));
            sendto(self.ipv4.as_raw_fd(), packet, &to, MsgFlags::empty())?;
        }
        Ok(())
    }
}
