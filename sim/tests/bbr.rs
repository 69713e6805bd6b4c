//! BBR, and pacing.

mod common;

use ackgate_control::units::Time;
use ackgate_sim::observer::{Congestion, Observer};
use ackgate_sim::report::Report;
use ackgate_sim::scenario::Document;

/// Sending segments of so many bytes.
const MSS: u64 = 1_448;

/// Long flows alone, as today's senders begin them.
fn long(cc: &str, settings: &str) -> String {
    format!(
        r#"
scheme = "none"
senders = 1
network.sender_rate = "10gbit"
workload.kind = "long"
tcp.cc = "{cc}"
tcp.sack = true
tcp.rack = true
tcp.timestamps = true
tcp.initial_window = 10
{settings}
"#
    )
}

fn report(cc: &str, settings: &str) -> Report {
    common::report(&long(cc, settings))
}

#[test]
fn losses_by_chance_are_no_congestion_for_bbr() {
    let settings = r#"
network.rate = "100mbit"
network.rtt = "20ms"
switch.buffer = "1MB"
switch.loss = 0.01
time_limit = "6s"
"#;
    let [bbr, cubic] = ["bbr", "cubic"].map(|cc| report(cc, settings));
    assert!(bbr.goodput_mbps > 80.0, "{} Mb/s", bbr.goodput_mbps);
    assert!(cubic.goodput_mbps < 20.0, "{} Mb/s", cubic.goodput_mbps);
    // One recovery follows the other, and what is on its way again is not repaired once more. ACKs are lost, too.
    assert!(bbr.retransmits <= bbr.drops, "{} for {} losses", bbr.retransmits, bbr.drops);
}

#[test]
fn bbr_leaves_a_deep_buffer_nearly_empty() {
    let settings = r#"
network.rate = "100mbit"
network.rtt = "5ms"
switch.buffer = "1MB"
tcp.rwnd = "800KB"
warm_up = "1s"
time_limit = "3s"
"#;
    let [bbr, cubic] = ["bbr", "cubic"].map(|cc| report(cc, settings));
    assert!(bbr.goodput_mbps > 90.0 && cubic.goodput_mbps > 90.0);
    let [bbr, cubic] = [bbr, cubic].map(|report| report.queue_bytes.mean);
    assert!(bbr < 60_000.0, "{bbr} bytes");
    assert!(cubic > 300_000.0, "{cubic} bytes");
}

/// When the window went down to four segments.
#[derive(Default)]
struct Least {
    times: Vec<Time>,
    low: bool,
}

impl Observer for Least {
    fn congestion(&mut self, now: Time, _: u32, state: &Congestion) {
        let low = state.cwnd == 4 * MSS;
        if low && !self.low {
            self.times.push(now);
        }
        self.low = low;
    }
}

#[test]
fn bbr_looks_for_the_shortest_round_trip_when_it_has_seen_none_for_ten_seconds() {
    let text = long(
        "bbr",
        r#"
network.rate = "20mbit"
network.rtt = "10ms"
switch.buffer = "1MB"
time_limit = "33s"
"#,
    );
    let scenario = Document::parse("test", &text).and_then(|document| document.scenario()).expect(&text);
    let mut least = Least::default();
    ackgate_sim::run(&scenario, &mut least).expect("packets add up");
    let apart: Vec<u64> = least.times.windows(2).map(|pair| pair[1].since(pair[0]).0 / 1_000_000).collect();
    assert_eq!(least.times.len(), 3, "{:?}", least.times);
    // Ten seconds from its end, which is 200 ms and a round trip after it began.
    assert!(apart.iter().all(|ms| (10_200..10_400).contains(ms)), "{apart:?} ms");
}

#[test]
fn paced_senders_do_not_fill_the_queue_as_their_window_opens() {
    let settings = |pacing: bool| {
        format!(
            r#"
network.rate = "100mbit"
network.rtt = "50ms"
switch.buffer = "4MB"
time_limit = "350ms"
tcp.pacing = {pacing}
"#
        )
    };
    // Five round trips: ten segments have become 160. The half that is new comes at twice the rate of the link, or a hundred times.
    let [paced, at_once] = [true, false].map(|pacing| report("cubic", &settings(pacing)));
    assert_eq!((paced.drops, at_once.drops), (0, 0));
    let [paced, at_once] = [paced, at_once].map(|report| report.queue_bytes.max);
    assert!(paced * 3 < at_once, "{paced} and {at_once} bytes");
}
