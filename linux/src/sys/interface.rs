//! What the kernel tells about an interface of this network namespace.

use std::io;
use std::os::fd::AsRawFd;

/// Hardware type of an interface (`ARPHRD_*`).
pub(crate) fn hardware_type(name: &str) -> io::Result<u16> {
    let request = ask(name, libc::SIOCGIFHWADDR)?;
    // SAFETY: SIOCGIFHWADDR has filled in this member of the union.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr.sa_family })
}

/// Whether an interface is set up (`ip link set ... up`); it may still be without a link.
pub(crate) fn is_up(name: &str) -> io::Result<bool> {
    let request = ask(name, libc::SIOCGIFFLAGS)?;
    // SAFETY: SIOCGIFFLAGS has filled in this member of the union.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok(i32::from(flags) & libc::IFF_UP != 0)
}

/// Whether there is an interface of this index, whatever its name. (nix 0.31.3's `if_indextoname` takes the null pointer that
/// means "no" for a name.)
pub(crate) fn exists(index: u32) -> bool {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: the buffer has the IF_NAMESIZE bytes that the function may write.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    !found.is_null()
}

/// Asks by name.
fn ask(name: &str, what: libc::Ioctl) -> io::Result<libc::ifreq> {
    let socket = nix::sys::socket::socket(
        nix::sys::socket::AddressFamily::Inet,
        nix::sys::socket::SockType::Datagram,
        nix::sys::socket::SockFlag::SOCK_CLOEXEC,
        None,
    )?;
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    // SAFETY: the request is an ifreq with a terminated name, as the SIOCGIF* requests want it.
    if unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_nobody_has_does_not_exist() {
        assert!(exists(1), "the loopback interface");
        assert!(!exists(i32::MAX.cast_unsigned()));
    }
}
