//! Racks of senders: a leaf between the hosts of each and the spine.
//!
//! ```text
//!  s0, s3, ... ─ leaf 0 ══╗
//!  s1, s4, ... ─ leaf 1 ══╬ spine (the switch), port to-recv ══ far switch: receiver, beside
//!  s2, s5, ... ─ leaf 2 ══╝
//! ```

use super::core::{beside_address, reach};
use super::namespace::Namespace;
use super::tools::{TestbedError, ip_batch};
use super::{FORWARDING, SWITCH_MAC, Testbed, mac, sender_port, sysctl_error};

/// A leaf's port to the spine.
pub(super) const TO_SPINE: &str = "to-spine";

/// The spine's port to a leaf.
pub(super) fn to_leaf(rack: usize) -> String {
    format!("to-leaf{rack}")
}

/// The leaves' namespaces, rack by rack.
pub(super) struct Racks(pub(super) Vec<Namespace>);

impl Racks {
    /// The rack of a sender host; `None` where there are no racks.
    pub(super) fn rack_of(&self, host: usize) -> Option<usize> {
        host.checked_rem(self.0.len())
    }

    /// The leaf that a sender host is at; `None` where there are no racks.
    pub(super) fn leaf_of(&self, host: usize) -> Option<&Namespace> {
        self.0.get(self.rack_of(host)?)
    }

    /// Lines for `ip` that make the links from the leaves to the spine.
    pub(super) fn links(&self, spine: &Namespace) -> String {
        let link = |(rack, leaf): (usize, &Namespace)| {
            format!(
                "link add name {TO_SPINE} netns {} type veth peer name {} netns {}\n",
                leaf.name(),
                to_leaf(rack),
                spine.name()
            )
        };
        self.0.iter().enumerate().map(link).collect()
    }

    /// Ports of a leaf.
    pub(super) fn ports(&self, rack: usize, hosts: usize) -> Vec<String> {
        let own = (0..hosts).filter(|&k| self.rack_of(k) == Some(rack)).map(sender_port);
        std::iter::once(TO_SPINE.to_owned()).chain(own).collect()
    }

    /// Sets up the leaves, when the links are there.
    ///
    /// # Errors
    /// When a namespace does not take it.
    pub(super) fn create(&self, testbed: &Testbed) -> Result<(), TestbedError> {
        let hosts = testbed.spec().hosts;
        for (rack, leaf) in self.0.iter().enumerate() {
            leaf.set_sysctls(FORWARDING).map_err(sysctl_error)?;
            let mut batch = String::new();
            for port in self.ports(rack, hosts) {
                batch += &format!("link set {port} address {SWITCH_MAC} up\n");
            }
            for ipv6 in [false, true] {
                for behind in [Testbed::receiver_address(ipv6), beside_address(ipv6)] {
                    batch += &reach(behind, TO_SPINE, SWITCH_MAC);
                }
                for k in (0..hosts).filter(|&k| self.rack_of(k) == Some(rack)) {
                    batch += &reach(Testbed::sender_address(k, ipv6), &sender_port(k), &mac(Some(k)));
                }
            }
            ip_batch(Some(leaf), &batch)?;
        }
        Ok(())
    }
}
