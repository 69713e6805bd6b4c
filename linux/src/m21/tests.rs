//! The programs' laws against those of `control`.

use ackgate_control::flow::FlowKey;
use ackgate_control::m21::{self, Allowance, FlowCounter, counter};
use ackgate_control::segment::{Flags, Segment};
use ackgate_control::units::{Rate, Span, Time};
use ackgate_control::wire::{self, Checksum, Direction, Meta, complete_checksum, emit, fill_checksums, parse};
use proptest::prelude::*;

use super::port::{PortOptions, PortPrograms};
use super::sockets::{Cap, SocketsOptions};
use crate::error::Error;
use crate::sys;

/// As `bpf/m21.h` has them.
const COUNT: [u8; 4] = [254, 8, 0x4d, 0x32];
const ECHO: [u8; 4] = [254, 8, 0x4d, 0x33];
const LONGEST_PERIOD: u64 = 1_000_000_000;

unsafe extern "C" {
    fn ackgate_m21_window(cap: *const Cap, senders: u32, mss: u32) -> u32;
    fn ackgate_m21_period(cap: *const Cap, senders: u32, mss: u32, rtt: u64) -> u64;
}

fn options(buffer: u32, rate: Rate) -> SocketsOptions {
    SocketsOptions { buffer, header: m21::cap::MINIMUM_HEADER, rate, cgroup: None, namespaces: Vec::new() }
}

proptest! {
    #[test]
    fn the_cap_is_that_of_control(
        buffer in 3_000u32..20_000_000, mss in 88u32..8_961, senders in 1u32..200_000, rtt in 0u64..300_000_000,
        mbps in 10u64..100_000
    ) {
        let rate = Rate(mbps * 1_000_000);
        let cap = Cap::of(&options(buffer, rate)).unwrap();
        let mut model = m21::Cap::new(buffer, m21::cap::MINIMUM_HEADER, rate).unwrap();
        model.handle_ack(senders);
        // SAFETY: pure functions of a `struct m21_cap`, which `Cap` is, and integers.
        let (window, period) =
            unsafe { (ackgate_m21_window(&cap, senders, mss), ackgate_m21_period(&cap, senders, mss, rtt)) };
        match model.allowance(mss) {
            Allowance::Window(bytes) => prop_assert_eq!(window, bytes),
            Allowance::Every(rounds) => {
                prop_assert_eq!(window, 0);
                prop_assert_eq!(period, rounds.period(Span(rtt)).0.min(LONGEST_PERIOD));
            }
            Allowance::Unlimited => prop_assert!(false, "the number is known"),
        }
    }
}

/// `None`, with a word on standard error, where the programs cannot be loaded.
fn port(counting: counter::Config) -> Option<PortPrograms> {
    match PortPrograms::load(&PortOptions { counting, ..PortOptions::default() }, true) {
        Ok(port) => Some(port),
        Err(error @ (Error::NotPermitted(_) | Error::Unsupported { .. })) => {
            eprintln!("skipped: the switch's program was not tried: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn key(port: u16, ipv6: bool) -> FlowKey {
    let v4 = |last| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last];
    let v6 = |last| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let address = |last| if ipv6 { v6(last) } else { v4(last) };
    FlowKey { local: address(1), remote: address(2), local_port: 80, remote_port: port, vlan: 0 }
}

/// A frame with these options behind those that `emit` writes.
fn frame(key: &FlowKey, segment: &Segment, options: &[u8]) -> Vec<u8> {
    let mut frame = emit(key, segment, Direction::Egress);
    let layout = parse(&frame, &Meta::whole(&frame), Direction::Egress).unwrap().layout;
    frame.splice(layout.payload..layout.payload, options.iter().copied());
    frame[layout.tcp + 12] += (options.len() as u8 / 4) << 4;
    let added = options.len() as u16;
    let at = layout.ip + if layout.ipv6 { 4 } else { 2 };
    let length = u16::from_be_bytes([frame[at], frame[at + 1]]) + added;
    frame[at..at + 2].copy_from_slice(&length.to_be_bytes());
    let layout = parse(&frame, &Meta::whole(&frame), Direction::Egress).unwrap().layout;
    fill_checksums(&mut frame, &layout);
    frame
}

fn number(option: [u8; 4], number: u32) -> Vec<u8> {
    [option, number.to_be_bytes()].concat()
}

fn data(flags: Flags) -> Segment {
    Segment { flags, payload: 99, timestamps: Some((1, 2)), ..Segment::default() }
}

/// Runs a frame through the switch; the frame afterwards, whose checksum must be right.
fn pass(port: &PortPrograms, before: &[u8]) -> Vec<u8> {
    let (verdict, mut after) = sys::test_run(port.egress(), before, 0, 0).unwrap();
    assert_eq!(verdict.cast_signed(), -1, "everything goes on its way");
    let layout = parse(&after, &Meta::whole(&after), Direction::Egress).unwrap().layout;
    assert_eq!(complete_checksum(&mut after, &layout), Checksum::Valid);
    after
}

/// The last four bytes of the TCP header.
fn last_number(frame: &[u8]) -> u32 {
    let layout = wire::parse(frame, &Meta::whole(frame), Direction::Egress).unwrap().layout;
    u32::from_be_bytes(frame[layout.payload - 4..layout.payload].try_into().unwrap())
}

#[test]
fn the_number_is_written_if_it_is_larger_and_nothing_else_changes() {
    let Some(port) = port(counter::Config::default()) else { return };
    port.set_time(5_000_000_000);
    for ipv6 in [false, true] {
        let empty = frame(&key(1, ipv6), &data(Flags::ACK), &number(COUNT, 0));
        let after = pass(&port, &empty);
        let own = last_number(&after);
        assert_eq!(own, 1 + u32::from(ipv6));
        let changed = empty.iter().zip(&after).filter(|(a, b)| a != b).count();
        assert!(changed <= 3, "the number's last byte and the sum: {changed}");
        let passes = |options: &[u8], what: &str| {
            let before = frame(&key(1, ipv6), &data(Flags::ACK), options);
            assert_eq!(pass(&port, &before), before, "{what}");
        };
        passes(&number(COUNT, own), "the same number");
        passes(&number(COUNT, u32::MAX), "a larger one, of another switch");
        passes(&number(ECHO, 0), "an echo is no place to write");
        passes(&number([253, 8, 0x4d, 0x32], 0), "another kind");
        passes(&number([254, 8, 0xf9, 0x89], 0), "another experiment");
        passes(&[254, 4, 0x4d, 0x32], "too short");
        passes(&[1, 1, 1, 254, 8, 0x4d, 0x32, 0, 0, 0, 0, 1], "at an odd place");
        let behind = frame(&key(1, ipv6), &data(Flags::ACK), &[number(ECHO, 9), number(COUNT, 0)].concat());
        assert_eq!(last_number(&pass(&port, &behind)), own, "behind an echo");
        let bare = Segment { payload: 0, ..data(Flags::ACK) };
        let before = frame(&key(2, ipv6), &bare, &number(COUNT, 0));
        assert_eq!(pass(&port, &before), before, "a bare ACK makes no flow");
    }
    let status = port.status(5_000_000_000);
    assert_eq!((status.flows, status.counted, status.stamped), (2, 18, 4));
}

#[test]
fn old_flows_are_forgotten_and_the_count_stays() {
    let Some(port) = port(counter::Config { expiry: Some(Span(10)), flows: 100 }) else { return };
    for round in 0..3 {
        port.set_time(100 + 20 * round);
        for flow in 0..50 {
            let after = pass(&port, &frame(&key(flow, false), &data(Flags::ACK), &number(COUNT, 0)));
            assert_eq!(last_number(&after), u32::from(flow) + 1, "none of two periods ago");
        }
        port.expire().unwrap();
        assert_eq!(port.status(100 + 20 * round).flows, 50);
        assert_eq!(port.status(100 + 20 * round + 20).flows, 0);
    }
}

#[derive(Clone, Debug)]
struct Step {
    flow: u16,
    gap: u64,
    last: bool,
    expire: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step =
        (0u16..20, prop_oneof![3 => 0u64..3, 1 => 0u64..25], prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    prop::collection::vec(step.prop_map(|(flow, gap, last, expire)| Step { flow, gap, last, expire }), 1..200)
}

#[test]
fn the_count_is_that_of_control() {
    for (expiry, flows) in [(Some(Span(10)), 100), (Some(Span(10)), 7), (None, 100), (None, 7)] {
        let config = counter::Config { expiry, flows };
        if port(config).is_none() {
            return;
        }
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(12));
        let compared = runner.run(&steps(), |steps| {
            let port = port(config).unwrap();
            let (mut model, mut now) = (FlowCounter::new(config), Time(1_000));
            for (at, step) in steps.iter().enumerate() {
                now += Span(step.gap);
                port.set_time(now.0);
                if step.expire {
                    port.expire().unwrap();
                }
                let flags = if step.last { Flags::ACK | Flags::FIN } else { Flags::ACK };
                let after = pass(&port, &frame(&key(step.flow, false), &data(flags), &number(COUNT, 0)));
                let expected = model.handle_packet(now, step.flow, step.last);
                prop_assert_eq!(last_number(&after), expected, "step {} at {:?}", at, now);
                prop_assert_eq!(port.status(now.0).flows, model.count());
            }
            Ok(())
        });
        compared.unwrap_or_else(|failed| panic!("{config:?}: {failed}"));
    }
}
