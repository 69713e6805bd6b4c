//! A connection signed with TCP-MD5 (RFC 2385), as BGP speakers use it: a guard that changes a header breaks the signature.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::libc;
use socket2::{SockAddr, Socket};

use super::row::{Bench, Measure, Row, RowError, Unit, end, spec};
use super::streams::{End, millis, open, transfer};

/// `TCP_MD5SIG` and `TCP_MD5SIG_MAXKEYLEN` (include/uapi/linux/tcp.h).
const TCP_MD5SIG: libc::c_int = 14;
const MAX_KEY: usize = 80;
const KEY: &[u8] = b"ackgate lab";

/// `struct tcp_md5sig`.
#[repr(C)]
struct Md5Signature {
    peer: libc::sockaddr_storage,
    flags: u8,
    prefix: u8,
    key_length: u16,
    interface: libc::c_int,
    key: [u8; MAX_KEY],
}

struct Signed;

pub(super) const ROWS: &[Row] = &[Row {
    name: "md5",
    what: "10 MB over a connection signed with TCP-MD5, 200 Mb/s",
    unit: Unit::Millis,
    measure: &Signed,
}];

impl Measure for Signed {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (testbed, guard) = bench.bed(spec(1, 200))?;
        let pairs = match open(&testbed, 1, &sign) {
            Err(RowError::Io { source, .. }) if source.raw_os_error() == Some(libc::ENOPROTOOPT) => {
                return Err(RowError::Impossible("this kernel has no TCP-MD5 (CONFIG_TCP_MD5SIG)".into()));
            }
            opened => opened?,
        };
        let took = transfer(&pairs, 10_000_000, Duration::from_secs(5))?;
        end(guard)?;
        Ok(millis(took))
    }
}

/// An address as the kernel's structs hold it.
fn storage(address: &SockAddr) -> libc::sockaddr_storage {
    // SAFETY: an all-zero sockaddr_storage is valid, and an address of `len` octets fits into it.
    unsafe {
        let mut storage: libc::sockaddr_storage = std::mem::zeroed();
        let len = address.len() as usize;
        std::ptr::copy_nonoverlapping(address.as_ptr().cast::<u8>(), (&raw mut storage).cast::<u8>(), len);
        storage
    }
}

/// Has the socket sign what it sends to the peer, and take from it only what is signed.
pub(super) fn sign(socket: &Socket, _: End, peer: SocketAddr) -> io::Result<()> {
    let mut key = [0; MAX_KEY];
    key[..KEY.len()].copy_from_slice(KEY);
    let signature = Md5Signature {
        peer: storage(&peer.into()),
        flags: 0,
        prefix: 0,
        key_length: KEY.len() as u16,
        interface: 0,
        key,
    };
    let length = size_of_val(&signature) as libc::socklen_t;
    // SAFETY: the option's value is a `struct tcp_md5sig`, alive during the call.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, TCP_MD5SIG, (&raw const signature).cast(), length)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
