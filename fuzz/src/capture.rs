//! Packet captures, pcap and pcapng.

use std::io::Cursor;

use ackgate_control::units::Span;
use ackgate_linux::watch::capture::Capture;

/// Reads a capture as `ackgate watch --pcap` does, in wide bins: many of them take long, and a test has them.
pub fn run(bytes: &[u8]) {
    if let Ok(capture) =
        Capture::read_from(Cursor::new(bytes), "fuzz.pcap", None, Span::secs(1_000_000), Span::millis(150))
    {
        assert!(!capture.bins.is_empty() && !capture.connections.is_empty());
        assert!(capture.bins.iter().zip(0..).all(|(bin, number)| bin.number == number));
    }
}
