//! How the length of a path shows: by handshakes, by timestamps, and by senders that had used up their windows.

use super::paths::guard;
use super::*;

/// In samples: the path has shown to be longer than its handshake was.
const LONGER: u32 = 1 << 9;

impl Host {
    fn least_rtt(&self, flow: u32) -> u64 {
        u64::from(self.shim.state.flows[flow as usize].least_rtt.get())
    }

    /// The guarded host begins to open a connection.
    pub(super) fn begin(&mut self, flow: u32) {
        let wscale = Some(7);
        self.send(flow, Segment { flags: Flags::SYN, mss: 1460, wscale, timestamps: Some((1, 0)), ..blank() });
    }

    /// The peer accepts it.
    fn accept(&mut self, flow: u32) {
        let wscale = Some(7);
        self.receive(flow, Segment { flags: Flags::SYN | Flags::ACK, ack: SeqNumber(1), mss: 1460, wscale, ..blank() });
    }

    /// A connection to a peer at that round-trip time.
    pub(super) fn reach(&mut self, flow: u32, rtt: Span) {
        self.begin(flow);
        self.now += rtt;
        self.accept(flow);
    }
}

/// How long the path of flow 0 seems to be, us, whose sender had used up its window and answers after `rtt`, while so many take turns
/// and flow 1 owes all of the budget: 528 us on the link without what has arrived.
fn seems(host: &mut Host, active: u64, rtt: Span) -> u64 {
    host.shim.state.gate.active.set(active);
    host.shim.state.gate.peak_active.set(active);
    host.shim.state.gate.looked_back.set(host.now.0);
    host.fill(1);
    host.shim.state.flows[0].let_go.set((host.now.0 >> 10) as u32 | 1);
    host.now += rtt;
    host.data(0, 1, MSS);
    host.least_rtt(0) / 1_000
}

#[test]
fn what_is_on_its_way_is_not_taken_for_a_queue() {
    for (active, answered, length) in
        [(16, 700, 500), (80, 700, 500), (16, 1_200, 672), (16, 300, 300), (1_000, 700, 500)]
    {
        let mut host = guard();
        for flow in 0..2 {
            host.reach(flow, Span::micros(500));
            host.ack(flow, 1);
        }
        let seems = seems(&mut host, active, Span::micros(answered));
        assert!(seems.abs_diff(length) < 5, "{seems} us for {answered} among {active}");
    }
}

#[test]
fn what_is_on_its_way_is_no_less_than_handshakes_have_shown() {
    // Its own handshake, us, and that of a flow nearby; a connection that is older than the guard may have none.
    for (own, length) in [(500, 500), (0, 172)] {
        let mut host = guard();
        for (flow, rtt) in [(0, 500), (1, 500), (2, 100)] {
            host.reach(flow, Span::micros(rtt));
            host.ack(flow, 1);
        }
        host.shim.state.flows[0].handshake_rtt.set(own * 1_000);
        let seems = seems(&mut host, 16, Span::micros(700));
        assert!(seems.abs_diff(length) < 5, "{seems} us, handshake {own} us");
    }
}

#[test]
fn windows_that_senders_have_kept_do_not_make_a_long_path_short() {
    let mut host = guard();
    host.reach(0, Span::millis(20));
    host.reach(1, Span::micros(100));
    for flow in 0..2 {
        host.ack(flow, 1);
    }
    // What flow 1 may send of before the guard came would take 80 ms on the link.
    host.shim.state.flows[1].owed.add(10_000_000);
    host.shim.state.gate.owed.add(10_000_000);
    let seems = seems(&mut host, 64, Span::millis(21));
    assert!((19_990..=21_000).contains(&seems), "{seems} us");
}

#[test]
fn a_shortest_path_of_long_ago_does_not_count() {
    let mut host = guard();
    host.reach(0, Span::micros(100));
    for flow in 1..6 {
        host.now += Span::secs(5);
        host.reach(flow, Span::micros(500));
    }
    let least = host.shim.gate().least_handshake.get() / 1_000;
    assert!(least.abs_diff(500) < 5, "{least} us");
}

#[test]
fn handshakes_that_came_together_do_not_make_paths_longer_one_by_one() {
    let mut host = guard();
    for flow in 0..400 {
        host.begin(flow);
    }
    host.now += Span::micros(500);
    for flow in 0..400 {
        host.accept(flow);
        // A SYN with its options takes as long on the link.
        host.now += Span::nanos(784);
    }
    for flow in &host.shim.state.flows[..400] {
        let rtt = flow.handshake_rtt.get();
        assert!((498_000..=500_000).contains(&rtt), "{rtt} ns");
    }
}

#[test]
fn a_request_with_the_last_ack_of_its_handshake_gets_the_share_of_a_long_path() {
    // The window that it brings, in segments.
    let granted = |rtt, active: u64| {
        let mut host = guard();
        host.shim.state.gate.peak_active.set(active);
        host.shim.state.gate.active.set(active - 1);
        host.shim.state.gate.looked_back.set(host.now.0);
        host.reach(0, rtt);
        host.send(0, Segment { window: u16::MAX, ..request(1) });
        host.shim.state.flows[0].edge.get() / MSS
    };
    // Path and half of the budget hold 159 KB.
    assert_eq!(granted(Span::millis(1), 8), 14);
    assert_eq!(granted(Span::millis(1), 64), 2);
    assert_eq!(granted(Span::micros(50), 64), 2, "nearby, a new connection is expected to bring little");
}

#[test]
fn handshakes_have_nothing_beyond_the_budget_over_a_long_path() {
    let mut host = guard();
    host.connect(0);
    host.make_path(0, Span::millis(1));
    host.reach(1, Span::millis(1));
    host.send(0, request(1));
    // What the path holds, and the budget but for two segments.
    let (full, owed) = (host.shim.gate().threshold.get() + 125_000 - 2_000, host.owed(0));
    host.shim.state.flows[0].owed.add((full - owed) as u32);
    host.shim.state.gate.owed.add(full - owed);
    let path = host.shim.state.flows[0].path.get() as usize;
    host.shim.state.gate.owed_by_path[path].add(full - owed);
    host.shim.state.gate.owed_beyond.add(full - owed);
    host.check_ledger();
    let opens = host.ack(1, 1);
    assert!(host.has_left(opens));
    assert_eq!(host.wire.last().map(|&(flow, _, window)| (flow, window)), Some((1, 0)), "its window waits");
}

#[test]
fn a_handshake_at_the_first_instant_of_the_clock_is_timed() {
    let mut host = guard();
    host.now = Time::ZERO;
    host.reach(0, Span::millis(20));
    host.ack(0, 1);
    host.wait(Span::millis(1));
    let asks = host.send(0, Segment { window: u16::MAX, ..request(1) });
    assert!(host.has_left(asks));
    let granted = host.shim.state.flows[0].edge.get() - 1;
    assert!(granted > 2_000_000, "{granted}: what a path of 20 ms holds");
}

#[test]
fn a_sender_that_had_used_up_its_window_shows_its_round_trip_when_it_goes_on() {
    let mut host = guard();
    for flow in 0..3 {
        host.connect(flow);
        // Windows that do not fit, or nothing would be lowered.
        host.send(flow, request(1));
    }
    let edge = host.shim.state.flows[0].edge.get();
    // No timestamps. All that was granted arrives, and the last ACK grants more.
    for seq in (1..edge).step_by(MSS as usize) {
        host.data(0, seq, MSS.min(edge - seq));
    }
    host.ack(0, edge);
    let granted = host.now;
    assert!(host.shim.state.flows[0].edge.get() > edge);
    host.now += Span::millis(20);
    host.shim.state.flows[0].least_rtt.set(0);
    host.data(0, edge, MSS);
    let sample = host.least_rtt(0);
    assert!(sample.abs_diff(host.now.0 - granted.0) < 3_000, "{sample} ns");
    // What follows in the stream answers nothing.
    host.now += Span::millis(7);
    host.shim.state.flows[0].least_rtt.set(0);
    host.data(0, edge + MSS, MSS);
    assert_eq!(host.least_rtt(0), 0);
}

/// Two flows side by side, in the middle of responses: the handshake of flow 0 met an idle link, before that of flow 1 a millisecond of others' segments came.
fn side_by_side() -> Host {
    side_by_side_of(guard())
}

fn side_by_side_of(mut host: Host) -> Host {
    host.reach(0, Span::micros(500));
    host.ack(0, 1);
    host.begin(1);
    host.shim.state.gate.bytes.add(125_000);
    host.now += Span::micros(1_500);
    host.accept(1);
    host.ack(1, 1);
    for flow in 0..2 {
        host.shim.state.flows[flow as usize].let_go.set(0);
        host.data(flow, 1, MSS);
    }
    host.shim.state.gate.active.set(2);
    host.shim.state.gate.peak_active.set(2);
    host
}

/// How long the flow's path seems to be, us, whose sender had used up its window and answers after `rtt` us.
fn seems_side_by_side(host: &mut Host, flow: u32, rtt: u64) -> u64 {
    let state = &host.shim.state.flows[flow as usize];
    let seq = state.received.get();
    state.least_rtt.set(0);
    state.let_go.set((host.now.0 >> 10) as u32 | 1);
    // What flow 1 may have on its way takes 528 us on the link.
    host.fill(1);
    host.now += Span::micros(rtt);
    host.data(flow, seq, MSS);
    (host.least_rtt(flow) + 500) / 1_000
}

#[test]
fn side_by_side_who_met_an_idle_link_shows_how_long_the_queue_is() {
    // Round trips in turn, us, of flow 0, whose path is known, and of flow 1; and how long the paths seem to be.
    let cases: [&[(u32, u64, u64)]; 7] = [
        &[(1, 1_500, 1_500)],
        &[(0, 1_200, 500), (1, 1_500, 800)],
        &[(0, 1_200, 500), (1, 900, 500)],
        &[(0, 1_200, 500), (0, 700, 500), (1, 1_500, 1_300)],
        &[(0, 700, 500), (0, 1_200, 1_000), (1, 1_500, 1_300)],
        &[(0, 400, 400), (1, 1_500, 1_500)],
        // More than all that is in flight takes on the link.
        &[(0, 2_000, 2_000), (1, 1_500, 1_500)],
    ];
    for case in cases {
        let mut host = side_by_side();
        for &(flow, rtt, length) in case {
            let seems = seems_side_by_side(&mut host, flow, rtt);
            assert!(seems.abs_diff(length) <= 3, "{seems} us for {rtt} of flow {flow}: {case:?}");
        }
    }
}

#[test]
fn the_least_queue_of_the_last_67_to_134_ms_counts() {
    // What flow 0 waits in the queue, us, each so many ms after the one before; so many ms later flow 1 shows 1500 us; and how long its path seems.
    let cases = [
        (vec![(0, 700)], 60, 800),
        (vec![(0, 700)], 140, 1_500),
        (vec![(0, 700), (60, 600)], 0, 900),
        (vec![(0, 100), (20, 600), (20, 700), (20, 600)], 0, 1_400),
        (vec![(0, 100), (140, 600)], 0, 900),
        (vec![(0, 100), (45, 600), (45, 700), (45, 600), (45, 700)], 0, 900),
    ];
    // Wherever in a period it begins.
    for begins in (0..70).step_by(5) {
        for (delays, pause, length) in &cases {
            let mut host = side_by_side();
            host.now += Span::millis(begins);
            for &(later, delay) in delays {
                host.now += Span::millis(later);
                seems_side_by_side(&mut host, 0, 500 + delay);
            }
            host.now += Span::millis(*pause);
            let seems = seems_side_by_side(&mut host, 1, 1_500);
            assert!(seems.abs_diff(*length) <= 3, "{seems} us, not {length}: {delays:?}, begun after {begins} ms");
        }
    }
}

#[test]
fn a_handshake_that_met_a_few_others_met_an_idle_link_as_far_as_hosts_are_late_or_it_is_long() {
    // What it took, what came during it, both us on the link, and whether what others wait is known by this flow.
    for (took, came, knows) in
        [(500, 0, true), (500, 190, true), (500, 210, false), (4_000, 490, true), (4_000, 510, false)]
    {
        let mut host = side_by_side();
        let flow = &host.shim.state.flows[0];
        flow.rtt.set(took * 1_000);
        flow.handshake_rtt.set((took - came) * 1_000);
        seems_side_by_side(&mut host, 0, u64::from(took) + 700);
        let known = host.shim.state.gate.queue_least.get();
        assert_eq!(known > 0, knows, "{known} ns after {came} of {took} us");
    }
}

#[test]
fn no_queue_shows_in_an_answer_that_begins_on_a_longer_path_or_where_timestamps_tell_the_length() {
    let stamps = Config { rate_mbps: 1_000, rtt: RttMethod::Timestamps, ..Config::credit(96_000) };
    let (begins, longer) = (side_by_side(), side_by_side());
    begins.shim.state.flows[0].size.set(0);
    let flow = &longer.shim.state.flows[0];
    flow.samples.set(flow.samples.get() | LONGER);
    let cases = [
        ("as usual", side_by_side(), 700),
        ("begins", begins, 0),
        ("longer", longer, 0),
        ("timestamps", side_by_side_of(Host::new(stamps)), 0),
    ];
    for (what, mut host, shown) in cases {
        seems_side_by_side(&mut host, 0, 1_200);
        let seems = seems_side_by_side(&mut host, 1, 1_500);
        assert!(seems.abs_diff(1_500 - shown) <= 3, "{what}: {seems} us");
    }
}

#[test]
fn what_can_go_on_by_itself_shows_no_round_trip() {
    let mut host = guard();
    host.connect(0);
    host.send(0, request(1));
    host.shim.state.flows[0].let_go.set(0);
    host.data(0, 1, MSS);
    host.ack(0, 1 + MSS);
    host.now += Span::millis(20);
    host.shim.state.flows[0].least_rtt.set(0);
    host.data(0, 1 + MSS, MSS);
    assert_eq!(host.least_rtt(0), 0, "its window was not used up");
}

#[test]
fn the_end_of_a_response_that_was_on_its_way_already_answers_nothing() {
    let mut host = guard();
    for flow in 0..3 {
        host.connect(flow);
        host.send(flow, request(1));
    }
    // Less than a segment is left of the window, and the response ends with less than that.
    let edge = host.shim.state.flows[0].edge.get() / MSS * MSS + 1;
    for seq in (1..edge).step_by(MSS as usize) {
        host.data(0, seq, MSS);
    }
    host.shim.state.flows[0].edge.set(edge + 300);
    host.ack(0, edge);
    assert!(host.shim.state.flows[0].let_go.get() > 0 && host.shim.state.flows[0].edge.get() > edge + 300);
    host.now += Span::micros(20);
    host.shim.state.flows[0].least_rtt.set(0);
    host.data(0, edge, 200);
    assert_eq!(host.least_rtt(0), 0, "there was room for it before");
}

#[test]
fn the_first_timestamp_of_a_connection_older_than_the_guard_measures_nothing() {
    let mut host = guard();
    for (tsval, rtt, least) in [(100, 200, 0), (101, 1_500, 1_500)] {
        host.send(0, Segment { timestamps: Some((tsval, 1)), ..pure_ack(1) });
        host.now += Span::micros(rtt);
        host.receive(0, Segment { timestamps: Some((1, tsval)), ..data(1 + (tsval - 100) * MSS, MSS) });
        assert_eq!(host.least_rtt(0) / 1_000, least);
    }
}

#[test]
fn the_timestamp_of_a_syn_ack_measures_the_first_round_trip() {
    let mut host = guard();
    let syn = Segment { flags: Flags::SYN, mss: 1460, wscale: Some(7), timestamps: Some((1, 0)), ..blank() };
    host.receive(0, syn);
    host.send(0, Segment { flags: Flags::SYN | Flags::ACK, ack: SeqNumber(1), timestamps: Some((7, 1)), ..syn });
    host.now += Span::micros(1_500);
    host.receive(0, Segment { timestamps: Some((1, 7)), ..data(1, MSS) });
    assert_eq!(host.least_rtt(0) / 1_000, 1_500);
}

#[test]
fn a_timestamp_that_has_been_used_before_measures_nothing() {
    // The clock ticks every millisecond, as Linux's. The second tick's first ACK leaves while the first tick's is not answered yet.
    let mut host = guard();
    host.reach(0, Span::micros(1_500));
    let leaves = |host: &mut Host, tsval| host.send(0, Segment { timestamps: Some((tsval, 1)), ..pure_ack(1) });
    let answers = |host: &mut Host, n: u32, tsval| {
        host.receive(0, Segment { timestamps: Some((1, tsval)), ..data(1 + n * MSS, MSS) });
    };
    leaves(&mut host, 100);
    host.now += Span::micros(1_000);
    leaves(&mut host, 101);
    host.now += Span::micros(500);
    answers(&mut host, 0, 100);
    host.now += Span::micros(200);
    leaves(&mut host, 101);
    host.now += Span::micros(800);
    answers(&mut host, 1, 101);
    assert_eq!(host.least_rtt(0) / 1_000, 1_500);
}

/// What the handshake of flow 1 shows of its path, and of the shortest of late, us, after that of flow 0 took 1 ms. It takes `rtt`, us, and for
/// `busy` of that, from its begin on, data comes without a pause.
fn shows(rtt: u64, busy: u64) -> (u64, u64) {
    let mut host = guard();
    host.reach(0, Span::millis(1));
    host.ack(0, 1);
    host.now += Span::millis(5);
    host.begin(1);
    let (begun, mut seq) = (host.now, 1);
    while host.now < begun + Span::micros(busy) {
        // A full frame, with its headers, takes 12 us on the link.
        host.data(0, seq, MSS);
        seq += MSS;
        host.now += Span::micros(12);
    }
    host.now = begun + Span::micros(rtt);
    host.accept(1);
    let least = host.shim.gate().least_handshake.get();
    (u64::from(host.shim.state.flows[1].handshake_rtt.get()) / 1_000, u64::from(least) / 1_000)
}

#[test]
fn what_may_have_been_on_its_way_makes_no_path_shorter_than_all_others() {
    let (own, least) = shows(1_100, 1_100);
    assert!(own == least && least.abs_diff(1_000) < 5, "all that came may have been on its way: {own} us");
    let (own, least) = shows(900, 600);
    assert!(own == least && least.abs_diff(280) < 60, "it is shorter, by what may have stood in the queue: {own} us");
    let (own, least) = shows(3_000, 600);
    assert!((2_350..3_000).contains(&own) && least.abs_diff(1_000) < 5, "and longer ones are longer: {own} us");
}
