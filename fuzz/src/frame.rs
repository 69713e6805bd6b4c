//! Ethernet frames and TCP options: [`ackgate_control::wire`]. What is understood lies within the frame; a change changes what it
//! names and nothing else, and keeps a right checksum right and a wrong one wrong.

use ackgate_control::segment::{Edit, Flags, Position};
use ackgate_control::wire::{
    Checksum, Meta, Packet, Probe, apply, bare_ack, complete_checksum, is_left_to_card, leave_to_card, parse, plain_ack,
};

use crate::input::Input;

/// Reads, changes and copies one frame.
pub fn run(bytes: &[u8]) {
    let Some(Input { frame, meta, direction, edit, .. }) = Input::split(bytes) else { return };
    let _ = Probe::parse(frame, &meta);
    let Ok(packet) = parse(frame, &meta, direction) else { return };
    let Packet { key, segment, layout } = packet;
    assert!(layout.ip < layout.tcp && layout.tcp + 20 <= layout.payload && layout.payload <= layout.end);
    assert!(layout.payload <= frame.len() && layout.end <= meta.len as usize);
    assert!(segment.frames >= 1 && segment.wscale.is_none_or(|shift| shift <= 14));
    assert_eq!(segment.payload as usize, layout.end - layout.payload);

    let mut changed = frame.to_vec();
    let before = complete_checksum(&mut changed.clone(), &layout);
    apply(&mut changed, &layout, &edit);
    assert_eq!(changed.len(), frame.len());
    let after = parse(&changed, &meta, direction).expect("a frame stays one");
    assert_eq!((after.key, after.layout), (key, layout));
    assert_eq!(after.segment.window, edit.window.unwrap_or(segment.window));
    assert_eq!(after.segment.flags.has(Flags::ECE), edit.ece.unwrap_or(segment.flags.has(Flags::ECE)));
    if let Some(Position { seq, ack, timestamps }) = edit.position {
        assert_eq!((after.segment.seq, after.segment.ack), (seq, ack));
        assert_eq!(after.segment.timestamps, segment.timestamps.and(Some(timestamps)));
    }
    if edit == Edit::NONE {
        assert_eq!(changed, frame);
    }
    if before != Checksum::Completed {
        assert_eq!(complete_checksum(&mut changed.clone(), &layout) == Checksum::Valid, before == Checksum::Valid);
    }
    leave_to_card(&mut changed, &layout);
    assert!(is_left_to_card(&changed, &layout));

    let bare = bare_ack(frame, &packet);
    let read = parse(&bare, &Meta { vlan: meta.vlan, ..Meta::whole(&bare) }, direction).expect("a bare ACK is one");
    assert!(read.key == key && read.segment.is_pure_ack() && read.segment.ack == segment.ack);
    assert_eq!(complete_checksum(&mut bare.clone(), &read.layout), Checksum::Valid);

    let position = Position { seq: segment.seq, ack: segment.ack, timestamps: (1, 2) };
    let mut plain = Vec::new();
    let link = &frame[..frame.len().min(28)];
    if meta.vlan.is_none() && plain_ack(link, &key, &position, segment.window, &mut plain) {
        assert!(parse(&plain, &Meta::whole(&plain), direction).is_ok());
    }
    if segment.flags.has(Flags::SYN) {
        let probe = Probe::before(&packet, frame);
        assert!(Probe::parse(&probe, &Meta { vlan: meta.vlan, ..Meta::whole(&probe) }).is_some());
    }
}
