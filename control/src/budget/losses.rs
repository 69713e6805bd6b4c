//! Losses, as far as they speak of the budget: an overflow is many of them at once, and more than are lost whatever the budget is.

use crate::gate::config::FULL_FRAME;
use crate::gate::state::Gate;
use crate::units::{Span, Time};

/// So many losses within a few epochs are an overflow. Fewer may be anything: what is repeated while its ACK is on its way
/// looks like loss, too.
pub(super) const OVERFLOW: u64 = 8;
/// So many losses in this time begin the search where it waits for them.
pub(super) const LOSS_MEMORY: Span = Span::secs(1);
/// An eighth of them is forgotten in this time, even if next to nothing arrives.
const FORGET: Span = Span::millis(50);
/// After so many cuts in a row, losses that are not rarer than this part of what they were have nothing to do with the budget, if hardly
/// any port overflows with it, or no more than three of a hundred segments are lost: where much more than a port holds comes, most of it is.
const FUTILE: u32 = 4;
const RARER: u64 = 4;
/// Among 2^30 bytes.
const RARE: u64 = (1 << 30) / FULL_FRAME * 3 / 100;
/// An overflow loses so many times what is lost by chance.
const BEYOND_CHANCE: u64 = 4;

/// Losses, and what has arrived meanwhile, wire bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    lost: u64,
    bytes: u64,
}

impl Count {
    fn of(gate: &Gate) -> Self {
        Self { lost: gate.overflow.get(), bytes: gate.bytes.get() }
    }

    const fn since(self, before: Self) -> Self {
        Self { lost: self.lost.wrapping_sub(before.lost), bytes: self.bytes.wrapping_sub(before.bytes) }
    }

    /// Losses among 2^30 bytes.
    fn frequency(self) -> u64 {
        (self.lost << 30) / self.bytes.max(1)
    }

    /// Whether that is an overflow where so many of 2^30 bytes are lost anyway.
    const fn is_overflow(self, by_chance: u64) -> bool {
        self.lost >= OVERFLOW + (by_chance.saturating_mul(self.bytes) >> 30).saturating_mul(BEYOND_CHANCE)
    }
}

/// What counts as an overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// All losses.
    All,
    /// Those that cost a timeout, each as much as so many.
    Timeouts { weight: u64 },
}

/// What is remembered of losses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// What there had been when it was last taken in.
    seen: Count,
    /// Of late; an eighth is forgotten from time to time.
    recent: Count,
    /// When some of it was last forgotten, and what had arrived by then.
    forgot: (Time, u64),
    /// Responses that had been lost to the last segment, as `lost`, and when that was noted.
    unheard: (Time, Count),
    /// What there had been when the budget was last cut, and how frequent losses were just before.
    cut: Count,
    before_cut: u64,
    /// Cuts in a row in vain, and how frequent losses were at the first.
    futile: (u32, u64),
    /// How frequent losses are that have nothing to do with the budget.
    by_chance: u64,
}

impl Losses {
    /// What was lost before tells nothing.
    pub(super) fn anew(gate: &Gate) -> Self {
        let seen = Count::of(gate);
        Self { seen, cut: seen, ..Self::default() }
    }

    /// Whether anything was lost since that was last taken in.
    pub(super) fn are_new(&self, gate: &Gate) -> bool {
        gate.overflow.get() != self.seen.lost
    }

    /// What there is from now on is new.
    pub(super) fn note(&mut self, gate: &Gate) {
        self.seen = Count::of(gate);
    }

    /// What there is so far tells nothing.
    pub(super) fn overlook(&mut self, gate: &Gate, now: Time) {
        self.note(gate);
        self.recent = Count::default();
        self.unheard = (now, Count { lost: gate.unheard.get(), bytes: gate.bytes.get() });
    }

    /// Whether what is new is an overflow.
    pub(super) fn begin(&self, gate: &Gate) -> bool {
        Count::of(gate).since(self.seen).is_overflow(self.by_chance)
    }

    /// Whether there is an overflow. Where the budget binds nobody, what one sender loses again and again is one when it binds somebody; but
    /// many responses that were lost to the last segment show that it is much too large.
    pub(super) fn overflow(&mut self, gate: &Gate, evidence: Evidence, now: Time) -> bool {
        let Evidence::Timeouts { weight } = evidence else {
            let new = Count::of(gate).since(self.seen);
            let all = Count { lost: self.recent.lost + new.lost, bytes: self.recent.bytes + new.bytes };
            return all.is_overflow(self.by_chance);
        };
        let unheard = Count { lost: gate.unheard.get(), bytes: gate.bytes.get() };
        if now >= self.unheard.0 + LOSS_MEMORY {
            self.unheard = (now, unheard);
        }
        let new = unheard.since(self.unheard.1);
        Count { lost: new.lost * weight, ..new }.is_overflow(self.by_chance)
    }

    /// Takes in what is new, and forgets some of the rest: an eighth after each epoch on a busy link, on which so much arrives meanwhile, and
    /// else not before as much has arrived, or for some time. Where rounds wait for what was lost little arrives, and each loss weighs more.
    pub(super) fn take_in(&mut self, gate: &Gate, epoch: u64, now: Time) {
        let (all, (when, had)) = (Count::of(gate), self.forgot);
        let busy = all.bytes.wrapping_sub(had) >= epoch / 2;
        let eighths = (now.since(when).0 / FORGET.0).max(busy.into());
        for _ in 0..eighths.min(OVERFLOW) {
            self.recent.lost -= self.recent.lost.div_ceil(8);
            self.recent.bytes -= self.recent.bytes / 8;
        }
        if eighths > 0 {
            self.forgot = (now, all.bytes);
        }
        let new = all.since(self.seen);
        self.recent = Count { lost: self.recent.lost + new.lost, bytes: self.recent.bytes + new.bytes };
        self.seen = all;
        if self.recent.frequency() < self.by_chance / 2 {
            self.by_chance -= self.by_chance.div_ceil(512);
        }
    }

    /// Nothing has overflowed for long, since the budget was cut or the search began. What is lost all the same, hardly more rarely than before, is by chance.
    pub(super) fn settle(&mut self, gate: &Gate) {
        let since = Count::of(gate).since(self.cut);
        if since.lost >= OVERFLOW && since.frequency() >= self.before_cut / RARER {
            self.by_chance = self.by_chance.max(since.frequency());
        }
    }

    /// The budget is cut, all of whose losses have been taken in. `low`: hardly any port overflows with it; `again`: it was cut of late. Says
    /// whether that is in vain: no less is lost with less, so that it is by chance, or for other reasons.
    pub(super) fn cut(&mut self, gate: &Gate, low: bool, again: bool, now: Time) -> bool {
        let all = Count::of(gate);
        let frequency = all.since(self.cut).frequency();
        self.before_cut = if self.recent.lost > 0 { self.recent.frequency() } else { frequency };
        (self.recent, self.cut) = (Count::default(), all);
        self.unheard = (now, Count { lost: gate.unheard.get(), bytes: all.bytes });
        let (cuts, first) = self.futile;
        self.futile = match cuts {
            _ if !low && frequency > RARE => (0, 0),
            _ if cuts == 0 || !again || frequency < first / RARER => (1, frequency),
            _ => (cuts + 1, first),
        };
        if self.futile.0 < FUTILE {
            return false;
        }
        (self.futile, self.by_chance) = ((0, 0), self.by_chance.max(frequency));
        true
    }
}
