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

mod queue;
mod release;
mod watch;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::config::MAX_LEVELS;
use super::state::State;
use crate::budget::Budget;
use crate::decision::{self, Class, Outgoing, Rules};
use crate::policy::{Action, FlowId, PacketId};
use crate::segment::Edit;
use crate::units::{Span, Time};
use queue::{Age, FlowQueue, Held, unhold};

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
                self.drop_stale(rules, state.gate(), flow, id);
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

    /// Nothing was held or lowered until now, whatever was decided: what was lost says nothing about the budget.
    pub fn overlook_losses<S: State>(&mut self, state: &S, now: Time) {
        self.budget.overlook_losses(state.gate(), now);
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
}
