//! The generic host on a real interface: two namespaces joined by a pair of virtual devices, real TCP between them.
//!
//! Needs root; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod world;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use ackgate_control::flow::FlowKey;
use ackgate_control::hwatch::{self, HWatch};
use ackgate_control::ictcp::{self, Ictcp};
use ackgate_control::letter::{self, Letter};
use ackgate_control::policy::Policy;
use ackgate_control::segment::{Flags, Segment};
use ackgate_control::shaper::{self, Shaper};
use ackgate_control::units::{Rate, Span};
use ackgate_control::wire::{Direction, emit};
use ackgate_linux::attach;
use ackgate_linux::host::{Options, Summary};
use world::{DEVICE, Place, RECEIVER_V4, RECEIVER_V6, SENDER_DEVICE, SENDER_V4, SENDER_V6, World, flow_key, tshark};

/// Bytes that each sender sends: many aggregates, and an end that fills none.
const BYTES: usize = 300_001;
/// Connections at once.
const SENDERS: u8 = 6;

type Make = fn() -> Box<dyn Policy>;

fn ictcp() -> Box<dyn Policy> {
    Box::new(Ictcp::new(ictcp::Config::new(Rate(1_000_000_000))).unwrap())
}

fn shaper() -> Box<dyn Policy> {
    // Slow enough that most ACKs wait.
    Box::new(Shaper::new(shaper::Config { rate: 4_000, queue: 2_000 }).unwrap())
}

fn letter() -> Box<dyn Policy> {
    Box::new(Letter::new(letter::Config { buffer: 96_000, lambda_permille: 800, demote_at: 20_000 }).unwrap())
}

fn hwatch() -> Box<dyn Policy> {
    let config = hwatch::Config::new(Rate(1_000_000_000), Span::micros(500));
    Box::new(HWatch::new(hwatch::Config { seed: u64::from(std::process::id()), ..config }).unwrap())
}

const SCHEMES: [(&str, Make); 4] = [("ictcp", ictcp), ("shaper", shaper), ("pac-letter", letter), ("hwatch", hwatch)];

fn options(device: &str, attach: attach::Choice) -> Options {
    Options { device: device.into(), max_hold: Span::millis(100), attach }
}

/// What a sender sends: every byte tells where it belongs.
fn content(sender: u8) -> Vec<u8> {
    (0..BYTES).map(|at| (at % 251) as u8 ^ sender).collect()
}

/// Several at once send to a listener at `to` and get the same back; panics unless every byte is as it was sent.
fn exchange(connect: impl Fn(&SocketAddr) -> TcpStream + Sync, listener: &TcpListener) {
    let address = listener.local_addr().unwrap();
    let patience = Some(Duration::from_secs(30));
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let mut stream = connect(&address);
            stream.set_read_timeout(patience).unwrap();
            scope.spawn(move || {
                stream.write_all(&[sender]).unwrap();
                stream.write_all(&content(sender)).unwrap();
                let mut back = vec![0; BYTES];
                stream.read_exact(&mut back).unwrap();
                assert!(back == content(sender), "what came back to {sender} is not what it sent");
            });
        }
        for _ in 0..SENDERS {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(patience).unwrap();
            scope.spawn(move || {
                let mut sender = [0];
                stream.read_exact(&mut sender).unwrap();
                let mut data = vec![0; BYTES];
                stream.read_exact(&mut data).unwrap();
                assert!(data == content(sender[0]), "what came from {} is not what it sent", sender[0]);
                stream.write_all(&data).unwrap();
            });
        }
    });
}

/// An exchange that the sender opens, and one that the receiver opens.
fn both_ways(world: &World, receiver: impl Into<IpAddr>, sender: impl Into<IpAddr>) {
    let patience = Duration::from_secs(10);
    let (receiver, sender) = (receiver.into(), sender.into());
    let listener = world.receiver(|| TcpListener::bind((receiver, 0))).unwrap();
    exchange(|address| world.sender(|| TcpStream::connect_timeout(address, patience)).unwrap(), &listener);
    let listener = world.sender(|| TcpListener::bind((sender, 0))).unwrap();
    exchange(|address| world.receiver(|| TcpStream::connect_timeout(address, patience)).unwrap(), &listener);
}

#[test]
fn every_scheme_moves_every_byte_and_leaves_nothing() {
    let Some(world) = World::new() else { return };
    for (name, make) in SCHEMES {
        for attach in [attach::Choice::Auto, attach::Choice::Clsact] {
            let before = world.receiver_state();
            let (summary, ()) = world.hosted(Place::Receiver, options(DEVICE, attach), make, || {
                both_ways(&world, RECEIVER_V4, SENDER_V4);
                both_ways(&world, RECEIVER_V6, SENDER_V6);
            });
            let what = format!("{name}, {attach:?}: {summary:?}");
            assert_eq!((summary.lost, summary.overflow, summary.malformed), (0, 0, 0), "{what}");
            assert!(summary.arrivals > 0 && summary.passed > 0, "{what}");
            assert_eq!(world.receiver_state(), before, "the device must be as it was: {what}");
            match name {
                "ictcp" => assert!(summary.edited > 0, "windows must have been lowered: {what}"),
                "shaper" => assert!(summary.released > 100, "ACKs must have waited: {what}"),
                "pac-letter" => assert!(summary.released > 100, "ACKs must have waited: {what}"),
                // Nobody answers: only the SYNs wait.
                _ => assert_eq!((summary.released, summary.probes), (u64::from(2 * SENDERS), 0), "{what}"),
            }
        }
    }
}

#[test]
fn every_scheme_leaves_checksums_right() {
    let Some(world) = World::new() else { return };
    world.sum_up_in_software();
    for (name, make) in SCHEMES {
        let choice = attach::Choice::Auto;
        // What the wire carries, and what is put back on its way in.
        let seen = [world.arrivals_at(Place::Receiver), world.arrivals()];
        let (summary, _) = world.hosted(Place::Receiver, options(DEVICE, choice), make, || {
            world.hosted(Place::Sender, options(SENDER_DEVICE, choice), make, || {
                both_ways(&world, RECEIVER_V4, SENDER_V4);
                both_ways(&world, RECEIVER_V6, SENDER_V6);
            })
        });
        assert_eq!(world.checksum_errors(), 0, "{name}: {summary:?}");
        for complaints in seen.iter().filter_map(|arrivals| tshark::complaints(&arrivals.summed_up())) {
            assert!(complaints.is_empty(), "{name}: {complaints:?}");
        }
        assert!(summary.arrivals > 0 && (summary.edited > 0 || name == "shaper" || name == "pac-letter"), "{name}");
    }
}

#[test]
fn tagged_frames_keep_their_tags() {
    let Some(world) = World::new() else { return };
    let key = FlowKey { vlan: 7, ..flow_key(9) };
    let data = Segment { flags: Flags::ACK, payload: 200, ..Segment::default() };
    let (out, back) = (emit(&key, &data, Direction::Egress), emit(&key, &data, Direction::Ingress));
    // The kernel takes the tag out of what is captured.
    let bare = |frame: &[u8]| [&frame[..12], &frame[16..]].concat();
    let wait = Duration::from_millis(200);
    let (summary, ()) = world.hosted(Place::Receiver, options(DEVICE, attach::Choice::Auto), hwatch, || {
        let sent = world.capture(Place::Sender);
        world.emit(std::slice::from_ref(&out));
        assert_eq!(sent.tagged(wait), [(7, bare(&out))], "taken on its way out, and sent");
        let arrived = world.capture(Place::Receiver);
        world.inject(std::slice::from_ref(&back));
        let twice = [(7, bare(&back)), (7, bare(&back))];
        assert_eq!(arrived.tagged(wait), twice, "as it arrives, and as it is put back");
    });
    assert_eq!((summary.arrivals, summary.passed, summary.lost), (1, 1, 0), "{summary:?}");
}

/// HWatch at both ends: each is told of the other's probes, and what they make of the connection changes headers only.
#[test]
fn hwatch_at_both_ends_counts_probes_and_moves_every_byte() {
    let Some(world) = World::new() else { return };
    for (receiver, sender) in
        [(RECEIVER_V4.into(), IpAddr::from(SENDER_V4)), (IpAddr::from(RECEIVER_V6), IpAddr::from(SENDER_V6))]
    {
        let choice = attach::Choice::Auto;
        let (at_receiver, (at_sender, ())) = world.hosted(Place::Receiver, options(DEVICE, choice), hwatch, || {
            world.hosted(Place::Sender, options(SENDER_DEVICE, choice), hwatch, || {
                both_ways(&world, receiver, sender);
            })
        });
        let opened = u64::from(SENDERS);
        let told = |one: &Summary, other: &Summary| {
            assert_eq!(one.probes_sent, 10 * opened, "{one:?}");
            assert_eq!(other.probes, 10 * opened, "{other:?}");
            assert!(one.edited > 0, "frames must have become ECN-capable: {one:?}");
        };
        told(&at_receiver, &at_sender);
        told(&at_sender, &at_receiver);
    }
}

/// A process that was stopped takes nothing once its last sign of life is old, and what it had taken TCP repeats.
#[test]
fn a_stopped_host_lets_everything_pass() {
    let Some(world) = World::new() else { return };
    for (name, make) in [("shaper", shaper as Make), ("hwatch", hwatch)] {
        let stopped = world.stopped_host(options(DEVICE, attach::Choice::Auto), make, || {
            both_ways(&world, RECEIVER_V4, SENDER_V4);
        });
        assert!(stopped.passed < 100, "{name} was not there: {stopped:?}");
    }
}

#[test]
fn other_protocols_pass() {
    let Some(world) = World::new() else { return };
    let (summary, ()) = world.hosted(Place::Receiver, options(DEVICE, attach::Choice::Auto), hwatch, || {
        let socket = world.receiver(|| UdpSocket::bind((RECEIVER_V4, 0))).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let from = world.sender(|| UdpSocket::bind((SENDER_V4, 0))).unwrap();
        from.send_to(b"untouched", socket.local_addr().unwrap()).unwrap();
        let mut data = [0; 64];
        let (length, _) = socket.recv_from(&mut data).unwrap();
        assert_eq!(&data[..length], b"untouched");
    });
    assert!(summary.not_tcp > 0, "{summary:?}");
}
