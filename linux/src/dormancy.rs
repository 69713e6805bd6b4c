//! A guard that is to cost nothing where there is no incast need not be on the device until segments are lost: it is *dormant*, and its
//! programs are taken off. The kernel counts what its sockets get out of order, how much of that others had only overtaken, and what they sent
//! again although it had been answered ([`crate::netstat`]); what is lost within a second wakes it. It is dormant again when it was not needed for long. The first burst after
//! that is what waking costs.
//!
//! What was remembered of connections is wrong as soon as nobody looks: when the programs have been taken off every window is made TCP's
//! own, and every entry of the flow table is given back. When it wakes, all connections are older than it ([`crate::older`]): where others
//! than this host may be behind the device, the kernel could not tell their window scales, and the guard is never dormant.

use std::mem;

use ackgate_control::units::{Span, Time};

use crate::netstat::Signs;

/// From when on a guard follows connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follow {
    /// From the start: the first burst is guarded, and each segment costs some processor time.
    #[default]
    Always,
    /// Once segments are lost, until it was not needed for ten minutes.
    AfterLoss,
}

/// So many losses, within so long, wake it.
const WAKING: i64 = 8;
const WITHIN: Span = Span::secs(1);
/// Time between two looks at them: half of the usual minimum RTO, so that what is sent again is guarded.
const LISTEN: Span = Span::millis(100);
/// How long it stays awake after it was woken or last needed.
const MEMORY: Span = Span::secs(600);
/// So many segments that are lost between two sweeps are an overflow, as for the search for a budget.
const OVERFLOW: u64 = 8;
/// Sweeps from the last packet that was looked at until every entry is given back: one forgets, one gives back.
const SWEEPS: u32 = 2;

/// What it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It follows connections in any case.
    Guards,
    /// Nobody looks. What spoke for losses at some time of the last second; nothing at first.
    Dormant {
        counted: Option<(Signs, Time)>,
    },
    Awake {
        until: Time,
    },
    /// Nobody looks any more, and so many sweeps have been made since.
    Leaving {
        sweeps: u32,
    },
}

const DORMANT: Phase = Phase::Dormant { counted: None };

#[derive(Debug)]
pub(crate) struct Dormancy {
    phase: Phase,
    /// When it last looked.
    before: Needs,
    /// When it is to be told next what speaks for losses.
    next: Time,
}

/// What speaks for the guard: how much of it there has been.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// Packets that were held and have left.
    pub(crate) held: u64,
    /// Segments that were lost.
    pub(crate) lost: u64,
}

impl Needs {
    const fn are_more_than(self, before: Self) -> bool {
        self.held > before.held || self.lost >= before.lost + OVERFLOW
    }
}

impl Dormancy {
    /// At the start of a guard. `rests`: whether it is to follow connections after losses only, and all connections are this host's.
    pub(crate) fn new(rests: bool) -> Self {
        Self { phase: if rests { DORMANT } else { Phase::Guards }, before: Needs::default(), next: Time::ZERO }
    }

    /// Whether the programs are to be off the device.
    pub(crate) const fn is_dormant(&self) -> bool {
        matches!(self.phase, Phase::Dormant { .. } | Phase::Leaving { .. })
    }

    /// Whether the next sweep forgets every connection.
    pub(crate) const fn forgets(&self) -> bool {
        matches!(self.phase, Phase::Leaving { .. })
    }

    /// Whether it wants to be told what speaks for losses.
    pub(crate) fn listens(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Dormant { .. }) && now >= self.next
    }

    /// Tells what has spoken for losses so far: it may wake it.
    pub(crate) fn listen(&mut self, signs: Signs, now: Time) {
        self.next = now + LISTEN;
        let Phase::Dormant { counted } = &mut self.phase else { return };
        match *counted {
            Some((before, _)) if signs.losses_since(before) >= WAKING => {
                tracing::info!("segments are lost: connections are followed");
                self.phase = Phase::Awake { until: now + MEMORY };
            }
            Some((_, since)) if now < since + WITHIN => {}
            _ => *counted = Some((signs, now)),
        }
    }

    /// To be called before each sweep; `rests` as before, `holds`: whether anything is held.
    pub(crate) fn look(&mut self, rests: bool, holds: bool, needs: Needs, now: Time) {
        let needed = needs.are_more_than(mem::replace(&mut self.before, needs));
        self.phase = match self.phase {
            Phase::Leaving { sweeps } if sweeps < SWEEPS => Phase::Leaving { sweeps: sweeps + 1 },
            _ if !rests => Phase::Guards,
            // What was forgotten before this sweep is given back by it.
            Phase::Leaving { .. } => DORMANT,
            Phase::Guards => Phase::Awake { until: now + MEMORY },
            Phase::Awake { .. } if needed => Phase::Awake { until: now + MEMORY },
            Phase::Awake { until } if now >= until && !holds => Phase::Leaving { sweeps: 0 },
            other => other,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds after the start, as `look` goes.
    struct Run {
        dormancy: Dormancy,
        now: Time,
        needs: Needs,
        signs: Signs,
    }

    /// Whether it is dormant, and forgets.
    const AWAKE: (bool, bool) = (false, false);
    const RESTS: (bool, bool) = (true, false);
    const LEAVES: (bool, bool) = (true, true);

    impl Run {
        fn new(rests: bool) -> Self {
            Self {
                dormancy: Dormancy::new(rests),
                now: Time::ZERO,
                needs: Needs::default(),
                signs: Signs { holes: -1000, ..Signs::default() },
            }
        }

        fn second(&mut self, rests: bool, holds: bool) -> (bool, bool) {
            if self.dormancy.listens(self.now) {
                self.dormancy.listen(self.signs, self.now);
            }
            self.now += Span::secs(1);
            self.dormancy.look(rests, holds, self.needs, self.now);
            (self.dormancy.is_dormant(), self.dormancy.forgets())
        }

        /// One that has just been woken.
        fn awake() -> Self {
            let mut run = Self::new(true);
            assert!((0..100).all(|_| run.second(true, false) == RESTS));
            run.signs.holes += WAKING;
            assert_eq!(run.second(true, false), AWAKE);
            run
        }
    }

    #[test]
    fn a_guard_that_always_follows_connections_is_never_dormant() {
        let mut run = Run::new(false);
        assert!((0..100).all(|_| run.second(false, false) == AWAKE));
    }

    #[test]
    fn many_holes_within_a_second_wake_it() {
        let mut run = Run::new(true);
        for _ in 0..100 {
            assert_eq!(run.second(true, false), RESTS);
            run.signs.holes += WAKING - 1;
        }
        assert_eq!(run.second(true, false), RESTS);
        run.dormancy.listen(run.signs, run.now);
        for part in 0..WAKING {
            assert!(run.dormancy.is_dormant(), "{part} of {WAKING}");
            run.signs.holes += 1;
            run.now += LISTEN;
            assert!(run.dormancy.listens(run.now));
            run.dormancy.listen(run.signs, run.now);
            assert!(!run.dormancy.listens(run.now));
        }
        assert!(!run.dormancy.is_dormant());
    }

    #[test]
    fn it_ends_for_ten_minutes_after_something_was_last_held_or_overflowed() {
        for need in [Needs { held: 1, lost: 0 }, Needs { held: 0, lost: OVERFLOW }] {
            let mut run = Run::awake();
            for _ in 0..100 {
                run.needs = Needs { held: run.needs.held + need.held, lost: run.needs.lost + need.lost };
                assert_eq!(run.second(true, false), AWAKE);
            }
            assert!((0..599).all(|_| run.second(true, false) == AWAKE));
            assert_eq!(run.second(true, false), LEAVES);
        }
    }

    #[test]
    fn without_a_need_it_ends_for_ten_minutes_and_nothing_is_remembered() {
        let mut run = Run::awake();
        for _ in 0..598 {
            run.needs.lost += OVERFLOW - 1;
            assert_eq!(run.second(true, false), AWAKE);
        }
        assert_eq!(run.second(true, true), AWAKE);
        assert_eq!(run.second(true, true), AWAKE, "not while anything is held");
        assert_eq!(run.second(true, false), LEAVES);
        run.signs.holes += 100 * WAKING;
        for _ in 0..SWEEPS {
            assert_eq!(run.second(true, false), LEAVES, "not before everything is forgotten");
        }
        assert!((0..100).all(|_| run.second(true, false) == RESTS), "what came before does not count");
    }

    #[test]
    fn settings_that_end_it_wait_for_the_entries_to_be_given_back() {
        let mut run = Run::new(true);
        assert_eq!(run.second(false, false), AWAKE);
        assert_eq!(run.second(true, false), AWAKE, "and others begin it again");
        assert!((0..700).any(|_| run.second(true, false) == LEAVES));
        let words: Vec<_> = (0..=SWEEPS).map(|_| run.second(false, false)).collect();
        assert_eq!(words, [LEAVES, LEAVES, AWAKE]);
    }
}
