//! Hold back-ends: how a frame gets from tc egress to the scheduler, and from there onto the wire.

mod inbox;
mod nfqueue;
mod redirect;
mod ring;

use std::fmt;
use std::os::fd::BorrowedFd;

use ackgate_control::decision::{Class, Outgoing};
use ackgate_control::policy::{FlowId, PacketId};
use ackgate_control::segment::Edit;
use ackgate_control::seq::SeqNumber;
use ackgate_control::units::Time;

use crate::error::Error;
use crate::standby::Aid;

pub(crate) use nfqueue::{AllPackets, Copies, NfQueue, netlink_packets, probe as probe_nfqueue};
pub(crate) use redirect::{Pair, Redirect};
#[cfg(test)]
pub(crate) use ring::Reader;
pub(crate) use ring::Ring;

/// A frame that was taken off the wire.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Handle to release or discard it by.
    pub packet: PacketId,
    /// Its connection.
    pub flow: FlowId,
    /// What it is to the gate.
    pub out: Outgoing,
    /// When it was taken.
    pub time: Time,
}

/// Which back-end to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The cheapest that this host supports.
    #[default]
    Auto,
    /// Frames are copied to a BPF ring buffer.
    Ring,
    /// Frames are redirected to a virtual device that the daemon reads.
    Redirect,
    /// Frames stay in the kernel, in a netfilter queue.
    NfQueue,
}

/// Where held frames are, and how they come back.
pub(crate) trait Hold: fmt::Debug {
    /// What `--hold` calls it.
    fn name(&self) -> &'static str;

    /// Readable when there may be something to collect.
    fn poll_fd(&self) -> BorrowedFd<'_>;

    /// Takes in what has arrived, in order.
    fn collect(&mut self, arrivals: &mut Vec<Arrival>);

    /// Lets a frame go, with this change. It may stay here until [`flush`](Self::flush).
    fn release(&mut self, packet: PacketId, edit: &Edit);

    /// Lets a frame go, with this change, and keeps its bare copy under the same handle
    /// ([`ackgate_control::policy::Action::Split`]).
    fn split(&mut self, packet: PacketId, edit: &Edit);

    /// Forgets a frame.
    fn discard(&mut self, packet: PacketId);

    /// Sends what was released.
    fn flush(&mut self);

    /// Forgets what was released and has not been sent.
    fn withdraw(&mut self);

    /// What somebody else needs to send in this back-end's place, and to find what it has not collected yet.
    ///
    /// # Errors
    /// When it cannot be had.
    fn aid(&self) -> Result<Aid, Error>;

    /// Released frames that the device would not take.
    fn lost(&self) -> u64;
}

/// The header before a held frame: `struct held` of `intf.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) time: Time,
    pub(crate) flow: FlowId,
    pub(crate) out: Outgoing,
    pub(crate) frame_length: usize,
    /// Ethernet type and tag control information of a tag that travels beside the frame.
    pub(crate) tag: Option<[u8; 4]>,
}

/// Bytes of the two MAC addresses that a frame begins with. A VLAN tag belongs behind them.
pub(crate) const MAC_ADDRESSES: usize = 12;

/// `HELD_MAGIC` of `intf.h`.
const MAGIC: u16 = 0x88b5;

impl Header {
    /// Whether what it describes says nothing but how far we have received: then it can be written anew.
    pub(crate) const fn is_renewable(&self) -> bool {
        self.out.copy || matches!(self.out.class, Class::Ack | Class::Urgent | Class::Stale)
    }

    /// The frame as it is on the wire, in two parts: a tag that travelled beside it is back in its place.
    pub(crate) fn whole<'a>(&self, frame: &'a [u8], buffer: &'a mut [u8; MAC_ADDRESSES + 4]) -> (&'a [u8], &'a [u8]) {
        match (&self.tag, frame.split_at_checked(MAC_ADDRESSES)) {
            (Some(tag), Some((addresses, rest))) => {
                buffer[..MAC_ADDRESSES].copy_from_slice(addresses);
                buffer[MAC_ADDRESSES..].copy_from_slice(tag);
                (buffer, rest)
            }
            _ => (frame, &[]),
        }
    }

    /// Reads the header and the frame behind it; `None` for anything else, which only a mismatch of versions could be.
    pub(crate) fn split(record: &[u8]) -> Option<(Self, &[u8])> {
        let (time, rest) = record.split_first_chunk::<8>()?;
        let (flow, rest) = rest.split_first_chunk::<4>()?;
        let (&[m0, m1, l0, l1], rest) = rest.split_first_chunk::<4>()?;
        let (ack, rest) = rest.split_first_chunk::<4>()?;
        let (&[w0, w1, t0, t1, p0, p1, class, bits], rest) = rest.split_first_chunk::<8>()?;
        let (&[shift, ..], rest) = rest.split_first_chunk::<4>()?;
        if u16::from_be_bytes([m0, m1]) != MAGIC {
            return None;
        }
        let frame_length = usize::from(u16::from_ne_bytes([l0, l1]));
        let protocol = u16::from_ne_bytes([p0, p1]);
        let tag = (protocol != 0).then(|| {
            let ([a, b], [c, d]) = (protocol.to_be_bytes(), u16::from_ne_bytes([t0, t1]).to_be_bytes());
            [a, b, c, d]
        });
        let class = Class::from_number(u32::from(class)).filter(|&class| class != Class::None)?;
        let ack = SeqNumber(u32::from_ne_bytes(*ack));
        let header = Self {
            time: Time(u64::from_ne_bytes(*time)),
            flow: FlowId(u32::from_ne_bytes(*flow)),
            out: Outgoing {
                class,
                ack,
                ece: bits & 1 != 0,
                data: bits & 2 != 0,
                repeated: bits & 4 != 0,
                copy: bits & 8 != 0,
                dsack: bits & 16 != 0,
                window: u16::from_ne_bytes([w0, w1]),
                shift,
            },
            frame_length,
            tag,
        };
        Some((header, rest.get(..frame_length)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_the_programs_write_it() {
        let mut record = Vec::new();
        record.extend_from_slice(&7_u64.to_ne_bytes());
        record.extend_from_slice(&8_u32.to_ne_bytes());
        record.extend_from_slice(&MAGIC.to_be_bytes());
        record.extend_from_slice(&3_u16.to_ne_bytes());
        record.extend_from_slice(&9_u32.to_ne_bytes());
        for field in [501_u16, 0x200a, 0x8100] {
            record.extend_from_slice(&field.to_ne_bytes());
        }
        record.extend_from_slice(&[5, 31, 9, 0, 0, 0]);
        let head = record.len();
        assert_eq!(head, 32, "struct held");
        record.extend_from_slice(b"abcpadding");
        let (header, frame) = Header::split(&record).unwrap();
        let ack = SeqNumber(9);
        let out = Outgoing {
            class: Class::Data,
            ack,
            ece: true,
            data: true,
            repeated: true,
            copy: true,
            dsack: true,
            window: 501,
            shift: 9,
        };
        let tag = Some([0x81, 0x00, 0x20, 0x0a]);
        assert_eq!(header, Header { time: Time(7), flow: FlowId(8), out, frame_length: 3, tag });
        assert_eq!(frame, b"abc");
        for length in 0..head + 3 {
            assert!(Header::split(&record[..length]).is_none());
        }
    }
}
