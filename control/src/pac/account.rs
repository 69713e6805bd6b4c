//! The packet path: what every segment does to the ledger, and whether an outgoing one may leave now. This file,
//! `estimate.rs` and `interval.rs` are what the BPF programs mirror; integers only, no allocation, no loops.

use super::config::{Config, Hold, LARGEST_REQUEST, Requests, RttMethod};
use super::estimate::{estimate, whole_segments};
use super::interval::{self, disengage, engage, smooth, void};
use super::state::{Flow, Gate, flag};
use crate::credit;
use crate::segment::{Edit, Flags, Segment};
use crate::seq::SeqNumber;
use crate::units::Time;

/// Payload of a frame until the flow has shown its own: MTU 1500 with timestamps.
pub const USUAL_MSS: u32 = 1448;
/// Header bytes of a frame until the flow has shown its own: Ethernet 14, IPv4 20, TCP 20, timestamps 12 (PAC §IV-A).
pub const USUAL_HEADER: u32 = 66;
/// Longest RTT that is believed, ns: above, the sample was a pause of the application.
const LONGEST_RTT: u64 = 1_000_000_000;

/// What an outgoing segment is to the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Acknowledges new data (or updates the window): triggers what Eq. 3 says.
    Ack,
    /// A SYN-ACK or the handshake's last ACK: triggers the sender's initial window.
    Handshake,
    /// Asks an idle sender for a response: triggers the window that the sender has kept.
    Request,
    /// Loss recovery or flow control must not wait: duplicate ACKs, SACK, partial ACKs, the end of a zero window.
    Urgent,
    /// A duplicate ACK caused by a retransmission that overtook a held ACK (PAC §III-D).
    Stale,
    /// Other data of ours, with whatever it acknowledges. Not held for its own sake.
    Data,
}

/// What is remembered of an outgoing segment while it is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// What it is to the gate.
    pub class: Class,
    /// Its acknowledgement number.
    pub ack: SeqNumber,
    /// It carries ECN-Echo: the sender will not grow its window (PAC §III-C).
    pub ece: bool,
    /// It carries payload, and so must never be discarded.
    pub data: bool,
    /// It repeats the acknowledgement number before it.
    pub repeated: bool,
    /// It has left already, without a grant: this is its bare copy.
    pub copy: bool,
    /// Its window field as TCP wrote it.
    pub window: u16,
    /// Binary logarithm of the window field's unit: the window scale, 0 on a SYN-ACK (RFC 7323 §2.2).
    pub shift: u8,
}

impl Outgoing {
    /// What it says if it leaves now: a copy speaks for the flow as it stands.
    #[must_use]
    pub(crate) fn now(self, flow: &Flow) -> Self {
        if !self.copy {
            return self;
        }
        Self { ack: SeqNumber(flow.released_ack.get()), window: flow.last_window.get() as u16, ..self }
    }
}

/// May it leave now?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes, with this change; it has been charged.
    Pass(Edit),
    /// No: the scheduler decides.
    Hold(Outgoing),
    /// Yes, with this change but without a grant; a bare copy waits for that.
    Split(Edit, Outgoing),
    /// It need not leave at all: the next ACK says what it says.
    Discard,
}

/// What an outgoing segment triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Wire bytes.
    pub wire: u64,
    /// Growth of the sender's congestion window in bytes: `Increment` of Eq. 3.
    pub increment: u32,
    /// The right edge that goes with it, where windows are granted or bounded.
    pub edge: Option<SeqNumber>,
}

impl Trigger {
    pub(super) const NOTHING: Self = Self::estimate(0, 0);

    pub(super) const fn estimate(wire: u64, increment: u32) -> Self {
        Self { wire, increment, edge: None }
    }
}

/// Prepares an entry for a connection that is seen for the first time, or that reuses the entry of an ended one.
pub fn open(config: &Config, gate: &Gate, flow: &Flow, now: Time) {
    close(gate, flow);
    flow.flags.set(flag::KNOWN);
    flow.last_seen.set(now.0);
    flow.last_active.set(now.0);
    flow.handshake_start.set(0);
    flow.ts_start.set(0);
    flow.interval_start.set(0);
    flow.last_bandwidth.set(0);
    flow.size.set(0);
    flow.mss.set(USUAL_MSS);
    flow.header.set(USUAL_HEADER);
    flow.window.set(config.initial_window * USUAL_MSS);
    flow.last_response.set(0);
    flow.interval_bytes.set(0);
    flow.slow_intervals.set(0);
    flow.rtt.set(0);
    flow.added_delay.set(0);
    flow.scale.set(0);
    flow.run.set(0);
    flow.generation.add(1);
}

fn close_handshake(gate: &Gate, flow: &Flow) {
    if flow.flags.any(flag::HALF_OPEN) {
        flow.flags.lower(flag::HALF_OPEN);
        gate.half_open.take_up_to(1);
    }
}

/// Ends a connection's claims: called before the entry is given to another.
pub fn close(gate: &Gate, flow: &Flow) {
    void(gate, flow);
    disengage(gate, flow);
    close_handshake(gate, flow);
    flow.flags.set(0);
}

/// A segment arrived from the network (Algorithm 1, lines 5-7). Says whether the scheduler's wish for budget has come
/// true.
pub fn ingress(config: &Config, gate: &Gate, flow: &Flow, segment: &Segment, now: Time) -> bool {
    interval::roll(config, gate, now);
    gate.arrivals.add(1);
    if segment.flags.has(Flags::SYN) {
        if !segment.flags.has(Flags::ACK) {
            open(config, gate, flow, now);
            start_handshake(gate, flow);
            interval::note_syn(config, gate, now);
        } else if segment.wscale.is_none() {
            flow.scale.set(0);
        }
        sample_handshake(gate, flow, segment, now);
    } else if !flow.flags.any(flag::KNOWN) {
        open(config, gate, flow, now);
    }
    flow.last_seen.set(now.0);
    if segment.flags.has(Flags::RST) {
        close_handshake(gate, flow);
        flow.flags.raise(flag::CLOSING);
        void(gate, flow);
        disengage(gate, flow);
    } else if !segment.flags.has(Flags::SYN) {
        if flow.flags.any(flag::HALF_OPEN) {
            sample_handshake(gate, flow, segment, now);
            close_handshake(gate, flow);
        }
        if segment.payload > 0 || segment.flags.has(Flags::FIN) {
            receive(config, gate, flow, segment, now);
        } else if credit::governs(config, flow) {
            pay(gate, flow, segment);
        }
    }
    if config.rtt == RttMethod::Timestamps {
        sample_timestamp(flow, segment, now);
    }
    let wanted = gate.wanted.get();
    wanted > 0 && gate.admits(wanted) && gate.wanted.replace(wanted, 0)
}

fn start_handshake(gate: &Gate, flow: &Flow) {
    flow.flags.raise(flag::HALF_OPEN);
    gate.half_open.add(1);
}

/// PAC §IV-A, method 2: the handshake's round trip.
fn sample_handshake(gate: &Gate, flow: &Flow, segment: &Segment, now: Time) {
    let start = flow.handshake_start.take();
    if start != 0 && segment.flags.has(Flags::ACK) {
        let rtt = now.since(Time(start)).0.min(LONGEST_RTT);
        flow.rtt.set(rtt as u32);
        interval::note_rtt(gate, rtt);
    }
}

/// PAC §IV-A, method 1: the echo of a TSval that was new when we sent it.
fn sample_timestamp(flow: &Flow, segment: &Segment, now: Time) {
    let start = flow.ts_start.get();
    if let Some((_, echo)) = segment.timestamps
        && start != 0
        && !SeqNumber(echo).before(SeqNumber(flow.ts_value.get()))
    {
        flow.ts_start.set(0);
        let sample = now.since(Time(start)).0.min(LONGEST_RTT);
        flow.rtt.set(smooth(u64::from(flow.rtt.get()), sample) as u32);
    }
}

/// A debt is paid. What Eq. 6 has written off is spread over all debts alike, and its share in this one was wrong: were it
/// kept, one wrong correction would leave the gate that much too wide for good.
fn pay(gate: &Gate, flow: &Flow, segment: &Segment) {
    let paid = u64::from(flow.owed.take_up_to(segment.wire_bytes()));
    flow.unpaid.take_up_to(segment.wire_bytes());
    let written_off = gate.written_off.get();
    if written_off > 0 {
        gate.written_off.take_up_to((written_off * paid).div_ceil(gate.owed.get().max(1)));
    }
    gate.owed.sub(paid);
}

/// Data arrived: it pays the flow's debt (Eq. 5, in wire bytes) and tells about the sender.
fn receive(config: &Config, gate: &Gate, flow: &Flow, segment: &Segment, now: Time) {
    let wire = segment.wire_bytes();
    pay(gate, flow, segment);
    gate.last_data.set(now.0);
    gate.bytes.add(u64::from(wire));
    gate.interval_bytes.add(u64::from(wire));
    gate.interval_frames.add(u64::from(segment.frames));
    let pause = now.since(Time(flow.last_active.get())).0;
    flow.last_active.set(now.0);
    if !credit::governs(config, flow) {
        interval::look_through(config, gate, flow, pause, now);
    }
    if pause > config.silence.0.max(2 * gate.interval.get()) {
        flow.run.set(0);
    }
    flow.run.add(segment.payload);
    if flow.flags.any(flag::ASKED) {
        flow.flags.lower(flag::ASKED);
        gate.response_delay.set(smooth(gate.response_delay.get(), pause.min(LONGEST_RTT)));
    }
    flow.header.set(u32::from(segment.header));
    let frame = segment.payload / u32::from(segment.frames.max(1));
    if frame > flow.mss.get() {
        flow.mss.set(frame);
    }
    if segment.ce {
        gate.interval_marked.add(u64::from(segment.frames));
    }
    interval::roll_flow(config, gate, flow, now);
    flow.interval_bytes.add(segment.payload);

    let end = segment.end();
    let received = SeqNumber(flow.received.get());
    if !flow.flags.any(flag::RECEIVED) || end.after(received) {
        if flow.flags.any(flag::PUSHED) {
            // Unasked data after a PSH: a new message if it comes after a pause that was the sender's own, else the PSH
            // was in mid-stream. A sender that waits to be asked does not begin by itself.
            let stopped =
                if credit::governs(config, flow) { !flow.flags.any(flag::STOPPED) } else { flow.flags.any(flag::ASKS) };
            if !stopped && pause > interval::longest_pause(config, gate, flow) {
                end_response(gate, flow);
            } else {
                flow.flags.raise(flag::PUSHES_MIDWAY);
            }
        }
        // With the holes, which retransmissions will fill.
        let known = flow.flags.any(flag::RECEIVED);
        flow.size.add(u64::from(if known { end.ahead_of(received) } else { segment.payload }));
        flow.received.set(end.0);
        flow.flags.raise(flag::RECEIVED);
        flow.flags.lower(flag::DRY | flag::AWAITED);
        note_flight(flow, end);
        flow.flags.put(flag::PUSHED, segment.flags.has(Flags::PSH));
        flow.flags.put(flag::STOPPED, segment.flags.has(Flags::PSH) && credit::stopped_short(flow, segment.payload));
        if segment.flags.has(Flags::FIN) {
            flow.flags.raise(flag::CLOSING | flag::PEER_DONE);
            end_response(gate, flow);
        }
        if has_no_more(config, gate, flow) {
            void(gate, flow);
            disengage(gate, flow);
        } else if engage(gate, flow) && credit::governs(config, flow) {
            // Nobody asked: the sender uses an edge that it had kept.
            flow.run.set(segment.payload);
            owe(gate, flow, flow.wire(u64::from(credit::remaining(flow, end))));
        }
    } else {
        let age = (now.0 as u32).wrapping_sub(flow.hole_since.get());
        if flow.flags.any(flag::RECOVERING) && u64::from(age) >= config.min_interval.0 {
            gate.lost.add(1);
        }
        note_overtaken(flow, end);
    }
}

/// What a sender has sent beyond what has been acknowledged to it is no more than its window: where the model is smaller,
/// the model is wrong. What was sent before a reduction tells nothing about the window after it.
fn note_flight(flow: &Flow, end: SeqNumber) {
    let flags = flow.flags.get();
    let before_reduction = flags & flag::REDUCED != 0 && !end.after(SeqNumber(flow.recover.get()));
    if flags & flag::ACKED != 0 && flags & flag::RECOVERING == 0 && !before_reduction {
        let flight = end.ahead_of(SeqNumber(flow.released_ack.get()));
        if flight > flow.window.get() {
            flow.window.set(flight);
        }
    }
}

/// A segment brought nothing new: if it is what a held ACK acknowledges, the sender's timer has overtaken the ACK.
fn note_overtaken(flow: &Flow, end: SeqNumber) {
    if flow.held.get() > 0
        && !end.after(SeqNumber(flow.ack_high.get()))
        && end.after(SeqNumber(flow.released_ack.get()))
    {
        flow.flags.raise(flag::OVERTAKEN);
    }
}

/// A response is complete and the next begins: the flow counts as new for the priority levels.
fn end_response(gate: &Gate, flow: &Flow) {
    let size = flow.size.take();
    if size > 0 {
        gate.usual_response.set(size);
        flow.last_response.set(u32::try_from(size).unwrap_or(u32::MAX));
    }
    flow.run.set(0);
    flow.interval_start.set(0);
    flow.last_bandwidth.set(0);
}

/// Whether the sender has told that nothing follows what has been received: by a FIN, or by a PSH, if the flow's
/// PSHs have not been followed by more so far, if this one stands where the last response ended, too, or if what was
/// released since then brought nothing.
/// Under exact credit the PSHs of a flow's first response are only believed where others' responses ended: Linux sets one
/// every half window, with the rest of the burst right behind it.
pub(crate) fn has_no_more(config: &Config, gate: &Gate, flow: &Flow) -> bool {
    let flags = flow.flags.get();
    let governed = credit::governs(config, flow);
    let response = if governed { credit::expected(gate, flow) } else { u64::from(flow.last_response.get()) };
    let first = governed && flow.last_response.get() == 0;
    let believed =
        flow.size.get() == response || flags & flag::DRY != 0 || (!first && flags & flag::PUSHES_MIDWAY == 0);
    let pushed = config.push_ends_response && flags & flag::PUSHED != 0 && believed;
    (pushed || flags & flag::PEER_DONE != 0) && flags & flag::RECOVERING == 0
}

/// Our TCP sent a segment: decides whether it may leave (Algorithm 1, line 11) and charges it if so.
pub fn egress(config: &Config, gate: &Gate, flow: &Flow, segment: &Segment, now: Time) -> Decision {
    if segment.flags.has(Flags::SYN) {
        if !segment.flags.has(Flags::ACK) {
            open(config, gate, flow, now);
            start_handshake(gate, flow);
            flow.handshake_start.set(now.0);
        } else if !flow.flags.any(flag::KNOWN) {
            open(config, gate, flow, now);
        }
        if segment.mss > 0 {
            let options = if segment.timestamps.is_some() { 12 } else { 0 };
            let mss = u32::from(segment.mss).saturating_sub(options).max(1);
            flow.mss.set(mss);
            flow.window.set(config.initial_window * mss);
        }
        flow.scale.set(u32::from(segment.wscale.unwrap_or(0).min(14)));
        flow.flags.raise(flag::SCALE_KNOWN);
    } else if !flow.flags.any(flag::KNOWN) {
        open(config, gate, flow, now);
    }
    flow.last_seen.set(now.0);
    let out = classify(config, gate, flow, segment, now);
    if out.is_some_and(|out| config.thin_acks && credit::is_superfluous(config, flow, &out)) {
        gate.thinned.add(1);
        return Decision::Discard;
    }
    if let Some((value, _)) = segment.timestamps
        && config.rtt == RttMethod::Timestamps
        && flow.ts_start.get() == 0
        && flow.ts_value.get() != value
    {
        flow.ts_value.set(value);
        flow.ts_start.set(now.0);
    }
    if let Some((value, _)) = segment.timestamps {
        flow.tsval.set(value);
    }
    let Some(out) = out else {
        gate.passed.add(1);
        return Decision::Pass(Edit::NONE);
    };
    let mut trigger = trigger(config, gate, flow, &out);
    let mut pass = may_pass(config, gate, flow, segment, out.class, trigger.wire, now);
    let mut split = false;
    if !pass && credit::governs(config, flow) && out.class == Class::Ack {
        // The ACK goes all the same, without moving the edge: data that has arrived is acknowledged, and no timer of the
        // sender runs. A bare copy waits for the grant, if the sender cannot go on without and nothing of the flow's waits
        // already.
        let queued = flow.held.get() > 0;
        split = !queued && !credit::can_go_on(flow, out.ack);
        pass = !queued || only_a_copy_waits(flow);
        trigger = if pass { credit::without_grant(flow, &out) } else { trigger };
    }
    if pass {
        charge(gate, flow, &out, trigger, now);
        gate.passed.add(1);
        if !split {
            return Decision::Pass(edit(config, flow, &out));
        }
        flow.flags.raise(flag::COPIED);
    }
    flow.flags.raise(flag::WAITED);
    flow.held.add(1);
    gate.held.add(1);
    if split {
        return Decision::Split(edit(config, flow, &out), Outgoing { copy: true, ..out });
    }
    Decision::Hold(out)
}

/// Nothing of the flow's is held that a later segment could overtake.
fn only_a_copy_waits(flow: &Flow) -> bool {
    flow.held.get() == 1 && flow.flags.any(flag::COPIED)
}

/// What the header must say when `out` leaves, after it has been charged.
#[must_use]
pub fn edit(config: &Config, flow: &Flow, out: &Outgoing) -> Edit {
    if credit::governs(config, flow) || bounded(config, flow) { credit::edit(flow, out) } else { Edit::NONE }
}

fn may_pass(config: &Config, gate: &Gate, flow: &Flow, segment: &Segment, class: Class, wire: u64, now: Time) -> bool {
    let order_kept = flow.held.get() == 0 || only_a_copy_waits(flow);
    match (config.hold, class) {
        (Hold::Nothing, _) => return true,
        (Hold::Requests, Class::Ack) => return order_kept,
        _ => {}
    }
    match class {
        Class::Urgent | Class::Stale => order_kept,
        Class::Data => order_kept || !is_short(segment),
        Class::Request if config.requests != Requests::Gate => order_kept,
        Class::Ack | Class::Handshake | Class::Request => {
            let unsettled = segment.flags.has(Flags::SYN) && interval::syns_are_arriving(config, gate, now);
            order_kept && !unsettled && (wire == 0 || (gate.held.get() == 0 && gate.admits(wire)))
                || gate.held.get() >= u64::from(config.max_held)
        }
    }
}

/// What the segment is to the gate; `None` for what triggers nothing and is never held.
fn classify(config: &Config, gate: &Gate, flow: &Flow, segment: &Segment, now: Time) -> Option<Outgoing> {
    let flags = flow.flags.get();
    if segment.flags.has(Flags::RST) {
        close_handshake(gate, flow);
        flow.flags.raise(flag::CLOSING);
        void(gate, flow);
        disengage(gate, flow);
        return None;
    }
    if !segment.flags.has(Flags::ACK) {
        return None;
    }
    let ack = segment.ack;
    let high = SeqNumber(flow.ack_high.get());
    let seen = flags & flag::ACKED != 0;
    let repeated = seen && ack == high && segment.payload == 0;
    let same_window = flow.last_window.get() == u32::from(segment.window);
    let was_zero = flags & flag::ZERO_WINDOW != 0;
    flow.last_window.set(u32::from(segment.window));
    flow.flags.put(flag::ZERO_WINDOW, segment.window == 0);
    if seen && ack.before(high) {
        return None;
    }
    flow.ack_high.set(ack.0);
    flow.flags.raise(flag::ACKED);
    if !seen {
        flow.released_ack.set(ack.0);
        flow.edge.set(ack.0);
    }

    let class = if segment.flags.has(Flags::SYN) {
        if gate.half_open.get() > u64::from(config.max_half_open) {
            flow.handshake_start.set(now.0);
            return None;
        }
        Class::Handshake
    } else if flags & flag::HALF_OPEN != 0 {
        // The handshake's last ACK, alone or with the first request.
        close_handshake(gate, flow);
        if is_short(segment) { Class::Handshake } else { Class::Data }
    } else if segment.flags.has(Flags::FIN) {
        flow.flags.raise(flag::CLOSING);
        end_response(gate, flow);
        Class::Data
    } else if segment.payload > 0 {
        data_class(config, gate, flow, segment, now)
    } else {
        let recovered = !flow.flags.any(flag::RECOVERING);
        let class = ack_class(flow, segment, repeated, same_window, was_zero);
        if recovered && flow.flags.any(flag::RECOVERING) {
            flow.hole_since.set(now.0 as u32);
        }
        match class {
            // Under exact credit the window says what the gate grants, not what TCP has just reopened.
            Class::Urgent if was_zero && credit::governs(config, flow) && !flow.flags.any(flag::RECOVERING) => {
                Class::Ack
            }
            class => class,
        }
    };
    if matches!(class, Class::Handshake | Class::Request) {
        engage(gate, flow);
    }
    Some(Outgoing {
        class,
        ack,
        // On a SYN-ACK it is half of the negotiation (RFC 3168 §6.1.1).
        ece: segment.flags.has(Flags::ECE) && !segment.flags.has(Flags::SYN),
        data: segment.payload > 0,
        repeated,
        copy: false,
        window: segment.window,
        shift: if segment.flags.has(Flags::SYN) { 0 } else { flow.scale.get() as u8 },
    })
}

/// Small enough to be held: one frame, and no more than a request.
fn is_short(segment: &Segment) -> bool {
    segment.frames <= 1 && segment.payload <= LARGEST_REQUEST
}

/// A pure ACK: an ordinary one, or one that must not wait.
fn ack_class(flow: &Flow, segment: &Segment, repeated: bool, same_window: bool, was_zero: bool) -> Class {
    let flags = flow.flags.get();
    if flags & flag::OVERTAKEN != 0 {
        if flow.held.get() == 0 {
            flow.flags.lower(flag::OVERTAKEN);
        } else if repeated && !segment.sack {
            return Class::Stale;
        }
    }
    let hole = SeqNumber(flow.received.get()).after(segment.ack);
    // A report of a duplicate (RFC 2883) tells the sender that its timer or its tail loss probe was too early, and may wait
    // in line with the ACK that the timer did not wait for. What has arrived beyond it has only not been acknowledged yet.
    let duplicate =
        hole && flags & flag::RECEIVED != 0 && !segment.dsack && (segment.sack || (repeated && same_window));
    if duplicate && flags & flag::RECOVERING == 0 {
        // The receiver's view of RFC 6582: recovery lasts until all that had arrived by now is acknowledged.
        flow.flags.raise(flag::RECOVERING);
        reduce(flow, SeqNumber(flow.received.get()));
    }
    if flow.flags.any(flag::RECOVERING) {
        if segment.ack.before(SeqNumber(flow.recover.get())) || duplicate {
            return Class::Urgent;
        }
        flow.flags.lower(flag::RECOVERING);
    }
    if was_zero { Class::Urgent } else { Class::Ack }
}

/// The sender halves its window, once for all that it had sent up to `sent` (RFC 5681 Eq. 4, RFC 3168 §6.1.2), and is in
/// congestion avoidance.
fn reduce(flow: &Flow, sent: SeqNumber) {
    flow.flags.raise(flag::REDUCED | flag::AVOIDANCE);
    flow.recover.set(sent.0);
    flow.window.set(halved(flow));
}

/// RFC 5681 Eq. 4.
pub(super) fn halved(flow: &Flow) -> u32 {
    whole_segments(flow, flow.window.get() / 2).max(2 * flow.mss.get())
}

/// Whether `out` makes the sender reduce its window: an ECN-Echo, unless it is still reacting to the one before.
pub(super) fn reduces(flow: &Flow, out: &Outgoing) -> bool {
    let flags = flow.flags.get();
    let reacting = flags & flag::REDUCED != 0 && !out.ack.after(SeqNumber(flow.recover.get()));
    out.ece && !reacting && flags & flag::RECOVERING == 0
}

/// Data of ours: a request if it is short, pushed, and the sender has nothing outstanding for us.
fn data_class(config: &Config, gate: &Gate, flow: &Flow, segment: &Segment, now: Time) -> Class {
    let received_all = !flow.flags.any(flag::RECEIVED) || flow.received.get() == segment.ack.0;
    let quiet = now.since(Time(flow.last_active.get())).0 > interval::longest_pause(config, gate, flow);
    flow.flags.raise(flag::ASKS);
    // Under exact credit the debt of a connection that is new is what nobody has asked for yet.
    let new = credit::governs(config, flow) && !flow.flags.any(flag::RECEIVED);
    let idle = received_all && (quiet || new || flow.owed.get() == 0 || flow.flags.any(flag::PUSHED));
    flow.flags.lower(flag::PUSHED | flag::STOPPED);
    if !idle {
        return Class::Data;
    }
    // What an idle flow still owes was never sent.
    void(gate, flow);
    disengage(gate, flow);
    end_response(gate, flow);
    let short = is_short(segment) && segment.payload < flow.mss.get() && segment.flags.has(Flags::PSH);
    if !short || config.requests == Requests::Ignore {
        return Class::Data;
    }
    let bulk = flow.last_response.get() == 0 || flow.last_response.get() > 2 * flow.mss.get();
    if bulk { Class::Request } else { Class::Data }
}

/// What releasing `out` will make the sender send: PAC Eq. 3, in wire bytes.
pub fn trigger(config: &Config, gate: &Gate, flow: &Flow, out: &Outgoing) -> Trigger {
    if credit::governs(config, flow) {
        return credit::trigger(config, gate, flow, out);
    }
    let edge = bounded(config, flow).then(|| credit::within(flow, out, largest_window(gate, flow)));
    Trigger { edge, ..estimate(config, gate, flow, out, edge) }
}

/// Whether the windows that this flow is shown are bounded.
fn bounded(config: &Config, flow: &Flow) -> bool {
    config.bound_windows && !config.credit && flow.flags.any(flag::SCALE_KNOWN)
}

/// The largest window that a flow is shown, in bytes: the segments that three quarters of the buffer hold, which is four
/// fifths of the budget. The rest is for others.
fn largest_window(gate: &Gate, flow: &Flow) -> u32 {
    let mss = u64::from(flow.mss.get());
    let segments = gate.cap.get() * 4 / 5 / (mss + u64::from(flow.header.get())).max(1);
    (segments.max(u64::from(credit::LEAST_SEGMENTS)) * mss).min(1 << 30) as u32
}

/// Charges a segment that leaves now (Algorithm 1, line 14; Eq. 4). Forced releases are charged like any other.
pub fn charge(gate: &Gate, flow: &Flow, out: &Outgoing, trigger: Trigger, now: Time) {
    if trigger.wire > 0 {
        engage(gate, flow);
        owe(gate, flow, trigger.wire);
        flow.last_active.set(now.0);
        let asked = if out.class == Class::Request { flag::ASKED } else { 0 };
        flow.flags.raise(flag::AWAITED | asked);
    }
    if let Some(edge) = trigger.edge {
        flow.edge.advance(edge);
    }
    flow.window.set(flow.window.get().saturating_add(trigger.increment));
    flow.released_ack.advance(out.ack);
    if reduces(flow, out) {
        reduce(flow, SeqNumber(flow.received.get()) + flow.owed.get());
    }
    if out.class == Class::Handshake && flow.flags.any(flag::HALF_OPEN) {
        flow.handshake_start.set(now.0);
    }
}

/// Books a debt.
fn owe(gate: &Gate, flow: &Flow, wire: u64) {
    let wire = u32::try_from(wire).unwrap_or(u32::MAX).min(u32::MAX - flow.owed.get());
    flow.owed.add(wire);
    gate.owed.add(u64::from(wire));
    gate.interval_charged.add(u64::from(wire));
}
