//! What became of grants: flows that fell silent return what they owe, and a window update that nothing comes of is sent
//! once more.

use super::super::state::{Flow, Gate, State, flag};
use super::Scheduler;
use crate::decision::{self, Class, Outgoing, Rules, edit, void_if_silent};
use crate::policy::{Action, FlowId, PacketId};
use crate::seq::SeqNumber;
use crate::units::{Span, Time};

/// Scans for silent flows stand this far apart for each flow in the table, so that they cost the same share of the time
/// however many there are. Counted in dozens: in which order flows got their entries makes no difference then.
const SCAN_COST: Span = Span::micros(1);
const DOZENS: u64 = 48;

/// While nothing is held: how often is looked for flows that are silent, and how long they have been by then at least. Together they
/// leave the gate open, and nobody active, within a tenth of a second after a burst. Where a table of many connections takes long to look
/// through, scans are rarer: a thousand new connections a second leave some thousands that have ended.
const IDLE_SCAN: Span = Span::millis(25);
const IDLE_SCAN_COST: Span = Span::micros(4);
const IDLE_SILENCE: Span = Span::millis(50);

/// A window update that has left and may get lost: on the way, or in a Linux sender whose process has its socket in use,
/// where an older ACK that arrives behind it takes its place. Nothing but the sender's persist timer would mend that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Update {
    packet: PacketId,
    /// What had been received when it left.
    received: u32,
    generation: u32,
}

impl Scheduler {
    /// Keeps a window update that leaves now.
    pub(super) fn keep_update(&mut self, flow: &Flow, id: FlowId, packet: PacketId, now: Time) {
        self.drop_update(id);
        let update = Update { packet, received: flow.received.get(), generation: flow.generation.get() };
        self.flows[id.0 as usize].update = Some(update);
        self.updates += 1;
        self.watch(id, flow, now);
    }

    pub(super) fn drop_update(&mut self, id: FlowId) {
        if let Some(update) = self.flows.get_mut(id.0 as usize).and_then(|queue| queue.update.take()) {
            self.updates -= 1;
            self.ready.push_back((Action::Discard(update.packet), Span::ZERO));
        }
    }

    /// Window-update retransmission: a flow's update is dropped if the sender has answered, and sent once more if it has been silent
    /// until `due`. Says whether it was sent.
    fn resend_update(&mut self, rules: &Rules, gate: &Gate, flow: &Flow, id: FlowId, due: Time, now: Time) -> bool {
        let Some(update) = self.flows[id.0 as usize].update else { return false };
        let gone = update.generation != flow.generation.get()
            || flow.flags.any(flag::CLOSING | flag::PEER_DONE)
            || !decision::governs(rules, gate, flow);
        if gone || update.received != flow.received.get() || decision::at_edge(rules, gate, flow) {
            self.drop_update(id);
            return false;
        }
        if now < due {
            return false;
        }
        self.flows[id.0 as usize].update = None;
        self.updates -= 1;
        self.stats.repeated += 1;
        let out = Outgoing {
            class: Class::Ack,
            ack: SeqNumber(flow.released_ack.get()),
            ece: false,
            data: false,
            repeated: true,
            dsack: false,
            copy: true,
            window: flow.last_window.get() as u16,
            shift: flow.scale.get() as u8,
        };
        flow.last_active.set(now.0);
        self.ready.push_back((Action::Release(update.packet, edit(rules, gate, flow, &out)), Span::ZERO));
        true
    }

    /// Looks for flows that owe and have been silent: their bytes were lost or never sent, and block the others. Those that
    /// were granted something here are looked at when it is time; the others, which got it while the gate was open, by a
    /// scan now and then.
    pub(super) fn void_silent<S: State>(&mut self, rules: &Rules, state: &S, now: Time) {
        while now >= self.next_look {
            let Some((&(id, since), flow)) = self.granted.front().and_then(|front| Some((front, state.flow(front.0)?)))
            else {
                self.next_look = Time::NEVER;
                break;
            };
            let active = Time(flow.last_active.get());
            let due = decision::silent_at(rules, state.gate(), flow);
            let sent = self.resend_update(rules, state.gate(), flow, id, due, now);
            let active = if sent { now } else { active };
            let open = flow.owed.get() > 0 || self.flows[id.0 as usize].update.is_some();
            let watched = open && (active > since || now < due);
            if watched && active <= since {
                self.next_look = due;
                break;
            }
            self.granted.pop_front();
            if watched {
                self.granted.push_back((id, active));
            } else {
                void_if_silent(rules, state.gate(), flow, now);
                self.flows[id.0 as usize].watched = false;
            }
        }
        if now >= self.next_scan {
            self.next_scan =
                now + Span(rules.silence.0 / 2) + SCAN_COST * u64::from(state.flow_count()).next_multiple_of(DOZENS);
            for id in 0..state.flow_count() {
                if let Some(flow) = state.flow(FlowId(id)) {
                    void_if_silent(rules, state.gate(), flow, now);
                }
            }
        }
    }

    /// The same while nothing is held. Nobody waits for what silent flows owe then, but as long as they count as active the windows of
    /// others are lowered for their sake.
    pub(super) fn void_idle<S: State>(&mut self, rules: &Rules, state: &S, now: Time) {
        if now < self.next_idle_scan {
            return;
        }
        self.next_idle_scan = now + IDLE_SCAN.max(IDLE_SCAN_COST * u64::from(state.flow_count()));
        let gate = state.gate();
        if gate.active.get() == 0 && gate.owed.get() == 0 {
            return;
        }
        for id in 0..state.flow_count() {
            if let Some(flow) = state.flow(FlowId(id)).filter(|flow| Time(flow.last_active.get()) + IDLE_SILENCE <= now)
            {
                void_if_silent(rules, gate, flow, now);
            }
        }
    }

    /// Keeps an eye on a flow that has been granted something.
    pub(super) fn watch(&mut self, id: FlowId, flow: &Flow, now: Time) {
        let queue = &mut self.flows[id.0 as usize];
        if (flow.owed.get() > 0 || queue.update.is_some()) && !queue.watched {
            queue.watched = true;
            if self.granted.is_empty() {
                self.next_look = now;
            }
            self.granted.push_back((id, now));
        }
    }
}
