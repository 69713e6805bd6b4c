//! Drives a [`Policy`] of `control` with frames: which connection each belongs to, what is held, what goes where. No
//! sockets, no clock: frames and times come in, frames come out.
//!
//! DESIGN NOTES
//! 1. Times are those at which the BPF programs saw a frame, so that a policy measures the network and not this process. They
//!    never go backwards.
//! 2. No frame is held longer than [`Driver::new`]'s `max_hold`, whatever the policy does: it then leaves as it is. The policy
//!    still has the handle; what it does with it later has no effect.
//! 3. A probe names no port of ours. Its connection is remembered by the rest of its address until the SYN comes, which has
//!    it all.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use ackgate_control::flow::{self, FlowKey, FlowTable, Lifetimes, Limits, Stage};
use ackgate_control::policy::{Action, FlowId, PacketId, Policy, Verdict};
use ackgate_control::segment::{Edit, Flags, Segment};
use ackgate_control::units::{Span, Time};
use ackgate_control::wire::{Direction, Packet, Probe};
use hdrhistogram::Histogram;

use super::copies::Copies;
use super::frame::{Frame, Taken, What};

/// Most frames held at once; beyond, the oldest leave.
const MOST_HELD: usize = 65_536;
/// Time between two looks for connections to forget.
const SWEEP: Span = Span::secs(1);

/// What was done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) arrivals: u64,
    pub(super) passed: u64,
    pub(super) edited: u64,
    pub(super) released: u64,
    pub(super) forced: u64,
    pub(super) discarded: u64,
    pub(super) held: u64,
    pub(super) held_max: u64,
    pub(super) unguarded: u64,
    pub(super) probes_sent: u64,
    pub(super) probes: u64,
    pub(super) probes_marked: u64,
    pub(super) flows_max: u64,
    pub(super) repeated: u64,
    pub(super) multipath: u64,
}

/// A place for a frame, until the policy lets go of its handle.
#[derive(Debug, Default)]
struct Slot {
    /// `None` once it has left because it was held for too long.
    frame: Option<Frame>,
    since: Time,
    /// Counts the frames that were here.
    turn: u32,
    /// The connection that it opens.
    opens: Option<FlowId>,
}

pub(super) struct Driver {
    policy: Box<dyn Policy>,
    max_hold: Span,
    flows: FlowTable,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Frames that were held, the oldest first; those that have left since are still among them.
    waiting: VecDeque<(u32, u32)>,
    /// Probes to send for connections whose SYN is held.
    probes: BTreeMap<FlowId, Vec<u8>>,
    /// For a policy that has segments repeated.
    copies: Option<Copies>,
    clock: Time,
    next_sweep: Time,
    counts: Counts,
    hold_times: Histogram<u64>,
    /// Frames to send, each behind its virtio header.
    pub(super) out: Vec<Vec<u8>>,
    /// Frames to put back on their way in.
    pub(super) inward: Vec<Vec<u8>>,
}

impl Driver {
    pub(super) fn new(policy: Box<dyn Policy>, max_hold: Span, hold_times: Histogram<u64>) -> Self {
        Self {
            copies: policy.repeats().then(Copies::default),
            policy,
            max_hold,
            flows: FlowTable::new(Limits::default(), Lifetimes::default()),
            slots: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            probes: BTreeMap::new(),
            clock: Time::ZERO,
            next_sweep: Time::ZERO,
            counts: Counts::default(),
            hold_times,
            out: Vec::new(),
            inward: Vec::new(),
        }
    }

    pub(super) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Microseconds that frames were held.
    pub(super) const fn hold_times(&self) -> &Histogram<u64> {
        &self.hold_times
    }

    /// Connections remembered now.
    pub(super) fn connections(&self) -> usize {
        self.flows.len()
    }

    /// Takes in a record of the ring.
    pub(super) fn handle(&mut self, record: &[u8]) {
        let Some(taken) = Taken::read(record) else { return };
        let now = self.advance(taken.time);
        let frame = Frame::new(&taken);
        match taken.what {
            What::Egress => self.handle_egress(now, frame),
            What::Ingress | What::Seen => self.handle_ingress(now, frame, taken.what == What::Ingress),
            What::Probe => self.handle_probe(now, &frame),
        }
        self.act(now);
    }

    /// Time has passed: does what is due.
    pub(super) fn turn(&mut self, now: Time) {
        let now = self.advance(now);
        self.act(now);
        while let Some(&(packet, turn)) = self.waiting.front() {
            let held = self.slots[packet as usize].turn == turn && self.slots[packet as usize].frame.is_some();
            let due = now >= self.slots[packet as usize].since + self.max_hold || self.counts.held as usize > MOST_HELD;
            if held && !due {
                break;
            }
            self.waiting.pop_front();
            if held {
                self.counts.forced += 1;
                self.let_go(now, packet, &Edit::NONE);
            }
        }
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP;
            let Self { flows, policy, copies, .. } = self;
            flows.sweep(now, |id| {
                policy.handle_forgotten(id);
                if let Some(copies) = copies {
                    copies.forget(id);
                }
            });
        }
    }

    /// When to call [`turn`](Self::turn) again even if nothing arrives.
    pub(super) fn timeout(&self) -> Time {
        let oldest = self.waiting.front().map(|&(packet, _)| self.slots[packet as usize].since + self.max_hold);
        let policy = self.policy.poll_timeout();
        self.next_sweep.min(oldest.unwrap_or(Time::NEVER)).min(policy.unwrap_or(Time::NEVER))
    }

    /// Lets go of all that is held, the oldest first.
    pub(super) fn release_all(&mut self, now: Time) {
        while let Some((packet, turn)) = self.waiting.pop_front() {
            if self.slots[packet as usize].turn == turn {
                self.let_go(now, packet, &Edit::NONE);
            }
        }
    }

    fn advance(&mut self, now: Time) -> Time {
        self.clock = self.clock.max(now);
        self.clock
    }

    /// The connection's index; `None` where there is no room for it, or nothing that it should be remembered for.
    fn flow(&mut self, now: Time, packet: &Packet, direction: Direction) -> Option<FlowId> {
        let Packet { key, segment, .. } = packet;
        let known = self.flows.get(key).is_some();
        let (half_open, most) = (u64::from(self.flows.half_open()), u64::from(Limits::default().half_open));
        if !known && !flow::opens(segment, direction, half_open, most) {
            return None;
        }
        let id = self.flows.touch(key, stage(segment), now);
        self.counts.unguarded += u64::from(id.is_none());
        self.counts.flows_max = self.counts.flows_max.max(self.flows.len() as u64);
        id
    }

    fn handle_egress(&mut self, now: Time, mut frame: Frame) {
        let packet = frame.understand(Direction::Egress);
        self.counts.multipath += u64::from(frame.is_multipath());
        let known = packet.and_then(|packet| Some((self.flow(now, &packet, Direction::Egress)?, packet)));
        let Some((flow, packet)) = known else {
            self.counts.passed += 1;
            return self.out.push(frame.into_bytes());
        };
        if let Some(copies) = &mut self.copies {
            copies.keep(flow, &packet.segment, &frame);
        }
        let handle = self.keep(now, frame);
        match self.policy.handle_egress(now, flow, &packet.segment, PacketId(handle)) {
            Verdict::Pass(edit) => {
                self.counts.passed += 1;
                if let Some(frame) = self.remove(handle) {
                    self.send(frame, &edit);
                }
            }
            Verdict::Hold => {
                if self.policy.probes() && packet.segment.flags.has(Flags::SYN) {
                    let slot = &mut self.slots[handle as usize];
                    slot.opens = Some(flow);
                    if let Some(frame) = &slot.frame {
                        self.probes.insert(flow, Probe::before(&packet, frame.frame()));
                    }
                }
                self.wait(handle);
            }
            Verdict::Split(edit) => {
                self.counts.passed += 1;
                self.split(handle, &edit);
                self.wait(handle);
            }
            Verdict::Discard => {
                self.counts.discarded += 1;
                self.remove(handle);
            }
        }
    }

    fn handle_ingress(&mut self, now: Time, mut frame: Frame, taken: bool) {
        let mut change = Edit::NONE;
        if let Some(packet) = frame.understand(Direction::Ingress) {
            self.counts.arrivals += 1;
            if packet.segment.flags.has(Flags::SYN) && !packet.segment.flags.has(Flags::ACK) {
                let probed = FlowKey { local_port: 0, ..packet.key };
                if let Some(replaced) = self.flows.rename(&probed, &packet.key) {
                    self.policy.handle_forgotten(replaced);
                }
            }
            if let Some(flow) = self.flow(now, &packet, Direction::Ingress) {
                change = self.policy.handle_ingress(now, flow, &packet.segment);
                if let Some(copies) = self.copies.as_mut().filter(|_| packet.segment.flags.has(Flags::ACK)) {
                    copies.acknowledge(flow, packet.segment.ack);
                }
            }
        }
        self.counts.multipath += u64::from(frame.is_multipath());
        if taken {
            self.counts.edited += u64::from(change != Edit::NONE);
            frame.edit(&change);
            self.inward.push(frame.into_bytes());
        }
    }

    fn handle_probe(&mut self, now: Time, frame: &Frame) {
        let Some(probe) = Probe::parse(frame.frame(), frame.meta()) else { return };
        self.counts.probes += 1;
        self.counts.probes_marked += u64::from(probe.ce);
        if let Some(flow) = self.flows.touch(&probe.key, Stage::HalfOpen, now) {
            self.policy.handle_probe(now, flow, probe.ce);
        }
    }

    /// Does what the policy wants done now.
    fn act(&mut self, now: Time) {
        while let Some(action) = self.policy.poll_action(now) {
            match action {
                Action::Release(PacketId(packet), edit) => {
                    self.let_go(now, packet, &edit);
                    self.remove(packet);
                }
                Action::Discard(PacketId(packet)) => {
                    let held = self.remove(packet).is_some();
                    self.counts.discarded += u64::from(held);
                    self.counts.held -= u64::from(held);
                }
                Action::Split(PacketId(packet), edit) => {
                    self.counts.released += 1;
                    self.split(packet, &edit);
                }
                Action::Probe(flow) => {
                    if let Some(probe) = self.probes.get(&flow) {
                        self.counts.probes_sent += 1;
                        self.out.push(Frame::plain(probe).into_bytes());
                    }
                }
            }
        }
        self.repeat(now);
    }

    /// Sends once more what the policy wants to be sent.
    fn repeat(&mut self, now: Time) {
        while let Some((flow, seq)) = self.policy.poll_repeat(now) {
            if let Some(frame) = self.copies.as_ref().and_then(|copies| copies.from(flow, seq)) {
                self.counts.repeated += 1;
                self.out.push(frame.into_bytes());
            }
        }
    }

    fn send(&mut self, mut frame: Frame, edit: &Edit) {
        self.counts.edited += u64::from(*edit != Edit::NONE);
        frame.edit(edit);
        self.out.push(frame.into_bytes());
    }

    /// Sends a frame that is held. The policy may still have its handle.
    fn let_go(&mut self, now: Time, packet: u32, edit: &Edit) {
        let slot = &mut self.slots[packet as usize];
        let waited = now.since(slot.since);
        if let Some(frame) = slot.frame.take() {
            self.counts.released += 1;
            self.counts.held -= 1;
            self.hold_times.saturating_record((waited.0 / 1000).max(1));
            self.send(frame, edit);
        }
    }

    /// Sends a frame and keeps its bare copy in its place.
    fn split(&mut self, packet: u32, edit: &Edit) {
        let slot = &mut self.slots[packet as usize];
        if let Some(frame) = slot.frame.take() {
            slot.frame = Some(frame.bare_ack());
            self.send(frame, edit);
        }
    }

    fn keep(&mut self, now: Time, frame: Frame) -> u32 {
        let handle = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            // Far fewer frames than 2^32 fit in memory.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let slot = &mut self.slots[handle as usize];
        *slot = Slot { frame: Some(frame), since: now, turn: slot.turn.wrapping_add(1), opens: None };
        handle
    }

    fn wait(&mut self, handle: u32) {
        self.waiting.push_back((handle, self.slots[handle as usize].turn));
        self.counts.held += 1;
        self.counts.held_max = self.counts.held_max.max(self.counts.held);
    }

    /// The policy has let go of a handle.
    fn remove(&mut self, handle: u32) -> Option<Frame> {
        let slot = &mut self.slots[handle as usize];
        self.free.push(handle);
        slot.turn = slot.turn.wrapping_add(1);
        if let Some(flow) = slot.opens.take() {
            self.probes.remove(&flow);
        }
        slot.frame.take()
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// Where a segment leaves its connection.
fn stage(segment: &Segment) -> Stage {
    if segment.flags.any(Flags::FIN | Flags::RST) {
        Stage::Closing
    } else if segment.flags.has(Flags::SYN) {
        // A SYN-ACK too: it answers whoever asks.
        Stage::HalfOpen
    } else {
        Stage::Open
    }
}

#[cfg(test)]
mod tests;
