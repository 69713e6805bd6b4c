//! The guard steps aside where nobody answers what it releases, lets everything pass meanwhile, and returns.
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
use ackgate_linux::{Guard, Notice, Options, Snapshot};
use world::{DEVICE, World, flow_key};

/// Connections are opened from outside, our side answers, the peers say a while later that they have heard it, and nothing more comes.
fn open_and_fall_silent(world: &World, ports: impl Iterator<Item = u16>) {
    let syn = Segment { flags: Flags::SYN, mss: 1460, wscale: Some(7), window: 64_240, ..Segment::default() };
    let answer = Segment { flags: Flags::SYN | Flags::ACK, ack: SeqNumber(1), ..syn };
    let heard = Segment { flags: Flags::ACK, seq: SeqNumber(1), ack: SeqNumber(1), window: 502, ..Segment::default() };
    let keys: Vec<_> = ports.map(flow_key).collect();
    let frames = |segment, direction| keys.iter().map(|key| emit(key, segment, direction)).collect::<Vec<_>>();
    world.inject(&frames(&syn, Direction::Ingress));
    world.emit(&frames(&answer, Direction::Egress));
    std::thread::sleep(Duration::from_millis(100));
    world.inject(&frames(&heard, Direction::Ingress));
}

#[test]
fn a_guard_that_nobody_answers_steps_aside_and_returns() {
    let Some(world) = World::new() else { return };
    let options =
        Options { gate: Config::credit(8_000), step_aside: Some(Span::secs(2)), ..Options::new(DEVICE, 8_000) };
    let done = AtomicBool::new(false);
    let (told, aside, later) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut ports = (10_000..60_000).cycle();
            while !done.load(Ordering::Relaxed) {
                // More at once than the budget has room for.
                open_and_fall_silent(&world, ports.by_ref().take(50));
            }
        });
        let outcome = world.receiver(|| {
            let (stop, _keep) = UnixStream::pair().unwrap();
            let mut guard = Guard::start(options).unwrap();
            let mut told: Vec<Notice> = Vec::new();
            let mut aside: Vec<Snapshot> = Vec::new();
            let until = Instant::now() + Duration::from_secs(60);
            while !told.contains(&Notice::Returned) && Instant::now() < until {
                guard.run(ackgate_linux::now() + Span::millis(100), stop.as_fd()).unwrap();
                told.append(&mut guard.notices());
                if !told.is_empty() {
                    aside.push(guard.snapshot());
                }
            }
            // It guards again: something waits again sooner or later.
            let mut later = guard.snapshot();
            while later.held == 0 && Instant::now() < until {
                guard.run(ackgate_linux::now() + Span::millis(1), stop.as_fd()).unwrap();
                later = guard.snapshot();
            }
            let _ = guard.stop();
            (told, aside, later)
        });
        done.store(true, Ordering::Relaxed);
        outcome
    });
    assert!(matches!(told[..], [Notice::SteppedAside { seconds: 2, .. }, Notice::Returned]), "{told:?}");
    // The last one is of after its return.
    let aside = &aside[1..aside.len() - 1];
    assert!(aside.len() > 5 && aside.iter().all(|snapshot| snapshot.held == 0), "{aside:?}");
    let (first, last) = (aside.first().unwrap(), aside.last().unwrap());
    assert!(last.passed > first.passed && last.released == first.released, "{first:?} {last:?}");
    assert!(later.held > 0, "{later:?}");
}
