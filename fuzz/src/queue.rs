//! What a netfilter queue's socket is sent.

use ackgate_linux::parsers::queue_messages;

/// Reads a buffer of messages.
pub fn run(bytes: &[u8]) {
    let (packets, payload) = queue_messages(bytes);
    assert!(payload <= bytes.len() && packets * 20 <= bytes.len());
}
