//! PAC by the paper's own examples, and the invariants that must hold whatever arrives or is lost.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

use crate::decision::{Class, Path};
use crate::segment::{Flags, Position};
use crate::seq::SeqNumber;

const MSS: u32 = 1448;
const HEADER: u16 = 66;
const FRAME: u64 = 1514;

/// A receiver under test: builds segments, drives the policy, remembers what left.
struct Host {
    shim: AckGate,
    now: Time,
    next: u32,
    /// Packets that have left, in order.
    left: Vec<PacketId>,
    /// Packets whose bare copies are still held.
    split: Vec<PacketId>,
    /// Every packet as TCP sent it.
    sent: Vec<(u32, Segment)>,
    /// What left: flow, acknowledgement number, window field.
    wire: Vec<(u32, u32, u16)>,
    discarded: Vec<PacketId>,
}

impl Host {
    /// Whether so much more may be put on a path that holds so much.
    fn admits(&self, wire: u64, holds: u64) -> bool {
        let (rules, gate) = (&self.shim.rules, self.shim.gate());
        decision::admits(rules, gate, wire, Path::that_holds(rules, gate, holds))
    }

    /// With what the flow's debts are booked.
    fn booked_with(&self, flow: usize) -> u64 {
        Path::of(&self.shim.rules, self.shim.gate(), &self.shim.state.flows[flow], Class::Ack).holds
    }

    fn new(config: Config) -> Self {
        Self {
            shim: AckGate::new(config).unwrap(),
            now: Time(1_000_000),
            next: 0,
            left: vec![],
            split: vec![],
            sent: vec![],
            wire: vec![],
            discarded: vec![],
        }
    }

    fn wait(&mut self, span: Span) {
        self.now += span;
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(action) = self.shim.poll_action(self.now) {
            match action {
                Action::Release(packet, edit) => {
                    if self.split.contains(&packet) {
                        self.split.retain(|held| *held != packet);
                    } else {
                        self.left.push(packet);
                    }
                    self.on_wire(packet, edit);
                }
                Action::Split(packet, edit) => {
                    // A copy that is sent and kept has left already.
                    if !self.split.contains(&packet) {
                        self.left.push(packet);
                        self.split.push(packet);
                    }
                    self.on_wire(packet, edit);
                }
                Action::Discard(packet) if self.split.contains(&packet) => self.split.retain(|held| *held != packet),
                Action::Discard(packet) => self.discarded.push(packet),
                Action::Probe(_) => unreachable!("PAC sends no packets of its own"),
            }
        }
    }

    fn on_wire(&mut self, packet: PacketId, edit: Edit) {
        let (flow, segment) = self.sent[packet.0 as usize];
        let ack = edit.position.map_or(segment.ack, |position| position.ack);
        self.wire.push((flow, ack.0, edit.window.unwrap_or(segment.window)));
    }

    /// Sends a segment; data that has no sequence number follows what the flow has sent.
    fn send(&mut self, flow: u32, mut segment: Segment) -> PacketId {
        if segment.payload > 0 && segment.seq == SeqNumber(0) {
            let before = self.sent.iter().filter(|(of, _)| *of == flow).map(|(_, earlier)| earlier.payload);
            segment.seq = SeqNumber(1 + before.sum::<u32>());
        }
        let packet = PacketId(self.next);
        self.next += 1;
        self.sent.push((flow, segment));
        match self.shim.handle_egress(self.now, FlowId(flow), &segment, packet) {
            Verdict::Pass(edit) => {
                self.left.push(packet);
                self.on_wire(packet, edit);
            }
            Verdict::Split(edit) => {
                self.left.push(packet);
                self.split.push(packet);
                self.on_wire(packet, edit);
            }
            Verdict::Hold => {}
            Verdict::Discard => self.discarded.push(packet),
        }
        self.poll();
        packet
    }

    fn receive(&mut self, flow: u32, segment: Segment) {
        self.shim.handle_ingress(self.now, FlowId(flow), &segment);
        self.poll();
    }

    /// A data frame of `len` bytes at `seq`.
    fn data(&mut self, flow: u32, seq: u32, len: u32) {
        self.receive(flow, data(seq, len));
    }

    fn ack(&mut self, flow: u32, ack: u32) -> PacketId {
        self.send(flow, pure_ack(ack))
    }

    fn has_left(&self, packet: PacketId) -> bool {
        self.left.contains(&packet)
    }

    /// A connection opened by the guarded host; its handshake's charge is void.
    fn connect(&mut self, flow: u32) {
        let wscale = Some(7);
        self.send(flow, Segment { flags: Flags::SYN, mss: 1460, wscale, timestamps: Some((1, 0)), ..blank() });
        self.now += Span::micros(100);
        self.receive(flow, Segment { flags: Flags::SYN | Flags::ACK, ack: SeqNumber(1), mss: 1460, wscale, ..blank() });
        self.ack(flow, 1);
        decision::void(&self.shim.rules, &self.shim.state.gate, &self.shim.state.flows[flow as usize]);
        self.poll();
    }

    fn in_flight(&self) -> u64 {
        self.shim.in_flight()
    }

    /// Fills the budget with a debt of flow `flow`.
    fn fill(&mut self, flow: u32) {
        let threshold = self.shim.gate().threshold.get();
        self.owe(flow, threshold.saturating_sub(self.in_flight()) as u32);
    }

    /// Flow `flow` owes so much more.
    fn owe(&mut self, flow: u32, owed: u32) {
        self.shim.ensure(FlowId(flow));
        self.shim.state.flows[flow as usize].owed.add(owed);
        self.shim.state.flows[flow as usize].last_active.set(self.now.0);
        self.shim.state.gate.owed.add(u64::from(owed));
        self.shim.state.gate.interval_charged.add(u64::from(owed));
    }

    fn check_ledger(&self) {
        let owed: u64 = self.shim.state.flows.iter().map(|flow| u64::from(flow.owed.get())).sum();
        assert_eq!(owed, self.shim.gate().owed.get(), "Σ flow.owed = gate.owed");
        for (path, booked) in self.shim.gate().owed_by_path.iter().enumerate().skip(1) {
            let over = self.shim.state.flows.iter().filter(|flow| flow.path.get() == path as u32);
            let owed: u64 = over.map(|flow| u64::from(flow.owed.get())).sum();
            assert_eq!(owed, booked.get(), "Σ flow.owed over path {path} = gate.owed_by_path");
        }
        let by_path: u64 = self.shim.gate().owed_by_path.iter().map(|cell| cell.get()).sum();
        assert_eq!(by_path, self.shim.gate().owed_beyond.get(), "Σ gate.owed_by_path = gate.owed_beyond");
        let offered: u64 = self.shim.state.flows.iter().map(|flow| u64::from(flow.offered.get())).sum();
        assert_eq!(offered, self.shim.gate().offered.get(), "Σ flow.offered = gate.offered");
        let awaited = self.shim.state.flows.iter().filter(|flow| flow.flags.any(state::flag::AWAITED)).count();
        let asked = self.shim.gate().asked.get();
        assert!(
            !self.shim.rules.grants() || asked == awaited as u64,
            "{awaited} flows are awaited, gate.asked = {asked}"
        );
        let held: u64 = self.shim.state.flows.iter().map(|flow| u64::from(flow.held.get())).sum();
        assert_eq!(held, self.shim.gate().held.get(), "Σ flow.held = gate.held");
        assert_eq!(held, self.shim.held() as u64, "the scheduler holds what the gate counts");
    }
}

fn blank() -> Segment {
    Segment { frames: 1, header: HEADER, window: 1000, ..Segment::default() }
}

fn data(seq: u32, len: u32) -> Segment {
    Segment { seq: SeqNumber(seq), payload: len, flags: Flags::ACK, ..blank() }
}

fn pure_ack(ack: u32) -> Segment {
    Segment { ack: SeqNumber(ack), flags: Flags::ACK, ..blank() }
}

fn config() -> Config {
    Config {
        push_ends_response: false,
        growth: Growth::PerAck,
        long_turns: false,
        bound_windows: false,
        max_hold: Span::millis(100),
        ..Config::new(96_000)
    }
}

fn request(ack: u32) -> Segment {
    Segment { payload: 100, flags: Flags::ACK | Flags::PSH, ..pure_ack(ack) }
}

mod bursts;
mod changes;
mod charges;
mod closing;
mod credit;
mod evidence;
mod holding;
mod kept;
mod lengths;
mod link;
mod losses;
mod messages;
mod others;
mod pac;
mod paths;
mod pipelining;
mod properties;
mod quiet;
mod standby;
mod thinkers;
mod thinning;
mod timers;
mod windows;
