//! Connections: which slot, hosts and numbers each has. A slot outlives its connection: the next one of the same sender
//! takes it.

use ackgate_control::policy::FlowId;

use crate::engine::Ps;
use crate::net::{NIL, Route, Side};
use crate::observer::Observer;
use crate::tcp::Endpoint;

use super::World;

/// A connection's place in the network: one cache line.
#[repr(align(64))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    pub(super) path: [u32; 2],
    pub(super) host: [u32; 2],
    /// Host of the shim on each side, [`NIL`] where there is none, and the number that the shim knows it by.
    pub(super) shim: [u32; 2],
    pub(super) known_as: [FlowId; 2],
    /// Its packets in the network, by the side that sent them.
    pub(crate) alive: [u32; 2],
    /// The latest of each side's packets that a scheme holds: they are linked in a ring, and behind it comes the oldest.
    pub(super) held: [u32; 2],
    pub(crate) route: u32,
    pub(crate) group: u16,
    /// Which of the scenario's parties it belongs to: what TCP it has, and where it is counted.
    pub(crate) party: u16,
    pub(super) life: u8,
    /// When a scheme last let go of a packet of it, in milliseconds, rounded up; 0 for never.
    pub(super) let_go_ms: u32,
}

impl Connection {
    /// A scheme lets go of a packet of it, or discards one.
    pub(super) fn lets_go(&mut self, now: Ps) {
        self.let_go_ms = u32::try_from(now.0 / MILLISECOND + 1).unwrap_or(u32::MAX);
    }

    /// Whether a scheme holds a packet of it, or has discarded one or let go of one within `length`, to a millisecond.
    pub(super) fn was_held(&self, now: Ps, length: Ps) -> bool {
        self.held != [NIL; 2] || u64::from(self.let_go_ms) * MILLISECOND > (now - length).0
    }
}

const MILLISECOND: u64 = Ps::millis(1).0;

impl<O: Observer> World<'_, O> {
    /// A new slot for connections of a sender.
    pub(crate) fn add_connection(&mut self, route: u32, group: u16) -> u32 {
        let Route { host, party, .. } = self.routes[route as usize];
        let path = self.routes[route as usize].choose(&mut self.random.path);
        let number = u32::try_from(self.connections.len()).expect("fewer than 2^28 connections");
        let shim = host.map(|host| self.shim_for(party, host));
        let known_as = shim.map(|shim| self.introduce(number, shim));
        let connection = Connection {
            path,
            host,
            shim,
            known_as,
            alive: [0; 2],
            held: [NIL; 2],
            route,
            group,
            party,
            life: 0,
            let_go_ms: 0,
        };
        self.connections.push(connection);
        for _ in 0..2 {
            let iss = self.random.numbers.bits() as u32;
            self.endpoints.push(Endpoint::new(&self.configs[usize::from(party)], iss));
        }
        number
    }

    /// The shim of a host, if it acts on that party's connections.
    fn shim_for(&self, party: u16, host: u32) -> u32 {
        if self.guarded[usize::from(party)] { self.shim_at(host) } else { NIL }
    }

    /// The shim of a host.
    pub(super) fn shim_at(&self, host: u32) -> u32 {
        if (host as usize) < self.shims.len() { host } else { NIL }
    }

    /// Gives a connection a number at a shim.
    fn introduce(&mut self, connection: u32, shim: u32) -> FlowId {
        self.shims.get_mut(shim as usize).map_or(FlowId(NIL), |shim| shim.number(connection))
    }

    /// Gives a slot to a new connection: what is left of the old one counts no more.
    pub(crate) fn renew(&mut self, connection: u32, route: u32) {
        let Route { host, party, .. } = self.routes[route as usize];
        let path = self.routes[route as usize].choose(&mut self.random.path);
        for (side, &host) in host.iter().enumerate() {
            if host != self.connections[connection as usize].host[side] {
                let shim = self.shim_for(party, host);
                let known_as = self.introduce(connection, shim);
                let slot = &mut self.connections[connection as usize];
                (slot.host[side], slot.shim[side], slot.known_as[side]) = (host, shim, known_as);
            }
        }
        let slot = &mut self.connections[connection as usize];
        slot.life = slot.life.wrapping_add(1);
        slot.route = route;
        slot.party = party;
        slot.path = path;
        let config = &self.configs[usize::from(slot.party)];
        for side in [Side::Sender, Side::Receiver] {
            let e = endpoint(connection, side);
            self.tally.retire(&self.endpoints[e]);
            self.endpoints[e] = Endpoint::new(config, self.random.numbers.bits() as u32);
        }
    }
}

/// The index of one end of a connection.
pub(crate) const fn endpoint(connection: u32, side: Side) -> usize {
    2 * connection as usize + side as usize
}
