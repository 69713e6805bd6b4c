//! The gate: Proactive ACK Control (Bai et al.), and exact credit in its place.
//!
//! An ACK acknowledges, and it triggers new data. The gate holds outgoing ACKs so that what they trigger never exceeds what
//! the switch port in front of the receiver can buffer:
//!
//! ```text
//! threshold = buffer_size; in_flight = 0; ACKqueues = empty           Algorithm 1
//! on arrival:       update in_flight (Eq. 5) and threshold (Eq. 2)     core/ingress.h, core/interval.h
//! on an ACK:        enqueue                                            core/egress.h, Scheduler::enqueue
//! while queued:     q = dequeue()                                      Scheduler::poll
//!                   wait while in_flight + q.trigger > threshold       core/ledger.h admits, core/pac.h pac_trigger (Eq. 3)
//!                   send q; in_flight += q.trigger (Eq. 4)             core/price.h charge
//! ```
//!
//! What a release triggers PAC estimates (`core/pac.h`) and exact credit counts (`core/credit.h`); both are asked through `core/price.h`,
//! and everything else here knows prices only. What the paper leaves open is decided in the file that needs it, with the reason beside it.

pub mod config;
pub mod scheduler;
pub mod state;

use alloc::vec::Vec;

pub use config::{Config, Growth, Guard, Hold, Prices, Requests, RttMethod};
pub use scheduler::{Scheduler, Stats};
pub use state::{Flow, Gate, State};

use crate::decision::{self, Decision, Rules};
use crate::error::ConfigError;
use crate::policy::{Action, FlowId, PacketId, Policy, Verdict};
use crate::segment::{Edit, Segment};
use crate::units::{Span, Time};

/// Flow states in a vector: all that the gate knows in one place, for the simulator and as the reference of the BPF programs.
#[derive(Debug, Default)]
pub struct Local {
    gate: Gate,
    flows: Vec<Flow>,
}

impl State for Local {
    fn gate(&self) -> &Gate {
        &self.gate
    }

    fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.flows.get(id.0 as usize)
    }

    fn flow_count(&self) -> u32 {
        self.flows.len() as u32
    }
}

/// A gate at one receiver.
#[derive(Debug)]
pub struct AckGate {
    rules: Rules,
    state: Local,
    scheduler: Scheduler,
    last_hold: Span,
}

impl AckGate {
    /// A gate with these parameters.
    ///
    /// # Errors
    /// When a parameter makes no sense.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.validate()?;
        let state = Local { gate: Gate::new(&config), flows: Vec::new() };
        Ok(Self { rules: config.into(), state, scheduler: Scheduler::default(), last_hold: Span::ZERO })
    }

    /// The parameters.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.rules
    }

    /// Bytes that released ACKs have triggered and that have not arrived.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        decision::in_flight(&self.rules, &self.state.gate)
    }

    /// The receiver-wide state.
    #[must_use]
    pub const fn gate(&self) -> &Gate {
        &self.state.gate
    }

    /// The state of one flow.
    #[must_use]
    pub fn flow(&self, id: FlowId) -> Option<&Flow> {
        self.state.flow(id)
    }

    /// What the scheduler has done.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.scheduler.stats()
    }

    /// Packets held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.scheduler.held()
    }

    /// How long the packet of the last action was held.
    #[must_use]
    pub const fn last_hold(&self) -> Span {
        self.last_hold
    }

    /// Releases all that is held; fetch it with [`Policy::poll_action`].
    pub fn release_all(&mut self, now: Time) {
        self.scheduler.release_all(&self.rules, &self.state, now);
    }

    fn ensure(&mut self, id: FlowId) {
        let index = id.0 as usize;
        if self.state.flows.len() <= index {
            self.state.flows.resize_with(index + 1, Flow::default);
        }
    }
}

impl Policy for AckGate {
    fn handle_ingress(&mut self, now: Time, id: FlowId, segment: &Segment) -> Edit {
        self.ensure(id);
        decision::ingress(&self.rules, &self.state.gate, &self.state.flows[id.0 as usize], segment, now);
        Edit::NONE
    }

    fn handle_egress(&mut self, now: Time, id: FlowId, segment: &Segment, packet: PacketId) -> Verdict {
        self.ensure(id);
        match decision::egress(&self.rules, &self.state.gate, &self.state.flows[id.0 as usize], segment, now) {
            Decision::Pass(edit) => Verdict::Pass(edit),
            Decision::Discard => Verdict::Discard,
            Decision::Hold(out) => {
                self.scheduler.enqueue(&self.rules, &self.state, id, packet, out, now);
                Verdict::Hold
            }
            Decision::Split(edit, copy) => {
                self.scheduler.enqueue(&self.rules, &self.state, id, packet, copy, now);
                Verdict::Split(edit)
            }
        }
    }

    fn handle_other(&mut self, _: Time, bytes: u32) {
        decision::note_other(&self.rules, &self.state.gate, bytes.into(), 1);
    }

    fn poll_action(&mut self, now: Time) -> Option<Action> {
        let (action, waited) = self.scheduler.poll(&self.rules, &self.state, now)?;
        self.last_hold = waited;
        Some(action)
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.scheduler.timeout(&self.rules)
    }
}

#[cfg(test)]
mod tests;
