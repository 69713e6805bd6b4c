//! The pcapng file format, as much as a capture needs (draft-ietf-opsawg-pcapng): section header, interface
//! descriptions, enhanced packet blocks. Little-endian.

use std::io::{self, Write};

/// A writer of blocks.
#[derive(Debug)]
pub(super) struct Writer<W> {
    out: W,
    block: Vec<u8>,
}

/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;
/// Timestamps count units of 10^-9 s (option `if_tsresol`).
const NANOSECONDS: u8 = 9;

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, block: Vec::new() }
    }

    /// Begins the file; `program` wrote it.
    pub(super) fn section(&mut self, program: &str) -> io::Result<()> {
        self.block.clear();
        self.put(&0x1a2b_3c4d_u32.to_le_bytes());
        self.put(&1u16.to_le_bytes());
        self.put(&0u16.to_le_bytes());
        // The section's length is not known in advance.
        self.put(&u64::MAX.to_le_bytes());
        self.option(4, program.as_bytes());
        self.end_options();
        self.write(0x0a0d_0d0a)
    }

    /// Describes the next interface; `rate` in bits per second.
    pub(super) fn interface(&mut self, name: &str, rate: u64) -> io::Result<()> {
        self.block.clear();
        self.put(&ETHERNET.to_le_bytes());
        self.put(&[0; 2]);
        // No limit on the length of packets.
        self.put(&0u32.to_le_bytes());
        self.option(2, name.as_bytes());
        self.option(8, &rate.to_le_bytes());
        self.option(9, &[NANOSECONDS]);
        self.end_options();
        self.write(1)
    }

    /// One frame, of which at most `snap` bytes are kept; `nanos` since the origin.
    pub(super) fn packet(
        &mut self,
        interface: u32,
        nanos: u64,
        inbound: bool,
        frame: &[u8],
        snap: usize,
    ) -> io::Result<()> {
        self.block.clear();
        let kept = &frame[..frame.len().min(snap)];
        self.put(&interface.to_le_bytes());
        // The halves of the time are each little-endian, the upper one first.
        let halves = nanos.to_le_bytes();
        self.put(&halves[4..]);
        self.put(&halves[..4]);
        for length in [kept.len(), frame.len()] {
            self.put(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        }
        self.put(kept);
        self.pad();
        // Direction in the lowest bits of `epb_flags`: 1 in, 2 out.
        self.option(2, &if inbound { 1u32 } else { 2 }.to_le_bytes());
        self.end_options();
        self.write(6)
    }

    pub(super) fn flush(mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    /// Blocks and options end on 32-bit boundaries.
    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        // Options longer than a name cannot be: interface names come from a scenario of bounded size.
        let value = &value[..value.len().min(1_000)];
        self.put(&code.to_le_bytes());
        self.put(&u16::try_from(value.len()).unwrap_or(0).to_le_bytes());
        self.put(value);
        self.pad();
    }

    fn end_options(&mut self) {
        self.put(&[0; 4]);
    }

    /// Type, length, body, length.
    fn write(&mut self, kind: u32) -> io::Result<()> {
        let length = u32::try_from(self.block.len() + 12).map_err(io::Error::other)?.to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length)?;
        self.out.write_all(&self.block)?;
        self.out.write_all(&length)
    }
}
