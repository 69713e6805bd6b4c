//! Literal packets, and the promise that arbitrary bytes never panic.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::segment::{Edit, Position};

/// A data segment of 4 bytes, 10.0.0.1:5001 to 10.0.0.2:40000, timestamps, CE marked, window 501, checksums right.
const DATA_IPV4: [u8; 70] = [
    0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, // Ethernet
    0x45, 0x03, 0x00, 0x38, 0x12, 0x34, 0x40, 0x00, 0x40, 0x06, 0x14, 0x87, 0x0a, 0x00, 0x00, 0x01, 0x0a, 0x00, 0x00,
    0x02, // IPv4
    0x13, 0x89, 0x9c, 0x40, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x20, 0x00, 0x80, 0x18, 0x01, 0xf5, 0xba, 0xfd, 0x00,
    0x00, // TCP
    0x01, 0x01, 0x08, 0x0a, 0x00, 0x00, 0x00, 0x64, 0x00, 0x00, 0x00, 0xc8, // timestamps 100, 200
    0x61, 0x62, 0x63, 0x64, // "abcd"
];

/// A SYN over IPv6, 2001:db8::1 port 5001 to 2001:db8::2 port 40000: MSS 1440, SACK permitted, window scale 7.
const SYN_IPV6: [u8; 86] = [
    0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x86, 0xdd, // Ethernet
    0x60, 0x00, 0x00, 0x00, 0x00, 0x20, 0x06, 0x40, // IPv6
    0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, //
    0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, //
    0x13, 0x89, 0x9c, 0x40, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x02, 0xfd, 0x20, 0x00, 0x00, 0x00,
    0x00, // TCP
    0x02, 0x04, 0x05, 0xa0, 0x04, 0x02, 0x01, 0x01, 0x01, 0x03, 0x03, 0x07, // MSS, SACK permitted, NOPs, scale
];

fn parse_whole(frame: &[u8]) -> Result<Packet, Reject> {
    parse(frame, &Meta::whole(frame), Direction::Ingress)
}

fn v4(last: u8) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last]
}

#[test]
fn data_over_ipv4_reads_as_the_standard_says() {
    let packet = parse_whole(&DATA_IPV4).unwrap();
    assert_eq!(
        packet.key,
        FlowKey { local: v4(2), remote: v4(1), local_port: 40_000, remote_port: 5001, vlan: 0 },
        "the receiver of an arriving frame is the local end"
    );
    assert_eq!(
        packet.segment,
        Segment {
            seq: SeqNumber(0x1000),
            ack: SeqNumber(0x2000),
            flags: Flags::ACK | Flags::PSH,
            window: 501,
            payload: 4,
            frames: 1,
            header: 66,
            ce: true,
            timestamps: Some((100, 200)),
            ..Segment::default()
        }
    );
    assert_eq!(packet.layout, Layout { ip: 14, ipv6: false, tcp: 34, payload: 66, end: 70 });
    let out = parse(&DATA_IPV4, &Meta::whole(&DATA_IPV4), Direction::Egress).unwrap();
    assert_eq!((out.key.local, out.key.local_port), (v4(1), 5001), "the sender of a leaving frame is the local end");
}

#[test]
fn a_syn_over_ipv6_tells_mss_and_window_scale() {
    let segment = parse_whole(&SYN_IPV6).unwrap().segment;
    assert_eq!((segment.mss, segment.wscale, segment.sack), (1440, Some(7), false));
    assert_eq!((segment.payload, segment.header), (0, 86));
}

#[test]
fn options_of_a_handshake_count_only_on_a_handshake() {
    let mut frame = SYN_IPV6;
    frame[67] = Flags::ACK.0;
    let segment = parse_whole(&frame).unwrap().segment;
    assert_eq!((segment.mss, segment.wscale), (0, None));
}

#[test]
fn tags_in_the_bytes_and_beside_them_mean_the_same() {
    let mut tagged = Vec::from(&DATA_IPV4[..12]);
    tagged.extend_from_slice(&[0x81, 0x00, 0x20, 0x0a]);
    tagged.extend_from_slice(&DATA_IPV4[12..]);
    let inside = parse_whole(&tagged).unwrap();
    let meta = Meta { vlan: Some(0x200a), ..Meta::whole(&DATA_IPV4) };
    let beside = parse(&DATA_IPV4, &meta, Direction::Ingress).unwrap();
    assert_eq!((inside.key, inside.segment), (beside.key, beside.segment));
    assert_eq!((inside.key.vlan, inside.segment.header), (10, 70));

    let mut twice = Vec::from(&tagged[..12]);
    twice.extend_from_slice(&[0x88, 0xa8, 0x00, 0x03]);
    twice.extend_from_slice(&tagged[12..]);
    assert_eq!(parse_whole(&twice).unwrap().key.vlan, 3 << 12 | 10);

    let mut thrice = Vec::from(&twice[..12]);
    thrice.extend_from_slice(&[0x88, 0xa8, 0x00, 0x04]);
    thrice.extend_from_slice(&twice[12..]);
    assert_eq!(parse_whole(&thrice), Err(Reject::NotTcp));
}

#[test]
fn extension_headers_are_looked_through_and_fragments_are_not() {
    let with = |chain: &[u8]| {
        let mut frame = Vec::from(&SYN_IPV6[..54]);
        frame[19] += u8::try_from(chain.len()).unwrap();
        frame[20] = chain[chain.len() - 1];
        frame.extend_from_slice(&chain[..chain.len() - 1]);
        frame.push(0);
        frame.extend_from_slice(&SYN_IPV6[54..]);
        parse_whole(&frame)
    };
    // The last byte of each chain is the first header's number, the first byte of a header the next one's.
    let hop_by_hop = with(&[6, 0, 1, 4, 0, 0, 0, 0]).unwrap();
    assert_eq!((hop_by_hop.layout.tcp, hop_by_hop.segment.header), (62, 94));
    assert_eq!(with(&[6, 0, 4, 0, 0, 0, 0, 43]).unwrap().layout.tcp, 62, "a source route at its end");
    assert_eq!(with(&[6, 0, 4, 1, 0, 0, 0, 43]), Err(Reject::NotTcp), "a source route with one address ahead");
    assert_eq!(with(&[6, 0, 0, 0, 0, 0, 0, 44]), Err(Reject::Fragment));
    assert_eq!(with(&[17, 0, 0, 0, 0, 0, 0, 60]), Err(Reject::NotTcp));
    assert_eq!(with(&[6, 9, 0, 0, 0, 0, 0, 43]), Err(Reject::Malformed), "a header longer than the packet");
}

#[test]
fn ipv4_fragments_pass_untouched() {
    for field in [[0x20, 0x00], [0x00, 0x01], [0x20, 0x10]] {
        let mut frame = DATA_IPV4;
        frame[20..22].copy_from_slice(&field);
        assert_eq!(parse_whole(&frame), Err(Reject::Fragment));
    }
}

#[test]
fn lengths_that_lie_are_refused() {
    let cases: [(usize, u8, &str); 5] = [
        (14, 0x44, "IPv4 header of 16 bytes"),
        (14, 0x65, "version 6 in an IPv4 frame"),
        (17, 0xff, "IP packet longer than the frame"),
        (46, 0x40, "TCP header of 16 bytes"),
        (46, 0xf0, "TCP header longer than the packet"),
    ];
    for (at, value, what) in cases {
        let mut frame = DATA_IPV4;
        frame[at] = value;
        assert_eq!(parse_whole(&frame), Err(Reject::Malformed), "{what}");
    }
    let mut empty = DATA_IPV4;
    empty[16..18].copy_from_slice(&[0, 0]);
    assert_eq!(parse_whole(&empty), Err(Reject::Malformed), "length 0 without an aggregate");
}

#[test]
fn ethernet_padding_is_not_payload() {
    let mut frame = Vec::from(&DATA_IPV4[..66]);
    frame[17] = 52;
    frame.extend_from_slice(&[0; 20]);
    assert_eq!(parse_whole(&frame).unwrap().segment.payload, 0);
}

#[test]
fn an_aggregate_counts_as_its_frames() {
    let meta = |gso_size, gso_segs| Meta { len: 70, gso_size, gso_segs, vlan: None };
    let frames = |meta| parse(&DATA_IPV4, &meta, Direction::Ingress).unwrap().segment.frames;
    assert_eq!(frames(meta(1448, 44)), 44);
    assert_eq!(frames(meta(3, 0)), 2, "4 bytes in frames of 3");
    let mut big = DATA_IPV4;
    big[16..18].copy_from_slice(&[0, 0]);
    let meta = Meta { len: 14 + 52 + 100_000, gso_size: 1448, gso_segs: 0, vlan: None };
    let segment = parse(&big, &meta, Direction::Ingress).unwrap().segment;
    assert_eq!((segment.payload, segment.frames), (100_000, 70), "beyond 64 KB the length field is 0");
}

#[test]
fn options_that_do_not_add_up_end_the_list() {
    let option = |at: usize, bytes: &[u8]| {
        let mut frame = DATA_IPV4;
        frame[54 + at..54 + at + bytes.len()].copy_from_slice(bytes);
        parse_whole(&frame).unwrap().segment
    };
    assert_eq!(option(2, &[8, 1]).timestamps, None, "length below 2");
    assert_eq!(option(2, &[8, 11]).timestamps, None, "longer than the header");
    assert_eq!(option(0, &[0]).timestamps, None, "end of list first");
    assert!(option(2, &[5, 10]).sack);
}

#[test]
fn a_checksum_left_to_the_card_is_completed_and_a_wrong_one_is_left_wrong() {
    let layout = parse_whole(&DATA_IPV4).unwrap().layout;
    let mut frame = DATA_IPV4;
    assert_eq!(complete_checksum(&mut frame, &layout), Checksum::Valid);
    assert_eq!(frame, DATA_IPV4);
    // 10.0.0.1 + 10.0.0.2 + protocol 6 + length 36.
    frame[50..52].copy_from_slice(&0x142d_u16.to_be_bytes());
    assert_eq!(complete_checksum(&mut frame, &layout), Checksum::Completed);
    assert_eq!(frame, DATA_IPV4);
    frame[50] ^= 0x40;
    let broken = frame;
    assert_eq!(complete_checksum(&mut frame, &layout), Checksum::Wrong);
    assert_eq!(frame, broken);
}

fn segments() -> impl Strategy<Value = (FlowKey, Segment)> {
    let addresses = (any::<bool>(), any::<[u8; 4]>(), any::<[u8; 16]>(), any::<[u8; 4]>(), any::<[u8; 16]>());
    let handshake = (any::<u16>(), proptest::option::of(0u8..15));
    let rest =
        (any::<u32>(), any::<u32>(), any::<u8>(), any::<u16>(), 0u32..3000, any::<bool>(), any::<(bool, bool, bool)>());
    let timestamps = proptest::option::of(any::<(u32, u32)>());
    (addresses, any::<(u16, u16)>(), 0u32..1 << 24, handshake, rest, timestamps).prop_map(
        |((ipv4, a4, a6, b4, b6), (local_port, remote_port), vlan, (mss, wscale), rest, timestamps)| {
            let (local, remote) = if ipv4 { (mapped(&a4), mapped(&b4)) } else { (a6, b6) };
            // A tag with identifier 0 is not told apart from no tag; the outer one alone would be read as the inner.
            let vlan = if vlan & 0xfff == 0 { 0 } else { vlan };
            let (seq, ack, flags, window, payload, ce, (sack, dsack, multipath)) = rest;
            let syn = Flags(flags).has(Flags::SYN);
            let segment = Segment {
                seq: SeqNumber(seq),
                ack: SeqNumber(ack),
                flags: Flags(flags),
                window,
                payload,
                frames: 1,
                header: 0,
                ce,
                sack,
                dsack: sack && dsack,
                mss: if syn { mss } else { 0 },
                wscale: if syn { wscale } else { None },
                timestamps,
                multipath,
            };
            (FlowKey { local, remote, local_port, remote_port, vlan }, segment)
        },
    )
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200), len: u32, gso_size: u16, gso_segs: u16,
        vlan in proptest::option::of(any::<u16>())
    ) {
        let _ = parse(&bytes, &Meta { len, gso_size, gso_segs, vlan }, Direction::Ingress);
    }

    #[test]
    fn damaged_packets_never_panic_and_stay_inside(
        at in 0usize..70, value: u8, cut in 0usize..71
    ) {
        let mut frame = Vec::from(DATA_IPV4);
        frame[at] = value;
        frame.truncate(cut);
        if let Ok(packet) = parse_whole(&frame) {
            prop_assert!(packet.layout.end <= frame.len());
            complete_checksum(&mut frame, &packet.layout);
        }
    }

    #[test]
    fn what_is_emitted_is_read_back((key, mut segment) in segments(), egress: bool) {
        let direction = if egress { Direction::Egress } else { Direction::Ingress };
        let mut frame = emit(&key, &segment, direction);
        let packet = parse(&frame, &Meta::whole(&frame), direction).unwrap();
        segment.header = packet.segment.header;
        prop_assert_eq!((packet.key, packet.segment), (key, segment));
        prop_assert_eq!(complete_checksum(&mut frame, &packet.layout), Checksum::Valid);
    }

    #[test]
    fn a_bare_ack_stands_after_the_packet((key, segment) in segments()) {
        let frame = emit(&key, &segment, Direction::Egress);
        let packet = parse(&frame, &Meta::whole(&frame), Direction::Egress).unwrap();
        let mut bare = bare_ack(&frame, &packet);
        let read = parse(&bare, &Meta::whole(&bare), Direction::Egress).unwrap();
        let expected = Segment {
            seq: segment.end(),
            flags: Flags::ACK,
            header: read.segment.header,
            ce: false,
            sack: false,
            dsack: false,
            payload: 0,
            mss: 0,
            wscale: None,
            multipath: false,
            ..packet.segment
        };
        prop_assert_eq!((read.key, read.segment), (key, expected));
        prop_assert_eq!(bare.len(), read.layout.end);
        let timestamps = if segment.timestamps.is_some() { 12 } else { 0 };
        prop_assert_eq!(read.layout.end - read.layout.tcp, 20 + timestamps, "no other option");
        prop_assert_eq!(&bare[read.layout.tcp + 18..read.layout.tcp + 20], &[0, 0], "nothing is urgent");
        prop_assert_eq!(complete_checksum(&mut bare, &read.layout), Checksum::Valid);
    }

    #[test]
    fn a_plain_ack_is_read_back_whatever_the_link(
        (key, segment) in segments(), seq: u32, ack: u32, timestamps in any::<Option<(u32, u32)>>(), window: u16
    ) {
        let link = emit(&key, &segment, Direction::Egress);
        let position = Position { seq: SeqNumber(seq), ack: SeqNumber(ack), timestamps: timestamps.unwrap_or_default() };
        let mut frame = Vec::new();
        prop_assert!(plain_ack(&link[..28], &key, &position, window, &mut frame));
        let read = parse(&frame, &Meta::whole(&frame), Direction::Egress).unwrap();
        let expected = Segment {
            seq: SeqNumber(seq),
            ack: SeqNumber(ack),
            flags: Flags::ACK,
            window,
            frames: 1,
            header: read.segment.header,
            timestamps: timestamps.filter(|&times| times != (0, 0)),
            ..Segment::default()
        };
        prop_assert_eq!((read.key, read.segment), (key, expected));
        let mut whole = frame.clone();
        prop_assert_eq!(complete_checksum(&mut whole, &read.layout), Checksum::Valid);
        fill_checksums(&mut whole, &read.layout);
        prop_assert_eq!(whole, frame);
        for length in 0..14 {
            prop_assert!(!plain_ack(&link[..length], &key, &position, window, &mut Vec::new()));
        }
    }

    #[test]
    fn edits_keep_the_checksums_right(
        (key, segment) in segments(), window: Option<u16>, ect: Option<bool>, ece: Option<bool>,
        position: Option<(u32, u32, (u32, u32))>
    ) {
        let mut frame = emit(&key, &segment, Direction::Egress);
        let layout = parse(&frame, &Meta::whole(&frame), Direction::Egress).unwrap().layout;
        let position = position.map(|(seq, ack, timestamps)| Position {
            seq: SeqNumber(seq),
            ack: SeqNumber(ack),
            timestamps,
        });
        apply(&mut frame, &layout, &Edit { window, ect, ece, position });
        let mut expected = segment;
        expected.window = window.unwrap_or(segment.window);
        if let Some(Position { seq, ack, timestamps }) = position {
            expected.seq = seq;
            expected.ack = ack;
            expected.timestamps = segment.timestamps.and(Some(timestamps));
        }
        expected.ce = segment.ce && ect.is_none();
        match ece {
            Some(true) => expected.flags |= Flags::ECE,
            Some(false) => expected.flags.0 &= !Flags::ECE.0,
            None => {}
        }
        let read = parse(&frame, &Meta::whole(&frame), Direction::Egress).unwrap();
        expected.header = read.segment.header;
        if position.is_some() {
            // The block stays where it is.
            expected.dsack = read.segment.dsack;
        }
        prop_assert_eq!((read.key, read.segment), (key, expected));
        let incremental = frame.clone();
        fill_checksums(&mut frame, &layout);
        prop_assert_eq!(complete_checksum(&mut incremental.clone(), &layout), Checksum::Valid);
        prop_assert_eq!(&incremental[layout.ip..layout.tcp], &frame[layout.ip..layout.tcp]);
    }
}

#[test]
fn an_aggregates_pieces_are_segments_of_their_own() {
    use crate::flow::FlowKey;
    let v4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1];
    for address in [v4, [0xfd; 16]] {
        let key = FlowKey { local: address, remote: address, local_port: 1, remote_port: 2, vlan: 7 };
        let flags = Flags::ACK | Flags::PSH | Flags::FIN | Flags::CWR;
        let whole = Segment {
            flags,
            seq: SeqNumber(u32::MAX - 9),
            payload: 250,
            timestamps: Some((1, 2)),
            ..Segment::default()
        };
        let mut frame = emit(&key, &whole, Direction::Egress);
        let packet = parse(&frame, &Meta::whole(&frame), Direction::Egress).unwrap();
        let payload = packet.layout.payload;
        frame[payload..].iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8);
        for (skip, length, flags) in
            [(0, 100, Flags::ACK), (100, 100, Flags::ACK), (150, 100, Flags(0x19)), (240, 10, Flags(0x19))]
        {
            let mut piece = piece(&frame, &packet, whole.seq + skip, 100).unwrap();
            let read = parse(&piece, &Meta::whole(&piece), Direction::Egress).unwrap();
            assert_eq!((read.key, read.segment.seq, read.segment.flags), (key, whole.seq + skip, flags));
            assert_eq!((read.segment.payload, read.segment.timestamps), (length, Some((1, 2))));
            assert_eq!(complete_checksum(&mut piece, &read.layout), Checksum::Valid);
            assert_eq!(piece[read.layout.payload..], frame[payload + skip as usize..][..length as usize]);
        }
        assert_eq!(piece(&frame, &packet, whole.seq + 250, 100), None, "there is no more");
        assert_eq!(piece(&frame, &packet, SeqNumber(whole.seq.0 - 1), 100), None, "that is before it");
    }
}
