//! Copies of what a host's TCP has sent, until it is acknowledged: for policies that have segments repeated.
//!
//! A copy leaves with the newest timestamps and acknowledgement of its TCP: the receiver drops what is older than what it has
//! seen since (PAWS, RFC 7323 §5).

use std::collections::VecDeque;

use ackgate_control::policy::FlowId;
use ackgate_control::segment::{Edit, Flags, Position, Segment};
use ackgate_control::seq::SeqNumber;

use super::frame::Frame;

/// Most bytes that are kept, of all connections together. What finds no room is not repeated.
const ROOM: usize = 256 << 20;

#[derive(Debug)]
struct Copy {
    seq: SeqNumber,
    end: SeqNumber,
    frame: Frame,
}

/// One connection's.
#[derive(Debug, Default)]
struct Flow {
    /// In the order of sequence numbers.
    copies: VecDeque<Copy>,
    /// What TCP said last.
    ack: SeqNumber,
    timestamps: (u32, u32),
}

/// The copies of one host.
#[derive(Debug, Default)]
pub(super) struct Copies {
    flows: Vec<Flow>,
    bytes: usize,
}

impl Copies {
    /// A segment leaves; kept if it has payload that was not sent before.
    pub(super) fn keep(&mut self, flow: FlowId, segment: &Segment, frame: &Frame) {
        let at = flow.0 as usize;
        if at >= self.flows.len() {
            self.flows.resize_with(at + 1, Flow::default);
        }
        if segment.flags.has(Flags::RST) {
            return self.forget(flow);
        }
        let Flow { copies, ack, timestamps } = &mut self.flows[at];
        (*ack, *timestamps) = (segment.ack, segment.timestamps.unwrap_or_default());
        let known = copies.back().is_some_and(|last| segment.seq.before(last.end));
        let size = frame.frame().len();
        if segment.payload == 0 || known || self.bytes + size > ROOM {
            return;
        }
        copies.push_back(Copy { seq: segment.seq, end: segment.end(), frame: frame.clone() });
        self.bytes += size;
    }

    /// Everything below is acknowledged.
    pub(super) fn acknowledge(&mut self, flow: FlowId, ack: SeqNumber) {
        let Some(Flow { copies, .. }) = self.flows.get_mut(flow.0 as usize) else { return };
        while let Some(copy) = copies.front().filter(|copy| !copy.end.after(ack)) {
            self.bytes -= copy.frame.frame().len();
            copies.pop_front();
        }
    }

    /// The first frame's worth of what begins there, if there is a copy of it.
    pub(super) fn from(&self, flow: FlowId, seq: SeqNumber) -> Option<Frame> {
        let Flow { copies, ack, timestamps } = self.flows.get(flow.0 as usize)?;
        let first = copies.front().filter(|first| !seq.before(first.seq))?;
        let mut frame = first.frame.first_from(seq)?;
        let position = Position { seq, ack: *ack, timestamps: *timestamps };
        frame.edit(&Edit { position: Some(position), ..Edit::NONE });
        Some(frame)
    }

    /// The connection is no more.
    pub(super) fn forget(&mut self, flow: FlowId) {
        if let Some(Flow { copies, .. }) = self.flows.get_mut(flow.0 as usize) {
            self.bytes -= copies.drain(..).map(|copy| copy.frame.frame().len()).sum::<usize>();
        }
    }
}
