//! Frames that are held, by handle. Buffers are reused, so that holding allocates nothing once it has warmed up.

use ackgate_control::policy::PacketId;
use ackgate_control::wire::{self, Direction, Meta};

#[derive(Debug, Default)]
pub(crate) struct Frames {
    slots: Vec<Vec<u8>>,
    free: Vec<u32>,
}

impl Frames {
    /// Keeps a frame whose first bytes are `head` followed by `tail`.
    pub(crate) fn insert(&mut self, head: &[u8], tail: &[u8]) -> PacketId {
        let slot = if let Some(slot) = self.free.pop() {
            slot
        } else {
            self.slots.push(Vec::new());
            // Far fewer frames than 2^32 fit in memory.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        };
        let frame = &mut self.slots[slot as usize];
        frame.clear();
        frame.extend_from_slice(head);
        frame.extend_from_slice(tail);
        PacketId(slot)
    }

    /// Takes a frame out, leaving `spare` as the buffer of the next one.
    pub(crate) fn remove(&mut self, packet: PacketId, spare: Vec<u8>) -> Vec<u8> {
        self.free.push(packet.0);
        std::mem::replace(&mut self.slots[packet.0 as usize], spare)
    }

    /// Takes a frame out, leaving its bare ACK in its place.
    pub(crate) fn replace_with_bare_ack(&mut self, packet: PacketId) -> Vec<u8> {
        let slot = &mut self.slots[packet.0 as usize];
        let bare = match wire::parse(slot, &Meta::whole(slot), Direction::Egress) {
            Ok(packet) => wire::bare_ack(slot, &packet),
            // The programs hold only what they understood, by the same rules.
            Err(_) => slot.clone(),
        };
        std::mem::replace(slot, bare)
    }
}
