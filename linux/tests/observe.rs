//! A guard that only looks: what leaves the device is what was sent, byte for byte, and the summary says what would have been.
//!
//! Needs root; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod world;

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use ackgate_control::flow::FlowKey;
use ackgate_control::gate::Config;
use ackgate_control::segment::{Flags, Segment};
use ackgate_control::seq::SeqNumber;
use ackgate_control::wire::{Direction, emit};
use ackgate_linux::Options;
use world::{DEVICE, World, flow_key};

/// Connections, and the data segments that arrive on each.
const FLOWS: u16 = 12;
const SEGMENTS: u32 = 8;
const MSS: u32 = 1448;

/// A socket that gets everything that reaches the sender's device.
fn tap(world: &World) -> OwnedFd {
    world.sender(|| {
        let index = nix::net::if_::if_nametoindex("sender0").unwrap();
        // SAFETY: plain integers; the descriptor is ours alone.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: an all-zero sockaddr_ll is valid, and alive during the call.
        unsafe {
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            address.sll_ifindex = index.cast_signed();
            let length = size_of::<libc::sockaddr_ll>() as u32;
            assert_eq!(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length), 0);
        }
        // Room for all of an incast; it is read afterwards.
        nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::RcvBufForce, &(8 << 20)).unwrap();
        socket
    })
}

/// What reaches it of our connections from the other end, in order, until nothing has come for a while.
fn received(tap: &OwnedFd) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let silence = nix::sys::time::TimeVal::new(0, 500_000);
    nix::sys::socket::setsockopt(tap, nix::sys::socket::sockopt::ReceiveTimeout, &silence).unwrap();
    let mut buffer = [0; 2048];
    loop {
        // SAFETY: the buffer is as long as said and alive during the call.
        let length = unsafe { libc::recv(tap.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
        let Ok(length) = usize::try_from(length) else { return frames };
        // Port 5001 of an IPv4 packet's source.
        if buffer[12..14] == [8, 0] && buffer[23] == 6 && buffer[34..36] == 5001_u16.to_be_bytes() {
            frames.push(buffer[..length].to_vec());
        }
    }
}

fn segment(flags: Flags, seq: u32, ack: u32, payload: u32) -> Segment {
    Segment { flags, seq: SeqNumber(seq), ack: SeqNumber(ack), payload, window: 600, ..Segment::default() }
}

/// An incast as frames: all connections open, then data and its ACKs in turn. Returns what our side sent.
fn incast(world: &World) -> Vec<Vec<u8>> {
    let keys: Vec<FlowKey> = (0..FLOWS).map(|flow| flow_key(40_000 + flow)).collect();
    let mut sent = Vec::new();
    let mut exchange = |key: &FlowKey, arrives: Segment, leaves: Segment| {
        world.inject(&[emit(key, &arrives, Direction::Ingress)]);
        let frame = emit(key, &leaves, Direction::Egress);
        world.emit(std::slice::from_ref(&frame));
        sent.push(frame);
    };
    for key in &keys {
        let open = |segment| Segment { mss: 1460, wscale: Some(7), ..segment };
        let answer = open(segment(Flags::SYN | Flags::ACK, 0, 1, 0));
        exchange(key, open(segment(Flags::SYN, 0, 0, 0)), answer);
    }
    for turn in 0..SEGMENTS {
        for key in &keys {
            let seq = 1 + turn * MSS;
            exchange(key, segment(Flags::ACK, seq, 1, MSS), segment(Flags::ACK, 1, seq + MSS, 0));
        }
    }
    sent
}

fn options(observe: bool) -> Options {
    Options { gate: Config::credit(10_000), observe, ..Options::new(DEVICE, 10_000) }
}

#[test]
fn a_guard_that_looks_touches_no_byte_and_tells_what_it_would_have_done() {
    let Some(world) = World::new() else { return };
    let tap = tap(&world);
    let sent = incast(&world);
    assert!(received(&tap) == sent, "unguarded");
    let (summary, sent) = world.guarded(options(true), || incast(&world));
    assert!(received(&tap) == sent, "observed");
    let observed = summary.observed.unwrap();
    assert!(observed.would_hold > 0 && observed.would_rewrite > 0, "{observed:?}");
    assert!(
        observed.peak_active > 1 && observed.advice.contains(&format!("--dev {DEVICE} --buffer 10000")),
        "{observed:?}"
    );
    assert_eq!((summary.released, summary.rewritten, summary.thinned, summary.hold), (0, 0, 0, "none"));
    let (summary, sent) = world.guarded(options(false), || incast(&world));
    assert!(received(&tap) != sent, "guarded");
    assert!(summary.observed.is_none() && summary.rewritten > 0, "{summary:?}");
}
