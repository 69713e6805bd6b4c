//! The guard on a real interface: two namespaces joined by a pair of virtual devices, real TCP between them.
//!
//! Needs root; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod world;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use ackgate_control::gate::Config;
use ackgate_control::segment::{Flags, Segment};
use ackgate_control::seq::SeqNumber;
use ackgate_control::wire::{Direction, emit};
use ackgate_linux::{Options, Summary, attach, hold};
use world::{DEVICE, RECEIVER_V4, RECEIVER_V6, SENDER_V4, World, flow_key};

fn options(pac: Config) -> Options {
    let buffer = pac.buffer;
    Options { gate: pac, ..Options::new(DEVICE, buffer) }
}

#[test]
fn every_way_to_hold_and_attach_delivers_everything_and_leaves_nothing() {
    let Some(world) = World::new() else { return };
    for (hold, name) in back_ends() {
        for attach in attachments() {
            let before = world.receiver_state();
            let guarded = Options { hold, attach, ..options(Config::new(8_000)) };
            let (summary, ()) = world.guarded(guarded, || {
                world.incast(RECEIVER_V4);
                world.incast(RECEIVER_V6);
            });
            let what = format!("{name}, {attach:?}: {summary:?}");
            assert_eq!(summary.hold, name, "{what}");
            assert!(summary.released > 0, "a small budget must hold something: {what}");
            assert_eq!(summary.lost, 0, "{what}");
            assert_eq!(world.receiver_state(), before, "the device must be as it was: {what}");
        }
    }
}

/// Of an answer.
const BYTES: usize = 150_000;

/// Twelve requests at once from the guarded receiver; each is answered with `BYTES`.
fn pull(world: &World) {
    let listener = world.sender(|| TcpListener::bind((SENDER_V4, 0))).unwrap();
    let address = SocketAddr::new(SENDER_V4.into(), listener.local_addr().unwrap().port());
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..12)
            .map(|_| world.receiver(|| TcpStream::connect_timeout(&address, Duration::from_secs(10))).unwrap())
            .collect();
        for _ in 0..12 {
            let (mut stream, _) = listener.accept().unwrap();
            scope.spawn(move || {
                stream.read_exact(&mut [0; 100]).unwrap();
                stream.write_all(&vec![7; BYTES]).unwrap();
            });
        }
        for mut stream in clients {
            scope.spawn(move || {
                stream.write_all(&[1; 100]).unwrap();
                let mut data = Vec::new();
                stream.read_to_end(&mut data).unwrap();
                assert_eq!(data.len(), BYTES);
            });
        }
    });
}

/// Netfilter's queue sees addresses before they are translated, and tc what stands on the wire.
#[test]
fn what_netfilter_translates_behind_the_queue_is_left_alone() {
    let Some(world) = World::new() else { return };
    if !back_ends().iter().any(|&(choice, _)| choice == hold::Choice::NfQueue) {
        eprintln!("skipped: no netfilter queue here");
        return;
    }
    let queue = || Options { hold: hold::Choice::NfQueue, ..options(Config::credit(20_000)) };
    let (summary, ()) = world.guarded(queue(), || pull(&world));
    assert!(summary.released > 0, "a small budget must hold something: {summary:?}");
    let source = "10.99.0.77";
    let translated = world.receiver(|| {
        let ip = format!("addr add {source}/24 dev {DEVICE}");
        std::process::Command::new("ip").args(ip.split(' ')).status().unwrap();
        let rule = format!("-t nat -A POSTROUTING -o {DEVICE} -p tcp -j SNAT --to-source {source}");
        let writer = ["iptables-legacy", "iptables"].into_iter().map(|name| {
            std::process::Command::new(name).args(rule.split(' ')).status().is_ok_and(|status| status.success())
        });
        writer.into_iter().any(|done| done)
    });
    if !translated {
        eprintln!("skipped: no address translation here");
        return;
    }
    let (summary, ()) = world.guarded(queue(), || pull(&world));
    assert_eq!((summary.held_max, summary.rewritten, summary.lost), (0, 0, 0), "{summary:?}");
}

#[test]
fn an_open_gate_sends_nothing_to_user_space() {
    let Some(world) = World::new() else { return };
    let (summary, ()) = world.guarded(options(Config::new(64 << 20)), || world.incast(RECEIVER_V4));
    assert_eq!((summary.released, summary.held_max, summary.overflow), (0, 0, 0), "{summary:?}");
    assert!(summary.arrivals > 0 && summary.passed > 0, "{summary:?}");
}

#[test]
fn exact_credit_strands_no_sender_that_pushes_unasked() {
    let Some(world) = World::new() else { return };
    for (hold, name) in back_ends() {
        for buffer in [8_000, 96 << 10] {
            let guarded = Options { hold, ..options(Config::credit(buffer)) };
            let (summary, ()) = world.guarded(guarded, || {
                world.incast(RECEIVER_V4);
                world.incast(RECEIVER_V6);
            });
            assert_eq!((summary.hold, summary.lost), (name, 0), "{summary:?}");
        }
    }
}

/// The back-ends that can be tried here.
/// The ways to attach that this kernel has.
fn attachments() -> Vec<attach::Choice> {
    let report = ackgate_linux::doctor::examine(None);
    let tcx = report.checks.iter().find(|check| check.name == "tcx").unwrap();
    if tcx.finding == ackgate_linux::doctor::Finding::Ok {
        return vec![attach::Choice::Tcx, attach::Choice::Clsact];
    }
    eprintln!("skipped: tcx: {}", tcx.detail);
    vec![attach::Choice::Clsact]
}

fn back_ends() -> Vec<(hold::Choice, &'static str)> {
    let mut all = vec![(hold::Choice::Ring, "ring"), (hold::Choice::Redirect, "redirect")];
    let report = ackgate_linux::doctor::examine(None);
    let queue = report.checks.iter().find(|check| check.name == "nfqueue").unwrap();
    if queue.finding == ackgate_linux::doctor::Finding::Ok {
        all.push((hold::Choice::NfQueue, "nfqueue"));
    } else {
        eprintln!("skipped: nfqueue: {}", queue.detail);
    }
    all
}

/// Frames that are no TCP, or no sense.
fn junk() -> Vec<Vec<u8>> {
    let segment = Segment { flags: Flags::ACK, payload: 200, ..Segment::default() };
    let good = emit(&flow_key(9), &segment, Direction::Ingress);
    let mut frames: Vec<Vec<u8>> = (14..good.len()).step_by(3).map(|length| good[..length].to_vec()).collect();
    for at in 12..good.len().min(80) {
        for bit in 0..8 {
            let mut damaged = good.clone();
            damaged[at] ^= 1 << bit;
            frames.push(damaged);
        }
    }
    let mut fragment = good.clone();
    fragment[20] = 0x20;
    frames.push(fragment);
    for vlan in [10, 3 << 12 | 10] {
        let key = ackgate_control::flow::FlowKey { vlan, ..flow_key(9) };
        frames.push(emit(&key, &segment, Direction::Ingress));
    }
    frames
}

#[test]
fn junk_and_a_flood_of_syns_harm_nobody() {
    let Some(world) = World::new() else { return };
    let syn = Segment { flags: Flags::SYN, seq: SeqNumber(1), window: 1000, mss: 1460, ..Segment::default() };
    let (summary, ()): (Summary, ()) = world.guarded(options(Config::new(20_000)), || {
        world.inject(&junk());
        // Nobody listens on these ports, and nobody answers for these senders: half-open connections pile up.
        let listener = world.receiver(|| TcpListener::bind((RECEIVER_V4, 5001))).unwrap();
        let flood: Vec<Vec<u8>> =
            (0..30_000_u16).map(|port| emit(&flow_key(1024 + port), &syn, Direction::Ingress)).collect();
        world.inject(&flood);
        drop(listener);
        world.incast(RECEIVER_V4);

        let socket = world.receiver(|| UdpSocket::bind((RECEIVER_V4, 0))).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let from = world.sender(|| UdpSocket::bind((SENDER_V4, 0))).unwrap();
        from.send_to(b"untouched", socket.local_addr().unwrap()).unwrap();
        let mut data = [0; 64];
        let (length, _) = socket.recv_from(&mut data).unwrap();
        assert_eq!(&data[..length], b"untouched");
    });
    assert!(summary.malformed > 0 && summary.fragments > 0 && summary.not_tcp > 0, "{summary:?}");
    assert!(
        summary.connections <= u64::from(Config::new(20_000).max_half_open) + 100,
        "a flood is bounded: {summary:?}"
    );
}

#[test]
fn ten_thousand_connections_fit() {
    const CONNECTIONS: usize = 10_000;
    let Some(world) = World::new() else { return };
    if !world::allow_descriptors(2 * CONNECTIONS as u64 + 200) {
        eprintln!("skipped: this process may not open {} descriptors", 2 * CONNECTIONS);
        return;
    }
    let (summary, ()) = world.guarded(options(Config::new(96 << 10)), || {
        let listener = world.receiver(|| TcpListener::bind((RECEIVER_V4, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = std::thread::spawn(move || {
            let mut streams = Vec::new();
            for _ in 0..CONNECTIONS {
                let (mut stream, _) = listener.accept().unwrap();
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                streams.push(stream);
            }
            streams.len()
        });
        let streams = world.sender(|| {
            let connect = |_| {
                let mut stream = TcpStream::connect(address)?;
                stream.write_all(&[1])?;
                Ok(stream)
            };
            (0..CONNECTIONS).map(connect).collect::<std::io::Result<Vec<_>>>()
        });
        assert_eq!(streams.unwrap().len(), CONNECTIONS);
        assert_eq!(accepted.join().unwrap(), CONNECTIONS);
    });
    assert!(summary.connections >= CONNECTIONS as u64 && summary.unguarded == 0, "{summary:?}");
    assert!(summary.peak_rss_kb < 64 << 10 || cfg!(debug_assertions), "{summary:?}");
}
