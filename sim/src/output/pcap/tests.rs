//! Frames are read back by the packet view of the Linux datapath, and whole captures by tshark.

use std::process::Command;

use ackgate_control::segment::Segment;
use ackgate_control::seq::SeqNumber;
use ackgate_control::wire::{self, Direction, Meta};

use super::*;
use crate::observer::{Endpoint, Protocol};

const SENDER: Endpoint = Endpoint { host: 0, port: 50_000 };
const RECEIVER: Endpoint = Endpoint { host: 300, port: 35_000 };

fn packet(from: Endpoint, to: Endpoint, segment: Segment) -> Packet {
    Packet {
        from,
        to,
        connection: 0,
        segment: Segment { frames: 1, ..segment },
        ect: false,
        sack: Default::default(),
        sack_blocks: 0,
        id: 7,
        retransmission: false,
        protocol: Protocol::Tcp,
        count: None,
    }
}

/// A connection that opens, sends three segments of which the first comes last, and closes.
fn conversation() -> Vec<(u64, Way, Packet)> {
    use ackgate_control::segment::Flags as F;
    let segment = |seq: u32, ack: u32, flags: F, payload: u32| Segment {
        seq: SeqNumber(seq),
        ack: SeqNumber(ack),
        flags,
        payload,
        window: 0xffff,
        timestamps: Some((seq, ack)),
        ..Segment::default()
    };
    let syn = Segment { mss: 1_460, wscale: Some(7), sack: true, ..segment(99, 0, F::SYN, 0) };
    let data = |seq| packet(SENDER, RECEIVER, segment(seq, 1, F::ACK, 1_448));
    let ack = |ack| packet(RECEIVER, SENDER, segment(1, ack, F::ACK, 0));
    let gap = Packet {
        sack: [(SeqNumber(1_548), SeqNumber(4_444)), Default::default(), Default::default()],
        sack_blocks: 1,
        segment: Segment { sack: true, ..ack(100).segment },
        ..ack(100)
    };
    let marked = Packet { ect: true, segment: Segment { ce: true, ..data(2_996).segment }, ..data(2_996) };
    vec![
        (0, Way::In, packet(SENDER, RECEIVER, syn)),
        (
            1_000,
            Way::Out,
            packet(RECEIVER, SENDER, Segment { ack: SeqNumber(100), flags: F::SYN | F::ACK, seq: SeqNumber(0), ..syn }),
        ),
        (120_000, Way::In, packet(SENDER, RECEIVER, segment(100, 1, F::ACK, 0))),
        (250_000, Way::In, data(1_548)),
        (262_000, Way::In, marked),
        (262_001, Way::Out, gap),
        (400_000, Way::In, data(100)),
        (400_001, Way::Out, ack(4_444)),
        (5_000_000_000, Way::In, packet(SENDER, RECEIVER, segment(4_444, 1, F::FIN | F::ACK, 0))),
        (5_000_000_500, Way::Out, packet(RECEIVER, SENDER, segment(1, 4_445, F::FIN | F::ACK, 0))),
        (5_000_120_000, Way::In, packet(SENDER, RECEIVER, segment(4_445, 2, F::ACK, 0))),
    ]
}

fn interfaces() -> Vec<Interface> {
    let interface =
        |name: &str, kind, bottleneck| Interface { name: name.into(), kind, rate: 1_000_000_000, bottleneck };
    vec![
        interface("sender0", InterfaceKind::Host, false),
        interface("switch0:receiver", InterfaceKind::Port, true),
        interface("receiver", InterfaceKind::Host, false),
    ]
}

fn capture(place: Where, snap: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut capture = Capture::new(&mut bytes, place, snap);
    capture.begin(&interfaces());
    for (at, way, packet) in conversation() {
        capture.packet(Time(at), Point(2), way, &packet);
    }
    capture.finish()?;
    Ok(bytes)
}

#[test]
fn the_datapath_reads_what_the_simulator_meant() {
    let mut bytes = Vec::new();
    for (_, way, packet) in conversation() {
        frame::write(&packet, &mut bytes);
        let direction = if way == Way::In { Direction::Ingress } else { Direction::Egress };
        let read = wire::parse(&bytes, &Meta::whole(&bytes), direction).expect("a good frame").segment;
        let header = u16::try_from(bytes.len()).unwrap() - u16::try_from(packet.segment.payload).unwrap();
        // SACK-permitted in a SYN is no SACK block.
        let sack = packet.segment.sack && packet.segment.mss == 0;
        assert_eq!(read, Segment { header, sack, ..packet.segment });
    }
}

/// Looks at every frame of a run that a capture would write.
#[derive(Default)]
struct Checked {
    frames: u64,
    probes: u64,
    blocks: u64,
    bytes: Vec<u8>,
}

impl Observer for Checked {
    fn packet(&mut self, _now: Time, _at: Point, _way: Way, packet: &Packet) {
        frame::write(packet, &mut self.bytes);
        let simulated = u32::from(packet.segment.header) + packet.segment.payload;
        assert_eq!(self.bytes.len() as u32, simulated, "{packet:?}");
        self.frames += 1;
        self.blocks += u64::from(packet.sack_blocks);
        match wire::parse(&self.bytes, &Meta::whole(&self.bytes), Direction::Ingress) {
            Ok(read) => {
                let sack = packet.sack_blocks > 0;
                assert_eq!(read.segment, Segment { sack, ..packet.segment });
            }
            Err(reason) => {
                assert!(packet.protocol == Protocol::Probe && reason == wire::Reject::NotTcp, "{reason:?}: {packet:?}");
                self.probes += 1;
            }
        }
    }
}

#[test]
fn frames_of_every_kind_of_run_are_as_long_as_they_were_simulated() {
    use crate::scenario::{Document, Scenario};
    let run = |text: &str| {
        let scenario: Scenario = Document::parse("x.toml", text).and_then(|document| document.scenario()).unwrap();
        let mut checked = Checked::default();
        crate::run(&scenario, &mut checked).unwrap();
        assert!(checked.frames > 1_000);
        checked
    };
    let base = "senders = 24\nrounds = 2\nworkload.connections = \"fresh\"\n";
    run(base);
    assert!(run(&format!("{base}tcp = {{ sack = true, timestamps = true }}")).blocks > 0);
    run(&format!("{base}scheme = \"dctcp\""));
    run(&format!("{base}scheme = \"m21\""));
    run(&format!("{base}scheme = \"m21\"\nm21.field = \"ip\"\ntcp.timestamps = true"));
    assert!(run(&format!("{base}scheme = \"hwatch\"")).probes > 0);
}

#[test]
fn frames_are_cut_at_the_snap_length_and_keep_their_true_one() {
    let bytes = capture(Where::Receiver, 60).unwrap();
    // The first data packet: 66 bytes of headers and 1448 of payload.
    let lengths: Vec<u8> = [60u32.to_le_bytes(), 1_514u32.to_le_bytes()].concat();
    assert!(bytes.windows(8).any(|window| window == lengths));
}

#[test]
fn an_unknown_interface_is_named_with_those_there_are() {
    let error = capture(Where::parse("sender9"), 100).unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no interface `sender9`; there are: receiver, bottleneck and all; sender0, switch0:receiver, receiver"
    );
    let many: Vec<Interface> = interfaces().into_iter().cycle().take(100).collect();
    let error = Where::parse("sender9").check(&many).unwrap_err();
    assert!(error.len() < 300 && error.ends_with(", receiver and 88 more like these"), "{error}");
}

#[test]
fn the_words_for_places_mean_something_in_every_topology() {
    use crate::scenario::{Dumbbell, LeafSpine, Scenario, Topology};
    for topology in [Topology::Star, Topology::Dumbbell(Dumbbell::default()), Topology::LeafSpine(LeafSpine::default())]
    {
        let mut scenario = Scenario::default();
        scenario.network.topology = topology;
        let interfaces = crate::net::Plan::new(&scenario).interfaces;
        let taken = |text: &str| interfaces.iter().filter(|it| Where::parse(text).takes(it)).count();
        assert_eq!((taken("receiver"), taken("bottleneck"), taken("all")), (1, 1, interfaces.len()));
        Where::Receiver.check(&interfaces).unwrap();
    }
}

#[test]
fn tshark_reads_it_without_a_complaint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("capture.pcapng");
    std::fs::write(&path, capture(Where::Everywhere, 0xffff).unwrap()).unwrap();
    let fields = [
        "frame.interface_name",
        "frame.time_relative",
        "ip.src",
        "ip.dst",
        "tcp.len",
        "tcp.options.sack_le",
        "ip.dsfield.ecn",
        "_ws.expert.message",
    ];
    let mut command = Command::new("tshark");
    command
        .args(["-n", "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-T", "fields", "-r"])
        .arg(&path);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("SKIPPED: tshark cannot be run ({error}); install it with apt-get install tshark");
            return;
        }
    };
    let complaints = String::from_utf8_lossy(&output.stderr)
        .replace("Running as user \"root\" and group \"root\". This could be dangerous.", "");
    assert!(output.status.success() && complaints.trim().is_empty(), "{complaints}");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines.len(), conversation().len(), "{text}");
    assert_eq!(lines[3][..5], ["receiver", "0.000250000", "10.0.0.1", "10.0.1.45", "1448"]);
    assert_eq!(lines[4][6], "3");
    // Relative to the SYN's sequence number.
    assert_eq!(lines[5][5], "1449");
    // What tshark has to say is about the loss that is in the capture, and the handshake; never about a packet's form.
    for line in &lines {
        assert!(!line[7].to_lowercase().contains("checksum") && !line[7].contains("Malformed"), "{line:?}");
    }
}

#[test]
fn a_datagram_is_a_datagram() {
    let mut frame = Vec::new();
    let segment = Segment { payload: 3, ..Segment::default() };
    frame::write(&Packet { protocol: Protocol::Udp, ..packet(SENDER, RECEIVER, segment) }, &mut frame);
    // Ethernet, IP of 31 bytes, UDP of 11 (RFC 768), zeros.
    assert_eq!((frame.len(), frame[16..18].to_vec(), frame[23]), (45, vec![0, 31], 17));
    assert_eq!(frame[34..42], [195, 80, 136, 184, 0, 11, 0, 0]);
    assert_eq!(frame[42..], [0; 3]);
}
