//! What can go wrong between a command line and a guarded device, in words that say what to do about it.

use std::io;

/// Why a device is not guarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No such interface in this network namespace.
    #[error("there is no network interface `{0}` here (`ip link` lists those there are)")]
    NoSuchDevice(String),

    /// The frames of the interface do not start with an Ethernet header.
    #[error(
        "`{device}` carries no Ethernet frames (its hardware type is {kind}); guard an Ethernet, VLAN, bridge, bond or veth \
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

    /// Another process guards it.
    #[error("`{0}` is guarded already by another ackgate; stop that one first")]
    AlreadyGuarded(String),

    /// Not allowed to.
    #[error("not allowed to {0}; run ackgate as root (it needs CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW)")]
    NotPermitted(&'static str),

    /// The kernel lacks something.
    #[error("this kernel cannot {what} ({source}); `ackgate doctor` tells what is missing and how to get it")]
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
        !matches!(self, Self::Io { .. })
    }

    /// Sorts a failed system call by what can be done about it.
    pub(crate) fn from_io(what: &'static str, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted(what),
            Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP) => Self::Unsupported { what, source },
            _ => Self::Io { what, source },
        }
    }

    /// A failed call through `nix`.
    pub(crate) fn from_errno(what: &'static str, errno: nix::errno::Errno) -> Self {
        Self::from_io(what, errno.into())
    }

    /// A failed call through libbpf.
    pub(crate) fn from_bpf(what: &'static str, error: &libbpf_rs::Error) -> Self {
        let source = match error.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => return Self::NotPermitted(what),
            kind => {
                tracing::debug!(?kind, "{error:#}");
                io::Error::other(format!("{error:#}"))
            }
        };
        Self::Io { what, source }
    }
}
