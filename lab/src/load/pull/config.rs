//! What a load is, and what makes no sense.

use std::net::SocketAddr;
use std::time::Duration;

use crate::load::LoadError;
use crate::load::wire::{CC_LEN, MAX_REQUEST};

/// How many bytes a round moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volume {
    /// Each connection carries this many bytes ("fixed volume per server").
    PerConnection(u64),
    /// The connections share this many bytes, rounded down to a multiple of their number ("fixed total volume").
    Total(u64),
}

impl Volume {
    /// What each of `connections` carries in a round, in bytes.
    #[must_use]
    pub fn per_connection(self, connections: usize) -> u64 {
        match self {
            Self::PerConnection(bytes) => bytes,
            Self::Total(bytes) => bytes / connections.max(1) as u64,
        }
    }
}

/// Who starts a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The receiver sends a small request on every connection.
    Pull,
    /// The senders start on a signal that comes outside the data connections.
    Push,
}

/// A load.
#[derive(Clone, Debug)]
pub struct PullConfig {
    /// Where senders listen; the connections are spread over them in turn.
    pub servers: Vec<SocketAddr>,
    /// Connections, at least 1.
    pub connections: usize,
    /// Bytes per round.
    pub volume: Volume,
    /// Rounds to measure, at least 1.
    pub rounds: u32,
    /// Rounds before these that are not measured.
    pub warmup: u32,
    /// Who starts a round.
    pub start: Start,
    /// New connections in every round instead of kept ones: opened by the receiver, which asks on them, with [`Start::Pull`]; by the
    /// senders, which end them when all is sent, with [`Start::Push`].
    pub fresh: bool,
    /// Congestion control of the senders; `None` keeps their default.
    pub cc: Option<String>,
    /// Congestion control of the receiver's own sockets, for those that are protocols of both ends (DCTCP, RFC 8257
    /// §3.2); `None` keeps its default.
    pub own_cc: Option<String>,
    /// Clamps the senders' segments, in bytes, by the MSS option of the receiver's SYN.
    pub mss: Option<u32>,
    /// Asks the kernel after every read to acknowledge at once (`TCP_QUICKACK`).
    pub quickack: bool,
    /// Least time from the beginning of one round to the next's. Without it a round follows when the one before is
    /// complete.
    pub pace: Option<Duration>,
    /// Time for everything, connecting included.
    pub deadline: Duration,
}

impl PullConfig {
    /// What each connection carries in a round.
    pub(super) fn bytes(&self) -> u64 {
        self.volume.per_connection(self.connections)
    }

    pub(super) fn check(&self) -> Result<(), LoadError> {
        let complain = |text: &str| Err(LoadError::Config(text.into()));
        if self.servers.is_empty() {
            return complain("name at least one server address to pull from");
        }
        if self.connections == 0 || self.rounds == 0 {
            return complain("a load needs at least one connection and one round");
        }
        if self.bytes() == 0 {
            return complain(
                "every connection must carry at least one byte per round: raise the volume or use fewer connections",
            );
        }
        if self.bytes() > MAX_REQUEST {
            return complain("a connection carries at most 1 TiB per round");
        }
        if self.cc.as_ref().is_some_and(|cc| {
            cc.is_empty() || cc.len() >= CC_LEN || !cc.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        }) {
            return complain("a congestion control's name has 1 to 15 letters, digits or underscores");
        }
        Ok(())
    }
}
