//! The held packets: each flow's in order, the flows in their levels (PAC §III-D), and all by age.

use alloc::vec::Vec;

use super::super::state::{Flow, Gate, State, flag};
use super::Scheduler;
use super::watch::Update;
use crate::decision::{self, Class, Outgoing, Rules};
use crate::policy::{Action, FlowId, PacketId};
use crate::units::{Span, Time};

pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) packet: PacketId,
    pub(super) flow: FlowId,
    pub(super) out: Outgoing,
    pub(super) since: Time,
    /// The flow's generation when it was held: a later connection in the same entry has nothing to do with it.
    pub(super) generation: u32,
    /// Next of the same flow.
    pub(super) next: u32,
    /// Tells a slot's tenants apart.
    pub(super) ticket: u32,
}

/// Packets that are looked after in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// Acknowledges data: the sender's timers run.
    Ack,
    /// Asks for data: our own TCP's timer runs.
    Request,
    /// Has left already; no timer runs.
    Copy,
}

impl Age {
    pub(super) const ALL: [Self; 3] = [Self::Ack, Self::Request, Self::Copy];

    pub(super) const fn of(held: &Held) -> Self {
        match held.out.class {
            _ if held.out.copy => Self::Copy,
            Class::Request | Class::Handshake => Self::Request,
            _ => Self::Ack,
        }
    }

    /// The longest hold.
    pub(super) fn limit(self, rules: &Rules, gate: &Gate) -> Span {
        match self {
            Self::Ack => decision::longest_ack_hold(rules, gate),
            Self::Request => decision::longest_request_hold(rules, gate),
            Self::Copy => rules.max_hold,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FlowQueue {
    pub(super) head: u32,
    pub(super) tail: u32,
    pub(super) level: u8,
    /// The turn for which it waits in its level; 0 when it waits for none.
    pub(super) turn: u32,
    pub(super) promoted: bool,
    /// Stands in `granted`.
    pub(super) watched: bool,
    /// The copy that brought the last grant, until the sender has answered it.
    pub(super) update: Option<Update>,
}

pub(super) const EMPTY: FlowQueue =
    FlowQueue { head: NONE, tail: NONE, level: 0, turn: 0, promoted: false, watched: false, update: None };

impl Scheduler {
    pub(super) fn push(&mut self, flow: &Flow, id: FlowId, packet: PacketId, out: Outgoing, now: Time) {
        self.tickets = self.tickets.wrapping_add(1);
        let held = Held {
            packet,
            flow: id,
            out,
            since: now,
            generation: flow.generation.get(),
            next: NONE,
            ticket: self.tickets,
        };
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = held;
            slot
        } else {
            self.slots.push(held);
            (self.slots.len() - 1) as u32
        };
        let index = id.0 as usize;
        if self.flows.len() <= index {
            self.flows.resize(index + 1, EMPTY);
        }
        let queue = &mut self.flows[index];
        if queue.head == NONE {
            queue.head = slot;
        } else {
            let tail = queue.tail as usize;
            self.slots[tail].next = slot;
        }
        queue.tail = slot;
        self.ages[Age::of(&held) as usize].push_back((slot, self.tickets));
        self.stats.held_max = self.stats.held_max.max(self.held() as u64);
    }

    /// Where windows are granted a later packet says all that the flow's held bare ACKs say, and its grant is theirs.
    pub(super) fn drop_subsumed(&mut self, rules: &Rules, gate: &Gate, flow: &Flow, id: FlowId, echoes: bool) {
        while let Some(&FlowQueue { head, .. }) = self.flows.get(id.0 as usize).filter(|queue| queue.head != NONE) {
            let held = self.slots[head as usize];
            if !decision::governs(rules, gate, flow)
                || !held.out.is_repeated_by(echoes)
                || held.generation != flow.generation.get()
            {
                break;
            }
            self.take_head(flow, id);
            unhold(gate, flow);
            self.discard(held.packet);
        }
    }

    /// Puts a flow with held ACKs at the end of its level, unless it waits there already.
    pub(super) fn wait(&mut self, rules: &Rules, flow: &Flow, id: FlowId) {
        let queue = self.flows[id.0 as usize];
        if queue.head == NONE {
            return;
        }
        let level = if queue.promoted { 0 } else { rules.level_of(flow.size.get()) };
        if queue.turn == 0 || queue.level as usize > level {
            self.line_up(id, level);
        }
    }

    /// Gives a flow the last turn in a level; a turn that it had before means nothing any more.
    pub(super) fn line_up(&mut self, id: FlowId, level: usize) {
        self.turns = self.turns.wrapping_add(1).max(1);
        let queue = &mut self.flows[id.0 as usize];
        queue.level = level as u8;
        queue.turn = self.turns;
        self.levels[level].push_back((id, self.turns));
    }

    /// The flow whose turn it is: the first of the highest level, or the one that would else wait for too long. Flows that
    /// have outgrown their level sink on the way.
    pub(super) fn front(&mut self, rules: &Rules, state: &impl State, now: Time) -> Option<FlowId> {
        // Well before the limit, at which they would leave whether there is room or not.
        let ages =
            if rules.grants() { [(Age::Request, 4), (Age::Copy, 2)] } else { [(Age::Ack, 3), (Age::Request, 3)] };
        let overdue = ages.into_iter().filter_map(|(age, part)| self.oldest(age, Span(self.limit(age).0 / part), now));
        if let Some((_, id, _)) = overdue.min_by_key(|&(since, ..)| since) {
            return Some(id);
        }
        for level in 0..rules.levels() {
            while let Some(&(id, turn)) = self.levels[level].front() {
                let queue = self.flows[id.0 as usize];
                let valid = queue.turn == turn && queue.head != NONE;
                let sunk = state.flow(id).map_or(level, |flow| rules.level_of(flow.size.get()));
                if valid && (queue.promoted || sunk <= level) {
                    return Some(id);
                }
                self.levels[level].pop_front();
                if valid {
                    self.line_up(id, sunk);
                } else if queue.turn == turn {
                    self.flows[id.0 as usize].turn = 0;
                }
            }
        }
        None
    }

    /// Since when the oldest packet of an age is held, if that is for at least `wait`; its flow, and that flow's first packet.
    pub(super) fn oldest(&self, age: Age, wait: Span, now: Time) -> Option<(Time, FlowId, u32)> {
        let &(slot, _) = self.ages[age as usize].front()?;
        let held = &self.slots[slot as usize];
        (now.since(held.since) >= wait).then(|| (held.since, held.flow, self.flows[held.flow.0 as usize].head))
    }

    pub(super) fn drop_departed_ages(&mut self) {
        for queue in &mut self.ages {
            while let Some(&(slot, ticket)) = queue.front() {
                if self.slots[slot as usize].ticket == ticket {
                    break;
                }
                queue.pop_front();
            }
        }
    }

    pub(super) fn take_head(&mut self, flow: &Flow, id: FlowId) -> Held {
        let queue = &mut self.flows[id.0 as usize];
        let slot = queue.head;
        let held = self.slots[slot as usize];
        queue.head = held.next;
        if queue.head == NONE {
            queue.tail = NONE;
            queue.promoted = false;
        }
        self.slots[slot as usize].ticket = 0;
        self.free.push(slot);
        self.drop_departed_ages();
        if held.out.copy && held.generation == flow.generation.get() {
            flow.flags.lower(flag::COPIED);
        }
        held
    }

    /// PAC §III-D: the flow's out-of-order ACKs are dropped, the others move to the highest priority, and the flow is
    /// in slow start again, as its sender is after the timeout that brought the stale ACK about.
    pub(super) fn drop_stale(&mut self, rules: &Rules, gate: &Gate, flow: &Flow, id: FlowId) {
        decision::note_overtaken(rules, gate, flow);
        let Some(queue) = self.flows.get(id.0 as usize).copied() else { return };
        let mut kept: Vec<u32> = Vec::new();
        let mut slot = queue.head;
        while slot != NONE {
            let held = self.slots[slot as usize];
            let last = kept.last().map(|&last| self.slots[last as usize].out);
            let in_order = last.is_none_or(|last| held.out.ack.after(last.ack));
            let own = held.out.data || held.out.dsack || last.is_some_and(|last| last.ece != held.out.ece);
            if in_order || own {
                kept.push(slot);
            } else {
                self.slots[slot as usize].ticket = 0;
                self.free.push(slot);
                unhold(gate, flow);
                self.discard(held.packet);
            }
            slot = held.next;
        }
        for pair in kept.windows(2) {
            self.slots[pair[0] as usize].next = pair[1];
        }
        if let Some(&last) = kept.last() {
            self.slots[last as usize].next = NONE;
        }
        let queue = &mut self.flows[id.0 as usize];
        queue.head = kept.first().copied().unwrap_or(NONE);
        queue.tail = kept.last().copied().unwrap_or(NONE);
        if queue.head != NONE {
            queue.promoted = true;
            if queue.turn == 0 || queue.level != 0 {
                self.line_up(id, 0);
            }
        }
    }

    pub(super) fn discard(&mut self, packet: PacketId) {
        self.stats.discarded += 1;
        self.ready.push_back((Action::Discard(packet), Span::ZERO));
    }
}

/// One packet of the flow is held no more.
pub(super) fn unhold(gate: &Gate, flow: &Flow) {
    flow.held.take_up_to(1);
    gate.held.take_up_to(1);
}
