//! Short flows, each on a new connection: epochs of them (HWatch §V) or arrivals from a file. Slots of connections that
//! are over and have nothing left in the network are used again.

use std::collections::VecDeque;

use crate::engine::{Ps, Random};
use crate::measure::Jain;
use crate::net::Side;
use crate::observer::{self, Observer};
use crate::scenario;
use crate::world::{Event, World, endpoint};

use super::Kind;

/// Flows of one group.
pub(super) struct Flows {
    /// By time of arrival.
    flows: Vec<Flow>,
    next: usize,
    finished: usize,
    /// Slots whose connection is over, the oldest first.
    over: VecDeque<u32>,
    /// What each slot of the group carries: slot number and flow, by slot number.
    carried: Vec<(u32, Carried)>,
    epochs: Vec<Epoch>,
    shares: Jain,
}

#[derive(Clone, Copy)]
struct Flow {
    start: Ps,
    sender: u32,
    bytes: u64,
    epoch: u32,
}

#[derive(Clone, Copy)]
struct Carried {
    started: Ps,
    sender: u32,
    bytes: u64,
    left: u64,
    epoch: u32,
}

/// A surge of flows.
#[derive(Clone, Copy, Default)]
struct Epoch {
    started: Ps,
    left: u32,
    bytes: u64,
    saw_timeout: bool,
}

/// How many slots that are over are looked at for one that can be used again.
const LOOK_AT: usize = 4;

impl Flows {
    fn new(flows: Vec<Flow>, epochs: Vec<Epoch>) -> Self {
        Self {
            flows,
            next: 0,
            finished: 0,
            over: VecDeque::new(),
            carried: Vec::new(),
            epochs,
            shares: Jain::default(),
        }
    }

    pub(super) fn epochs(config: &scenario::Epochs, senders: u32, random: &mut Random) -> Self {
        let mut flows = Vec::new();
        let mut epochs = Vec::new();
        let mut order: Vec<u32> = (0..senders).collect();
        for epoch in 0..config.epochs {
            let mut at = Ps::from_span(config.start + config.interval * u64::from(epoch));
            for n in (1..order.len()).rev() {
                let other = random.up_to(n as u64) as usize;
                order.swap(n, other);
            }
            for &sender in &order {
                flows.push(Flow { start: at, sender, bytes: config.size, epoch });
                at += random.exponential(Ps::from_span(config.mean_gap));
            }
            epochs.push(Epoch { left: senders, ..Epoch::default() });
        }
        flows.sort_by_key(|flow| flow.start);
        Self::new(flows, epochs)
    }

    pub(super) fn trace(config: &scenario::Trace) -> Self {
        let flow = |arrival: &scenario::Arrival| Flow {
            start: Ps::from_span(arrival.start),
            sender: arrival.sender,
            bytes: arrival.bytes,
            epoch: 0,
        };
        let mut flows: Vec<Flow> = config.arrivals.iter().map(flow).collect();
        flows.sort_by_key(|flow| flow.start);
        Self::new(flows, Vec::new())
    }

    pub(super) fn fairness(&self) -> f64 {
        self.shares.index()
    }

    fn carried(&mut self, connection: u32) -> Option<&mut Carried> {
        let at = self.carried.binary_search_by_key(&connection, |&(slot, _)| slot).ok()?;
        Some(&mut self.carried[at].1)
    }

    pub(super) fn timed_out(&mut self, connection: u32) {
        let epoch = self.carried(connection).map(|carried| carried.epoch);
        if let Some(epoch) = epoch.and_then(|epoch| self.epochs.get_mut(epoch as usize)) {
            epoch.saw_timeout = true;
        }
    }
}

impl<O: Observer> World<'_, O> {
    fn flows(&mut self, group: u32) -> Option<&mut Flows> {
        match &mut self.groups[group as usize].kind {
            Kind::Flows(flows) => Some(flows),
            _ => None,
        }
    }

    pub(super) fn start_flows(&mut self, group: u32) {
        let (first, senders) = (self.groups[group as usize].first, self.groups[group as usize].senders);
        let Some(flows) = self.flows(group) else { return };
        flows.over = (first..first + senders).collect();
        match flows.flows.first().map(|flow| flow.start) {
            Some(start) => self.events.push(start, Event::Group.at(group)),
            None => self.group_done(group),
        }
    }

    /// Opens the next flow and schedules the one after it.
    pub(super) fn next_flow(&mut self, group: u32) {
        let (first, now) = (self.groups[group as usize].first, self.now);
        let Some(flows) = self.flows(group) else { return };
        let Some(&flow) = flows.flows.get(flows.next) else { return };
        let begins = flows.next == 0;
        flows.next += 1;
        if let Some(following) = flows.flows.get(flows.next).map(|flow| flow.start) {
            self.events.push(following, Event::Group.at(group));
        }
        if begins && self.is_main(group) {
            self.begin_window();
        }
        let route = first + flow.sender;
        let connection = self.free_slot(group, route);
        self.renew(connection, route);
        let Some(flows) = self.flows(group) else { return };
        let Flow { sender, bytes, epoch, .. } = flow;
        let carried = Carried { started: now, sender, bytes, left: bytes, epoch };
        match flows.carried.binary_search_by_key(&connection, |&(slot, _)| slot) {
            Ok(at) => flows.carried[at].1 = carried,
            Err(at) => flows.carried.insert(at, (connection, carried)),
        }
        let mut epoch_begins = false;
        if let Some(epoch) = flows.epochs.get_mut(flow.epoch as usize)
            && epoch.started == Ps::ZERO
        {
            // The first flow of its epoch. (One that starts at time zero stays at zero.)
            epoch.started = now;
            epoch_begins = true;
        }
        if epoch_begins && self.is_main(group) {
            self.watch.round_begins(now, flow.epoch + 1);
        }
        self.endpoints[endpoint(connection, Side::Sender)].write(flow.bytes, true);
        self.open_from(connection, Side::Sender);
    }

    fn free_slot(&mut self, group: u32, route: u32) -> u32 {
        for _ in 0..LOOK_AT {
            let Some(slot) = self.flows(group).and_then(|flows| flows.over.pop_front()) else { break };
            let closed =
                [Side::Sender, Side::Receiver].iter().all(|&side| self.endpoints[endpoint(slot, side)].sender.closed());
            if closed && self.connections[slot as usize].alive == [0; 2] {
                return slot;
            }
            if let Some(flows) = self.flows(group) {
                flows.over.push_back(slot);
            }
        }
        self.add_connection(route, group as u16)
    }

    #[inline]
    pub(super) fn read_in_flow(&mut self, group: u32, connection: u32, side: Side, bytes: u64) {
        if side == Side::Sender {
            return;
        }
        let (now, main) = (self.now, self.is_main(group));
        let Some(flows) = self.flows(group) else { return };
        let Some(carried) = flows.carried(connection) else { return };
        carried.left = carried.left.saturating_sub(bytes);
        if carried.left > 0 {
            return;
        }
        let Carried { started, sender, bytes, epoch, .. } = *carried;
        let took = now - started;
        flows.shares.add(bytes as f64 / took.as_secs_f64());
        flows.over.push_back(connection);
        flows.finished += 1;
        let all = flows.finished == flows.flows.len();
        let round = flows.epochs.get(epoch as usize).map(|_| epoch + 1);
        let mut ended = None;
        if let Some(epoch) = flows.epochs.get_mut(epoch as usize) {
            epoch.left -= 1;
            epoch.bytes += bytes;
            if epoch.left == 0 {
                ended = Some(*epoch);
            }
        }
        self.endpoints[endpoint(connection, Side::Receiver)].write(0, true);
        self.tally.flow(self.connections[connection as usize].party, main.then_some(sender), took);
        let background = group.checked_sub(1);
        self.watch.flow_ends(now, &observer::Flow { background, sender, round, bytes, took: took.to_span() });
        if let Some(ended) = ended
            && main
        {
            self.tally.round(ended.bytes, now - ended.started, ended.saw_timeout);
            self.watch.round_ends(now, epoch + 1, (now - ended.started).to_span());
        }
        if all {
            self.group_done(group);
        }
    }
}
