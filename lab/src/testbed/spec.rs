//! What a testbed is built from, and what makes no sense.

use std::borrow::Cow;
use std::time::Duration;

use super::tools::TestbedError;

/// Most sender namespaces.
pub const MAX_HOSTS: usize = 512;

/// A buffer in which nothing is lost, for measuring the ceiling, in bytes.
pub(super) const DEEP_BUFFER: u64 = 256 << 20;

/// Longest base round-trip time.
const LONGEST_RTT: Duration = Duration::from_secs(10);

/// Most racks of senders.
const MAX_RACKS: usize = 64;

/// The network between the senders and the receiver. Its bottleneck is the port of the switch nearest to the senders that all their
/// data passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// One switch: the bottleneck is its port to the receiver (PAC Fig. 5).
    Edge,
    /// Two switches, the receiver and another host behind the second: the bottleneck is their link (PAC Fig. 6).
    Core,
    /// A leaf-spine with one spine: racks of senders, and the rack of the receiver and another host. The bottleneck is the spine's
    /// link to that rack, and the others' links to the spine have its rate, buffer and marking (HWatch, §VI).
    LeafSpine {
        /// Racks of senders, 1 to 64. Host `k` is in rack `k % racks`.
        racks: usize,
    },
}

impl Fabric {
    /// Racks of senders; none where all are at the switch itself.
    #[must_use]
    pub const fn racks(self) -> usize {
        match self {
            Self::Edge | Self::Core => 0,
            Self::LeafSpine { racks } => racks,
        }
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
    /// What guards are told of it; as it is where `None`.
    pub told: Option<u64>,
    /// Whether the port has that rate and buffer. Without a limit it forwards as fast as the machine does, and rate and
    /// buffer are only what a guard is told.
    pub limited: bool,
    /// Bytes of frames that the port may send at once.
    pub burst: u64,
    /// Leaves TSO, GSO and GRO on.
    pub offloads: bool,
    /// Floor of the senders' retransmission timeout; `None` keeps the kernel's (200 ms).
    pub rto_min: Option<Duration>,
    /// The same at the receiver, whose requests it repeats.
    pub receiver_rto_min: Option<Duration>,
    /// Senders' initial window in segments; `None` keeps the kernel's (10).
    pub initial_window: Option<u32>,
    /// Lets the receiver delay its ACKs as the kernel likes; otherwise every segment is acknowledged at once, as in the
    /// papers.
    pub delayed_ack: bool,
    /// Congestion control of the lab's own senders, where what is measured does not say otherwise.
    pub cc: Cow<'static, str>,
    /// Hosts negotiate ECN.
    pub ecn: bool,
    /// The port marks ECN-capable frames that find more than this many bytes queued.
    pub mark: Option<u32>,
    /// Base round-trip time of each sender host; empty where none has one.
    pub rtts: Vec<Duration>,
    /// The network between the hosts.
    pub fabric: Fabric,
}

impl Spec {
    /// Base round-trip time of a host.
    #[must_use]
    pub fn rtt(&self, host: usize) -> Duration {
        self.rtts.get(host).copied().unwrap_or_default()
    }

    /// A burst that the timers of a small virtual machine can keep up with: 64 us at `rate`, two full frames at least.
    #[must_use]
    pub const fn burst_for(rate: u64) -> u64 {
        let bytes = rate / 8 * 64 / 1_000_000;
        if bytes < 3_076 { 3_076 } else { bytes }
    }

    /// Where DCTCP's authors mark at 1 Gb/s: 20 frames (Alizadeh et al., §3.4).
    pub const USUAL_MARK: u32 = 30_000;

    /// Where the port marks unless it is said: there, or at a third of a smaller buffer.
    #[must_use]
    pub fn usual_mark(&self) -> u32 {
        Self::USUAL_MARK.min(u32::try_from(self.buffer / 3).unwrap_or(u32::MAX))
    }

    /// PAC's testbed in small: 8 sender hosts, 1 Gb/s, 96 KB (Table II), no delayed ACK.
    #[must_use]
    pub const fn pac_edge() -> Self {
        Self {
            hosts: 8,
            rate: 1_000_000_000,
            buffer: 96_000,
            told: None,
            limited: true,
            burst: Self::burst_for(1_000_000_000),
            offloads: false,
            rto_min: None,
            receiver_rto_min: None,
            initial_window: None,
            delayed_ack: false,
            cc: Cow::Borrowed("cubic"),
            ecn: false,
            mark: None,
            rtts: Vec::new(),
            fabric: Fabric::Edge,
        }
    }

    pub(super) fn check(&self) -> Result<(), TestbedError> {
        let complain = |text: String| Err(TestbedError::Config(text));
        if !(1..=MAX_HOSTS).contains(&self.hosts) {
            return complain(format!("{} sender hosts: the lab builds 1 to {MAX_HOSTS}", self.hosts));
        }
        let racks = self.fabric.racks();
        if matches!(self.fabric, Fabric::LeafSpine { .. }) && !(1..=MAX_RACKS.min(self.hosts)).contains(&racks) {
            return complain(format!(
                "{racks} racks for {} sender hosts: give 1 to {MAX_RACKS} racks, with a host in each at least",
                self.hosts
            ));
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
        if self.mark.is_some_and(|mark| u64::from(mark) >= self.buffer) {
            return complain(format!(
                "marking above a full buffer of {} bytes marks nothing: mark below it",
                self.buffer
            ));
        }
        if self.initial_window.is_some_and(|w| !(1..=1000).contains(&w)) {
            return complain("an initial window has 1 to 1000 segments".into());
        }
        if self.mark.is_some() && !self.limited {
            return complain("a port without a limit has no queue to mark by: give it a rate".into());
        }
        if !self.rtts.is_empty() && self.rtts.len() != self.hosts {
            return complain(format!(
                "{} base round-trip times for {} sender hosts: give each host one",
                self.rtts.len(),
                self.hosts
            ));
        }
        if let Some(rtt) = self.rtts.iter().find(|rtt| **rtt > LONGEST_RTT) {
            return complain(format!(
                "a base round-trip time of {rtt:?}: the lab's delay line holds frames for at most 10s"
            ));
        }
        let sensible = Duration::from_millis(1)..=Duration::from_secs(120);
        if [self.rto_min, self.receiver_rto_min].into_iter().flatten().any(|t| !sensible.contains(&t)) {
            return complain("the floor of the retransmission timeout is 1ms to 120s".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senseless_testbeds_are_refused_before_anything_is_made() {
        let base = Spec::pac_edge();
        for bad in [
            Spec { hosts: 0, ..base.clone() },
            Spec { hosts: MAX_HOSTS + 1, ..base.clone() },
            Spec { rate: 1, ..base.clone() },
            Spec { buffer: 1500, ..base.clone() },
            Spec { burst: 0, ..base.clone() },
            Spec { mark: Some(96_000), ..base.clone() },
            Spec { initial_window: Some(0), ..base.clone() },
            Spec { rto_min: Some(Duration::ZERO), ..base.clone() },
            Spec { receiver_rto_min: Some(Duration::from_secs(121)), ..base.clone() },
            Spec { rtts: vec![Duration::ZERO; 7], ..base.clone() },
            Spec { rtts: vec![Duration::from_secs(11); 8], ..base.clone() },
            Spec { limited: false, mark: Some(30_000), ..base.clone() },
            Spec { fabric: Fabric::LeafSpine { racks: 0 }, ..base.clone() },
            Spec { fabric: Fabric::LeafSpine { racks: 9 }, ..base.clone() },
        ] {
            assert!(matches!(bad.check(), Err(TestbedError::Config(_))), "{bad:?}");
        }
    }
}
