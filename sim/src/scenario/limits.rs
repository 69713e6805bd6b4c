//! Between what bounds each key's value must lie: what checks refuse by, `ackgate sim keys` lists, and messages name.
//! What depends on other keys too is in [`super::check`].

use std::fmt;

use ackgate_control::units::{Rate, Span};

/// Connections of one run: more would not fit the ports of an address.
pub(super) const MAX_SENDERS: u64 = 100_000;
/// A buffer that no switch has, in bytes.
pub(super) const MAX_BUFFER: u64 = 64_000_000_000;

/// The values that a key may have, ends included unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Range {
    /// Whole numbers.
    Whole(u64, u64),
    /// Sizes in bytes.
    Bytes(u64, u64),
    Time(Span, Span),
    Rate(Rate, Rate),
    Number(f64, f64),
    /// Numbers above the first.
    Above(f64, f64),
    /// Numbers above the first and below the second.
    Inside(f64, f64),
    /// What is told in words: it depends on another key, or is no interval.
    Said(&'static str),
}

use Range::{Above, Bytes, Inside, Number, Said, Time, Whole};

const SENDERS: Range = Whole(1, MAX_SENDERS);
const RATE: Range = Range::Rate(Rate(1_000), Rate(10_000_000_000_000));
const SECOND: Range = Time(Span::ZERO, Span::secs(1));
const TIMEOUT: Range = Time(Span::micros(1), Span::secs(60));
const DAY: Range = Time(Span::ZERO, Span::secs(86_400));
const PERIOD: Range = Time(Span::micros(1), Span::secs(86_400));
const QUEUE: Range = Said("a full frame to 64GB, 1p up, or \"unlimited\"");
const WINDOW: Range = Whole(1, 10_000);
/// RFC 9293 §3.7.1 lets an MSS be anything; below this, options leave no payload. Above, IPv4's length overflows.
const MSS: Range = Whole(88, 65_495);
/// RFC 9293 §3.8.6.3: an ACK must not wait for half a second or longer.
const ACK_DELAY: Range = Time(Span::micros(1), Span::millis(500));

/// By dotted key; those of `group.0` stand for every group's, in the background or not.
const RANGES: &[(&str, Range)] = &[
    ("senders", SENDERS),
    ("rounds", Whole(1, 1_000_000)),
    ("time_limit", Time(Span::micros(1), Span::secs(1_000_000))),
    ("warm_up", Time(Span::ZERO, Span::secs(1_000_000))),
    ("network.topology.receivers", SENDERS),
    ("network.topology.leaves", Whole(2, 1_024)),
    ("network.topology.spines", Whole(1, 1_024)),
    ("network.rate", RATE),
    ("network.sender_rate", RATE),
    ("network.core_rate", RATE),
    ("network.rtt", Time(Span::ZERO, Span::secs(10))),
    ("network.sender_hosts", SENDERS),
    ("network.reorder", Number(0.0, 1.0)),
    ("network.detour", SECOND),
    ("switch.buffer", QUEUE),
    ("switch.pool", Said("a full frame to 64GB")),
    ("switch.alpha", Above(0.0, 64.0)),
    ("switch.loss", Number(0.0, 1.0)),
    ("switch.discipline.min", Number(0.0, 1e9)),
    ("switch.discipline.max", Number(0.0, 1e9)),
    ("switch.discipline.max_probability", Above(0.0, 1.0)),
    ("switch.discipline.weight", Above(0.0, 1.0)),
    ("host.delay", SECOND),
    ("host.jitter", SECOND),
    ("host.timer_jitter", SECOND),
    ("host.rtt_spread", SECOND),
    ("host.nic_queue", QUEUE),
    // Linux: 64 KiB, or 17 fragments of 32 KiB.
    ("host.tso", Whole(1, 400)),
    ("host.burst_time", SECOND),
    ("tcp.mss", MSS),
    ("tcp.initial_window", WINDOW),
    ("tcp.initial_ssthresh", Whole(1, 1_000_000)),
    ("tcp.max_window", Whole(1, 1_000_000)),
    ("tcp.rto_min", TIMEOUT),
    ("tcp.rto_initial", TIMEOUT),
    ("tcp.rto_granularity", SECOND),
    ("tcp.rto_variance_floor", SECOND),
    ("tcp.rto_coarse_from", TIMEOUT),
    ("tcp.rto_coarse_min", TIMEOUT),
    ("tcp.rto_backoff_max", Said("a power of two from 1 to 65536")),
    ("tcp.rto_randomize", Number(0.0, 10.0)),
    ("tcp.delayed_ack", ACK_DELAY),
    ("tcp.probe_ack_delay", Time(Span::ZERO, Span::secs(60))),
    ("tcp.timestamp_clock", Time(Span::micros(1), Span::secs(1))),
    ("tcp.ecn_min_window", Whole(1, 2)),
    ("tcp.dctcp_gain", Above(0.0, 1.0)),
    ("tcp.dctcp_min_window", Whole(1, 1_000)),
    ("tcp.rwnd", Said("one MSS to what its scale expresses, 1GiB at most")),
    ("tcp.wscale", Whole(0, 14)),
    ("workload.volume", Said("1B for each sender up; 100TB in all rounds")),
    ("workload.request", Bytes(1, 1_000_000)),
    ("workload.answers", Whole(1, 1_000_000)),
    ("workload.outstanding", Whole(1, 1_000)),
    ("workload.start_jitter", DAY),
    ("workload.pause", DAY),
    ("workload.start", DAY),
    ("workload.stagger", DAY),
    ("workload.stop", Time(Span::micros(1), Span::secs(86_400))),
    ("workload.stop_stagger", DAY),
    ("workload.rate", RATE),
    ("workload.epochs", Whole(1, 1_000_000)),
    ("workload.interval", PERIOD),
    ("workload.size", Bytes(1, 1_000_000_000_000)),
    ("workload.mean_gap", DAY),
    ("workload.on", PERIOD),
    ("workload.off", PERIOD),
    ("workload.payload", Said("1B to what fits a frame of tcp.mss")),
    ("workload.burst", Whole(1, 10_000)),
    ("group.0.senders", SENDERS),
    ("group.0.rtt", Time(Span::ZERO, Span::secs(10))),
    ("group.0.jitter", SECOND),
    ("group.0.rate", RATE),
    ("group.0.mss", MSS),
    ("group.0.initial_window", WINDOW),
    ("group.0.rto_min", TIMEOUT),
    ("group.0.delayed_ack", ACK_DELAY),
    ("change.0.at", DAY),
    ("change.0.rate", RATE),
    ("change.0.buffer", QUEUE),
    ("change.0.rtt", Time(Span::micros(1), Span::secs(10))),
    ("pac.threshold", Said("two full frames to 4GiB")),
    ("pac.lambda", Inside(0.0, 1.0)),
    ("pac.levels", Whole(1, 8)),
    ("pac.demote_at", Bytes(1, 1_000_000_000_000)),
    ("pac.rate", RATE),
    ("pac.max_hold", Time(Span::micros(100), Span::secs(10))),
    ("pac.initial_window", Whole(1, 1_000)),
    ("ictcp.rate", Said("1mbit up")),
    ("ictcp.headroom", Above(0.0, 1.0)),
    ("ictcp.history", Said("0, below 1")),
    ("ictcp.gamma1", Said("0, below gamma2")),
    ("ictcp.gamma2", Said("above gamma1, below 1")),
    ("ictcp.min_window", Whole(1, 1_000)),
    ("ictcp.fairness", Number(0.0, 1.0)),
    ("ictcp.idle", Said("1ms up")),
    ("hwatch.probes", Whole(1, 100)),
    ("hwatch.probe_span", Time(Span::ZERO, Span::millis(100))),
    ("hwatch.rate", Said("1mbit up")),
    ("hwatch.drain", SECOND),
    ("hwatch.spread", SECOND),
    ("hwatch.max_hold", Time(Span::ZERO, Span::millis(500))),
    ("hwatch.min_window", Whole(1, 100)),
    ("shaper.rate", Said("1 up")),
    ("shaper.queue", Said("0 to `rate`")),
    ("m21.buffer", Said("more than one header")),
    ("m21.expiry", PERIOD),
    ("m21.flows", Whole(1, 10_000_000)),
    ("red.min", Number(0.0, 1e9)),
    ("red.max", Number(0.0, 1e9)),
    ("red.max_probability", Above(0.0, 1.0)),
    ("red.weight", Above(0.0, 1.0)),
    ("fixed_window.segments", WINDOW),
];

/// The range of a key, if it has one.
pub(super) fn of(key: &str) -> Option<Range> {
    let named = |wanted: &str| RANGES.iter().find(|(key, _)| *key == wanted).map(|(_, range)| *range);
    let entry = |list: &str| key.strip_prefix(list).and_then(|rest| rest.split_once('.')).map(|(_, part)| part);
    // A group's workload takes what the main one takes, a switch's links what all links take, a change what the first takes.
    match (entry("background.").or(entry("group.")), entry("network.topology.switches.")) {
        (Some(part), _) if part.starts_with("workload.") => named(part),
        (Some(part), _) => named(&format!("group.0.{part}")),
        (_, Some(part)) => named(&format!("network.{part}")),
        _ => match entry("change.") {
            Some(part) => named(&format!("change.0.{part}")),
            None => named(key),
        },
    }
}

impl Range {
    /// What a whole number of this range is called in a message.
    pub(super) fn whole_number(self) -> String {
        match self {
            Whole(..) => format!("a whole number from {self}"),
            _ => format!("a whole number, {self}"),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Whole(low, high) => write!(f, "{low} to {high}"),
            Bytes(low, high) => write!(f, "{} to {}", scaled(low, &SIZES), scaled(high, &SIZES)),
            Time(low, high) if low == Span::ZERO => write!(f, "0 to {high}"),
            Time(low, high) => write!(f, "{low} to {high}"),
            Range::Rate(low, high) => write!(f, "{} to {}", scaled(low.0, &BITS), scaled(high.0, &BITS)),
            Number(low, high) => write!(f, "{low} to {high}"),
            Above(low, high) => write!(f, "above {low}, to {high}"),
            Inside(low, high) => write!(f, "above {low}, below {high}"),
            Said(words) => f.write_str(words),
        }
    }
}

const SIZES: [(u64, &str); 4] = [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1, "B")];
const BITS: [(u64, &str); 4] = [(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1_000, "kbit"), (1, "bit")];

/// A whole number of the largest unit in which it is one.
fn scaled(value: u64, units: &[(u64, &str)]) -> String {
    let found = units.iter().find(|(worth, _)| value >= *worth && value.is_multiple_of(*worth));
    found.map_or_else(|| value.to_string(), |(worth, unit)| format!("{}{unit}", value / worth))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::schema;

    #[test]
    fn every_range_is_of_a_key_and_every_quantity_has_one() {
        let keys = schema::keys();
        for (key, _) in RANGES {
            assert!(keys.iter().any(|known| known.path == *key), "{key} is no key");
        }
        // These take whatever they can hold.
        let any = ["seed", "switch.discipline.mark_above", "dctcp.mark_above", "m21.header"];
        for key in keys {
            let quantity =
                ["a whole", "a number", "a time", "a size", "a rate"].iter().any(|kind| key.takes.starts_with(kind));
            if quantity && !any.contains(&key.path.as_str()) {
                assert!(of(&key.path).is_some(), "{} has no range", key.path);
            }
        }
    }

    #[test]
    fn ranges_read_well() {
        let said = |key: &str| of(key).map(|range| range.to_string()).unwrap_or_default();
        assert_eq!(said("senders"), "1 to 100000");
        assert_eq!(said("network.rate"), "1kbit to 10000gbit");
        assert_eq!(said("background.3.workload.rate"), "1kbit to 10000gbit");
        assert_eq!(said("network.topology.switches.2.rate"), "1kbit to 10000gbit");
        assert_eq!(said("workload.request"), "1B to 1MB");
        assert_eq!(said("tcp.rto_min"), "1us to 60s");
        assert_eq!(said("host.jitter"), "0 to 1s");
        assert_eq!(said("pac.lambda"), "above 0, below 1");
    }
}
