//! Makes up for a daemon that has stopped: what it holds leaves as TCP wrote it, and whoever was told less than TCP said is told
//! that.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use ackgate_control::decision::{self, Rules, Word};
use ackgate_control::gate::{Flow, State};
use ackgate_control::policy::FlowId;
use ackgate_control::units::{Span, Time};
use ackgate_control::wire::{self, Direction, ETHERNET_HEADER, Meta};

use super::unread::Unread;
use super::vault::Vault;
use crate::device::Device;
use crate::emitter;
use crate::error::Error;
use crate::hold::{AllPackets, Copies, Header, MAC_ADDRESSES};
use crate::shared::Shared;
use crate::sys;

/// A rescue is spread over this time: what senders were kept from need not meet in the port's buffer.
const SPREAD: Span = Span::millis(25);
/// Time between two frames, at most: in 1 ms a port of 1 Gb/s sends more than most buffers hold.
const LONGEST_GAP: Span = Span::millis(1);
/// Attempts at a frame that the device has no room for.
const ATTEMPTS: u32 = 8;

/// How frames are sent.
#[derive(Debug)]
pub(crate) enum Outlet {
    /// Out of the device, past our own hooks ([`emitter::sender`]).
    Device(OwnedFd),
    /// As packets, by the host's routes, past netfilter's rule.
    Routed(Copies),
}

impl Outlet {
    /// A packet socket of its own.
    ///
    /// # Errors
    /// When this process may not have one.
    pub(crate) fn by_the_device(device: &Device) -> Result<Self, Error> {
        emitter::sender(device)
            .map(Self::Device)
            .map_err(|source| Error::from_io("open a raw socket on the device", source))
    }

    /// Whether the device took it.
    fn send(&self, frame: &[u8]) -> bool {
        for _ in 0..ATTEMPTS {
            let sent = match self {
                Self::Device(socket) => sys::send_frame(socket, frame),
                Self::Routed(copies) => copies.send(frame.get(ETHERNET_HEADER..).unwrap_or_default()),
            };
            if sent.is_ok() {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }
}

/// Where else than in the daemon and in the ring held packets are.
#[derive(Debug)]
pub(crate) enum Elsewhere {
    Nothing,
    /// In a packet socket's receive queue.
    Socket(OwnedFd),
    /// In a netfilter queue.
    Queue(AllPackets),
}

/// What it takes to stand in for a hold back-end.
#[derive(Debug)]
pub(crate) struct Aid {
    pub(crate) outlet: Outlet,
    pub(crate) elsewhere: Elsewhere,
}

impl Aid {
    /// The descriptors that it needs.
    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        let mut all = match &self.outlet {
            Outlet::Device(socket) => vec![socket.as_raw_fd()],
            Outlet::Routed(copies) => copies.descriptors().to_vec(),
        };
        match &self.elsewhere {
            Elsewhere::Nothing => {}
            Elsewhere::Socket(socket) => all.push(socket.as_raw_fd()),
            Elsewhere::Queue(packets) => all.push(packets.descriptor()),
        }
        all
    }
}

/// All that a rescue needs.
#[derive(Debug)]
pub(crate) struct Rescuer<'a> {
    pub(super) rules: &'a Rules,
    pub(super) shared: &'a Shared,
    pub(super) vault: &'a Vault,
    pub(super) unread: &'a Unread,
    pub(super) aid: &'a Aid,
}

impl Rescuer<'_> {
    /// Lets go what is held, then tells every peer TCP's own word.
    pub(super) fn rescue(&self) {
        let mut unread = 0;
        self.each_unread(|_, _| unread += 1);
        let mut pace = Pace::new(self.vault.count() + unread + self.told_less());
        if let Elsewhere::Queue(packets) = &self.aid.elsewhere {
            packets.release();
        }
        self.send_held(&mut pace);
        self.tell(&mut pace);
    }

    /// Tells every peer TCP's own word.
    pub(super) fn hand_back(&self) {
        self.tell(&mut Pace::new(self.told_less()));
    }

    fn send_held(&self, pace: &mut Pace) {
        let mut frame = Vec::with_capacity(sys::RECEIVE_BYTES);
        self.vault.frames(&mut frame, |frame| {
            self.send(frame);
            pace.wait();
        });
        self.each_unread(|header, bytes| {
            put_together(header, bytes, &mut frame);
            self.send(&mut frame);
            pace.wait();
        });
        if let Elsewhere::Socket(socket) = &self.aid.elsewhere {
            let mut buffer = vec![0; sys::RECEIVE_BATCH * sys::RECEIVE_BYTES];
            let mut each = |record: &[u8]| {
                if let Some((header, bytes)) = Header::split(record).filter(|(header, _)| !header.is_renewable()) {
                    put_together(&header, bytes, &mut frame);
                    self.send(&mut frame);
                }
            };
            while sys::receive_frames(socket, &mut buffer, &mut each).is_ok_and(|count| count > 0) {}
        }
    }

    /// Frames in the ring that nobody could write anew.
    fn each_unread(&self, mut each: impl FnMut(&Header, &[u8])) {
        self.unread.records(|record| {
            if let Some((header, bytes)) = Header::split(record)
                && !header.is_renewable()
                && !bytes.is_empty()
            {
                each(&header, bytes);
            }
        });
    }

    /// Sends a frame that TCP wrote.
    fn send(&self, frame: &mut [u8]) {
        if let Ok(packet) = wire::parse(frame, &Meta::whole(frame), Direction::Egress) {
            wire::complete_checksum(frame, &packet.layout);
            self.put_out(frame);
        }
    }

    fn put_out(&self, frame: &[u8]) {
        if self.aid.outlet.send(frame) {
            self.vault.note_sent();
        }
    }

    /// How many peers were told less than TCP said.
    fn told_less(&self) -> u64 {
        (0..self.shared.flow_count()).filter(|&id| self.word_for(FlowId(id)).is_some()).count() as u64
    }

    fn word_for(&self, id: FlowId) -> Option<(&Flow, Word)> {
        let flow = self.shared.flow(id)?;
        Some((flow, decision::told_less(self.rules, self.shared.gate(), flow)?))
    }

    fn tell(&self, pace: &mut Pace) {
        let mut frame = Vec::with_capacity(sys::RECEIVE_BYTES);
        for id in (0..self.shared.flow_count()).map(FlowId) {
            let Some((flow, word)) = self.word_for(id) else { continue };
            decision::leave_to_tcp(self.rules, self.shared.gate(), flow, &word);
            if self.write(id, flow, &word, &mut frame) {
                self.put_out(&frame);
                pace.wait();
            }
        }
    }

    /// The connection's last ACK as TCP has it.
    fn write(&self, id: FlowId, flow: &Flow, word: &Word, frame: &mut Vec<u8>) -> bool {
        let Some(key) = self.shared.key(id) else { return false };
        // What a `struct link` holds, and a tag that travels beside the frame.
        let mut link = [0; 28 + 4];
        match &self.aid.outlet {
            Outlet::Routed(_) => {
                let protocol: [u8; 2] = if key.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] };
                link[MAC_ADDRESSES..ETHERNET_HEADER].copy_from_slice(&protocol);
            }
            Outlet::Device(_) => {
                let Some(known) = self.shared.link(id) else { return false };
                let (addresses, rest) = known.head.split_at(MAC_ADDRESSES);
                link[..MAC_ADDRESSES].copy_from_slice(addresses);
                let mut at = MAC_ADDRESSES;
                if known.tag_protocol != 0 {
                    link[at..at + 2].copy_from_slice(&known.tag_protocol.to_be_bytes());
                    link[at + 2..at + 4].copy_from_slice(&known.tag.to_be_bytes());
                    at += 4;
                }
                link[at..at + rest.len()].copy_from_slice(rest);
            }
        }
        wire::plain_ack(&link, &key, &word.position(flow), word.window(), frame)
    }
}

/// Writes a held frame as it is on the wire into `frame`.
fn put_together(header: &Header, bytes: &[u8], frame: &mut Vec<u8>) {
    let mut buffer = [0; MAC_ADDRESSES + 4];
    let (head, rest) = header.whole(bytes, &mut buffer);
    frame.clear();
    frame.extend_from_slice(head);
    frame.extend_from_slice(rest);
}

/// Spreads frames over the time of a rescue.
struct Pace {
    gap: Span,
    next: Time,
}

impl Pace {
    fn new(frames: u64) -> Self {
        Self { gap: Span(SPREAD.0 / frames.max(1)).min(LONGEST_GAP), next: sys::now() }
    }

    /// Waits until the next frame may leave.
    fn wait(&mut self) {
        self.next += self.gap;
        let early = self.next.since(sys::now());
        if early.0 > 0 {
            std::thread::sleep(Duration::from_nanos(early.0));
        }
    }
}
