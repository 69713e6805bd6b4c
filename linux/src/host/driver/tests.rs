use std::cell::RefCell;
use std::rc::Rc;

use ackgate_control::seq::SeqNumber;
use ackgate_control::units::Rate;
use ackgate_control::wire::{Checksum, Meta, complete_checksum, emit, parse};
use ackgate_control::{hwatch, resend, shaper};

use super::super::frame::record;
use super::*;

const MAX_HOLD: Span = Span::millis(100);

/// What a [`Toy`] was told, in words.
type Log = Rc<RefCell<Vec<String>>>;

/// Holds pure ACKs until it is asked to let go, drops FINs, halves windows of data that leaves, and clears ECN-Echo of
/// what arrives.
struct Toy {
    log: Log,
    held: Vec<PacketId>,
    open: Rc<RefCell<bool>>,
}

impl Policy for Toy {
    fn handle_ingress(&mut self, now: Time, flow: FlowId, segment: &Segment) -> Edit {
        self.log.borrow_mut().push(format!("in {} {} {}", now.0, flow.0, segment.seq.0));
        Edit { ece: Some(false), ..Edit::NONE }
    }

    fn handle_egress(&mut self, now: Time, flow: FlowId, segment: &Segment, packet: PacketId) -> Verdict {
        self.log.borrow_mut().push(format!("out {} {} {}", now.0, flow.0, segment.ack.0));
        if segment.flags.has(Flags::FIN) {
            return Verdict::Discard;
        }
        if segment.is_pure_ack() {
            self.held.push(packet);
            return Verdict::Hold;
        }
        Verdict::Pass(Edit { window: Some(segment.window / 2), ..Edit::NONE })
    }

    fn handle_forgotten(&mut self, flow: FlowId) {
        self.log.borrow_mut().push(format!("forgotten {}", flow.0));
    }

    fn poll_action(&mut self, _: Time) -> Option<Action> {
        if !*self.open.borrow() {
            return None;
        }
        let packet = self.held.pop()?;
        Some(Action::Release(packet, Edit { window: Some(7), ..Edit::NONE }))
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

struct World {
    driver: Driver,
    log: Log,
    open: Rc<RefCell<bool>>,
}

fn driver(policy: Box<dyn Policy>) -> Driver {
    let mut driver = Driver::new(policy, MAX_HOLD, Histogram::new_with_bounds(1, 60_000_000, 2).unwrap());
    driver.turn(Time::ZERO);
    driver
}

fn world() -> World {
    let (log, open) = (Log::default(), Rc::new(RefCell::new(false)));
    let toy = Toy { log: Rc::clone(&log), held: Vec::new(), open: Rc::clone(&open) };
    World { driver: driver(Box::new(toy)), log, open }
}

fn key(port: u16) -> FlowKey {
    let address = |last| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last];
    FlowKey { local: address(1), remote: address(2), local_port: 80, remote_port: port, vlan: 0 }
}

fn segment(flags: Flags, ack: u32, payload: u32) -> Segment {
    Segment { flags, ack: SeqNumber(ack), window: 1000, payload, ..Segment::default() }
}

fn egress(driver: &mut Driver, at: u64, segment: &Segment) {
    driver.handle(&record(0, Time(at), &emit(&key(9), segment, Direction::Egress), 0, None));
}

fn ingress(driver: &mut Driver, what: u8, at: u64, segment: &Segment) {
    driver.handle(&record(what, Time(at), &emit(&key(9), segment, Direction::Ingress), 0, None));
}

/// What left, each as acknowledgement and window.
fn sent(driver: &mut Driver) -> Vec<(u32, u16)> {
    let told = |bytes: Vec<u8>| {
        let frame = &bytes[10..];
        let segment = parse(frame, &Meta::whole(frame), Direction::Egress).unwrap().segment;
        (segment.ack.0, segment.window)
    };
    driver.out.drain(..).map(told).collect()
}

#[test]
fn connections_of_several_paths_are_left_alone() {
    let World { mut driver, log, .. } = world();
    let multipath = |segment: &Segment, direction| {
        let mut frame = emit(&key(9), &Segment { timestamps: Some((1, 2)), ..*segment }, direction);
        let layout = parse(&frame, &Meta::whole(&frame), direction).unwrap().layout;
        let at = layout.tcp + 20 + frame[layout.tcp + 20..].iter().position(|&byte| byte == 8).unwrap();
        // MPTCP's kind, of the same length as timestamps.
        frame[at] = 30;
        frame
    };
    driver.handle(&record(0, Time(1), &multipath(&segment(Flags::SYN, 0, 0), Direction::Egress), 0, None));
    driver.handle(&record(
        1,
        Time(2),
        &multipath(&segment(Flags::SYN | Flags::ACK, 1, 0), Direction::Ingress),
        0,
        None,
    ));
    driver.handle(&record(0, Time(3), &multipath(&segment(Flags::ACK, 1, 0), Direction::Egress), 0, None));
    assert_eq!(sent(&mut driver), [(0, 1000), (1, 1000)], "windows as TCP wrote them, nothing held");
    assert_eq!(driver.inward.len(), 1);
    assert!(log.borrow().is_empty(), "the policy sees nothing of it: {:?}", log.borrow());
    let counts = driver.counts();
    assert_eq!((counts.multipath, counts.passed, counts.edited, counts.held), (3, 2, 0, 0));
}

#[test]
fn verdicts_are_carried_out() {
    let World { mut driver, open, .. } = world();
    egress(&mut driver, 1, &segment(Flags::SYN | Flags::ACK, 1, 0));
    egress(&mut driver, 2, &segment(Flags::ACK, 2, 0));
    egress(&mut driver, 3, &segment(Flags::ACK, 3, 100));
    egress(&mut driver, 4, &segment(Flags::ACK | Flags::FIN, 4, 0));
    assert_eq!(sent(&mut driver), [(1, 500), (3, 500)], "one waits, one is dropped, two have half their window");
    *open.borrow_mut() = true;
    egress(&mut driver, 5, &segment(Flags::ACK, 5, 0));
    assert_eq!(sent(&mut driver), [(5, 7), (2, 7)], "held ones leave in the policy's order");
    let counts = driver.counts();
    assert_eq!((counts.passed, counts.released, counts.discarded, counts.held, counts.held_max), (2, 2, 1, 0, 2));
}

#[test]
fn what_arrives_is_shown_in_order_and_put_back_only_if_it_was_taken() {
    let World { mut driver, log, .. } = world();
    egress(&mut driver, 5, &segment(Flags::SYN, 0, 0));
    ingress(&mut driver, 2, 7, &segment(Flags::ACK | Flags::ECE, 0, 10));
    assert!(driver.inward.is_empty(), "it has arrived already");
    ingress(&mut driver, 1, 6, &segment(Flags::ACK | Flags::ECE, 0, 10));
    let frame = driver.inward.pop().unwrap();
    let seen = parse(&frame[10..], &Meta::whole(&frame[10..]), Direction::Ingress).unwrap();
    assert_eq!(seen.segment.flags, Flags::ACK, "with the policy's change");
    assert_eq!(*log.borrow(), ["out 5 0 0", "in 7 0 0", "in 7 0 0"], "time never goes backwards");
}

#[test]
fn nothing_is_held_for_longer_than_allowed() {
    let World { mut driver, open, .. } = world();
    egress(&mut driver, 0, &segment(Flags::SYN, 0, 0));
    for n in 1..4 {
        egress(&mut driver, n, &segment(Flags::ACK, 10 + n as u32, 0));
    }
    driver.turn(Time(1 + MAX_HOLD.0));
    assert_eq!(sent(&mut driver)[1..], [(11, 1000)], "the oldest, as it is");
    assert_eq!(driver.timeout(), Time(2 + MAX_HOLD.0), "and the next one then");
    driver.turn(Time(3 + MAX_HOLD.0));
    assert_eq!(sent(&mut driver), [(12, 1000), (13, 1000)]);
    // The policy lets go of what has left long ago: nothing happens, and the handles can be used again.
    *open.borrow_mut() = true;
    driver.turn(Time(4 + MAX_HOLD.0));
    assert_eq!((sent(&mut driver).len(), driver.counts().held, driver.counts().forced), (0, 0, 3));
    egress(&mut driver, 5 + MAX_HOLD.0, &segment(Flags::ACK, 20, 0));
    assert_eq!(sent(&mut driver), [(20, 7)]);
}

#[test]
fn all_that_is_held_leaves_at_the_end() {
    let World { mut driver, .. } = world();
    egress(&mut driver, 0, &segment(Flags::SYN, 0, 0));
    for n in 1..4 {
        egress(&mut driver, n, &segment(Flags::ACK, n as u32, 0));
    }
    driver.release_all(Time(9));
    assert_eq!(sent(&mut driver)[1..], [(1, 1000), (2, 1000), (3, 1000)]);
}

#[test]
fn strangers_pass_untouched_and_old_connections_are_forgotten() {
    let World { mut driver, log, .. } = world();
    ingress(&mut driver, 1, 1, &segment(Flags::ACK | Flags::ECE, 5, 10));
    let frame = driver.inward.pop().unwrap();
    assert_eq!(frame[10..], emit(&key(9), &segment(Flags::ACK | Flags::ECE, 5, 10), Direction::Ingress)[..]);
    egress(&mut driver, 2, &segment(Flags::RST, 5, 0));
    assert_eq!(sent(&mut driver), [(5, 1000)], "what does not begin or go on is nobody's");
    assert!(log.borrow().is_empty(), "the policy hears of neither");
    egress(&mut driver, 3, &segment(Flags::SYN, 0, 0));
    driver.turn(Time(3) + Span::secs(7));
    assert_eq!(log.borrow().last().unwrap(), "forgotten 0");
    assert_eq!(driver.connections(), 0);
}

#[test]
fn the_policies_of_control_run_on_it() {
    let mut driver = driver(Box::new(shaper::Shaper::new(shaper::Config { rate: 1000, queue: 10 }).unwrap()));
    egress(&mut driver, 0, &segment(Flags::SYN, 0, 0));
    for n in 1..4 {
        egress(&mut driver, n, &segment(Flags::ACK, n as u32, 0));
    }
    assert_eq!(sent(&mut driver).len(), 2, "the SYN and the first ACK");
    assert_eq!(driver.timeout(), Time(1_000_001), "1000 a second");
    driver.turn(Time(1_000_001));
    assert_eq!(sent(&mut driver), [(2, 1000)]);
}

/// HWatch at both ends: what one sends the other takes, with the network's marks in between.
#[test]
fn probes_find_the_connection_that_they_go_before() {
    let hwatch = |seed| {
        let config = hwatch::Config { seed, ..hwatch::Config::new(Rate(1_000_000_000), Span::millis(1)) };
        driver(Box::new(hwatch::HWatch::new(config).unwrap()))
    };
    let (mut opener, mut acceptor) = (hwatch(1), hwatch(2));
    let opened = FlowKey { local: key(0).remote, remote: key(0).local, local_port: 9, remote_port: 80, vlan: 0 };
    let syn = Segment { flags: Flags::SYN, mss: 1460, wscale: Some(7), window: 64_000, ..Segment::default() };
    opener.handle(&record(0, Time(10), &emit(&opened, &syn, Direction::Egress), 0, None));
    assert!(opener.out.is_empty(), "the SYN waits");
    let mut now = Time(10);
    while opener.counts().held > 0 {
        now = opener.timeout();
        opener.turn(now);
    }
    assert_eq!((opener.out.len(), opener.counts().probes_sent), (11, 10), "ten probes, then the SYN");
    assert!(now.since(Time(10)) <= Span::micros(500));
    let syn_frame = opener.out.pop().unwrap();
    for (n, probe) in opener.out.drain(..).enumerate() {
        let mut probe = probe[10..].to_vec();
        assert_eq!((probe.len(), probe[15]), (34, 2), "an ECN-capable IP header and nothing else");
        probe[15] |= if n < 4 { 1 } else { 0 };
        acceptor.handle(&record(3, now, &probe, 0, None));
    }
    acceptor.handle(&record(1, now, &syn_frame[10..], 0, None));
    assert_eq!((acceptor.counts().probes, acceptor.counts().probes_marked), (10, 4));
    assert_eq!((acceptor.inward.len(), acceptor.connections()), (1, 1), "one connection, known by its whole address");
    let accepted = FlowKey { local: opened.remote, remote: opened.local, local_port: 80, remote_port: 9, vlan: 0 };
    let answer = Segment { flags: Flags::SYN | Flags::ACK, ack: SeqNumber(1), ..syn };
    acceptor.handle(&record(0, now, &emit(&accepted, &answer, Direction::Egress), 0, None));
    acceptor.turn(now + MAX_HOLD);
    let bytes = acceptor.out.pop().unwrap();
    let segment = parse(&bytes[10..], &Meta::whole(&bytes[10..]), Direction::Egress).unwrap().segment;
    assert_eq!(segment.window, 8 * 1460, "the first burst of the batch law: 6 + 4 / 2");
    assert!(segment.flags.has(Flags::ECE), "so that the opener knows");
}

/// The fine timers of `control` with this host's copies: whole frames as they were, of an aggregate the piece that is missing.
#[test]
fn what_is_not_acknowledged_is_sent_again() {
    let mut driver = driver(Box::new(resend::Resend::new(resend::Config::default()).unwrap()));
    egress(&mut driver, 0, &segment(Flags::SYN, 0, 0));
    ingress(&mut driver, 2, 100_000, &segment(Flags::SYN | Flags::ACK, 0, 0));
    let data =
        |seq, payload| Segment { seq: SeqNumber(seq), timestamps: Some((5, 6)), ..segment(Flags::ACK, 7, payload) };
    egress(&mut driver, 200_000, &data(0, 1000));
    let aggregate = emit(&key(9), &data(1000, 2500), Direction::Egress);
    driver.handle(&record(0, Time(200_001), &aggregate, 1000, None));
    let first = driver.out[1].clone();
    driver.out.clear();
    driver.turn(Time(400_000));
    assert!(driver.out.is_empty(), "not before its time");
    driver.turn(driver.timeout());
    assert_eq!(driver.out, [first]);
    driver.out.clear();
    let stamped = Segment { timestamps: Some((70, 80)), ..segment(Flags::ACK, 9, 0) };
    egress(&mut driver, 800_000, &stamped);
    driver.out.clear();
    ingress(&mut driver, 2, 900_000, &segment(Flags::ACK, 1500, 0));
    let mut bytes = driver.out.pop().unwrap();
    let piece = parse(&bytes[10..], &Meta::whole(&bytes[10..]), Direction::Egress).unwrap();
    assert_eq!((piece.segment.seq, piece.segment.payload, &bytes[..10]), (SeqNumber(1500), 1000, &[0; 10][..]));
    assert_eq!(
        (piece.segment.ack, piece.segment.timestamps),
        (SeqNumber(9), Some((70, 80))),
        "no older than what TCP said last"
    );
    assert_eq!(complete_checksum(&mut bytes[10..], &piece.layout), Checksum::Valid);
    ingress(&mut driver, 2, 1_000_000, &segment(Flags::ACK, 3500, 0));
    driver.turn(Time::ZERO + Span::secs(3));
    assert!(driver.out.is_empty() && driver.counts().repeated == 2, "all is acknowledged: {:?}", driver.counts());
}
