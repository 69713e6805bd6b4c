//! M21TCP-A between two hosts on this kernel: what is on the wire, what comes back, what the windows are. The sender's device
//! stands for the switch's port. Needs root; says so when it has to skip.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod world;

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use ackgate_control::m21::counter;
use ackgate_control::segment::Flags;
use ackgate_control::units::Rate;
use ackgate_control::wire::{Checksum, Direction, Meta, Packet, complete_checksum, parse};
use ackgate_linux::m21::{Namespace, Port, PortOptions, Sockets, SocketsOptions};
use world::{Place, RECEIVER_V4, RECEIVER_V6, RECEIVER_VLAN, SENDER_DEVICE, World};

/// As `bpf/m21.h` has them.
const COUNT: [u8; 4] = [254, 8, 0x4d, 0x32];
const ECHO: [u8; 4] = [254, 8, 0x4d, 0x33];

const CONNECTIONS: u32 = 4;
const BYTES: usize = 300_000;

/// Payload of a full segment of the world's devices (1500 bytes), with timestamps and without the options.
const MSS: u32 = 1448;

fn sockets(world: &World, places: &[Place], buffer: u32) -> Sockets {
    let namespaces = places.iter().map(|&place| Namespace::named(&world.namespace(place))).collect();
    let options = SocketsOptions { buffer, header: 42, rate: Rate(1_000_000_000), cgroup: None, namespaces };
    Sockets::start(&options).unwrap()
}

/// A port whose flows never expire: a busy machine must not change the number.
fn port(world: &World, device: &str, flows: u32) -> Port {
    let counting = counter::Config { expiry: None, flows };
    world.enter(Place::Sender);
    Port::start(device, &PortOptions { counting, ..PortOptions::default() }).unwrap()
}

/// Connections on which the sender sends.
struct Load(Vec<(TcpStream, TcpStream)>);

impl Load {
    fn open(world: &World, to: impl Into<IpAddr>, connections: u32) -> Self {
        let to = to.into();
        let listener = world.receiver(|| TcpListener::bind((to, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let pair = |_| {
            let connect = |address: SocketAddr| TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap();
            let sender = world.sender(|| connect(address));
            let (receiver, _) = listener.accept().unwrap();
            receiver.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            (sender, receiver)
        };
        Self((0..connections).map(pair).collect())
    }

    /// Sends on all of them at once; panics unless every byte arrives as it was sent.
    fn run(&mut self) {
        let content: Vec<u8> = (0..BYTES).map(|at| (at % 251) as u8).collect();
        std::thread::scope(|scope| {
            for (sender, receiver) in &mut self.0 {
                scope.spawn(|| sender.write_all(&content).unwrap());
                scope.spawn(|| {
                    let mut data = vec![0; BYTES];
                    receiver.read_exact(&mut data).unwrap();
                    assert!(data == content, "what arrived is not what was sent");
                });
            }
        });
    }

    /// The senders' congestion windows, in segments.
    fn windows(&self) -> Vec<u32> {
        self.0.iter().map(|(sender, _)| tcp_info(sender).tcpi_snd_cwnd).collect()
    }
}

fn tcp_info(stream: &TcpStream) -> libc::tcp_info {
    // SAFETY: an all-zero tcp_info is valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` is as long as `length` says, and both are alive during the call.
    let result = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    };
    assert_eq!(result, 0);
    info
}

/// A segment that was seen, with the numbers in it.
struct Seen {
    packet: Packet,
    count: Option<u32>,
    echo: Option<u32>,
}

/// Reads a captured frame; its checksum must be right.
fn seen(bytes: &mut [u8]) -> Option<Seen> {
    let packet = parse(bytes, &Meta::whole(bytes), Direction::Ingress).ok()?;
    assert_eq!(complete_checksum(bytes, &packet.layout), Checksum::Valid, "{:?}", packet.segment);
    let options = &bytes[packet.layout.tcp + 20..packet.layout.payload];
    let number = |kind: [u8; 4]| {
        let at = options.windows(8).position(|option| option[..4] == kind)?;
        Some(u32::from_be_bytes(options[at + 4..at + 8].try_into().unwrap()))
    };
    Some(Seen { packet, count: number(COUNT), echo: number(ECHO) })
}

/// The segments among what has arrived, about which tshark must have no complaint.
fn all_seen(arrivals: &world::Arrivals) -> Vec<Seen> {
    let mut frames = arrivals.summed_up();
    assert_eq!(world::tshark::complaints(&frames).unwrap_or_default(), [""; 0]);
    frames.iter_mut().filter_map(|frame| seen(frame)).collect()
}

#[test]
fn numbers_travel_there_and_back_with_right_checksums() {
    let Some(world) = World::new() else { return };
    world.sum_up_in_software();
    for to in [IpAddr::from(RECEIVER_V4), RECEIVER_V6.into()] {
        let _sockets = sockets(&world, &[Place::Sender, Place::Receiver], 10_000_000);
        let port = port(&world, SENDER_DEVICE, 100);
        let (there, back) = (world.arrivals_at(Place::Receiver), world.arrivals());
        Load::open(&world, to, CONNECTIONS).run();
        let (mut there, back) = (all_seen(&there), all_seen(&back));
        let flags = |segment: &Seen| segment.packet.segment.flags;
        there.retain(|segment| segment.packet.segment.payload > 0 || flags(segment).has(Flags::SYN));
        let numbers: Vec<u32> = there.iter().map(|segment| segment.count.expect("room for a number")).collect();
        assert!(numbers.iter().all(|number| (1..=CONNECTIONS).contains(number)), "{numbers:?}");
        assert_eq!(numbers.iter().max(), Some(&CONNECTIONS));
        assert!(numbers.is_sorted(), "none was forgotten: {numbers:?}");
        let answers: Vec<_> = back.iter().filter(|segment| flags(segment).has(Flags::SYN)).collect();
        assert_eq!(answers.len(), CONNECTIONS as usize);
        assert!(
            answers.iter().all(|answer| answer.echo.is_some() && answer.count == Some(0)),
            "nobody stamps on the way back"
        );
        let bare: Vec<_> = back.iter().filter(|segment| segment.packet.segment.is_pure_ack()).collect();
        assert!(bare.iter().all(|ack| ack.count.is_none()), "a bare ACK has no room for a number");
        assert!(bare.iter().any(|ack| ack.echo == Some(CONNECTIONS)), "the number comes back");
        let status = port.status();
        assert_eq!((status.flows_max, world.checksum_errors()), (CONNECTIONS.into(), 0));
        // An aggregate is stamped once, a FIN not at all.
        assert!(status.stamped > 0 && status.stamped <= status.counted, "{status:?}");
    }
}

#[test]
fn windows_keep_to_their_share_and_are_free_again_at_the_end() {
    let Some(world) = World::new() else { return };
    let _port = port(&world, SENDER_DEVICE, 100);
    // Four shares of 7500 bytes: five segments.
    let sockets = sockets(&world, &[Place::Sender, Place::Receiver], 30_000);
    let mut load = Load::open(&world, RECEIVER_V4, CONNECTIONS);
    load.run();
    assert!(load.windows().iter().all(|&window| window <= (30_000 / CONNECTIONS - 42) / MSS), "{:?}", load.windows());
    let status = sockets.status();
    assert!(status.numbers > 0 && status.echoes > 0 && status.clamped >= 4, "{status:?}");
    assert_eq!((status.paced, status.refused), (0, 0), "{status:?}");
    drop(sockets);
    load.run();
    load.run();
    assert!(load.windows().iter().all(|&window| window > 10), "no cap is left: {:?}", load.windows());
}

#[test]
fn below_one_segment_the_window_is_one_and_paced() {
    let Some(world) = World::new() else { return };
    let _port = port(&world, SENDER_DEVICE, 100);
    let sockets = sockets(&world, &[Place::Sender, Place::Receiver], 4_000);
    let mut load = Load::open(&world, RECEIVER_V4, CONNECTIONS);
    load.run();
    assert_eq!(load.windows(), [1; CONNECTIONS as usize]);
    let status = sockets.status();
    assert!(status.paced >= u64::from(CONNECTIONS) && status.refused == 0, "{status:?}");
}

#[test]
fn the_largest_number_of_several_switches_arrives() {
    let Some(world) = World::new() else { return };
    if !world.add_vlan() {
        return;
    }
    let _sockets = sockets(&world, &[Place::Sender, Place::Receiver], 10_000_000);
    let largest = |first: u32, second: u32| {
        // What leaves by the VLAN's device leaves by the one below it next.
        let _ports = [port(&world, "vlan10", first), port(&world, SENDER_DEVICE, second)];
        let back = world.arrivals();
        Load::open(&world, RECEIVER_VLAN, CONNECTIONS).run();
        let mut echoes = Vec::new();
        back.frames(|frame| echoes.extend(seen(frame).and_then(|segment| segment.echo)));
        echoes.into_iter().max()
    };
    world.sum_up_in_software();
    assert_eq!(largest(100, 2), Some(CONNECTIONS), "the first one counts more");
    assert_eq!(largest(2, 100), Some(CONNECTIONS), "the second one does");
}

#[test]
fn a_host_that_knows_nothing_of_it_is_served_as_ever() {
    let Some(world) = World::new() else { return };
    world.sum_up_in_software();
    let _port = port(&world, SENDER_DEVICE, 100);
    for place in [Place::Sender, Place::Receiver] {
        let sockets = sockets(&world, &[place], 4_000);
        let (there, back) = (world.arrivals_at(Place::Receiver), world.arrivals());
        let mut load = Load::open(&world, RECEIVER_V4, CONNECTIONS);
        load.run();
        let (there, back) = (all_seen(&there), all_seen(&back));
        assert!(back.iter().all(|segment| segment.echo.is_none()), "nobody echoes, or nothing is to be echoed");
        assert_eq!(there.iter().any(|segment| segment.count.is_some()), matches!(place, Place::Sender));
        assert!(load.windows().iter().all(|&window| window > 1), "no cap: {:?}", load.windows());
        let status = sockets.status();
        assert_eq!((status.echoes, status.clamped, status.refused), (0, 0, 0), "{status:?}");
        assert_eq!(world.checksum_errors(), 0);
    }
}
