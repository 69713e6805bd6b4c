//! A netfilter queue over its netlink socket (linux/netfilter/nfnetlink_queue.h): bound, read, answered in batches.
//!
//! Integers in the payload of these messages are big-endian, those of netlink's own headers the machine's.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket,
    sockopt,
};

/// `NFNL_SUBSYS_QUEUE` in the upper half of a message's type.
const SUBSYSTEM: u16 = 3 << 8;
/// `NFQNL_MSG_PACKET`, `NFQNL_MSG_VERDICT`, `NFQNL_MSG_CONFIG`.
const PACKET: u16 = SUBSYSTEM;
const VERDICT: u16 = SUBSYSTEM | 1;
const CONFIG: u16 = SUBSYSTEM | 2;
/// `NFQNL_MSG_VERDICT_BATCH`: for a packet and all before it.
const VERDICT_BATCH: u16 = SUBSYSTEM | 3;
/// `NFQA_PACKET_HDR`, `NFQA_VERDICT_HDR`, `NFQA_PAYLOAD`.
const PACKET_HEADER: u16 = 1;
const VERDICT_HEADER: u16 = 2;
const PAYLOAD: u16 = 10;
/// `NFQA_CFG_CMD`, `NFQA_CFG_PARAMS`, `NFQA_CFG_QUEUE_MAXLEN`, `NFQA_CFG_MASK`, `NFQA_CFG_FLAGS`.
const COMMAND: u16 = 1;
const PARAMETERS: u16 = 2;
const LONGEST: u16 = 3;
const FLAGS_MASK: u16 = 4;
const FLAGS: u16 = 5;
/// `NFQNL_CFG_CMD_BIND`, `NFQNL_COPY_PACKET`, `NFQA_CFG_F_FAIL_OPEN`.
const BIND: u8 = 1;
const COPY_PACKET: u8 = 2;
const FAIL_OPEN: u32 = 1;

/// Bytes before the attributes: netlink's header, and netfilter's.
const HEADERS: usize = 16 + 4;
/// Packets that may wait; beyond, the kernel lets them pass.
const MOST_WAITING: u32 = 65_536;
/// Bytes of a packet that are copied: nothing larger is held.
const COPIED: u32 = 2048;
/// Verdicts are sent when they fill this many bytes.
const BATCH: usize = 16 << 10;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Drop = 0,
    Accept = 1,
}

/// A queue that this process answers for. Packets that wait when it is closed are dropped by the kernel.
#[derive(Debug)]
pub(super) struct Queue {
    socket: OwnedFd,
    number: u16,
    buffer: Vec<u8>,
    /// What is left of the last message read: from where to where.
    unread: (usize, usize),
    verdicts: Vec<u8>,
    lost: u64,
}

impl Queue {
    pub(super) fn open(number: u16) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkNetFilter)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20))?;
        let queue = Self { socket, number, buffer: vec![0; 64 << 10], unread: (0, 0), verdicts: Vec::new(), lost: 0 };
        let be = u32::to_be_bytes;
        let mut parameters = be(COPIED).to_vec();
        parameters.push(COPY_PACKET);
        queue.configure(&[(COMMAND, &[BIND, 0, 0, 0])])?;
        queue.configure(&[
            (PARAMETERS, &parameters),
            (LONGEST, &be(MOST_WAITING)),
            (FLAGS_MASK, &be(FAIL_OPEN)),
            (FLAGS, &be(FAIL_OPEN)),
        ])?;
        Ok(queue)
    }

    pub(super) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Verdicts that the kernel would not take.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }

    fn configure(&self, attributes: &[(u16, &[u8])]) -> io::Result<()> {
        let mut request = Vec::new();
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16;
        message(&mut request, CONFIG, flags, self.number, attributes);
        send(self.socket.as_raw_fd(), &request, MsgFlags::empty())?;
        let mut answer = [0; 256];
        let length = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        match error_in(&answer[..length]) {
            Some(0) => Ok(()),
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer was no acknowledgement")),
        }
    }

    /// The next packet's number, and the packet from its IP header on; `None` when there is none now.
    pub(super) fn receive(&mut self) -> io::Result<Option<(u32, &[u8])>> {
        loop {
            let (start, end) = self.unread;
            if let Some((length, kind)) = header(&self.buffer[start..end]) {
                self.unread.0 = (start + length.next_multiple_of(4)).min(end);
                // Looked for twice, once for the borrow checker's sake.
                if kind == PACKET && packet(&self.buffer[start..start + length]).is_some() {
                    return Ok(packet(&self.buffer[start..start + length]));
                }
                continue;
            }
            match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(length) => self.unread = (0, length),
                Err(nix::errno::Errno::EAGAIN) => return Ok(None),
                // Packets that found no room passed or were lost: those that did are still to be read.
                Err(nix::errno::Errno::ENOBUFS | nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Decides; told to the kernel with [`flush`](Self::flush) at the latest.
    pub(super) fn verdict(&mut self, packet: u32, verdict: Verdict) {
        let mut body = [0; 8];
        body[..4].copy_from_slice(&(verdict as u32).to_be_bytes());
        body[4..].copy_from_slice(&packet.to_be_bytes());
        message(&mut self.verdicts, VERDICT, libc::NLM_F_REQUEST as u16, self.number, &[(VERDICT_HEADER, &body)]);
        if self.verdicts.len() >= BATCH {
            self.flush();
        }
    }

    /// Forgets the verdicts that have not been sent.
    pub(super) fn withdraw(&mut self) {
        self.verdicts.clear();
    }

    /// The means to let everything go that waits, for another process.
    pub(super) fn share(&self) -> io::Result<AllPackets> {
        let mut messages = Vec::new();
        // Each reaches back over half of the numbers that packets can have.
        for newest in [u32::MAX >> 1, u32::MAX] {
            let mut body = [0; 8];
            body[..4].copy_from_slice(&(Verdict::Accept as u32).to_be_bytes());
            body[4..].copy_from_slice(&newest.to_be_bytes());
            let flags = libc::NLM_F_REQUEST as u16;
            message(&mut messages, VERDICT_BATCH, flags, self.number, &[(VERDICT_HEADER, &body)]);
        }
        Ok(AllPackets { socket: self.socket.try_clone()?, messages })
    }

    /// Sends the verdicts.
    pub(super) fn flush(&mut self) {
        if !self.verdicts.is_empty() {
            self.lost += u64::from(send(self.socket.as_raw_fd(), &self.verdicts, MsgFlags::empty()).is_err());
            self.verdicts.clear();
        }
    }
}

/// Every packet that waits in a queue.
#[derive(Debug)]
pub(crate) struct AllPackets {
    socket: OwnedFd,
    messages: Vec<u8>,
}

impl AllPackets {
    pub(crate) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Lets them go.
    pub(crate) fn release(&self) {
        // The kernel takes it, or the queue is gone, and its packets with it.
        let _ = send(self.socket.as_raw_fd(), &self.messages, MsgFlags::empty());
    }
}

/// Appends a message with its attributes.
fn message(to: &mut Vec<u8>, kind: u16, flags: u16, queue: u16, attributes: &[(u16, &[u8])]) {
    let length = HEADERS + attributes.iter().map(|(_, value)| 4 + value.len().next_multiple_of(4)).sum::<usize>();
    // A few dozen bytes each.
    to.extend_from_slice(&(length as u32).to_ne_bytes());
    to.extend_from_slice(&kind.to_ne_bytes());
    to.extend_from_slice(&flags.to_ne_bytes());
    to.extend_from_slice(&[0; 8]);
    // `AF_UNSPEC`, `NFNETLINK_V0`.
    to.extend_from_slice(&[0, 0]);
    to.extend_from_slice(&queue.to_be_bytes());
    for (name, value) in attributes {
        to.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
        to.extend_from_slice(&name.to_ne_bytes());
        to.extend_from_slice(value);
        to.resize(to.len().next_multiple_of(4), 0);
    }
}

/// Length and type of the message that `bytes` begin with, if it is whole.
fn header(bytes: &[u8]) -> Option<(usize, u16)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (kind, _) = rest.split_first_chunk::<2>()?;
    let length = u32::from_ne_bytes(*length) as usize;
    (16..=bytes.len()).contains(&length).then(|| (length, u16::from_ne_bytes(*kind)))
}

/// Packets in a row of messages, and the bytes that they have in all.
pub(crate) fn packets(mut bytes: &[u8]) -> (usize, usize) {
    let mut all = (0, 0);
    while let Some((length, _)) = header(bytes) {
        if let Some((_, payload)) = packet(&bytes[..length]) {
            all = (all.0 + 1, all.1 + payload.len());
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    all
}

/// What a message of the kernel's says about our last request: 0, or an errno.
fn error_in(bytes: &[u8]) -> Option<i32> {
    let (_, kind) = header(bytes)?;
    let code = bytes.get(16..20)?;
    (i32::from(kind) == libc::NLMSG_ERROR).then(|| -i32::from_ne_bytes([code[0], code[1], code[2], code[3]]))
}

/// Number and payload of a packet's message.
fn packet(message: &[u8]) -> Option<(u32, &[u8])> {
    let mut rest = message.get(HEADERS..)?;
    let (mut number, mut payload) = (None, None);
    while let Some((head, _)) = rest.split_first_chunk::<4>() {
        let [l0, l1, n0, n1] = *head;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = rest.get(4..length)?;
        match u16::from_ne_bytes([n0, n1]) {
            PACKET_HEADER => number = value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)),
            PAYLOAD => payload = Some(value),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    number.zip(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_is_found_among_other_attributes() {
        let mut bytes = Vec::new();
        let header = [0, 0, 0, 9, 8, 0, 4, 0];
        message(&mut bytes, PACKET, 0, 7, &[(PACKET_HEADER, &header), (5, &[1, 2, 3, 4]), (PAYLOAD, b"abcde")]);
        let (length, kind) = super::header(&bytes).unwrap();
        assert_eq!((length, kind), (bytes.len(), PACKET));
        assert_eq!(packet(&bytes), Some((9, &b"abcde"[..])));
        assert_eq!(&bytes[18..20], &[0, 7], "the queue's number is big-endian");
    }

    #[test]
    fn an_error_is_read() {
        let mut bytes = Vec::new();
        message(&mut bytes, libc::NLMSG_ERROR as u16, 0, 0, &[]);
        bytes[16..20].copy_from_slice(&(-libc::EBUSY).to_ne_bytes());
        assert_eq!(error_in(&bytes), Some(libc::EBUSY));
        assert_eq!(error_in(&bytes[..10]), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = header(&bytes);
            let _ = error_in(&bytes);
            let _ = packet(&bytes);
        }
    }
}
