//! Guards that are off the device until segments are lost.
//!
//! Needs root; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod world;

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use ackgate_control::gate::Config;
use ackgate_control::units::Span;
use ackgate_linux::{Follow, Guard, Options, attach};
use world::{DEVICE, RECEIVER_V4, SENDER_DEVICE, World};

fn options(follow: Follow) -> Options {
    Options { gate: Config::credit(8_000), follow, ..Options::new(DEVICE, 8_000) }
}

/// Runs a guard for so long, or until it is as it should be; says whether it is.
fn run_until(guard: &mut Guard, longest: Duration, is: impl Fn(&Guard) -> bool) -> bool {
    let (stop, _keep) = UnixStream::pair().unwrap();
    let end = Instant::now() + longest;
    while !is(guard) && Instant::now() < end {
        guard.run(ackgate_linux::now() + Span::millis(10), stop.as_fd()).unwrap();
    }
    is(guard)
}

fn is_awake(guard: &Guard) -> bool {
    guard.snapshot().dormant == 0
}

/// The programs at the receiver's device, and all else there.
fn state(world: &World) -> (Vec<String>, String) {
    (world.receiver(|| attach::tcx_programs(DEVICE)).unwrap(), world.receiver_state())
}

#[test]
fn a_guard_is_off_the_device_until_segments_are_lost() {
    let Some(world) = World::new() else { return };
    let shallow = format!("qdisc add dev {SENDER_DEVICE} root tbf rate 50mbit burst 4kb limit 6kb");
    let limited = world.sender(|| Command::new("tc").args(shallow.split(' ')).status().unwrap().success());
    assert!(limited, "tc {shallow}");
    let before = state(&world);
    world.receiver(|| {
        let mut guard = Guard::start(options(Follow::AfterLoss)).unwrap();
        assert!(!run_until(&mut guard, Duration::from_millis(300), is_awake));
        assert_eq!((guard.snapshot().dormant, state(&world)), (1, before.clone()));
        std::thread::scope(|scope| {
            let load = scope.spawn(|| world.incast(RECEIVER_V4));
            assert!(run_until(&mut guard, Duration::from_secs(20), is_awake), "nothing wakes it");
            assert_ne!(state(&world), before);
            run_until(&mut guard, Duration::from_secs(20), |_| load.is_finished());
            load.join().unwrap();
        });
        let now = guard.snapshot();
        assert!(now.dormant == 0 && now.arrivals > 0 && now.passed > 0, "{now:?}");
        let _ = guard.stop();
    });
    assert_eq!(state(&world), before);
}

#[test]
fn a_reload_puts_a_dormant_guard_on_the_device() {
    let Some(world) = World::new() else { return };
    let before = state(&world);
    world.receiver(|| {
        let mut guard = Guard::start(options(Follow::AfterLoss)).unwrap();
        let change = guard.prepare(options(Follow::Always)).unwrap().load().unwrap();
        guard.adopt(change).unwrap();
        assert!(run_until(&mut guard, Duration::from_secs(5), is_awake));
        assert_ne!(state(&world), before);
        world.incast(RECEIVER_V4);
        assert!(guard.snapshot().arrivals > 0);
        let _ = guard.stop();
    });
    assert_eq!(state(&world), before);
}

#[test]
fn a_guard_is_never_dormant_where_others_are_behind_it() {
    let Some(world) = World::new() else { return };
    let dormant = |forwarding: &str| {
        world.receiver(|| {
            std::fs::write(format!("/proc/sys/net/ipv4/conf/{DEVICE}/forwarding"), forwarding).unwrap();
            let guard = Guard::start(options(Follow::AfterLoss)).unwrap();
            let dormant = guard.snapshot().dormant;
            let _ = guard.stop();
            dormant
        })
    };
    assert_eq!((dormant("0"), dormant("1")), (1, 0));
}
