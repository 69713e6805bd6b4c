//! Sends released frames out of the guarded device, in batches, past our own egress hook. Where nobody else is at that hook
//! they go past it and the qdisc altogether; else through both, marked so that our program lets them pass to the others.

use std::io;
use std::os::fd::OwnedFd;

use ackgate_control::segment::Edit;
use ackgate_control::wire::{self, Direction, Meta};

use nix::sys::socket::{setsockopt, sockopt};

use crate::device::Device;
use crate::neighbours;
use crate::sys::{self, Side};

/// `PASS_MARK` of `intf.h`.
pub(crate) const PASS_MARK: u32 = 0x0acc_0acc;

/// Attempts at a frame that the device has no room for.
const ATTEMPTS: u32 = 8;
/// Buffers kept for reuse at most. What is split leaves one more than it took.
const SPARE: usize = 1024;

#[derive(Debug)]
pub(crate) struct Emitter {
    socket: OwnedFd,
    queue: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    lost: u64,
}

impl Emitter {
    pub(crate) fn new(device: &Device) -> io::Result<Self> {
        Ok(Self { socket: sender(device)?, queue: Vec::new(), spare: Vec::new(), lost: 0 })
    }

    /// A buffer for reuse.
    pub(crate) fn spare(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Frames that the device would not take.
    pub(crate) const fn lost(&self) -> u64 {
        self.lost
    }

    /// Queues a frame, with this change. A checksum that was left to the card is completed here: what is sent raw goes as
    /// it is.
    pub(crate) fn push(&mut self, mut frame: Vec<u8>, edit: &Edit) {
        if let Ok(packet) = wire::parse(&frame, &Meta::whole(&frame), Direction::Egress) {
            wire::complete_checksum(&mut frame, &packet.layout);
            wire::apply(&mut frame, &packet.layout, edit);
        }
        self.queue.push(frame);
    }

    /// Forgets what is queued; the buffers are for reuse.
    pub(crate) fn withdraw(&mut self) {
        self.spare.append(&mut self.queue);
        self.spare.truncate(SPARE);
    }

    /// Sends what is queued.
    pub(crate) fn flush(&mut self) {
        self.lost += send_all(&self.socket, &self.queue);
        self.withdraw();
    }
}

/// A packet socket that sends past our own egress hook.
pub(crate) fn sender(device: &Device) -> io::Result<OwnedFd> {
    let socket = sys::raw_sender(device.index)?;
    if neighbours::others(device, Side::Egress) {
        sys::set_option(&socket, libc::PACKET_QDISC_BYPASS, 0)?;
        setsockopt(&socket, sockopt::Mark, &PASS_MARK)?;
    }
    Ok(socket)
}

/// Sends frames; returns how many were lost. One that the device has no room for is tried again a few times, then lost like
/// any other frame on a full link.
pub(crate) fn send_all(socket: &OwnedFd, frames: &[Vec<u8>]) -> u64 {
    let (mut sent, mut attempts, mut lost) = (0, 0, 0);
    while sent < frames.len() {
        match sys::send_frames(socket, &frames[sent..]) {
            Ok(count) if count > 0 => {
                sent += count;
                attempts = 0;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ if attempts < ATTEMPTS => {
                attempts += 1;
                std::thread::yield_now();
            }
            _ => {
                sent += 1;
                attempts = 0;
                lost += 1;
            }
        }
    }
    lost
}
