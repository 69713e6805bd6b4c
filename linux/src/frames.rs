//! Frames that are held, by handle. Buffers are reused, so that holding allocates nothing once it has warmed up.

use ackgate_control::policy::PacketId;
use ackgate_control::wire::{self, Direction, Meta};

use crate::standby::{Keeper, Place};

#[derive(Debug)]
struct Slot {
    frame: Vec<u8>,
    /// Where the standby finds it.
    place: Place,
}

#[derive(Debug)]
pub(crate) struct Frames {
    slots: Vec<Slot>,
    free: Vec<u32>,
    keeper: Keeper,
}

impl Frames {
    pub(crate) const fn new(keeper: Keeper) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), keeper }
    }

    /// Keeps a frame whose first bytes are `head` followed by `tail`; in the vault, too, if nobody could write it anew.
    pub(crate) fn insert(&mut self, head: &[u8], tail: &[u8], renewable: bool) -> PacketId {
        let slot = if let Some(slot) = self.free.pop() {
            slot
        } else {
            self.slots.push(Slot { frame: Vec::new(), place: Place::NOWHERE });
            // Far fewer frames than 2^32 fit in memory.
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        };
        let Slot { frame, place } = &mut self.slots[slot as usize];
        frame.clear();
        frame.extend_from_slice(head);
        frame.extend_from_slice(tail);
        *place = if renewable { Place::NOWHERE } else { self.keeper.put(frame) };
        PacketId(slot)
    }

    /// Takes a frame out, leaving `spare` as the buffer of the next one. It leaves the vault with [`settle`](Self::settle).
    pub(crate) fn remove(&mut self, packet: PacketId, spare: Vec<u8>) -> Vec<u8> {
        self.free.push(packet.0);
        self.take(packet, spare)
    }

    /// Forgets a frame, whose buffer is for the next one in its place. It leaves the vault with [`settle`](Self::settle).
    pub(crate) fn discard(&mut self, packet: PacketId) {
        self.free.push(packet.0);
        let place = &mut self.slots[packet.0 as usize].place;
        self.keeper.leave(std::mem::replace(place, Place::NOWHERE));
    }

    /// Takes a frame out, leaving its bare ACK in its place.
    pub(crate) fn replace_with_bare_ack(&mut self, packet: PacketId) -> Vec<u8> {
        let frame = &self.slots[packet.0 as usize].frame;
        let bare = match wire::parse(frame, &Meta::whole(frame), Direction::Egress) {
            Ok(packet) => wire::bare_ack(frame, &packet),
            // The programs hold only what they understood, by the same rules.
            Err(_) => frame.clone(),
        };
        self.take(packet, bare)
    }

    fn take(&mut self, packet: PacketId, next: Vec<u8>) -> Vec<u8> {
        let slot = &mut self.slots[packet.0 as usize];
        self.keeper.leave(std::mem::replace(&mut slot.place, Place::NOWHERE));
        std::mem::replace(&mut slot.frame, next)
    }

    /// What was taken out has left, or never will.
    pub(crate) fn settle(&mut self) {
        self.keeper.settle();
    }
}
