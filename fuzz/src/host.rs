//! Records of the generic host's ring, and of the guard's: the frame that goes back to the kernel behind its virtio header.

use ackgate_control::segment::Edit;
use ackgate_control::wire::Direction;
use ackgate_linux::parsers::{held_record, host_record};

/// Reads, changes and copies one record.
pub fn run(bytes: &[u8]) {
    let Some((&[bits, high, low], record)) = bytes.split_first_chunk::<3>() else { return };
    let direction = if bits & 1 == 0 { Direction::Egress } else { Direction::Ingress };
    let edit = Edit {
        window: (bits & 2 != 0).then(|| u16::from_be_bytes([high, low])),
        ect: (bits & 4 != 0).then_some(bits & 8 != 0),
        ..Edit::NONE
    };
    if let Some([frame, bare]) = host_record(record, direction, &edit) {
        // A virtio header, a tag that may be put back, and nothing else.
        assert!(frame.len() <= record.len() - 32 + 14 && bare.len() > 10);
    }
    if let Some(frame) = held_record(record) {
        assert!(frame.len() <= record.len() - 32 + 4);
    }
}
