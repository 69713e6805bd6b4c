//! What a frame's target takes from the head of its bytes: what the kernel knows beside the frame, and what is to be changed.

use ackgate_control::segment::{Edit, Position};
use ackgate_control::seq::SeqNumber;
use ackgate_control::wire::{Direction, Meta};

/// Bytes before the frame.
const HEAD: usize = 16;

/// A frame and what stands beside it.
pub(crate) struct Input<'a> {
    pub(crate) frame: &'a [u8],
    pub(crate) meta: Meta,
    pub(crate) direction: Direction,
    /// Bytes of the frame in the kernel's linear part.
    pub(crate) linear: usize,
    pub(crate) edit: Edit,
}

impl<'a> Input<'a> {
    /// `None` when there are too few bytes.
    pub(crate) fn split(bytes: &'a [u8]) -> Option<Self> {
        let (&[bits, edits, s0, s1, n0, n1, v0, v1, l0, l1, w0, w1, a, b, c, d], frame) =
            bytes.split_first_chunk::<HEAD>()?;
        let has = |bit: u8| bits & 1 << bit != 0;
        let word = u32::from_be_bytes([a, b, c, d]);
        let linear = usize::from(u16::from_be_bytes([l0, l1])).min(frame.len());
        let beyond = if has(3) { u32::from(l1) } else { 0 };
        let meta = Meta {
            len: u32::try_from(frame.len()).ok()? + beyond,
            gso_size: if has(1) { u16::from_be_bytes([s0, s1]) } else { 0 },
            gso_segs: if has(1) { u16::from_be_bytes([n0, n1]) } else { 0 },
            vlan: has(2).then(|| u16::from_be_bytes([v0, v1])),
        };
        let flag = |bit: u8| (edits & 1 << bit != 0).then_some(edits & 2 << bit != 0);
        let edit = Edit {
            window: (edits & 1 != 0).then(|| u16::from_be_bytes([w0, w1])),
            ect: flag(1),
            ece: flag(3),
            position: (edits & 32 != 0).then_some(Position {
                seq: SeqNumber(word),
                ack: SeqNumber(!word),
                timestamps: (word, !word),
            }),
        };
        let direction = if has(0) { Direction::Ingress } else { Direction::Egress };
        Some(Self { frame, meta, direction, linear, edit })
    }
}
