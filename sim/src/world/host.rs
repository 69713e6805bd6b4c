//! A host: what arrives goes to its endpoint, what the endpoint wants sent goes out, and timers fire.

use ackgate_control::policy::FlowId;

use crate::engine::{Ps, prefetch, prefetch_all};
use crate::measure::Fired;
use crate::net::{NIL, Packet, Route, Side};
use crate::observer::{Congestion, Observer, Step};
use crate::tcp::TcpConfig;
use crate::watch::Known;

use super::World;
use super::connection::{Connection, endpoint};
use super::event::Event;
use super::slot::apply;

/// Cache lines of an endpoint that an ordinary segment touches.
pub(super) const ENDPOINT_LINES: usize = 4;

impl<O: Observer> World<'_, O> {
    /// A packet is at its host.
    #[inline]
    pub(super) fn deliver(&mut self, handle: u32) {
        let now = self.now;
        self.tally.arrived += 1;
        let Packet { flow, from, bits, .. } = self.slab[handle];
        let side = from.peer();
        let connection = &self.connections[flow as usize];
        let (shim, known_as) = (connection.shim[side as usize], connection.known_as[side as usize]);
        if bits & (Packet::PROBE | Packet::DATAGRAM) != 0 {
            self.deliver_aside(handle, shim, known_as);
            return;
        }
        if shim != NIL {
            self.show_to_shim(handle, shim, known_as, connection.party);
        } else {
            let host = connection.host[side as usize];
            if (host as usize) < self.shims.len() {
                self.note_other(handle, host);
            }
        }
        let packet = &self.slab[handle];
        let connection = &mut self.connections[flow as usize];
        connection.alive[from as usize] -= 1;
        if self.look_ahead {
            prefetch(&self.channels, first_channel(connection.host[side as usize]));
            // An answer goes along this path and out of the port towards the peer.
            prefetch(&self.paths, connection.path[side as usize] as usize);
            prefetch(&self.channels, first_channel(connection.host[side.peer() as usize]) + 1);
        }
        if packet.life == connection.life {
            let config = &self.configs[usize::from(connection.party)];
            let e = endpoint(flow, side);
            let arrived = self.endpoints[e].handle_segment(now, packet, config, &mut self.random.timeout);
            if packet.payload > 0 && side == Side::Receiver {
                self.tally.data_arrived += 1;
            }
            let Connection { group, party, .. } = *connection;
            self.slab.remove(handle);
            if let Some(rtt) = arrived.rtt
                && side == Side::Sender
            {
                self.tally.rtt.record(rtt.0 / 1_000);
            }
            if arrived.readable > 0 {
                self.read(flow, side, group, party, arrived.readable);
            }
            if arrived.established {
                self.established(group);
            }
            self.output(e);
            if O::ENABLED && side == Side::Sender && arrived.acked > 0 {
                self.watch.congestion(now, flow, &congestion(&self.endpoints[e].sender));
            }
        } else {
            // Of a connection that is no more: a real host would answer with a reset, which nobody awaits.
            self.slab.remove(handle);
        }
        self.drain_shim(shim);
    }

    /// What is not TCP: a datagram is for an application, a scheme's probe for the scheme at the other end.
    #[cold]
    fn deliver_aside(&mut self, handle: u32, shim: u32, known_as: FlowId) {
        let Packet { flow, from, bits, payload, .. } = self.slab[handle];
        let host = self.connections[flow as usize].host[from.peer() as usize];
        if bits & Packet::DATAGRAM != 0 {
            self.note_other(handle, host);
        } else if shim != NIL {
            let ce = bits & Packet::CE != 0;
            self.shims[shim as usize].policy().handle_probe(self.now.to_time(), known_as, ce);
        }
        let connection = &mut self.connections[flow as usize];
        connection.alive[from as usize] -= 1;
        self.tally.parties[usize::from(connection.party)].bytes += u64::from(payload);
        self.slab.remove(handle);
        self.drain_shim(shim);
    }

    /// A packet is at a host with a scheme that does not act on it.
    #[cold]
    fn note_other(&mut self, handle: u32, host: u32) {
        let frame = self.slab[handle].frame() - u32::from(self.trailer);
        if let Some(shim) = self.shims.get_mut(host as usize) {
            shim.policy().handle_other(self.now.to_time(), frame);
        }
    }

    /// The scheme at a host sees a packet before TCP does.
    #[inline(never)]
    fn show_to_shim(&mut self, handle: u32, shim: u32, known_as: FlowId, party: u16) {
        let (now, config) = (self.now, &self.configs[usize::from(party)]);
        let packet = &mut self.slab[handle];
        let segment = packet.segment(config.announced_mss, config.wscale, self.trailer);
        let edit = self.shims[shim as usize].policy().handle_ingress(now.to_time(), known_as, &segment);
        self.watch.shim(now, shim, &Step::Ingress { flow: known_as, segment, edit });
        apply(edit, packet);
    }

    /// Sends all that an endpoint may send now, and sets its timer.
    #[inline]
    pub(crate) fn output(&mut self, e: usize) {
        if self.offload.is_none() {
            while self.transmit(e) {}
        } else {
            self.output_in_bursts(e);
        }
        let endpoint = &mut self.endpoints[e];
        let deadline = endpoint.deadline();
        if deadline < endpoint.timer_at {
            endpoint.timer_at = deadline;
            self.events.push(deadline, Event::Timer.at(e as u32));
        }
    }

    /// Sends an endpoint's next segment, if it may send one now; returns whether there may be another.
    #[inline]
    fn transmit(&mut self, e: usize) -> bool {
        let Some((handle, more)) = self.poll_packet(e) else { return false };
        self.emit_polled(e, handle);
        more
    }

    /// Hands an endpoint's packet to the shim and the network.
    #[inline(always)]
    pub(super) fn emit_polled(&mut self, e: usize, handle: u32) {
        let Connection { shim, known_as, .. } = self.connections[e / 2];
        self.emit(handle, shim[e & 1], known_as[e & 1]);
    }

    /// An endpoint's next segment, if it may send one now, and whether there may be another.
    #[inline(always)]
    pub(super) fn poll_packet(&mut self, e: usize) -> Option<(u32, bool)> {
        let endpoint = &mut self.endpoints[e];
        let connection = &mut self.connections[e / 2];
        let config = &self.configs[usize::from(connection.party)];
        if endpoint.is_quiet(config) {
            return None;
        }
        let from = if e & 1 == 0 { Side::Sender } else { Side::Receiver };
        let packet = self.slab.vacant();
        if !endpoint.poll_transmit(self.now, config, &mut self.random.timeout, packet) {
            return None;
        }
        let more = endpoint.has_more_after(packet);
        packet.flow = (e / 2) as u32;
        packet.from = from;
        packet.life = connection.life;
        packet.hop = connection.path[from as usize];
        connection.alive[from as usize] += 1;
        let handle = self.slab.claim();
        if self.look_ahead {
            self.slab.prefetch_vacant();
            if from == Side::Receiver {
                prefetch_all(&self.endpoints, e ^ 1, ENDPOINT_LINES);
            }
        }
        Some((handle, more))
    }

    /// An endpoint's timer event: perhaps its deadline has moved on since.
    #[inline(never)]
    pub(super) fn timer(&mut self, index: u32) {
        let e = index as usize;
        if self.endpoints[e].timer_at != self.now {
            return;
        }
        self.endpoints[e].timer_at = Ps::NEVER;
        if self.endpoints[e].deadline() <= self.now {
            let connection = self.connections[e / 2];
            let config = &self.configs[usize::from(connection.party)];
            let sender = &self.endpoints[e].sender;
            let (expected, ran, wants_window) = (sender.una, sender.timeout(), sender.wants_window(config.mss));
            if self.endpoints[e].handle_timeout(self.now, config) {
                let spurious = self.endpoints[e ^ 1].receiver.has(expected) || self.in_network(e, expected);
                let delayed = self.endpoints[e ^ 1].receiver.delays(expected) && !wants_window;
                let held = !delayed && connection.was_held(self.now, ran);
                self.tally.timeout(connection.party, &Fired { ran, spurious, held });
                self.timed_out(index / 2, connection.group);
                if O::ENABLED {
                    self.watch.timeout(self.now, index / 2);
                    self.watch.congestion(self.now, index / 2, &congestion(&self.endpoints[e].sender));
                }
            }
        }
        self.output(e);
    }

    /// Whether a copy of an endpoint's segment at `offset` is still on its way, or held by a scheme.
    fn in_network(&self, e: usize, offset: u64) -> bool {
        let Connection { alive, path, held, life, .. } = self.connections[e / 2];
        let (number, from) = (self.endpoints[e].sender.number(offset), e % 2);
        if alive[from] == 0 {
            return false;
        }
        let hops = self.paths[path[from] as usize..].iter().take_while(|hop| hop.channel != NIL);
        hops.map(|hop| self.channels[hop.channel as usize].head())
            .flat_map(|first| self.slab.list(first))
            .chain(self.slab.ring(held[from]))
            .filter(|packet| packet.flow as usize == e / 2 && packet.from as usize == from && packet.life == life)
            .any(|packet| packet.carries(number))
    }

    /// Opens a connection from the side that its workload wants.
    pub(crate) fn open_from(&mut self, connection: u32, side: Side) {
        let e = endpoint(connection, side);
        self.endpoints[e].open();
        self.output(e);
    }
}

/// The channel that a host's packets enter first (see [`Plan`]).
pub(super) const fn first_channel(host: u32) -> usize {
    2 * host as usize
}

fn congestion(sender: &crate::tcp::Sender) -> Congestion {
    let ssthresh = sender.window.ssthresh;
    Congestion {
        cwnd: u64::from(sender.window.cwnd),
        ssthresh: if ssthresh == u32::MAX { u64::MAX } else { u64::from(ssthresh) },
        in_flight: sender.in_flight(),
    }
}

pub(super) fn known<'a>(
    connections: &[Connection],
    routes: &'a [Route],
    configs: &[TcpConfig],
    trailer: u8,
    flow: u32,
) -> Known<'a> {
    let connection = &connections[flow as usize];
    let config = &configs[usize::from(connection.party)];
    Known {
        route: &routes[connection.route as usize],
        connection: flow,
        life: connection.life,
        mss: config.announced_mss,
        wscale: config.wscale,
        sack: config.sack,
        field: config.field,
        trailer,
    }
}
