//! Forgets connections that have ended (PAC §IV-A). Entries of the flow table are freed here and nowhere else.

use ackgate_control::decision::{self, Rules};
use ackgate_control::flow::{Lifetimes, Stage};
use ackgate_control::gate::state::flag;
use ackgate_control::gate::{Flow, State};
use ackgate_control::policy::FlowId;
use ackgate_control::units::{Span, Time};

use crate::datapath::Datapath;
use crate::error::Error;
use crate::older::is_older;

/// Time between two sweeps. Also the time from forgetting an entry to reusing it, by when no packet that was being
/// processed still uses it.
pub(crate) const PERIOD: Span = Span::secs(1);

#[derive(Debug, Default)]
pub(crate) struct Sweeper {
    lifetimes: Lifetimes,
    forgotten: Vec<FlowId>,
}

impl Sweeper {
    /// Forgets connections that have ended, or all.
    ///
    /// # Errors
    /// When the kernel does not run the programs that do it; then entries stay where they are until the next sweep.
    pub(crate) fn sweep(&mut self, rules: &Rules, datapath: &Datapath, all: bool, now: Time) -> Result<(), Error> {
        let shared = datapath.shared();
        for flow in self.forgotten.iter().filter_map(|id| shared.flow(*id)) {
            decision::close(rules, shared.gate(), flow);
        }
        datapath.give_back(&mut self.forgotten)?;
        let over = |id: &FlowId| {
            let Some(flow) = shared.flow(*id) else { return false };
            let flags = flow.flags.get();
            flags & flag::KNOWN != 0
                && flow.held.get() == 0
                && (all || self.lifetimes.expired(stage(flags), Time(flow.last_seen.get()), now))
        };
        let ended: Vec<FlowId> = (0..shared.flow_count()).map(FlowId).filter(over).collect();
        datapath.forget(&ended)?;
        for flow in ended.iter().filter_map(|id| shared.flow(*id)) {
            decision::close(rules, shared.gate(), flow);
        }
        self.forgotten = ended;
        Ok(())
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
            |Self { all, older }, flow| Self { all: all + 1, older: older + u64::from(is_older(flow)) },
        )
    }
}

#[cfg(test)]
mod tests {
    use ackgate_control::flow::FlowKey;
    use ackgate_control::gate::Config;
    use ackgate_control::segment::{Flags, Segment};
    use ackgate_control::seq::SeqNumber;
    use ackgate_control::wire::{Direction, emit};

    use super::*;
    use crate::datapath::Take;
    use crate::sys;

    #[test]
    fn a_connection_that_only_we_have_closed_lives_on() {
        assert_eq!(stage(flag::KNOWN | flag::CLOSING), Stage::Open);
        assert_eq!(stage(flag::KNOWN | flag::CLOSING | flag::PEER_DONE), Stage::Closing);
    }

    /// The frame that begins or ends a connection of ours.
    fn frame(key: &FlowKey, flags: Flags) -> Vec<u8> {
        let opens = flags.has(Flags::SYN);
        let segment = Segment {
            seq: SeqNumber(0),
            ack: SeqNumber(0),
            flags,
            window: 4096,
            payload: 0,
            frames: 1,
            header: 54,
            ce: false,
            sack: false,
            dsack: false,
            mss: if opens { 1460 } else { 0 },
            wscale: opens.then_some(7),
            timestamps: None,
            multipath: false,
        };
        emit(key, &segment, Direction::Egress)
    }

    #[test]
    fn entries_of_connections_that_have_ended_are_used_again_and_each_once() {
        /// Several runs of the programs that do it, and a bit.
        const CONNECTIONS: u16 = 300;
        let config = Config::credit(96 << 10);
        let datapath = match Datapath::load(&config, Take::Vanish, false) {
            Ok(datapath) => datapath,
            Err(error @ (Error::NotPermitted(_) | Error::Unsupported { .. })) => return eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        let (shared, rules, mut sweeper) = (datapath.shared(), Rules::from(config), Sweeper::default());
        let key = |port| FlowKey { local: [10; 16], remote: [20; 16], local_port: port, remote_port: 80, vlan: 0 };
        let send = |port, flags| {
            sys::test_run(datapath.egress(), &frame(&key(port), flags), 0, 0).expect("the program runs");
        };
        let entries = |ports: std::ops::Range<u16>| {
            let mut entries: Vec<_> = ports.filter_map(|port| datapath.flow_id(&key(port))).map(|id| id.0).collect();
            entries.sort_unstable();
            entries
        };
        let all: Vec<u32> = (0..u32::from(CONNECTIONS)).collect();
        for port in 0..CONNECTIONS {
            send(port, Flags::SYN);
        }
        assert_eq!(entries(0..CONNECTIONS), all);
        for port in 1..CONNECTIONS {
            send(port, Flags::RST);
        }
        let mut sweep = |later| sweeper.sweep(&rules, &datapath, false, sys::now() + later).expect("the programs run");
        sweep(Span::millis(100));
        assert_eq!(entries(0..CONNECTIONS), all, "what has just ended may still be in use");
        sweep(Span::secs(2));
        assert_eq!(entries(0..CONNECTIONS), [0], "one is still open");
        send(1000, Flags::SYN);
        assert_eq!(
            datapath.flow_id(&key(1000)),
            Some(FlowId(300)),
            "what was forgotten is not free before the next sweep"
        );
        sweep(Span::secs(2));
        for port in 1001..1000 + CONNECTIONS {
            send(port, Flags::SYN);
        }
        assert_eq!(entries(1001..1000 + CONNECTIONS), all[1..]);
        assert_eq!(shared.books().fresh.get(), 301);
    }
}
