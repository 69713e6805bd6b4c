//! What can go wrong between a command line and a guarded device, in words that say what to do about it.

use std::fmt;
use std::io;

use crate::limits;
use crate::privilege::{Denied, Process};
use crate::sys;

/// Why a device is not guarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such interface in this network namespace.
    #[error("there is no network interface `{0}` in this network namespace (`ip link` lists them)")]
    NoSuchDevice(String),

    /// The frames of the interface do not start with an Ethernet header.
    #[error(
        "`{device}` is not an Ethernet interface (its hardware type is {kind}); guard an Ethernet, VLAN, bridge, bond or veth \
         interface"
    )]
    NotEthernet {
        /// The interface.
        device: String,
        /// ARPHRD number of its hardware type.
        kind: u16,
    },

    /// The interface cannot be guarded for another reason.
    #[error("`{device}` cannot be guarded: {reason}")]
    Unfit {
        /// The interface.
        device: String,
        /// What is in the way and what to do.
        reason: &'static str,
    },

    /// Somebody else's qdisc or filter is where ours must be.
    #[error("`{device}` cannot be guarded as asked: it has {what}")]
    InTheWay {
        /// The interface.
        device: String,
        /// What is there, and what to do.
        what: &'static str,
    },

    /// The interface is not set up.
    #[error("`{0}` is down; set it up first (`ip link set {0} up`), or use `run --wait`, which waits until it is up")]
    Down(String),

    /// The interface was there, and is no longer.
    #[error("`{0}` was deleted or moved to another network namespace; it is no longer guarded")]
    Gone(String),

    /// Our programs were taken off by somebody else.
    #[error("another program detached ackgate's BPF programs from `{0}`; it is no longer guarded")]
    Detached(String),

    /// Another process guards it.
    #[error("`{0}` is guarded already by another ackgate process; stop that one first")]
    AlreadyGuarded(String),

    /// Not allowed to.
    #[error("not allowed to {0}")]
    NotPermitted(Denied),

    /// The kernel's verifier does not take a program.
    #[error("{0}")]
    Unverifiable(Box<Refusal>),

    /// There is not enough memory, or none that this process may take.
    #[error("could not {what}: out of memory{needed}; {limits}")]
    Memory {
        /// What was tried.
        what: &'static str,
        /// How much it takes.
        needed: String,
        /// The limits that this process is under.
        limits: String,
    },

    /// The kernel lacks something.
    #[error("this kernel cannot {what} ({source}); `ackgate doctor` lists what is missing and how to get it")]
    Unsupported {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },

    /// A setting that makes no sense.
    #[error("{0}")]
    Settings(String),

    /// Something that usually works did not.
    #[error("could not {what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Error {
    /// Whether what was asked for cannot be had, or not on this host, rather than something having gone wrong.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        !matches!(self, Self::Io { .. } | Self::Gone(_) | Self::Detached(_))
    }

    /// Sorts a failed system call by what can be done about it.
    pub(crate) fn from_io(what: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted(Process::this().denied(what)),
            Some(libc::ENOMEM) => Self::memory(what, None),
            Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => Self::Unsupported { what, source },
            _ => Self::Io { what, source },
        }
    }

    /// Memory that could not be had, and how many bytes it would have been.
    pub(crate) fn memory(what: &'static str, bytes: Option<u64>) -> Self {
        let needed =
            bytes.map_or_else(String::new, |bytes| format!(" (the maps take {} MB)", bytes.div_ceil(1_000_000)));
        Self::Memory { what, needed, limits: limits::told() }
    }

    /// A failed call through `nix`.
    pub(crate) fn from_errno(what: &'static str, errno: nix::errno::Errno) -> Self {
        Self::from_io(what, errno.into())
    }

    /// A failed call through libbpf.
    #[must_use]
    pub fn from_bpf(what: &'static str, error: &libbpf_rs::Error) -> Self {
        let source = match error.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => return Self::NotPermitted(Process::this().denied(what)),
            libbpf_rs::ErrorKind::OutOfMemory => return Self::memory(what, None),
            kind => {
                tracing::debug!(?kind, "{error:#}");
                io::Error::other(format!("{error:#}"))
            }
        };
        Self::Io { what, source }
    }
}

/// A program that the kernel's verifier does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The program.
    pub program: String,
    /// The last lines of the verifier's reasoning.
    pub last: Vec<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "the kernel's verifier rejects the BPF program `{}`:", self.program)?;
        for line in &self.last {
            writeln!(f, "    {line}")?;
        }
        let other = if compiler_is_tested() {
            String::new()
        } else {
            format!("build it with a tested compiler (for example CLANG={DEFAULT_COMPILER} make build), and ")
        };
        write!(
            f,
            "It was compiled by {COMPILER}, and this is Linux {}. This is a bug in ackgate, not in this host's configuration: {other}report \
             these lines to ackgate's issue tracker",
            sys::kernel_release()
        )
    }
}

/// The compiler that built the BPF programs.
pub const COMPILER: &str = env!("ACKGATE_CLANG");
/// Major versions of clang that are tested.
pub const TESTED_COMPILERS: &str = env!("ACKGATE_TESTED_CLANGS");
/// Whether the programs were built by a compiler that is tested.
fn compiler_is_tested() -> bool {
    let version = COMPILER.trim_start_matches("clang ").split('.').next();
    TESTED_COMPILERS.split(", ").any(|tested| version == Some(tested))
}

/// The one that set-up installs.
pub const DEFAULT_COMPILER: &str = env!("ACKGATE_DEFAULT_CLANG");
