//! Ethernet frames that carry TCP: a checked view over bytes, and the [`Segment`] and [`FlowKey`] they mean.
//!
//! Nothing here trusts a length field: a frame is either understood or refused with the reason, and whoever forwards it
//! lets a refused frame pass untouched. The BPF programs read packets by the same rules, in the same order.

mod ack;
mod checksum;
mod emit;
mod options;
mod probe;

use crate::flow::FlowKey;
use crate::segment::{Flags, Segment};
use crate::seq::SeqNumber;

pub use ack::{bare_ack, piece, plain_ack};
pub use checksum::{Checksum, apply, complete_checksum, is_left_to_card, leave_to_card};
pub use emit::{emit, fill_checksums};
pub use probe::{PROBE_PROTOCOL, Probe};

/// Bytes of an Ethernet header without tags (IEEE 802.3 §3.1.1).
pub const ETHERNET_HEADER: usize = 14;
/// Bytes of one VLAN tag (IEEE 802.1Q §9.3).
pub const VLAN_TAG: usize = 4;
/// VLAN tags looked through: a service tag and a customer tag (IEEE 802.1ad).
pub const MAX_VLAN_TAGS: u32 = 2;
/// IPv6 extension headers looked through before giving up.
pub const MAX_EXTENSION_HEADERS: usize = 4;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_SERVICE_VLAN: u16 = 0x88a8;
const PROTOCOL_TCP: u8 = 6;
/// Extension headers with the common shape "next header, length in 8-byte units" (RFC 8200 §4): hop-by-hop, routing,
/// destination options.
const EXTENSIONS: [u8; 3] = [0, EXTENSION_ROUTING, 60];
const EXTENSION_ROUTING: u8 = 43;
const EXTENSION_FRAGMENT: u8 = 44;

/// Which way a frame goes, seen from the guarded host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the network: the frame's source is the remote end.
    Ingress,
    /// To the network: the frame's source is the local end.
    Egress,
}

/// What the host knows of a frame beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Length of the whole frame, of which the bytes at hand may be only the beginning.
    pub len: u32,
    /// Payload bytes of each wire frame when this is a GRO or TSO aggregate, else 0.
    pub gso_size: u16,
    /// Wire frames of the aggregate, 0 when the host does not say.
    pub gso_segs: u16,
    /// Tag control information of a VLAN tag that the host took out of the bytes.
    pub vlan: Option<u16>,
}

impl Meta {
    /// A frame that is all there, no aggregate, its tags (if any) in the bytes.
    #[must_use]
    pub fn whole(frame: &[u8]) -> Self {
        Self { len: u32::try_from(frame.len()).unwrap_or(u32::MAX), ..Self::default() }
    }
}

/// Where the headers are: offsets from the first byte of the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The IP header.
    pub ip: usize,
    /// IPv6 rather than IPv4.
    pub ipv6: bool,
    /// The TCP header.
    pub tcp: usize,
    /// First byte after the TCP options.
    pub payload: usize,
    /// First byte after the IP packet; what follows is Ethernet padding.
    pub end: usize,
}

/// A TCP frame, understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The connection it belongs to.
    pub key: FlowKey,
    /// What a policy sees.
    pub segment: Segment,
    /// Where the headers are.
    pub layout: Layout,
}

/// Why a frame is not for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// Another protocol: ARP, UDP, an unknown extension header, too many tags; or the end of a source route is still ahead, so that
    /// the address in the IP header is neither the connection's nor the checksum's (RFC 8200 §8.1).
    NotTcp,
    /// A fragment of an IP packet: only the first one has a TCP header, so none is counted.
    Fragment,
    /// Signed by TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925): what is changed would not verify.
    Signed,
    /// A header says more than the frame holds, or less than a header needs.
    Malformed,
}

/// Reads a frame. `bytes` may end after the TCP options as long as `meta.len` says how long the frame really is.
///
/// # Errors
/// [`Reject`] says why the frame is none of a policy's business.
pub fn parse(bytes: &[u8], meta: &Meta, direction: Direction) -> Result<Packet, Reject> {
    let (link, ethertype, vlan) = parse_link(bytes, meta)?;
    let ip = match ethertype {
        ETHERTYPE_IPV4 => parse_ipv4(bytes, meta, link)?,
        ETHERTYPE_IPV6 => parse_ipv6(bytes, meta, link)?,
        _ => return Err(Reject::NotTcp),
    };
    let tcp = header(bytes, ip.tcp, 20)?;
    let payload = ip.tcp + usize::from(tcp[12] >> 4) * 4;
    if payload < ip.tcp + 20 || payload > ip.end {
        return Err(Reject::Malformed);
    }
    let flags = Flags(tcp[13]);
    let options = options::parse(header(bytes, ip.tcp + 20, payload - ip.tcp - 20)?);
    if options.signed {
        return Err(Reject::Signed);
    }
    let ack = SeqNumber(be32(&tcp[8..12]));
    let syn = flags.has(Flags::SYN);
    let payload_bytes = u32::try_from(ip.end - payload).unwrap_or(u32::MAX);
    let tag = if meta.vlan.is_some() { VLAN_TAG } else { 0 };
    let segment = Segment {
        seq: SeqNumber(be32(&tcp[4..8])),
        ack,
        flags,
        window: be16(&tcp[14..16]),
        payload: payload_bytes,
        frames: frames(meta, payload_bytes),
        header: u16::try_from(payload + tag).unwrap_or(u16::MAX),
        ce: ip.ce,
        sack: options.sack,
        dsack: options.lone_block.is_some_and(|end| !end.after(ack)),
        mss: if syn { options.mss } else { 0 },
        wscale: if syn { options.wscale } else { None },
        timestamps: options.timestamps,
        multipath: options.multipath,
    };
    let (source_port, destination_port) = (be16(&tcp[0..2]), be16(&tcp[2..4]));
    let key = match direction {
        Direction::Ingress => FlowKey {
            local: ip.destination,
            remote: ip.source,
            local_port: destination_port,
            remote_port: source_port,
            vlan,
        },
        Direction::Egress => FlowKey {
            local: ip.source,
            remote: ip.destination,
            local_port: source_port,
            remote_port: destination_port,
            vlan,
        },
    };
    let layout = Layout { ip: link, ipv6: ethertype == ETHERTYPE_IPV6, tcp: ip.tcp, payload, end: ip.end };
    Ok(Packet { key, segment, layout })
}

/// Offset of the network header, its Ethernet type, and the VLAN identifiers, outermost in the higher bits.
fn parse_link(bytes: &[u8], meta: &Meta) -> Result<(usize, u16, u32), Reject> {
    let mut ethertype = be16(&header(bytes, 0, ETHERNET_HEADER)?[12..14]);
    let mut offset = ETHERNET_HEADER;
    let mut tags = u32::from(meta.vlan.is_some());
    let mut vlan = u32::from(meta.vlan.unwrap_or(0) & 0x0fff);
    while tags < MAX_VLAN_TAGS && matches!(ethertype, ETHERTYPE_VLAN | ETHERTYPE_SERVICE_VLAN) {
        let tag = header(bytes, offset, VLAN_TAG)?;
        vlan = vlan << 12 | u32::from(be16(&tag[0..2]) & 0x0fff);
        ethertype = be16(&tag[2..4]);
        offset += VLAN_TAG;
        tags += 1;
    }
    Ok((offset, ethertype, vlan))
}

/// What an IP header contributes.
struct Ip {
    source: [u8; 16],
    destination: [u8; 16],
    ce: bool,
    tcp: usize,
    end: usize,
}

fn parse_ipv4(bytes: &[u8], meta: &Meta, offset: usize) -> Result<Ip, Reject> {
    let ip = header(bytes, offset, 20)?;
    let length = usize::from(ip[0] & 0x0f) * 4;
    if ip[0] >> 4 != 4 || length < 20 {
        return Err(Reject::Malformed);
    }
    // RFC 791 §3.1: more fragments follow, or this one does not start at 0.
    if be16(&ip[6..8]) & 0x3fff != 0 {
        return Err(Reject::Fragment);
    }
    if ip[9] != PROTOCOL_TCP {
        return Err(Reject::NotTcp);
    }
    let end = ip_end(meta, offset, usize::from(be16(&ip[2..4])))?;
    if offset + length > end {
        return Err(Reject::Malformed);
    }
    Ok(Ip {
        source: mapped(&ip[12..16]),
        destination: mapped(&ip[16..20]),
        ce: ip[1] & 3 == 3,
        tcp: offset + length,
        end,
    })
}

fn parse_ipv6(bytes: &[u8], meta: &Meta, offset: usize) -> Result<Ip, Reject> {
    let ip = header(bytes, offset, 40)?;
    if ip[0] >> 4 != 6 {
        return Err(Reject::Malformed);
    }
    let payload = usize::from(be16(&ip[4..6]));
    let end = ip_end(meta, offset, if payload == 0 { 0 } else { 40 + payload })?;
    let (mut next, mut at) = (ip[6], offset + 40);
    for _ in 0..MAX_EXTENSION_HEADERS {
        if !EXTENSIONS.contains(&next) {
            break;
        }
        let extension = header(bytes, at, 4)?;
        let segments_left = extension[3];
        if next == EXTENSION_ROUTING && segments_left > 0 {
            return Err(Reject::NotTcp);
        }
        next = extension[0];
        at += (usize::from(extension[1]) + 1) * 8;
    }
    match next {
        PROTOCOL_TCP if at <= end => {}
        PROTOCOL_TCP => return Err(Reject::Malformed),
        EXTENSION_FRAGMENT => return Err(Reject::Fragment),
        _ => return Err(Reject::NotTcp),
    }
    let (mut source, mut destination) = ([0; 16], [0; 16]);
    source.copy_from_slice(&ip[8..24]);
    destination.copy_from_slice(&ip[24..40]);
    Ok(Ip { source, destination, ce: ip[1] >> 4 & 3 == 3, tcp: at, end })
}

/// Where the IP packet ends. Aggregates above 64 KB ("BIG TCP") carry length 0 and end where the frame ends.
fn ip_end(meta: &Meta, offset: usize, total: usize) -> Result<usize, Reject> {
    let frame = usize::try_from(meta.len).unwrap_or(usize::MAX);
    let end = match total {
        0 if meta.gso_size > 0 => frame,
        _ => offset + total,
    };
    if end > frame || end <= offset { Err(Reject::Malformed) } else { Ok(end) }
}

/// Wire frames of an aggregate; 1 for everything else.
fn frames(meta: &Meta, payload: u32) -> u16 {
    match (meta.gso_segs, meta.gso_size) {
        (0, 0) => 1,
        (0, size) => u16::try_from(payload.div_ceil(u32::from(size))).unwrap_or(u16::MAX).max(1),
        (frames, _) => frames,
    }
}

/// IPv4 address in IPv6 form (RFC 4291 §2.5.5.2).
fn mapped(address: &[u8]) -> [u8; 16] {
    let mut out = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0];
    out[12..].copy_from_slice(address);
    out
}

fn header(bytes: &[u8], offset: usize, length: usize) -> Result<&[u8], Reject> {
    bytes.get(offset..offset + length).ok_or(Reject::Malformed)
}

/// Whether an Ethernet type of two bytes is a VLAN tag's.
fn is_tag(ethertype: &[u8]) -> bool {
    [ETHERTYPE_VLAN, ETHERTYPE_SERVICE_VLAN].iter().any(|kind| ethertype == kind.to_be_bytes())
}

/// Big-endian 16 bits; `bytes` holds exactly two.
fn be16(bytes: &[u8]) -> u16 {
    u16::from(bytes[0]) << 8 | u16::from(bytes[1])
}

/// Big-endian 32 bits; `bytes` holds exactly four.
fn be32(bytes: &[u8]) -> u32 {
    u32::from(be16(&bytes[0..2])) << 16 | u32::from(be16(&bytes[2..4]))
}

#[cfg(test)]
mod tests;
