//! The queue of held ACKs (§III-D): two strict priorities, in each of them the flows in turn.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::policy::{FlowId, PacketId};
use crate::seq::SeqNumber;
use crate::units::Time;

/// A held ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) flow: FlowId,
    pub(super) packet: PacketId,
    pub(super) ack: SeqNumber,
    /// It carries the ECN echo.
    pub(super) ece: bool,
    pub(super) since: Time,
}

/// All held ACKs but the one that is next.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Flows whose turn comes, by priority; each flow is in one of them, once.
    turns: [VecDeque<FlowId>; 2],
    /// Each flow's ACKs, and whether it has the lower priority.
    flows: BTreeMap<u32, (VecDeque<Held>, bool)>,
}

impl Queue {
    /// The newest ACK of a flow.
    pub(super) fn last(&self, flow: FlowId) -> Option<Held> {
        self.flows.get(&flow.0).and_then(|(held, _)| held.back().copied())
    }

    pub(super) fn push(&mut self, held: Held, low: bool) {
        let flow = held.flow;
        let turns = &mut self.turns[usize::from(low)];
        let entry = self.flows.entry(flow.0).or_insert_with(|| {
            turns.push_back(flow);
            (VecDeque::new(), low)
        });
        entry.0.push_back(held);
    }

    /// The next ACK: of the highest priority, of the flow whose turn it is.
    pub(super) fn pop(&mut self) -> Option<Held> {
        let turns = self.turns.iter_mut().find(|turns| !turns.is_empty())?;
        let flow = turns.pop_front()?;
        let (waiting, _) = self.flows.get_mut(&flow.0)?;
        let held = waiting.pop_front();
        if waiting.is_empty() {
            self.flows.remove(&flow.0);
        } else {
            turns.push_back(flow);
        }
        held
    }

    /// A flow has become large.
    pub(super) fn demote(&mut self, flow: FlowId) {
        self.place(flow, true);
    }

    /// A flow's sender had a timeout: its ACKs come first again, but for those that say nothing new, which are returned.
    pub(super) fn promote(&mut self, flow: FlowId) -> Vec<PacketId> {
        self.place(flow, false);
        let mut gone = Vec::new();
        if let Some((waiting, _)) = self.flows.get_mut(&flow.0) {
            let mut highest = None;
            waiting.retain(|held| {
                let new = highest.is_none_or(|highest: SeqNumber| highest.before(held.ack));
                if new {
                    highest = Some(held.ack);
                } else {
                    gone.push(held.packet);
                }
                new
            });
        }
        gone
    }

    fn place(&mut self, flow: FlowId, low: bool) {
        let Some((_, is_low)) = self.flows.get_mut(&flow.0).filter(|(_, is_low)| *is_low != low) else { return };
        *is_low = low;
        self.turns[usize::from(!low)].retain(|other| *other != flow);
        self.turns[usize::from(low)].push_back(flow);
    }
}
