//! Networks that do not stay as the handshake found them: paths that become longer or shorter, and packets that others overtake.

use super::paths::guard;
use super::*;

/// 1 Gb/s in bytes per 2^20 ns.
const GIGABIT: u64 = 131_072;
/// When all flows forget that their paths have become longer: every so many ns.
const FORGETS: u64 = 1 << 34;

/// Flow 0 in the middle of a response, whose handshake took `rtt`, and as many round trips since as it takes to believe them.
struct Stream {
    host: Host,
    seq: u32,
    tsval: u32,
    /// What has arrived at most, bytes per 2^20 ns.
    peak: u64,
    /// Whether other data has come without a pause.
    busy: bool,
    /// What is left of its window when it has sent what it could, bytes.
    room: u32,
}

impl Stream {
    fn over(rtt: Span) -> Self {
        Self::of(guard(), rtt)
    }

    fn of(mut host: Host, rtt: Span) -> Self {
        host.reach(0, rtt);
        host.ack(0, 1);
        host.send(0, request(1));
        host.now += rtt;
        host.data(0, 1, MSS);
        let mut stream = Self { host, seq: 1 + MSS, tsval: 10, peak: GIGABIT, busy: false, room: 0 };
        stream.take(8, rtt);
        stream
    }

    /// So many round trips that take so long.
    fn take(&mut self, times: u32, rtt: Span) {
        self.take_with(times, rtt, Flags::ACK);
    }

    /// The same of segments with these flags.
    fn take_with(&mut self, times: u32, rtt: Span, flags: Flags) {
        for _ in 0..times {
            self.tsval += 1;
            self.host.shim.state.gate.peak.set(self.peak);
            self.host.shim.state.flows[0].edge.set(self.seq + self.room);
            self.host.send(0, Segment { timestamps: Some((self.tsval, 1)), ..pure_ack(self.seq) });
            self.host.now += rtt;
            if self.busy {
                self.host.shim.state.gate.last_data.set(self.host.now.0);
            }
            self.host.receive(0, Segment { timestamps: Some((1, self.tsval)), flags, ..data(self.seq, MSS) });
            self.seq += MSS;
        }
    }

    /// The length of its path, us, by what its debts are booked with.
    fn path(&self) -> u64 {
        // Of full frames, a sixty-fourth is not counted.
        (self.host.booked_with(0) << 20) / (GIGABIT - GIGABIT / 64) / 1_000
    }

    /// What its handshake, or what has corrected it, took, us.
    fn handshake(&self) -> u32 {
        self.host.shim.state.flows[0].rtt.get() / 1_000
    }
}

fn near(seen: u64, wanted: u64) -> bool {
    seen.abs_diff(wanted) <= 2
}

#[test]
fn a_path_that_has_become_longer_is_believed_after_eight_round_trips_in_a_row() {
    let mut stream = Stream::over(Span::micros(100));
    assert!(near(stream.path(), 100), "{} us", stream.path());
    stream.take(7, Span::millis(6));
    assert!(near(stream.path(), 100), "{} us", stream.path());
    stream.take(1, Span::millis(5));
    assert!(near(stream.path(), 5_000), "the least of them: {} us", stream.path());
    // And becomes longer again.
    stream.take(8, Span::millis(20));
    assert!(near(stream.path(), 20_000), "{} us", stream.path());
    stream.take(1, Span::micros(100));
    assert!(near(stream.path(), 100), "one is enough to show that it is not: {} us", stream.path());
}

#[test]
fn one_round_trip_in_between_says_that_the_path_is_as_it_was() {
    let mut stream = Stream::over(Span::micros(100));
    for _ in 0..4 {
        stream.take(1, Span::micros(100));
        stream.take(7, Span::millis(5));
    }
    assert!(near(stream.path(), 100), "{} us", stream.path());
}

#[test]
fn as_long_as_the_link_is_busy_what_comes_late_may_have_stood_in_the_queue() {
    // However long: the link may have become slower than it ever was.
    let mut stream = Stream { busy: true, ..Stream::over(Span::micros(100)) };
    stream.take(40, Span::millis(20));
    assert!(near(stream.path(), 100), "{} us", stream.path());
    stream.busy = false;
    stream.take(8, Span::millis(20));
    assert!(near(stream.path(), 20_000), "{} us", stream.path());
}

/// The length of a path, us, of 100 us, once round trips over it took so long on an idle link, which brings so much at most; the port holds so much.
fn path_after(rtt: Span, peak: u64, buffer: u64) -> u64 {
    let mut stream = Stream::of(Host::new(Config { rate_mbps: 1_000, ..Config::credit(buffer) }), Span::micros(100));
    stream.peak = peak;
    stream.take(16, rtt);
    stream.path()
}

#[test]
fn hosts_may_be_late_by_half_of_what_a_full_port_takes() {
    // 96 KB take 768 us, and what shallow ports hold, 590.
    assert!(near(path_after(Span::micros(380), GIGABIT, 96_000), 100));
    assert!(near(path_after(Span::micros(600), GIGABIT, 96_000), 600));
    // A tenth of the link as it was told.
    assert!(near(path_after(Span::millis(1), GIGABIT / 10, 96_000), 100));
    // No more than 2 ms: 16 MB take 128.
    assert!(near(path_after(Span::millis(2), GIGABIT, 16_000_000), 100));
    assert!(near(path_after(Span::micros(2_200), GIGABIT, 16_000_000), 2_200));
}

#[test]
fn a_sender_that_had_room_was_not_waiting_for_us() {
    // With a push each time: a sender of which windows are small says so in the middle, too.
    let path = |room, flags| {
        let mut stream = Stream { room, ..Stream::over(Span::micros(100)) };
        stream.take_with(40, Span::millis(5), flags);
        stream.path()
    };
    for flags in [Flags::ACK, Flags::ACK | Flags::PSH] {
        assert!(near(path(0, flags), 5_000) && near(path(MSS - 1, flags), 5_000));
        assert!(path(MSS, flags) < 110, "it had room for a segment, and no more to send, or what it sent was lost");
    }
}

#[test]
fn a_sender_that_pauses_between_messages_makes_no_path_longer() {
    let path = |message: u64| {
        let mut stream = Stream::over(Span::micros(100));
        stream.host.shim.state.flows[0].flags.lower(state::flag::ASKS);
        for _ in 0..40 {
            stream.host.shim.state.gate.largest_message.set(message);
            stream.take(1, Span::millis(5));
        }
        stream.path()
    };
    assert!(path(5_000) < 110, "one ends where its window does");
    assert!(near(path(0), 5_000), "nobody sends messages here");
}

/// Whether a flow that was asked still counts as such when it goes on after a pause of 5 ms. Before it came 500 bytes with a push, up to the end of the
/// window that its sender knew; they echo the ACK that moved that on, or the one before.
fn still_asked(echo: u32) -> bool {
    let stamped = |tsval, tsecr, segment: Segment| Segment { timestamps: Some((tsval, tsecr)), ..segment };
    let mut host = guard();
    host.reach(0, Span::micros(100));
    host.ack(0, 1);
    host.send(0, stamped(10, 1, request(1)));
    host.now += Span::micros(100);
    host.receive(0, stamped(1, 10, data(1, MSS)));
    host.shim.state.flows[0].flags.raise(state::flag::ASKS);
    let edge = 1 + MSS + 500;
    host.shim.state.flows[0].edge.set(edge);
    host.send(0, stamped(11, 1, pure_ack(1 + MSS)));
    assert!(host.shim.state.flows[0].edge.get() > edge + MSS);
    host.receive(0, stamped(1, echo, Segment { flags: Flags::ACK | Flags::PSH, ..data(1 + MSS, 500) }));
    host.now += Span::millis(5);
    host.receive(0, stamped(2, 11, data(edge, MSS)));
    host.shim.state.flows[0].flags.any(state::flag::ASKS)
}

#[test]
fn a_window_that_its_sender_had_used_up_ends_no_response() {
    assert!(still_asked(10), "it had not heard of the next one yet");
    assert!(!still_asked(11), "it had room, and no more to send");
}

#[test]
fn the_first_segment_of_an_answer_makes_no_path_longer() {
    for config in [Config::credit(96_000), Config::new(96_000)] {
        let mut stream = Stream::of(Host::new(Config { rate_mbps: 1_000, ..config }), Span::micros(100));
        for _ in 0..40 {
            stream.take_with(1, Span::micros(100), Flags::ACK | Flags::PSH);
            stream.host.send(0, request(stream.seq));
            stream.take(1, Span::millis(5));
        }
        assert_eq!(stream.handshake(), 100, "servers think");
        assert_eq!(stream.host.shim.gate().longer_run.get(), 0);
    }
}

#[test]
fn a_search_that_has_just_overflowed_the_port_makes_no_path_longer() {
    let auto = Config { rate_mbps: 1_000, auto: true, ..Config::credit(96_000) };
    let mut stream = Stream::of(Host::new(auto), Span::micros(100));
    stream.host.shim.state.gate.think_after.set(stream.host.now.0 + Span::secs(1).0);
    stream.take(40, Span::millis(5));
    assert!(near(stream.path(), 100), "{} us", stream.path());
    stream.host.now += Span::secs(1);
    stream.take(8, Span::millis(5));
    assert!(near(stream.path(), 5_000), "{} us", stream.path());
}

#[test]
fn what_may_have_waited_for_a_timer_after_a_loss_makes_no_path_longer() {
    // With a given buffer, shorter round trips count all the same; where timers are short, none do.
    let path = |rtt, own_timer| {
        let mut stream = Stream::over(Span::micros(100));
        stream.host.shim.state.gate.own_timer.set(own_timer);
        stream.host.shim.state.gate.think_after.set(stream.host.now.0 + Span::secs(60).0);
        stream.take(8, rtt);
        stream.path()
    };
    assert!(near(path(Span::millis(200), 0), 100));
    assert!(near(path(Span::millis(5), 0), 5_000));
    assert!(near(path(Span::millis(5), Span::millis(1).0), 100));
}

#[test]
fn where_all_paths_have_become_longer_one_round_trip_is_enough() {
    let all = |run: u32| {
        let stream = Stream::over(Span::micros(100));
        let gate = &stream.host.shim.state.gate;
        gate.longer_run.set(run);
        gate.longer.set(5_000_000);
        stream
    };
    let path = |mut stream: Stream, rtt| {
        stream.take(1, rtt);
        stream.path()
    };
    assert!(near(path(all(16), Span::millis(6)), 6_000));
    assert!(near(path(all(16), Span::millis(50)), 10_000), "not much longer than others'");
    assert!(near(path(all(14), Span::millis(6)), 100));
    // A round trip that is no longer says that not all have.
    let mut stream = all(16);
    stream.take(1, Span::micros(100));
    assert!(near(path(stream, Span::millis(6)), 100));
    // What has become longer does so again by itself.
    let mut stream = all(16);
    stream.take(8, Span::millis(6));
    assert!(near(stream.path(), 6_000));
    stream.take(7, Span::millis(20));
    assert!(near(stream.path(), 6_000), "{} us", stream.path());
}

#[test]
fn round_trips_of_many_flows_tell_together() {
    let mut stream = Stream::over(Span::micros(100));
    stream.take(7, Span::millis(5));
    let gate = stream.host.shim.gate();
    assert_eq!(gate.longer_run.get(), 7);
    assert!(near(u64::from(gate.longer.get()) / 1_000, 5_000));
}

#[test]
fn all_flows_forget_at_once_that_their_paths_have_become_longer() {
    let forgotten = |until: u64| {
        let mut stream = Stream::over(Span::micros(100));
        stream.take(8, Span::millis(5));
        assert!(near(stream.path(), 5_000));
        stream.host.now = Time(until);
        stream.host.send(0, pure_ack(stream.seq));
        stream.path()
    };
    assert!(near(forgotten(FORGETS - 1), 5_000));
    assert!(near(forgotten(FORGETS), 100), "what they queue themselves makes no path longer and longer");
}

#[test]
fn a_path_that_has_become_shorter_is_believed_at_once() {
    let mut stream = Stream::over(Span::millis(5));
    stream.take(1, Span::micros(1_300));
    assert_eq!(stream.handshake(), 5_000, "there are short ones now and then");
    stream.take(1, Span::micros(1_200));
    assert!(near(stream.handshake().into(), 1_200), "{} us", stream.handshake());
    stream.take(1, Span::micros(300));
    stream.take(1, Span::micros(200));
    stream.take(1, Span::micros(900));
    assert!(near(stream.handshake().into(), 200), "from then on the least counts");
    assert!(near(stream.path(), 200), "although the least handshake of late took 5 ms: {} us", stream.path());
}

/// The model of the sender's window, in segments, after so many segments have come behind one that is missing, each acknowledged.
fn window_after(behind: u32) -> u32 {
    let mut host = Host::new(config());
    host.connect(0);
    host.send(0, request(1));
    host.shim.state.flows[0].window.set(20 * MSS);
    for n in 0..behind {
        host.data(0, 1 + (n + 1) * MSS, MSS);
        host.ack(0, 1);
    }
    host.shim.state.flows[0].window.get() / MSS
}

#[test]
fn a_sender_reduces_its_window_at_the_third_duplicate() {
    // RFC 5681 section 3.2: what comes before may be out of order.
    assert_eq!([1, 2, 3, 4, 9].map(window_after), [20, 20, 10, 10, 10]);
}

#[test]
fn what_stands_in_the_queue_beside_other_traffic_makes_no_path_longer() {
    let path = |seen: u32, search: bool, rtt: Span| {
        let config = Config { rate_mbps: 1_000, auto: search, ..Config::credit(96_000) };
        let mut stream = Stream::of(Host::new(config), Span::micros(100));
        stream.host.shim.state.gate.other_seen.set(seen);
        // So that nobody looks again meanwhile.
        stream.host.shim.state.gate.other_looked.set(u64::MAX / 2);
        stream.take(8, rtt);
        stream.path()
    };
    for search in [false, true] {
        assert!(near(path(0, search, Span::micros(1_000)), 1_000), "nobody else is there");
        assert!(near(path(9, search, Span::micros(1_000)), 1_000), "nor anybody worth mentioning");
        assert!(path(300, search, Span::micros(1_000)) < 110, "a full port takes 0.7 ms");
        assert!(near(path(300, search, Span::millis(5)), 5_000), "no port explains that");
    }
}
