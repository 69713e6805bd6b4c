//! The switch's part of M21TCP-A: how many flows traverse an interface (§IV.1).
//!
//! Time is cut into periods of the expiry's length. A flow counts if it was seen in this period or in the one before,
//! so it is forgotten after one to two expiries of silence, and no packet costs more than one look-up.

use alloc::collections::BTreeMap;

use crate::units::{Span, Time};

/// What a [`FlowCounter`] remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Silence after which a flow no longer counts; `None` for the paper's list, which only grows.
    pub expiry: Option<Span>,
    /// Flows remembered at once; further ones are not counted.
    pub flows: u32,
}

impl Default for Config {
    /// 1 s: above the silence of a sender that waits for its RTOmin of 200 ms and a back-off or two. A flow forgotten
    /// in a stall would find the count starting again from one, just when all return.
    fn default() -> Self {
        Self { expiry: Some(Span::secs(1)), flows: 65_536 }
    }
}

/// Counts the flows of one interface, one direction. `K` is the 5-tuple, or what stands for it.
#[derive(Debug)]
pub struct FlowCounter<K> {
    config: Config,
    /// Period in which each flow was last seen.
    seen: BTreeMap<K, u64>,
    period: u64,
    /// Flows last seen in this period, and in the one before.
    current: u32,
    previous: u32,
}

impl<K: Ord> FlowCounter<K> {
    /// Counts nothing yet.
    #[must_use]
    pub const fn new(config: Config) -> Self {
        Self { config, seen: BTreeMap::new(), period: 0, current: 0, previous: 0 }
    }

    /// A packet of `flow` traverses the interface; `last` when it carries FIN or RST. Returns N, this flow included.
    pub fn handle_packet(&mut self, now: Time, flow: K, last: bool) -> u32 {
        self.roll(now);
        let full = self.seen.len() >= self.config.flows as usize;
        match self.seen.get_mut(&flow) {
            Some(period) => {
                if *period != self.period {
                    self.previous -= u32::from(*period + 1 == self.period);
                    self.current += 1;
                    *period = self.period;
                }
            }
            None if full => return self.count().max(1),
            None => {
                self.seen.insert(flow, self.period);
                self.current += 1;
                return self.count();
            }
        }
        let count = self.count();
        if last && self.config.expiry.is_some() && self.seen.remove(&flow).is_some() {
            self.current -= 1;
        }
        count
    }

    /// N as of the last packet.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.current + self.previous
    }

    fn roll(&mut self, now: Time) {
        let Some(expiry) = self.config.expiry else { return };
        let period = now.0 / expiry.0.max(1);
        if period == self.period {
            return;
        }
        self.previous = if period == self.period + 1 { self.current } else { 0 };
        self.current = 0;
        self.period = period;
        self.seen.retain(|_, seen| *seen + 1 >= period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expiring() -> Config {
        Config { expiry: Some(Span::millis(10)), flows: 100 }
    }

    #[test]
    fn each_flow_counts_once() {
        let mut counter = FlowCounter::new(Config::default());
        let counts = [7, 8, 7, 9, 8].map(|flow| counter.handle_packet(Time(5), flow, false));
        assert_eq!(counts, [1, 2, 2, 3, 3]);
    }

    #[test]
    fn silent_flows_are_forgotten_unless_the_list_only_grows() {
        let mut expires = FlowCounter::new(expiring());
        let mut grows = FlowCounter::new(Config { expiry: None, ..expiring() });
        for flow in 0..50 {
            expires.handle_packet(Time(1), flow, false);
            grows.handle_packet(Time(1), flow, false);
        }
        let later = Time(1) + Span::millis(10);
        assert_eq!(expires.handle_packet(later, 0, false), 50, "within two periods all count");
        let later = later + Span::millis(10);
        assert_eq!(expires.handle_packet(later, 1, false), 2, "the one of the period before, and this one");
        assert_eq!(grows.handle_packet(later, 1, false), 50);
        assert_eq!(expires.handle_packet(later + Span::secs(1), 2, false), 1);
    }

    #[test]
    fn a_flow_that_ended_no_longer_counts() {
        let mut counter = FlowCounter::new(expiring());
        counter.handle_packet(Time(1), 1, false);
        assert_eq!(counter.handle_packet(Time(2), 2, false), 2);
        assert_eq!(counter.handle_packet(Time(3), 1, true), 2, "its last packet is still told all");
        assert_eq!(counter.handle_packet(Time(4), 2, false), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let mut counter = FlowCounter::new(Config { flows: 10, ..expiring() });
        let last = (0..1_000).map(|flow| counter.handle_packet(Time(1), flow, false)).last();
        assert_eq!((last, counter.seen.len()), (Some(10), 10));
    }

    proptest! {
        #[test]
        fn the_count_is_that_of_the_flows_seen_in_two_periods(
            packets in proptest::collection::vec((0u32..20, 0u64..6_000_000, proptest::bool::weighted(0.1)), 1..300)
        ) {
            let mut counter = FlowCounter::new(expiring());
            let mut seen: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = Time::ZERO;
            for (flow, gap, last) in packets {
                now += Span(gap);
                let period = now.0 / 10_000_000;
                let known = seen.insert(flow, period);
                let expected = seen.values().filter(|&&at| at + 1 >= period).count();
                prop_assert_eq!(counter.handle_packet(now, flow, last) as usize, expected);
                if last && known.is_some_and(|at| at + 1 >= period) {
                    seen.remove(&flow);
                }
            }
        }
    }
}
