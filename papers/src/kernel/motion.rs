//! Slow motion: a network whose rates are divided by a factor and whose times are multiplied by it does the same, slower. So
//! one machine stands for a network that it could not carry, and the figures are told as if it had not been slowed.

use ackgate_control::units::{Rate, Span};
use ackgate_sim::scenario::{Group, Scenario, Workload};

use crate::headlines::figures::Row;

/// A kernel's timeout before it has measured a round-trip time (RFC 6298 §2.1); nothing sets it.
const RTO_INITIAL: Span = Span::secs(1);
/// How long a kernel's receiver delays an ACK.
const DELAYED_ACK: Span = Span::millis(40);
/// A tick of a kernel built with HZ 250.
const TICK: Span = Span::millis(4);
/// The longest hold of PAC where a scenario says none.
const PAC_HOLD: Span = Span::millis(150);
/// What the senders of a lab send together at most, in bits per second: they share one machine (`bench/lab-bursts`).
const CARRIED: Rate = Rate(1_400_000_000);

/// How much slower than the paper's network, at least 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Motion(f64);

impl Motion {
    /// From the rate of the paper's link to the one that is measured, both in bits per second. Never faster.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "rates are below 2^53")]
    pub fn between(paper: u64, here: u64) -> Self {
        Self((paper as f64 / here.max(1) as f64).max(1.0))
    }

    /// The factor.
    #[must_use]
    pub const fn factor(self) -> f64 {
        self.0
    }

    fn time(self, span: &mut Span) {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "seconds"
        )]
        let slowed = (span.0 as f64 * self.0) as u64;
        *span = Span(slowed);
    }

    fn rate(self, rate: &mut Rate) {
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "bits per second"
        )]
        let slowed = (rate.0 as f64 / self.0) as u64;
        *rate = Rate(slowed);
    }

    /// The scenario as the lab has it: slowed, but for what belongs to the machine (what its senders carry together,
    /// random delays, the clock's ticks, delayed ACKs, the timeout before the first sample), and with rounds that the receiver begins.
    #[must_use]
    pub fn slow(self, mut scenario: Scenario) -> Scenario {
        self.rate(&mut scenario.network.rate);
        scenario.network.core_rate.iter_mut().for_each(|rate| self.rate(rate));
        (scenario.network.sender_hosts, scenario.network.sender_rate) = (Some(1), Some(CARRIED));
        self.time(&mut scenario.network.rtt);
        let tcp = &mut scenario.tcp;
        self.time(&mut tcp.rto_min);
        self.time(&mut tcp.rto_variance_floor);
        if let Some(delay) = &mut tcp.delayed_ack {
            (*delay, tcp.quickack) = (DELAYED_ACK, true);
        }
        tcp.rto_initial = RTO_INITIAL;
        tcp.rto_granularity = TICK;
        self.time(scenario.pac.max_hold.get_or_insert(PAC_HOLD));
        for time in [&mut scenario.hwatch.probe_span, &mut scenario.hwatch.drain, &mut scenario.hwatch.spread] {
            time.iter_mut().for_each(|time| self.time(time));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "smaller than it was")]
        let acks = (f64::from(scenario.shaper.rate) / self.0) as u32;
        scenario.shaper.rate = acks;
        self.workload(&mut scenario.workload);
        for Group { workload, .. } in scenario.group.iter_mut().chain(&mut scenario.background) {
            workload.iter_mut().for_each(|workload| self.workload(workload));
        }
        scenario
    }

    fn workload(self, workload: &mut Workload) {
        match workload {
            Workload::Long(long) => long.rate.iter_mut().for_each(|rate| self.rate(rate)),
            Workload::Epochs(epochs) => {
                for time in [&mut epochs.start, &mut epochs.interval, &mut epochs.mean_gap] {
                    self.time(time);
                }
            }
            // Who begins is as in the paper, and so is the volume.
            Workload::Rounds(_) | Workload::OnOff(_) | Workload::Datagrams(_) | Workload::Trace(_) => {}
        }
    }

    /// What was measured, as it would have been at the paper's rate: by their names, rates grow and times shrink.
    #[must_use]
    pub fn restore(self, row: Row) -> Row {
        let restored = |(name, value): (String, f64)| {
            let value = match name.split('_').find(|part| matches!(*part, "mbps" | "us" | "ms")) {
                Some("mbps") => value * self.0,
                Some(_) => value / self.0,
                None => value,
            };
            (name, value)
        };
        row.into_iter().map(restored).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackgate_sim::observer::Until;

    const FIVE: Motion = Motion(5.0);

    #[test]
    fn a_gigabit_at_a_fifth() {
        let mut scenario = Scenario::default();
        scenario.tcp.rto_min = Span::millis(200);
        let slow = Motion::between(1_000_000_000, 200_000_000).slow(scenario.clone());
        assert_eq!((slow.network.rate, slow.network.rtt), (Rate(200_000_000), Span::micros(600)));
        assert_eq!((slow.tcp.rto_min, slow.pac.max_hold), (Span::secs(1), Some(Span::millis(750))));
        assert_eq!(slow.shaper.rate, 12_000);
        assert_eq!(slow.switch, scenario.switch, "what a port holds is no time");
        assert_eq!(Motion::between(1_000_000_000, 10_000_000_000).factor(), 1.0, "nothing is faster than the paper");
    }

    #[test]
    fn figures_come_back_by_their_units() {
        let row =
            [("goodput_mbps", 180.0), ("rtt_us_p99", 5_000.0), ("round_ms_mean", 10.0), ("rounds_under_10ms", 3.0)];
        let row = FIVE.restore(row.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect());
        let got: Vec<f64> = row.values().copied().collect();
        assert_eq!(got, [900.0, 2.0, 3.0, 1_000.0], "{row:?}");
    }

    #[test]
    fn both_slowed_and_not_the_simulator_gives_the_same() {
        // Without what belongs to the machine, slow motion changes nothing but the clock.
        let mut scenario = Scenario { senders: 40, rounds: 3, ..Scenario::default() };
        scenario.tcp.rto_granularity = Span::ZERO;
        let mut slow = FIVE.slow(scenario.clone());
        if let Workload::Rounds(rounds) = &mut scenario.workload {
            rounds.start_jitter = Span::ZERO;
        }
        if let Workload::Rounds(rounds) = &mut slow.workload {
            rounds.start_jitter = Span::ZERO;
        }
        (slow.tcp.rto_granularity, slow.tcp.rto_initial) = (Span::ZERO, Span::secs(5));
        (slow.network.sender_hosts, slow.network.sender_rate) = (None, None);
        let never = std::sync::atomic::AtomicBool::new(false);
        let run = |scenario: &Scenario| {
            ackgate_sim::run(scenario, &mut Until(&never)).unwrap_or_else(|error| panic!("{error}"))
        };
        let (fast, slow) = (run(&scenario), run(&slow));
        assert_eq!((fast.drops, fast.rto_timeouts), (slow.drops, slow.rto_timeouts));
        assert!(
            (fast.goodput_mbps / slow.goodput_mbps - 5.0).abs() < 0.01,
            "{} {}",
            fast.goodput_mbps,
            slow.goodput_mbps
        );
    }
}
