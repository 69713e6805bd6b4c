//! A run: the network, the endpoints and the traffic, driven by one queue of events.
//!
//! What happens to a packet: an endpoint emits it ([`World::emit`]); the host's shim may hold it; it enters the first
//! channel of its path ([`World::inject`]), which knows when it will be at the far end; there it enters the next one or
//! reaches its host ([`World::deliver`]), whose endpoint may emit packets in turn.

use std::collections::VecDeque;
use std::time::Instant;

use ackgate_control::m21::{self, FlowCounter};
use ackgate_control::policy::{Action, FlowId, PacketId, Verdict};
use ackgate_control::segment::{Edit, Flags};

use crate::engine::{EventQueue, Ps, Purpose, Random, prefetch, prefetch_all};
use crate::measure::Tally;
use crate::net::{Channel, NIL, Packet, Plan, Refusal, Route, Side, Slab};
use crate::observer::{Congestion, DropReason, Interface, InterfaceKind, Observer, Way};
use crate::report::Report;
use crate::scenario::{Scenario, Scheme};
use crate::settings;
use crate::shim::Shim;
use crate::tcp::{Endpoint, TcpConfig};
use crate::watch::{Known, Watch};
use crate::workload::Group;

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The scenario asks for more connections than an event can name.
    #[error("{0} connections are too many: at most {max} fit one run", max = MAX_CONNECTIONS)]
    TooManyConnections(u64),
    /// The scenario gives a workload nobody to run it.
    #[error("`senders` is 0: at least one sender is needed")]
    NoSenders,
    /// A parameter of the scheme makes no sense.
    #[error("the scheme cannot run: {0}")]
    Scheme(&'static str),
    /// Packets were lost or made by the simulator itself: a fault of the program, never of the scenario.
    #[error("packets do not add up: {sent} sent, but {arrived} arrived, {dropped} dropped, {queued} in the network")]
    NotConserved {
        /// Handed to the network.
        sent: u64,
        /// Handed to TCP.
        arrived: u64,
        /// Dropped.
        dropped: u64,
        /// Still there.
        queued: u64,
    },
}

/// What an event is about: 4 bits of kind, 28 bits of index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The oldest packet on a channel arrives.
    Channel = 0,
    /// An endpoint's timer.
    Timer = 1,
    /// A shim's timer, by host.
    Shim = 2,
    /// A connection's sender begins its part: a round's answer, a period of sending.
    Begin = 3,
    /// A connection's sender ends a period of sending.
    End = 4,
    /// A connection's application writes at its rate.
    Write = 5,
    /// A connection is opened.
    Open = 6,
    /// A group's next step: a round after a pause, the next flow.
    Group = 7,
}

const INDEX_BITS: u32 = 28;
/// Cache lines of an endpoint that an ordinary segment touches.
const ENDPOINT_LINES: usize = 6;
const MAX_CONNECTIONS: u64 = 1 << (INDEX_BITS - 3);

impl Event {
    pub(crate) const fn at(self, index: u32) -> u32 {
        (self as u32) << INDEX_BITS | index
    }
}

/// A connection's place in the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection {
    path: [u32; 2],
    host: [u32; 2],
    /// Host of the shim on each side, [`NIL`] where there is none, and the number that the shim knows it by.
    shim: [u32; 2],
    known_as: [FlowId; 2],
    /// Its packets in the network.
    pub(crate) alive: u32,
    pub(crate) route: u32,
    pub(crate) group: u16,
    config: u16,
    life: u8,
}

/// The streams of randomness that a run draws from.
pub(crate) struct Randoms {
    pub(crate) start: Random,
    pub(crate) workload: Random,
    processing: Random,
    timeout: Random,
    numbers: Random,
    queue: Random,
}

/// Everything there is during a run.
pub(crate) struct World<'a, O> {
    pub(crate) now: Ps,
    pub(crate) events: EventQueue,
    slab: Slab,
    channels: Vec<Channel>,
    pools: Vec<Pool>,
    paths: Vec<u32>,
    routes: Vec<Route>,
    pub(crate) connections: Vec<Connection>,
    /// Both ends of connection `c`: `2c` the sender's, `2c + 1` the receiver's.
    pub(crate) endpoints: Vec<Endpoint>,
    configs: Vec<TcpConfig>,
    /// The scheme at each receiving host, or at every host; empty when there is none.
    shims: Vec<Shim>,
    /// M21TCP-A's flow counter of each channel, where that is a switch port; empty without M21TCP-A.
    counters: Vec<Option<FlowCounter<u64>>>,
    /// The largest number that M21TCP-A's field carries.
    largest_number: u32,
    pub(crate) groups: Vec<Group>,
    pub(crate) random: Randoms,
    pub(crate) watch: Watch<'a, O>,
    pub(crate) tally: Tally,
    /// Ethernet flow control: the channels that wait for room at each port; empty when frames are dropped instead.
    waiters: Vec<Line>,
    host_delay: Ps,
    host_jitter: Ps,
    trailer: u8,
    bottleneck: u32,
    last_hop: u32,
    pub(crate) finished: bool,
}

/// Channels that wait for room at a port, in order (Ethernet flow control).
#[derive(Clone, Default)]
struct Line {
    channels: VecDeque<u32>,
    /// The first has an event at which it tries.
    called: bool,
}

/// Memory that the ports of one switch share.
struct Pool {
    bytes: u64,
    ports: Vec<u32>,
}

/// Simulates a scenario.
///
/// # Errors
/// [`Error`] says why there is no result.
pub fn run<O: Observer>(scenario: &Scenario, observer: &mut O) -> Result<Report, Error> {
    let started = Instant::now();
    let scenario = &scenario.resolved();
    let asked = u64::from(scenario.senders) + scenario.background.iter().map(|b| u64::from(b.senders)).sum::<u64>();
    if asked >= MAX_CONNECTIONS {
        return Err(Error::TooManyConnections(asked));
    }
    if scenario.senders == 0 {
        return Err(Error::NoSenders);
    }
    let mut world = World::new(scenario, observer)?;
    world.start_groups();
    world.run(Ps::from_span(scenario.time_limit));
    world.report(scenario, started)
}

impl<'a, O: Observer> World<'a, O> {
    fn new(scenario: &Scenario, observer: &'a mut O) -> Result<Self, Error> {
        let plan = Plan::new(scenario);
        let stream = |purpose| Random::new(scenario.seed, purpose);
        let mut pools: Vec<Pool> = plan.pools.iter().map(|&bytes| Pool { bytes, ports: Vec::new() }).collect();
        for (port, channel) in (0u32..).zip(&plan.channels) {
            if let Some(pool) = channel.pool() {
                pools[pool as usize].ports.push(port);
            }
        }
        let main = TcpConfig::new(scenario, scenario.tcp.cc, scenario.tcp.ecn);
        let mut configs = vec![main];
        for background in &scenario.background {
            let cc = background.cc.unwrap_or(scenario.tcp.cc);
            configs.push(TcpConfig::new(scenario, cc, background.ecn.unwrap_or(scenario.tcp.ecn)));
        }
        let mut world = Self {
            now: Ps::ZERO,
            events: EventQueue::new(plan.grain),
            slab: Slab::new(),
            watch: Watch::new(observer, &plan.interfaces),
            pools,
            paths: plan.paths,
            connections: Vec::with_capacity(plan.routes.len()),
            endpoints: Vec::with_capacity(2 * plan.routes.len()),
            configs,
            shims: Shim::all(scenario, plan.receivers, plan.hosts)?,
            counters: counters(scenario, &plan.interfaces),
            largest_number: settings::m21_field(scenario).largest(),
            groups: Group::all(scenario),
            random: Randoms {
                start: stream(Purpose::Start),
                workload: stream(Purpose::Workload),
                processing: stream(Purpose::Processing),
                timeout: stream(Purpose::Timeout),
                numbers: stream(Purpose::SequenceNumbers),
                queue: stream(Purpose::Queue),
            },
            tally: Tally::new(),
            waiters: if scenario.switch.pause { vec![Line::default(); plan.channels.len()] } else { Vec::new() },
            host_delay: Ps::from_span(scenario.host.delay),
            host_jitter: Ps::from_span(scenario.host.jitter),
            trailer: if scenario.network.framing.in_buffer() >= 18 { 4 } else { 0 },
            bottleneck: plan.bottleneck,
            last_hop: plan.last_hop,
            channels: plan.channels,
            routes: plan.routes,
            finished: false,
        };
        for group in 0..world.groups.len() {
            let Group { first, senders, .. } = world.groups[group];
            for route in first..first + senders {
                world.add_connection(route, group as u16);
            }
        }
        Ok(world)
    }

    /// A new slot for connections of a sender.
    pub(crate) fn add_connection(&mut self, route: u32, group: u16) -> u32 {
        let Route { path, host, .. } = self.routes[route as usize];
        let number = u32::try_from(self.connections.len()).expect("fewer than 2^28 connections");
        let (shim, known_as) = (host.map(|host| self.shim_at(host)), host.map(|host| self.introduce(number, host)));
        let connection = Connection { path, host, shim, known_as, alive: 0, route, group, config: group, life: 0 };
        self.connections.push(connection);
        for _ in 0..2 {
            let iss = self.random.numbers.bits() as u32;
            self.endpoints.push(Endpoint::new(&self.configs[usize::from(group)], iss));
        }
        number
    }

    /// The shim of a host.
    fn shim_at(&self, host: u32) -> u32 {
        if (host as usize) < self.shims.len() { host } else { NIL }
    }

    /// Gives a connection a number at a host's shim.
    fn introduce(&mut self, connection: u32, host: u32) -> FlowId {
        self.shims.get_mut(host as usize).map_or(FlowId(NIL), |shim| shim.number(connection))
    }

    /// Gives a slot to a new connection: what is left of the old one counts no more.
    pub(crate) fn renew(&mut self, connection: u32, route: u32) {
        let Route { path, host, .. } = self.routes[route as usize];
        for (side, &host) in host.iter().enumerate() {
            if host != self.connections[connection as usize].host[side] {
                let (shim, known_as) = (self.shim_at(host), self.introduce(connection, host));
                let slot = &mut self.connections[connection as usize];
                (slot.host[side], slot.shim[side], slot.known_as[side]) = (host, shim, known_as);
            }
        }
        let slot = &mut self.connections[connection as usize];
        slot.life = slot.life.wrapping_add(1);
        slot.route = route;
        slot.path = path;
        let config = &self.configs[usize::from(slot.config)];
        for side in [Side::Sender, Side::Receiver] {
            let e = endpoint(connection, side);
            self.tally.retire(&self.endpoints[e]);
            self.endpoints[e] = Endpoint::new(config, self.random.numbers.bits() as u32);
        }
    }

    fn run(&mut self, limit: Ps) {
        while let Some((time, event)) = self.events.pop() {
            if time > limit {
                self.now = limit;
                break;
            }
            self.now = time;
            self.tally.events += 1;
            if O::ENABLED {
                self.watch.catch_up(time);
            }
            self.look_ahead();
            let index = event & ((1 << INDEX_BITS) - 1);
            match event >> INDEX_BITS {
                e if e == Event::Channel as u32 => self.arrive(index),
                e if e == Event::Timer as u32 => self.timer(index),
                e if e == Event::Shim as u32 => self.shim_timer(index),
                e if e == Event::Begin as u32 => self.begin(index),
                e if e == Event::End as u32 => self.end(index),
                e if e == Event::Write as u32 => self.write_at_rate(index),
                e if e == Event::Open as u32 => self.open(index),
                _ => self.step_group(index),
            }
            if self.finished {
                break;
            }
        }
        if O::ENABLED {
            self.watch.catch_up(self.now);
        }
    }

    /// Has what the next events need brought near: first their channels and endpoints, then, one event later, the
    /// packets on these channels.
    #[inline]
    fn look_ahead(&self) {
        if let Some(event) = self.events.upcoming(1) {
            let index = (event & ((1 << INDEX_BITS) - 1)) as usize;
            match event >> INDEX_BITS {
                e if e == Event::Channel as u32 => prefetch(&self.channels, index),
                e if e == Event::Timer as u32 => {
                    prefetch_all(&self.endpoints, index, ENDPOINT_LINES);
                    prefetch(&self.endpoints, index ^ 1);
                    prefetch(&self.connections, index / 2);
                }
                _ => {}
            }
        }
        if let Some(event) = self.events.upcoming(0) {
            let index = (event & ((1 << INDEX_BITS) - 1)) as usize;
            match event >> INDEX_BITS {
                e if e == Event::Channel as u32 => self.slab.prefetch(self.channels[index].head()),
                e if e == Event::Timer as u32 => {
                    let host = self.connections[index / 2].host[index & 1];
                    prefetch(&self.channels, first_channel(host));
                }
                _ => {}
            }
        }
    }

    /// The oldest packet on a channel is at its far end.
    #[inline]
    fn arrive(&mut self, index: u32) {
        let channel = &mut self.channels[index as usize];
        let handle = channel.head();
        let Packet { next, hop, flow, from, .. } = self.slab[handle];
        let arrived = self.paths[hop as usize] == NIL;
        if arrived {
            prefetch_all(&self.endpoints, endpoint(flow, from.peer()), ENDPOINT_LINES);
            prefetch(&self.connections, flow as usize);
        }
        if !arrived && !self.waiters.is_empty() && !self.admitted(index, handle, next) {
            return;
        }
        let channel = &mut self.channels[index as usize];
        channel.advance(next);
        if next != NIL {
            self.events.push(self.slab[next].arrival, Event::Channel.at(index));
        }
        if arrived {
            self.deliver(handle);
            return;
        }
        self.inject(self.now, handle);
        if !self.waiters.is_empty() {
            self.call_next(self.paths[hop as usize]);
        }
    }

    /// IEEE 802.3x: whether a port takes the frame that a channel brings. If not, the channel is paused and waits for its
    /// turn.
    fn admitted(&mut self, index: u32, handle: u32, next: u32) -> bool {
        let Packet { hop, .. } = self.slab[handle];
        let port = self.paths[hop as usize];
        let line = &mut self.waiters[port as usize];
        let first = line.channels.front() == Some(&index);
        if !first {
            if line.channels.is_empty()
                && self.channels[port as usize].full_until(self.now, self.slab[handle].frame()).is_none()
            {
                return true;
            }
            line.channels.push_back(index);
            self.channels[index as usize].pause(self.now);
            self.call_next(port);
            return false;
        }
        line.called = false;
        if self.channels[port as usize].full_until(self.now, self.slab[handle].frame()).is_some() {
            self.call_next(port);
            return false;
        }
        line.channels.pop_front();
        let channel = &mut self.channels[index as usize];
        channel.resume(self.now);
        if next != NIL {
            let behind = self.now + channel.transmission(self.slab[next].frame());
            self.slab[next].arrival = self.slab[next].arrival.max(behind);
        }
        // Others may wait for room in this channel, which had none while it was paused.
        self.call_next(index);
        true
    }

    /// The first of those that wait for a port tries when there is room for its frame; while the port is paused itself,
    /// that is not known.
    fn call_next(&mut self, port: u32) {
        let line = &mut self.waiters[port as usize];
        let Some(&waiter) = line.channels.front() else { return };
        if line.called {
            return;
        }
        let frame = self.slab[self.channels[waiter as usize].head()].frame();
        let at = self.channels[port as usize].full_until(self.now, frame).unwrap_or(self.now);
        if at < Ps::NEVER {
            line.called = true;
            self.events.push(at, Event::Channel.at(waiter));
        }
    }

    /// A packet enters the next channel of its path, and those behind it whose future is known already.
    #[inline]
    fn inject(&mut self, now: Ps, handle: u32) {
        let mut at = now;
        loop {
            let packet = &mut self.slab[handle];
            let index = self.paths[packet.hop as usize];
            let pool_left = match self.channels[index as usize].pool() {
                None => u64::MAX,
                Some(pool) => left(&self.pools[pool as usize], &mut self.channels, at),
            };
            if let Some(Some(counter)) = self.counters.get_mut(index as usize) {
                stamp(packet, counter, at, self.largest_number);
            }
            let channel = &mut self.channels[index as usize];
            let offer = match channel.offer(at, packet, pool_left, &mut self.random.queue) {
                Ok(offer) => offer,
                Err(refusal) => {
                    let reason = if refusal == Refusal::Full { DropReason::Full } else { DropReason::Early };
                    self.discard(at, handle, index, reason);
                    return;
                }
            };
            if offer.marked {
                packet.bits |= Packet::CE;
            }
            packet.hop += 1;
            if O::ENABLED {
                let packet = *packet;
                let known = known(&self.connections, &self.routes, &self.configs, self.trailer, packet.flow);
                self.watch.packet(offer.start, index, Way::Out, &packet, &known);
                self.watch.packet(offer.arrival, index, Way::In, &packet, &known);
                if offer.leaves > at {
                    self.watch.queued(at, offer.leaves, index, self.channels[index as usize].padded(&packet));
                }
            }
            let packet = &mut self.slab[handle];
            let next = self.paths[packet.hop as usize];
            let channel = &mut self.channels[index as usize];
            let mut arrival = offer.arrival;
            if next == NIL {
                arrival += self.host_delay + Ps(self.random.processing.up_to(self.host_jitter.0));
                arrival = channel.in_order(arrival);
            } else if self.channels[next as usize].eager {
                at = arrival;
                continue;
            }
            packet.arrival = arrival;
            packet.next = NIL;
            match self.channels[index as usize].append(handle) {
                NIL => self.events.push(arrival, Event::Channel.at(index)),
                before => self.slab[before].next = handle,
            }
            return;
        }
    }

    /// A packet's life ends without arriving.
    #[cold]
    fn discard(&mut self, at: Ps, handle: u32, channel: u32, reason: DropReason) {
        let packet = self.slab[handle];
        if O::ENABLED {
            let known = known(&self.connections, &self.routes, &self.configs, self.trailer, packet.flow);
            self.watch.dropped(at, channel, &packet, &known, reason);
        }
        if reason == DropReason::Scheme {
            self.tally.discarded += 1;
        } else {
            self.tally.dropped += 1;
        }
        self.connections[packet.flow as usize].alive -= 1;
        self.slab.remove(handle);
    }

    /// A packet is at its host.
    #[inline]
    fn deliver(&mut self, handle: u32) {
        let now = self.now;
        let packet = &mut self.slab[handle];
        let (flow, side) = (packet.flow, packet.from.peer());
        let connection = &mut self.connections[flow as usize];
        connection.alive -= 1;
        self.tally.arrived += 1;
        let (shim, known_as) = (connection.shim[side as usize], connection.known_as[side as usize]);
        prefetch(&self.channels, first_channel(connection.host[side as usize]));
        let config = &self.configs[usize::from(connection.config)];
        if packet.is(Packet::PROBE) {
            if shim != NIL {
                let ce = packet.is(Packet::CE);
                self.shims[shim as usize].policy().handle_probe(now.to_time(), known_as, ce);
            }
            self.slab.remove(handle);
            self.drain_shim(shim);
            return;
        }
        if shim != NIL {
            let segment = packet.segment(config.announced_mss, config.wscale, self.trailer);
            let edit = self.shims[shim as usize].policy().handle_ingress(now.to_time(), known_as, &segment);
            apply(edit, packet);
        }
        if packet.life != connection.life {
            // Of a connection that is no more: a real host would answer with a reset, which nobody awaits.
            self.slab.remove(handle);
        } else {
            let group = connection.group;
            let e = endpoint(flow, side);
            let arrived = self.endpoints[e].handle_segment(now, packet, config, &mut self.random.timeout);
            if packet.payload > 0 && side == Side::Receiver {
                self.tally.data_arrived += 1;
            }
            self.slab.remove(handle);
            if let Some(rtt) = arrived.rtt
                && side == Side::Sender
            {
                self.tally.rtt.record(rtt.0 / 1_000);
            }
            if arrived.readable > 0 {
                self.read(flow, side, group, arrived.readable);
            }
            if arrived.established {
                self.established(group);
            }
            self.output(e);
            if O::ENABLED && side == Side::Sender && arrived.acked > 0 {
                self.watch.congestion(now, flow, &congestion(&self.endpoints[e].sender));
            }
        }
        self.drain_shim(shim);
    }

    /// Sends all that an endpoint may send now, and sets its timer.
    #[inline]
    pub(crate) fn output(&mut self, e: usize) {
        let from = if e & 1 == 0 { Side::Sender } else { Side::Receiver };
        loop {
            let connection = &mut self.connections[e / 2];
            let config = &self.configs[usize::from(connection.config)];
            let packet = self.slab.vacant();
            if !self.endpoints[e].poll_transmit(self.now, config, &mut self.random.timeout, packet) {
                break;
            }
            packet.flow = (e / 2) as u32;
            packet.from = from;
            packet.life = connection.life;
            packet.hop = connection.path[from as usize];
            connection.alive += 1;
            let (shim, known_as) = (connection.shim[from as usize], connection.known_as[from as usize]);
            let handle = self.slab.claim();
            self.emit(handle, shim, known_as);
        }
        let deadline = self.endpoints[e].deadline();
        if deadline < self.endpoints[e].timer_at {
            self.endpoints[e].timer_at = deadline;
            self.events.push(deadline, Event::Timer.at(e as u32));
        }
    }

    /// A packet leaves TCP.
    #[inline]
    fn emit(&mut self, handle: u32, shim: u32, known_as: FlowId) {
        self.tally.sent += 1;
        if shim == NIL {
            self.inject(self.now, handle);
            return;
        }
        let slot = &mut self.shims[shim as usize];
        let packet = &self.slab[handle];
        let config = &self.configs[usize::from(self.connections[packet.flow as usize].config)];
        let segment = packet.segment(config.announced_mss, config.wscale, self.trailer);
        match slot.policy().handle_egress(self.now.to_time(), known_as, &segment, PacketId(handle)) {
            Verdict::Pass(edit) => {
                apply(edit, &mut self.slab[handle]);
                self.inject(self.now, handle);
            }
            Verdict::Hold => {
                self.slab[handle].arrival = self.now;
                slot.held += 1;
                self.tally.hold(slot.held);
            }
        }
        self.drain_shim(shim);
    }

    /// Does what a scheme wants done with held packets now, and sets its timer.
    fn drain_shim(&mut self, host: u32) {
        while let Some(slot) = self.shims.get_mut(host as usize) {
            let Some(action) = slot.policy().poll_action(self.now.to_time()) else {
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
                    slot.held -= 1;
                    let packet = &mut self.slab[handle];
                    apply(edit, packet);
                    self.tally.hold_time.record((self.now - packet.arrival).0 / 1_000);
                    self.inject(self.now, handle);
                }
                Action::Discard(PacketId(handle)) => {
                    slot.held -= 1;
                    let channel = self.paths[self.slab[handle].hop as usize];
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
        let config = &self.configs[usize::from(self.connections[flow].config)];
        self.slab[handle].become_bare_ack(config.header, config.wscale);
        apply(edit, &mut packet);
        self.tally.hold_time.record((self.now - packet.arrival).0 / 1_000);
        self.tally.sent += 1;
        self.connections[flow].alive += 1;
        let sent_on = self.slab.insert(packet);
        self.inject(self.now, sent_on);
    }

    /// Sends a scheme's probe along a flow's path.
    fn probe(&mut self, host: u32, flow: u32) {
        let connection = &mut self.connections[flow as usize];
        let from = if connection.shim[Side::Sender as usize] == host { Side::Sender } else { Side::Receiver };
        let header = self.configs[usize::from(connection.config)].header;
        let bits = Packet::PROBE | Packet::ECT;
        let hop = connection.path[from as usize];
        connection.alive += 1;
        self.tally.sent += 1;
        let packet = Packet { flow, from, hop, header, bits, life: connection.life, ..Packet::default() };
        let handle = self.slab.insert(packet);
        self.inject(self.now, handle);
    }

    fn shim_timer(&mut self, host: u32) {
        let slot = &mut self.shims[host as usize];
        if slot.timer_at == self.now {
            slot.timer_at = Ps::NEVER;
            self.drain_shim(host);
        }
    }

    /// An endpoint's timer event: perhaps its deadline has moved on since.
    fn timer(&mut self, index: u32) {
        let e = index as usize;
        if self.endpoints[e].timer_at != self.now {
            return;
        }
        self.endpoints[e].timer_at = Ps::NEVER;
        if self.endpoints[e].deadline() <= self.now {
            let connection = self.connections[e / 2];
            let expected = self.endpoints[e].sender.una;
            if self.endpoints[e].handle_timeout(self.now, &self.configs[usize::from(connection.config)]) {
                let spurious = self.endpoints[e ^ 1].receiver.has(expected) || self.in_network(e, expected);
                self.tally.timeout(spurious);
                self.timed_out(index / 2, connection.group);
                if O::ENABLED {
                    self.watch.timeout(self.now, index / 2);
                    self.watch.congestion(self.now, index / 2, &congestion(&self.endpoints[e].sender));
                }
            }
        }
        self.output(e);
    }

    /// Whether a copy of an endpoint's segment at `offset` is still on its way.
    fn in_network(&self, e: usize, offset: u64) -> bool {
        let connection = &self.connections[e / 2];
        if connection.alive == 0 {
            return false;
        }
        let number = self.endpoints[e].sender.number(offset);
        self.slab.iter().any(|packet| {
            packet.flow as usize == e / 2
                && packet.from as usize == e % 2
                && packet.life == connection.life
                && (packet.seq == number
                    || packet.seq.before(number) && (packet.seq + u32::from(packet.payload)).after(number))
                && (packet.payload > 0 || packet.flags.0 & 0x03 != 0)
        })
    }

    /// The main workload begins.
    pub(crate) fn begin_window(&mut self) {
        self.tally.begin(self.now, &mut self.channels, self.bottleneck, self.last_hop);
    }

    /// The main workload is done.
    pub(crate) fn end_window(&mut self) {
        self.tally.end(self.now, &mut self.channels, self.bottleneck, self.last_hop);
    }

    /// Time between handshakes that are not to collide: four small frames on the bottleneck.
    pub(crate) fn handshake_spacing(&self) -> Ps {
        Ps(4 * self.channels[self.bottleneck as usize].transmission(84).0)
    }

    /// Opens a connection from the side that its workload wants.
    pub(crate) fn open_from(&mut self, connection: u32, side: Side) {
        let e = endpoint(connection, side);
        self.endpoints[e].open();
        self.output(e);
    }

    fn report(self, scenario: &Scenario, started: Instant) -> Result<Report, Error> {
        let complete = self.complete();
        let mut report = Report {
            complete,
            scheme: scenario.scheme.name().into(),
            senders: scenario.senders,
            seed: scenario.seed,
            ..Report::default()
        };
        let Self { mut tally, mut channels, slab, groups, endpoints, now, bottleneck, last_hop, .. } = self;
        for endpoint in &endpoints {
            tally.retire(endpoint);
        }
        for group in &groups {
            group.report(&mut report, &endpoints);
        }
        tally.end(now, &mut channels, bottleneck, last_hop);
        tally.report(slab.len() as u64, &channels, &mut report);
        report.wall_s = started.elapsed().as_secs_f64();
        let packets = report.packets;
        if packets.sent != packets.arrived + packets.dropped + packets.queued {
            let crate::report::Packets { sent, arrived, dropped, queued } = packets;
            return Err(Error::NotConserved { sent, arrived, dropped, queued });
        }
        Ok(report)
    }
}

/// The index of one end of a connection.
pub(crate) const fn endpoint(connection: u32, side: Side) -> usize {
    2 * connection as usize + side as usize
}

/// M21TCP-A's flow counters: one for each switch port.
fn counters(scenario: &Scenario, interfaces: &[Interface]) -> Vec<Option<FlowCounter<u64>>> {
    if scenario.scheme != Scheme::M21 {
        return Vec::new();
    }
    let port = |interface: &Interface| interface.kind == InterfaceKind::Port;
    interfaces.iter().map(|it| port(it).then(|| FlowCounter::new(settings::m21_counter(scenario)))).collect()
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

/// The channel that a host's packets enter first (see [`Plan`]).
const fn first_channel(host: u32) -> usize {
    2 * host as usize
}

fn apply(edit: Edit, packet: &mut Packet) {
    if let Some(window) = edit.window {
        packet.window = window;
    }
    if let Some(ect) = edit.ect {
        packet.bits &= !(Packet::ECT | Packet::CE);
        packet.bits |= if ect { Packet::ECT } else { 0 };
    }
    if let Some(ece) = edit.ece {
        packet.flags.0 &= !Flags::ECE.0;
        packet.flags.0 |= if ece { Flags::ECE.0 } else { 0 };
    }
}

fn congestion(sender: &crate::tcp::Sender) -> Congestion {
    let ssthresh = sender.window.ssthresh;
    Congestion {
        cwnd: u64::from(sender.window.cwnd),
        ssthresh: if ssthresh == u32::MAX { u64::MAX } else { u64::from(ssthresh) },
        in_flight: sender.in_flight(),
    }
}

fn known<'a>(
    connections: &[Connection],
    routes: &'a [Route],
    configs: &[TcpConfig],
    trailer: u8,
    flow: u32,
) -> Known<'a> {
    let connection = &connections[flow as usize];
    let config = &configs[usize::from(connection.config)];
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

/// What a shared memory has left.
fn left(pool: &Pool, channels: &mut [Channel], now: Ps) -> u64 {
    let used: u64 = pool.ports.iter().map(|&port| channels[port as usize].occupancy(now).0).sum();
    pool.bytes.saturating_sub(used)
}
