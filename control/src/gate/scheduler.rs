//! Which held ACK leaves next, and when: Algorithm 1's `ACKqueues` as a multi-level feedback queue with per-flow round
//! robin, the stale-ACK rule (PAC §III-D), and the limit on how long anything is held.
//!
//! DESIGN NOTES
//! 1. Algorithm 1 dequeues the next ACK before it waits, so that a later ACK of higher priority stays behind it. Here
//!    the choice is made at the moment of release: strict priority then means what §III-D says.
//! 2. A flow waits in one level with all its held ACKs; it is moved down when its turn comes and its size has outgrown
//!    the level. That is §III-D's "moved from higher level queues to lower level queues", without a scan.
//!    A turn may be worth a quarter of the threshold instead of one ACK: what a flow sends in one go costs the hosts
//!    less, and an error of one segment is then one in every turn instead of one in every ACK.
//! 3. Head of line blocks: a small trigger behind a large one does not overtake it, or large ones would starve.
//! 4. An ACK that cannot wait (loss recovery) takes the flow's held ACKs with it, in order: duplicate ACKs only mean
//!    something to the sender after the ACK that they repeat.

mod watch;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::config::MAX_LEVELS;
use super::state::{Flow, Gate, State, flag};
use crate::budget::Budget;
use crate::decision::{self, Class, Outgoing, Rules, charge, edit, trigger};
use crate::policy::{Action, FlowId, PacketId};
use crate::segment::Edit;
use crate::seq::SeqNumber;
use crate::units::{Span, Time};
use watch::Update;

const NONE: u32 = u32::MAX;

/// A long turn is worth this part of the threshold.
const TURNS: u64 = 4;

#[derive(Clone, Copy, Debug)]
struct Held {
    packet: PacketId,
    flow: FlowId,
    out: Outgoing,
    since: Time,
    /// The flow's generation when it was held: a later connection in the same entry has nothing to do with it.
    generation: u32,
    /// Next of the same flow.
    next: u32,
    /// Tells a slot's tenants apart.
    ticket: u32,
}

/// Packets that are looked after in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    /// Acknowledges data: the sender's timers run.
    Ack,
    /// Asks for data: our own TCP's timer runs.
    Request,
    /// Has left already; no timer runs.
    Copy,
}

impl Age {
    const ALL: [Self; 3] = [Self::Ack, Self::Request, Self::Copy];

    const fn of(held: &Held) -> Self {
        match held.out.class {
            _ if held.out.copy => Self::Copy,
            Class::Request | Class::Handshake => Self::Request,
            _ => Self::Ack,
        }
    }

    /// The longest hold.
    fn limit(self, rules: &Rules, gate: &Gate) -> Span {
        match self {
            Self::Ack => decision::longest_ack_hold(rules, gate),
            Self::Request => decision::longest_request_hold(rules, gate),
            Self::Copy => rules.max_hold,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct FlowQueue {
    head: u32,
    tail: u32,
    level: u8,
    /// The turn for which it waits in its level; 0 when it waits for none.
    turn: u32,
    promoted: bool,
    /// Stands in `granted`.
    watched: bool,
    /// The copy that brought the last grant, until the sender has answered it.
    update: Option<Update>,
}

const EMPTY: FlowQueue =
    FlowQueue { head: NONE, tail: NONE, level: 0, turn: 0, promoted: false, watched: false, update: None };

/// Counters for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// ACKs released because the budget allowed it, or because they trigger nothing.
    pub released: u64,
    /// ACKs released because they had been held for `max_hold`.
    pub forced: u64,
    /// ACKs released at once with a flow in loss recovery.
    pub hurried: u64,
    /// Requests released without a grant because they had been held for half of `max_hold` or more, while a bare copy waits
    /// on.
    pub split: u64,
    /// Window updates sent once more because nothing came of them.
    pub repeated: u64,
    /// ACKs dropped because a later one said it all, or by the stale-ACK rule.
    pub discarded: u64,
    /// Most ACKs held at once.
    pub held_max: u64,
    /// Longest hold, ns.
    pub longest_hold: u64,
}

/// The held ACKs.
#[derive(Debug)]
pub struct Scheduler {
    slots: Vec<Held>,
    free: Vec<u32>,
    flows: Vec<FlowQueue>,
    /// Flows and their turns; an entry whose turn is not the flow's any more means nothing.
    levels: [VecDeque<(FlowId, u32)>; MAX_LEVELS],
    /// Every held packet by [`Age`], in order of arrival: the oldest of each is the first to reach its limit.
    ages: [VecDeque<(u32, u32)>; 3],
    /// Decided, not yet fetched.
    ready: VecDeque<(Action, Span)>,
    tickets: u32,
    turns: u32,
    /// When what is to leave next may: a burst of SYNs will be over, or the link have caught up.
    next_try: Time,
    /// Wire bytes that the present turn has taken.
    taken: u64,
    /// Flows that got a grant here, and since when each is watched for silence.
    granted: VecDeque<(FlowId, Time)>,
    /// Flows whose last window update may have to be sent once more.
    updates: usize,
    next_look: Time,
    next_scan: Time,
    next_idle_scan: Time,
    last_poll: Time,
    /// The longest hold of each [`Age`].
    limits: [Span; 3],
    budget: Budget,
    stats: Stats,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            flows: Vec::new(),
            levels: Default::default(),
            ages: Default::default(),
            ready: VecDeque::new(),
            tickets: 0,
            turns: 0,
            next_try: Time::ZERO,
            taken: 0,
            granted: VecDeque::new(),
            updates: 0,
            next_look: Time::ZERO,
            next_scan: Time::ZERO,
            next_idle_scan: Time::ZERO,
            last_poll: Time::ZERO,
            limits: [Span::ZERO; 3],
            budget: Budget::default(),
            stats: Stats::default(),
        }
    }
}

impl Scheduler {
    /// Counters so far.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Packets held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a packet that may not leave yet (Algorithm 1, line 8).
    pub fn enqueue<S: State>(
        &mut self,
        rules: &Rules,
        state: &S,
        id: FlowId,
        packet: PacketId,
        out: Outgoing,
        now: Time,
    ) {
        let Some(flow) = state.flow(id) else {
            self.ready.push_back((Action::Release(packet, Edit::NONE), Span::ZERO));
            return;
        };
        self.drop_update(id);
        self.limits = Age::ALL.map(|age| age.limit(rules, state.gate()));
        match out.class {
            Class::Stale => {
                self.drop_stale(state.gate(), flow, id);
                unhold(state.gate(), flow);
                self.discard(packet);
            }
            Class::Urgent => {
                self.push(flow, id, packet, out, now);
                self.flush(rules, state.gate(), flow, id, now);
            }
            _ => {
                self.drop_subsumed(rules, state.gate(), flow, id, out.ece);
                self.push(flow, id, packet, out, now);
                self.wait(rules, flow, id);
            }
        }
    }

    /// The next release or discard; `None` when nothing may leave before more arrives or time passes. The span is how
    /// long the packet was held.
    pub fn poll<S: State>(&mut self, rules: &Rules, state: &S, now: Time) -> Option<(Action, Span)> {
        loop {
            if let Some(done) = self.ready.pop_front() {
                return Some(done);
            }
            if self.held() == 0 && self.updates == 0 {
                self.observe_budget(rules, state, now);
                self.void_idle(rules, state, now);
                return None;
            }
            self.last_poll = now;
            let gate = state.gate();
            self.limits = Age::ALL.map(|age| age.limit(rules, gate));
            decision::roll(rules, gate, now);
            self.observe_budget(rules, state, now);
            if self.force_oldest(rules, state, now) {
                continue;
            }
            self.void_silent(rules, state, now);
            if !self.release_next(rules, state, now) && self.ready.is_empty() {
                return None;
            }
        }
    }

    /// The gate has been given another budget: the search for one begins anew.
    pub fn search_anew<S: State>(&mut self, state: &S) {
        self.budget = Budget::anew(state.gate());
    }

    /// Whether the search for a budget waits for the first losses.
    #[must_use]
    pub fn awaits_loss(&self, rules: &Rules) -> bool {
        Budget::applies(rules) && self.budget.awaits_loss(rules)
    }

    fn observe_budget<S: State>(&mut self, rules: &Rules, state: &S, now: Time) {
        if Budget::applies(rules) {
            self.budget.observe(rules, state.gate(), self.held() > 0, now);
        }
    }

    /// When to poll again although nothing arrives: the oldest ACK's limit, or the next look for silent flows.
    #[must_use]
    pub fn timeout(&self, rules: &Rules) -> Option<Time> {
        if !self.ready.is_empty() {
            return Some(Time::ZERO);
        }
        let after = |age: Age, span: Span| {
            let &(slot, _) = self.ages[age as usize].front()?;
            Some(self.slots[slot as usize].since + span)
        };
        let limit = Age::ALL.into_iter().filter_map(|age| after(age, self.limit(age))).min();
        let Some(limit) = limit else {
            let update = (self.updates > 0).then_some(self.next_look);
            return [update, self.budget.next_look()].into_iter().flatten().min();
        };
        let split = after(Age::Request, self.split_after()).filter(|_| rules.grants());
        // What could not be split when its time came is looked at again a little later.
        let split = split.map(|time| time.max(self.last_poll + Span(rules.silence.0 / 4)));
        // A time that has passed asks for nothing.
        let next_try = Some(self.next_try).filter(|&at| at > self.last_poll).unwrap_or(Time::NEVER);
        Some(limit.min(self.next_look).min(self.next_scan).min(next_try).min(split.unwrap_or(Time::NEVER)))
    }

    /// Releases everything at once, oldest first: the guard is being switched off.
    pub fn release_all<S: State>(&mut self, rules: &Rules, state: &S, now: Time) {
        while let Some(&(slot, _)) = self.ages.iter().find_map(VecDeque::front) {
            let id = self.slots[slot as usize].flow;
            let Some(flow) = state.flow(id) else { break };
            self.flush(rules, state.gate(), flow, id, now);
        }
        for id in 0..self.flows.len() {
            self.drop_update(FlowId(id as u32));
        }
    }

    const fn limit(&self, age: Age) -> Span {
        self.limits[age as usize]
    }

    /// When a request may leave without a grant: well before our own TCP repeats it.
    const fn split_after(&self) -> Span {
        Span(self.limit(Age::Request).0 / 2)
    }

    /// Forgets everything, unsent: somebody else has seen to it.
    pub fn abandon<S: State>(&mut self, state: &S) {
        self.drop_departed_ages();
        while let Some(&(slot, _)) = self.ages.iter().find_map(VecDeque::front) {
            let id = self.slots[slot as usize].flow;
            let Some(flow) = state.flow(id) else { break };
            let held = self.take_head(flow, id);
            unhold(state.gate(), flow);
            self.discard(held.packet);
        }
        for id in 0..self.flows.len() {
            self.drop_update(FlowId(id as u32));
        }
        // What was decided and not fetched. The copy that stays behind a split packet has just been discarded.
        self.ready.retain_mut(|(action, _)| {
            if let Action::Release(packet, _) = *action {
                *action = Action::Discard(packet);
            }
            !matches!(action, Action::Split(..))
        });
    }

    fn push(&mut self, flow: &Flow, id: FlowId, packet: PacketId, out: Outgoing, now: Time) {
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
    fn drop_subsumed(&mut self, rules: &Rules, gate: &Gate, flow: &Flow, id: FlowId, echoes: bool) {
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
    fn wait(&mut self, rules: &Rules, flow: &Flow, id: FlowId) {
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
    fn line_up(&mut self, id: FlowId, level: usize) {
        self.turns = self.turns.wrapping_add(1).max(1);
        let queue = &mut self.flows[id.0 as usize];
        queue.level = level as u8;
        queue.turn = self.turns;
        self.levels[level].push_back((id, self.turns));
    }

    /// The flow whose turn it is: the first of the highest level, or the one that would else wait for too long. Flows that
    /// have outgrown their level sink on the way.
    fn front(&mut self, rules: &Rules, state: &impl State, now: Time) -> Option<FlowId> {
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

    /// Algorithm 1, lines 10-14: releases the next ACK if the budget allows, else asks to be woken when it does.
    fn release_next<S: State>(&mut self, rules: &Rules, state: &S, now: Time) -> bool {
        let gate = state.gate();
        let Some(id) = self.front(rules, state, now) else {
            gate.far_waits.set(0);
            return false;
        };
        let (Some(flow), queue) = (state.flow(id), self.flows[id.0 as usize]) else { return false };
        let held = self.slots[queue.head as usize];
        let current = held.generation == flow.generation.get();
        let wire = if current { trigger(rules, gate, flow, &held.out.now(flow)).wire() } else { 0 };
        let syn_ack = held.out.class == Class::Handshake && flow.flags.any(flag::HALF_OPEN);
        if syn_ack
            && decision::syns_are_arriving(rules, gate, now)
            && now.since(held.since).0 < decision::drain(rules, gate)
        {
            self.next_try = decision::settled_at(rules, gate);
            return false;
        }
        let (holds, pipe) = (decision::booked_with(rules, gate, flow), decision::pipe_of(rules, gate, flow));
        gate.far_waits.set(u64::from(pipe > 0));
        if wire > 0 && !decision::keeps_pace(rules, gate, flow, &held.out, wire, now) {
            self.next_try = decision::keeps_pace_at(rules, gate, flow, &held.out, wire, now);
            return false;
        }
        if wire > 0 && !decision::admits(rules, gate, wire, holds) {
            if self.split_oldest_request(rules, state, now) {
                return true;
            }
            gate.wanted_path.set(holds);
            gate.wanted.set(decision::room_needed(rules, gate, wire, holds));
            // The budget may have grown between the look and the wish.
            if !decision::admits(rules, gate, wire, holds) {
                return false;
            }
            gate.wanted.take();
        }
        self.release_head(rules, gate, flow, id, now, |stats| &mut stats.released);
        self.taken += wire;
        let next = self.flows[id.0 as usize].head;
        let goes_on = |next| match rules.long_turns {
            true => self.taken < gate.threshold.get() / TURNS,
            false => !rules.grants() && self.triggers_nothing(rules, gate, flow, next),
        };
        if next != NONE && goes_on(next) {
            // Its turn goes on.
            return true;
        }
        self.taken = 0;
        self.flows[id.0 as usize].turn = 0;
        self.wait(rules, flow, id);
        true
    }

    /// Whether a packet sets nothing in motion, as a request behind the handshake's last ACK, which was charged for both. It has
    /// nothing to wait for, and what was charged does not come before it has left.
    fn triggers_nothing(&self, rules: &Rules, gate: &Gate, flow: &Flow, slot: u32) -> bool {
        let held = &self.slots[slot as usize];
        held.generation == flow.generation.get() && trigger(rules, gate, flow, &held.out.now(flow)).wire() == 0
    }

    /// Lets go the first packet of the flow whose packet has reached its limit. Where windows are granted it leaves without a
    /// grant, and a bare copy of it stays in its place; else it is charged and gone.
    fn force_oldest<S: State>(&mut self, rules: &Rules, state: &S, now: Time) -> bool {
        self.drop_departed_ages();
        let overdue = Age::ALL.into_iter().find_map(|age| self.oldest(age, self.limit(age), now));
        let Some((_, id, head)) = overdue else { return false };
        let Some(flow) = state.flow(id) else { return false };
        if self.can_split(rules, state.gate(), flow, head) {
            self.split(rules, state.gate(), flow, head, now);
        } else {
            self.release_head(rules, state.gate(), flow, id, now, |stats| &mut stats.forced);
        }
        true
    }

    /// Lets a request that has waited for long enough go without a grant if the budget has room for what that sets in
    /// motion: mostly nothing.
    fn split_oldest_request<S: State>(&mut self, rules: &Rules, state: &S, now: Time) -> bool {
        let Some((_, id, head)) = self.oldest(Age::Request, self.split_after(), now) else { return false };
        let Some(flow) = state.flow(id) else { return false };
        let gate = state.gate();
        let cost = decision::without_grant(rules, gate, flow, &self.slots[head as usize].out).wire();
        let may = self.can_split(rules, gate, flow, head)
            && (cost == 0 || decision::admits(rules, gate, cost, decision::booked_with(rules, gate, flow)));
        if may {
            self.split(rules, state.gate(), flow, head, now);
        }
        may
    }

    /// Since when the oldest packet of an age is held, if that is for at least `wait`; its flow, and that flow's first packet.
    fn oldest(&self, age: Age, wait: Span, now: Time) -> Option<(Time, FlowId, u32)> {
        let &(slot, _) = self.ages[age as usize].front()?;
        let held = &self.slots[slot as usize];
        (now.since(held.since) >= wait).then(|| (held.since, held.flow, self.flows[held.flow.0 as usize].head))
    }

    /// Whether the packet may leave without a grant while a bare copy of it waits on. Not a SYN-ACK: its window has
    /// another unit, and its sender's timer is long.
    fn can_split(&self, rules: &Rules, gate: &Gate, flow: &Flow, slot: u32) -> bool {
        let held = &self.slots[slot as usize];
        let syn_ack = held.out.class == Class::Handshake && flow.flags.any(flag::HALF_OPEN);
        decision::governs(rules, gate, flow)
            && matches!(held.out.class, Class::Request | Class::Handshake)
            && !syn_ack
            && held.generation == flow.generation.get()
    }

    /// Sends a held packet on without a grant; its bare copy waits in its place.
    fn split(&mut self, rules: &Rules, gate: &Gate, flow: &Flow, slot: u32, now: Time) {
        let held = &mut self.slots[slot as usize];
        let waited = now.since(held.since);
        if Age::of(held) == Age::Request && !flow.flags.any(flag::REPEATS) {
            decision::note_host_waited(rules, gate, waited);
        }
        let cost = decision::without_grant(rules, gate, flow, &held.out);
        charge(rules, gate, flow, &held.out, &cost, now);
        let action = Action::Split(held.packet, edit(rules, gate, flow, &held.out));
        self.tickets = self.tickets.wrapping_add(1);
        held.since = now;
        held.ticket = self.tickets;
        held.out = held.out.bare_copy();
        flow.flags.raise(flag::COPIED);
        self.ages[Age::Copy as usize].push_back((slot, self.tickets));
        self.stats.split += 1;
        self.stats.longest_hold = self.stats.longest_hold.max(waited.0);
        self.ready.push_back((action, waited));
    }

    fn drop_departed_ages(&mut self) {
        for queue in &mut self.ages {
            while let Some(&(slot, ticket)) = queue.front() {
                if self.slots[slot as usize].ticket == ticket {
                    break;
                }
                queue.pop_front();
            }
        }
    }

    fn flush(&mut self, rules: &Rules, gate: &Gate, flow: &Flow, id: FlowId, now: Time) {
        while self.flows[id.0 as usize].head != NONE {
            self.release_head(rules, gate, flow, id, now, |stats| &mut stats.hurried);
        }
        self.drop_departed_ages();
    }

    /// Lets the flow's first held packet go: charged, or discarded when what it says has been said.
    fn release_head(
        &mut self,
        rules: &Rules,
        gate: &Gate,
        flow: &Flow,
        id: FlowId,
        now: Time,
        counter: fn(&mut Stats) -> &mut u64,
    ) {
        let held = self.take_head(flow, id);
        unhold(gate, flow);
        let waited = now.since(held.since);
        self.stats.longest_hold = self.stats.longest_hold.max(waited.0);
        let current = held.generation == flow.generation.get();
        if !current && !held.out.copy {
            *counter(&mut self.stats) += 1;
            self.ready.push_back((Action::Release(held.packet, Edit::NONE), waited));
            return;
        }
        let out = held.out.now(flow);
        // Not a copy, which has just been brought up to date: on Linux an ACK may have passed since.
        let said = !out.copy && out.is_repeated_by(flow.flags.any(flag::ECHOES));
        let overtaken = said && out.ack.before(SeqNumber(flow.released_ack.get()));
        let trigger = trigger(rules, gate, flow, &out);
        let says_nothing = held.out.copy && trigger.edge() == Some(SeqNumber(flow.edge.get()));
        if !current || overtaken || says_nothing {
            self.discard(held.packet);
            return;
        }
        *counter(&mut self.stats) += 1;
        match Age::of(&held) {
            Age::Ack if !flow.flags.any(flag::OVERTAKEN) => decision::note_peer_waited(rules, gate, waited),
            Age::Request if !flow.flags.any(flag::REPEATS) => decision::note_host_waited(rules, gate, waited),
            _ => {}
        }
        charge(rules, gate, flow, &out, &trigger, now);
        self.watch(id, flow, now);
        flow.added_delay.set(smooth(u64::from(flow.added_delay.get()), waited.0) as u32);
        // On Linux a later ACK may have passed since the first look: either it has the new edge, or the copy takes its number.
        let edit = edit(rules, gate, flow, &held.out.now(flow));
        let keep = held.out.copy && !decision::at_edge(rules, gate, flow);
        if keep {
            self.keep_update(flow, id, held.packet, now);
        }
        let action = if keep { Action::Split } else { Action::Release };
        self.ready.push_back((action(held.packet, edit), waited));
    }

    fn take_head(&mut self, flow: &Flow, id: FlowId) -> Held {
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
    fn drop_stale(&mut self, gate: &Gate, flow: &Flow, id: FlowId) {
        flow.flags.lower(flag::OVERTAKEN | flag::AVOIDANCE);
        flow.slow_intervals.set(0);
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

    fn discard(&mut self, packet: PacketId) {
        self.stats.discarded += 1;
        self.ready.push_back((Action::Discard(packet), Span::ZERO));
    }
}

/// Smoothing by 7/8, as TCP smooths its RTT.
const fn smooth(old: u64, sample: u64) -> u64 {
    if old == 0 { sample } else { old - old / 8 + sample / 8 }
}

/// One packet of the flow is held no more.
fn unhold(gate: &Gate, flow: &Flow) {
    flow.held.take_up_to(1);
    gate.held.take_up_to(1);
}
