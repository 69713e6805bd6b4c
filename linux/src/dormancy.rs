//! A guard that knows neither the port's buffer nor its rate touches nothing until it has seen an overflow (`control/src/budget.rs`).
//! Until then it need not know the connections either: it is *dormant*, and the programs look at outgoing ACKs only, for holes that
//! they report (SACK, RFC 2018). Some holes wake it, in the programs, at once. If they were an overflow, the search for a budget begins
//! and the guard stays awake; else it is dormant again after a while.
//!
//! What was remembered of connections is wrong as soon as nobody looks: before the guard is dormant again every window is TCP's own,
//! and every entry of the flow table is given back. When it wakes, all connections are older than it ([`crate::older`]): where others
//! than this host may be behind the device, the kernel could not tell their window scales, and the guard is never dormant.

use ackgate_control::units::{Span, Time};

use crate::shared::Books;

/// `enum dormancy` of `intf.h`.
pub(crate) const AWAKE: u64 = 0;
pub(crate) const DORMANT: u64 = 1;
const LEAVING: u64 = 2;

/// How long it stays awake for holes that were no overflow.
const VIGIL: Span = Span::secs(10);
/// Sweeps from the last packet that was looked at until every entry is given back: one forgets, one gives back.
const SWEEPS: u32 = 2;

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It guards, and will for as long as the search for a budget goes on.
    Guards,
    Dormant,
    Awake {
        until: Time,
    },
    /// Nobody looks any more, and so many sweeps have been made since.
    Leaving {
        sweeps: u32,
    },
}

#[derive(Debug)]
pub(crate) struct Dormancy {
    phase: Phase,
}

impl Dormancy {
    /// At the start of a guard. `rests`: whether its search for a budget waits for losses, and all connections are this host's.
    pub(crate) fn new(rests: bool, books: &Books) -> Self {
        let (phase, word) = if rests { (Phase::Dormant, DORMANT) } else { (Phase::Guards, AWAKE) };
        books.dormant.set(word);
        Self { phase }
    }

    /// Whether the programs look at ACKs only.
    pub(crate) const fn is_dormant(&self) -> bool {
        matches!(self.phase, Phase::Dormant | Phase::Leaving { .. })
    }

    /// Whether the next sweep forgets every connection.
    pub(crate) const fn forgets(&self) -> bool {
        matches!(self.phase, Phase::Leaving { .. })
    }

    /// To be called before each sweep; `rests` as before, `holds`: whether anything is held. True when the windows of all connections
    /// are to be TCP's own now.
    pub(crate) fn look(&mut self, rests: bool, holds: bool, books: &Books, now: Time) -> bool {
        self.phase = match self.phase {
            // What was forgotten before this sweep is given back by it.
            Phase::Leaving { sweeps: SWEEPS } if rests => {
                books.holes.set(0);
                books.dormant.set(DORMANT);
                Phase::Dormant
            }
            Phase::Leaving { sweeps } if sweeps < SWEEPS => Phase::Leaving { sweeps: sweeps + 1 },
            _ if !rests => {
                books.dormant.set(AWAKE);
                Phase::Guards
            }
            Phase::Dormant if books.dormant.get() == AWAKE => {
                tracing::info!("ACKs report lost segments: connections are looked at");
                Phase::Awake { until: now + VIGIL }
            }
            Phase::Dormant => {
                books.holes.set(0);
                Phase::Dormant
            }
            Phase::Guards => Phase::Awake { until: now + VIGIL },
            Phase::Awake { until } if now >= until && !holds => {
                books.dormant.set(LEAVING);
                self.phase = Phase::Leaving { sweeps: 0 };
                return true;
            }
            other => other,
        };
        false
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ackgate_control::flow::FlowKey;
    use ackgate_control::gate::{Config, State};
    use ackgate_control::segment::{Flags, Segment};
    use ackgate_control::seq::SeqNumber;
    use ackgate_control::wire::{Direction, emit};

    use super::*;
    use crate::datapath::{Datapath, Take};
    use crate::error::Error;
    use crate::sys;

    /// Seconds after the start, as `look` goes.
    struct Run {
        dormancy: Dormancy,
        books: Books,
        now: Time,
    }

    impl Run {
        fn new(waits: bool) -> Self {
            let books = Books::default();
            Self { dormancy: Dormancy::new(waits, &books), books, now: Time::ZERO }
        }

        fn second(&mut self, waits: bool, holds: bool) -> (u64, bool) {
            self.now += Span::secs(1);
            let hands_back = self.dormancy.look(waits, holds, &self.books, self.now);
            (self.books.dormant.get(), hands_back)
        }

        /// As the programs do.
        fn wake(&self) {
            self.books.dormant.set(AWAKE);
        }
    }

    #[test]
    fn a_guard_whose_search_does_not_wait_is_never_dormant() {
        let mut run = Run::new(false);
        assert!((0..100).all(|_| run.second(false, false) == (AWAKE, false)));
    }

    #[test]
    fn an_overflow_ends_it_for_good() {
        let mut run = Run::new(true);
        assert!((0..100).all(|_| run.second(true, false) == (DORMANT, false)));
        run.wake();
        assert_eq!(run.second(true, false), (AWAKE, false));
        assert!((0..100).all(|_| run.second(false, false) == (AWAKE, false)));
    }

    #[test]
    fn holes_that_were_no_overflow_end_it_for_a_while_and_nothing_is_remembered() {
        let mut run = Run::new(true);
        run.wake();
        assert!((0..10).all(|_| run.second(true, false) == (AWAKE, false)));
        assert_eq!(run.second(true, true), (AWAKE, false), "not while anything is held");
        assert_eq!(run.second(true, false), (LEAVING, true));
        for _ in 0..SWEEPS {
            assert!(run.dormancy.forgets() && run.dormancy.is_dormant());
            assert_eq!(run.second(true, false), (LEAVING, false));
        }
        assert_eq!(run.second(true, false), (DORMANT, false));
        assert!(!run.dormancy.forgets());
    }

    #[test]
    fn holes_are_counted_by_the_second() {
        let mut run = Run::new(true);
        run.books.holes.set(7);
        run.second(true, false);
        assert_eq!(run.books.holes.get(), 0);
    }

    #[test]
    fn settings_that_end_the_wait_wait_for_the_entries_to_be_given_back() {
        let mut run = Run::new(true);
        assert_eq!(run.second(false, false), (AWAKE, false));
        assert_eq!(run.second(true, false), (AWAKE, false), "and others begin it again");
        let leaves = (0..20).find(|_| run.second(true, false).1);
        assert!(leaves.is_some());
        let words: Vec<_> = (0..=SWEEPS).map(|_| run.second(false, false).0).collect();
        assert_eq!(words, [LEAVING, LEAVING, AWAKE]);
    }

    #[test]
    fn the_programs_look_at_nothing_but_acks_and_wake_when_those_report_holes() {
        let datapath = match Datapath::load(&Config::credit(96 << 10), Take::Vanish, false) {
            Ok(datapath) => datapath,
            Err(error @ (Error::NotPermitted(_) | Error::Unsupported { .. })) => return eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        };
        let shared = datapath.shared();
        let plain = Segment { ack: SeqNumber(1), flags: Flags::ACK, frames: 1, ..Segment::default() };
        // What is read at a glance, and what is not.
        let mapped = |last| Ipv4Addr::new(10, 0, 0, last).to_ipv6_mapped().octets();
        let usual = (mapped(1), mapped(2), Segment { timestamps: Some((1, 1)), ..plain });
        for (local, remote, segment) in [usual, ([10; 16], [20; 16], plain)] {
            let key = FlowKey { local, remote, ..FlowKey::default() };
            let sends = |segment: &Segment| {
                sys::test_run(datapath.egress(), &emit(&key, segment, Direction::Egress), 0, 0)
                    .expect("the program runs");
                datapath.flow_id(&key).is_some()
            };
            let reports = |dsack| Segment { sack: true, dsack, ..segment };
            shared.books().dormant.set(LEAVING);
            shared.books().holes.set(0);
            assert!((0..20).all(|_| !sends(&reports(false))), "not before everything is forgotten");
            shared.books().dormant.set(DORMANT);
            assert!((0..20).all(|_| !sends(&segment) && !sends(&reports(true))), "no hole");
            let data = Segment { payload: 1000, ..segment };
            sys::test_run(datapath.ingress(), &emit(&key, &data, Direction::Ingress), 0, 0).expect("the program runs");
            assert_eq!((shared.gate().arrivals.get(), shared.books().untracked.get()), (0, 0));
            assert_eq!((0..100).position(|_| sends(&reports(false))), Some(8), "the ninth is looked at");
            assert_eq!(shared.books().dormant.get(), AWAKE);
        }
    }
}
