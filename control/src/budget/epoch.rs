//! Epochs: while the budget binds somebody, and what arrives meanwhile.

use crate::units::{Span, Time};

/// An epoch that has lasted so many times longer says nothing.
const LONGEST: u64 = 4;
/// One that began with a round ends with one, too, unless it takes so many times longer.
const WHOLE: u64 = 2;

/// What the budget does at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Binds {
    /// What arrives tells nothing about budgets.
    #[default]
    Nobody,
    /// It only lowers windows.
    Windows,
    /// Somebody waits for it.
    Waiting,
}

/// What there is to say about an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing as yet.
    None,
    /// Another one has begun: the budget had bound nobody for long, or too little arrived.
    Broken,
    /// It is over: what arrived, bytes per 2^20 ns.
    Over(u64),
}

/// The present epoch. Rounds may be shorter: where the budget binds nobody between them for a moment, the last flows of a round have been
/// waited for, which is what a budget may cost, too.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Epoch {
    since: Time,
    bytes: u64,
    /// What the budget did when it was last looked at, since when it binds nobody, and for how long somebody has waited.
    binds: Binds,
    looked: Time,
    idle: Time,
    waited: Span,
    /// Whether it began when the budget began to bind somebody.
    whole: bool,
    /// Whether somebody waited in most of the last one.
    pub(super) waits: bool,
}

impl Epoch {
    /// Whether the budget binds somebody.
    pub(super) const fn runs(&self) -> bool {
        !matches!(self.binds, Binds::Nobody)
    }

    /// Begins anew.
    pub(super) const fn begin(&mut self, bytes: u64, whole: bool, now: Time) {
        (self.since, self.bytes, self.waited, self.whole) = (now, bytes, Span::ZERO, whole);
    }

    /// Looks at it when `bytes` have arrived in all. It takes `length`, has no pause of `pause` or more, and `least` bytes have to arrive. Where
    /// `pause` is zero, nor does what the budget does change.
    pub(super) fn look(
        &mut self,
        binds: Binds,
        bytes: u64,
        length: Span,
        pause: Span,
        least: u64,
        now: Time,
    ) -> Outcome {
        if self.binds == Binds::Waiting {
            self.waited = self.waited + now.since(self.looked);
        }
        let begins = !self.runs();
        if binds == Binds::Nobody && !begins {
            self.idle = now;
        }
        let changes = !begins && binds != self.binds;
        (self.binds, self.looked) = (binds, now);
        if binds == Binds::Nobody {
            return Outcome::None;
        }
        let elapsed = now.since(self.since);
        let arrived = bytes.wrapping_sub(self.bytes);
        let interrupted = if begins { now.since(self.idle) >= pause } else { changes && pause == Span::ZERO };
        let broken = self.since == Time::ZERO || elapsed > length * LONGEST || interrupted;
        let full = elapsed >= length && arrived >= least;
        if !broken && (!full || (self.whole && !begins && elapsed < length * WHOLE)) {
            return Outcome::None;
        }
        self.waits = self.waited * 2 >= elapsed;
        self.begin(bytes, begins && pause > Span::ZERO, now);
        if broken { Outcome::Broken } else { Outcome::Over((arrived << 20) / elapsed.0.max(1)) }
    }
}
