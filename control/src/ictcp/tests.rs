//! ICTCP by its rules, on a gigabit interface with an RTT of 100 us.

use alloc::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const MSS: u32 = 1460;
const RTT: Span = Span::micros(100);

struct Host {
    ictcp: Ictcp,
    rtt: Span,
    now: Time,
    received: Vec<u32>,
}

impl Host {
    fn new(config: Config) -> Self {
        Self { ictcp: Ictcp::new(config).unwrap(), rtt: RTT, now: Time(1_000), received: Vec::new() }
    }

    /// Connection number `flow`, opened by the sender.
    fn connect(&mut self, flow: u32) {
        let syn = Segment { flags: Flags::SYN, mss: 1460, window: 60_000, frames: 1, ..Segment::default() };
        let id = FlowId(flow);
        self.ictcp.handle_ingress(self.now, id, &syn);
        let answer = Segment { flags: Flags::SYN | Flags::ACK, ack: SeqNumber(1), ..syn };
        self.ictcp.handle_egress(self.now, id, &answer, PacketId(0));
        self.now += self.rtt;
        self.ictcp.handle_ingress(self.now, id, &Segment { flags: Flags::ACK, mss: 0, ..syn });
        self.received.resize(flow as usize + 1, 1);
    }

    /// `bytes` of the connection's data arrive; returns the window field of the ACK.
    fn data(&mut self, flow: u32, bytes: u32) -> u16 {
        let id = FlowId(flow);
        let next = &mut self.received[flow as usize];
        let segment = Segment {
            seq: SeqNumber(*next),
            payload: bytes,
            flags: Flags::ACK,
            frames: bytes.div_ceil(MSS) as u16,
            header: 66,
            ..Segment::default()
        };
        *next = next.wrapping_add(bytes);
        let ack = Segment {
            ack: SeqNumber(*next),
            flags: Flags::ACK,
            window: 60_000,
            frames: 1,
            header: 66,
            ..Segment::default()
        };
        self.ictcp.handle_ingress(self.now, id, &segment);
        match self.ictcp.handle_egress(self.now, id, &ack, PacketId(0)) {
            Verdict::Pass(edit) => edit.window.unwrap_or(ack.window),
            Verdict::Hold | Verdict::Split(_) | Verdict::Discard => unreachable!("ICTCP holds nothing"),
        }
    }

    fn window(&self, flow: u32) -> u32 {
        self.ictcp.window(FlowId(flow)).unwrap()
    }

    /// `rounds` round trips in which each connection's sender fills its window, or `share` thousandths of it.
    fn run(&mut self, rounds: u32, share: u32) {
        for _ in 0..rounds {
            self.now += self.rtt;
            for flow in 0..self.received.len() as u32 {
                let bytes = self.window(flow) / 1000 * share;
                self.data(flow, bytes.max(1));
            }
        }
    }
}

fn gigabit() -> Config {
    Config::new(Rate(1_000_000_000))
}

#[test]
fn a_new_connection_starts_at_two_segments_and_doubles_while_there_is_bandwidth() {
    let mut host = Host::new(gigabit());
    host.connect(0);
    assert_eq!(host.window(0), 2 * MSS);
    let mut largest_step = 0;
    let mut before = host.window(0);
    for _ in 0..12 {
        host.run(1, 1000);
        largest_step = largest_step.max(host.window(0) - before);
        before = host.window(0);
    }
    assert!(before >= 4 * MSS, "{before}");
    assert!(largest_step > MSS, "slow start grows by more than one segment");
}

#[test]
fn windows_stop_growing_at_the_usable_share_of_the_link() {
    let mut host = Host::new(gigabit());
    host.connect(0);
    host.run(500, 1000);
    let used = u64::from(host.window(0)) * 1514 / 1460;
    let full = Rate(1_000_000_000).bytes_in(RTT);
    assert!(used <= full, "{used} of {full} bytes per round trip");
    assert!(used * 100 >= full * 75, "{used} of {full} bytes per round trip");
}

#[test]
fn a_connection_alone_is_never_above_the_mean() {
    // 1 ms, where a segment more or less is a hundredth of the link: growth ends near 0.9 C, not where BW_A < 0.2 C.
    let mut host = Host { rtt: Span::millis(1), ..Host::new(gigabit()) };
    host.connect(0);
    host.run(3000, 1000);
    let full = Rate(1_000_000_000).bytes_in(host.rtt);
    let used = u64::from(host.window(0)) * 1514 / 1460;
    assert!((85..=92).contains(&(used * 100 / full)), "{used} of {full} bytes per round trip");
}

#[test]
fn a_connection_counts_once_in_the_mean_however_often_it_is_controlled() {
    let mut slot = Slot::default();
    let [mut large, mut small] = [Flow::default(); 2];
    for segments in 2..6 {
        large.window = segments * MSS;
        assert!(!slot.is_above_mean(&mut large), "it is alone");
    }
    small.window = 2 * MSS;
    assert!(!slot.is_above_mean(&mut small));
    assert!(slot.is_above_mean(&mut large));
}

#[test]
fn many_connections_stay_at_the_least_window() {
    // PAC §V-A: 2 segments each is what limits ICTCP to (B + C x RTT) / 3 KB connections.
    let mut host = Host::new(gigabit());
    for flow in 0..20 {
        host.connect(flow);
    }
    host.run(50, 1000);
    assert!((0..20).all(|flow| host.window(flow) == 2 * MSS));
}

#[test]
fn a_window_that_is_not_used_shrinks_by_one_segment_at_a_time_but_not_below_two() {
    let mut host = Host::new(gigabit());
    host.connect(0);
    host.run(30, 1000);
    let grown = host.window(0);
    assert!(grown > 4 * MSS);
    let mut before = grown;
    for _ in 0..400 {
        host.run(1, 100);
        assert!(before - host.window(0) <= MSS);
        before = host.window(0);
    }
    assert_eq!(before, 2 * MSS);
}

impl Host {
    /// `bytes` of connection 0 arrive, the segment echoes `echo`; the ACK leaves with this TSval.
    fn stamped(&mut self, bytes: u32, echo: u32, tsval: u32) {
        let segment = Segment {
            seq: SeqNumber(self.received[0]),
            payload: bytes,
            flags: Flags::ACK,
            frames: bytes.div_ceil(MSS) as u16,
            timestamps: Some((1, echo)),
            ..Segment::default()
        };
        self.received[0] += bytes;
        let ack = SeqNumber(self.received[0]);
        self.ictcp.handle_ingress(self.now, FlowId(0), &segment);
        let timestamps = Some((tsval, 1));
        let ack = Segment { ack, window: 60_000, payload: 0, frames: 1, timestamps, ..segment };
        self.ictcp.handle_egress(self.now, FlowId(0), &ack, PacketId(0));
    }
}

#[test]
fn an_rtt_is_not_measured_by_a_timestamp_that_has_been_used_before() {
    // The clock ticks every millisecond, an ACK leaves every 300 us, and each is answered after 2.1 ms, the handshake after 1.5.
    let mut host = Host { rtt: Span::micros(1500), ..Host::new(gigabit()) };
    host.connect(0);
    let mut echoes = VecDeque::from([0; 7]);
    for _ in 0..500 {
        host.now += Span::micros(300);
        let (echo, clock) = (echoes.pop_front().unwrap(), (host.now.0 / 1_000_000) as u32);
        echoes.push_back(clock);
        host.stamped(1, echo, clock);
    }
    let rtt = host.ictcp.flows[0].rtt;
    assert!(rtt.abs_diff(2_100_000) < 1_000, "{rtt} ns");
}

#[test]
fn with_timestamps_an_rtt_is_the_mean_and_not_the_least() {
    let mut host = Host::new(gigabit());
    host.connect(0);
    for stamp in 1..100 {
        host.now += Span::millis(if stamp % 2 == 0 { 1 } else { 3 });
        host.stamped(host.window(0), stamp - 1, stamp);
    }
    let rtt = host.ictcp.flows[0].rtt;
    assert!((1_500_000..2_500_000).contains(&rtt), "{rtt} ns");
}

#[test]
fn what_was_granted_is_not_taken_back() {
    let mut host = Host::new(gigabit());
    host.connect(0);
    host.run(30, 1000);
    let mut edge = 0;
    for _ in 0..100 {
        host.now += RTT;
        let window = u32::from(host.data(0, 200));
        assert!(host.received[0] + window >= edge);
        edge = host.received[0] + window;
    }
}

#[test]
fn an_idle_connection_starts_anew() {
    let mut host = Host::new(gigabit());
    host.connect(0);
    host.run(30, 1000);
    assert!(host.window(0) > 2 * MSS);
    host.now += Span::millis(200);
    host.data(0, 100);
    assert_eq!(host.window(0), 2 * MSS);
}

#[test]
fn nonsense_is_refused() {
    for config in [
        Config { rate: Rate(0), ..gigabit() },
        Config { gamma1_permille: 500, ..gigabit() },
        Config { gamma2_permille: 1000, ..gigabit() },
        Config { min_window: 0, ..gigabit() },
        Config { history_permille: 1000, ..gigabit() },
    ] {
        assert!(Ictcp::new(config).is_err(), "{config:?}");
    }
}

proptest! {
    /// Whatever arrives: windows stay at or above the least, and nothing panics.
    #[test]
    fn windows_never_fall_below_the_least(
        steps in proptest::collection::vec((0u32..4, 1u32..100_000, 0u64..2_000_000), 1..300)
    ) {
        let mut host = Host::new(gigabit());
        for flow in 0..4 {
            host.connect(flow);
        }
        for (flow, bytes, wait) in steps {
            host.now += Span(wait);
            host.data(flow, bytes);
            prop_assert!((0..4).all(|flow| host.window(flow) >= 2 * MSS));
        }
    }

    /// The growth that one slot admits is bounded by what was available, in bytes per second.
    #[test]
    fn growth_keeps_to_the_quota(flows in 1u32..16, rounds in 1u32..60) {
        let mut host = Host::new(gigabit());
        for flow in 0..flows {
            host.connect(flow);
        }
        for _ in 0..rounds {
            let before: u64 = (0..flows).map(|flow| u64::from(host.window(flow))).sum();
            host.run(1, 1000);
            let after: u64 = (0..flows).map(|flow| u64::from(host.window(flow))).sum();
            // A round trip is at most one second half, and RTTs are at least the base RTT.
            prop_assert!(after <= before + Rate(900_000_000).bytes_in(RTT), "{before} -> {after}");
        }
    }
}
