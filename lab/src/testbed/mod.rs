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
//! 2. Only the port towards the receiver is shaped; it is the one bottleneck, as in the papers' edge scenarios.
//! 3. `tbf` counts frames as Ethernet does (`overhead 24`: preamble, FCS and gap), so that 1 Gb/s has the ceiling of a real
//!    1 Gb/s link. Its queue holds `buffer` bytes of frames (without those 24).
//! 4. A token bucket lets `burst` bytes through at once after a pause, which a link would send one by one: `burst` is kept
//!    as small as the machine's timers allow, since it adds to the buffer for the first burst of a round.
//! 5. The receiver's frames are processed on a processor of their own where there are two (see [`steer`]).
//! 6. The switch forwards by IP address and is no Linux bridge: a bridged frame is still charged to the socket that sent
//!    it while it waits at the port, and TCP Small Queues then hold the sender back, which no real switch does.
//! 7. Neighbours are set by hand: an ARP request lost in the very queue under test would look like a timeout.

mod namespace;
mod offload;
mod registry;

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};
use std::time::Duration;

use thiserror::Error;

pub use namespace::Namespace;
pub use registry::{Entry, Owner, clean, entries};

/// The receiver's device.
pub const RECEIVER_DEVICE: &str = "rx0";
/// The switch's port towards the receiver.
const BOTTLENECK: &str = "to-recv";
/// Hardware address of every port of the switch.
const SWITCH_MAC: &str = "02:ac:00:00:00:fe";
/// Ethernet's preamble, frame check sequence and interframe gap, in bytes.
const WIRE_OVERHEAD: u64 = 24;
/// Most sender namespaces.
pub const MAX_HOSTS: usize = 512;
/// A buffer in which nothing is lost, for measuring the ceiling, in bytes.
const DEEP_BUFFER: u64 = 256 << 20;

/// Why there is no testbed.
#[derive(Debug, Error)]
pub enum TestbedError {
    /// Namespaces need privilege.
    #[error("the lab builds network namespaces and needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN): run it with sudo")]
    Privilege,
    /// A program is missing.
    #[error("`{0}` is not installed; it comes with iproute2 (apt-get install iproute2)")]
    Missing(&'static str),
    /// A program failed.
    #[error("`{command}` failed: {message}")]
    Command {
        /// What was run.
        command: String,
        /// What it printed.
        message: String,
    },
    /// Another testbed has that name.
    #[error("a testbed called `{0}` exists already: remove it with `ackgate lab down {0}`, or give another --name")]
    Exists(String),
    /// No such testbed.
    #[error("there is no testbed called `{0}`: `ackgate lab show` lists them")]
    Unknown(String),
    /// A senseless setting.
    #[error("{0}")]
    Config(String),
    /// Anything else.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl TestbedError {
    /// Whether what was asked for cannot be, or not on this host, rather than that it went wrong.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        !matches!(self, Self::Io { .. })
    }
}

/// What to build.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Sender namespaces, 1 to [`MAX_HOSTS`].
    pub hosts: usize,
    /// Rate of the port towards the receiver, in bits per second.
    pub rate: u64,
    /// Its buffer in bytes of frames.
    pub buffer: u64,
    /// Bytes of frames that the port may send at once.
    pub burst: u64,
    /// Leaves TSO, GSO and GRO on.
    pub offloads: bool,
    /// Floor of the senders' retransmission timeout; `None` keeps the kernel's (200 ms).
    pub rto_min: Option<Duration>,
    /// Senders' initial window in segments; `None` keeps the kernel's (10).
    pub initial_window: Option<u32>,
    /// Lets the receiver delay its ACKs as the kernel likes; otherwise every segment is acknowledged at once, as in the
    /// papers.
    pub delayed_ack: bool,
    /// Negotiates ECN.
    pub ecn: bool,
}

impl Spec {
    /// A burst that the timers of a small virtual machine can keep up with: 64 us at `rate`, two full frames at least.
    #[must_use]
    pub const fn burst_for(rate: u64) -> u64 {
        let bytes = rate / 8 * 64 / 1_000_000;
        if bytes < 3_076 { 3_076 } else { bytes }
    }

    /// PAC's testbed in small: 8 sender hosts, 1 Gb/s, 96 KB (Table II), no delayed ACK.
    #[must_use]
    pub const fn pac_edge() -> Self {
        Self {
            hosts: 8,
            rate: 1_000_000_000,
            buffer: 96_000,
            burst: Self::burst_for(1_000_000_000),
            offloads: false,
            rto_min: None,
            initial_window: None,
            delayed_ack: false,
            ecn: false,
        }
    }

    fn check(&self) -> Result<(), TestbedError> {
        let complain = |text: String| Err(TestbedError::Config(text));
        if !(1..=MAX_HOSTS).contains(&self.hosts) {
            return complain(format!("{} sender hosts: the lab builds 1 to {MAX_HOSTS}", self.hosts));
        }
        if !(1_000_000..=100_000_000_000).contains(&self.rate) {
            return complain(format!("a rate of {} bit/s: the lab's switch port does 1mbit to 100gbit", self.rate));
        }
        if !(3_028..=DEEP_BUFFER).contains(&self.buffer) {
            return complain(format!("a buffer of {} bytes: give two full frames (3028 bytes) to 256MB", self.buffer));
        }
        if !(1_538..=16 << 20).contains(&self.burst) {
            return complain(format!("a burst of {} bytes: give one full frame (1538 bytes) to 16MB", self.burst));
        }
        if self.initial_window.is_some_and(|w| !(1..=1000).contains(&w)) {
            return complain("an initial window has 1 to 1000 segments".into());
        }
        if self.rto_min.is_some_and(|t| t < Duration::from_millis(1) || t > Duration::from_secs(120)) {
            return complain("the floor of the retransmission timeout is 1ms to 120s".into());
        }
        Ok(())
    }
}

/// What the bottleneck port counted since it was set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames sent.
    pub packets: u64,
    /// Bytes of frames sent.
    pub bytes: u64,
    /// Frames dropped because the buffer was full.
    pub drops: u64,
}

/// A testbed that stands. Dropping it removes it, unless it was left standing by [`Testbed::leave`].
#[derive(Debug)]
pub struct Testbed {
    spec: Spec,
    entry: Entry,
    leave: bool,
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
        let entry = Entry { id, owner, namespaces, device: RECEIVER_DEVICE.into() };
        registry::record(&entry)?;
        // From here on dropping it removes whatever is there.
        let testbed = Self { spec, entry, leave: false };
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
        self.shape("change", if deep { DEEP_BUFFER } else { self.spec.buffer })
    }

    /// Gives the bottleneck another rate in bits per second, with the burst that goes with it.
    ///
    /// # Errors
    /// When the rate is senseless or tc fails.
    pub fn set_rate(&mut self, rate: u64) -> Result<(), TestbedError> {
        let spec = Spec { rate, burst: Spec::burst_for(rate), ..self.spec.clone() };
        spec.check()?;
        self.spec = spec;
        self.shape("change", self.spec.buffer)
    }

    /// What the bottleneck port counted so far.
    ///
    /// # Errors
    /// When tc fails or prints what cannot be read.
    pub fn port_stats(&self) -> Result<PortStats, TestbedError> {
        let text = tc(&["-n", self.switch().name(), "-s", "-j", "qdisc", "show", "dev", BOTTLENECK])?;
        parse_port_stats(&text)
            .ok_or_else(|| TestbedError::Command { command: "tc -s -j qdisc show".into(), message: text })
    }

    fn create(&self) -> Result<(), TestbedError> {
        let (receiver, switch) = (self.receiver(), self.switch());
        let mut batch = String::new();
        for name in &self.entry.namespaces {
            batch += &format!("netns add {name}\n");
        }
        let link = |port: &str, device: &str, host: &Namespace| {
            format!("link add name {port} netns {} type veth peer name {device} netns {}\n", switch.name(), host.name())
        };
        batch += &link(BOTTLENECK, RECEIVER_DEVICE, &receiver);
        for k in 0..self.spec.hosts {
            batch += &link(&format!("to-s{k}"), "tx0", &self.sender(k));
        }
        ip_batch(None, &batch)?;

        // The ports need no addresses: they forward, and nobody talks to the switch itself.
        let ends: Vec<(String, Option<usize>)> = std::iter::once((BOTTLENECK.into(), None))
            .chain((0..self.spec.hosts).map(|k| (format!("to-s{k}"), Some(k))))
            .collect();
        switch
            .set_sysctls(&[
                ("ipv4/ip_forward", "1"),
                ("ipv6/conf/all/forwarding", "1"),
                ("ipv4/conf/all/rp_filter", "0"),
                ("ipv4/conf/default/rp_filter", "0"),
            ])
            .map_err(sysctl_error)?;
        let mut ports = String::new();
        for (port, end) in &ends {
            ports += &format!("link set {port} address {SWITCH_MAC} up\n");
            for ipv6 in [false, true] {
                let address = Self::address(*end, ipv6);
                ports += &format!("neigh replace {address} lladdr {} dev {port} nud permanent\n", mac(*end));
                ports += &format!("route replace {address} dev {port}\n");
            }
        }
        ip_batch(Some(&switch), &ports)?;
        let names: Vec<String> = ends.into_iter().map(|(port, _)| port).collect();
        self.set_offloads(&switch, &names)?;
        self.shape("add", self.spec.buffer)?;

        self.create_host(&receiver, None)?;
        for k in 0..self.spec.hosts {
            self.create_host(&self.sender(k), Some(k))?;
        }
        Ok(())
    }

    /// Addresses, neighbours, routes and sysctls of the receiver (`None`) or of a sender.
    fn create_host(&self, host: &Namespace, sender: Option<usize>) -> Result<(), TestbedError> {
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
        .map_err(sysctl_error)?;
        let device = if sender.is_some() { "tx0" } else { RECEIVER_DEVICE };
        let mut batch = format!("link set lo up\nlink set {device} address {} up\n", mac(sender));
        for ipv6 in [false, true] {
            let me = Self::address(sender, ipv6);
            let options = if ipv6 { "nodad noprefixroute" } else { "noprefixroute" };
            batch += &format!("addr add {me}/{} dev {device} {options}\n", if ipv6 { 64 } else { 16 });
            let peers: Vec<Option<usize>> =
                if sender.is_some() { vec![None] } else { (0..self.spec.hosts).map(Some).collect() };
            for peer in peers {
                let address = Self::address(peer, ipv6);
                batch += &format!("neigh replace {address} lladdr {SWITCH_MAC} dev {device} nud permanent\n");
                batch += &format!("route replace {address} dev {device}{}\n", self.route_options(sender.is_some()));
            }
        }
        ip_batch(Some(host), &batch)?;
        if sender.is_none() {
            steer(host, device);
        }
        self.set_offloads(host, &[device.to_owned()])
    }

    fn route_options(&self, at_sender: bool) -> String {
        let mut options = String::new();
        if at_sender {
            if let Some(t) = self.spec.rto_min {
                options += &format!(" rto_min {}ms", t.as_millis());
            }
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

    fn shape(&self, verb: &str, limit: u64) -> Result<(), TestbedError> {
        let switch = self.switch();
        let (rate, burst, limit) = (format!("{}bit", self.spec.rate), self.spec.burst.to_string(), limit.to_string());
        let overhead = WIRE_OVERHEAD.to_string();
        tc(&[
            "-n",
            switch.name(),
            "qdisc",
            verb,
            "dev",
            BOTTLENECK,
            "root",
            "handle",
            "1:",
            "tbf",
            "rate",
            &rate,
            "burst",
            &burst,
            "limit",
            &limit,
            "overhead",
            &overhead,
        ])?;
        Ok(())
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
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

/// What the tbf's payload ceiling is at this rate, in megabits per second: the share of payload in a full frame with
/// preamble and gap, for segments with timestamps.
#[must_use]
pub fn framing_limit_mbps(rate: u64, ipv6: bool, mss: Option<u32>) -> f64 {
    let headers = if ipv6 { 40 } else { 20 } + 20;
    let segment = mss.map_or(1500 - headers, u64::from).min(1500 - headers);
    let payload = segment.saturating_sub(12);
    rate as f64 / 1e6 * payload as f64 / (segment + headers + 14 + WIRE_OVERHEAD) as f64
}

/// Has the receiver's frames processed on the last processor. Left to itself, a frame is received on the processor that sent
/// it, so that senders could not outrun the port: each would first do the receiver's work.
fn steer(host: &Namespace, device: &str) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus > 1 {
        let queue = format!("/sys/class/net/{device}/queues/rx-0/rps_cpus");
        // A kernel without receive packet steering does without.
        let _ = run("ip", &["netns", "exec", host.name(), "tee", &queue], &cpu_mask(cpus - 1));
    }
}

/// One processor as the kernel writes sets of them: hexadecimal words of 32 bits, the highest first.
fn cpu_mask(cpu: usize) -> String {
    format!("{:x}{}", 1u32 << (cpu % 32), ",00000000".repeat(cpu / 32))
}

fn mac(sender: Option<usize>) -> String {
    sender.map_or_else(|| "02:ac:00:00:00:01".into(), |k| format!("02:ac:00:01:{:02x}:{:02x}", k / 256, k % 256))
}

fn sysctl_error(source: io::Error) -> TestbedError {
    TestbedError::Io { what: "setting up a namespace".into(), source }
}

/// Whether this process may build namespaces.
///
/// # Errors
/// [`TestbedError::Privilege`] when it may not.
pub fn require_privilege() -> Result<(), TestbedError> {
    // CAP_NET_ADMIN is bit 12, CAP_SYS_ADMIN bit 21 (include/uapi/linux/capability.h).
    const NEED: u64 = 1 << 12 | 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:")).map(str::trim);
    match effective.and_then(|hex| u64::from_str_radix(hex, 16).ok()) {
        Some(caps) if caps & NEED == NEED => Ok(()),
        _ => Err(TestbedError::Privilege),
    }
}

fn ip(arguments: &[&str]) -> Result<String, TestbedError> {
    run("ip", arguments, "")
}

fn ip_batch(inside: Option<&Namespace>, lines: &str) -> Result<String, TestbedError> {
    match inside {
        Some(namespace) => run("ip", &["-n", namespace.name(), "-batch", "-"], lines),
        None => run("ip", &["-batch", "-"], lines),
    }
}

fn tc(arguments: &[&str]) -> Result<String, TestbedError> {
    run("tc", arguments, "")
}

fn run(program: &'static str, arguments: &[&str], input: &str) -> Result<String, TestbedError> {
    let told = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => TestbedError::Missing(program),
        _ => TestbedError::Io { what: format!("running {program}"), source },
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(told)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early tells why on its standard error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(told)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(TestbedError::Command {
        command: format!("{program} {}", arguments.join(" ")),
        message: String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "),
    })
}

fn parse_port_stats(json: &str) -> Option<PortStats> {
    let qdiscs: serde_json::Value = serde_json::from_str(json).ok()?;
    let root = qdiscs.as_array()?.iter().find(|q| q["kind"] == "tbf")?;
    Some(PortStats {
        packets: root["packets"].as_u64()?,
        bytes: root["bytes"].as_u64()?,
        drops: root["drops"].as_u64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabit_carries_941_megabits_of_payload() {
        assert!((framing_limit_mbps(1_000_000_000, false, None) - 941.48).abs() < 0.01);
        assert!((framing_limit_mbps(1_000_000_000, true, None) - 928.48).abs() < 0.01);
        assert!(framing_limit_mbps(1_000_000_000, false, Some(576)) < 880.0);
    }

    #[test]
    fn processors_as_the_kernel_writes_them() {
        assert_eq!((cpu_mask(0), cpu_mask(5)), ("1".into(), "20".into()));
        assert_eq!(cpu_mask(33), "2,00000000");
    }

    #[test]
    fn tc_is_understood() {
        let json = r#"[{"kind":"tbf","handle":"1:","root":true,"options":{"rate":125000000},"bytes":2996,"packets":2,
            "drops":7,"overlimits":0,"requeues":0,"backlog":0,"qlen":0}]"#;
        assert_eq!(parse_port_stats(json), Some(PortStats { packets: 2, bytes: 2996, drops: 7 }));
        assert_eq!(parse_port_stats("[]"), None);
        assert_eq!(parse_port_stats("no json"), None);
    }

    #[test]
    fn senseless_testbeds_are_refused_before_anything_is_made() {
        let base = Spec::pac_edge();
        for bad in [
            Spec { hosts: 0, ..base.clone() },
            Spec { hosts: MAX_HOSTS + 1, ..base.clone() },
            Spec { rate: 1, ..base.clone() },
            Spec { buffer: 1500, ..base.clone() },
            Spec { burst: 0, ..base.clone() },
            Spec { initial_window: Some(0), ..base.clone() },
            Spec { rto_min: Some(Duration::ZERO), ..base.clone() },
        ] {
            assert!(matches!(bad.check(), Err(TestbedError::Config(_))), "{bad:?}");
        }
    }

    #[test]
    fn hosts_have_addresses_and_hardware_addresses_of_their_own() {
        let mut seen = std::collections::HashSet::new();
        for k in 0..MAX_HOSTS {
            assert!(seen.insert(Testbed::sender_address(k, false).to_string()));
            assert!(seen.insert(Testbed::sender_address(k, true).to_string()));
            assert!(seen.insert(mac(Some(k))));
        }
    }
}
