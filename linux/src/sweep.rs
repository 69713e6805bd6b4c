//! Forgets connections that have ended without saying so, or have been silent for long (PAC §IV-A). Those that both ends have closed the
//! programs forget by themselves.

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
        let ended = datapath.forget(&ended)?;
        for flow in ended.iter().filter_map(|id| shared.flow(*id)) {
            decision::close(rules, shared.gate(), flow);
        }
        self.forgotten = ended;
        Ok(())
    }
}

const fn stage(flags: u32) -> Stage {
    // A connection that only we have closed may go on receiving for as long as its peer likes.
    if flags & flag::PEER_DONE != 0 {
        Stage::Closing
    } else if flags & flag::HALF_OPEN != 0 || flags & (flag::MET | flag::RECEIVED) == 0 {
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
    use crate::{shared, sys};

    #[test]
    fn a_connection_that_only_we_have_closed_lives_on() {
        assert_eq!(stage(flag::KNOWN | flag::MET | flag::CLOSING), Stage::Open);
        assert_eq!(stage(flag::KNOWN | flag::MET | flag::CLOSING | flag::PEER_DONE), Stage::Closing);
    }

    #[test]
    fn a_connection_of_which_only_our_own_segments_were_seen_does_not_live_long() {
        // Such as the answer to a FIN that comes again when the connection has been forgotten.
        assert_eq!(stage(flag::KNOWN | flag::ACKED), Stage::HalfOpen);
        assert_eq!(stage(flag::KNOWN | flag::ACKED | flag::RECEIVED), Stage::Open);
    }

    const LOBBY: u16 = shared::LOBBY as u16;

    /// A host whose programs can be loaded.
    struct Host {
        datapath: Datapath,
        rules: Rules,
    }

    impl Host {
        fn new() -> Option<Self> {
            let config = Config::credit(96 << 10);
            match Datapath::load(&config, Take::Vanish, false) {
                Ok(datapath) => Some(Self { datapath, rules: Rules::from(config) }),
                Err(error @ (Error::NotPermitted(_) | Error::Unsupported { .. })) => {
                    eprintln!("skipped: {error}");
                    None
                }
                Err(error) => panic!("{error}"),
            }
        }

        /// Two by two they hash alike: the halves of their peers' addresses are swapped.
        fn key(port: u16) -> FlowKey {
            let mut remote = [20; 16];
            remote[usize::from(port % 2) * 8..][..8].fill(30);
            FlowKey { local: [10; 16], remote, local_port: port & !1, remote_port: 80, vlan: 0 }
        }

        /// A bare segment of a connection of ours.
        fn segment(&self, port: u16, direction: Direction, flags: Flags, seq: u32, ack: u32) {
            let opens = flags.has(Flags::SYN);
            let segment = Segment {
                seq: SeqNumber(seq),
                ack: SeqNumber(ack),
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
            let program = match direction {
                Direction::Ingress => self.datapath.ingress(),
                Direction::Egress => self.datapath.egress(),
            };
            let frame = emit(&Self::key(port), &segment, direction);
            sys::test_run(program, &frame, 0, 0).expect("the program runs");
        }

        /// Opens a connection.
        fn open(&self, port: u16) {
            self.segment(port, Direction::Egress, Flags::SYN, 0, 0);
            self.segment(port, Direction::Ingress, Flags::SYN | Flags::ACK, 0, 1);
            self.segment(port, Direction::Egress, Flags::ACK, 1, 1);
        }

        /// Its peer has no more to send.
        fn peer_finishes(&self, port: u16) {
            self.segment(port, Direction::Ingress, Flags::FIN | Flags::ACK, 1, 1);
            self.segment(port, Direction::Egress, Flags::ACK, 1, 2);
        }

        /// Nor have we, and all that is acknowledged.
        fn close(&self, port: u16) {
            self.peer_finishes(port);
            self.segment(port, Direction::Egress, Flags::FIN | Flags::ACK, 1, 2);
            self.segment(port, Direction::Ingress, Flags::ACK, 2, 2);
        }

        fn entry(&self, port: u16) -> Option<u32> {
            self.datapath.flow_id(&Self::key(port)).map(|id| id.0)
        }

        /// Entries of the connections from these ports, in order.
        fn entries(&self, ports: std::ops::Range<u16>) -> Vec<u32> {
            let mut entries: Vec<_> = ports.filter_map(|port| self.entry(port)).collect();
            entries.sort_unstable();
            entries
        }
    }

    #[test]
    fn entries_of_connections_whose_peers_have_finished_are_used_again_and_each_once() {
        /// Several runs of the programs that do it, and a bit.
        const CONNECTIONS: u16 = 300;
        let Some(host) = Host::new() else { return };
        let mut sweeper = Sweeper::default();
        let all: Vec<u32> = (0..u32::from(CONNECTIONS)).collect();
        (0..CONNECTIONS).for_each(|port| host.open(port));
        assert_eq!(host.entries(0..CONNECTIONS), all);
        (1..CONNECTIONS).for_each(|port| host.peer_finishes(port));
        let mut sweep =
            |later| sweeper.sweep(&host.rules, &host.datapath, false, sys::now() + later).expect("the programs run");
        sweep(Span::millis(100));
        assert_eq!(host.entries(0..CONNECTIONS), all, "we may go on sending");
        sweep(Span::secs(2));
        assert_eq!(host.entries(0..CONNECTIONS), [0], "one is still open");
        host.open(1000);
        assert_eq!(host.entry(1000), Some(300), "what was forgotten is not free before the next sweep");
        sweep(Span::secs(2));
        (1001..1000 + CONNECTIONS).for_each(|port| host.open(port));
        assert_eq!(host.entries(1001..1000 + CONNECTIONS), all[1..]);
        assert_eq!(host.datapath.shared().books().fresh.get(), 301);
    }

    #[test]
    fn a_connection_that_both_ends_have_closed_is_forgotten_at_once() {
        let Some(host) = Host::new() else { return };
        let shared = host.datapath.shared();
        host.open(0);
        host.peer_finishes(0);
        assert_eq!(host.entry(0), Some(0), "we may go on sending");
        host.segment(0, Direction::Egress, Flags::FIN | Flags::ACK, 1, 2);
        assert_eq!(host.entry(0), Some(0), "the FIN may be lost");
        host.segment(0, Direction::Ingress, Flags::ACK, 2, 2);
        assert_eq!(host.entry(0), None);
        assert_eq!((shared.gate().owed.get(), shared.gate().active.get(), shared.gate().half_open.get()), (0, 0, 0));
        assert!(!shared.flow(FlowId(0)).unwrap().flags.any(flag::KNOWN));
        // The same address, at once.
        host.open(0);
        assert_eq!(host.entry(0), Some(1), "a packet on another processor may still use the entry");
        for port in 1..=LOBBY {
            host.open(port);
            host.close(port);
        }
        host.open(1000);
        assert_eq!(host.entry(1000), Some(0), "many others have ended since");
    }

    #[test]
    fn an_entry_is_given_back_once() {
        let Some(host) = Host::new() else { return };
        let mut sweeper = Sweeper::default();
        for port in 0..2 * LOBBY {
            host.open(port);
            host.peer_finishes(port);
        }
        // The daemon finds all of them when half have just ended.
        let mut sweep =
            |later| sweeper.sweep(&host.rules, &host.datapath, false, sys::now() + later).expect("the programs run");
        for port in 0..LOBBY {
            host.segment(port, Direction::Egress, Flags::FIN | Flags::ACK, 1, 2);
            host.segment(port, Direction::Ingress, Flags::ACK, 2, 2);
        }
        // What a packet on another processor leaves behind in entries that nobody has any more.
        for id in 0..u32::from(LOBBY) {
            host.datapath.shared().flow(FlowId(id)).unwrap().flags.set(flag::KNOWN | flag::PEER_DONE);
        }
        sweep(Span::secs(2));
        sweep(Span::secs(2));
        // Others drive those that ended by themselves out of the lobby.
        for port in 5000..5000 + LOBBY {
            host.open(port);
            host.close(port);
        }
        (0..4 * LOBBY).for_each(|port| host.open(port));
        let mut entries = host.entries(0..4 * LOBBY);
        entries.dedup();
        assert_eq!(entries.len(), usize::from(4 * LOBBY));
    }

    #[test]
    fn connections_whose_addresses_hash_alike_are_told_apart() {
        const CONNECTIONS: u16 = 300;
        let Some(host) = Host::new() else { return };
        (0..CONNECTIONS).for_each(|port| host.open(port));
        for port in 0..CONNECTIONS {
            host.segment(port, Direction::Egress, Flags::ACK, 1 + u32::from(port), 1);
        }
        for port in 0..CONNECTIONS {
            let entry = host.entry(port).expect("it is open");
            assert_eq!(host.datapath.shared().flow(FlowId(entry)).unwrap().sent.get(), 1 + u32::from(port));
        }
    }
}
