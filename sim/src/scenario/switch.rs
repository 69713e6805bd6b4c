//! Switch ports: how much they hold and what they do as they fill.

use std::fmt;

use serde::{Deserialize, Deserializer};

use super::human;

/// Buffers and queue discipline of every port of every switch.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Switch {
    /// What one port holds at most, frames waiting behind the one on the wire.
    pub buffer: Capacity,
    /// Memory that all ports of a switch share; a port is bounded by `buffer` and by what is left of this.
    #[serde(deserialize_with = "human::some_bytes")]
    pub pool: Option<u64>,
    /// Dynamic thresholds (Choudhury and Hahne 1998): a port holds at most so many times what is left of the pool.
    pub alpha: Option<f64>,
    /// Whether the frame on the wire still fills the buffer. Real switches and ns-2 free a frame as it starts or ends
    /// its transmission; ns-3's device takes it out of its queue first.
    pub count_transmitting: bool,
    /// Ethernet flow control (IEEE 802.3x): a frame that does not fit is not dropped but waits at the far end of its link,
    /// and all frames behind it on that link with it.
    pub pause: bool,
    /// Chance that a frame is lost however full the port is: a bad cable, a radio link. 0 to 1.
    pub loss: f64,
    /// What happens to an arriving frame.
    pub discipline: Discipline,
}

impl Default for Switch {
    fn default() -> Self {
        Self {
            buffer: Capacity::Bytes(96_000),
            pool: None,
            alpha: None,
            count_transmitting: false,
            pause: false,
            loss: 0.0,
            discipline: Discipline::DropTail,
        }
    }
}

/// A bound on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// Bytes of frames, written `"96KB"`. A frame that does not fit whole is dropped.
    Bytes(u64),
    /// Frames of any size, written `"100p"`.
    Packets(u32),
    /// No bound, written `"unlimited"`.
    Unlimited,
}

impl Capacity {
    /// Whether one more frame of `frame` bytes fits beside `packets` frames of `bytes` bytes in all.
    #[must_use]
    pub const fn fits(self, bytes: u64, packets: u32, frame: u32) -> bool {
        match self {
            Self::Bytes(limit) => bytes + frame as u64 <= limit,
            Self::Packets(limit) => packets < limit,
            Self::Unlimited => true,
        }
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}B"),
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

impl<'de> Deserialize<'de> for Capacity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        human::read(from, "a size such as \"96KB\", a number of packets such as \"100p\", or \"unlimited\"", |text| {
            if text == "unlimited" {
                return Ok(Self::Unlimited);
            }
            match text.strip_suffix(['p', 'P']).map(|n| n.trim().parse()) {
                Some(Ok(packets)) => Ok(Self::Packets(packets)),
                _ => human::parse_bytes(text).map(Self::Bytes),
            }
        })
    }
}

/// What happens to a frame that arrives at a port. Whatever the discipline, a frame that does not fit is dropped.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// Queued if it fits.
    #[default]
    #[serde(rename = "droptail")]
    DropTail,
    /// Marked CE when the queue it finds is longer than a threshold: DCTCP's switch (RFC 8257 §3.1).
    Ecn(Ecn),
    /// Dropped or marked by the average queue (Floyd and Jacobson 1993).
    Red(Red),
}

/// Parameters of [`Discipline::Ecn`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ecn {
    /// K: an arriving ECN-capable frame is marked when the queue before it is larger. PAC Table II: 10 packets at
    /// 1 Gb/s, 65 at 10 Gb/s.
    pub mark_above: Capacity,
    /// Whether frames that are not ECN-capable are dropped where others are marked, as many real switches do.
    pub drop_not_capable: bool,
}

impl Default for Ecn {
    fn default() -> Self {
        Self { mark_above: Capacity::Packets(10), drop_not_capable: false }
    }
}

/// Parameters of [`Discipline::Red`]: thresholds in packets, defaults of M21TCP-A and ns-2. Equal thresholds, a weight of 1
/// and no hard drop are WRED with low = high, which marks by the instantaneous queue (HWatch §IV-E).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Red {
    /// Average queue, in packets, below which nothing is dropped.
    pub min: f64,
    /// Average queue, in packets, above which everything is dropped; at least `min`.
    pub max: f64,
    /// Drop probability as the average reaches `max`, in (0, 1].
    pub max_probability: f64,
    /// Weight of the newest sample in the average, in (0, 1].
    pub weight: f64,
    /// Whether the probability rises from `max_probability` to 1 between `max` and 2 `max` instead of at once.
    pub gentle: bool,
    /// Whether ECN-capable frames are marked between `min` and `max` instead of dropped (RFC 3168).
    pub ecn: bool,
    /// Whether they are dropped above `max` all the same (RFC 3168 §7 recommends it); else they are marked there too.
    pub hard_drop: bool,
}

impl Default for Red {
    fn default() -> Self {
        Self { min: 15.0, max: 25.0, max_probability: 0.1, weight: 0.002, gentle: false, ecn: false, hard_drop: true }
    }
}
