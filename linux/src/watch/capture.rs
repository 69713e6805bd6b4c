//! The same look at a capture that was made elsewhere (pcap or pcapng, of Ethernet).

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use ackgate_control::flow::FlowKey;
use ackgate_control::segment::Flags;
use ackgate_control::units::Span;
use ackgate_control::wire::{self, Direction, Meta};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

use super::{Bin, Connection};
use crate::skel::watch::types;

/// Bytes that are read at a time; no packet is larger.
const CHUNK: usize = 1 << 20;
/// Bins at most, empty ones included: four hours of milliseconds. A damaged time stamp must not fill the memory.
const MOST_BINS: u64 = 1 << 24;

/// How a pcapng capture begins.
const PCAPNG: &[u8] = &[0x0a, 0x0d, 0x0d, 0x0a];
/// Type and twice the length: bytes that each block of pcapng has.
const LEAST_BLOCK: u32 = 12;

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file cannot be read.
    #[error("`{file}`: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },

    /// The file is no capture, or breaks off.
    #[error("`{file}` is not a pcap or pcapng file, or it is damaged: {what}")]
    Damaged {
        /// The file.
        file: String,
        /// What is wrong.
        what: String,
    },

    /// Its packets do not begin with Ethernet headers.
    #[error("`{file}` was not captured on Ethernet (link type {kind}); capture on an Ethernet interface")]
    NotEthernet {
        /// The file.
        file: String,
        /// Number of the link type.
        kind: i32,
    },

    /// Nothing in it is TCP data.
    #[error("`{0}` contains no TCP segment with data")]
    Empty(String),

    /// It spans more time than is looked at in bins of this width.
    #[error(
        "`{file}` spans more than {MOST_BINS} bins of {width}; choose a larger --bin, or cut the capture (`editcap -A -B`)"
    )]
    TooLong {
        /// The file.
        file: String,
        /// Width of a bin.
        width: Span,
    },
}

/// `struct watch_arrival` of `bpf/watch.h`.
#[repr(C)]
struct Arrival {
    seq: u32,
    payload: u32,
    syn: bool,
    push: bool,
}

unsafe extern "C" {
    safe fn ackgate_watch_segment(
        flow: &mut types::watch_flow,
        bin: &mut types::watch_bin,
        arrival: &Arrival,
        now: u64,
        stall: u64,
    );
}

/// A capture, read.
#[derive(Debug)]
pub struct Capture {
    /// The receiver: the address that most data was sent to, unless it was given.
    pub receiver: IpAddr,
    /// Its bins, in order, empty ones too.
    pub bins: Vec<Bin>,
    /// Its connections on which data arrived.
    pub connections: Vec<Connection>,
}

impl Capture {
    /// Reads a capture: what was sent to `receiver`, or to whoever was sent most data.
    ///
    /// # Errors
    /// When it cannot be read, is no capture of Ethernet, or holds no TCP data.
    pub fn read(file: &Path, receiver: Option<IpAddr>, width: Span, stall: Span) -> Result<Self, CaptureError> {
        let name = file.display().to_string();
        let opened = File::open(file).map_err(|source| CaptureError::Io { file: name.clone(), source })?;
        Self::read_from(opened, &name, receiver, width, stall)
    }

    /// Reads a capture that is open; `name` stands for it in errors.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn read_from(
        mut source: impl Read + Seek + Send,
        name: &str,
        receiver: Option<IpAddr>,
        width: Span,
        stall: Span,
    ) -> Result<Self, CaptureError> {
        let receiver = match receiver {
            Some(receiver) => receiver,
            None => busiest(&mut source, name)?,
        };
        source.rewind().map_err(|source| CaptureError::Io { file: name.to_owned(), source })?;
        let mut flows = HashMap::<FlowKey, types::watch_flow>::new();
        let mut bins = Vec::<types::watch_bin>::new();
        let mut first = None;
        let mut now = 0;
        packets(&mut source, name, |time, frame, length| {
            let Some(packet) = parse(frame, length).filter(|packet| address(packet.key.local) == receiver) else {
                return Ok(());
            };
            // Time 0 means "never" to the account, and to it time never goes back: a capture on several queues may.
            now = time.saturating_sub(*first.get_or_insert(time.saturating_sub(1))).max(now);
            let number = now / width.0.max(1);
            if number >= MOST_BINS {
                return Err(CaptureError::TooLong { file: name.to_owned(), width });
            }
            while bins.len() as u64 <= number {
                bins.push(types::watch_bin { number: bins.len() as u64, ..Default::default() });
            }
            let bin = &mut bins[number as usize];
            bin.bytes += u64::from(length);
            bin.frames += 1;
            let segment = &packet.segment;
            bin.marked += u32::from(segment.ce);
            if segment.payload == 0 && !segment.flags.has(Flags::SYN) {
                return Ok(());
            }
            let flow = flows.entry(packet.key).or_insert_with(|| types::watch_flow {
                hash: 1,
                // As if counted in no bin yet.
                last_bin: u64::MAX,
                local: packet.key.local,
                remote: packet.key.remote,
                local_port: packet.key.local_port,
                remote_port: packet.key.remote_port,
                ..Default::default()
            });
            let arrival = Arrival {
                seq: segment.seq.0,
                payload: segment.payload,
                syn: segment.flags.has(Flags::SYN),
                push: segment.flags.any(Flags::PSH | Flags::FIN),
            };
            ackgate_watch_segment(flow, bin, &arrival, now, stall.0);
            Ok(())
        })?;
        let connections: Vec<Connection> = flows.values().filter(|flow| flow.bytes > 0).map(Connection::read).collect();
        if connections.is_empty() {
            return Err(CaptureError::Empty(name.to_owned()));
        }
        let counted = |part: &types::watch_bin| {
            let mut bin = Bin { number: part.number, ..Bin::default() };
            bin.add(part);
            bin
        };
        Ok(Self { receiver, bins: bins.iter().map(counted).collect(), connections })
    }
}

/// The address that most payload was sent to.
fn busiest(source: &mut (impl Read + Send), name: &str) -> Result<IpAddr, CaptureError> {
    let mut received = HashMap::<[u8; 16], u64>::new();
    packets(source, name, |_, frame, length| {
        if let Some(packet) = parse(frame, length) {
            *received.entry(packet.key.local).or_default() += u64::from(packet.segment.payload);
        }
        Ok(())
    })?;
    let most = received.into_iter().filter(|&(_, bytes)| bytes > 0).max_by_key(|&(address, bytes)| (bytes, address));
    most.map(|(bytes, _)| address(bytes)).ok_or_else(|| CaptureError::Empty(name.to_owned()))
}

fn address(bytes: [u8; 16]) -> IpAddr {
    Ipv6Addr::from(bytes).to_canonical()
}

fn parse(frame: &[u8], length: u32) -> Option<wire::Packet> {
    wire::parse(frame, &Meta { len: length, ..Meta::default() }, Direction::Ingress).ok()
}

/// Calls `each` for every packet with its time in ns, what was captured of it, and its length on the wire.
fn packets(
    source: &mut (impl Read + Send),
    name: &str,
    mut each: impl FnMut(u64, &[u8], u32) -> Result<(), CaptureError>,
) -> Result<(), CaptureError> {
    let damaged = |what: String| CaptureError::Damaged { file: name.to_owned(), what };
    let mut reader = create_reader(CHUNK, source).map_err(|error| damaged(format!("{error:?}")))?;
    let mut kind = Linktype::ETHERNET;
    // Units of time stamps in a second, and seconds to add to them.
    let mut clock = (1_000_000_u64, 0_u64);
    let blocks = reader.data().starts_with(PCAPNG);
    loop {
        if blocks && is_too_short(reader.data()) {
            return Err(damaged(format!("a block has less than {LEAST_BLOCK} bytes")));
        }
        let (used, block) = match reader.next() {
            Ok(read) => read,
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => {
                reader.refill().map_err(|error| damaged(format!("{error:?}")))?;
                if reader.reader_exhausted() && reader.data().is_empty() {
                    return Ok(());
                }
                continue;
            }
            Err(error) => return Err(damaged(format!("{error:?}"))),
        };
        let mut take = |time: u64, data: &[u8], captured: u32, length: u32| -> Result<(), CaptureError> {
            if kind != Linktype::ETHERNET {
                return Err(CaptureError::NotEthernet { file: name.to_owned(), kind: kind.0 });
            }
            each(time, &data[..data.len().min(captured as usize)], length)
        };
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                kind = header.network;
                clock.0 = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            }
            PcapBlockOwned::Legacy(packet) => {
                let time =
                    u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_usec) * (1_000_000_000 / clock.0);
                take(time, packet.data, packet.caplen, packet.origlen)?;
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                kind = interface.linktype;
                clock = (interface.ts_resolution().unwrap_or(1_000_000), interface.ts_offset().max(0).cast_unsigned());
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let units = u128::from(packet.ts_high) << 32 | u128::from(packet.ts_low);
                let time = units * 1_000_000_000 / u128::from(clock.0.max(1)) + u128::from(clock.1) * 1_000_000_000;
                take(u64::try_from(time).unwrap_or(u64::MAX), packet.data, packet.caplen, packet.origlen)?;
            }
            PcapBlockOwned::NG(_) => {}
        }
        reader.consume(used);
    }
}

/// Whether a block says that it is shorter than any can be, which the library reckons with all the same. In either order of bytes:
/// what is that short in the wrong one is longer than what is read at a time.
fn is_too_short(block: &[u8]) -> bool {
    block
        .get(4..8)
        .and_then(|length| length.try_into().ok())
        .is_some_and(|length| u32::from_le_bytes(length).min(u32::from_be_bytes(length)) < LEAST_BLOCK)
}

#[cfg(test)]
mod tests {
    use ackgate_control::segment::Segment;
    use ackgate_control::seq::SeqNumber;

    use super::*;

    /// A capture of microseconds (RFC draft-ietf-opsawg-pcap, version 2.4) of segments that arrive at 10.0.0.1.
    fn capture(name: &str, segments: &[(u64, u16, u32, Flags)]) -> std::path::PathBuf {
        let mut bytes = Vec::new();
        for field in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        let host = |last| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last];
        for &(micros, port, seq, flags) in segments {
            let key = FlowKey { local: host(1), remote: host(2), local_port: 40_000, remote_port: port, vlan: 0 };
            let payload = if flags.has(Flags::SYN) { 0 } else { 1000 };
            let segment = Segment { seq: SeqNumber(seq), flags, payload, ..Segment::default() };
            let frame = wire::emit(&key, &segment, Direction::Ingress);
            let length = u32::try_from(frame.len()).unwrap();
            for field in [(micros / 1_000_000) as u32, (micros % 1_000_000) as u32, length, length] {
                bytes.extend_from_slice(&field.to_le_bytes());
            }
            bytes.extend_from_slice(&frame);
        }
        let file = std::env::temp_dir().join(format!("ackgate-capture-{}-{name}", std::process::id()));
        std::fs::write(&file, bytes).unwrap();
        file
    }

    fn read(name: &str, segments: &[(u64, u16, u32, Flags)]) -> Result<Capture, CaptureError> {
        let file = capture(name, segments);
        let read = Capture::read(&file, None, Span::millis(1), Span::millis(150));
        std::fs::remove_file(file).unwrap();
        read
    }

    const DATA: Flags = Flags::ACK;

    #[test]
    fn what_was_sent_again_was_overtaken_or_waited_for_is_told_apart() {
        let second = 1_000_000;
        let read = read(
            "signs",
            &[
                (second, 1, 0, Flags::SYN),
                (second + 10, 1, 1, DATA),
                // 1001 is overtaken by 2001.
                (second + 20, 1, 2001, DATA),
                (second + 30, 1, 1001, DATA),
                // 3001 is lost and comes again after a round trip.
                (second + 40, 1, 4001, DATA),
                (second + 2000, 1, 3001, DATA),
                // All after that is lost, and the sender waits for its timer.
                (second + 210_000, 1, 5001, DATA),
                // Another connection thinks for as long, after a PSH.
                (second + 210_100, 2, 1, DATA | Flags::PSH),
                (second + 500_000, 2, 1001, DATA | Flags::PSH),
            ],
        );
        let capture = read.unwrap();
        assert_eq!(capture.receiver, "10.0.0.1".parse::<IpAddr>().unwrap());
        let sum = |of: fn(&Bin) -> u64| capture.bins.iter().map(of).sum::<u64>();
        assert_eq!(sum(|bin| bin.out_of_order_bytes), 1000);
        assert_eq!(sum(|bin| bin.retransmitted_bytes), 1000);
        assert_eq!(sum(|bin| bin.stalls), 1);
        assert_eq!(capture.bins[210].senders, 2);
        let mut stalls: Vec<_> = capture.connections.iter().map(|c| (c.remote_port, c.stalls, c.bytes)).collect();
        stalls.sort_unstable();
        assert_eq!(stalls, [(1, 1, 6000), (2, 0, 2000)]);
    }

    #[test]
    fn what_is_no_capture_is_named() {
        assert!(matches!(read("empty", &[(0, 1, 0, Flags::SYN)]), Err(CaptureError::Empty(_))));
        let file = std::env::temp_dir().join(format!("ackgate-no-capture-{}", std::process::id()));
        std::fs::write(&file, b"not a capture at all, but long enough for a header of one").unwrap();
        let error = Capture::read(&file, None, Span::millis(1), Span::millis(150)).unwrap_err();
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(error, CaptureError::Damaged { .. }), "{error}");
        let error = Capture::read(&file, None, Span::millis(1), Span::millis(150)).unwrap_err();
        assert!(error.to_string().contains(&file.display().to_string()), "{error}");
    }

    #[test]
    fn time_that_goes_back_is_no_stall_and_no_crash() {
        let second = 1_000_000;
        let read = read("back", &[(5 * second, 1, 0, DATA), (second, 1, 3000, DATA), (5 * second + 5, 1, 1000, DATA)]);
        let capture = read.unwrap();
        assert_eq!((capture.bins.len(), capture.bins[0].frames, capture.bins[0].stalls), (1, 3, 0));
    }

    #[test]
    fn a_time_stamp_far_off_does_not_fill_the_memory() {
        let read = read("far", &[(1, 1, 0, DATA), (4_000_000_000_000_000, 1, 1000, DATA)]);
        assert!(matches!(read, Err(CaptureError::TooLong { .. })), "{read:?}");
    }
}
