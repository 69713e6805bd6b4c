//! The edge testbed of PAC Fig. 5 in network namespaces:
//!
//! ```text
//!  sender s0  tx0 ─┐
//!  sender s1  tx0 ─┤ switch: forwards, port to-recv ── rx0  receiver
//!  ...             ┤                   tbf: rate, buffer
//!  sender sN  tx0 ─┘
//! ```
//!
//! 1. Nothing is created outside the lab's own namespaces: the links are born inside them.
//! 2. Only the port towards the receiver is shaped, and a rack's port to the spine; it is the one bottleneck, as in the papers' edge
//!    scenarios.
//! 3. `tbf` counts frames as Ethernet does (`overhead 24`: preamble, FCS and gap), so that 1 Gb/s has the ceiling of a real
//!    1 Gb/s link. Its queue holds `buffer` bytes of frames (without those 24).
//! 4. A token bucket lets `burst` bytes through at once after a pause, which a link would send one by one: `burst` is kept
//!    as small as the machine's timers allow, since it adds to the buffer for the first burst of a round.
//! 5. The receiver's frames are processed on a processor of their own where there are two (see [`steer`]).
//! 6. The switch forwards by IP address and is no Linux bridge: a bridged frame is still charged to the socket that sent
//!    it while it waits at the port, and TCP Small Queues then hold the sender back, which no real switch does.
//! 7. Neighbours are set by hand: an ARP request lost in the very queue under test would look like a timeout.
//! 8. Hosts that are far away are reached through a [delay line](delay).
//! 9. A bottleneck in the network's core has a [second switch](core) behind it, and a leaf-spine [racks](racks) before it.

mod core;
mod delay;
mod namespace;
mod offload;
mod port;
mod racks;
mod registry;
mod spec;
mod sysfs;
mod tools;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use nix::net::if_::if_nametoindex;

pub use namespace::Namespace;
pub use port::{BOTTLENECK, PortStats, framing_limit_mbps};
pub use registry::{Entry, Owner, clean, entries};
pub use spec::{Fabric, MAX_HOSTS, Spec};
pub use tools::{TestbedError, require_privilege};

use self::core::{Core, reach};
use delay::{DelayLine, Ends, Far};
use racks::Racks;
use spec::DEEP_BUFFER;
use tools::ip_batch;
pub(crate) use tools::tc;

/// The receiver's device.
pub const RECEIVER_DEVICE: &str = "rx0";
/// Each sender's device.
pub const SENDER_DEVICE: &str = "tx0";
/// Hardware address of every port of every switch.
const SWITCH_MAC: &str = "02:ac:00:00:00:fe";
/// The same, octet by octet.
const SWITCH_OCTETS: [u8; 6] = [2, 0xac, 0, 0, 0, 0xfe];

/// Sysctls of a switch.
const FORWARDING: &[(&str, &str)] = &[
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
];

/// A testbed that stands. Dropping it removes it, unless it was left standing by [`Testbed::leave`].
#[derive(Debug)]
pub struct Testbed {
    spec: Spec,
    entry: Entry,
    leave: bool,
    delay: Option<DelayLine>,
}

impl Testbed {
    /// Builds a testbed that belongs to this process.
    ///
    /// # Errors
    /// When privilege, programs or kernel features are missing; what was built so far is removed.
    pub fn build(spec: Spec) -> Result<Self, TestbedError> {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let id = if n == 0 { std::process::id().to_string() } else { format!("{}.{n}", std::process::id()) };
        Self::build_as(spec, id, Some(Owner::me()))
    }

    /// Builds a testbed under a name of its own that outlives this process: [`down`] removes it.
    ///
    /// # Errors
    /// As [`Testbed::build`], and when the name is taken.
    pub fn build_standing(spec: Spec, name: &str) -> Result<Entry, TestbedError> {
        if name.is_empty() || name.len() > 32 || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(TestbedError::Config("a testbed's name has 1 to 32 letters, digits or underscores".into()));
        }
        if spec.rtts.iter().any(|rtt| !rtt.is_zero()) {
            return Err(TestbedError::Config(
                "a standing testbed has no base round-trip times: its delay line would end with this process".into(),
            ));
        }
        let mut testbed = Self::build_as(spec, name.into(), None)?;
        testbed.leave = true;
        Ok(testbed.entry.clone())
    }

    fn build_as(spec: Spec, id: String, owner: Option<Owner>) -> Result<Self, TestbedError> {
        spec.check()?;
        require_privilege()?;
        let name = |part: &str| format!("{}-{id}-{part}", registry::PREFIX);
        let mut namespaces = vec![name("recv"), name("switch")];
        namespaces.extend((0..spec.hosts).map(|k| name(&format!("s{k}"))));
        if spec.fabric != Fabric::Edge {
            namespaces.extend([name("far"), name("beside")]);
        }
        namespaces.extend((0..spec.fabric.racks()).map(|rack| name(&format!("leaf{rack}"))));
        let entry = Entry { id, owner, namespaces, device: RECEIVER_DEVICE.into() };
        registry::record(&entry)?;
        // From here on dropping it removes whatever is there.
        let mut testbed = Self { spec, entry, leave: false, delay: None };
        testbed.create()?;
        Ok(testbed)
    }

    /// What it was built from.
    #[must_use]
    pub const fn spec(&self) -> &Spec {
        &self.spec
    }

    /// The receiver's namespace.
    #[must_use]
    pub fn receiver(&self) -> Namespace {
        Namespace::named(self.entry.namespaces[0].as_str())
    }

    /// The switch's namespace.
    #[must_use]
    pub fn switch(&self) -> Namespace {
        Namespace::named(self.entry.namespaces[1].as_str())
    }

    /// Namespace of sender host `k`, below `spec().hosts`.
    #[must_use]
    pub fn sender(&self, k: usize) -> Namespace {
        Namespace::named(self.entry.namespaces[2 + k].as_str())
    }

    /// Namespace of the host beside the receiver, where the bottleneck is in the network's core.
    #[must_use]
    pub fn beside(&self) -> Option<Namespace> {
        self.core().map(|core| core.beside)
    }

    /// Address of that host.
    #[must_use]
    pub const fn beside_address(ipv6: bool) -> IpAddr {
        core::beside_address(ipv6)
    }

    /// The second floor, where there is one.
    fn core(&self) -> Option<Core> {
        let hosts = 2 + self.spec.hosts;
        let named = |at: usize| Namespace::named(self.entry.namespaces[at].as_str());
        let second = self.spec.fabric != Fabric::Edge;
        second.then(|| Core { switch: self.switch(), far: named(hosts), beside: named(hosts + 1) })
    }

    /// The senders' racks, where there are any.
    fn racks(&self) -> Racks {
        let leaves = self.entry.namespaces.iter().rev().take(self.spec.fabric.racks()).rev();
        Racks(leaves.map(|name| Namespace::named(name.as_str())).collect())
    }

    /// Ports that have the spec's rate and buffer: the bottleneck first, then the racks'.
    fn shaped(&self) -> Vec<(Namespace, &'static str)> {
        if !self.spec.limited {
            return Vec::new();
        }
        let racks = self.racks().0.into_iter().map(|leaf| (leaf, racks::TO_SPINE));
        std::iter::once((self.switch(), BOTTLENECK)).chain(racks).collect()
    }

    /// The switch's port towards a sender host, and the hardware address at its other end.
    fn towards(&self, k: usize) -> (String, [u8; 6]) {
        self.racks()
            .rack_of(k)
            .map_or_else(|| (sender_port(k), mac_octets(Some(k))), |rack| (racks::to_leaf(rack), SWITCH_OCTETS))
    }

    /// Address of sender host `k`.
    #[must_use]
    pub fn sender_address(k: usize, ipv6: bool) -> IpAddr {
        // At most 512 hosts: both halves fit.
        let (high, low) = ((k / 250) as u8 + 1, (k % 250) as u8 + 1);
        if ipv6 {
            Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, high.into(), low.into()).into()
        } else {
            Ipv4Addr::new(10, 77, high, low).into()
        }
    }

    /// Address of the receiver.
    #[must_use]
    pub const fn receiver_address(ipv6: bool) -> IpAddr {
        if ipv6 {
            IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1))
        } else {
            IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1))
        }
    }

    /// Address of a sender or of the receiver (`None`).
    fn address(host: Option<usize>, ipv6: bool) -> IpAddr {
        host.map_or_else(|| Self::receiver_address(ipv6), |k| Self::sender_address(k, ipv6))
    }

    /// Makes the bottleneck's buffer so deep that nothing is lost, or as the spec says again.
    ///
    /// # Errors
    /// When tc fails.
    pub fn set_deep_buffer(&self, deep: bool) -> Result<(), TestbedError> {
        let limit = if deep { DEEP_BUFFER } else { self.spec.buffer };
        self.reshape(limit)
    }

    /// Gives the bottleneck another rate in bits per second, with the burst that goes with it.
    ///
    /// # Errors
    /// When the rate is senseless or tc fails.
    pub fn set_rate(&mut self, rate: u64) -> Result<(), TestbedError> {
        let spec = Spec { rate, burst: Spec::burst_for(rate), ..self.spec.clone() };
        spec.check()?;
        self.spec = spec;
        self.reshape(self.spec.buffer)
    }

    /// A port without a limit has nothing to change.
    fn reshape(&self, buffer: u64) -> Result<(), TestbedError> {
        self.shaped().iter().try_for_each(|port| port::shape(port, "change", &self.spec, buffer))
    }

    /// Makes every path to a far host longer by so much than its base round-trip time, as of now: another route. With zero they
    /// are as they were.
    ///
    /// # Errors
    /// When no host is far away, so that there is no delay line.
    pub fn lengthen(&self, by: Duration) -> Result<(), TestbedError> {
        let none = || TestbedError::Config("paths become longer on a delay line only: give a host a base RTT".into());
        self.delay.as_ref().ok_or_else(none)?.lengthen(by);
        Ok(())
    }

    /// Frames that the delay line lost, which it never does unless far more wait in it than its hosts can send.
    #[must_use]
    pub fn delay_lost(&self) -> u64 {
        self.delay.as_ref().map_or(0, DelayLine::lost)
    }

    /// What the bottleneck port counted so far, with what racks' ports dropped; a port without a limit drops nothing.
    ///
    /// # Errors
    /// When tc fails or prints what cannot be read.
    pub fn port_stats(&self) -> Result<PortStats, TestbedError> {
        let mut all = self.shaped().iter().map(port::stats).collect::<Result<Vec<_>, _>>()?.into_iter();
        let bottleneck = all.next().unwrap_or_default();
        Ok(PortStats { drops: bottleneck.drops + all.map(|rack| rack.drops).sum::<u64>(), ..bottleneck })
    }

    /// Has programs at the sender hosts that choose no congestion control use this one. By their routes: a namespace's sysctl takes
    /// none that the whole machine does not offer to all.
    ///
    /// # Errors
    /// When a route does not take it.
    pub fn set_congestion_control(&self, name: &str) -> Result<(), TestbedError> {
        let options = self.route_options(true);
        let route = |end| format!("route replace {end} dev {SENDER_DEVICE}{options} congctl {name}\n");
        let routes: String = [false, true].into_iter().flat_map(|ipv6| self.receivers(ipv6)).map(route).collect();
        (0..self.spec.hosts).try_for_each(|k| ip_batch(Some(&self.sender(k)), &routes).map(drop))
    }

    /// Lets frames of this size through to the receiver, which announces segments that fit.
    ///
    /// # Errors
    /// When a device does not take it.
    pub fn set_receiver_mtu(&self, mtu: u32) -> Result<(), TestbedError> {
        ip_batch(Some(&self.switch()), &format!("link set {BOTTLENECK} mtu {mtu}\n"))?;
        ip_batch(Some(&self.receiver()), &format!("link set {RECEIVER_DEVICE} mtu {mtu}\n")).map(drop)
    }

    /// Has the switch discard whatever is sent to a network that does not exist: what the receiver answers to forged
    /// addresses vanishes as it would on the way to hosts that are down.
    ///
    /// # Errors
    /// When a route cannot be set.
    pub fn discard(&self, network: Ipv4Addr, prefix: u8) -> Result<(), TestbedError> {
        ip_batch(Some(&self.switch()), &format!("route add blackhole {network}/{prefix}\n"))?;
        let gateway = Self::sender_address(0, false);
        let route = format!("route add {network}/{prefix} via {gateway} dev {RECEIVER_DEVICE} onlink\n");
        ip_batch(Some(&self.receiver()), &route).map(drop)
    }

    fn create(&mut self) -> Result<(), TestbedError> {
        let (receiver, switch) = (self.receiver(), self.switch());
        let mut batch = String::new();
        for name in &self.entry.namespaces {
            batch += &format!("netns add {name}\n");
        }
        let link = |switch: &Namespace, port: &str, device: &str, host: &Namespace| {
            format!("link add name {port} netns {} type veth peer name {device} netns {}\n", switch.name(), host.name())
        };
        let (core, racks) = (self.core(), self.racks());
        batch += &core
            .as_ref()
            .map_or_else(|| link(&switch, BOTTLENECK, RECEIVER_DEVICE, &receiver), |core| core.links(&receiver));
        batch += &racks.links(&switch);
        for k in 0..self.spec.hosts {
            let at = racks.leaf_of(k).unwrap_or(&switch);
            batch += &link(at, &sender_port(k), SENDER_DEVICE, &self.sender(k));
        }
        ip_batch(None, &batch)?;

        // The ports need no addresses: they forward, and nobody talks to the switch itself.
        let receivers = if core.is_some() { SWITCH_MAC.into() } else { mac(None) };
        let ends: Vec<(String, Option<usize>, String)> = std::iter::once((BOTTLENECK.into(), None, receivers))
            .chain((0..self.spec.hosts).map(|k| {
                let (port, next) = self.towards(k);
                (port, Some(k), written(next))
            }))
            .collect();
        switch.set_sysctls(FORWARDING).map_err(sysctl_error)?;
        let ports: BTreeSet<String> = ends.iter().map(|(port, ..)| port.clone()).collect();
        // First all ports, then who is behind them: a port that is given its address forgets its neighbours.
        let mut batch: String = ports.iter().map(|port| format!("link set {port} address {SWITCH_MAC} up\n")).collect();
        for (port, end, next) in &ends {
            for ipv6 in [false, true] {
                batch += &reach(Self::address(*end, ipv6), port, next);
            }
        }
        ip_batch(Some(&switch), &batch)?;
        self.set_offloads(&switch, &Vec::from_iter(ports))?;
        racks.create(self)?;
        for (rack, leaf) in racks.0.iter().enumerate() {
            self.set_offloads(leaf, &racks.ports(rack, self.spec.hosts))?;
        }
        for port in self.shaped() {
            port::shape(&port, "add", &self.spec, self.spec.buffer)?;
            if let Some(threshold) = self.spec.mark {
                port::mark(&port, threshold)?;
            }
        }

        self.create_host(&receiver, None)?;
        for k in 0..self.spec.hosts {
            self.create_host(&self.sender(k), Some(k))?;
        }
        if let Some(core) = &core {
            self.set_host_sysctls(&core.beside)?;
            core.create(self)?;
            self.set_offloads(&core.far, &Core::ports())?;
            self.set_offloads(&core.beside, &[RECEIVER_DEVICE.to_owned()])?;
        }
        self.delay = self.create_delay(&switch)?;
        Ok(())
    }

    /// The delay line, where a host is far away, and the switch's routes into it.
    fn create_delay(&self, switch: &Namespace) -> Result<Option<DelayLine>, TestbedError> {
        let far: Vec<usize> = (0..self.spec.hosts).filter(|&k| !self.spec.rtt(k).is_zero()).collect();
        if far.is_empty() {
            return Ok(None);
        }
        let open = || {
            let ends = Ends::open(self.spec.offloads)?;
            let hosts = far.iter().map(|&k| {
                let (port, next) = self.towards(k);
                let port = if_nametoindex(port.as_str()).map_err(io::Error::from)?;
                Ok(Far {
                    mac: mac_octets(Some(k)),
                    port: i32::try_from(port).unwrap_or(i32::MAX),
                    next,
                    rtt: self.spec.rtt(k),
                })
            });
            Ok((ends, hosts.collect::<io::Result<Vec<_>>>()?))
        };
        let (ends, hosts) = switch
            .inside(open)
            .and_then(|opened| opened)
            .map_err(|source| TestbedError::Io { what: "creating the delay line".into(), source })?;
        let device = delay::DEVICE;
        let mut batch = format!("link set {device} txqueuelen {} up\n", delay::TAP_FRAMES);
        for &k in &far {
            for ipv6 in [false, true] {
                batch += &reach(Self::sender_address(k, ipv6), device, &mac(Some(k)));
            }
        }
        ip_batch(Some(switch), &batch)?;
        Ok(Some(DelayLine::start(ends, hosts)))
    }

    /// Addresses, neighbours, routes and sysctls of the receiver (`None`) or of a sender.
    fn create_host(&self, host: &Namespace, sender: Option<usize>) -> Result<(), TestbedError> {
        self.set_host_sysctls(host)?;
        let device = if sender.is_some() { SENDER_DEVICE } else { RECEIVER_DEVICE };
        let mut batch = format!("link set lo up\nlink set {device} address {} up\n", mac(sender));
        for ipv6 in [false, true] {
            let me = Self::address(sender, ipv6);
            let options = if ipv6 { "nodad noprefixroute" } else { "noprefixroute" };
            batch += &format!("addr add {me}/{} dev {device} {options}\n", if ipv6 { 64 } else { 16 });
            batch += &self.peers(sender, ipv6);
        }
        ip_batch(Some(host), &batch)?;
        if sender.is_none() {
            steer(host, device)?;
        }
        self.set_offloads(host, &[device.to_owned()])
    }

    fn set_host_sysctls(&self, host: &Namespace) -> Result<(), TestbedError> {
        host.set_sysctls(&[
            ("ipv6/conf/default/router_solicitations", "0"),
            // What one connection learnt must not change the next one's start.
            ("ipv4/tcp_no_metrics_save", "1"),
            ("ipv4/tcp_ecn", if self.spec.ecn { "1" } else { "0" }),
            // Requests and ACKs must not depend on what this host prefers (BBR paces); senders are told per connection.
            ("ipv4/tcp_congestion_control", "reno"),
            // The application must never be what limits a sender.
            ("ipv4/tcp_wmem", "4096 1048576 16777216"),
            ("ipv4/ip_local_port_range", "1024 65535"),
            ("ipv4/tcp_max_syn_backlog", "65535"),
            ("core/somaxconn", "65535"),
        ])
        .map_err(sysctl_error)
    }

    /// Addresses of the receiver and of the host beside it, where there is one.
    fn receivers(&self, ipv6: bool) -> impl Iterator<Item = IpAddr> + use<> {
        let beside = (self.spec.fabric != Fabric::Edge).then(|| Self::beside_address(ipv6));
        std::iter::once(Self::receiver_address(ipv6)).chain(beside)
    }

    /// Neighbours and routes of the receivers (`None`) or of a sender.
    fn peers(&self, sender: Option<usize>, ipv6: bool) -> String {
        let device = if sender.is_some() { SENDER_DEVICE } else { RECEIVER_DEVICE };
        let peers: Vec<IpAddr> = match sender {
            Some(_) => self.receivers(ipv6).collect(),
            None => (0..self.spec.hosts).map(|k| Self::sender_address(k, ipv6)).collect(),
        };
        let mut batch = String::new();
        for address in peers {
            batch += &format!("neigh replace {address} lladdr {SWITCH_MAC} dev {device} nud permanent\n");
            batch += &format!("route replace {address} dev {device}{}\n", self.route_options(sender.is_some()));
        }
        batch
    }

    /// Sets the receiver's device down for this long, and up again with its neighbours and routes; IPv4 alone works after that.
    ///
    /// # Errors
    /// When the device does not take it.
    pub fn flap(&self, time: Duration) -> Result<(), TestbedError> {
        let receiver = self.receiver();
        ip_batch(Some(&receiver), &format!("link set {RECEIVER_DEVICE} down\n"))?;
        std::thread::sleep(time);
        ip_batch(Some(&receiver), &format!("link set {RECEIVER_DEVICE} up\n{}", self.peers(None, false))).map(drop)
    }

    /// Deletes the receiver's device. Nothing of the testbed works after that.
    ///
    /// # Errors
    /// When it is not there.
    pub fn delete_receiver_device(&self) -> Result<(), TestbedError> {
        ip_batch(Some(&self.receiver()), &format!("link del {RECEIVER_DEVICE}\n")).map(drop)
    }

    fn route_options(&self, at_sender: bool) -> String {
        let mut options = String::new();
        if let Some(t) = if at_sender { self.spec.rto_min } else { self.spec.receiver_rto_min } {
            options += &format!(" rto_min {}ms", t.as_millis());
        }
        if at_sender {
            if let Some(w) = self.spec.initial_window {
                options += &format!(" initcwnd {w}");
            }
        } else if !self.spec.delayed_ack {
            options += " quickack 1";
        }
        options
    }

    fn set_offloads(&self, host: &Namespace, devices: &[String]) -> Result<(), TestbedError> {
        let on = self.spec.offloads;
        host.inside(|| devices.iter().try_for_each(|device| offload::set_offloads(device, on)))
            .and_then(|done| done)
            .map_err(|source| TestbedError::Io { what: format!("in {}", host.name()), source })
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.delay = None;
        if !self.leave
            && let Err(e) = registry::remove(&self.entry)
        {
            eprintln!("ackgate lab: could not remove testbed {}: {e}; try `ackgate lab clean`", self.entry.id);
        }
    }
}

/// Removes a standing testbed by name.
///
/// # Errors
/// When there is none of that name, or a running process owns it.
pub fn down(name: &str) -> Result<(), TestbedError> {
    require_privilege()?;
    let entry = entries()
        .into_iter()
        .find(|e| e.id == name && e.owner.is_none_or(|owner| !owner.lives()))
        .ok_or_else(|| TestbedError::Unknown(name.into()))?;
    registry::remove(&entry)
}

/// Has the receiver's frames processed on the last processor. Left to itself, a frame is received on the processor that sent
/// it, so that senders could not outrun the port: each would first do the receiver's work.
fn steer(host: &Namespace, device: &str) -> Result<(), TestbedError> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let queue = format!("class/net/{device}/queues/rx-0/rps_cpus");
    match sysfs::write(host, queue.as_ref(), &cpu_mask(cpus - 1)) {
        // A kernel without receive packet steering does without.
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(TestbedError::Io { what: format!("steering what {device} receives"), source })
        }
        _ => Ok(()),
    }
}

/// One processor as the kernel writes sets of them: hexadecimal words of 32 bits, the highest first.
fn cpu_mask(cpu: usize) -> String {
    format!("{:x}{}", 1u32 << (cpu % 32), ",00000000".repeat(cpu / 32))
}

/// Hardware address of the receiver (`None`) or of a sender.
fn mac_octets(sender: Option<usize>) -> [u8; 6] {
    // At most 512 hosts: both halves fit.
    sender.map_or([2, 0xac, 0, 0, 0, 1], |k| [2, 0xac, 0, 1, (k / 256) as u8, (k % 256) as u8])
}

fn mac(sender: Option<usize>) -> String {
    written(mac_octets(sender))
}

fn written(mac: [u8; 6]) -> String {
    mac.map(|octet| format!("{octet:02x}")).join(":")
}

/// The port towards a sender host, of the switch that it is at.
fn sender_port(k: usize) -> String {
    format!("to-s{k}")
}

fn sysctl_error(source: io::Error) -> TestbedError {
    TestbedError::Io { what: "setting up a namespace".into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_as_the_kernel_writes_them() {
        assert_eq!((cpu_mask(0), cpu_mask(5)), ("1".into(), "20".into()));
        assert_eq!(cpu_mask(33), "2,00000000");
    }

    #[test]
    fn hosts_have_addresses_and_hardware_addresses_of_their_own() {
        let mut seen = std::collections::HashSet::new();
        for k in 0..MAX_HOSTS {
            assert!(seen.insert(Testbed::sender_address(k, false).to_string()));
            assert!(seen.insert(Testbed::sender_address(k, true).to_string()));
            assert!(seen.insert(mac(Some(k))));
        }
        assert_eq!(written(SWITCH_OCTETS), SWITCH_MAC);
    }
}
