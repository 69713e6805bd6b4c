//! `--buffer auto`: the smallest budget that keeps the link busy while work is held back.
//!
//! In-flight bytes need to cover the path's bandwidth-delay product and what hides jitter; whatever the switch can buffer
//! beyond that only adds delay. So nobody has to know the buffer. The search goes by throughput alone and never by
//! overflowing the buffer on purpose:
//!
//! - **Start**: from a few frames up, by a quarter per epoch, until three epochs in a row bring no more throughput.
//! - **Then**: while ACKs are held and throughput is below what the link has shown it can carry, up by an eighth; while
//!   it is at that level, down by a little. Now and then half as much again is tried for a moment: a link that was never
//!   filled has not shown what it can carry.
//! - **Loss** seen at the receiver (holes that retransmissions fill) takes a quarter away and sets a ceiling, which rises
//!   again slowly. **CE** acts through PAC's Eq. 2 on the threshold, below the budget.
//!
//! An epoch counts only if ACKs were held from its begin to its end and data arrived: a link that is idle for want of
//! work says nothing.

use crate::pac::config::{Config, FULL_FRAME};
use crate::pac::state::Gate;
use crate::units::{Span, Time};

/// The first budget, in full frames: half of what the shallowest port buffers hold.
const FIRST: u64 = 16 * FULL_FRAME;
/// The least budget: two grants of two segments.
const LEAST: u64 = 4 * FULL_FRAME;
/// Shortest epoch; also at least four mean RTTs.
const EPOCH: Span = Span::millis(2);
/// Share of the link's throughput, in 1/128, above which it counts as busy (97.6 %).
const BUSY: u64 = 125;
/// So many losses within a few epochs are an overflow. Fewer may be anything: what is repeated while its ACK is on its way
/// looks like loss, too.
const OVERFLOW: u64 = 8;
/// Epochs for which the ceiling stays after an overflow, before it rises.
const CAUTION: u32 = 512;
/// Epochs between two probes.
const PROBE_EVERY: u32 = 32;
/// Epochs of a probe.
const PROBE_EPOCHS: u32 = 8;

/// The largest budget. PAC takes the whole buffer, as published: its estimates run high. Exact credit fills what it is
/// given to the byte, and leaves a sixteenth to what nobody can account: the senders' own ACKs, and other hosts' traffic.
fn top(config: &Config) -> u64 {
    if config.credit { config.buffer - config.buffer / 16 } else { config.buffer }
}

/// The search for the budget.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    since: Time,
    bytes: u64,
    lost: u64,
    /// Losses of late; forgets an eighth each epoch.
    recent: u64,
    /// Epochs since the last overflow.
    clean: u32,
    /// Throughput, bytes per 2^20 ns, smoothed: a receiver that was descheduled for a moment says nothing about budgets.
    level: u64,
    /// Highest level that the link has shown; forgets slowly.
    best: u64,
    phase: Phase,
    ceiling: u64,
}

/// What the search is doing.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Growing. `flat` epochs in a row brought no more throughput than the budget `good` did; it ends with the third.
    Start { flat: u32, good: u64 },
    /// Keeping the link busy with as little as possible, since so many epochs.
    Keep { epochs: u32 },
    /// Trying a larger budget for so many epochs; what it was before, the level then, and the sum of throughputs since.
    Probe { epochs: u32, budget: u64, level: u64, sum: u64 },
}

impl Default for Phase {
    fn default() -> Self {
        Self::Start { flat: 0, good: 0 }
    }
}

impl Budget {
    /// The budget to begin with.
    #[must_use]
    pub fn first(config: &Config) -> u64 {
        if config.auto { FIRST.min(top(config)) } else { top(config) }.max(2 * FULL_FRAME)
    }

    /// Looks at the gate; to be called whenever ACKs are held.
    pub fn observe(&mut self, config: &Config, gate: &Gate, now: Time) {
        let elapsed = now.since(self.since);
        let epoch = EPOCH.max(Span(4 * gate.mean_rtt.get()));
        if elapsed < epoch {
            return;
        }
        let bytes = gate.bytes.get();
        let arrived = bytes.wrapping_sub(self.bytes);
        self.recent += gate.lost.get().wrapping_sub(self.lost) - self.recent.div_ceil(8);
        let lost = self.recent >= OVERFLOW;
        (self.since, self.bytes, self.lost) = (now, bytes, gate.lost.get());
        // The scheduler looks at least every few epochs while anything is held: a longer gap means that nothing was. And
        // while connections are set up, or servers think, no budget would bring data.
        if elapsed > epoch * 4 || arrived == 0 {
            return;
        }
        let rate = (arrived << 20) / elapsed.0.max(1);
        let now_budget = gate.cap.get();
        let next = if lost {
            (self.recent, self.clean) = (0, 0);
            self.phase = Phase::Keep { epochs: 0 };
            // High enough for it to rise again, however many losses come in a row.
            self.ceiling = (now_budget - now_budget / 8).max(2 * LEAST);
            now_budget - now_budget / 4
        } else {
            self.step(rate, now_budget)
        };
        let top = if self.ceiling == 0 { top(config) } else { self.ceiling.min(top(config)) };
        self.clean += 1;
        if self.clean > CAUTION {
            self.ceiling += self.ceiling / 1024;
        }
        self.level = if self.level == 0 { rate } else { self.level - self.level / 4 + rate / 4 };
        self.best = (self.best - self.best / 512).max(self.level);
        gate.cap.set(next.min(top).max(LEAST.min(top)));
        gate.threshold.set(gate.threshold.get().min(gate.cap.get()));
    }

    /// The next budget after an epoch without loss.
    fn step(&mut self, rate: u64, budget: u64) -> u64 {
        match &mut self.phase {
            Phase::Start { flat, good } => {
                let more = rate > self.best + self.best / 32;
                (*flat, *good) = if more || *good == 0 { (0, budget) } else { (*flat + 1, *good) };
                if *flat < 3 {
                    return budget + budget / 4;
                }
                let good = *good;
                self.phase = Phase::Keep { epochs: 0 };
                good
            }
            Phase::Keep { epochs } => {
                *epochs += 1;
                if *epochs == PROBE_EVERY {
                    self.phase = Phase::Probe { epochs: 0, budget, level: self.level, sum: 0 };
                    budget + budget / 2
                } else if self.level < self.best * BUSY / 128 {
                    budget + budget / 8
                } else {
                    budget - budget / 128
                }
            }
            Phase::Probe { epochs, budget: before, level, sum } => {
                *epochs += 1;
                *sum += rate;
                if *epochs < PROBE_EPOCHS {
                    return budget;
                }
                let (before, gained) = (*before, *sum / u64::from(PROBE_EPOCHS) > *level + *level / 32);
                self.phase = if gained { Phase::Start { flat: 0, good: budget } } else { Phase::Keep { epochs: 0 } };
                if gained { budget } else { before }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link that carries `min(budget / rtt, rate)` while work is held. Returns the mean budget of the last half of the
    /// epochs, some of which are probes.
    fn search(config: &Config, rate: u64, rtt: Span, epochs: u32, mut each: impl FnMut(u32, &Gate)) -> u64 {
        let gate = Gate::new(config);
        let mut budget = Budget::default();
        let mut now = Time(1);
        budget.observe(config, &gate, now);
        let mut sum = 0;
        for epoch in 0..epochs {
            now += EPOCH;
            let carried = (gate.threshold.get() * EPOCH.0 / rtt.0).min(rate * EPOCH.0 / 1_000_000_000);
            gate.bytes.add(carried);
            each(epoch, &gate);
            budget.observe(config, &gate, now);
            gate.threshold.set(gate.cap.get());
            if epoch >= epochs / 2 {
                sum += gate.cap.get();
            }
        }
        sum / u64::from(epochs - epochs / 2)
    }

    fn auto(buffer: u64) -> Config {
        Config { auto: true, ..Config::credit(buffer) }
    }

    #[test]
    fn it_settles_where_the_link_is_just_busy() {
        // 1 Gb/s and 200 us: a bandwidth-delay product of 25 KB. 10 Gb/s and 100 us: 125 KB.
        for (rate, rtt, product) in
            [(125_000_000, Span::micros(200), 25_000), (1_250_000_000, Span::micros(100), 125_000)]
        {
            let found = search(&auto(1_000_000), rate, rtt, 500, |_, _| {});
            assert!((product * 9 / 10..product * 3 / 2).contains(&found), "{found} for {product}");
        }
    }

    #[test]
    fn losses_in_a_row_leave_the_least_budget_and_it_rises_again() {
        let (rate, rtt) = (125_000_000, Span::micros(200));
        let lossy = |epoch: u32, gate: &Gate| {
            if (100..400).contains(&epoch) {
                gate.lost.add(OVERFLOW);
                assert!(gate.cap.get() >= LEAST, "{} in epoch {epoch}", gate.cap.get());
            }
        };
        let found = search(&auto(1_000_000), rate, rtt, 400, lossy);
        assert!(found < 3 * LEAST, "{found} after many losses");
        // Ten seconds.
        let found = search(&auto(1_000_000), rate, rtt, 5_400, lossy);
        assert!(found > 22_000, "{found} long after the last loss");
    }

    #[test]
    fn a_given_buffer_is_the_cap() {
        let found = search(&auto(50_000), 1_250_000_000, Span::micros(100), 500, |_, gate| {
            assert!(gate.cap.get() <= 50_000);
        });
        assert!(found > 40_000, "and it is used when the link needs more");
    }

    #[test]
    fn loss_sets_a_ceiling() {
        let mut peak_after_loss = 0;
        search(&auto(1_000_000), 1_250_000_000, Span::micros(200), 100, |epoch, gate| {
            if gate.cap.get() > 60_000 && epoch < 50 {
                gate.lost.add(OVERFLOW);
            }
            if epoch >= 20 {
                peak_after_loss = peak_after_loss.max(gate.cap.get());
            }
        });
        assert!(peak_after_loss < 90_000, "{peak_after_loss}");
    }

    #[test]
    fn without_held_work_nothing_is_learned() {
        let config = auto(1_000_000);
        let gate = Gate::new(&config);
        let before = gate.cap.get();
        let mut budget = Budget::default();
        for second in 1..100 {
            budget.observe(&config, &gate, Time::ZERO + Span::secs(second));
        }
        assert_eq!(gate.cap.get(), before);
    }
}
