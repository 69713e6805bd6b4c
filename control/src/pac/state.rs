//! What PAC knows: one [`Gate`] for the receiver, one [`Flow`] per connection. Both have a fixed layout, because on
//! Linux the BPF programs keep the very same structs (`intf.h`) and the scheduler reads them through shared memory.
//!
//! In-flight bytes are kept as a ledger: every charge is owed by a flow until it arrives, is voided (the flow fell
//! silent, ended, or said that it has no more), or is written off by Eq. 6. `Σ flow.owed == gate.owed` always, and
//! `in_flight = owed - written_off` is never negative.

use super::cell::{U32, U64};
use super::config::Config;
use crate::budget::Budget;
use crate::policy::FlowId;

/// Receiver-wide state (PAC Algorithm 1, lines 1-3, and §III-C).
#[derive(Debug, Default)]
#[repr(C)]
pub struct Gate {
    /// Wire bytes charged to flows and neither arrived nor voided.
    pub owed: U64,
    /// Part of `owed` that Eq. 6 judged never to have been sent.
    pub written_off: U64,
    /// Most bytes that may be in flight.
    pub threshold: U64,
    /// Cap of the threshold: the buffer, or the budget that was found to suffice.
    pub cap: U64,
    /// ACKs held now.
    pub held: U64,
    /// Budget in bytes that the scheduler waits for; 0 when it waits for none. Whoever sees it available clears it and
    /// wakes the scheduler.
    pub wanted: U64,
    /// Start of the control interval, ns.
    pub interval_start: U64,
    /// Mean RTT of the flows in the network, without the time that their ACKs are held, ns.
    pub mean_rtt: U64,
    /// Length of the control interval, ns: the mean RTT, and the time that a full threshold takes to arrive.
    pub interval: U64,
    /// Wire bytes that arrived in this interval.
    pub interval_bytes: U64,
    /// Frames that arrived in this interval.
    pub interval_frames: U64,
    /// Of these, frames marked CE.
    pub interval_marked: U64,
    /// Wire bytes charged in this interval.
    pub interval_charged: U64,
    /// Wire bytes charged in the interval before.
    pub charged_before: U64,
    /// BW_S of Eq. 6, in bytes per 2^20 ns.
    pub smooth_bandwidth: U64,
    /// in_flight_S of Eq. 6, in bytes.
    pub smooth_in_flight: U64,
    /// Connections whose handshake is under way.
    pub half_open: U64,
    /// Flows that divide the budget among them: asked and not yet answered, or sending.
    pub engaged: U64,
    /// Most flows that were engaged at once of late: what turns are reckoned with (see [`crate::credit`]).
    pub crowd: U64,
    /// When `crowd` was last let fall, ns.
    pub crowd_since: U64,
    /// Smoothed time from a request to the first data of its response, ns.
    pub response_delay: U64,
    /// Payload of the response that was last seen to be complete, whosever it was; 0 when there was none.
    pub usual_response: U64,
    /// Segments that arrived.
    pub arrivals: U64,
    /// When a connection was last opened from outside, ns.
    pub last_syn: U64,
    /// How many were opened one right after the other until then.
    pub syn_burst: U64,
    /// When data last arrived from any flow, ns.
    pub last_data: U64,
    /// Wire bytes of data that arrived.
    pub bytes: U64,
    /// Data segments that arrived out of turn to fill a hole that our TCP had reported a control interval ago: what loss
    /// looks like at the receiver. Repeats of what was not lost, such as tail loss probes, do not count, and neither does
    /// what has overtaken other segments on the way.
    pub lost: U64,
    /// Segments that passed at once.
    pub passed: U64,
    /// ACKs that were left out because the next one says it all.
    pub thinned: U64,
    /// Times that Eq. 6 corrected the estimate.
    pub corrections: U64,
    /// Wire bytes that were charged and voided.
    pub voided: U64,
    /// Instant of the scheduler's last sign of life, ns; only used where the scheduler is another process.
    pub heartbeat: U64,
}

impl Gate {
    /// An idle receiver.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let gate = Self::default();
        gate.cap.set(Budget::first(config));
        gate.threshold.set(gate.cap.get());
        gate
    }

    /// Bytes that released ACKs have triggered and that have not arrived (PAC §III-C).
    #[inline]
    pub fn in_flight(&self) -> u64 {
        self.owed.get().saturating_sub(self.written_off.get())
    }

    /// Whether `trigger` more bytes may be put in flight: Algorithm 1, line 11. One trigger larger than the threshold
    /// is admitted when nothing else is in flight, or it could never leave.
    #[inline]
    pub fn admits(&self, trigger: u64) -> bool {
        let in_flight = self.in_flight();
        in_flight == 0 || in_flight + trigger <= self.threshold.get()
    }
}

/// Bits of [`Flow::flags`].
pub mod flag {
    /// The entry belongs to a connection that has been seen.
    pub const KNOWN: u32 = 1;
    /// The sender is in congestion avoidance (PAC §III-C); in slow start otherwise.
    pub const AVOIDANCE: u32 = 1 << 1;
    /// SYN seen, handshake not finished.
    pub const HALF_OPEN: u32 = 1 << 2;
    /// FIN or RST seen.
    pub const CLOSING: u32 = 1 << 3;
    /// Duplicate ACKs went out and `recover` is not yet acknowledged.
    pub const RECOVERING: u32 = 1 << 4;
    /// A retransmission arrived for data whose ACK is held: the next duplicate ACK is stale (PAC §III-D).
    pub const OVERTAKEN: u32 = 1 << 5;
    /// The last window that we advertised was zero.
    pub const ZERO_WINDOW: u32 = 1 << 6;
    /// All that was received ended with a PSH.
    pub const PUSHED: u32 = 1 << 7;
    /// The flow has continued after a PSH without being asked: a PSH tells nothing.
    pub const PUSHES_MIDWAY: u32 = 1 << 8;
    /// The sender's FIN has arrived: nothing follows.
    pub const PEER_DONE: u32 = 1 << 11;
    /// The flow takes part in the division of the budget.
    pub const ENGAGED: u32 = 1 << 12;
    /// The handshake was seen, and with it the window scale.
    pub const SCALE_KNOWN: u32 = 1 << 13;
    /// The sender has been told to reduce its window: `recover` is valid.
    pub const REDUCED: u32 = 1 << 14;
    /// An ACK of the flow was held in the flow's own interval.
    pub const WAITED: u32 = 1 << 15;
    /// All that was received ended with a PSH short of the right edge: the sender may have no more.
    pub const STOPPED: u32 = 1 << 16;
    /// A request has left and nothing has arrived since.
    pub const ASKED: u32 = 1 << 17;
    /// We have sent data, such as a request: a response begins with the next, not with a pause.
    pub const ASKS: u32 = 1 << 18;
    /// All that was received ended with a PSH, and what was released since then brought nothing: nothing follows.
    pub const DRY: u32 = 1 << 19;
    /// A bare copy of an ACK is held: the sender waits for the grant that will come with it.
    pub const COPIED: u32 = 1 << 20;
    /// Something that triggers data has left since new data last came.
    pub const AWAITED: u32 = 1 << 21;
    /// Something has been received.
    pub const RECEIVED: u32 = 1 << 9;
    /// An ACK has been seen from our side: `released_ack` and `ack_high` are valid.
    pub const ACKED: u32 = 1 << 10;
}

/// State of one connection. All sizes in bytes, all times in ns.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Flow {
    /// Last packet in either direction.
    pub last_seen: U64,
    /// Last charge or arrival of data: where the silence of an indebted flow is measured from.
    pub last_active: U64,
    /// When the SYN or SYN-ACK left whose answer gives the handshake's RTT; 0 when none is awaited.
    pub handshake_start: U64,
    /// When the TSval in `ts_value` was first used; 0 when none is awaited.
    pub ts_start: U64,
    /// Start of the flow's own interval (RTT_i).
    pub interval_start: U64,
    /// Throughput of the interval before, in bytes per 2^20 ns; 0 when there was none.
    pub last_bandwidth: U64,
    /// Payload received since the last request: the flow's size for the priority levels.
    pub size: U64,
    /// Bits of [`flag`].
    pub flags: U32,
    /// Wire bytes charged and neither arrived nor voided.
    pub owed: U32,
    /// Latest released acknowledgement number (ACK_prev of Eq. 3).
    pub released_ack: U32,
    /// Highest acknowledgement number that our TCP has sent, released or held.
    pub ack_high: U32,
    /// Sequence number after the highest byte received.
    pub received: U32,
    /// End of what was sent before the sender's window was last reduced (RFC 6582's `recover`, seen from the receiver):
    /// loss recovery, or the reaction to one ECN-Echo (RFC 3168 §6.1.2), ends when it is acknowledged.
    pub recover: U32,
    /// Model of the sender's congestion window: `Window` of Eq. 3.
    pub window: U32,
    /// Payload of the last complete response; 0 when none is known.
    pub last_response: U32,
    /// Payload received in the flow's own interval.
    pub interval_bytes: U32,
    /// Consecutive intervals in which throughput fell to λ of the one before.
    pub slow_intervals: U32,
    /// Base RTT from the handshake, or smoothed RTT from timestamps.
    pub rtt: U32,
    /// Smoothed delay that holding adds.
    pub added_delay: U32,
    /// TSval whose echo is awaited.
    pub ts_value: U32,
    /// Largest payload of one frame.
    pub mss: U32,
    /// Header bytes of one frame.
    pub header: U32,
    /// Window field of our last segment, unscaled.
    pub last_window: U32,
    /// Packets of this flow that are held.
    pub held: U32,
    /// Counts the connections that used this entry.
    pub generation: U32,
    /// Highest right edge that has left this host.
    pub edge: U32,
    /// Our window scale (RFC 7323).
    pub scale: U32,
    /// TSval of our last segment.
    pub tsval: U32,
    /// When the first duplicate ACK of the present recovery left our TCP: the low 32 bits of ns.
    pub hole_since: U32,
    /// Payload received since the flow last paused or was asked.
    pub run: U32,
    /// Of what was owed when the flow's books were last looked through, wire bytes: all of it, and what is not paid yet.
    pub due: U32,
    /// See `due`.
    pub unpaid: U32,
    /// When that was: the low 32 bits of ns.
    pub due_since: U32,
}

impl Flow {
    /// RTT_i: base RTT plus the delay that holding adds (PAC §IV-A), ns.
    #[inline]
    pub fn round_trip(&self) -> u64 {
        u64::from(self.rtt.get()) + u64::from(self.added_delay.get())
    }

    /// Wire bytes of `payload` bytes in frames of this flow's size.
    #[inline]
    pub fn wire(&self, payload: u64) -> u64 {
        payload + payload * u64::from(self.header.get()) / u64::from(self.mss.get().max(1))
    }
}

/// Where the states live: a vector in the simulator, shared memory on Linux.
pub trait State {
    /// The receiver-wide state.
    fn gate(&self) -> &Gate;
    /// The state of a connection; `None` for an index that was never handed out.
    fn flow(&self, id: FlowId) -> Option<&Flow>;
    /// Indices in use are below this.
    fn flow_count(&self) -> u32;
}
