//! The search for a budget: the smallest one that keeps the link busy while work is held back.
//!
//! In-flight bytes need to cover the path's bandwidth-delay product and what hides jitter; whatever the switch can buffer
//! beyond that only adds delay. The search goes by throughput alone and never by overflowing the buffer on purpose:
//!
//! - **Start**: a given buffer is known to be safe, and the search begins with three quarters of it: what is sent twice in the
//!   first rounds, before anybody knows round-trip times under load, is in nobody's account. After a second without loss a frame
//!   for each sender is left of the other quarter. Without a buffer (`--buffer auto`) it begins with a few frames, and grows by a
//!   quarter as long as that brings more throughput.
//!   Where the rate is not known either, nothing but losses speaks for a small budget: until some are seen it is the largest one, which
//!   hardly lowers or holds anything.
//! - **Trials**: epochs with three sixteenths less, or a quarter more, alternate with epochs with the budget as it is. If less costs
//!   next to nothing, the budget becomes an eighth less: what lies between hides jitter. If more gains something, it becomes that
//!   much more. Then the same is tried again; else the opposite, after a pause that is longer each time that less was too
//!   little. What a few flows need to send side by side is tried at once, and so is what lets them have whole responses over a long path:
//!   a part of that may bring nothing. On a full link more can gain nothing, and is not tried.
//!   Where the buffer is not known, less is a quarter less, and more is tried all the same: what noise alone pretends to gain is
//!   found out sooner. Less than at first only losses ask for: what each trial costs adds up, and so short a queue hurts nobody.
//! - **An idle link** while something is held (it carries less than three quarters of what it can: servers think, or hosts are
//!   slow) takes the budget up by a quarter each epoch, as far as is known to be safe; where no buffer is given, at least to
//!   three times the first budget. A trial of less ends with that, unless the link is never full, as far as is known: then it tells by itself. Where
//!   nobody waits, and those who send unasked could not all begin with a whole message, a trial of more that brings nothing is followed by the next:
//!   all of it may.
//! - **Loss** seen at the receiver (holes that retransmissions fill), where the buffer is not known, takes a quarter away
//!   and sets a ceiling, which rises again slowly. What is repaired of one overflow takes one quarter, however long that lasts. A given buffer
//!   that overflows the port is no longer known: what even shallow ports hold is left at most, and the search goes on as if there had been none. What
//!   is lost whatever the budget is (`losses`) takes nothing for good, and gives such a buffer back; what is lost after a cut nearly as often as
//!   before it is expected from then on. **CE** acts through PAC's Eq. 2 on the threshold, below the budget. While marks keep the queue short, a
//!   budget within a given buffer need not, and grows.
//!
//! An epoch counts only if something was held from its begin to its end, or nothing was and windows were lowered all the same (then only
//! more is tried), and if at least a budget's worth of data arrived: a
//! link that is idle for want of work, connections that are being set up, and servers that think say nothing about budgets.
//! Where the buffer is not known and flows are few, the end of a round, when the last of them are waited for, and the begin of the next
//! are part of an epoch, too: their rounds are often shorter than that, and what a budget costs shows in how long they take.
//! Neighbouring epochs are compared, and many of them, because hosts are descheduled, and rounds begin and end.

mod epoch;
mod losses;
mod trial;

use epoch::{Binds, Epoch, Outcome};
use losses::{Evidence, LOSS_MEMORY, Losses};
use trial::{Carried, TOLERANCE, TOLERANCE_AUTO};

use crate::gate::config::{Config, FULL_FRAME, Prices};
use crate::gate::state::Gate;
use crate::units::{Span, Time};

/// The first budget when the buffer is not known, in full frames: half of what the shallowest port buffers hold.
const FIRST: u64 = 16 * FULL_FRAME;
/// The same on fast links, whose switches have more: what the link carries in this time.
const FIRST_TIME: Span = Span::micros(100);
/// With so much for each a few flows send side by side: `concurrent` of `core/path.h`. A part of that may bring nothing, so that it
/// is tried at once.
const QUANTUM: u64 = 4 * FULL_FRAME;
/// Where the buffer is not known, this many times the first budget is not yet a risk: what a few flows need side by side is tried up
/// to it, and an idle link takes the budget as far.
const FARTHEST: u64 = 3;
/// The least budget: two grants of two segments.
const LEAST: u64 = 4 * FULL_FRAME;
/// Shortest epoch; also at least four mean RTTs.
const EPOCH: Span = Span::millis(2);
/// What arrives on a full link, as a part of its rate in sixteenths: gaps and preambles take their share, and more would have to
/// gain some more.
const FULL: u64 = 15;
/// Epochs between trials: at least, after less was too little for the first time, and at most.
const WAITS: (u32, u32, u32) = (4, 32, 128);
/// Payload of the longest short answers: two ordinary segments (`answers_briefly` of `core/flow.h`).
const LONGEST_SHORT: u64 = 2 * FULL_FRAME;
/// For so long after an overflow what is lost belongs to it, at least; also for four times what responses take to begin.
const AFTERMATH: Span = Span::millis(20);
/// So many overflows in a row show that the port holds less than was given.
const DOUBTFUL: u32 = 3;
/// Overflows no further apart than that are in a row, and PAC's cuts.
const SOON: Span = Span::secs(10);
/// What is lost so soon after an overflow belongs to it.
const APART: Span = Span::millis(150);
/// Epochs for which the ceiling stays after an overflow, before it rises.
const CAUTION: u32 = 512;

/// The largest budget. PAC takes the whole buffer, as published: its estimates run high. Exact credit, and PAC with bounded
/// windows, fill what they are given to the byte, and leave a sixteenth to what nobody can account: the senders' own ACKs and
/// probes, and other hosts' traffic.
pub(crate) fn top(config: &Config) -> u64 {
    let spare = if config.grants() || config.bound_windows { config.buffer / 16 } else { 0 };
    (config.buffer - spare).max(2 * FULL_FRAME)
}

/// The least budget: no less than a few flows need side by side, where the buffer is known to have room for that. Turns would cost
/// them more, in packets, than a shorter queue is worth.
fn least(config: &Config, gate: &Gate, top: u64) -> u64 {
    let needed = side_by_side(gate.peak_active.get());
    if config.grants() && is_known(gate) && needed <= top { needed.max(LEAST) } else { LEAST }
}

/// Whether what the port holds is known: it was given, and has not proved to be less.
fn is_known(gate: &Gate) -> bool {
    gate.port.get() > 0
}

/// What of a given buffer is used after the first rounds, until the search has something to say: a frame for each sender is left to what
/// is sent twice, a quarter at most.
fn with_reserve(gate: &Gate, top: u64) -> u64 {
    (top - (gate.peak_active.get() * FULL_FRAME).min(top / 4)).max(2 * FULL_FRAME)
}

/// What the link carries with all that is on it: as given, or less where it has shown to (`whole_link` of `core/path.h`).
fn whole_link(config: &Config, gate: &Gate) -> u64 {
    let given = config.rate_mbps * 131_072 / 1_000;
    match gate.carries.get() {
        0 => given,
        carries => given.min(carries),
    }
}

/// What others leave of it.
fn link(config: &Config, gate: &Gate) -> u64 {
    gate.left_of_link(whole_link(config, gate))
}

/// What even shallow ports are taken to hold, as in `core/path.h`.
fn shallow_port(config: &Config, gate: &Gate) -> u64 {
    gate.left_of_buffer(FARTHEST * FIRST.max((whole_link(config, gate) * FIRST_TIME.0) >> 20))
}

/// The budget with which so many flows never wait for each other: what `concurrent` of `core/path.h` asks for, and a frame more
/// for each, for grants are rounded up to units of the window field.
const fn side_by_side(flows: u64) -> u64 {
    flows * 6 * FULL_FRAME
}

/// The budget with which whole responses of so many flows are granted at once over a long path, beside what the path holds (`least_handshake` of
/// `core/types.h`); else the last of them waits for another round trip, and a part of this brings nothing.
fn whole_responses(gate: &Gate, link: u64) -> u64 {
    let response = gate.largest_response.get();
    let frames_rate = link - link / 64;
    let holds = (frames_rate * u64::from(gate.least_handshake.get())) >> 20;
    (gate.peak_active.get() * in_frames(response)).saturating_sub(holds)
}

/// The budget with which all who send unasked may begin with a whole message (`messages_fit` of `core/message.h`), 0 where nobody does: a part
/// of it brings nothing.
fn whole_messages(gate: &Gate) -> u64 {
    let flows = gate.peak_active.get().max(gate.peak_senders.get());
    match gate.largest_message.get() {
        0 => 0,
        message => flows * in_frames(message.max(gate.largest_response.get())),
    }
}

/// So much payload with headers, in whole segments.
const fn in_frames(payload: u64) -> u64 {
    payload + payload / 16 + FULL_FRAME
}

/// The search for the budget.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// When a given buffer was first of interest, or its latest loss before the search; under PAC, when the budget was last cut.
    begun: Time,
    epoch: Epoch,
    beside: Beside,
    /// When it is to be looked at again at the earliest.
    next: Time,
    losses: Losses,
    /// Overflows of a given buffer in a row, and the last one.
    overflows: (u32, Time),
    /// Epochs since the last overflow.
    clean: u32,
    ceiling: u64,
    phase: Phase,
    /// Epochs to wait for after the next trial with less that fails.
    wait: u32,
    /// The most that the link has shown it carries; forgets slowly.
    best: u64,
    /// The largest budget that has been worth it, and has not turned out to be no better than less.
    proven: u64,
}

/// Other traffic that takes its part of the link whatever it is left. A larger budget stands before it in the queue, and gains for a moment what it
/// loses: only what arrives of both tells what the link carries. Of what takes whatever it is left, what it gains is lost.
#[derive(Clone, Copy, Debug, Default)]
struct Beside {
    /// Whether it is left its part (`others.h` of the core).
    keeps: bool,
    /// What had arrived of all other traffic when it was last looked at, and of this, since it is left its part.
    all: u64,
    kept: u64,
}

impl Beside {
    /// Says what has arrived that tells what the link carries, and whether from now on something else counts.
    fn look(&mut self, gate: &Gate) -> (u64, bool) {
        let (all, keeps) = (gate.other_bytes.get(), gate.other_part.get() > 0);
        if keeps {
            self.kept += all.wrapping_sub(self.all);
        }
        self.all = all;
        let changed = core::mem::replace(&mut self.keeps, keeps) != keeps;
        (gate.bytes.get() + self.kept, changed)
    }
}

/// Where to look.
#[derive(Clone, Copy)]
struct Range {
    /// The largest budget as far as is known.
    top: u64,
    /// The one with which the flows of late send side by side, or have whole responses; 0 where that is too much to be tried.
    useful: u64,
    /// The one with which all may begin with whole messages, 0 where nobody sends unasked.
    messages: u64,
    /// What the link carries, bytes per 2^20 ns; 0 when it is not known.
    link: u64,
    /// Whether what the port holds is known.
    known: bool,
}

/// What the search is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Nothing has been measured yet.
    #[default]
    New,
    /// Growing from a few frames; what the link carried (bytes per 2^20 ns) when growing was last worth it, and epochs since.
    Start { rate: u64, flat: u32 },
    /// So many epochs until the next trial.
    Keep { epochs: u32, up: bool },
    /// Trying `other` instead of `budget` every second epoch; epochs so far, and what the link carried with each.
    Trial { budget: u64, other: u64, epochs: u32, carried: [Carried; 2] },
}

impl Budget {
    /// The budget to begin with.
    #[must_use]
    pub fn initial(config: &Config) -> u64 {
        if Self::waits_for_loss(config) { top(config) } else { Self::first(config, !config.auto) }
    }

    /// What of a given buffer may be used at most, wire bytes; 0 without one.
    #[must_use]
    pub fn given(config: &Config) -> u64 {
        if config.auto { 0 } else { top(config) }
    }

    /// Whether the search begins with the first losses.
    const fn waits_for_loss(config: &Config) -> bool {
        config.auto && config.rate_mbps == 0
    }

    /// The budget that the search begins with, where what the port holds is known or not.
    fn first(config: &Config, known: bool) -> u64 {
        let top = top(config);
        match config.prices {
            _ if !known => FIRST.max(config.rate_mbps * FIRST_TIME.0 / 8_000).min(top),
            Prices::Exact => (top - top / 4).max(2 * FULL_FRAME),
            _ => top,
        }
    }

    /// Where it is not known, as far as the search goes without a risk.
    fn farthest(config: &Config) -> u64 {
        FARTHEST * Self::first(config, false)
    }

    /// A search that begins anew: what was lost before tells nothing about it.
    #[must_use]
    pub fn anew(gate: &Gate) -> Self {
        gate.shallow.set(0);
        Self { losses: Losses::anew(gate), ..Self::default() }
    }

    /// Nothing was held or lowered until now: what was lost says nothing about the budget.
    pub fn overlook_losses(&mut self, gate: &Gate, now: Time) {
        self.losses.overlook(gate, now);
    }

    /// Whether other settings begin another search: the buffer, whether it is known, or whether the search waits for losses.
    #[must_use]
    pub fn differs(one: &Config, other: &Config) -> bool {
        let of = |config: &Config| (config.buffer, config.auto, Self::waits_for_loss(config));
        of(one) != of(other)
    }

    /// Whether the search has not begun, for it waits for the first losses: until then nobody's window is of interest.
    fn awaits_loss(&self, config: &Config) -> bool {
        Self::waits_for_loss(config) && self.phase == Phase::New
    }

    /// Whether there is anything to be found out under these settings. PAC as published uses all of a given buffer, whatever is lost.
    #[must_use]
    pub const fn applies(config: &Config) -> bool {
        Self::is_searched_for(config) || config.bound_windows
    }

    /// Whether the smallest budget that suffices is searched for. PAC with a given buffer uses it all, as long as that does not overflow the port.
    const fn is_searched_for(config: &Config) -> bool {
        config.auto || config.grants()
    }

    /// Whether a budget that begins low lowers the windows of several flows: more is offered to them than it is.
    fn lowers(gate: &Gate) -> bool {
        !is_known(gate) && gate.active.get() > 1 && gate.offered.get() > gate.threshold.get()
    }

    /// Looks at the gate; to be called whenever something is held, and whenever nothing is.
    pub fn observe(&mut self, config: &Config, gate: &Gate, waits: bool, now: Time) {
        if self.awaits_loss(config) {
            self.await_loss(config, gate, now);
            return;
        }
        let known = is_known(gate);
        if !Self::is_searched_for(config) {
            self.give_way(config, gate, now);
            return;
        }
        if self.phase == Phase::New && known {
            self.trust(config, gate, now);
        }
        self.hold_ground(config, gate);
        let binds = match waits {
            true => Binds::Waiting,
            false if Self::lowers(gate) => Binds::Windows,
            false => Binds::Nobody,
        };
        let length = EPOCH.max(Span(4 * gate.mean_rtt.get()));
        if binds != Binds::Nobody && now >= self.next {
            self.next = now + length;
        }
        let (beside, farthest) = (gate.peak_active.get() * QUANTUM, Self::farthest(config));
        let pause = if !known && (beside <= farthest || !waits) { length } else { Span::ZERO };
        let (bytes, changed) = self.beside.look(gate);
        if changed {
            self.best = 0;
            self.epoch.begin(bytes, false, now);
        }
        let outcome = self.epoch.look(binds, bytes, length, pause, gate.threshold.get(), now);
        let evidence = if known || binds != Binds::Nobody { Evidence::All } else { Evidence::Timeouts { weight: 1 } };
        let overflows = self.losses.overflow(gate, evidence, now) && (!known || self.is_doubtful(gate, now));
        if outcome == Outcome::None && !overflows {
            return;
        }
        self.take_in(config, gate, now);
        self.clean += 1;
        if self.clean == CAUTION {
            self.losses.settle(gate);
        }
        if self.clean > CAUTION {
            self.ceiling = (self.ceiling + self.ceiling / 1024).min(top(config));
        }
        if self.clean.is_multiple_of(CAUTION) {
            gate.shallow.set((gate.shallow.get() + gate.shallow.get() / 64).min(shallow_port(config, gate)));
        }
        let budget = gate.cap.get();
        let top = self.top(config);
        let next = if overflows {
            let (low, again) = (budget <= Self::first(config, false) * 5 / 4, self.clean <= CAUTION);
            self.clean = 0;
            if self.losses.cut(gate, low, again, now) {
                self.begin_again(config, gate);
                return;
            }
            self.epoch.begin(bytes, false, now);
            gate.port.set(0);
            // Of a given buffer that much is left at most that even shallow ports hold.
            let budget = if known { budget.min(Self::farthest(config) * 4 / 3) } else { budget };
            // Nor what has been asked for by now, and is lost when it comes.
            gate.cut_at.set((now + AFTERMATH.max(Span(4 * gate.response_delay.get()))).0);
            self.phase = Phase::Keep { epochs: WAITS.1, up: false };
            if Self::short_answers_overflow(config, gate, budget) {
                budget
            } else {
                // High enough for it to rise again, however many losses come in a row.
                self.ceiling = (budget - budget / 8).max(2 * LEAST);
                budget - budget / 4
            }
        } else if let Outcome::Over(rate) = outcome {
            let link = link(config, gate);
            let useful = [beside, whole_responses(gate, link)].into_iter().filter(|&budget| budget <= farthest).max();
            let range = Range {
                top,
                useful: useful.unwrap_or(0),
                messages: whole_messages(gate),
                link: whole_link(config, gate),
                known,
            };
            // Marks keep the queue short, by Eq. 2: a budget that is known to be safe need not.
            match gate.threshold.get() < gate.most.get() {
                true if !known => budget,
                true => (budget + budget / 8).min(with_reserve(gate, top)).max(budget),
                false => self.step(config, rate, budget, range),
            }
        } else {
            return;
        };
        let top = self.top(config);
        gate.change_budget(next.clamp(least(config, gate, top).min(top), top));
    }

    /// The port has overflowed although its buffer was given. Says whether it did so again and again: first rounds may lose segments once.
    fn is_doubtful(&mut self, gate: &Gate, now: Time) -> bool {
        self.losses.overlook(gate, now);
        let (times, last) = self.overflows;
        if times > 0 && now < last + APART {
            return false;
        }
        self.overflows = if now < last + SOON { (times + 1, now) } else { (1, now) };
        self.overflows.0 >= DOUBTFUL
    }

    /// PAC uses all of a given buffer. What costs timeouts shows that the port holds less: no more than shallow ports do from then on, or a
    /// quarter less, which rises again slowly.
    fn give_way(&mut self, config: &Config, gate: &Gate, now: Time) {
        let budget = gate.cap.get();
        let overflows = self.losses.overflow(gate, Evidence::Timeouts { weight: 2 }, now);
        if overflows && (!is_known(gate) || self.is_doubtful(gate, now)) {
            let low = budget <= Self::first(config, false) * 5 / 4;
            let again = now < self.begun + SOON;
            (self.begun, self.next) = (now, now + LOSS_MEMORY);
            gate.cut_at.set(self.next.0);
            if self.losses.cut(gate, low, again, now) {
                self.begin_again(config, gate);
                return;
            }
            gate.port.set(0);
            gate.change_budget((budget - budget / 4).min(Self::farthest(config)).max(LEAST));
        } else if !is_known(gate) && now >= self.next {
            self.next = now + LOSS_MEMORY;
            gate.change_budget((budget + budget / 64).min(top(config)));
        }
    }

    fn take_in(&mut self, config: &Config, gate: &Gate, now: Time) {
        self.losses.take_in(gate, (link(config, gate) * EPOCH.0) >> 20, now);
    }

    /// What others take whatever they are left overflows the port with any budget: a small one would only leave it to them.
    fn hold_ground(&mut self, config: &Config, gate: &Gate) {
        let ground = Self::farthest(config).min(top(config));
        if !is_known(gate) && gate.others_take() && gate.cap.get() < ground {
            if self.ceiling > 0 {
                self.ceiling = self.ceiling.max(ground);
            }
            gate.change_budget(ground);
        }
    }

    /// Uses more of a given buffer once the first rounds are over and nothing has been lost. The search itself may never begin: a few
    /// senders hardly wait.
    fn trust(&mut self, config: &Config, gate: &Gate, now: Time) {
        if self.begun == Time::ZERO || self.losses.are_new(gate) {
            self.begun = now;
            self.take_in(config, gate, now);
        }
        if now.since(self.begun) >= LOSS_MEMORY {
            let top = top(config);
            gate.change_budget(with_reserve(gate, top).max(least(config, gate, top)).min(top));
        }
    }

    /// After an overflow: short answers may use more of the port than the budget (`brief_room` of `core/path.h`), from now on half as much.
    /// Whether it was they alone, and the budget may be right.
    fn short_answers_overflow(config: &Config, gate: &Gate, budget: u64) -> bool {
        let usual = shallow_port(config, gate);
        let room = match gate.shallow.get() {
            0 => usual,
            less => less.min(usual),
        };
        if room <= budget + budget / 8 {
            return false;
        }
        gate.shallow.set(room / 2);
        (1..=LONGEST_SHORT).contains(&gate.largest_response.get())
    }

    /// Begins with the search once an overflow has been seen.
    fn await_loss(&mut self, config: &Config, gate: &Gate, now: Time) {
        if now >= self.next {
            self.next = now + LOSS_MEMORY;
            self.losses.note(gate);
        }
        if !self.losses.begin(gate) {
            return;
        }
        self.next = now;
        self.losses.note(gate);
        self.phase = Phase::Start { rate: 0, flat: 0 };
        gate.cut_at.set((now + AFTERMATH).0);
        gate.use_budget(Self::first(config, false));
    }

    /// Losses have nothing to do with the budget: a given buffer is believed again, and the search begins as if there had been none, or waits
    /// for more.
    fn begin_again(&mut self, config: &Config, gate: &Gate) {
        self.ceiling = 0;
        (self.begun, self.overflows) = (Time::ZERO, (0, Time::ZERO));
        gate.port.set(Self::given(config));
        self.phase = match is_known(gate) || Self::waits_for_loss(config) {
            true => Phase::New,
            false => Phase::Start { rate: 0, flat: 0 },
        };
        gate.shallow.set(0);
        gate.use_budget(Self::initial(config));
    }

    /// When to look again although nothing is held; `None` where nothing would come of it.
    #[must_use]
    pub fn next_look(&self) -> Option<Time> {
        self.epoch.runs().then_some(self.next)
    }

    /// The largest budget as far as is known.
    fn top(&self, config: &Config) -> u64 {
        if self.ceiling == 0 { top(config) } else { self.ceiling.min(top(config)) }
    }

    /// The next budget after an epoch without overflow.
    fn step(&mut self, config: &Config, rate: u64, budget: u64, range: Range) -> u64 {
        let tolerance = if range.known { TOLERANCE } else { TOLERANCE_AUTO };
        self.best = (self.best - self.best / 1024).max(rate);
        let safe = if range.known { range.top } else { self.proven.max(Self::farthest(config)).min(range.top) };
        if rate < self.best * 3 / 4 && budget < safe {
            // On such a link, as far as is known, a trial of less tells by itself whether it is idler with less, and a turn of more is kept.
            let never_full = !range.known && (range.link == 0 || self.best < range.link / 16 * FULL);
            let up = match self.phase {
                Phase::Trial { budget: base, other, .. } if !never_full || other > base => Some(false),
                Phase::Keep { up, .. } => Some(up && never_full),
                _ => None,
            };
            if let Some(up) = up {
                self.phase = Phase::Keep { epochs: WAITS.0, up };
                return (budget + budget / 4).min(safe);
            }
        }
        match self.phase {
            Phase::New if !range.known => {
                self.phase = Phase::Start { rate, flat: 0 };
                budget + budget / 4
            }
            Phase::New => {
                self.phase = Phase::Keep { epochs: WAITS.0, up: false };
                budget
            }
            Phase::Start { rate: before, flat } => {
                if rate > before + before / 8 {
                    self.phase = Phase::Start { rate, flat: 0 };
                    return budget + budget / 4;
                }
                self.phase = if flat < 2 {
                    Phase::Start { rate: before, flat: flat + 1 }
                } else {
                    Phase::Keep { epochs: WAITS.0, up: true }
                };
                budget
            }
            Phase::Keep { epochs, up } if epochs > 0 => {
                self.phase = Phase::Keep { epochs: epochs - 1, up };
                budget
            }
            Phase::Keep { up: true, .. } if range.known && range.link > 0 && rate > range.link / 16 * FULL => {
                self.phase = Phase::Keep { epochs: self.wait.max(WAITS.0), up: false };
                budget
            }
            Phase::Keep { up, .. } => self.trial(config, budget, up, range),
            // As long as nobody waits, a smaller budget would only make segments smaller.
            Phase::Trial { budget: base, other, .. } if !self.epoch.waits && other < base => {
                self.phase = Phase::Keep { epochs: WAITS.0, up: true };
                base
            }
            Phase::Trial { budget: base, other, epochs, mut carried } => {
                carried[(epochs % 2) as usize].add(rate);
                let (epochs, up) = (epochs + 1, other > base);
                self.phase = Phase::Trial { budget: base, other, epochs, carried };
                match tolerance.verdict(up, epochs, carried.map(Carried::most)) {
                    None => {
                        if epochs.is_multiple_of(2) {
                            base
                        } else {
                            other
                        }
                    }
                    Some(true) => {
                        let better = other.max(base - base / 8);
                        (self.wait, self.proven) = (0, better);
                        self.trial(config, better, up, range)
                    }
                    Some(false) if up && base < range.messages && self.is_idle_unwaited(rate, range) => {
                        self.phase = Phase::Keep { epochs: WAITS.0, up: true };
                        other.min(range.messages)
                    }
                    Some(false) => {
                        if !up {
                            self.wait = (2 * self.wait).clamp(WAITS.1, WAITS.2);
                        }
                        let least = if self.epoch.waits { WAITS.0 } else { WAITS.2 };
                        self.phase = Phase::Keep { epochs: self.wait.max(least), up: !up };
                        base
                    }
                }
            }
        }
    }

    /// Whether nobody waits on an idle link of unknown buffer: a part of what whole messages need gains nothing there.
    const fn is_idle_unwaited(&self, rate: u64, range: Range) -> bool {
        !self.epoch.waits && !range.known && rate < range.link / 4 * 3
    }

    /// Begins a trial of less or more; its first epoch is one with the budget as it is. At the end of the range, it
    /// will be the opposite, after a while.
    fn trial(&mut self, config: &Config, budget: u64, up: bool, range: Range) -> u64 {
        let budget = budget.max(LEAST);
        self.proven = self.proven.max(budget);
        let less = budget - budget * if range.known { 3 } else { 4 } / 16;
        let least = if range.known { LEAST } else { Self::first(config, false).min(budget) };
        let other = if up { (budget + budget / 4).max(range.useful).min(range.top) } else { less.max(least) };
        self.phase = if other != budget {
            Phase::Trial { budget, other, epochs: 0, carried: Default::default() }
        } else {
            Phase::Keep { epochs: WAITS.1, up: !up }
        };
        budget
    }
}

#[cfg(test)]
mod tests;
