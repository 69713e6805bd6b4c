//! What a watch has seen, all in all, and what it says about guarding.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ackgate_control::units::Span;
use serde::Serialize;

use super::bursts::{Burst, Detector};
use super::{Bin, Connection};

/// Bursts, peers and ports that a report names.
const NAMED: usize = 10;
/// Senders at once from which loss is incast and not a single greedy flow.
const MANY: u64 = 8;
/// Of the bytes that arrived, the part that must have been lost before it matters: one in ten thousand.
const LOSS_THAT_MATTERS: u64 = 10_000;

/// Sums over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sums {
    /// Wire bytes that arrived.
    pub bytes: u64,
    /// Frames that arrived.
    pub frames: u64,
    /// Frames marked CE.
    pub marked: u64,
    /// Payload bytes that arrived late because they had been lost.
    pub retransmitted_bytes: u64,
    /// Payload bytes that arrived late because others had overtaken them.
    pub out_of_order_bytes: u64,
    /// Senders that came back after a silence as after a retransmission timeout.
    pub stalls: u64,
    /// Most connections that data arrived on within one bin.
    pub peak_senders: u64,
    /// Most that arrived within one bin, Mb/s.
    pub peak_mbps: f64,
}

impl Sums {
    /// Adds a bin of that width.
    pub fn add(&mut self, bin: &Bin, width: Span) {
        self.bytes += bin.bytes;
        self.frames += bin.frames;
        self.marked += bin.marked;
        self.retransmitted_bytes += bin.retransmitted_bytes;
        self.out_of_order_bytes += bin.out_of_order_bytes;
        self.stalls += bin.stalls;
        self.peak_senders = self.peak_senders.max(bin.senders);
        self.peak_mbps = self.peak_mbps.max(bin.bytes as f64 * 8000.0 / width.0 as f64);
    }
}

/// A host that sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Its connections.
    pub connections: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Payload bytes that had been lost.
    pub retransmitted_bytes: u64,
    /// Its stalls.
    pub stalls: u64,
}

/// A port that many connections share: a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Service {
    /// The port.
    pub port: u16,
    /// Whether it is the senders' port, which the receiver has asked, or the receiver's own.
    pub remote: bool,
    /// Connections.
    pub connections: u64,
    /// Payload bytes.
    pub bytes: u64,
}

/// All that was seen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// For how long, s.
    pub seconds: f64,
    /// Sums over that time.
    #[serde(flatten)]
    pub sums: Sums,
    /// Bursts.
    pub bursts: u64,
    /// Of these, bursts that lost something.
    pub lossy_bursts: u64,
    /// The worst bursts: most stalls, then most lost, then most senders.
    pub worst: Vec<Burst>,
    /// The hosts that sent most.
    pub peers: Vec<Peer>,
    /// The services that sent most.
    pub services: Vec<Service>,
    /// Whether a guard would help, and with which setting, in one sentence.
    pub advice: String,
}

/// Collects bins and bursts.
#[derive(Debug)]
pub struct Reporter {
    width: Span,
    rate_mbps: Option<u64>,
    detector: Detector,
    bins: u64,
    sums: Sums,
    bursts: u64,
    lossy: u64,
    /// Most senders of a burst that lost something.
    lossy_senders: u64,
    worst: Vec<Burst>,
}

impl Reporter {
    /// For bins of this width, on a link of this rate where it is known.
    #[must_use]
    pub fn new(width: Span, rate_mbps: Option<u64>) -> Self {
        Self {
            width,
            rate_mbps,
            detector: Detector::new(width, rate_mbps),
            bins: 0,
            sums: Sums::default(),
            bursts: 0,
            lossy: 0,
            lossy_senders: 0,
            worst: Vec::new(),
        }
    }

    /// The next bin; returns a burst of which all is known.
    pub fn push(&mut self, bin: &Bin) -> Option<Burst> {
        self.bins += 1;
        self.sums.add(bin, self.width);
        let burst = self.detector.push(bin)?;
        self.note(&burst);
        Some(burst)
    }

    fn note(&mut self, burst: &Burst) {
        self.bursts += 1;
        if burst.lost() {
            self.lossy += 1;
            self.lossy_senders = self.lossy_senders.max(burst.peak_senders);
        }
        let badness = |burst: &Burst| (burst.stalls, burst.retransmitted_bytes, burst.peak_senders);
        let at = self.worst.partition_point(|other| badness(other) >= badness(burst));
        if at < NAMED {
            self.worst.insert(at, burst.clone());
            self.worst.truncate(NAMED);
        }
    }

    /// Sums up. `device` is named in the advice.
    #[must_use]
    pub fn finish(mut self, connections: &[Connection], device: &str) -> Report {
        for burst in self.detector.finish() {
            self.note(&burst);
        }
        Report {
            seconds: (self.bins * self.width.0) as f64 / 1e9,
            sums: self.sums,
            bursts: self.bursts,
            lossy_bursts: self.lossy,
            peers: peers(connections),
            services: services(connections),
            advice: self.advise(device),
            worst: self.worst,
        }
    }

    fn advise(&self, device: &str) -> String {
        let Self { sums, bursts, lossy, lossy_senders, .. } = self;
        let Sums { bytes, retransmitted_bytes, stalls, peak_senders, .. } = sums;
        let rate = self.rate_mbps.map_or_else(String::new, |rate| format!(" --rate {rate}mbit"));
        let command = format!("`ackgate run --dev {device}{rate}`");
        let loses = *stalls > 0 || retransmitted_bytes * LOSS_THAT_MATTERS > *bytes;
        if *bytes == 0 {
            "nothing can be said: nothing arrived".into()
        } else if loses && *lossy_senders >= MANY {
            format!(
                "this is incast, and a guard would help: {lossy} of {bursts} bursts, of up to {lossy_senders} senders at once, \
                 lost {retransmitted_bytes} bytes and made senders wait for {stalls} timeouts; try {command}, or look first \
                 with --observe"
            )
        } else if loses {
            format!(
                "{retransmitted_bytes} bytes were lost and senders waited for {stalls} timeouts, but not by incast: no more than \
                 {lossy_senders} senders were active when it happened; a guard would hardly help"
            )
        } else if *peak_senders >= MANY {
            format!(
                "no guard is needed now: up to {peak_senders} senders were active at once, and the port's buffer took it without \
                 loss worth mentioning"
            )
        } else {
            format!("no guard is needed: no more than {peak_senders} senders were active at once, and nothing was lost")
        }
    }
}

fn peers(connections: &[Connection]) -> Vec<Peer> {
    let mut peers = BTreeMap::<IpAddr, Peer>::new();
    for connection in connections {
        let peer = peers.entry(connection.remote).or_insert(Peer {
            address: connection.remote,
            connections: 0,
            bytes: 0,
            retransmitted_bytes: 0,
            stalls: 0,
        });
        peer.connections += 1;
        peer.bytes += connection.bytes;
        peer.retransmitted_bytes += connection.retransmitted_bytes;
        peer.stalls += connection.stalls;
    }
    let mut peers: Vec<Peer> = peers.into_values().collect();
    peers.sort_by_key(|peer| std::cmp::Reverse(peer.bytes));
    peers.truncate(NAMED);
    peers
}

/// Of a connection's two ports the one that more connections share is the service's.
fn services(connections: &[Connection]) -> Vec<Service> {
    let mut shared = BTreeMap::<(bool, u16), u64>::new();
    for connection in connections {
        *shared.entry((true, connection.remote_port)).or_default() += 1;
        *shared.entry((false, connection.local_port)).or_default() += 1;
    }
    let mut services = BTreeMap::<(bool, u16), Service>::new();
    for connection in connections {
        let (remote, local) = ((true, connection.remote_port), (false, connection.local_port));
        let key = if shared[&remote] >= shared[&local] { remote } else { local };
        let new = Service { port: key.1, remote: key.0, connections: 0, bytes: 0 };
        let service = services.entry(key).or_insert(new);
        service.connections += 1;
        service.bytes += connection.bytes;
    }
    let mut services: Vec<Service> = services.into_values().collect();
    services.sort_by_key(|service| std::cmp::Reverse(service.bytes));
    services.truncate(NAMED);
    services
}

#[cfg(test)]
mod tests {
    use ackgate_control::units::Time;

    use super::*;

    fn advice(senders: u64, retransmitted_bytes: u64, stalls: u64) -> String {
        let mut reporter = Reporter::new(Span::millis(1), Some(100));
        let full = Bin { bytes: 12_500, senders, ..Bin::default() };
        for number in 0..10 {
            let loss = if number == 9 { (retransmitted_bytes, stalls) } else { (0, 0) };
            let _ = reporter.push(&Bin { number, retransmitted_bytes: loss.0, stalls: loss.1, ..full });
        }
        reporter.finish(&[], "eth0").advice
    }

    #[test]
    fn loss_and_the_senders_at_that_time_decide() {
        assert!(advice(64, 5000, 3).contains("this is incast"));
        assert!(advice(64, 5000, 3).contains("`ackgate run --dev eth0 --rate 100mbit`"));
        assert!(advice(2, 5000, 3).contains("not by incast"));
        assert!(advice(64, 0, 0).contains("no guard is needed now"));
        assert!(advice(2, 0, 0).contains("no more than 2 senders"));
        assert!(Reporter::new(Span::millis(1), None).finish(&[], "eth0").advice.contains("nothing arrived"));
    }

    #[test]
    fn the_port_that_connections_share_is_the_services() {
        let connection = |remote: &str, remote_port, local_port, bytes| Connection {
            local: "10.0.0.1".parse().unwrap(),
            local_port,
            remote: remote.parse().unwrap(),
            remote_port,
            last: Time::ZERO,
            bytes,
            retransmitted_bytes: 1,
            stalls: 0,
        };
        let connections = [
            connection("10.0.0.2", 5001, 40_000, 10),
            connection("10.0.0.2", 5001, 40_001, 20),
            connection("10.0.0.3", 5001, 40_002, 40),
            connection("10.0.0.4", 50_000, 443, 5),
            connection("10.0.0.4", 50_001, 443, 5),
        ];
        let found = services(&connections);
        let told: Vec<_> = found.iter().map(|service| (service.port, service.remote, service.connections)).collect();
        assert_eq!(told, [(5001, true, 3), (443, false, 2)]);
        let found = peers(&connections);
        assert_eq!((found[0].address, found[0].bytes), ("10.0.0.3".parse().unwrap(), 40));
        assert_eq!((found[1].connections, found[1].retransmitted_bytes), (2, 2));
    }
}
