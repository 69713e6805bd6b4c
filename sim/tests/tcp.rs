//! TCP, mechanism by mechanism: two endpoints on a virtual clock, joined by a wire that loses and marks what it is told.

use ackgate_control::segment::Flags;
use ackgate_control::units::Span;
use ackgate_sim::engine::{Ps, Purpose, Random};
use ackgate_sim::net::Packet;
use ackgate_sim::scenario::{CongestionControl, EcnMode, Scenario, Spurious, Tcp};
use ackgate_sim::tcp::{Endpoint, State, TcpConfig};

const MSS: u64 = 1_460;
const ONE_WAY: Ps = Ps::micros(50);

/// What the wire does with a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Arrives,
    Lost,
    Marked,
}

/// A packet that was sent: when, by whom, and what it said.
#[derive(Clone, Copy)]
struct Sent {
    at: Ps,
    from: usize,
    packet: Packet,
}

/// Two endpoints: 0 sends data, 1 receives it.
struct Pair<F> {
    ends: [Endpoint; 2],
    config: TcpConfig,
    random: Random,
    now: Ps,
    wire: Vec<(Ps, usize, Packet)>,
    sent: Vec<Sent>,
    readable: u64,
    rtts: Vec<Ps>,
    /// Retransmission timeouts of side 0.
    timeouts: Vec<Ps>,
    fate: F,
}

impl<F: FnMut(&Sent) -> Fate> Pair<F> {
    fn new(tcp: Tcp, fate: F) -> Self {
        let scenario = Scenario { tcp, ..Scenario::default() };
        let config = TcpConfig::new(&scenario, &scenario.tcp);
        // Sequence numbers wrap in the middle of every test.
        let ends = [Endpoint::new(&config, u32::MAX - 20_000), Endpoint::new(&config, u32::MAX - 5)];
        let random = Random::new(1, Purpose::Timeout);
        let (wire, sent, rtts, timeouts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { ends, config, random, now: Ps::ZERO, wire, sent, readable: 0, rtts, timeouts, fate }
    }

    /// Opens from side 0 and writes.
    fn send(tcp: Tcp, segments: u64, fate: F) -> Self {
        let mut pair = Self::new(tcp, fate);
        pair.ends[0].open();
        pair.ends[0].write(segments * MSS, false);
        pair.output();
        pair
    }

    fn output(&mut self) {
        for from in 0..2 {
            let mut packet = Packet::default();
            while self.ends[from].poll_transmit(self.now, &self.config, &mut self.random, &mut packet) {
                let sent = Sent { at: self.now, from, packet };
                self.sent.push(sent);
                let fate = (self.fate)(&sent);
                if fate == Fate::Marked {
                    packet.bits |= Packet::CE;
                }
                if fate != Fate::Lost {
                    self.wire.push((self.now + ONE_WAY, 1 - from, packet));
                }
                packet = Packet::default();
            }
        }
    }

    /// The next thing happens; false when there is nothing before `until`.
    fn step(&mut self, until: Ps) -> bool {
        let arrival = self.wire.first().map_or(Ps::NEVER, |first| first.0);
        let deadline = self.ends[0].deadline().min(self.ends[1].deadline());
        let next = arrival.min(deadline);
        if next > until {
            return false;
        }
        self.now = next;
        if arrival <= deadline {
            let (_, to, packet) = self.wire.remove(0);
            let arrived = self.ends[to].handle_segment(self.now, &packet, &self.config, &mut self.random);
            if to == 1 {
                self.readable += arrived.readable;
            } else {
                self.rtts.extend(arrived.rtt);
            }
        } else {
            for (side, end) in self.ends.iter_mut().enumerate() {
                if end.deadline() <= next && end.handle_timeout(next, &self.config) && side == 0 {
                    self.timeouts.push(next);
                }
            }
        }
        self.output();
        true
    }

    fn run(mut self, until: Ps) -> Self {
        while self.step(until) {}
        self
    }

    fn data(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(|sent| sent.from == 0 && sent.packet.payload > 0)
    }

    fn retransmissions(&self) -> usize {
        self.data().filter(|sent| sent.packet.is(Packet::RETRANSMISSION)).count()
    }

    fn acks(&self) -> usize {
        self.sent.iter().filter(|sent| sent.from == 1 && sent.packet.flags == Flags::ACK).count()
    }
}

/// Loses the data segments with these numbers (from 0) when they are sent for the first time.
fn lose(numbers: &'static [usize]) -> impl FnMut(&Sent) -> Fate {
    let mut count = 0;
    move |sent| {
        if sent.from != 0 || sent.packet.payload == 0 || sent.packet.is(Packet::RETRANSMISSION) {
            return Fate::Arrives;
        }
        count += 1;
        if numbers.contains(&(count - 1)) { Fate::Lost } else { Fate::Arrives }
    }
}

fn nothing_lost(_: &Sent) -> Fate {
    Fate::Arrives
}

fn tcp(initial_window: u32) -> Tcp {
    Tcp { initial_window, ..Tcp::default() }
}

#[test]
fn the_window_doubles_in_each_round_trip_of_slow_start() {
    let pair = Pair::send(tcp(2), 62, nothing_lost).run(Ps::millis(10));
    let sent_in = |round: u64| {
        // Data begins one round trip after the SYN.
        let (from, to) = (2 * round * ONE_WAY.0, 2 * (round + 1) * ONE_WAY.0);
        pair.data().filter(|sent| (from..to).contains(&sent.at.0)).count()
    };
    assert_eq!([1, 2, 3, 4, 5].map(sent_in), [2, 4, 8, 16, 32]);
    assert_eq!(pair.readable, 62 * MSS);
    assert_eq!(pair.retransmissions(), 0);
}

#[test]
fn congestion_avoidance_adds_one_segment_per_round_trip() {
    let pair = Pair::send(Tcp { initial_ssthresh: Some(4), ..tcp(4) }, 1_000, nothing_lost).run(Ps::millis(1));
    // The handshake takes one of the ten round trips.
    let window = u64::from(pair.ends[0].sender.window.cwnd) / MSS;
    assert!((11..=13).contains(&window), "{window}");
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second_and_costs_the_initial_window() {
    let mut first = true;
    let lose_first = move |sent: &Sent| {
        let lost = first && sent.packet.flags == Flags::SYN;
        first &= !lost;
        if lost { Fate::Lost } else { Fate::Arrives }
    };
    let mut pair = Pair::send(tcp(10), 10, lose_first);
    while pair.ends[0].state != State::Established {
        assert!(pair.step(Ps::millis(5_000)), "never established");
    }
    assert_eq!(pair.timeouts, [Ps::millis(1_000)]);
    assert_eq!(pair.ends[0].sender.in_flight(), MSS);
    // Karn: a retransmitted SYN gives no RTT sample.
    assert!(pair.rtts.is_empty());
    assert_eq!(pair.run(Ps::millis(5_000)).readable, 10 * MSS);
}

#[test]
fn a_lost_syn_ack_is_sent_again() {
    let mut first = true;
    let lose_first = move |sent: &Sent| {
        let lost = first && sent.packet.flags == Flags::SYN | Flags::ACK;
        first &= !lost;
        if lost { Fate::Lost } else { Fate::Arrives }
    };
    let pair = Pair::send(tcp(10), 10, lose_first).run(Ps::millis(5_000));
    assert_eq!(pair.readable, 10 * MSS);
}

#[test]
fn three_duplicate_acks_bring_a_fast_retransmit() {
    let pair = Pair::send(tcp(10), 10, lose(&[2])).run(Ps::millis(100));
    assert_eq!(pair.readable, 10 * MSS);
    assert_eq!((pair.retransmissions(), pair.timeouts.len()), (1, 0));
    assert_eq!(pair.ends[0].sender.counters.fast_retransmits, 1);
}

#[test]
fn two_duplicate_acks_do_not() {
    let pair = Pair::send(tcp(3), 3, lose(&[0])).run(Ps::millis(1_000));
    assert_eq!(pair.readable, 3 * MSS);
    assert_eq!((pair.retransmissions(), pair.timeouts.len()), (1, 1));
}

#[test]
fn limited_transmit_makes_a_third_duplicate_out_of_two() {
    for (limited_transmit, timeouts) in [(false, 1), (true, 0)] {
        let settings = Tcp { limited_transmit, ..tcp(3) };
        let pair = Pair::send(settings, 5, lose(&[0])).run(Ps::millis(1_000));
        assert_eq!(pair.readable, 5 * MSS);
        assert_eq!(pair.timeouts.len(), timeouts, "Limited Transmit {limited_transmit}");
    }
}

#[test]
fn limited_transmit_as_in_ns_2_sends_again_what_has_arrived() {
    // Only the third segment arrives, and the repair of the second is lost once more. The copy of the third is then a
    // duplicate ACK after a timeout, which says nothing of what comes next.
    for (limited_transmit_resends, resent) in [(false, 3), (true, 5)] {
        let settings = Tcp { limited_transmit: true, limited_transmit_resends, ..tcp(6) };
        let mut count = 0;
        let fate = move |sent: &Sent| {
            if sent.from != 0 || sent.packet.payload == 0 {
                return Fate::Arrives;
            }
            count += 1;
            if [1, 2, 4, 5, 6, 8].contains(&count) { Fate::Lost } else { Fate::Arrives }
        };
        let pair = Pair::send(settings, 6, fate).run(Ps::millis(5_000));
        assert_eq!(pair.readable, 6 * MSS);
        let before = pair.data().filter(|sent| sent.at < pair.timeouts[1]).count() - 6;
        assert_eq!(before, resent, "sends again {limited_transmit_resends}");
    }
}

#[test]
fn newreno_mends_one_hole_per_round_trip_and_sack_all_in_one() {
    let finish = |sack| {
        let settings = Tcp { sack, ..tcp(20) };
        let pair = Pair::send(settings, 20, lose(&[3, 5, 7])).run(Ps::millis(100));
        assert_eq!(pair.readable, 20 * MSS);
        // With SACK one more, the rescue retransmission, which is for nothing here.
        assert_eq!((pair.retransmissions(), pair.timeouts.len()), (3 + usize::from(sack), 0), "SACK {sack}");
        let resent: Vec<Ps> =
            pair.data().filter(|sent| sent.packet.is(Packet::RETRANSMISSION)).map(|sent| sent.at).collect();
        resent[2] - resent[0]
    };
    assert_eq!(finish(false), Ps::micros(200));
    assert!(finish(true) < Ps::micros(100), "{:?}", finish(true));
}

#[test]
fn the_end_of_a_window_is_rescued_once_in_a_recovery_with_sack() {
    // Nothing comes behind the last segment that could tell of its loss (RFC 6675 §4, NextSeg rule 4).
    let settings = Tcp { sack: true, ..tcp(20) };
    let pair = Pair::send(settings.clone(), 20, lose(&[3, 19])).run(Ps::millis(100));
    assert_eq!((pair.readable, pair.retransmissions(), pair.timeouts.len()), (20 * MSS, 2, 0));
    // Of several, the last one is rescued, and its SACK shows the others.
    let pair = Pair::send(settings, 20, lose(&[3, 17, 18, 19])).run(Ps::millis(100));
    assert_eq!((pair.readable, pair.retransmissions(), pair.timeouts.len()), (20 * MSS, 4, 0));
}

/// With and without RACK: readable bytes, data segments sent again, timeouts.
fn with_and_without_rack(
    segments: u64,
    timestamps: bool,
    lost: impl Fn() -> Box<dyn FnMut(&Sent) -> Fate>,
) -> [(u64, usize, usize); 2] {
    [true, false].map(|rack| {
        let settings = Tcp { sack: true, rack, timestamps, ..tcp(20) };
        let pair = Pair::send(settings, segments, lost()).run(Ps::millis(5_000));
        (pair.readable / MSS, pair.retransmissions(), pair.timeouts.len())
    })
}

#[test]
fn a_probe_finds_what_was_lost_at_the_end() {
    // One segment: the probe is what was lost. Several, or a whole window: its SACK shows them.
    for (lost, again) in [(&[19][..], 1), (&[17, 18, 19], 3)] {
        let [rack, counting] = with_and_without_rack(20, false, || Box::new(lose(lost)));
        assert_eq!(rack, (20, again, 0), "{lost:?} with RACK");
        assert_eq!((counting.0, counting.2), (20, 1), "{lost:?} without");
    }
    let [rack, counting] = with_and_without_rack(10, false, || Box::new(lose(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])));
    assert_eq!((rack.0, rack.2), (10, 0));
    assert_eq!((counting.0, counting.2), (10, 1));
}

#[test]
fn a_probe_sends_the_last_segment_again_as_it_was() {
    // Two and a half segments, of which all but the first are lost.
    let settings = Tcp { sack: true, rack: true, ..tcp(20) };
    let mut pair = Pair::new(settings, lose(&[1, 2]));
    pair.ends[0].open();
    pair.ends[0].write(2 * MSS + 500, false);
    pair.output();
    let pair = pair.run(Ps::millis(100));
    assert_eq!((pair.readable, pair.timeouts.len()), (2 * MSS + 500, 0));
    let lengths: Vec<_> = pair.data().map(|sent| u64::from(sent.packet.payload)).collect();
    assert_eq!(lengths, [MSS, MSS, 500, 500, MSS], "the probe, and what its SACK shows");
}

#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_after_it() {
    // The sixth segment is lost twice; others behind it are sent again and arrive.
    let twice = || -> Box<dyn FnMut(&Sent) -> Fate> {
        let mut first = lose(&[5, 8, 11]);
        let mut seen = Vec::new();
        Box::new(move |sent| {
            let again = sent.from == 0 && sent.packet.is(Packet::RETRANSMISSION) && sent.packet.payload > 0;
            if again {
                seen.push(sent.packet.seq);
            }
            if again && seen.len() == 1 { Fate::Lost } else { first(sent) }
        })
    };
    let [rack, counting] = with_and_without_rack(20, false, twice);
    assert_eq!(rack, (20, 4, 0));
    assert_eq!((counting.0, counting.2), (20, 1));
}

#[test]
fn what_is_lost_after_a_loss_needs_no_timeout_whenever_it_was_sent() {
    // Before the recovery, in it, or behind it: what is sent afterwards tells, or a probe.
    for (segments, other) in (22..50).flat_map(|segments| (5..segments).map(move |other| (segments, other))) {
        let mut count = 0;
        let fate = move |sent: &Sent| {
            let first = sent.from == 0 && sent.packet.payload > 0 && !sent.packet.is(Packet::RETRANSMISSION);
            count += u64::from(first);
            if first && (count == 4 || count == other) { Fate::Lost } else { Fate::Arrives }
        };
        let pair = Pair::send(Tcp { sack: true, rack: true, ..tcp(20) }, segments, fate).run(Ps::millis(1_000));
        assert_eq!((pair.readable, pair.timeouts.len()), (segments * MSS, 0), "4 and {other} of {segments} lost");
    }
}

#[test]
fn a_retransmission_that_arrives_overtakes_the_end_of_the_window() {
    // Nothing behind the last two tells of their loss but the segment that was sent again after them.
    let [rack, _] = with_and_without_rack(20, true, || Box::new(lose(&[15, 18, 19])));
    assert_eq!(rack, (20, 3, 0));
}

#[test]
fn an_acknowledgement_that_moves_the_window_may_tell_of_a_loss_too() {
    // The first four ACKs are lost: the next one acknowledges four segments, and shows a hole behind them.
    const LOST: [usize; 15] = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18];
    let (mut segments, mut acks) = (lose(&LOST), 0);
    let fate = move |sent: &Sent| {
        if sent.from == 0 {
            return segments(sent);
        }
        acks += u32::from(!sent.packet.flags.has(Flags::SYN));
        if (1..=4).contains(&acks) { Fate::Lost } else { Fate::Arrives }
    };
    let settings = Tcp { sack: true, rack: true, timestamps: true, ..tcp(20) };
    let pair = Pair::send(settings, 20, fate).run(Ps::millis(100));
    assert_eq!((pair.readable, pair.retransmissions(), pair.timeouts.len()), (20 * MSS, 15, 0));
    let told = pair.sent.iter().find(|sent| sent.from == 1 && sent.packet.sack_len > 0).map(|sent| sent.at + ONE_WAY);
    let first = pair.data().find(|sent| sent.packet.is(Packet::RETRANSMISSION)).map(|sent| sent.at);
    assert_eq!(first, told, "no probe has to ask");
}

#[test]
fn a_probe_that_stood_in_for_a_loss_cuts_the_window_and_a_needless_one_does_not() {
    for timestamps in [false, true] {
        let settings = Tcp { sack: true, rack: true, timestamps, ..tcp(20) };
        let mut pair = Pair::send(settings.clone(), 20, lose(&[19])).run(Ps::millis(100));
        assert_eq!((pair.readable, pair.timeouts.len()), (20 * MSS, 0));
        // Without timestamps it takes one more segment to tell.
        pair.ends[0].write(MSS, false);
        pair.output();
        let pair = pair.run(Ps::millis(200));
        assert!(pair.ends[0].sender.window.ssthresh < 20 * 1_460, "timestamps {timestamps}");
        let pair = Pair::send(settings, 20, nothing_lost).run(Ps::millis(100));
        assert_eq!((pair.ends[0].sender.window.ssthresh, pair.retransmissions()), (u32::MAX, 0));
    }
}

/// Linux 2.6: what is below the highest by more than three segments is lost, duplicates or not.
fn fack(initial_window: u32) -> Tcp {
    Tcp { sack: true, fack: true, ..tcp(initial_window) }
}

#[test]
fn with_fack_holes_count_like_duplicates() {
    // Two duplicates, of the fourth and fifth segment.
    let counting = Tcp { fack: false, ..fack(5) };
    for (settings, timeouts) in [(fack(5), 0), (counting, 1)] {
        let pair = Pair::send(settings, 5, lose(&[0, 1, 2])).run(Ps::millis(1_000));
        assert_eq!((pair.readable, pair.timeouts.len()), (5 * MSS, timeouts));
    }
    // Of three segments, none is far enough below the highest.
    let pair = Pair::send(fack(3), 3, lose(&[0, 1])).run(Ps::millis(1_000));
    assert_eq!((pair.readable, pair.timeouts.len()), (3 * MSS, 1));
}

#[test]
fn with_fack_a_lost_retransmission_is_found_by_the_second_new_segment_behind_it() {
    let mut lost = 0;
    let fate = |sent: &Sent| {
        let first = sent.from == 0 && sent.packet.payload > 0 && sent.packet.seq.0 == u32::MAX - 20_000 + 1;
        lost += u32::from(first);
        if first && lost <= 2 { Fate::Lost } else { Fate::Arrives }
    };
    let pair = Pair::send(fack(10), 60, fate).run(Ps::millis(1_000));
    assert_eq!((pair.readable, pair.timeouts.len(), pair.retransmissions()), (60 * MSS, 0, 2));
}

#[test]
fn with_fack_nothing_rescues_the_end_of_a_window() {
    let pair = Pair::send(fack(10), 10, lose(&[0, 9])).run(Ps::millis(1_000));
    assert_eq!((pair.readable, pair.timeouts.len()), (10 * MSS, 1));
}

#[test]
fn rate_halving_sends_for_every_second_duplicate_while_the_rest_shrinks_the_window() {
    let pair = Pair::send(fack(20), 200, lose(&[0])).run(Ps::micros(290));
    let window = pair.ends[0].sender.window;
    assert_eq!((u64::from(window.cwnd) / MSS, u64::from(window.ssthresh) / MSS), (10, 10));
    // 19 duplicates: the third, and from then on about each second one, send something.
    let answers = pair.data().filter(|sent| sent.at > Ps::micros(150)).count();
    assert!((8..=12).contains(&answers), "{answers}");
}

#[test]
fn d_sacks_restore_the_threshold_that_a_needless_timeout_cut() {
    // The ACK of the last segment waits for 40 ms, the timer does not.
    let settings = |dsack| Tcp {
        sack: true,
        dsack,
        spurious: Spurious::Frto,
        rto_min: Span::millis(1),
        delayed_ack: Some(Span::millis(40)),
        ..tcp(9)
    };
    let threshold = |dsack| {
        let pair = Pair::send(settings(dsack), 9, nothing_lost).run(Ps::millis(30));
        assert_eq!((pair.timeouts.len(), pair.retransmissions(), pair.readable / MSS), (1, 1, 9));
        let sender = &pair.ends[0].sender;
        assert_eq!(u64::from(sender.window.cwnd) / MSS, 2, "the window stays as the timeout left it");
        (sender.window.ssthresh, sender.counters.undone)
    };
    assert_eq!(threshold(true), (u32::MAX, 1));
    let (cut, undone) = threshold(false);
    assert!(u64::from(cut) < 10 * MSS && undone == 0, "{cut}");
    // A copy that did come for a loss is reported by nobody.
    let pair = Pair::send(settings(true), 9, lose(&[8])).run(Ps::millis(30));
    assert!(u64::from(pair.ends[0].sender.window.ssthresh) < 10 * MSS && pair.ends[0].sender.counters.undone == 0);
}

#[test]
fn a_loss_halves_the_window_and_cubic_keeps_seven_tenths() {
    for (cc, expected) in [(CongestionControl::NewReno, 10), (CongestionControl::Cubic, 14)] {
        let pair = Pair::send(Tcp { cc, ..tcp(20) }, 20, lose(&[0])).run(Ps::millis(100));
        assert_eq!(u64::from(pair.ends[0].sender.window.ssthresh) / MSS, expected, "{cc:?}");
    }
}

#[test]
fn timeouts_double_up_to_the_cap_and_end_with_progress() {
    // The wire is cut for 30 s.
    let cut = |sent: &Sent| {
        if sent.packet.payload > 0 && sent.at < Ps::millis(30_000) { Fate::Lost } else { Fate::Arrives }
    };
    let settings = Tcp { rto_backoff_max: 16, ..tcp(2) };
    let pair = Pair::send(settings, 4, cut).run(Ps::millis(60_000));
    assert_eq!(pair.readable, 4 * MSS);
    let gaps: Vec<u64> = pair.timeouts.windows(2).map(|pair| (pair[1] - pair[0]).0 / Ps::millis(1).0).collect();
    assert_eq!(gaps[..6], [400, 800, 1_600, 3_200, 3_200, 3_200]);
    assert_eq!(u64::from(pair.ends[0].sender.window.ssthresh), 2 * MSS);
}

#[test]
fn what_sack_has_is_not_sent_again_after_a_timeout() {
    // Only the last two of ten arrive: too few duplicates, so the timer has to fire.
    let settings = Tcp { sack: true, ..tcp(10) };
    let pair = Pair::send(settings, 10, lose(&[0, 1, 2, 3, 4, 5, 6, 7])).run(Ps::millis(2_000));
    assert_eq!(pair.readable, 10 * MSS);
    assert_eq!((pair.retransmissions(), pair.timeouts.len()), (8, 1));
}

#[test]
fn delayed_acks_cover_two_segments_and_the_odd_one_waits_for_the_timer() {
    let settings = Tcp { delayed_ack: Some(Span::millis(40)), ..tcp(5) };
    let pair = Pair::send(settings, 5, nothing_lost).run(Ps::millis(190));
    assert_eq!(pair.readable, 5 * MSS);
    let acks: Vec<&Sent> = pair.sent.iter().filter(|sent| sent.from == 1 && sent.packet.flags == Flags::ACK).collect();
    assert_eq!(acks.len(), 3);
    assert_eq!(acks[2].at - acks[1].at, Ps::millis(40));
    assert_eq!(Pair::send(tcp(5), 5, nothing_lost).run(Ps::millis(190)).acks(), 5);
}

#[test]
fn quick_acks_come_first_and_end_with_what_the_receiver_sends() {
    let settings = Tcp { quickack: true, delayed_ack: Some(Span::millis(40)), ..tcp(10) };
    let mut pair = Pair::send(settings, 5, nothing_lost).run(Ps::millis(1));
    // One ends the handshake's way back: ACKs of data are five.
    assert_eq!(pair.acks(), 5);
    // An answer makes the connection interactive, and the odd ACK waits again.
    pair.ends[1].write(100, false);
    pair.output();
    let mut pair = pair.run(Ps::millis(2));
    let before = pair.acks();
    pair.ends[0].write(3 * MSS, false);
    pair.output();
    let pair = pair.run(Ps::millis(10));
    assert_eq!((pair.readable, pair.acks() - before), (8 * MSS, 1));
}

#[test]
fn a_gap_is_reported_at_once_in_spite_of_delayed_acks() {
    let settings = Tcp { delayed_ack: Some(Span::millis(40)), ..tcp(10) };
    let pair = Pair::send(settings, 10, lose(&[4])).run(Ps::millis(30));
    assert_eq!((pair.retransmissions(), pair.timeouts.len()), (1, 0));
}

/// Marks the data segments with these numbers.
fn mark(numbers: std::ops::Range<usize>) -> impl FnMut(&Sent) -> Fate {
    let mut count = 0;
    move |sent| {
        let data = sent.from == 0 && sent.packet.payload > 0;
        count += usize::from(data);
        if data && numbers.contains(&(count - 1)) { Fate::Marked } else { Fate::Arrives }
    }
}

#[test]
fn ece_is_repeated_until_cwr_and_halves_the_window_once() {
    let settings = Tcp { ecn: EcnMode::On, ..tcp(10) };
    let pair = Pair::send(settings, 40, mark(0..3)).run(Ps::millis(100));
    assert_eq!(pair.readable, 40 * MSS);
    let cwr: Vec<_> = pair.data().filter(|sent| sent.packet.flags.has(Flags::CWR)).collect();
    assert_eq!(cwr.len(), 1);
    let echoed = pair.sent.iter().filter(|sent| sent.from == 1 && sent.packet.flags == Flags::ACK | Flags::ECE);
    assert!(echoed.count() >= 10, "from the mark until CWR arrives");
    assert_eq!(u64::from(pair.ends[0].sender.window.ssthresh), 5 * MSS);
    assert!(pair.data().all(|sent| sent.packet.is(Packet::ECT)));
}

#[test]
fn dctcp_echoes_exactly_and_cuts_in_proportion() {
    let settings = Tcp { cc: CongestionControl::Dctcp, delayed_ack: Some(Span::millis(1)), ..tcp(10) };
    // Delayed ACKs: the change of CE after the third segment forces an ACK for what came before it (RFC 8257 §3.2).
    let pair = Pair::send(settings, 10, mark(3..10)).run(Ps::millis(100));
    let echoes: Vec<(u32, bool)> = pair
        .sent
        .iter()
        .filter(|sent| sent.from == 1 && !sent.packet.flags.has(Flags::SYN))
        .map(|sent| (sent.packet.ack.0.wrapping_sub(u32::MAX - 20_000 + 1) / 1_460, sent.packet.flags.has(Flags::ECE)))
        .collect();
    let before_change: Vec<_> = echoes.iter().filter(|echo| echo.0 <= 3).collect();
    assert!(before_change.iter().all(|echo| !echo.1), "{echoes:?}");
    assert!(echoes.iter().filter(|echo| echo.0 > 3).all(|echo| echo.1), "{echoes:?}");
    assert!(echoes.contains(&(3, false)), "{echoes:?}");

    // Nothing marked for 40 round trips: alpha has decayed from 1, so one mark costs far less than half.
    let settings = Tcp { cc: CongestionControl::Dctcp, max_window: Some(20), ..tcp(20) };
    let pair = Pair::send(settings, 1_000, mark(900..901)).run(Ps::millis(100));
    let window = u64::from(pair.ends[0].sender.window.ssthresh) / MSS;
    assert!((18..20).contains(&window), "{window} of 20 segments are left");
}

#[test]
fn the_receive_window_is_never_overrun_and_never_used_in_crumbs() {
    // Two and a half segments: two are sent, the half waits (silly-window avoidance).
    let settings = Tcp { rwnd: 2 * MSS + MSS / 2, wscale: Some(0), ..tcp(10) };
    let pair = Pair::send(settings, 20, nothing_lost).run(Ps::millis(100));
    assert_eq!(pair.readable, 20 * MSS);
    assert!(pair.data().all(|sent| u64::from(sent.packet.payload) == MSS));
}

#[test]
fn a_window_below_a_segment_is_filled_when_the_persist_timer_allows_it() {
    // The receiver grants 600 bytes from the start; half of the largest window ever seen is worth sending.
    let settings = Tcp { rwnd: 600, wscale: Some(0), ..tcp(10) };
    let pair = Pair::send(settings, 1, nothing_lost).run(Ps::millis(100));
    assert_eq!(pair.readable, MSS);
    assert!(pair.data().all(|sent| sent.packet.payload <= 600));
}

#[test]
fn retransmissions_give_no_rtt_sample_unless_timestamps_tell_copies_apart() {
    let pair = Pair::send(tcp(4), 4, lose(&[0, 1, 2, 3])).run(Ps::millis(1_000));
    assert_eq!(pair.readable, 4 * MSS);
    assert!(pair.rtts.iter().all(|&rtt| rtt == Ps::micros(100)), "{:?}", pair.rtts);

    let pair = Pair::send(Tcp { timestamps: true, ..tcp(4) }, 4, lose(&[0])).run(Ps::millis(1_000));
    assert!(pair.rtts.len() >= 3 && pair.rtts.iter().all(|&rtt| rtt <= Ps::micros(101)), "{:?}", pair.rtts);
}

#[test]
fn an_idle_sender_starts_again_only_when_asked_to() {
    for (idle_restart, expected) in [(false, 32), (true, 2)] {
        let settings = Tcp { idle_restart, validate_window: false, ..tcp(2) };
        let mut pair = Pair::send(settings, 30, nothing_lost).run(Ps::millis(300));
        pair.now = Ps::millis(1_000);
        pair.ends[0].write(100 * MSS, false);
        pair.output();
        assert_eq!(pair.ends[0].sender.in_flight() / MSS, expected, "idle restart {idle_restart}");
    }
}

#[test]
fn slow_start_grows_by_a_segment_for_each_ack_or_by_all_that_it_acknowledges() {
    // Four segments, two ACKs; from ten on the threshold of eleven is near.
    for (byte_counting, initial, ssthresh, expected) in
        [(false, 4, None, 6), (true, 4, None, 8), (false, 10, Some(11), 11), (true, 10, Some(11), 11)]
    {
        let settings =
            Tcp { byte_counting, initial_ssthresh: ssthresh, delayed_ack: Some(Span::millis(40)), ..tcp(initial) };
        let pair = Pair::send(settings, 100, nothing_lost).run(Ps::micros(260));
        let window = u64::from(pair.ends[0].sender.window.cwnd) / MSS;
        assert_eq!(window, expected, "byte counting {byte_counting}, from {initial}");
    }
}

#[test]
fn halving_restarts_remember_the_window_as_a_threshold() {
    // 32 segments, idle for 1 to 7 timeouts of 200 ms: halved for each, but for the last and not below two.
    for (idle, expected) in [(150, 32), (350, 16), (550, 8), (750, 4), (1_400, 2)] {
        let settings = Tcp {
            idle_restart: true,
            idle_halving: true,
            validate_window: false,
            initial_ssthresh: Some(20),
            ..tcp(2)
        };
        let mut pair = Pair::send(settings, 30, nothing_lost).run(Ps::millis(30));
        pair.ends[0].sender.window.cwnd = 32 * MSS as u32;
        pair.now = Ps::millis(idle);
        pair.ends[0].write(100 * MSS, false);
        pair.output();
        assert_eq!(pair.ends[0].sender.in_flight() / MSS, expected, "idle for {idle} ms");
        let threshold = u64::from(pair.ends[0].sender.window.ssthresh) / MSS;
        assert_eq!(threshold, if idle > 200 { 24 } else { 20 });
    }
}

#[test]
fn push_ends_each_write_and_fin_the_stream() {
    let mut pair = Pair::send(tcp(10), 3, nothing_lost).run(Ps::millis(5));
    pair.ends[0].write(2 * MSS + 10, true);
    pair.ends[1].write(0, true);
    pair.output();
    let pair = pair.run(Ps::millis(50));
    let flags: Vec<bool> = pair.data().map(|sent| sent.packet.flags.has(Flags::PSH)).collect();
    assert_eq!(flags, [false, false, true, false, false, true]);
    assert_eq!(pair.data().last().map(|sent| sent.packet.payload), Some(10));
    assert!(pair.ends.iter().all(|end| end.sender.closed()));
    assert_eq!(pair.readable, 5 * MSS + 10);
}

#[test]
fn any_pattern_of_loss_is_survived() {
    for seed in 0..200 {
        let mut dice = Random::new(seed, Purpose::Workload);
        let sack = seed % 2 == 0;
        let cc =
            [CongestionControl::NewReno, CongestionControl::Cubic, CongestionControl::Dctcp, CongestionControl::Bbr]
                [seed as usize / 2 % 4];
        let settings = Tcp {
            cc,
            sack,
            rack: sack && seed % 3 == 0,
            pacing: seed % 11 < 4,
            timestamps: seed % 5 == 0,
            limited_transmit: seed % 7 < 3,
            delayed_ack: (seed % 4 == 0).then_some(Span::millis(2)),
            ..tcp(4)
        };
        // One in eight is lost, whatever it is, and one in eight is marked.
        let fate = move |_: &Sent| match dice.up_to(7) {
            0 => Fate::Lost,
            1 => Fate::Marked,
            _ => Fate::Arrives,
        };
        let mut pair = Pair::send(settings, 120, fate);
        pair.ends[0].write(0, true);
        let payload = u64::from(pair.config.mss);
        let pair = pair.run(Ps::millis(600_000));
        assert_eq!(pair.readable, 120 * MSS, "seed {seed}, {cc:?}, SACK {sack}, payload {payload}");
        assert!(pair.ends[0].sender.closed(), "seed {seed}");
    }
}
