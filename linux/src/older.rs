//! Connections that were open before the guard started: TCP tells its window scale in the handshake only, but the kernel knows that
//! of its own sockets (`sock_diag(7)`), and their least RTT. With these such a connection is guarded like any other, from its next segment on.
//!
//! The kernel is asked about one connection at a time, once, and never about many in a row: whoever holds ACKs has no time for a list
//! of all sockets. A connection that is not this host's (a container's, a guest's behind a bridge) or has other addresses here (NAT) is
//! not found: only its requests can be held.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

use ackgate_control::decision::{self, Rules};
use ackgate_control::flow::FlowKey;
use ackgate_control::gate::state::flag;
use ackgate_control::gate::{Flow, State};
use ackgate_control::policy::FlowId;
use ackgate_control::units::{Span, Time};
use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_ESTABLISHED, TCP_LISTEN};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

use crate::device::Device;
use crate::shared::Shared;

/// Connections that the kernel is asked about in a row: some hundred microseconds.
const MOST: usize = 64;
/// Time from one row to the next; also from when a connection was met to the first question.
const PAUSE: Span = Span::millis(10);

/// Asks about connections that were met in mid-stream.
#[derive(Debug)]
pub(crate) struct Older {
    /// None where it does not answer.
    kernel: Option<Kernel>,
    /// Connections met in mid-stream, when the table was last looked through.
    joined: u64,
    /// When it is to be looked through, from which entry on.
    next: Time,
    from: u32,
    /// The connection of each entry that was last asked about, as the entry counts them.
    asked: Vec<Option<u32>>,
}

impl Older {
    pub(crate) fn new(device: &Device) -> Self {
        let kernel = Kernel::new(device.index.cast_unsigned());
        if let Err(error) = &kernel {
            tracing::warn!(
                "the kernel cannot be asked about connections that are older than the guard (sock_diag): {error}"
            );
        }
        Self { kernel: kernel.ok(), joined: 0, next: Time::NEVER, from: 0, asked: Vec::new() }
    }

    /// When to look again.
    pub(crate) const fn next_look(&self) -> Time {
        self.next
    }

    /// Asks about those that are new.
    pub(crate) fn look(&mut self, rules: &Rules, shared: &Shared, now: Time) {
        let joined = shared.books().joined.get();
        if joined != self.joined {
            (self.joined, self.from, self.next) = (joined, 0, self.next.min(now + PAUSE));
        }
        if now < self.next {
            return;
        }
        let mut questions = 0;
        for id in self.from..shared.flow_count() {
            if questions == MOST {
                (self.from, self.next) = (id, now + PAUSE);
                return;
            }
            questions += usize::from(self.ask(rules, shared, FlowId(id)));
        }
        (self.from, self.next) = (0, Time::NEVER);
    }

    /// Asks about the connection of an entry, if its scale is not known and nobody has asked; says whether.
    fn ask(&mut self, rules: &Rules, shared: &Shared, id: FlowId) -> bool {
        let Some(flow) = shared.flow(id).filter(|flow| is_older(flow)) else { return false };
        let (at, generation) = (id.0 as usize, flow.generation.get());
        if self.asked.get(at) == Some(&Some(generation)) {
            return false;
        }
        let (Some(kernel), Some(key)) = (&mut self.kernel, shared.key(id)) else { return false };
        if self.asked.len() <= at {
            self.asked.resize(at + 1, None);
        }
        self.asked[at] = Some(generation);
        match kernel.handshake(&key) {
            Ok(Some((scale, rtt))) if decision::tell_handshake(rules, shared.gate(), flow, scale, rtt) => {
                // Another connection may have taken the entry meanwhile.
                if flow.generation.get() != generation {
                    decision::untell_scale(rules, shared.gate(), flow, scale);
                }
            }
            Ok(_) => {}
            Err(error) => tracing::debug!("asking the kernel about {key:?}: {error}"),
        }
        true
    }
}

/// Whether the handshake was not seen, and is not going on.
pub(crate) fn is_older(flow: &Flow) -> bool {
    flow.flags.any(flag::KNOWN) && !flow.flags.any(flag::SCALE_KNOWN | flag::HALF_OPEN)
}

/// The kernel's knowledge of its sockets.
#[derive(Debug)]
struct Kernel {
    socket: OwnedFd,
    /// Index of the device that connections may be bound to.
    device: u32,
    sequence: u32,
}

impl Kernel {
    fn new(device: u32) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkSockDiag)?;
        Ok(Self { socket, device, sequence: 0 })
    }

    /// Our window scale on a connection, and its least RTT if that is known; `None` where this host has no socket for it.
    fn handshake(&mut self, key: &FlowKey) -> io::Result<Option<(u8, Option<Span>)>> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut request = NetlinkMessage::new(NetlinkHeader::default(), question(key, self.device).into());
        request.header.flags = NLM_F_REQUEST;
        request.header.sequence_number = self.sequence;
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
        // The kernel answers before `send` returns.
        let mut answer = [0; 4096];
        let length = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT)?;
        let answer = NetlinkMessage::<SockDiagMessage>::deserialize(&answer[..length]).map_err(io::Error::other)?;
        match answer.payload {
            _ if answer.header.sequence_number != self.sequence => {
                Err(io::Error::other("an answer to another question"))
            }
            NetlinkPayload::Error(error) if error.raw_code() == -libc::ENOENT => Ok(None),
            NetlinkPayload::Error(error) => Err(error.to_io()),
            NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(answer)) => {
                // Without a socket for the connection, one that listens at its port answers.
                let connected = (TCP_ESTABLISHED..TCP_LISTEN).contains(&answer.header.state);
                Ok(answer.nlas.iter().filter(|_| connected).find_map(|nla| match nla {
                    Nla::TcpInfo(info) => Some((received_scale(info)?, least_rtt(info))),
                    _ => None,
                }))
            }
            _ => Ok(None),
        }
    }
}

fn question(key: &FlowKey, device: u32) -> SockDiagMessage {
    SockDiagMessage::InetRequest(InetRequest {
        family: if key.is_ipv4() { AF_INET } else { AF_INET6 },
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        states: StateFlags::all(),
        socket_id: SocketId {
            source_port: key.local_port,
            destination_port: key.remote_port,
            source_address: address(key, key.local),
            destination_address: address(key, key.remote),
            interface_id: device,
            cookie: [0xff; 8],
        },
    })
}

fn address(key: &FlowKey, bytes: [u8; 16]) -> IpAddr {
    if key.is_ipv4() {
        Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15]).into()
    } else {
        Ipv6Addr::from(bytes).into()
    }
}

/// `tcpi_rcv_wscale` of `struct tcp_info`: the second half of its seventh byte, in the order in which this machine's compilers lay out
/// bit fields. It is 0 where the two ends have not agreed on scales.
fn received_scale(info: &[u8]) -> Option<u8> {
    info.get(6).map(|byte| if cfg!(target_endian = "little") { byte >> 4 } else { byte & 15 })
}

/// `tcpi_min_rtt` of `struct tcp_info` (Linux 4.6), in microseconds: of our own data, the SYN included, in the last minutes.
fn least_rtt(info: &[u8]) -> Option<Span> {
    const AT: usize = 148;
    let micros = u32::from_ne_bytes(info.get(AT..AT + 4)?.try_into().ok()?);
    (micros != u32::MAX && micros > 0).then(|| Span::micros(micros.into()))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    fn key(stream: &TcpStream) -> FlowKey {
        let (local, remote) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
        let octets = |address: IpAddr| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        };
        FlowKey {
            local: octets(local.ip()),
            remote: octets(remote.ip()),
            local_port: local.port(),
            remote_port: remote.port(),
            vlan: 0,
        }
    }

    #[test]
    fn the_kernel_tells_the_scale_of_its_connections_and_of_no_others() {
        let scale = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_window_scaling").unwrap();
        if scale.trim() != "1" {
            return eprintln!("skipped: window scaling is switched off");
        }
        // The loopback device has the index 1 in every namespace.
        let mut kernel = Kernel::new(1).unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let server = listener.accept().unwrap().0;
            for stream in [&client, &server] {
                let told = kernel.handshake(&key(stream)).unwrap();
                let sensible = |rtt: Option<Span>| rtt.is_some_and(|rtt| rtt < Span::secs(1));
                assert!(
                    told.is_some_and(|(scale, rtt)| (1..=14).contains(&scale) && sensible(rtt)),
                    "{address}: {told:?}"
                );
            }
            // At its local port somebody listens.
            let nobodys = FlowKey { remote_port: 1, ..key(&server) };
            assert_eq!(kernel.handshake(&nobodys).unwrap(), None, "{address}");
            let elsewhere = FlowKey { local_port: 1, ..nobodys };
            assert_eq!(kernel.handshake(&elsewhere).unwrap(), None, "{address}");
        }
    }
}
