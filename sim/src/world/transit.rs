//! A packet on its way: from channel to channel until it is at its host, or dropped.

use ackgate_control::m21::{self, FlowCounter};
use ackgate_control::segment::Flags;

use crate::engine::{Chance, Ps, prefetch, prefetch_all};
use crate::net::{Channel, Hop, NIL, Offer, Packet, Refusal, Then};
use crate::observer::{DropReason, Interface, InterfaceKind, Observer, Way};
use crate::scenario::{Network, Scenario, Scheme};
use crate::settings;

use super::World;
use super::connection::endpoint;
use super::event::Event;
use super::host::{ENDPOINT_LINES, known};

/// Memory that the ports of one switch share.
pub(super) struct Pool {
    pub(super) bytes: u64,
    /// A port holds at most so many times what is left.
    pub(super) alpha: Option<f64>,
    pub(super) ports: Vec<u32>,
}

/// Packets that come late to their hosts.
#[derive(Clone, Copy)]
pub(super) struct Detours {
    share: Chance,
    /// By this at most.
    longest: Ps,
}

impl Detours {
    pub(super) fn new(network: &Network) -> Self {
        Self { share: Chance::new(network.reorder), longest: Ps::from_span(network.detour) }
    }
}

impl<O: Observer> World<'_, O> {
    /// The oldest packet on a channel is at a switch.
    #[inline]
    pub(super) fn forward(&mut self, index: u32) {
        if self.waiters.is_empty() {
            let handle = self.follow(index, Event::Forward);
            self.inject(self.now, handle);
        } else {
            self.forward_if_admitted(index);
        }
    }

    /// The oldest packet on a channel is at its host.
    #[inline]
    pub(super) fn arrive(&mut self, index: u32) {
        let handle = self.follow(index, Event::Deliver);
        if self.look_ahead {
            self.fetch_ahead(self.channels[index as usize].head());
        }
        self.deliver(handle);
    }

    /// Has brought near what a packet will touch that is to arrive at its host after the one at hand.
    #[inline]
    fn fetch_ahead(&self, handle: u32) {
        if handle == NIL {
            return;
        }
        let Packet { next, flow, from, .. } = self.slab[handle];
        prefetch_all(&self.endpoints, endpoint(flow, from.peer()), ENDPOINT_LINES);
        prefetch(&self.connections, flow as usize);
        self.slab.prefetch(next);
    }

    /// Takes the oldest packet off a channel; the one behind it is the next to arrive, if there is one.
    #[inline(always)]
    pub(super) fn follow(&mut self, index: u32, event: Event) -> u32 {
        let channel = &mut self.channels[index as usize];
        let handle = channel.head();
        let next = self.slab[handle].next;
        channel.advance(next);
        if next != NIL {
            self.events.push(self.slab[next].arrival, event.at(index));
        }
        handle
    }

    /// As [`inject`](Self::inject), for those who seldom do it.
    #[inline(never)]
    pub(super) fn inject_now(&mut self, handle: u32) {
        self.inject(self.now, handle);
    }

    /// A packet enters the next channel of its path, and those behind it whose future is known already.
    #[inline(always)]
    pub(super) fn inject(&mut self, now: Ps, handle: u32) {
        let mut at = now;
        loop {
            let packet = &mut self.slab[handle];
            let Hop { channel: index, then } = self.paths[packet.hop as usize];
            packet.hop += 1;
            let channel = &mut self.channels[index as usize];
            let (offered, channel) = match channel.send_at_once(at, packet) {
                Some(offer) => (Ok(offer), channel),
                None if channel.is_plain() => (channel.wait(at, packet, &mut self.random.queue), channel),
                None => (self.queue(index, at, handle), &mut self.channels[index as usize]),
            };
            let offer = match offered {
                Ok(offer) => offer,
                Err(refusal) => {
                    self.discard(at, handle, index, refusal.into());
                    return;
                }
            };
            if then != Then::Eager {
                let (mut arrival, mut event) = (offer.arrival, Event::Forward);
                if then == Then::Host {
                    let jitter = self.own_jitter.get(index as usize / 2).unwrap_or(&self.host_jitter);
                    arrival += self.host_delay + Ps(self.random.processing.up_to(jitter.0));
                    if let Some(offload) = &mut self.offload {
                        arrival = offload.received(arrival, index / 2, &self.slab[handle]);
                    }
                    event = Event::Deliver;
                    if self.random.detour.hits(self.detours.share) {
                        arrival += Ps(self.random.detour.up_to(self.detours.longest.0));
                        self.slab[handle].arrival = arrival;
                        self.events.push(arrival, Event::Late.at(handle));
                        if O::ENABLED {
                            self.show(&offer, index, at, handle);
                        }
                        return;
                    }
                }
                match channel.append(handle) {
                    NIL => self.events.push(arrival, event.at(index)),
                    before => {
                        let before = &mut self.slab[before];
                        before.next = handle;
                        // Neither processing jitter nor a delay that changes reorders.
                        arrival = arrival.max(before.arrival);
                    }
                }
                let packet = &mut self.slab[handle];
                packet.arrival = arrival;
                packet.next = NIL;
            }
            if O::ENABLED {
                self.show(&offer, index, at, handle);
            }
            if then != Then::Eager {
                return;
            }
            at = offer.arrival;
        }
    }

    /// A packet joins the queue of a channel that is not plain, or finds it full.
    #[inline(never)]
    fn queue(&mut self, index: u32, at: Ps, handle: u32) -> Result<Offer, Refusal> {
        let packet = &mut self.slab[handle];
        if let Some(Some(counter)) = self.counters.get_mut(index as usize) {
            stamp(packet, counter, at, self.largest_number);
        }
        let pool_left = match self.channels[index as usize].pool() {
            None => u64::MAX,
            Some(pool) => left(&self.pools[pool as usize], &mut self.channels, index, at),
        };
        self.channels[index as usize].offer(at, packet, pool_left, &mut self.random.queue)
    }

    /// Shows an observer what will become of a packet on a channel.
    fn show(&mut self, offer: &Offer, index: u32, at: Ps, handle: u32) {
        let packet = &self.slab[handle];
        let known = known(&self.connections, &self.routes, &self.configs, self.trailer, packet.flow);
        self.watch.packet(offer.start, index, Way::Out, packet, &known);
        self.watch.packet(offer.arrival, index, Way::In, packet, &known);
        if offer.leaves > at {
            self.watch.queued(at, offer.leaves, index, self.channels[index as usize].padded(packet));
        }
    }

    /// A packet's life ends without arriving.
    #[cold]
    pub(super) fn discard(&mut self, at: Ps, handle: u32, channel: u32, reason: DropReason) {
        if O::ENABLED {
            let packet = &self.slab[handle];
            let known = known(&self.connections, &self.routes, &self.configs, self.trailer, packet.flow);
            self.watch.dropped(at, channel, packet, &known, reason);
        }
        if reason == DropReason::Scheme {
            self.tally.discarded += 1;
        } else {
            self.tally.dropped += 1;
        }
        let Packet { flow, from, .. } = self.slab[handle];
        let connection = &mut self.connections[flow as usize];
        connection.alive[from as usize] -= 1;
        if reason == DropReason::Scheme {
            connection.lets_go(at);
        }
        self.slab.remove(handle);
    }
}

impl From<Refusal> for DropReason {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Full => Self::Full,
            Refusal::Early => Self::Early,
            Refusal::Chance => Self::Chance,
        }
    }
}

/// M21TCP-A's flow counters: one for each switch port.
pub(super) fn counters(scenario: &Scenario, interfaces: &[Interface]) -> Vec<Option<FlowCounter<u64>>> {
    if scenario.scheme != Scheme::M21 {
        return Vec::new();
    }
    interfaces.iter().map(|it| is_port(it).then(|| FlowCounter::new(settings::m21_counter(scenario)))).collect()
}

/// Ports of switches.
pub(super) fn ports(interfaces: &[Interface]) -> Vec<u32> {
    (0..).zip(interfaces).filter(|(_, interface)| is_port(interface)).map(|(port, _)| port).collect()
}

fn is_port(interface: &Interface) -> bool {
    interface.kind == InterfaceKind::Port
}

/// M21TCP-A's switch: counts the packet's flow, and writes the count into the packet if it is more than it says.
fn stamp(packet: &mut Packet, counter: &mut FlowCounter<u64>, now: Ps, largest: u32) {
    let last = packet.flags.any(Flags(Flags::FIN.0 | Flags::RST.0));
    if packet.is_stamped() || last {
        let flow = u64::from(packet.flow) << 9 | u64::from(packet.life) << 1 | packet.from as u64;
        let count = counter.handle_packet(now.to_time(), flow, last);
        if packet.is_stamped() {
            packet.senders = m21::stamp(packet.senders, count).min(largest);
        }
    }
}

/// How much a port may hold where so much is left of a shared memory (Choudhury and Hahne 1998).
#[expect(
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "neither factor is negative, and memories are of some gigabytes at most"
)]
fn dynamic_threshold(left: u64, alpha: f64) -> u64 {
    (left as f64 * alpha) as u64
}

/// What a shared memory has left for one of its ports: all of it, or what dynamic thresholds leave that port.
fn left(pool: &Pool, channels: &mut [Channel], port: u32, now: Ps) -> u64 {
    let used: u64 = pool.ports.iter().map(|&port| channels[port as usize].occupancy(now).0).sum();
    let left = pool.bytes.saturating_sub(used);
    match pool.alpha {
        None => left,
        Some(alpha) => {
            left.min(dynamic_threshold(left, alpha).saturating_sub(channels[port as usize].occupancy(now).0))
        }
    }
}
