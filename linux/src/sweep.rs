//! Forgets connections that have ended (PAC §IV-A). Entries of the flow table are freed here and nowhere else.

use ackgate_control::decision::{self, Rules};
use ackgate_control::flow::{Lifetimes, Stage};
use ackgate_control::gate::state::flag;
use ackgate_control::gate::{Flow, State};
use ackgate_control::policy::FlowId;
use ackgate_control::units::{Span, Time};

use crate::datapath::Datapath;

/// Time between two sweeps. Also the time from forgetting an entry to reusing it, by when no packet that was being
/// processed still uses it.
pub(crate) const PERIOD: Span = Span::secs(1);

#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    lifetimes: Lifetimes,
    forgotten: Vec<FlowId>,
}

impl Sweeper {
    pub(crate) fn sweep(&mut self, rules: &Rules, datapath: &Datapath, now: Time) {
        let shared = datapath.shared();
        for id in self.forgotten.drain(..) {
            if let Some(flow) = shared.flow(id) {
                decision::close(rules, shared.gate(), flow);
            }
            datapath.give_back(id);
        }
        for id in (0..shared.flow_count()).map(FlowId) {
            let (Some(flow), Some(key)) = (shared.flow(id), shared.key(id)) else { continue };
            let flags = flow.flags.get();
            if flags & flag::KNOWN == 0 || flow.held.get() > 0 {
                continue;
            }
            if self.lifetimes.expired(stage(flags), Time(flow.last_seen.get()), now) {
                datapath.forget(&key, id);
                decision::close(rules, shared.gate(), flow);
                self.forgotten.push(id);
            }
        }
    }
}

const fn stage(flags: u32) -> Stage {
    // A connection that only we have closed may go on receiving for as long as its peer likes.
    if flags & flag::CLOSING != 0 && flags & flag::PEER_DONE != 0 {
        Stage::Closing
    } else if flags & flag::HALF_OPEN != 0 {
        Stage::HalfOpen
    } else {
        Stage::Open
    }
}

/// Connections that were heard of within `span`: the senders of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Senders {
    /// All of them.
    pub(crate) all: u64,
    /// Those whose handshake was not seen, and is not going on.
    pub(crate) older: u64,
}

impl Senders {
    pub(crate) fn count(state: &impl State, now: Time, span: Span) -> Self {
        let is_active = |flow: &&Flow| flow.flags.any(flag::KNOWN) && now.since(Time(flow.last_active.get())) < span;
        (0..state.flow_count()).filter_map(|id| state.flow(FlowId(id))).filter(is_active).fold(
            Self::default(),
            |Self { all, older }, flow| Self {
                all: all + 1,
                older: older + u64::from(!flow.flags.any(flag::SCALE_KNOWN | flag::HALF_OPEN)),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_only_we_have_closed_lives_on() {
        assert_eq!(stage(flag::KNOWN | flag::CLOSING), Stage::Open);
        assert_eq!(stage(flag::KNOWN | flag::CLOSING | flag::PEER_DONE), Stage::Closing);
    }
}
