//! What is counted of senders that are alike: the main ones, or a group.

use super::Samples;
use crate::engine::Ps;
use crate::report::GroupReport;
use crate::scenario::Scenario;

/// Counts and samples of one of [`Scenario::parties`].
pub(crate) struct PartyTally {
    name: String,
    senders: u32,
    /// It takes part in the main workload.
    pub(super) main: bool,
    /// Application data delivered in order.
    pub(crate) bytes: u64,
    flow: Samples,
    timeouts: Timeouts,
}

/// Retransmission timeouts.
#[derive(Clone, Copy, Default)]
struct Timeouts {
    all: u64,
    spurious: u64,
    held: u64,
}

/// A retransmission timer that fired.
#[derive(Clone, Copy)]
pub(crate) struct Fired {
    /// How long it had run.
    pub(crate) ran: Ps,
    /// What it had sent again had arrived, or was on its way.
    pub(crate) spurious: bool,
    /// Meanwhile a scheme held a packet of the connection, or discarded one, and it was not the receiver that delayed the ACK.
    pub(crate) held: bool,
}

impl Fired {
    /// Spurious, and perhaps by the scheme's doing.
    pub(crate) fn by_scheme(&self) -> bool {
        self.spurious && self.held
    }
}

impl PartyTally {
    pub(crate) fn all(scenario: &Scenario) -> Vec<Self> {
        let parties = scenario.parties().into_iter();
        let tally = |party: crate::scenario::Party<'_>| Self {
            main: party.workload.is_none(),
            name: party.name.into_owned(),
            senders: party.senders,
            bytes: 0,
            flow: Samples::new(),
            timeouts: Timeouts::default(),
        };
        parties.map(tally).collect()
    }

    pub(crate) fn flow(&mut self, took: Ps) {
        self.flow.record(took.0 / 1_000);
    }

    pub(crate) fn timeout(&mut self, fired: &Fired) {
        self.timeouts.all += 1;
        self.timeouts.spurious += u64::from(fired.spurious);
        self.timeouts.held += u64::from(fired.by_scheme());
    }

    /// What it comes to, with a goodput in 10^6 bit/s.
    pub(crate) fn report(&self, goodput_mbps: f64) -> GroupReport {
        GroupReport {
            name: self.name.clone(),
            senders: self.senders,
            goodput_mbps,
            flows: self.flow.len(),
            flow_ms: self.flow.tail(1e6),
            rto_timeouts: self.timeouts.all,
            spurious_timeouts: self.timeouts.spurious,
            spurious_while_held: self.timeouts.held,
        }
    }
}
