//! What reads bytes that the kernel or the network wrote and is private otherwise: the entries of the fuzz targets.

use ackgate_control::segment::Edit;
use ackgate_control::wire::Direction;

use crate::hold::{Header, MAC_ADDRESSES, netlink_packets};
use crate::host::rewrite;

/// What the generic host makes of a record of its ring: the frame as it goes back to the kernel with `edit` done, and the bare ACK
/// that may be sent in its place. `None` when the record is none, or holds no TCP.
#[must_use]
pub fn host_record(record: &[u8], direction: Direction, edit: &Edit) -> Option<[Vec<u8>; 2]> {
    rewrite(record, direction, edit)
}

/// The frame in a record of the guard's ring, a VLAN tag back in its place; `None` when the record is none.
#[must_use]
pub fn held_record(record: &[u8]) -> Option<Vec<u8>> {
    let (header, frame) = Header::split(record)?;
    let mut buffer = [0; MAC_ADDRESSES + 4];
    let (head, rest) = header.whole(frame, &mut buffer);
    Some([head, rest].concat())
}

/// Packets in what a netfilter queue's socket has received, and the bytes that they have in all.
#[must_use]
pub fn queue_messages(bytes: &[u8]) -> (usize, usize) {
    netlink_packets(bytes)
}
