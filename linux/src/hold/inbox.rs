//! What a back-end that copies frames has received: frames by handle, and the arrivals to tell the scheduler of.

use ackgate_control::policy::PacketId;
use ackgate_control::segment::Edit;

use super::{Arrival, Header};
use crate::emitter::Emitter;
use crate::frames::Frames;

/// Where a VLAN tag belongs in a frame: after the two MAC addresses.
const TAG_OFFSET: usize = 12;

#[derive(Debug, Default)]
pub(super) struct Inbox {
    frames: Frames,
    pub(super) arrivals: Vec<Arrival>,
}

impl Inbox {
    /// Takes in a header and the frame behind it. A tag that travelled beside the frame is put back into it.
    pub(super) fn take(&mut self, record: &[u8]) {
        let Some((header, frame)) = Header::split(record) else { return };
        let packet = match (&header.tag, frame.split_at_checked(TAG_OFFSET)) {
            (Some(tag), Some((addresses, rest))) => {
                let mut head = [0; TAG_OFFSET + 4];
                head[..TAG_OFFSET].copy_from_slice(addresses);
                head[TAG_OFFSET..].copy_from_slice(tag);
                self.frames.insert(&head, rest)
            }
            _ => self.frames.insert(frame, &[]),
        };
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

    pub(super) fn discard(&mut self, packet: PacketId, emitter: &mut Emitter) {
        emitter.recycle(self.frames.remove(packet, Vec::new()));
    }
}
