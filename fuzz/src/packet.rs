//! The parser of the BPF programs (`linux/src/bpf/packet.h`), compiled for this process: it agrees with [`ackgate_control::wire`] on
//! every frame, wherever the kernel's linear part ends.

use ackgate_control::flow::FlowKey;
use ackgate_control::segment::{Flags, Segment};
use ackgate_control::seq::SeqNumber;
use ackgate_control::wire::{self, Direction, Meta, Reject};

use crate::input::Input;

/// `struct frame` of packet.c.
#[repr(C)]
struct Frame {
    bytes: *const u8,
    data: usize,
    data_end: usize,
    len: u32,
    gso_size: u32,
    gso_segs: u32,
    vlan_present: u32,
    vlan_tci: u32,
    protocol: u32,
}

/// `struct segment` of `control/core/types.h`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Raw {
    seq: u32,
    ack: u32,
    payload: u32,
    tsval: u32,
    tsecr: u32,
    window: u16,
    frames: u16,
    header: u16,
    mss: u16,
    flags: u8,
    wscale: u8,
    ce: bool,
    sack: bool,
    dsack: bool,
    timestamps: bool,
    multipath: bool,
    tcp: u32,
}

/// `struct packet` of packet.h.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Parsed {
    key: FlowKey,
    segment: Raw,
}

unsafe extern "C" {
    fn ackgate_parse_frame(frame: *mut Frame, ingress: bool, out: *mut Parsed) -> i32;
    fn ackgate_parse_packet(frame: *mut Frame, out: *mut Parsed) -> i32;
}

/// Reads one frame twice; if it is a single IP packet on its way out, from its IP header on, too, as netfilter shows it.
pub fn run(bytes: &[u8]) {
    let Some(Input { frame, mut meta, direction, linear, .. }) = Input::split(bytes) else { return };
    // The kernel has the whole frame.
    meta.len = Meta::whole(frame).len;
    let expected = wire::parse(frame, &meta, direction);
    let told = expected.map(|packet| (packet.key, packet.segment, packet.layout.tcp));
    assert_eq!(by_c(frame, &meta, linear, Some(direction)), told);

    if let Some((link, packet)) = frame.split_at_checked(wire::ETHERNET_HEADER)
        && meta.vlan.is_none()
        && matches!(link[12..], [0x08, 0x00] | [0x86, 0xdd])
    {
        let inner = Meta { len: meta.len - 14, ..meta };
        let expected = wire::parse(frame, &meta, Direction::Egress);
        let told = expected.map(|packet| (packet.key, packet.segment, packet.layout.tcp - 14));
        assert_eq!(by_c(packet, &inner, usize::from(link[12] == 0x08), None), told);
    }
}

/// What the C parser says; without a direction, of a packet from its IP header on, which `linear` says to be IPv4.
fn by_c(
    frame: &[u8],
    meta: &Meta,
    linear: usize,
    direction: Option<Direction>,
) -> Result<(FlowKey, Segment, usize), Reject> {
    // Aligned as the kernel has it: the IP header at a multiple of four.
    let mut room = vec![0_u32; frame.len() / 4 + 2];
    let (_, aligned, _) = {
        // SAFETY: any four bytes are as good as a u32.
        unsafe { room.align_to_mut::<u8>() }
    };
    let shift = if direction.is_some() { 2 } else { 0 };
    let copy = &mut aligned[shift..shift + frame.len()];
    copy.copy_from_slice(frame);
    let ethertype: u16 = if linear == 1 { 0x0800 } else { 0x86dd };
    let mut shown = Frame {
        bytes: copy.as_ptr(),
        data: copy.as_ptr() as usize,
        data_end: copy.as_ptr() as usize + linear,
        len: meta.len,
        gso_size: meta.gso_size.into(),
        gso_segs: meta.gso_segs.into(),
        vlan_present: meta.vlan.is_some().into(),
        vlan_tci: meta.vlan.unwrap_or_default().into(),
        protocol: ethertype.to_be().into(),
    };
    let mut out = Parsed::default();
    // SAFETY: both structs are laid out as in C, and `bytes` has `len` bytes, of which `linear` lie before `data_end`.
    let verdict = unsafe {
        match direction {
            Some(direction) => ackgate_parse_frame(&raw mut shown, direction == Direction::Ingress, &raw mut out),
            None => ackgate_parse_packet(&raw mut shown, &raw mut out),
        }
    };
    match verdict {
        0 => {}
        1 => return Err(Reject::NotTcp),
        2 => return Err(Reject::Fragment),
        3 => return Err(Reject::Malformed),
        4 => return Err(Reject::Signed),
        other => panic!("packet.h says {other}"),
    }
    let raw = out.segment;
    let segment = Segment {
        seq: SeqNumber(raw.seq),
        ack: SeqNumber(raw.ack),
        flags: Flags(raw.flags),
        window: raw.window,
        payload: raw.payload,
        frames: raw.frames,
        header: raw.header,
        ce: raw.ce,
        sack: raw.sack,
        dsack: raw.dsack,
        mss: raw.mss,
        wscale: (raw.wscale != 0xff).then_some(raw.wscale),
        timestamps: raw.timestamps.then_some((raw.tsval, raw.tsecr)),
        multipath: raw.multipath,
    };
    Ok((out.key, segment, raw.tcp as usize))
}
