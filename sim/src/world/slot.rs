//! The shim slot: between TCP and the network a scheme sees every packet, may hold it and may send its own.

use ackgate_control::policy::{Action, FlowId, PacketId, Verdict};
use ackgate_control::segment::{Edit, Flags, Position};

use crate::engine::Ps;
use crate::net::{NIL, Packet, Side};
use crate::observer::{DropReason, Observer, Step};

use super::World;
use super::event::Event;

impl<O: Observer> World<'_, O> {
    /// A packet leaves TCP.
    #[inline]
    pub(super) fn emit(&mut self, handle: u32, shim: u32, known_as: FlowId) {
        self.tally.sent += 1;
        if shim == NIL {
            self.leave(handle);
            return;
        }
        self.offer_to_shim(handle, shim, known_as);
    }

    /// The scheme at a host sees a packet before the network does.
    #[inline(never)]
    fn offer_to_shim(&mut self, handle: u32, shim: u32, known_as: FlowId) {
        let slot = &mut self.shims[shim as usize];
        let packet = &self.slab[handle];
        let config = &self.configs[usize::from(self.connections[packet.flow as usize].party)];
        let segment = packet.segment(config.announced_mss, config.wscale, self.trailer);
        let verdict = slot.policy().handle_egress(self.now.to_time(), known_as, &segment, PacketId(handle));
        let step = Step::Egress { flow: known_as, segment, packet: PacketId(handle), verdict };
        self.watch.shim(self.now, shim, &step);
        match verdict {
            Verdict::Pass(edit) => {
                apply(edit, &mut self.slab[handle]);
                self.leave_now(handle);
            }
            Verdict::Discard => {
                let channel = self.paths[self.slab[handle].hop as usize].channel;
                self.discard(self.now, handle, channel, DropReason::Scheme);
            }
            Verdict::Hold => self.hold(shim, handle),
            Verdict::Split(edit) => {
                self.hold(shim, handle);
                self.split(handle, edit);
            }
        }
        self.drain_shim(shim);
    }

    /// A scheme keeps a packet back.
    fn hold(&mut self, shim: u32, handle: u32) {
        let slot = &mut self.shims[shim as usize];
        slot.held += 1;
        self.tally.hold(slot.held);
        let packet = &mut self.slab[handle];
        packet.arrival = self.now;
        let last = &mut self.connections[packet.flow as usize].held[packet.from as usize];
        match std::mem::replace(last, handle) {
            NIL => packet.next = handle,
            before => {
                let oldest = std::mem::replace(&mut self.slab[before].next, handle);
                self.slab[handle].next = oldest;
            }
        }
    }

    /// A scheme lets go of a packet, mostly the oldest of its flow.
    fn let_go(&mut self, shim: u32, handle: u32) {
        self.shims[shim as usize].held -= 1;
        let Packet { next, flow, from, .. } = self.slab[handle];
        let connection = &mut self.connections[flow as usize];
        connection.lets_go(self.now);
        let last = &mut connection.held[from as usize];
        if next == handle {
            *last = NIL;
            return;
        }
        let mut before = *last;
        while self.slab[before].next != handle {
            before = self.slab[before].next;
        }
        self.slab[before].next = next;
        if *last == handle {
            *last = before;
        }
    }

    /// Does what a scheme wants done with held packets now, and sets its timer; nothing where there is no scheme.
    #[inline]
    pub(super) fn drain_shim(&mut self, host: u32) {
        if host != NIL {
            self.drain(host);
        }
    }

    fn drain(&mut self, host: u32) {
        while let Some(slot) = self.shims.get_mut(host as usize) {
            let action = slot.policy().poll_action(self.now.to_time());
            self.watch.shim(self.now, host, &Step::Poll(action));
            let Some(action) = action else {
                let timeout =
                    slot.policy().poll_timeout().map_or(Ps::NEVER, Ps::from_time).max(self.now + Ps::nanos(1));
                if timeout < slot.timer_at {
                    slot.timer_at = timeout;
                    self.events.push(timeout, Event::Shim.at(host));
                }
                if O::ENABLED {
                    self.watch.gate(self.now, host, &slot.gate());
                }
                return;
            };
            match action {
                Action::Release(PacketId(handle), edit) => {
                    self.let_go(host, handle);
                    let packet = &mut self.slab[handle];
                    apply(edit, packet);
                    self.tally.hold_time.record((self.now - packet.arrival).0 / 1_000);
                    self.leave_now(handle);
                }
                Action::Discard(PacketId(handle)) => {
                    self.let_go(host, handle);
                    let channel = self.paths[self.slab[handle].hop as usize].channel;
                    self.discard(self.now, handle, channel, DropReason::Scheme);
                }
                Action::Split(PacketId(handle), edit) => self.split(handle, edit),
                Action::Probe(flow) => {
                    if let Some(connection) = slot.connection(flow) {
                        self.probe(host, connection);
                    }
                }
            }
        }
    }

    /// Sends a held packet on and leaves a bare ACK in its place.
    fn split(&mut self, handle: u32, edit: Edit) {
        let mut packet = self.slab[handle];
        let flow = packet.flow as usize;
        let config = &self.configs[usize::from(self.connections[flow].party)];
        self.slab[handle].become_bare_ack(config.header, config.wscale);
        apply(edit, &mut packet);
        self.tally.hold_time.record((self.now - packet.arrival).0 / 1_000);
        self.tally.sent += 1;
        self.connections[flow].alive[packet.from as usize] += 1;
        let sent_on = self.slab.insert(packet);
        self.leave_now(sent_on);
    }

    /// Sends a scheme's probe along a flow's path.
    fn probe(&mut self, host: u32, flow: u32) {
        let connection = &self.connections[flow as usize];
        let from = if connection.shim[Side::Sender as usize] == host { Side::Sender } else { Side::Receiver };
        self.send_aside(flow, from, Packet::PROBE | Packet::ECT, 0);
    }

    /// Sends what is not TCP along a connection's path.
    pub(crate) fn send_aside(&mut self, flow: u32, from: Side, bits: u8, payload: u16) {
        let connection = &mut self.connections[flow as usize];
        let ip = self.configs[usize::from(connection.party)].header;
        let header = if bits & Packet::DATAGRAM != 0 { ip + Packet::UDP_HEADER } else { ip };
        let (hop, life) = (connection.path[from as usize], connection.life);
        connection.alive[from as usize] += 1;
        self.tally.sent += 1;
        let handle = self.slab.insert(Packet { flow, from, hop, header, payload, bits, life, ..Packet::default() });
        self.leave_now(handle);
    }

    pub(super) fn shim_timer(&mut self, host: u32) {
        let slot = &mut self.shims[host as usize];
        if slot.timer_at == self.now {
            slot.timer_at = Ps::NEVER;
            self.drain_shim(host);
        }
    }
}

pub(super) fn apply(edit: Edit, packet: &mut Packet) {
    if let Some(window) = edit.window {
        packet.window = window;
    }
    if let Some(ect) = edit.ect {
        packet.bits &= !(Packet::ECT | Packet::CE);
        packet.bits |= if ect { Packet::ECT } else { 0 };
    }
    if let Some(Position { seq, ack, timestamps }) = edit.position {
        packet.seq = seq;
        packet.ack = ack;
        packet.timestamps = timestamps;
    }
    if let Some(ece) = edit.ece {
        packet.flags.0 &= !Flags::ECE.0;
        packet.flags.0 |= if ece { Flags::ECE.0 } else { 0 };
    }
}
