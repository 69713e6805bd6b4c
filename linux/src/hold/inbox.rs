//! What a back-end that copies frames has received: frames by handle, and the arrivals to tell the scheduler of.

use ackgate_control::policy::PacketId;
use ackgate_control::segment::Edit;

use super::{Arrival, Header, MAC_ADDRESSES};
use crate::emitter::Emitter;
use crate::frames::Frames;
use crate::standby::Keeper;

#[derive(Debug)]
pub(crate) struct Inbox {
    frames: Frames,
    pub(super) arrivals: Vec<Arrival>,
}

impl Inbox {
    pub(crate) const fn new(keeper: Keeper) -> Self {
        Self { frames: Frames::new(keeper), arrivals: Vec::new() }
    }

    /// Takes in a header and the frame behind it.
    pub(super) fn take(&mut self, record: &[u8]) {
        let Some((header, frame)) = Header::split(record) else { return };
        let mut buffer = [0; MAC_ADDRESSES + 4];
        let (head, rest) = header.whole(frame, &mut buffer);
        let packet = self.frames.insert(head, rest, header.is_renewable());
        if header.out.copy {
            self.frames.replace_with_bare_ack(packet);
        }
        self.arrivals.push(Arrival { packet, flow: header.flow, out: header.out, time: header.time });
    }

    pub(super) fn release(&mut self, packet: PacketId, edit: &Edit, emitter: &mut Emitter) {
        let spare = emitter.spare();
        emitter.push(self.frames.remove(packet, spare), edit);
    }

    pub(super) fn split(&mut self, packet: PacketId, edit: &Edit, emitter: &mut Emitter) {
        emitter.push(self.frames.replace_with_bare_ack(packet), edit);
    }

    pub(super) fn discard(&mut self, packet: PacketId) {
        self.frames.discard(packet);
    }

    /// Sends what was released.
    pub(super) fn flush(&mut self, emitter: &mut Emitter) {
        emitter.flush();
        self.frames.settle();
    }

    /// Forgets what was released.
    pub(super) fn withdraw(&mut self, emitter: &mut Emitter) {
        emitter.withdraw();
        self.frames.settle();
    }
}
