//! What a policy sees of a TCP segment, and what it may change. Nobody's bytes: the simulator fills it from its own
//! packets, Linux from frames, and a policy decides on it without knowing which.

use core::ops::{BitOr, BitOrAssign};

use crate::seq::SeqNumber;

/// TCP header flags that policies look at (RFC 9293 §3.1, RFC 3168 §6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push: the sender's write ended here.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number is valid.
    pub const ACK: Self = Self(0x10);
    /// Urgent pointer valid.
    pub const URG: Self = Self(0x20);
    /// ECN-Echo.
    pub const ECE: Self = Self(0x40);
    /// Congestion window reduced.
    pub const CWR: Self = Self(0x80);

    /// Whether all flags of `other` are set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any flag of `other` is set.
    #[must_use]
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// One TCP segment, or an aggregate of several (GRO, TSO) that travelled the wire as `frames` frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// First sequence number of the payload (of the SYN or FIN when there is none).
    pub seq: SeqNumber,
    /// Acknowledgement number; meaningless without [`Flags::ACK`].
    pub ack: SeqNumber,
    /// Header flags.
    pub flags: Flags,
    /// Window field as it stands in the header, unscaled.
    pub window: u16,
    /// Payload bytes of the whole aggregate.
    pub payload: u32,
    /// Frames that carried it on the wire, at least 1.
    pub frames: u16,
    /// Header bytes of each frame: link layer without preamble, gap and FCS, plus IP plus TCP with options.
    pub header: u16,
    /// Congestion Experienced in the IP header.
    pub ce: bool,
    /// At least one SACK block (RFC 2018).
    pub sack: bool,
    /// The only SACK block lies below the acknowledgement number: it reports a duplicate (RFC 2883), and no hole.
    pub dsack: bool,
    /// Maximum segment size option; 0 when absent. Only on SYN and SYN-ACK.
    pub mss: u16,
    /// Window scale option (RFC 7323), only on SYN and SYN-ACK.
    pub wscale: Option<u8>,
    /// Timestamps option (RFC 7323): TSval and TSecr.
    pub timestamps: Option<(u32, u32)>,
    /// One of MPTCP's options (RFC 8684).
    pub multipath: bool,
}

impl Segment {
    /// Bytes on the wire: payload plus one header per frame. The unit that a switch buffer is filled in.
    #[must_use]
    pub const fn wire_bytes(&self) -> u32 {
        self.payload + self.frames as u32 * self.header as u32
    }

    /// Sequence number after the segment: SYN and FIN count as one byte each.
    #[must_use]
    pub const fn end(&self) -> SeqNumber {
        let phantom = self.flags.has(Flags::SYN) as u32 + self.flags.has(Flags::FIN) as u32;
        SeqNumber(self.seq.0.wrapping_add(self.payload + phantom))
    }

    /// An acknowledgement and nothing else: no payload, no SYN, FIN or RST.
    #[must_use]
    pub const fn is_pure_ack(&self) -> bool {
        self.payload == 0
            && self.flags.has(Flags::ACK)
            && !self.flags.any(Flags(Flags::SYN.0 | Flags::FIN.0 | Flags::RST.0))
    }
}

/// Where a TCP stands: what a segment without content says if it leaves now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Sequence number of the next byte that it will send.
    pub seq: SeqNumber,
    /// Acknowledgement number.
    pub ack: SeqNumber,
    /// TSval and TSecr (RFC 7323).
    pub timestamps: (u32, u32),
}

/// What a policy wants changed in a header before the segment goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// New value of the window field, unscaled; the checksum is updated with it.
    pub window: Option<u16>,
    /// Sets the ECN field of the IP header: ECN-capable transport, ECT(0), or not ECN-capable. Either erases CE
    /// (RFC 3168 §5).
    pub ect: Option<bool>,
    /// Sets or clears [`Flags::ECE`].
    pub ece: Option<bool>,
    /// Sets sequence and acknowledgement number, and the timestamps if the segment carries any.
    pub position: Option<Position>,
}

impl Edit {
    /// Leave the segment as it is.
    pub const NONE: Self = Self { window: None, ect: None, ece: None, position: None };
}
