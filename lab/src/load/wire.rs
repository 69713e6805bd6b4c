//! What the two ends of the load say to each other. Sender and receiver are named as in the papers: data flows from the
//! sender (`load serve`) to the receiver (`load pull`), so requests travel the other way.
//!
//! Every connection opens with a 32-byte [`Hello`]. After it the receiver writes 16-byte [`Command`]s. On a data
//! connection the sender answers a request with exactly the bytes asked for and nothing else; on a control connection it
//! answers every command with a [`Reply`]. All integers are big-endian. Arbitrary bytes are an [`WireError`], never a panic.

use thiserror::Error;

/// First bytes of every connection.
pub const MAGIC: [u8; 4] = *b"AKGT";
/// Version of this protocol; both ends must have the same.
pub const VERSION: u8 = 2;
/// Octets of a [`Hello`].
pub const HELLO_LEN: usize = 32;
/// Octets of a [`Command`].
pub const COMMAND_LEN: usize = 16;
/// Octets of a [`Reply`]'s fixed part.
pub const REPLY_HEAD_LEN: usize = 8;
/// The longest name of a congestion control that Linux has (`TCP_CA_NAME_MAX`).
pub const CC_LEN: usize = 16;
/// Most bytes that one request may ask for: 1 TiB.
pub const MAX_REQUEST: u64 = 1 << 40;
/// Most counters that a reply may carry.
pub const MAX_COUNTERS: usize = 64;

/// Bytes that are not this protocol.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// The first bytes are not [`MAGIC`].
    #[error("the peer does not speak the ackgate load protocol")]
    Magic,
    /// Another version.
    #[error(
        "the peer speaks version {0} of the load protocol, this program version {VERSION}: use the same ackgate on both ends"
    )]
    Version(u8),
    /// A field outside its range.
    #[error("malformed {0} in a load message")]
    Field(&'static str),
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Carries requests one way and payload the other.
    Data,
    /// Carries signals and counters.
    Control,
}

/// The opening of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// What the connection is for.
    pub role: Role,
    /// Ties the connections of one run together; chosen by the receiver.
    pub session: u64,
    /// Congestion control for the sender's side of this connection; empty keeps the host's default.
    pub cc: String,
}

impl Hello {
    /// The message's octets.
    #[must_use]
    pub fn encode(&self) -> [u8; HELLO_LEN] {
        let mut out = [0; HELLO_LEN];
        out[..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = match self.role {
            Role::Data => 0,
            Role::Control => 1,
        };
        out[8..16].copy_from_slice(&self.session.to_be_bytes());
        let name = self.cc.as_bytes();
        let len = name.len().min(CC_LEN);
        out[16..16 + len].copy_from_slice(&name[..len]);
        out
    }

    /// Reads a hello.
    ///
    /// # Errors
    /// When the octets are not a hello of this version.
    pub fn decode(bytes: &[u8; HELLO_LEN]) -> Result<Self, WireError> {
        if bytes[..4] != MAGIC {
            return Err(WireError::Magic);
        }
        if bytes[4] != VERSION {
            return Err(WireError::Version(bytes[4]));
        }
        let role = match bytes[5] {
            0 => Role::Data,
            1 => Role::Control,
            _ => return Err(WireError::Field("role")),
        };
        let name = &bytes[16..];
        let len = name.iter().position(|&b| b == 0).unwrap_or(CC_LEN);
        if name[len..].iter().any(|&b| b != 0) || !name[..len].iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') {
            return Err(WireError::Field("congestion control"));
        }
        let cc = name[..len].iter().map(|&b| char::from(b)).collect();
        Ok(Self { role, session: be64(&bytes[8..16]), cc })
    }
}

/// What the receiver asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// On a data connection: send `bytes` now.
    Request {
        /// Which round, for traces.
        round: u32,
        /// How many, at most [`MAX_REQUEST`].
        bytes: u64,
    },
    /// On a control connection: every data connection of this session sends `bytes` now. Not answered.
    Push {
        /// Which round.
        round: u32,
        /// How many on each connection.
        bytes: u64,
    },
    /// On a control connection: open a connection to where this one comes from, send `bytes` on it and end it. Not answered.
    Dial {
        /// Where the receiver listens.
        port: u16,
        /// Which round.
        round: u32,
        /// How many.
        bytes: u64,
    },
    /// On a control connection: the sender host's counters.
    Counters,
    /// On a control connection: answered at once; shows that the sender took the hello.
    Ping,
}

impl Command {
    /// The message's octets.
    #[must_use]
    pub fn encode(&self) -> [u8; COMMAND_LEN] {
        let (op, port, round, bytes) = match *self {
            Self::Request { round, bytes } => (1, 0, round, bytes),
            Self::Push { round, bytes } => (2, 0, round, bytes),
            Self::Counters => (3, 0, 0, 0),
            Self::Ping => (4, 0, 0, 0),
            Self::Dial { port, round, bytes } => (5, port, round, bytes),
        };
        let mut out = [0; COMMAND_LEN];
        out[0] = op;
        out[2..4].copy_from_slice(&u16::to_be_bytes(port));
        out[4..8].copy_from_slice(&u32::to_be_bytes(round));
        out[8..].copy_from_slice(&u64::to_be_bytes(bytes));
        out
    }

    /// Reads a command.
    ///
    /// # Errors
    /// When the operation is unknown or the size beyond [`MAX_REQUEST`].
    pub fn decode(bytes: &[u8; COMMAND_LEN]) -> Result<Self, WireError> {
        let round = be32(&bytes[4..8]);
        let size = be64(&bytes[8..]);
        if size > MAX_REQUEST {
            return Err(WireError::Field("request size"));
        }
        match bytes[0] {
            1 => Ok(Self::Request { round, bytes: size }),
            2 => Ok(Self::Push { round, bytes: size }),
            3 => Ok(Self::Counters),
            4 => Ok(Self::Ping),
            5 => Ok(Self::Dial { port: u16::from_be_bytes([bytes[2], bytes[3]]), round, bytes: size }),
            _ => Err(WireError::Field("command")),
        }
    }
}

/// What the sender says on a control connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Done.
    Ok,
    /// The sender's kernel does not offer the congestion control that the hello named.
    NoSuchCc,
    /// A number that names the sender's host (its network namespace), then its counters in the order of
    /// [`super::counters::SenderCounters::to_values`]; a newer sender may send more.
    Counters(Vec<u64>),
}

impl Reply {
    /// The message's octets.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (op, counters): (u8, &[u64]) = match self {
            Self::Ok => (0, &[]),
            Self::NoSuchCc => (1, &[]),
            Self::Counters(values) => (2, &values[..values.len().min(MAX_COUNTERS)]),
        };
        let mut out = vec![op, u8::try_from(counters.len()).unwrap_or(u8::MAX), 0, 0, 0, 0, 0, 0];
        for value in counters {
            out.extend_from_slice(&value.to_be_bytes());
        }
        out
    }

    /// Reads one reply from the front of `bytes`: the reply and how many octets it took, or `None` when it is not whole yet.
    ///
    /// # Errors
    /// When the octets cannot be the beginning of a reply.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, WireError> {
        if bytes.len() < REPLY_HEAD_LEN {
            return Ok(None);
        }
        let count = usize::from(bytes[1]);
        match (bytes[0], count) {
            (0, 0) => Ok(Some((Self::Ok, REPLY_HEAD_LEN))),
            (1, 0) => Ok(Some((Self::NoSuchCc, REPLY_HEAD_LEN))),
            (2, 0..=MAX_COUNTERS) => {
                let end = REPLY_HEAD_LEN + count * 8;
                let Some(body) = bytes.get(REPLY_HEAD_LEN..end) else { return Ok(None) };
                Ok(Some((Self::Counters(body.chunks_exact(8).map(be64).collect()), end)))
            }
            _ => Err(WireError::Field("reply")),
        }
    }
}

fn be64(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |n, &b| n << 8 | u64::from(b))
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |n, &b| n << 8 | u32::from(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hello_on_the_wire() {
        let hello = Hello { role: Role::Data, session: 0x0102_0304_0506_0708, cc: "reno".into() };
        let bytes = hello.encode();
        assert_eq!(&bytes[..16], b"AKGT\x02\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08");
        assert_eq!(&bytes[16..], b"reno\0\0\0\0\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn strangers_are_told_apart() {
        let mut bytes = Hello { role: Role::Control, session: 1, cc: String::new() }.encode();
        bytes[4] = 9;
        assert_eq!(Hello::decode(&bytes), Err(WireError::Version(9)));
        let mut http = [0; HELLO_LEN];
        http[..16].copy_from_slice(b"GET / HTTP/1.1\r\n");
        assert_eq!(Hello::decode(&http), Err(WireError::Magic));
    }

    #[test]
    fn a_request_beyond_a_tebibyte_is_refused() {
        let bytes = Command::Request { round: 0, bytes: MAX_REQUEST + 1 }.encode();
        assert_eq!(Command::decode(&bytes), Err(WireError::Field("request size")));
    }

    fn command() -> impl Strategy<Value = Command> {
        prop_oneof![
            (any::<u32>(), 0..=MAX_REQUEST).prop_map(|(round, bytes)| Command::Request { round, bytes }),
            (any::<u32>(), 0..=MAX_REQUEST).prop_map(|(round, bytes)| Command::Push { round, bytes }),
            (any::<u16>(), any::<u32>(), 0..=MAX_REQUEST).prop_map(|(port, round, bytes)| Command::Dial {
                port,
                round,
                bytes
            }),
            Just(Command::Counters),
            Just(Command::Ping),
        ]
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            hello in any::<[u8; HELLO_LEN]>(),
            command in any::<[u8; COMMAND_LEN]>(),
            reply in proptest::collection::vec(any::<u8>(), 0..700),
        ) {
            let _ = Hello::decode(&hello);
            let _ = Command::decode(&command);
            if let Ok(Some((_, taken))) = Reply::decode(&reply) {
                prop_assert!(taken <= reply.len());
            }
        }

        #[test]
        fn what_was_written_is_read(session in any::<u64>(), cc in "[a-z0-9_]{0,16}", control in any::<bool>(), command in command(),
                                    counters in proptest::collection::vec(any::<u64>(), 0..=MAX_COUNTERS)) {
            let role = if control { Role::Control } else { Role::Data };
            let hello = Hello { role, session, cc };
            prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
            prop_assert_eq!(Command::decode(&command.encode()), Ok(command));
            let reply = Reply::Counters(counters);
            let bytes = reply.encode();
            let whole = bytes.len();
            prop_assert_eq!(Reply::decode(&bytes[..whole - 1]), Ok(None));
            prop_assert_eq!(Reply::decode(&bytes), Ok(Some((reply, whole))));
        }
    }
}
