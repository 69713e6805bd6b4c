//! A watchdog over ourselves: when the guard seems to do harm, it steps aside for a while.
//!
//! Stepping aside withdraws the sign of life: the programs then hold nothing and every window is TCP's own, as if no daemon lived.
//! What is held leaves. After a while the guard returns; each time that it has to step aside again soon, it stays away for twice
//! as long.

use std::fmt;

use ackgate_control::units::{Span, Time};
use serde::Serialize;

/// Releases within a second from which anything is judged.
const MANY: u64 = 20;
/// Seconds in a row that harm must last.
const LASTING: u32 = 2;
/// Of what is released, the part that may leave because the longest hold is over: half.
const FORCED: u64 = 2;
/// A link that carries less than this part of its rate is idle: a tenth.
const IDLE: u64 = 10;
/// On an idle link nothing should be held for as much as this part of the longest hold: a quarter.
const LONG: u64 = 4;
/// The guard stays away at most this many times longer than at first.
const MOST: u64 = 32;
/// It is forgotten that it had to step aside when it has guarded this many times longer than it stays away at first.
const FORGETTING: u64 = 10;

/// Why the guard has stepped aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "why", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Harm {
    /// Data has ceased to arrive although ACKs and requests leave.
    NothingArrives {
        /// Segments released within the last second.
        released: u64,
    },
    /// Much of what is held waits for the longest time allowed.
    Forced {
        /// Segments released within the last second because the longest hold was over.
        forced: u64,
        /// All that were released.
        released: u64,
    },
    /// ACKs wait for long although the link is idle.
    IdleDelay {
        /// Their mean wait, us.
        mean_us: u64,
        /// What the link carried, in percent of its rate.
        used_percent: u64,
    },
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingArrives { released } => {
                write!(f, "no data arrives although {released} held segments were released within a second")
            }
            Self::Forced { forced, released } => write!(
                f,
                "{forced} of {released} held segments were released within a second only because --max-hold expired: the budget is \
                 too small, or taken by senders that do not send"
            ),
            Self::IdleDelay { mean_us, used_percent } => {
                write!(
                    f,
                    "segments are held for {mean_us} us on average although the link carries {used_percent} % of its rate"
                )
            }
        }
    }
}

/// What there is to judge by; all but the link's rate count from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signs {
    /// Segments released after having been held.
    pub(crate) released: u64,
    /// Of these, because the longest hold was over.
    pub(crate) forced: u64,
    /// How long they had been held together.
    pub(crate) held_for: Span,
    /// Wire bytes of data that arrived.
    pub(crate) bytes: u64,
    /// What the link carries, bytes a second; 0 when that is not known.
    pub(crate) link: u64,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Step aside for this long.
    Aside(Harm, Span),
    /// Guard again.
    Back,
}

#[derive(Debug)]
pub(crate) struct Watchdog {
    /// For how long to step aside at first; without it, never.
    first: Option<Span>,
    max_hold: Span,
    last: Option<(Time, Signs)>,
    harmful: u32,
    until: Option<Time>,
    pause: Span,
    returned: Time,
    times: u64,
}

impl Watchdog {
    pub(crate) fn new(first: Option<Span>, max_hold: Span) -> Self {
        let pause = first.unwrap_or(Span::ZERO);
        Self { first, max_hold, last: None, harmful: 0, until: None, pause, returned: Time::ZERO, times: 0 }
    }

    /// Other settings; where they differ, what was seen so far counts no more, and the guard is not aside.
    pub(crate) fn change(&mut self, first: Option<Span>, max_hold: Span) {
        if (first, max_hold) != (self.first, self.max_hold) {
            *self = Self { times: self.times, ..Self::new(first, max_hold) };
        }
    }

    /// Whether the guard stands aside.
    pub(crate) const fn is_aside(&self) -> bool {
        self.until.is_some()
    }

    /// How often the guard has stepped aside.
    pub(crate) const fn times(&self) -> u64 {
        self.times
    }

    /// Looks at how things stand. To be called once a second.
    pub(crate) fn look(&mut self, now: Time, signs: Signs) -> Option<Turn> {
        let first = self.first?;
        if let Some(until) = self.until {
            if now < until {
                return None;
            }
            *self = Self { last: None, harmful: 0, until: None, returned: now, ..*self };
            return Some(Turn::Back);
        }
        let (since, before) = self.last.replace((now, signs))?;
        let Some(harm) = self.judge(before, signs, now.since(since)) else {
            self.harmful = 0;
            return None;
        };
        self.harmful += 1;
        if self.harmful < LASTING {
            return None;
        }
        if now.since(self.returned) > first * FORGETTING {
            self.pause = first;
        }
        let pause = self.pause;
        self.until = Some(now + pause);
        self.times += 1;
        self.pause = (pause * 2).min(first * MOST);
        Some(Turn::Aside(harm, pause))
    }

    fn judge(&self, before: Signs, now: Signs, elapsed: Span) -> Option<Harm> {
        let released = now.released - before.released;
        let forced = now.forced - before.forced;
        let bytes = now.bytes - before.bytes;
        if released < MANY {
            return None;
        }
        if bytes == 0 {
            return Some(Harm::NothingArrives { released });
        }
        if forced >= MANY && forced * FORCED >= released {
            return Some(Harm::Forced { forced, released });
        }
        let mean = (now.held_for.0 - before.held_for.0) / released;
        // What the link could have carried: below 2^64 up to 100 Gb/s for minutes.
        let room = now.link.saturating_mul(elapsed.0 / 1_000_000) / 1000;
        let idle = room > 0 && bytes < room / IDLE;
        (idle && mean >= self.max_hold.0 / LONG)
            .then(|| Harm::IdleDelay { mean_us: mean / 1000, used_percent: bytes * 100 / room })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Span = Span::secs(30);
    /// 1 Gb/s.
    const LINK: u64 = 125_000_000;

    struct Run {
        watchdog: Watchdog,
        now: Time,
        signs: Signs,
    }

    impl Run {
        fn new(first: Option<Span>) -> Self {
            let mut watchdog = Watchdog::new(first, Span::millis(100));
            let now = Time::ZERO + Span::secs(1000);
            let signs = Signs { link: LINK, ..Signs::default() };
            assert_eq!(watchdog.look(now, signs), None);
            Self { watchdog, now, signs }
        }

        /// A second in which that many were released, so many of them forced, each held for `held`, and `bytes` arrived.
        fn second(&mut self, released: u64, forced: u64, held: Span, bytes: u64) -> Option<Turn> {
            self.now += Span::secs(1);
            self.signs.released += released;
            self.signs.forced += forced;
            self.signs.held_for = Span(self.signs.held_for.0 + released * held.0);
            self.signs.bytes += bytes;
            self.watchdog.look(self.now, self.signs)
        }
    }

    const SHORT: Span = Span::millis(1);

    #[test]
    fn each_harm_is_seen_when_it_lasts() {
        let busy = 100_000_000;
        let cases = [
            ((50, 0, SHORT, 0), Harm::NothingArrives { released: 50 }),
            ((100, 60, SHORT, busy), Harm::Forced { forced: 60, released: 100 }),
            ((100, 0, Span::millis(40), 1_250_000), Harm::IdleDelay { mean_us: 40_000, used_percent: 1 }),
        ];
        for ((released, forced, held, bytes), harm) in cases {
            let mut run = Run::new(Some(PAUSE));
            assert_eq!(run.second(released, forced, held, bytes), None, "one second may be chance");
            assert_eq!(run.second(released, forced, held, bytes), Some(Turn::Aside(harm, PAUSE)));
            assert!(run.watchdog.is_aside());
        }
    }

    #[test]
    fn what_guarding_is_like_is_no_harm() {
        let cases = [
            (10_000, 100, Span::millis(40), 100_000_000),
            (10_000, 4_000, Span::millis(40), 100_000_000),
            (0, 0, SHORT, 0),
            (19, 19, Span::millis(99), 0),
            (1000, 0, Span::millis(5), 1_000_000),
        ];
        for (released, forced, held, bytes) in cases {
            let mut run = Run::new(Some(PAUSE));
            for _ in 0..10 {
                assert_eq!(run.second(released, forced, held, bytes), None, "{released} {forced} {held} {bytes}");
            }
        }
    }

    #[test]
    fn a_guard_that_is_not_to_step_aside_never_does() {
        let mut run = Run::new(None);
        for _ in 0..10 {
            assert_eq!(run.second(50, 50, SHORT, 0), None);
        }
    }

    #[test]
    fn it_returns_stays_away_longer_each_time_and_forgets() {
        let mut run = Run::new(Some(PAUSE));
        let aside = |run: &mut Run| {
            let _ = run.second(50, 0, SHORT, 0);
            loop {
                if let Some(Turn::Aside(_, pause)) = run.second(50, 0, SHORT, 0) {
                    return pause;
                }
            }
        };
        let back = |run: &mut Run| {
            let mut seconds = 1;
            while run.second(0, 0, SHORT, 1000) != Some(Turn::Back) {
                seconds += 1;
            }
            seconds
        };
        assert_eq!((aside(&mut run), back(&mut run)), (PAUSE, 30));
        assert_eq!((aside(&mut run), back(&mut run)), (PAUSE * 2, 60));
        for _ in 0..10 {
            let _ = (aside(&mut run), back(&mut run));
        }
        assert_eq!(aside(&mut run), PAUSE * MOST);
        back(&mut run);
        for _ in 0..301 {
            assert_eq!(run.second(100, 0, SHORT, 1_000_000), None);
        }
        assert_eq!(aside(&mut run), PAUSE);
    }
}
