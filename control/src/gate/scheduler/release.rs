//! How a held packet leaves: in its turn if the budget allows (Algorithm 1, lines 10 to 14), at its limit, or at once with a
//! flow in loss recovery.

use super::super::state::{Flow, Gate, State, flag};
use super::queue::{Age, NONE, unhold};
use super::{Scheduler, Stats};
use crate::decision::{self, Class, Outgoing, Path, Rules, Trigger, charge, edit, trigger};
use crate::policy::{Action, FlowId};
use crate::segment::Edit;
use crate::seq::SeqNumber;
use crate::units::Time;

/// A long turn is worth this part of the threshold.
const TURNS: u64 = 4;

/// Why a held packet leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The budget has room for it.
    Turn,
    /// It has waited for as long as it may.
    Limit,
    /// Its flow repairs losses.
    Recovery,
}

impl Cause {
    const fn counter(self, stats: &mut Stats) -> &mut u64 {
        match self {
            Self::Turn => &mut stats.released,
            Self::Limit => &mut stats.forced,
            Self::Recovery => &mut stats.hurried,
        }
    }
}

impl Scheduler {
    /// Algorithm 1, lines 10-14: releases the next ACK if the budget allows, else asks to be woken when it does.
    pub(super) fn release_next<S: State>(&mut self, rules: &Rules, state: &S, now: Time) -> bool {
        let gate = state.gate();
        let Some(id) = self.front(rules, state, now) else {
            gate.far_waits.set(0);
            return false;
        };
        let (Some(flow), queue) = (state.flow(id), self.flows[id.0 as usize]) else { return false };
        let held = self.slots[queue.head as usize];
        let current = held.generation == flow.generation.get();
        let trigger = if current { trigger(rules, gate, flow, &held.out.now(flow)) } else { Trigger::default() };
        let wire = trigger.wire();
        let syn_ack = held.out.class == Class::Handshake && flow.flags.any(flag::HALF_OPEN);
        if syn_ack
            && decision::syns_are_arriving(rules, gate, now)
            && now.since(held.since).0 < decision::drain(rules, gate)
        {
            self.next_try = decision::settled_at(rules, gate);
            return false;
        }
        let (path, pipe) = (Path::of(rules, gate, flow, held.out.class), decision::pipe_of(rules, gate, flow));
        gate.far_waits.set(u64::from(pipe > 0));
        if wire > 0 && !decision::keeps_pace(rules, gate, flow, &held.out, &trigger, now) {
            self.next_try = decision::keeps_pace_at(rules, gate, flow, &held.out, &trigger, now);
            return false;
        }
        if wire > 0 && !decision::admits(rules, gate, wire, path) {
            if self.split_oldest_request(rules, state, now) {
                return true;
            }
            gate.wanted_path.set(path.holds);
            gate.wanted_beside.set(path.beside);
            gate.wanted.set(decision::room_needed(rules, gate, wire, path));
            // The budget may have grown between the look and the wish.
            if !decision::admits(rules, gate, wire, path) {
                return false;
            }
            gate.wanted.take();
        }
        self.release_head(rules, gate, flow, id, now, Cause::Turn);
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
    pub(super) fn triggers_nothing(&self, rules: &Rules, gate: &Gate, flow: &Flow, slot: u32) -> bool {
        let held = &self.slots[slot as usize];
        held.generation == flow.generation.get() && trigger(rules, gate, flow, &held.out.now(flow)).wire() == 0
    }

    /// Lets go the first packet of the flow whose packet has reached its limit. Where windows are granted it leaves without a
    /// grant, and a bare copy of it stays in its place; else it is charged and gone.
    pub(super) fn force_oldest<S: State>(&mut self, rules: &Rules, state: &S, now: Time) -> bool {
        self.drop_departed_ages();
        let overdue = Age::ALL.into_iter().find_map(|age| self.oldest(age, self.limit(age), now));
        let Some((_, id, head)) = overdue else { return false };
        let Some(flow) = state.flow(id) else { return false };
        if self.can_split(rules, state.gate(), flow, head) {
            self.split(rules, state.gate(), flow, head, now);
        } else {
            self.release_head(rules, state.gate(), flow, id, now, Cause::Limit);
        }
        true
    }

    /// Lets a request that has waited for long enough go without a grant if the budget has room for what that sets in
    /// motion: mostly nothing.
    pub(super) fn split_oldest_request<S: State>(&mut self, rules: &Rules, state: &S, now: Time) -> bool {
        let Some((_, id, head)) = self.oldest(Age::Request, self.split_after(), now) else { return false };
        let Some(flow) = state.flow(id) else { return false };
        let gate = state.gate();
        let out = &self.slots[head as usize].out;
        let cost = decision::without_grant(rules, gate, flow, out).wire();
        let may = self.can_split(rules, gate, flow, head)
            && (cost == 0 || decision::admits(rules, gate, cost, Path::of(rules, gate, flow, out.class)));
        if may {
            self.split(rules, state.gate(), flow, head, now);
        }
        may
    }

    /// Whether the packet may leave without a grant while a bare copy of it waits on. Not a SYN-ACK: its window has
    /// another unit, and its sender's timer is long.
    pub(super) fn can_split(&self, rules: &Rules, gate: &Gate, flow: &Flow, slot: u32) -> bool {
        let held = &self.slots[slot as usize];
        let syn_ack = held.out.class == Class::Handshake && flow.flags.any(flag::HALF_OPEN);
        decision::governs(rules, gate, flow)
            && matches!(held.out.class, Class::Request | Class::Handshake)
            && !syn_ack
            && held.generation == flow.generation.get()
    }

    /// Sends a held packet on without a grant; its bare copy waits in its place.
    pub(super) fn split(&mut self, rules: &Rules, gate: &Gate, flow: &Flow, slot: u32, now: Time) {
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

    pub(super) fn flush(&mut self, rules: &Rules, gate: &Gate, flow: &Flow, id: FlowId, now: Time) {
        while self.flows[id.0 as usize].head != NONE {
            self.release_head(rules, gate, flow, id, now, Cause::Recovery);
        }
        self.drop_departed_ages();
    }

    /// Lets the flow's first held packet go: charged, or discarded when what it says has been said.
    pub(super) fn release_head(
        &mut self,
        rules: &Rules,
        gate: &Gate,
        flow: &Flow,
        id: FlowId,
        now: Time,
        cause: Cause,
    ) {
        let held = self.take_head(flow, id);
        unhold(gate, flow);
        let waited = now.since(held.since);
        self.stats.longest_hold = self.stats.longest_hold.max(waited.0);
        let current = held.generation == flow.generation.get();
        if !current && !held.out.copy {
            *cause.counter(&mut self.stats) += 1;
            self.ready.push_back((Action::Release(held.packet, Edit::NONE), waited));
            return;
        }
        let out = held.out.now(flow);
        // Not a copy, which has just been brought up to date: on Linux an ACK may have passed since.
        let said = !out.copy && out.is_repeated_by(flow.flags.any(flag::ECHOES));
        let overtaken = said && out.ack.before(SeqNumber(flow.released_ack.get()));
        // A copy takes all that its flow can use in its turn, and else what there is room for.
        let priced = Outgoing { copy: out.copy && cause == Cause::Turn, ..out };
        let trigger = trigger(rules, gate, flow, &priced);
        let says_nothing = held.out.copy && trigger.edge() == Some(SeqNumber(flow.edge.get()));
        if !current || overtaken || says_nothing {
            self.discard(held.packet);
            return;
        }
        *cause.counter(&mut self.stats) += 1;
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
}

/// Smoothing by 7/8, as TCP smooths its RTT.
const fn smooth(old: u64, sample: u64) -> u64 {
    if old == 0 { sample } else { old - old / 8 + sample / 8 }
}
