//! The papers' client-server application (PAC §IV-B, "A (In)Cast of Thousands" §6) for real networks: a receiver asks many
//! senders at once for a block each, waits for all of them (the barrier), and asks again. One thread and one epoll on
//! either end, so that thousands of connections cost no more than their packets.
//!
//! - [`serve`]: the sending end, on any number of addresses.
//! - [`pull`]: the receiving end, which sets the pace and measures.
//! - [`wire`]: what they say to each other.
//! - [`counters`]: what the senders' kernel counts.

pub mod counters;
pub mod pull;
pub mod report;
pub mod serve;
pub mod wire;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use thiserror::Error;

/// Default TCP port of `load serve`.
pub const PORT: u16 = 5077;

/// Why a load could not run.
#[derive(Debug, Error)]
pub enum LoadError {
    /// No connection to a sender.
    #[error("cannot connect to {addr}: {source}{}", connect_hint(source))]
    Connect {
        /// The sender's address.
        addr: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {addr}: {source}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// A connection broke while the load ran.
    #[error("the connection to {addr} broke in round {round}: {source}")]
    Broken {
        /// The sender's address.
        addr: SocketAddr,
        /// The round, from 0, warm-up included.
        round: u32,
        /// What happened.
        source: io::Error,
    },
    /// The other end speaks something else.
    #[error("{addr}: {source}")]
    Wire {
        /// The other end.
        addr: SocketAddr,
        /// What is wrong.
        source: wire::WireError,
    },
    /// The congestion control is not there.
    #[error(
        "the sender at {addr} does not offer congestion control `{cc}`: load its module there (modprobe tcp_{cc}) or name \
         one listed in /proc/sys/net/ipv4/tcp_available_congestion_control"
    )]
    NoSuchCc {
        /// The sender's address.
        addr: SocketAddr,
        /// The name asked for.
        cc: String,
    },
    /// Nor has this host.
    #[error(
        "this host does not offer congestion control `{0}`, which is a protocol of both ends: load its module (modprobe \
         tcp_{0})"
    )]
    NoOwnCc(String),
    /// Too few file descriptors.
    #[error(
        "{need} connections need {need} file descriptors, but the hard limit is {hard}: raise it (ulimit -Hn, or LimitNOFILE= of the unit)"
    )]
    Descriptors {
        /// How many are needed.
        need: u64,
        /// How many there may be.
        hard: u64,
    },
    /// Time is up before one round was measured.
    #[error(
        "the deadline of {deadline:?} passed before one round was complete ({done} of {asked} connections had finished): give more time, or look at whether packets get through at all"
    )]
    Deadline {
        /// The time that was given.
        deadline: Duration,
        /// Connections that had finished.
        done: usize,
        /// Connections asked for.
        asked: usize,
    },
    /// Stopped by a signal.
    #[error("stopped")]
    Stopped,
    /// A senseless setting.
    #[error("{0}")]
    Config(String),
    /// Anything else that the kernel refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl LoadError {
    /// Whether what was asked for cannot be, or not on this host, rather than that it went wrong.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Config(_)
                | Self::NoSuchCc { .. }
                | Self::NoOwnCc(_)
                | Self::Descriptors { .. }
                | Self::Listen { .. }
                | Self::Wire { .. }
        )
    }

    pub(crate) fn io(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}

fn connect_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => " (nothing listens there: start `ackgate load serve` on that host first)",
        io::ErrorKind::TimedOut => " (no answer: check the address, and whether a firewall drops the port)",
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            " (no route to that host: check the address)"
        }
        _ => "",
    }
}

/// Raises the soft limit of file descriptors to the hard one: for a server, which cannot know how many will come.
///
/// # Errors
/// When the limits cannot be read or set.
pub fn make_all_room() -> Result<(), LoadError> {
    let told = |e: nix::Error| LoadError::Io { what: "raising RLIMIT_NOFILE", source: e.into() };
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(told)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(told)
}

/// Makes room for `need` file descriptors: raises the soft limit to the hard one, and the hard one where that is allowed.
///
/// # Errors
/// [`LoadError::Descriptors`] when the hard limit is lower and may not be raised.
pub fn make_room(need: u64) -> Result<(), LoadError> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)
        .map_err(|e| LoadError::Io { what: "reading RLIMIT_NOFILE", source: e.into() })?;
    if soft >= need {
        return Ok(());
    }
    if hard >= need && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, need, need).map_err(|_| LoadError::Descriptors { need, hard })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_numbers_of_descriptors_are_refused_with_advice() {
        let error = make_room(u64::MAX / 2).unwrap_err();
        assert!(error.to_string().contains("ulimit -Hn"), "{error}");
    }
}
