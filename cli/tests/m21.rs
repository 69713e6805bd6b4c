//! `ackgate switch` and `ackgate host` as their users see them: what they print, and that nothing stays when they are killed.
//!
//! What needs root says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod process;
#[path = "../../linux/tests/world/mod.rs"]
mod world;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use process::{Process, ackgate};
use world::{Place, RECEIVER_V4, SENDER_DEVICE, World};

/// Kind, length and identifier of the option that carries a number.
const OPTION: [u8; 4] = [254, 8, 0x4d, 0x32];

/// A process that has said that it is ready.
fn start(world: &World, arguments: &[&str]) -> Process {
    let mut run = Process::new(world.sender(|| ackgate(arguments).spawn()).unwrap());
    assert_eq!(run.line()["event"], "ready");
    run
}

/// Its summary, where the signal leaves it the time for one.
fn end(mut run: Process, signal: Signal) -> serde_json::Value {
    if signal != Signal::SIGKILL {
        return run.end(signal);
    }
    run.signal(signal);
    run.child.wait().unwrap();
    serde_json::Value::Null
}

/// The numbers in what arrives at the receiver while the sender sends; every byte must arrive.
fn numbers(world: &World) -> Vec<u32> {
    let arrivals = world.arrivals_at(Place::Receiver);
    let listener = world.receiver(|| TcpListener::bind((RECEIVER_V4, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let mut sender = world.sender(|| TcpStream::connect_timeout(&address, Duration::from_secs(10))).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    sender.write_all(&[7; 5000]).unwrap();
    let mut data = [0; 5000];
    receiver.read_exact(&mut data).unwrap();
    assert_eq!(data, [7; 5000]);
    let mut numbers = Vec::new();
    arrivals.frames(|frame| {
        let at = frame.windows(4).position(|bytes| bytes == OPTION);
        numbers.extend(at.map(|at| u32::from_be_bytes(frame[at + 4..at + 8].try_into().unwrap())));
    });
    numbers
}

#[test]
fn nothing_is_left_however_they_end() {
    let Some(world) = World::new() else { return };
    let (sender, receiver) = (world.namespace(Place::Sender), world.namespace(Place::Receiver));
    let host =
        ["host", "--m21", "--json", "--buffer", "96KB", "--rate", "1gbit", "--netns", &sender, "--netns", &receiver];
    for attach in ["tcx", "clsact"] {
        let switch = ["switch", "--json", "--dev", SENDER_DEVICE, "--attach", attach];
        for signal in [Signal::SIGINT, Signal::SIGKILL] {
            let (switch, host) = (start(&world, &switch), start(&world, &host));
            let seen = numbers(&world);
            assert!(seen.len() > 1 && seen.iter().all(|&number| number == 1), "{seen:?}");
            let (switch, host) = (end(switch, signal), end(host, signal));
            if signal == Signal::SIGINT {
                assert_eq!((switch["ports"][0]["flows_max"].as_u64(), host["refused"].as_u64()), (Some(1), Some(0)));
                assert!(host["numbers"].as_u64() > Some(0) && host["echoes"].as_u64() > Some(0), "{host}");
            }
            assert_eq!(numbers(&world), [0_u32; 0], "after {signal}, {attach}");
            // A janitor takes filters off; it has a moment for it.
            for _ in 0..100 {
                if filters(&world).is_empty() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            assert_eq!(filters(&world), "", "after {signal}, {attach}");
        }
    }
}

/// What hangs on the sender's device.
fn filters(world: &World) -> String {
    world.sender(|| {
        let show = |arguments: &str| {
            let output = Command::new("tc").args(arguments.split(' ')).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let qdiscs = show(&format!("qdisc show dev {SENDER_DEVICE}"));
        let clsact: String = qdiscs.lines().filter(|line| line.contains("clsact")).collect();
        clsact + &show(&format!("filter show dev {SENDER_DEVICE} egress"))
    })
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let Some(world) = World::new() else { return };
    let cases: [(&[&str], &str); 6] = [
        (&["switch", "--dev", "no-such-dev0"], "no network interface `no-such-dev0`"),
        (&["switch", "--dev", SENDER_DEVICE, "--mark-above", "30KB"], "no single queue"),
        (&["switch", "--dev", SENDER_DEVICE, "--expiry", "1us"], "no time to count"),
        (&["host", "--m21", "--buffer", "96KB"], "give --rate"),
        (&["host", "--m21", "--buffer", "40", "--rate", "1gbit"], "more than one header"),
        (&["host", "--m21", "--buffer", "96KB", "--rate", "1gbit", "--cgroup", "/nowhere"], "/nowhere"),
    ];
    for (arguments, what) in cases {
        let output = world.sender(|| ackgate(arguments).output()).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(what), "`{said}` does not say `{what}`");
    }
}

#[test]
fn a_port_with_one_queue_marks() {
    let Some(world) = World::new() else { return };
    world.sender(|| {
        let queue = format!("qdisc add dev {SENDER_DEVICE} root tbf rate 10mbit burst 3100 limit 100000");
        assert!(Command::new("tc").args(queue.split(' ')).status().unwrap().success());
    });
    let switch = start(&world, &["switch", "--json", "--dev", SENDER_DEVICE, "--mark-above", "5KB"]);
    let arrivals = world.arrivals_at(Place::Receiver);
    // ECT(0), UDP, by IPv4's header alone: no host has to have negotiated anything.
    let socket = world.sender(|| std::net::UdpSocket::bind((world::SENDER_V4, 0))).unwrap();
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::Ipv4Tos, &2).unwrap();
    for _ in 0..20 {
        socket.send_to(&[0; 1000], (RECEIVER_V4, 9)).unwrap();
    }
    let mut marks = Vec::new();
    // IPv4 in Ethernet, UDP to port 9; its ECN field.
    arrivals.frames(|frame| marks.extend((frame.len() > 1000 && frame[23] == 17).then(|| frame[15] & 3)));
    assert_eq!((marks.len(), marks.first(), marks.last()), (20, Some(&2), Some(&3)), "{marks:?}");
    switch.end(Signal::SIGINT);
}
