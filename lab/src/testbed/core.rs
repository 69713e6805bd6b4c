//! The second floor of a testbed, PAC Fig. 6: behind the bottleneck a second switch, and beside the receiver another host, whose
//! traffic shares the link between the switches.
//!
//! ```text
//!  sender s0  tx0 ─┐                                        ┌── rx0  receiver
//!  ...             ┤ switch, port to-recv ══ far switch ────┤
//!  sender sN  tx0 ─┘         tbf: rate, buffer              └── rx0  beside
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::namespace::Namespace;
use super::port::BOTTLENECK;
use super::tools::{TestbedError, ip_batch};
use super::{FORWARDING, RECEIVER_DEVICE, SWITCH_MAC, Testbed, mac, sysctl_error};

/// The far switch's ports.
const UPLINK: &str = "to-switch";
const TO_RECEIVER: &str = "to-rx";
const TO_BESIDE: &str = "to-beside";
/// Hardware address of the host beside the receiver.
const BESIDE_MAC: &str = "02:ac:00:00:00:02";

/// Both switches' namespaces, and the host's.
pub(super) struct Core {
    pub(super) switch: Namespace,
    pub(super) far: Namespace,
    pub(super) beside: Namespace,
}

/// Address of the host beside the receiver.
pub(super) const fn beside_address(ipv6: bool) -> IpAddr {
    if ipv6 { IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2)) } else { IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)) }
}

impl Core {
    /// Lines for `ip` that make the links from the switch's bottleneck to the receiver and the host beside it.
    pub(super) fn links(&self, receiver: &Namespace) -> String {
        let link = |port: &str, at: &Namespace, device: &str, of: &Namespace| {
            format!("link add name {port} netns {} type veth peer name {device} netns {}\n", at.name(), of.name())
        };
        link(BOTTLENECK, &self.switch, UPLINK, &self.far)
            + &link(TO_RECEIVER, &self.far, RECEIVER_DEVICE, receiver)
            + &link(TO_BESIDE, &self.far, RECEIVER_DEVICE, &self.beside)
    }

    /// Ports that offloads are set at.
    pub(super) fn ports() -> [String; 3] {
        [UPLINK, TO_RECEIVER, TO_BESIDE].map(str::to_owned)
    }

    /// Sets up the far switch and the host beside the receiver, when the links and the first switch are there.
    ///
    /// # Errors
    /// When a namespace does not take it.
    pub(super) fn create(&self, testbed: &Testbed) -> Result<(), TestbedError> {
        let (mut near, mut far, mut beside) = (String::new(), String::new(), String::new());
        self.far.set_sysctls(FORWARDING).map_err(sysctl_error)?;
        for port in Self::ports() {
            far += &format!("link set {port} address {SWITCH_MAC} up\n");
        }
        beside += &format!("link set lo up\nlink set {RECEIVER_DEVICE} address {BESIDE_MAC} up\n");
        for ipv6 in [false, true] {
            let (receiver, other) = (Testbed::receiver_address(ipv6), beside_address(ipv6));
            near += &reach(other, BOTTLENECK, SWITCH_MAC);
            far += &reach(receiver, TO_RECEIVER, &mac(None));
            far += &reach(other, TO_BESIDE, BESIDE_MAC);
            let (prefix, options) = if ipv6 { (64, "nodad noprefixroute") } else { (16, "noprefixroute") };
            beside += &format!("addr add {other}/{prefix} dev {RECEIVER_DEVICE} {options}\n");
            beside += &testbed.peers(None, ipv6);
            for k in 0..testbed.spec().hosts {
                far += &reach(Testbed::sender_address(k, ipv6), UPLINK, SWITCH_MAC);
            }
        }
        ip_batch(Some(&self.switch), &near)?;
        ip_batch(Some(&self.far), &far)?;
        ip_batch(Some(&self.beside), &beside).map(drop)
    }
}

/// A neighbour and the route to it.
pub(super) fn reach(address: IpAddr, device: &str, mac: &str) -> String {
    format!("neigh replace {address} lladdr {mac} dev {device} nud permanent\nroute replace {address} dev {device}\n")
}
