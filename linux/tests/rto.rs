//! The floor of the retransmission timeout on this kernel: set, seen, and put back. In network namespaces of its own.
//!
//! Needs root; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod world;

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::process::Command;
use std::time::Duration;

use ackgate_linux::{Error, rto};
use world::{RECEIVER_V4, RECEIVER_V6, SENDER_V4, World};

fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_sysctl_lowers_every_timeout_and_reset_brings_it_back() {
    let Some(world) = World::new() else { return };
    world.receiver(|| {
        ip("link set lo up");
        let (before, usual) = (rto::sysctl(), rto::measure_here().unwrap());
        match rto::set(Duration::from_millis(20)) {
            Err(Error::Unsupported { .. }) => return eprintln!("SKIPPED: before Linux 6.11"),
            set => set.unwrap(),
        }
        rto::set(Duration::from_millis(40)).unwrap();
        let lowered = rto::measure_here().unwrap();
        assert!(lowered.least >= Duration::from_millis(40) && lowered.least < usual.least, "{lowered:?}, {usual:?}");
        assert_eq!(rto::reset().unwrap(), 2);
        assert_eq!((rto::sysctl(), rto::reset().unwrap()), (before, 0), "as it was, and nothing left to undo");
        // Timers are told in jiffies.
        assert!(rto::measure_here().unwrap().least.abs_diff(usual.least) <= Duration::from_millis(10));
    });
}

#[test]
fn a_route_lowers_timeouts_towards_it_alone() {
    let Some(world) = World::new() else { return };
    let listener = world.receiver(|| TcpListener::bind((RECEIVER_V4, 0))).unwrap();
    let to = SocketAddr::new(RECEIVER_V4.into(), listener.local_addr().unwrap().port());
    world.sender(|| {
        let routes = || (ip("-4 route show"), ip("-6 route show"));
        let (before, usual) = (routes(), rto::measure(to).unwrap());
        // A network that has a route, an address that has none of its own, and IPv6.
        rto::set_route("10.99.0.0/24", Duration::from_millis(60)).unwrap();
        rto::set_route(&RECEIVER_V4.to_string(), Duration::from_millis(40)).unwrap();
        rto::set_route(&RECEIVER_V6.to_string(), Duration::from_millis(40)).unwrap();
        for address in [IpAddr::from(RECEIVER_V4), RECEIVER_V6.into()] {
            assert_eq!(rto::of_route(address).unwrap(), Some(Duration::from_millis(40)));
        }
        let lowered = rto::measure(to).unwrap();
        assert!(lowered.least >= Duration::from_millis(40) && lowered.least < usual.least, "{lowered:?}, {usual:?}");
        rto::reset().unwrap();
        assert_eq!(routes(), before);
        assert_eq!(rto::of_route(RECEIVER_V4.into()).unwrap(), None);
    });
    let error = world.sender(|| rto::set_route("192.0.2.1", Duration::from_millis(5))).unwrap_err();
    assert!(error.to_string().contains("192.0.2.1"), "{error}, although {SENDER_V4} has no way there");
}
