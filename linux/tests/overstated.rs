//! What the guard says where the port holds less than it was told.
//!
//! Needs root; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod world;

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ackgate_control::gate::Config;
use ackgate_control::segment::{Flags, Segment};
use ackgate_control::seq::SeqNumber;
use ackgate_control::units::Span;
use ackgate_control::wire::{Direction, emit};
use ackgate_linux::{Guard, Notice, Options};
use world::{DEVICE, World, flow_key};

const MSS: u32 = 1448;

/// Our side of each connection asks for something; of the answer the second segment is lost and comes again later.
fn lose_of_answers(world: &World, ports: impl Iterator<Item = u16>) {
    let keys: Vec<_> = ports.map(flow_key).collect();
    let frames =
        |segment: Segment, direction| keys.iter().map(|key| emit(key, &segment, direction)).collect::<Vec<_>>();
    let syn = Segment { flags: Flags::SYN, mss: 1460, wscale: Some(7), window: 64_240, ..Segment::default() };
    let ours = |ack: u32, payload| Segment {
        flags: Flags::ACK,
        seq: SeqNumber(if payload > 0 { 1 } else { 101 }),
        ack: SeqNumber(ack),
        window: 502,
        payload,
        ..Segment::default()
    };
    let theirs = |seq: u32, payload| Segment { seq: SeqNumber(seq), ack: SeqNumber(101), ..ours(101, payload) };
    world.emit(&frames(syn, Direction::Egress));
    world.inject(&frames(Segment { flags: Flags::SYN | Flags::ACK, ack: SeqNumber(1), ..syn }, Direction::Ingress));
    world.emit(&frames(Segment { seq: SeqNumber(1), ..ours(1, 0) }, Direction::Egress));
    let asks = Flags(Flags::ACK.0 | Flags::PSH.0);
    world.emit(&frames(Segment { flags: asks, ..ours(1, 100) }, Direction::Egress));
    world.inject(&frames(theirs(1, MSS), Direction::Ingress));
    world.emit(&frames(ours(1 + MSS, 0), Direction::Egress));
    world.inject(&frames(theirs(1 + 2 * MSS, MSS), Direction::Ingress));
    world.emit(&frames(Segment { sack: true, ..ours(1 + MSS, 0) }, Direction::Egress));
    std::thread::sleep(Duration::from_millis(20));
    world.inject(&frames(theirs(1 + MSS, MSS), Direction::Ingress));
}

/// What a guard that is told 1 MB says within so long, or until it has said something and three seconds more.
fn told(observe: bool, most: Duration) -> Option<Vec<Notice>> {
    let world = World::new()?;
    let gate = Config { rate_mbps: 1_000, ..Config::credit(1_000_000) };
    let options = Options { gate, observe, step_aside: None, ..Options::new(DEVICE, 1_000_000) };
    let done = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut ports = (10_000..60_000).cycle();
            while !done.load(Ordering::Relaxed) {
                lose_of_answers(&world, ports.by_ref().take(10));
            }
        });
        let told = world.receiver(|| {
            let (stop, _keep) = UnixStream::pair().unwrap();
            let mut guard = Guard::start(options).unwrap();
            let mut told: Vec<Notice> = Vec::new();
            let mut until = Instant::now() + most;
            while Instant::now() < until {
                guard.run(ackgate_linux::now() + Span::millis(100), stop.as_fd()).unwrap();
                told.append(&mut guard.notices());
                if told.len() == 1 {
                    until = until.min(Instant::now() + Duration::from_secs(3));
                }
            }
            assert!(guard.snapshot().lost_segments >= 8);
            let _ = guard.stop();
            told
        });
        done.store(true, Ordering::Relaxed);
        told
    });
    Some(told)
}

#[test]
fn a_buffer_that_is_given_too_large_is_told_once() {
    let Some(told) = told(false, Duration::from_secs(30)) else { return };
    assert_eq!(told, [Notice::BufferTooLarge { bytes: 1_000_000 }]);
}

#[test]
fn losses_say_nothing_about_the_buffer_where_nothing_is_changed() {
    let Some(told) = told(true, Duration::from_secs(4)) else { return };
    assert_eq!(told, []);
}
