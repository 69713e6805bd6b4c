//! Looking at a real device: what is counted in the kernel is what was sent, and a capture of the same says the same.
//!
//! Needs root; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod world;

use std::time::Duration;

use ackgate_control::flow::FlowKey;
use ackgate_control::segment::{Flags, Segment};
use ackgate_control::seq::SeqNumber;
use ackgate_control::units::Span;
use ackgate_control::wire::{Direction, emit};
use ackgate_linux::doctor::Finding;
use ackgate_linux::watch::capture::Capture;
use ackgate_linux::watch::{Bin, Connection, Options, Watch};
use world::{DEVICE, World, flow_key};

const WIDTH: Span = Span::millis(1);
const STALL: Span = Span::millis(150);
/// Connections that do the same at once, over IPv4 and tagged.
const FLOWS: u16 = 20;

/// What each sends: ms since the time before, sequence number, flags, and payload bytes.
const SCRIPT: [(u64, u32, Flags, u32); 7] = [
    (0, 0, Flags::SYN, 0),
    (0, 1, Flags::ACK, 1000),
    // 1001 is lost, and comes again after 5 ms.
    (0, 2001, Flags::ACK, 1000),
    (5, 1001, Flags::ACK, 1000),
    // What follows is lost, and comes again after the timer.
    (300, 3001, Flags::ACK, 1000),
    (0, 4001, Flags::ACK, 1000),
    // A probe of the connection's life.
    (0, 5000, Flags::ACK, 1),
];

fn keys() -> Vec<FlowKey> {
    (0..FLOWS).map(|flow| FlowKey { vlan: u32::from(flow % 2) * 7, ..flow_key(30_000 + flow) }).collect()
}

fn frame(key: &FlowKey, &(_, seq, flags, payload): &(u64, u32, Flags, u32)) -> Vec<u8> {
    let segment = Segment { flags, seq: SeqNumber(seq), payload, ..Segment::default() };
    emit(key, &segment, Direction::Ingress)
}

/// The frames of the script with their times in ms.
fn frames() -> Vec<(u64, Vec<u8>)> {
    let mut time = 0;
    let mut frames = Vec::new();
    for step in &SCRIPT {
        time += step.0;
        frames.extend(keys().iter().map(|key| (time, frame(key, step))));
    }
    frames
}

/// What must be found of a connection, without its times.
fn told(connections: &[Connection]) -> Vec<(u16, u64, u64, u64)> {
    let one = |c: &Connection| (c.remote_port, c.bytes, c.retransmitted_bytes, c.stalls);
    let mut told: Vec<_> = connections.iter().filter(|c| c.local_port == 5001).map(one).collect();
    told.sort_unstable();
    told
}

#[test]
fn what_is_counted_live_is_what_a_capture_says() {
    let Some(world) = World::new() else { return };
    let report = ackgate_linux::doctor::examine(None);
    if report.checks.iter().any(|check| check.name == "tcx" && check.finding != Finding::Ok) {
        eprintln!("skipped: no tcx");
        return;
    }
    let before = world.receiver_state();
    let options = Options { device: DEVICE.into(), width: WIDTH, stall: STALL, bpf_stats: true };
    let mut watch = world.receiver(|| Watch::start(&options)).unwrap();
    // The bin in which it began is not told.
    std::thread::sleep(Duration::from_millis(2));
    let mut sums = Bin::default();
    let mut numbers = Vec::new();
    let mut collect = |watch: &mut Watch| {
        let each = |bin: &Bin| {
            numbers.push(bin.number);
            sums.bytes += bin.bytes;
            sums.frames += bin.frames;
            sums.senders = sums.senders.max(bin.senders);
            sums.stalls += bin.stalls;
            sums.retransmitted_bytes += bin.retransmitted_bytes;
        };
        world.receiver(|| watch.collect(each)).unwrap();
    };
    for step in &SCRIPT {
        std::thread::sleep(Duration::from_millis(step.0));
        collect(&mut watch);
        world.inject(&keys().iter().map(|key| frame(key, step)).collect::<Vec<_>>());
    }
    std::thread::sleep(Duration::from_millis(20));
    collect(&mut watch);
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "a bin is missing");
    let expected: Vec<_> = (0..FLOWS).map(|flow| (30_000 + flow, 5000, 1000, 1)).collect();
    assert_eq!(told(&watch.connections()), expected);
    assert_eq!((sums.stalls, sums.retransmitted_bytes), (u64::from(FLOWS), u64::from(FLOWS) * 1000));
    let sent: usize = frames().iter().map(|(_, frame)| frame.len()).sum();
    assert!(sums.bytes >= sent as u64 && sums.frames >= frames().len() as u64, "{sums:?}, {sent} bytes sent");
    assert_eq!(watch.missed(), (0, 0));
    assert!(watch.cost().is_some_and(|(packets, _)| packets >= frames().len() as u64));
    drop(watch);
    assert_eq!(world.receiver_state(), before);

    let file = std::env::temp_dir().join(format!("ackgate-watch-{}.pcap", std::process::id()));
    std::fs::write(&file, pcap(&frames())).unwrap();
    let capture = Capture::read(&file, None, WIDTH, STALL).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(told(&capture.connections), expected);
    assert_eq!(capture.bins.iter().map(|bin| bin.bytes).sum::<u64>(), sent as u64);
    assert_eq!(capture.bins.iter().map(|bin| bin.senders).max(), Some(u64::from(FLOWS)));
}

/// Full-size frames of all connections, as in a long transfer.
#[test]
#[ignore = "a measurement, which prints what a frame costs: run it alone"]
fn what_a_full_frame_costs() {
    const PAYLOAD: u32 = 1448;
    let Some(world) = World::new() else { return };
    let options = Options { device: DEVICE.into(), width: WIDTH, stall: STALL, bpf_stats: true };
    let mut watch = world.receiver(|| Watch::start(&options)).unwrap();
    for round in 0..200 {
        let steps = (0..50).map(|n| (0, 1 + (round * 50 + n) * PAYLOAD, Flags::ACK, PAYLOAD));
        let frames: Vec<_> = steps.flat_map(|step| keys().into_iter().map(move |key| frame(&key, &step))).collect();
        world.inject(&frames);
        world.receiver(|| watch.collect(|_| ())).unwrap();
    }
    let (frames, nanos) = watch.cost().unwrap();
    assert!(frames >= 100_000, "{frames}");
    let each = nanos as f64 / frames as f64;
    // 1514 bytes, and the 24 of preamble, FCS and gap.
    let a_second = 1e9 / 8.0 / 1538.0;
    println!("{each:.0} ns a frame of {frames}: {:.2} % of a processor at 1 Gb/s", each * a_second / 1e7);
}

/// A capture in microseconds.
fn pcap(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let header = [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1];
    let mut bytes: Vec<u8> = header.iter().flat_map(|field| field.to_le_bytes()).collect();
    for (millis, frame) in frames {
        let length = u32::try_from(frame.len()).unwrap();
        for field in [1_700_000_000, u32::try_from(millis * 1000).unwrap(), length, length] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(frame);
    }
    bytes
}
