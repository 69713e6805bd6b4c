//! The interface that is guarded, and the promise that nobody else guards it.

use std::fs;
use std::io;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use nix::net::if_::if_nametoindex;

use crate::error::Error;
use crate::status;
use crate::sys::{features, interface};

/// `ARPHRD_ETHER` and `ARPHRD_LOOPBACK`: frames that start with an Ethernet header.
const ETHERNET: u16 = 1;
const LOOPBACK: u16 = 772;

/// Attempts at claiming a device, and the time between two.
const CLAIM_ATTEMPTS: u32 = 6;
const CLAIM_PAUSE: Duration = Duration::from_millis(20);

/// An Ethernet interface of this network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name, as it was asked for.
    pub name: String,
    /// Its index.
    pub index: i32,
}

/// What a card may encrypt after the packet path has seen it in plain text. What is sent in its place would leave as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encryption {
    /// The payload of TLS connections (kTLS).
    pub tls: bool,
    /// Whole packets (IPsec).
    pub ipsec: bool,
}

impl Encryption {
    /// What an interface claims and, if it is a bond, one of its members does: on Linux 6.12 a bond whose members take turns claims IPsec
    /// although none of them can.
    fn borne_out_by(self, members: &[Self]) -> Self {
        let by = |is: fn(&Self) -> bool| members.is_empty() || members.iter().any(is);
        Self { tls: self.tls && by(|device| device.tls), ipsec: self.ipsec && by(|device| device.ipsec) }
    }

    /// Of the interface of that name.
    fn of(name: &str) -> io::Result<Self> {
        let active = match features::active(name) {
            // A driver without ethtool has no such features either.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Vec::new(),
            active => active?,
        };
        let is_on = |feature: &str| active.iter().any(|name| name == feature);
        let claimed = Self { tls: is_on("tls-hw-tx-offload"), ipsec: is_on("esp-hw-offload") };
        if claimed == Self::default() {
            return Ok(claimed);
        }
        // Of this network namespace, which `/sys` need not be.
        let bond = fs::read_to_string(format!("/proc/thread-self/net/bonding/{name}")).unwrap_or_default();
        let members = members(&bond).map(Self::of).collect::<Result<Vec<_>, _>>()?;
        Ok(claimed.borne_out_by(&members))
    }
}

/// Names of a bond's members, by what `/proc/net/bonding` shows of it.
fn members(bond: &str) -> impl Iterator<Item = &str> {
    bond.lines().filter_map(|line| line.strip_prefix("Slave Interface: "))
}

impl Device {
    /// Looks an interface up by name.
    ///
    /// # Errors
    /// When there is none of that name, or its frames are not Ethernet's.
    pub fn find(name: &str) -> Result<Self, Error> {
        let missing = || Error::NoSuchDevice(name.to_owned());
        let index = if_nametoindex(name).map_err(|_| missing())?;
        let index = i32::try_from(index).map_err(|_| missing())?;
        match interface::hardware_type(name).map_err(|_| missing())? {
            ETHERNET => Ok(Self { name: name.to_owned(), index }),
            LOOPBACK => Err(Error::Unfit {
                device: name.to_owned(),
                reason: "it is the loopback interface, whose traffic crosses no switch; name a network interface with --dev",
            }),
            kind => Err(Error::NotEthernet { device: name.to_owned(), kind }),
        }
    }

    /// Whether this host forwards what arrives at it.
    pub(crate) fn forwards(&self) -> bool {
        let on = |family| {
            let forwarding = fs::read_to_string(format!("/proc/sys/net/{family}/conf/{}/forwarding", self.name));
            forwarding.is_ok_and(|value| value.trim() == "1")
        };
        on("ipv4") || on("ipv6")
    }

    /// Whether connections of others than this host may use it: this host forwards, or the device is a port of another (a bridge), or
    /// another lies upon it (a macvlan).
    pub(crate) fn serves_others(&self) -> bool {
        let beside = |entry: io::Result<fs::DirEntry>| {
            entry.is_ok_and(|entry| {
                entry.file_name().to_str().is_some_and(|name| name == "master" || name.starts_with("upper_"))
            })
        };
        self.forwards()
            || fs::read_dir(format!("/sys/class/net/{}", self.name)).is_ok_and(|mut entries| entries.any(beside))
    }

    /// What its card encrypts.
    ///
    /// # Errors
    /// [`Error::NoSuchDevice`] when the interface has gone.
    pub fn encryption(&self) -> Result<Encryption, Error> {
        Encryption::of(&self.name).map_err(|_| Error::NoSuchDevice(self.name.clone()))
    }

    /// Whether the interface is still in this network namespace, under whatever name.
    #[must_use]
    pub fn exists(&self) -> bool {
        interface::exists(self.index.cast_unsigned())
    }

    /// Refuses an interface that is not set up.
    ///
    /// # Errors
    /// [`Error::Down`], or [`Error::NoSuchDevice`] when it has gone meanwhile.
    pub fn require_up(&self) -> Result<(), Error> {
        match interface::is_up(&self.name) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::Down(self.name.clone())),
            Err(_) => Err(Error::NoSuchDevice(self.name.clone())),
        }
    }

    /// Claims the interface for this process. The claim ends with the returned value, or with the process, however that
    /// ends: it is a name in the abstract socket namespace, which belongs to the network namespace just as the
    /// interface does.
    ///
    /// # Errors
    /// When another process has claimed it.
    pub fn claim(&self) -> Result<Claim, Error> {
        let address = status::claim_address(self.index)
            .map_err(|source| Error::Io { what: "name the claim on the device", source })?;
        // A guard that has just ended may live on for a moment, in a child that was being started just then and has not
        // closed what it inherited yet.
        for attempt in 0..CLAIM_ATTEMPTS {
            match UnixListener::bind_addr(&address) {
                Ok(listener) => return Ok(Claim { listener }),
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    return Err(Error::Io { what: "claim the device", source: error });
                }
                Err(_) if attempt + 1 < CLAIM_ATTEMPTS => std::thread::sleep(CLAIM_PAUSE),
                Err(_) => {}
            }
        }
        Err(Error::AlreadyGuarded(self.name.clone()))
    }
}

/// This process's exclusive right to guard a device.
#[derive(Debug)]
pub struct Claim {
    listener: UnixListener,
}

impl Claim {
    /// The socket whose name is the claim.
    pub(crate) fn socket(&self) -> io::Result<UnixListener> {
        self.listener.try_clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_unfit_devices_are_refused_with_a_reason() {
        let message = Device::find("no-such-dev0").unwrap_err().to_string();
        assert!(message.contains("`no-such-dev0`") && message.contains("ip link"), "{message}");
        let message = Device::find("a-name-longer-than-any-interface").unwrap_err().to_string();
        assert!(message.contains("there is no network interface"), "{message}");
        assert!(matches!(Device::find("lo"), Err(Error::Unfit { .. })));
    }

    #[test]
    fn a_bond_encrypts_what_one_of_its_members_does() {
        let shown = "Ethernet Channel Bonding Driver: v6.12\n\nBonding Mode: fault-tolerance (active-backup)\nPrimary Slave: None\n\
                     Currently Active Slave: eth0\n\nSlave Interface: eth0\nMII Status: up\n\nSlave Interface: eth1\nMII Status: up\n";
        assert!(members(shown).eq(["eth0", "eth1"]) && members("").next().is_none());

        let nothing = Encryption::default();
        let [tls, ipsec] = [Encryption { tls: true, ..nothing }, Encryption { ipsec: true, ..nothing }];
        let both = Encryption { tls: true, ipsec: true };
        assert_eq!(both.borne_out_by(&[]), both, "a card");
        assert_eq!(both.borne_out_by(&[nothing, nothing]), nothing);
        assert_eq!(both.borne_out_by(&[nothing, ipsec]), ipsec);
        assert_eq!(ipsec.borne_out_by(&[both, tls]), ipsec, "what it does not claim, its members do not do for it");
        assert_eq!(Encryption::of("lo").unwrap(), nothing);
        assert!(Encryption::of("no-such-dev0").is_err());
    }

    #[test]
    fn a_device_is_claimed_once() {
        let device = Device { name: "test".into(), index: i32::MAX };
        let claim = device.claim().unwrap();
        assert!(matches!(device.claim(), Err(Error::AlreadyGuarded(_))));
        drop(claim);
        assert!(device.claim().is_ok());
    }
}
