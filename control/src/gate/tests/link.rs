//! What the link carries, where the rate that was given is not true.

use super::*;

/// Full frames from some flows by turns.
struct Stream {
    host: Host,
    next: [u32; 4],
}

impl Stream {
    /// So many connections behind a port that is said to carry 10 Gb/s.
    fn new(flows: u32) -> Self {
        let mut host = Host::new(Config { rate_mbps: 10_000, ..Config::credit(96_000) });
        for flow in 0..flows {
            host.connect(flow);
            host.send(flow, request(1));
        }
        Self { host, next: [1; 4] }
    }

    /// Lets frames arrive at this rate, for so long.
    fn arrive(&mut self, flows: u32, mbps: u64, span: Span) {
        let (until, gap) = (self.host.now + span, Span::nanos(1538 * 8 * 1000 / mbps));
        for flow in (0..flows).cycle() {
            if self.host.now >= until {
                break;
            }
            let next = &mut self.next[flow as usize];
            self.host.data(flow, *next, MSS);
            *next += MSS;
            self.host.ack(flow, *next);
            self.host.wait(gap);
        }
    }

    /// A frame of the flow is lost, which shows by the next, and is sent again after a round trip of 20 ms.
    fn lose(&mut self, flow: u32) {
        let lost = self.next[flow as usize];
        self.host.data(flow, lost + MSS, MSS);
        self.host.ack(flow, lost);
        self.host.wait(Span::millis(20));
        self.host.data(flow, lost, MSS);
        self.next[flow as usize] = lost + 2 * MSS;
        self.host.ack(flow, lost + 2 * MSS);
    }

    /// What the link is reckoned with, Mb/s.
    fn mbps(&self) -> u64 {
        decision::link_rate(&self.host.shim.rules, self.host.shim.gate()) * 8 / 1_000_000
    }
}

#[test]
fn a_rate_that_is_ten_times_too_much_is_belied_by_losses() {
    let mut stream = Stream::new(3);
    stream.arrive(3, 1000, Span::millis(250));
    assert_eq!(stream.mbps(), 10_000, "nothing speaks against it");
    stream.lose(0);
    stream.arrive(3, 1000, Span::millis(150));
    assert!((1000..1300).contains(&stream.mbps()), "{}", stream.mbps());
    // What arrives shows that it carries more.
    stream.arrive(3, 3000, Span::millis(5));
    assert!((3000..4000).contains(&stream.mbps()), "{}", stream.mbps());
    stream.arrive(3, 9000, Span::millis(5));
    assert_eq!(stream.mbps(), 10_000);
}

#[test]
fn what_one_flow_alone_loses_tells_nothing_about_the_link() {
    let mut stream = Stream::new(1);
    stream.arrive(1, 1000, Span::millis(250));
    stream.lose(0);
    stream.arrive(1, 1000, Span::millis(150));
    assert_eq!(stream.mbps(), 10_000);
}

#[test]
fn while_more_and_more_arrives_the_link_has_not_shown_what_it_carries() {
    let mut stream = Stream::new(3);
    for mbps in [10, 100, 1000] {
        stream.arrive(3, mbps, Span::millis(20));
        stream.lose(0);
        stream.arrive(3, mbps, Span::millis(70));
        assert_eq!(stream.mbps(), 10_000, "up to {mbps} Mb/s");
    }
}

#[test]
fn data_that_comes_when_its_debt_has_been_voided_belies_the_rate() {
    let mut stream = Stream::new(3);
    stream.arrive(3, 1000, Span::millis(250));
    stream.lose(0);
    let belied = |stream: &Stream| stream.host.shim.gate().belied.get();
    let before = belied(&stream);
    let flow = &stream.host.shim.state.flows[1];
    assert!(flow.owed.get() > 0);
    stream.host.now += Span::millis(20);
    assert!(decision::void_if_silent(&stream.host.shim.rules, stream.host.shim.gate(), flow, stream.host.now));
    stream.host.data(1, stream.next[1], MSS);
    assert_eq!(belied(&stream), before + 1);
    // Once, and not for what is asked for anew.
    stream.host.data(1, stream.next[1] + MSS, MSS);
    assert_eq!(belied(&stream), before + 1);
}

#[test]
fn what_fills_the_port_shows_its_rate_however_long_round_trips_are() {
    let mut stream = Stream::new(3);
    let rtt = Span::millis(20);
    for flow in 0..3 {
        stream.host.make_path(flow, rtt);
    }
    stream.host.shim.gate().mean_rtt.set(rtt.0);
    for _ in 0..15 {
        stream.arrive(3, 1000, Span::millis(2));
        stream.host.wait(Span::millis(18));
    }
    stream.lose(0);
    for _ in 0..8 {
        stream.arrive(3, 1000, Span::millis(2));
        stream.host.wait(Span::millis(18));
    }
    assert!(
        (1000..1300).contains(&stream.mbps()),
        "{} Mb/s, where a tenth of that comes in a round trip",
        stream.mbps()
    );
}
