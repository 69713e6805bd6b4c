//! Frames that stay in the kernel, in a netfilter queue, until the scheduler gives their verdict: for hosts where no packet
//! socket can send past the device's qdisc, or where what is released must go through it.
//!
//! DESIGN NOTES
//! 1. Netfilter's POSTROUTING runs before tc egress, so the verdict is made there, by the same accounting, in a BPF program
//!    that the rule's match `bpf` asks. What passes never sees the queue; the queue is bypassed when nobody listens.
//! 2. The program tells the particulars of what it held through the ring, netfilter hands over the packet through the
//!    queue. Record and packet of one connection come in the same order, and the record first; they are matched by
//!    connection and acknowledgement number. A record whose packet does not come is a packet that was lost or let through;
//!    a packet without a record is let go.
//! 3. tc egress rewrites windows after netfilter, for what passes and for what is released.
//! 4. The bare copy of a packet that leaves at once comes through the ring, whole. Bare copies are sent by a raw IP socket, marked so that it is not held again.

mod copies;
mod netlink;
mod rules;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ackgate_control::flow::FlowKey;
use ackgate_control::policy::PacketId;
use ackgate_control::segment::Edit;
use ackgate_control::seq::SeqNumber;
use ackgate_control::wire::{self, Direction, Meta};
use libbpf_rs::{RingBuffer, RingBufferBuilder};

use super::{Arrival, Header, Hold};
use crate::datapath::Datapath;
use crate::device::Device;
use crate::error::Error;
use crate::shared::Keys;
use crate::standby::{Aid, Elsewhere, Outlet};
pub(crate) use copies::Copies;
pub(crate) use netlink::AllPackets;
pub(crate) use netlink::packets as netlink_packets;
use netlink::{Queue, Verdict};
use rules::Rules;

/// How long a packet may come after its record.
const LATE: Duration = Duration::from_millis(1);

/// An Ethernet header of which only the protocol matters, before packets that come without.
const LINK: usize = 14;

/// Where a held packet is.
#[derive(Debug)]
enum Slot {
    Free,
    /// In the queue under this number; the frame is a copy of it, with a link header.
    Queued(u32, Vec<u8>),
    /// Here alone: the bare copy of one that has left.
    Copy(Vec<u8>),
    /// Nowhere: it was let through, or dropped, between the verdict and the queue.
    Lost,
}

/// Particulars of what was held, and the packet if it is a copy.
type Record = (Header, Vec<u8>);

/// A packet of the queue.
struct Packet {
    ack: SeqNumber,
    number: u32,
    /// Behind a link header.
    frame: Vec<u8>,
}

/// Packets by connection, in order.
type Packets = HashMap<FlowKey, VecDeque<Packet>>;

/// The connection's next packet with that acknowledgement number.
fn take_out(packets: &mut Packets, key: Option<FlowKey>, ack: SeqNumber) -> Option<Packet> {
    let waiting = packets.get_mut(&key?)?;
    let at = waiting.iter().position(|packet| packet.ack == ack)?;
    waiting.remove(at)
}

/// The back-end.
pub(crate) struct NfQueue {
    ring: RingBuffer<'static>,
    records: Rc<RefCell<Vec<Record>>>,
    queue: Queue,
    copies: Copies,
    slots: Vec<Slot>,
    free: Vec<u32>,
    keys: Arc<Keys>,
    lost: u64,
    device: Device,
    _rules: Rules,
}

impl NfQueue {
    pub(crate) fn new(device: &Device, datapath: &Datapath) -> Result<Self, Error> {
        const WHAT: &str = "hold packets in a netfilter queue";
        let failed = |source| match Error::from_io(WHAT, source) {
            // Whatever is in the way, programs and file systems included, is the host's.
            Error::Io { what, source } => Error::Unsupported { what, source },
            error => error,
        };
        let program = datapath.must_wait().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let records = Rc::new(RefCell::new(Vec::new()));
        let writer = Rc::clone(&records);
        let mut builder = RingBufferBuilder::new();
        let take = move |record: &[u8]| {
            writer.borrow_mut().extend(Header::split(record).map(|(header, packet)| (header, packet.to_vec())));
            0
        };
        builder.add(datapath.ring(), take).map_err(|error| Error::from_bpf(WHAT, &error))?;
        let ring = builder.build().map_err(|error| Error::from_bpf(WHAT, &error))?;
        let number = rules::queue_number(device);
        let queue = Queue::open(number).map_err(failed)?;
        let copies = Copies::new(device).map_err(failed)?;
        let rules = Rules::new(device, number, program).map_err(failed)?;
        Ok(Self {
            ring,
            records,
            queue,
            copies,
            slots: Vec::new(),
            free: Vec::new(),
            keys: datapath.shared().keys(),
            lost: 0,
            device: device.clone(),
            _rules: rules,
        })
    }

    fn insert(&mut self, slot: Slot) -> PacketId {
        if let Some(free) = self.free.pop() {
            self.slots[free as usize] = slot;
            return PacketId(free);
        }
        self.slots.push(slot);
        // Far fewer packets than 2^32 fit in memory.
        PacketId(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
    }

    fn take(&mut self, packet: PacketId) -> Slot {
        self.free.push(packet.0);
        std::mem::replace(&mut self.slots[packet.0 as usize], Slot::Free)
    }

    /// Reads the queue into `packets`, by connection and in order. What is no TCP packet is let go.
    fn read_queue(&mut self, packets: &mut Packets) {
        while let Ok(Some((number, payload))) = self.queue.receive() {
            let frame = with_link_header(payload);
            match wire::parse(&frame, &Meta::whole(&frame), Direction::Egress) {
                Ok(packet) => {
                    let (key, ack) = (packet.key, packet.segment.ack);
                    packets.entry(key).or_default().push_back(Packet { ack, number, frame });
                }
                Err(_) => self.queue.verdict(number, Verdict::Accept),
            }
        }
    }
}

/// The frame with this change.
fn changed(mut frame: Vec<u8>, edit: &Edit) -> Vec<u8> {
    if let Ok(packet) = wire::parse(&frame, &Meta::whole(&frame), Direction::Egress) {
        wire::apply(&mut frame, &packet.layout, edit);
    }
    frame
}

/// The bare copy of a packet.
fn bare_copy(frame: &[u8]) -> Slot {
    match wire::parse(frame, &Meta::whole(frame), Direction::Egress) {
        Ok(packet) => Slot::Copy(wire::bare_ack(frame, &packet)),
        // The programs understood it.
        Err(_) => Slot::Lost,
    }
}

/// The packet behind an Ethernet header, as the view of frames wants it.
fn with_link_header(payload: &[u8]) -> Vec<u8> {
    let protocol: [u8; 2] =
        if payload.first().is_some_and(|byte| byte >> 4 == 6) { [0x86, 0xdd] } else { [0x08, 0x00] };
    let mut frame = Vec::with_capacity(LINK + payload.len());
    frame.resize(LINK - 2, 0);
    frame.extend_from_slice(&protocol);
    frame.extend_from_slice(payload);
    frame
}

impl Hold for NfQueue {
    fn name(&self) -> &'static str {
        "nfqueue"
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.queue.poll_fd()
    }

    fn collect(&mut self, arrivals: &mut Vec<Arrival>) {
        let mut packets = Packets::new();
        loop {
            // The queue before the ring: every packet that is found then has its record in the ring.
            self.read_queue(&mut packets);
            let _ = self.ring.consume();
            let records = std::mem::take(&mut *self.records.borrow_mut());
            if records.is_empty() {
                break;
            }
            let patience = Instant::now() + LATE;
            for (header, payload) in records {
                if header.out.copy {
                    let packet = self.insert(bare_copy(&with_link_header(&payload)));
                    arrivals.push(Arrival { packet, flow: header.flow, out: header.out, time: header.time });
                    continue;
                }
                let key = self.keys.key(header.flow);
                let mut found = take_out(&mut packets, key, header.out.ack);
                while found.is_none() && Instant::now() < patience {
                    self.read_queue(&mut packets);
                    found = take_out(&mut packets, key, header.out.ack);
                }
                let slot = found.map_or(Slot::Lost, |packet| Slot::Queued(packet.number, packet.frame));
                let packet = self.insert(slot);
                arrivals.push(Arrival { packet, flow: header.flow, out: header.out, time: header.time });
            }
        }
        for packet in packets.into_values().flatten() {
            self.queue.verdict(packet.number, Verdict::Accept);
        }
        self.queue.flush();
    }

    fn release(&mut self, packet: PacketId, edit: &Edit) {
        match self.take(packet) {
            Slot::Queued(number, _) => self.queue.verdict(number, Verdict::Accept),
            Slot::Copy(frame) => self.lost += u64::from(self.copies.send(&changed(frame, edit)[LINK..]).is_err()),
            Slot::Free | Slot::Lost => {}
        }
    }

    fn split(&mut self, packet: PacketId, edit: &Edit) {
        let slot = &mut self.slots[packet.0 as usize];
        if let Slot::Copy(frame) = slot {
            let copy = changed(frame.clone(), edit);
            self.lost += u64::from(self.copies.send(&copy[LINK..]).is_err());
        } else if let Slot::Queued(number, frame) = slot {
            let number = *number;
            *slot = bare_copy(frame);
            self.queue.verdict(number, Verdict::Accept);
        }
    }

    fn discard(&mut self, packet: PacketId) {
        if let Slot::Queued(number, _) = self.take(packet) {
            self.queue.verdict(number, Verdict::Drop);
        }
    }

    fn flush(&mut self) {
        self.queue.flush();
    }

    fn withdraw(&mut self) {
        self.queue.withdraw();
    }

    fn aid(&self) -> Result<Aid, Error> {
        let failed = |source| Error::from_io("share the netfilter queue", source);
        let copies = Copies::new(&self.device).map_err(failed)?;
        let elsewhere = Elsewhere::Queue(self.queue.share().map_err(failed)?);
        Ok(Aid { outlet: Outlet::Routed(copies), elsewhere })
    }

    fn lost(&self) -> u64 {
        self.lost + self.queue.lost()
    }
}

impl fmt::Debug for NfQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NfQueue").field("queue", &self.queue).field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

/// Whether this host could do it: tried in a network namespace of its own.
///
/// # Errors
/// What is in the way.
pub(crate) fn probe() -> io::Result<()> {
    let datapath = Datapath::load(&ackgate_control::gate::Config::new(96 << 10), crate::datapath::Take::Queue, false);
    let datapath = datapath.map_err(io::Error::other)?;
    let program = datapath.must_wait().ok_or(io::ErrorKind::InvalidInput)?;
    crate::sys::in_new_namespace(|| {
        let loopback = Device { name: "lo".into(), index: 1 };
        let number = rules::queue_number(&loopback);
        let _queue = Queue::open(number)?;
        Rules::new(&loopback, number, program).map(drop)
    })
}
