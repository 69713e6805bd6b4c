//! What an observer is shown, put in order of time. A frame's future on a channel is known as soon as it is queued, so
//! some calls are made ready ahead of their time; they wait here until the clock has come to them.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use ackgate_control::segment::Flags;
use ackgate_control::units::Span;

use crate::engine::Ps;
use crate::net::{Packet, Route, Side};
use crate::observer::{self, Congestion, DropReason, Endpoint, Gate, Interface, Observer, Point, Protocol, Step, Way};

/// Passes what happens to an observer; costs nothing when it does not look.
pub(crate) struct Watch<'a, O> {
    observer: &'a mut O,
    pending: BinaryHeap<Pending>,
    serial: u64,
    /// Bytes and frames that wait at each interface, as shown so far.
    queues: Vec<(u64, u32)>,
}

/// A call that waits for its time.
struct Pending {
    at: Ps,
    serial: u64,
    call: Call,
}

enum Call {
    Packet(Point, Way, observer::Packet),
    Dropped(Point, observer::Packet, DropReason),
    /// A frame of so many bytes joins (true) or leaves a queue.
    Queue(Point, u32, bool),
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Pending {}
impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Pending {
    /// Earliest is greatest: the heap gives the greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.serial).cmp(&(self.at, self.serial))
    }
}

/// Facts about a packet that only its connection knows.
pub(crate) struct Known<'a> {
    pub(crate) route: &'a Route,
    pub(crate) connection: u32,
    pub(crate) life: u8,
    pub(crate) mss: u16,
    pub(crate) wscale: u8,
    pub(crate) sack: bool,
    pub(crate) field: u8,
    pub(crate) trailer: u8,
}

impl<'a, O: Observer> Watch<'a, O> {
    pub(crate) fn new(observer: &'a mut O, interfaces: &[Interface]) -> Self {
        if O::ENABLED {
            observer.begin(interfaces);
        }
        let queues = if O::ENABLED { vec![(0, 0); interfaces.len()] } else { Vec::new() };
        Self { observer, pending: BinaryHeap::new(), serial: 0, queues }
    }

    /// Whether the observer wants the run to end.
    pub(crate) fn stop(&self) -> bool {
        self.observer.stop()
    }

    /// Makes all calls that are due before `now`.
    pub(crate) fn catch_up(&mut self, now: Ps) {
        while self.pending.peek().is_some_and(|pending| pending.at <= now) {
            let Some(Pending { at, call, .. }) = self.pending.pop() else { return };
            let time = at.to_time();
            match call {
                Call::Packet(point, way, packet) => self.observer.packet(time, point, way, &packet),
                Call::Dropped(point, packet, reason) => self.observer.dropped(time, point, &packet, reason),
                Call::Queue(point, frame, joins) => {
                    let (bytes, packets) = &mut self.queues[point.0 as usize];
                    if joins {
                        *bytes += u64::from(frame);
                        *packets += 1;
                    } else {
                        *bytes -= u64::from(frame);
                        *packets -= 1;
                    }
                    self.observer.queue(time, point, *bytes, *packets);
                }
            }
        }
    }

    fn later(&mut self, at: Ps, call: Call) {
        self.serial += 1;
        self.pending.push(Pending { at, serial: self.serial, call });
    }

    pub(crate) fn packet(&mut self, at: Ps, channel: u32, way: Way, packet: &Packet, known: &Known<'_>) {
        // The far end of a channel is the interface of the other direction.
        let point = if way == Way::Out { Point(channel) } else { Point(channel ^ 1) };
        let packet = describe(packet, known);
        self.later(at, Call::Packet(point, way, packet));
    }

    pub(crate) fn dropped(&mut self, at: Ps, channel: u32, packet: &Packet, known: &Known<'_>, reason: DropReason) {
        let packet = describe(packet, known);
        self.later(at, Call::Dropped(Point(channel), packet, reason));
    }

    pub(crate) fn queued(&mut self, from: Ps, until: Ps, channel: u32, frame: u32) {
        self.later(from, Call::Queue(Point(channel), frame, true));
        self.later(until, Call::Queue(Point(channel), frame, false));
    }

    pub(crate) fn congestion(&mut self, now: Ps, connection: u32, state: &Congestion) {
        self.observer.congestion(now.to_time(), connection, state);
    }

    pub(crate) fn timeout(&mut self, now: Ps, connection: u32) {
        self.observer.timeout(now.to_time(), connection);
    }

    pub(crate) fn gate(&mut self, now: Ps, host: u32, state: &Gate) {
        self.observer.gate(now.to_time(), host, state);
    }

    pub(crate) fn shim(&mut self, now: Ps, host: u32, step: &Step) {
        if O::ENABLED {
            self.observer.shim(now.to_time(), host, step);
        }
    }

    pub(crate) fn round_begins(&mut self, now: Ps, round: u32) {
        if O::ENABLED {
            self.observer.round_begins(now.to_time(), round);
        }
    }

    pub(crate) fn round_ends(&mut self, now: Ps, round: u32, took: Span) {
        if O::ENABLED {
            self.observer.round_ends(now.to_time(), round, took);
        }
    }

    pub(crate) fn flow_ends(&mut self, now: Ps, flow: &observer::Flow) {
        if O::ENABLED {
            self.observer.flow_ends(now.to_time(), flow);
        }
    }
}

fn describe(packet: &Packet, known: &Known<'_>) -> observer::Packet {
    // The receiver's port names the connection, the sender's its life: no two connections share both. The ranges are
    // free of ports that Wireshark knows a protocol for, which it would look for in our payload of zeros.
    let nth = known.route.nth.wrapping_add(known.connection);
    let life = (nth / 9_000 * 256 + u32::from(known.life)) % 7_000;
    let port = |base: u32, offset: u32| u16::try_from(base + offset).unwrap_or(u16::MAX);
    let sender = Endpoint { host: known.route.host[0], port: port(50_000, life) };
    let receiver = Endpoint { host: known.route.host[1], port: port(35_000, nth % 9_000) };
    let (from, to) = if packet.from == Side::Sender { (sender, receiver) } else { (receiver, sender) };
    let mut segment = packet.segment(known.mss, known.wscale, known.trailer);
    segment.sack |= known.sack && segment.flags.has(Flags::SYN);
    observer::Packet {
        from,
        to,
        connection: known.connection,
        segment,
        ect: packet.is(Packet::ECT),
        sack: packet.sack,
        sack_blocks: packet.sack_len,
        // A probe names its connection by the opener's port.
        id: if packet.is(Packet::PROBE) { from.port } else { packet.seq.0 as u16 ^ packet.ack.0 as u16 },
        retransmission: packet.is(Packet::RETRANSMISSION),
        protocol: if packet.is(Packet::PROBE) {
            Protocol::Probe
        } else if packet.is(Packet::DATAGRAM) {
            Protocol::Udp
        } else {
            Protocol::Tcp
        },
        count: (known.field > 0).then_some((known.field, packet.senders)),
    }
}
