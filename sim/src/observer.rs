//! How the inside of a run is seen: a trace, a capture or a plot implements [`Observer`] and is shown what happens.
//!
//! A run is generic over its observer, so that nothing is spent on what nobody looks at: with [`Nobody`] every call
//! compiles to nothing. Observers cannot change a run; they may end it before its time.

use std::sync::atomic::{AtomicBool, Ordering};

use ackgate_control::policy::{Action, FlowId, PacketId, Verdict};
use ackgate_control::segment::{Edit, Segment};
use ackgate_control::seq::SeqNumber;
use ackgate_control::units::{Span, Time};

/// Where packets are seen: the near end of one interface, an index into [`Observer::begin`]'s list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point(pub u32);

/// One interface of the simulated network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Name for people: `receiver`, `sender3`, `switch0:receiver` (the port of switch 0 towards the receiver).
    pub name: String,
    /// What it belongs to.
    pub kind: InterfaceKind,
    /// Link rate in bits per second.
    pub rate: u64,
    /// Whether this is the port whose queue the report describes.
    pub bottleneck: bool,
}

/// What an interface belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceKind {
    /// A host's only interface.
    Host,
    /// A switch port.
    Port,
}

/// Which way a packet passes an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the wire into the host (last bit received) or switch.
    In,
    /// From the host or switch onto the wire (first bit sent).
    Out,
}

/// Who a packet is from or for. Hosts are numbered through the network; a connection has its own port at each end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Host number, below 2^24.
    pub host: u32,
    /// TCP port.
    pub port: u16,
}

/// Everything that a frame's headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Sender of this packet.
    pub from: Endpoint,
    /// Receiver of this packet.
    pub to: Endpoint,
    /// Connection, counted through the run: both directions have the same.
    pub connection: u32,
    /// TCP header and payload length; CE as the packet is now. `sack` of a SYN says that SACK is permitted.
    pub segment: Segment,
    /// Whether the IP header says ECN-capable transport, ECT(0).
    pub ect: bool,
    /// SACK blocks (left edge, right edge), valid up to `sack_blocks`.
    pub sack: [(SeqNumber, SeqNumber); 3],
    /// Number of valid SACK blocks, 0 to 3.
    pub sack_blocks: u8,
    /// IP identification.
    pub id: u16,
    /// A data segment that was sent before.
    pub retransmission: bool,
    /// What it is: of anything but TCP the segment has the payload alone.
    pub protocol: Protocol,
    /// M21TCP-A's field: its bytes (4 for an IP option, 8 for a TCP option) and the number of senders in it.
    pub count: Option<(u8, u32)>,
}

/// What an IP packet carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A TCP segment.
    Tcp,
    /// A datagram.
    Udp,
    /// A scheme's probe: nothing.
    Probe,
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The port's, pool's or host queue's bound.
    Full,
    /// Early drop by the queue discipline.
    Early,
    /// Lost by chance (`switch.loss`).
    Chance,
    /// Discarded by the scheme.
    Scheme,
}

/// A sender's congestion state after an event changed it. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Congestion {
    /// Congestion window.
    pub cwnd: u64,
    /// Slow-start threshold, `u64::MAX` while there is none.
    pub ssthresh: u64,
    /// Sent and not acknowledged.
    pub in_flight: u64,
}

/// A scheme's state at one receiver. Bytes and packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// What the scheme believes is on its way to the receiver.
    pub in_flight: u64,
    /// What it allows.
    pub threshold: u64,
    /// Packets held.
    pub held: u32,
}

/// What a scheme in a host's shim slot was told, and what it answered, in the order in which it happened: enough to
/// drive another instance of it through the same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A segment arrived from the network, and goes to TCP with this change.
    Ingress {
        /// The scheme's number of the connection.
        flow: FlowId,
        /// As it came.
        segment: Segment,
        /// What is changed.
        edit: Edit,
    },
    /// TCP sent a segment.
    Egress {
        /// The scheme's number of the connection.
        flow: FlowId,
        /// As TCP sent it.
        segment: Segment,
        /// The handle under which it is held, if it is.
        packet: PacketId,
        /// What becomes of it.
        verdict: Verdict,
    },
    /// The scheme was asked what is to be done with held packets, until it said nothing.
    Poll(Option<Action>),
}

/// A flow of finite length that is complete: a sender's part of a round, or a short flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The background group whose flow it is, from 0; `None` for the main workload.
    pub background: Option<u32>,
    /// Sender within its group, from 0.
    pub sender: u32,
    /// Round or epoch, from 1; `None` where there are none.
    pub round: Option<u32>,
    /// Application data.
    pub bytes: u64,
    /// Time to the last byte at the receiver: since the round's start, or since the flow's own.
    pub took: Span,
}

/// Sees a run from inside. All methods do nothing unless implemented; times never decrease from call to call.
pub trait Observer {
    /// Whether a run should make any of the calls below.
    const ENABLED: bool = true;

    /// Whether a run should ask [`stop`](Self::stop) now and then.
    const STOPS: bool = false;

    /// Whether the run is to end now, without a result.
    fn stop(&self) -> bool {
        false
    }

    /// Before the first event: the interfaces that [`Point`]s number.
    fn begin(&mut self, interfaces: &[Interface]) {
        let _ = interfaces;
    }

    /// A packet passes an interface.
    fn packet(&mut self, now: Time, at: Point, way: Way, packet: &Packet) {
        let _ = (now, at, way, packet);
    }

    /// A packet is dropped at an interface.
    fn dropped(&mut self, now: Time, at: Point, packet: &Packet, reason: DropReason) {
        let _ = (now, at, packet, reason);
    }

    /// The queue of a switch port changed: frames waiting, and their bytes.
    fn queue(&mut self, now: Time, at: Point, bytes: u64, packets: u32) {
        let _ = (now, at, bytes, packets);
    }

    /// An ACK or a timeout changed a sender's window or bytes in flight. A connection that has ended is not shown again
    /// until its number is used anew.
    fn congestion(&mut self, now: Time, connection: u32, state: &Congestion) {
        let _ = (now, connection, state);
    }

    /// A retransmission timeout of a connection.
    fn timeout(&mut self, now: Time, connection: u32) {
        let _ = (now, connection);
    }

    /// The state of the scheme at a receiver (host number) changed.
    fn gate(&mut self, now: Time, host: u32, state: &Gate) {
        let _ = (now, host, state);
    }

    /// The scheme of a host (number) was driven one step on.
    fn shim(&mut self, now: Time, host: u32, step: &Step) {
        let _ = (now, host, step);
    }

    /// A round (or epoch) of the main workload begins.
    fn round_begins(&mut self, now: Time, round: u32) {
        let _ = (now, round);
    }

    /// A round (or epoch) of the main workload is complete after `took`.
    fn round_ends(&mut self, now: Time, round: u32, took: Span) {
        let _ = (now, round, took);
    }

    /// A flow of finite length is complete.
    fn flow_ends(&mut self, now: Time, flow: &Flow) {
        let _ = (now, flow);
    }
}

/// Looks at nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Observer for Nobody {
    const ENABLED: bool = false;
}

/// Ends a run when a flag is set, which may be by another thread or a signal; else looks at nothing.
#[derive(Clone, Copy, Debug)]
pub struct Until<'a>(pub &'a AtomicBool);

impl Observer for Until<'_> {
    const ENABLED: bool = false;
    const STOPS: bool = true;

    fn stop(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// An observer that may be left out.
impl<O: Observer> Observer for Option<O> {
    const ENABLED: bool = O::ENABLED;
    const STOPS: bool = O::STOPS;

    fn stop(&self) -> bool {
        self.as_ref().is_some_and(Observer::stop)
    }

    fn begin(&mut self, interfaces: &[Interface]) {
        self.iter_mut().for_each(|observer| observer.begin(interfaces));
    }

    fn packet(&mut self, now: Time, at: Point, way: Way, packet: &Packet) {
        self.iter_mut().for_each(|observer| observer.packet(now, at, way, packet));
    }

    fn dropped(&mut self, now: Time, at: Point, packet: &Packet, reason: DropReason) {
        self.iter_mut().for_each(|observer| observer.dropped(now, at, packet, reason));
    }

    fn queue(&mut self, now: Time, at: Point, bytes: u64, packets: u32) {
        self.iter_mut().for_each(|observer| observer.queue(now, at, bytes, packets));
    }

    fn congestion(&mut self, now: Time, connection: u32, state: &Congestion) {
        self.iter_mut().for_each(|observer| observer.congestion(now, connection, state));
    }

    fn timeout(&mut self, now: Time, connection: u32) {
        self.iter_mut().for_each(|observer| observer.timeout(now, connection));
    }

    fn gate(&mut self, now: Time, host: u32, state: &Gate) {
        self.iter_mut().for_each(|observer| observer.gate(now, host, state));
    }

    fn shim(&mut self, now: Time, host: u32, step: &Step) {
        self.iter_mut().for_each(|observer| observer.shim(now, host, step));
    }

    fn round_begins(&mut self, now: Time, round: u32) {
        self.iter_mut().for_each(|observer| observer.round_begins(now, round));
    }

    fn round_ends(&mut self, now: Time, round: u32, took: Span) {
        self.iter_mut().for_each(|observer| observer.round_ends(now, round, took));
    }

    fn flow_ends(&mut self, now: Time, flow: &Flow) {
        self.iter_mut().for_each(|observer| observer.flow_ends(now, flow));
    }
}

/// Two observers see the same run.
impl<A: Observer, B: Observer> Observer for (A, B) {
    const ENABLED: bool = A::ENABLED || B::ENABLED;
    const STOPS: bool = A::STOPS || B::STOPS;

    fn stop(&self) -> bool {
        self.0.stop() || self.1.stop()
    }

    fn begin(&mut self, interfaces: &[Interface]) {
        self.0.begin(interfaces);
        self.1.begin(interfaces);
    }

    fn packet(&mut self, now: Time, at: Point, way: Way, packet: &Packet) {
        self.0.packet(now, at, way, packet);
        self.1.packet(now, at, way, packet);
    }

    fn dropped(&mut self, now: Time, at: Point, packet: &Packet, reason: DropReason) {
        self.0.dropped(now, at, packet, reason);
        self.1.dropped(now, at, packet, reason);
    }

    fn queue(&mut self, now: Time, at: Point, bytes: u64, packets: u32) {
        self.0.queue(now, at, bytes, packets);
        self.1.queue(now, at, bytes, packets);
    }

    fn congestion(&mut self, now: Time, connection: u32, state: &Congestion) {
        self.0.congestion(now, connection, state);
        self.1.congestion(now, connection, state);
    }

    fn timeout(&mut self, now: Time, connection: u32) {
        self.0.timeout(now, connection);
        self.1.timeout(now, connection);
    }

    fn gate(&mut self, now: Time, host: u32, state: &Gate) {
        self.0.gate(now, host, state);
        self.1.gate(now, host, state);
    }

    fn shim(&mut self, now: Time, host: u32, step: &Step) {
        self.0.shim(now, host, step);
        self.1.shim(now, host, step);
    }

    fn round_begins(&mut self, now: Time, round: u32) {
        self.0.round_begins(now, round);
        self.1.round_begins(now, round);
    }

    fn round_ends(&mut self, now: Time, round: u32, took: Span) {
        self.0.round_ends(now, round, took);
        self.1.round_ends(now, round, took);
    }

    fn flow_ends(&mut self, now: Time, flow: &Flow) {
        self.0.flow_ends(now, flow);
        self.1.flow_ends(now, flow);
    }
}
