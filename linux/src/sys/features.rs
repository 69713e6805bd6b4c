//! What a network card does by itself, and which driver it has, by the ethtool ioctls (include/uapi/linux/ethtool.h).

use std::io;
use std::os::fd::AsRawFd;

/// `ETHTOOL_GDRVINFO`, and the length of its `struct ethtool_drvinfo`, in which the driver's name comes second.
const DRIVER: u32 = 0x3;
const DRIVER_INFO: usize = 196;
/// `ETHTOOL_GSTRINGS`, `ETHTOOL_GSSET_INFO`, `ETHTOOL_GFEATURES`.
const STRINGS: u32 = 0x1b;
const SET_INFO: u32 = 0x37;
const FEATURES: u32 = 0x3a;
/// `ETH_SS_FEATURES`.
const FEATURE_NAMES: u32 = 4;
/// `ETH_GSTRING_LEN`.
const NAME: usize = 32;
/// `struct ethtool_get_features_block`: available, requested, active, never changed.
const BLOCK: usize = 16;

/// Names of the features of an interface of this network namespace that are switched on, as `ethtool -k` has them in the long form.
///
/// # Errors
/// When there is no such interface.
pub(crate) fn active(device: &str) -> io::Result<Vec<String>> {
    // cmd, reserved, sset_mask; the answer has the length of the one set behind it.
    let mut info = words(&[SET_INFO, 0, 1 << FEATURE_NAMES, 0, 0]);
    ask(device, &mut info)?;
    let count = word(&info, 16) as usize;
    let mut names = words(&[STRINGS, FEATURE_NAMES, word(&info, 16)]);
    names.resize(names.len() + count * NAME, 0);
    ask(device, &mut names)?;
    let blocks = count.div_ceil(32);
    let mut bits = words(&[FEATURES, u32::try_from(blocks).unwrap_or(0)]);
    bits.resize(bits.len() + blocks * BLOCK, 0);
    ask(device, &mut bits)?;
    let is_active = |feature: usize| word(&bits, 8 + feature / 32 * BLOCK + 8) >> (feature % 32) & 1 == 1;
    let name = |feature: usize| text(&names, 12 + feature * NAME);
    Ok((0..count).filter(|&feature| is_active(feature)).filter_map(name).collect())
}

/// The driver of an interface of this network namespace, as `ethtool -i` has it: `vxlan` of a VXLAN.
///
/// # Errors
/// When there is no such interface, or it does not say.
pub(crate) fn driver(device: &str) -> io::Result<String> {
    let mut info = words(&[DRIVER]);
    info.resize(DRIVER_INFO, 0);
    ask(device, &mut info)?;
    Ok(text(&info, 4).unwrap_or_default())
}

/// A name of at most `NAME` bytes that begins there.
fn text(bytes: &[u8], at: usize) -> Option<String> {
    let name = bytes.get(at..)?.get(..NAME)?;
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(NAME);
    Some(String::from_utf8_lossy(&name[..end]).into_owned())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_ne_bytes(*word))
}

/// Has the kernel fill in what `request` begins to ask.
fn ask(device: &str, request: &mut [u8]) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: an all-zero ifreq is valid.
    let mut interface: libc::ifreq = unsafe { std::mem::zeroed() };
    if device.len() >= interface.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in interface.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from.cast_signed();
    }
    interface.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    // SAFETY: the request lives until the call returns, and is as long as the kernel was told in it.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut interface) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_device_does_is_read_by_name() {
        let loopback = active("lo").unwrap();
        assert!(loopback.iter().any(|name| name == "loopback"), "{loopback:?}");
        assert!(!loopback.iter().any(|name| name == "tls-hw-tx-offload"), "{loopback:?}");
        assert!(active("no-such-dev0").is_err());
    }
}
