//! What the two ends of `ackgate load` say to each other.

use ackgate_lab::load::wire::{Command, Hello, Reply};

/// Reads the bytes as each message; what is read is written the same.
pub fn run(bytes: &[u8]) {
    if let Some(head) = bytes.first_chunk()
        && let Ok(hello) = Hello::decode(head)
    {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    if let Some(head) = bytes.first_chunk()
        && let Ok(command) = Command::decode(head)
    {
        assert_eq!(Command::decode(&command.encode()), Ok(command));
    }
    if let Ok(Some((reply, taken))) = Reply::decode(bytes) {
        assert!(taken <= bytes.len());
        assert_eq!(Reply::decode(&reply.encode()), Ok(Some((reply, taken))));
    }
}
