//! Which scheme guards the receiver, and with what parameters.

use ackgate_control::units::{Rate, Span};
use serde::Deserialize;

use super::human;
use super::switch::Capacity;

/// A scheme by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// No guard: plain TCP.
    #[default]
    None,
    /// Proactive ACK Control, as published, in the receivers' shim slot.
    Pac,
    /// PAC without the gating of requests: what the paper describes. Parameters are PAC's.
    PacPublished,
    /// PAC to the letter: Algorithm 1 and Eq. 2 to 6, without what the other forms add. Of PAC's parameters it takes
    /// `threshold`, `lambda` and `demote_at`.
    PacLetter,
    /// PAC's gate with exact credit: charges are moves of the advertised right edge, windows are lowered. Parameters are
    /// PAC's.
    Credit,
    /// The window half of exact credit alone: nothing is held.
    WindowOnly,
    /// The gating of requests and handshakes alone: ACKs are charged, but never held.
    RequestsOnly,
    /// ICTCP in the receivers' shim slot: receive windows by available bandwidth.
    Ictcp,
    /// A constant-rate ACK shaper in the receivers' shim slot (PAC §II-D).
    Shaper,
    /// M21TCP-A: switches count flows, senders cap their windows.
    M21,
    /// HWatch in the shim slots of senders and receivers.
    Hwatch,
    /// Senders run DCTCP, switches mark above a threshold.
    Dctcp,
    /// Switches run RED and mark, senders react as RFC 3168 has it ("ECNTCP").
    Ecn,
    /// Switches run RED and drop.
    Red,
    /// Congestion windows are pinned (PAC §II-B).
    FixedWindow,
}

impl Scheme {
    /// All schemes, in the order of their papers.
    pub const ALL: [Self; 15] = [
        Self::None,
        Self::Pac,
        Self::PacPublished,
        Self::PacLetter,
        Self::Credit,
        Self::WindowOnly,
        Self::RequestsOnly,
        Self::Ictcp,
        Self::Shaper,
        Self::M21,
        Self::Hwatch,
        Self::Dctcp,
        Self::Ecn,
        Self::Red,
        Self::FixedWindow,
    ];

    /// The name as scenario files and reports have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pac => "pac",
            Self::PacPublished => "pac-published",
            Self::PacLetter => "pac-letter",
            Self::Credit => "credit",
            Self::WindowOnly => "window-only",
            Self::RequestsOnly => "requests-only",
            Self::Ictcp => "ictcp",
            Self::Shaper => "shaper",
            Self::M21 => "m21",
            Self::Hwatch => "hwatch",
            Self::Dctcp => "dctcp",
            Self::Ecn => "ecn",
            Self::Red => "red",
            Self::FixedWindow => "fixed-window",
        }
    }
}

/// PAC's parameters; defaults are Table I and II of the paper and the project's decisions on what it leaves open.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pac {
    /// Initial threshold and its upper bound (PAC §III-B); the switch port's buffer when absent.
    #[serde(deserialize_with = "human::some_bytes")]
    pub threshold: Option<u64>,
    /// Throughput fraction that counts as no longer growing (PAC §III-C, Table I), in (0, 1).
    pub lambda: f64,
    /// Priority levels of the ACK queue (PAC §III-D, Table I), at least 1.
    pub levels: u8,
    /// Flow size at which a flow's ACKs move one level down (PAC Table I).
    #[serde(deserialize_with = "human::bytes")]
    pub demote_at: u64,
    /// Rate of the link that the guard is told; the receiver's when absent. An interface may say more than what lies behind it carries.
    #[serde(deserialize_with = "human::some_rate")]
    pub rate: Option<Rate>,
    /// Longest time that an ACK is held; 150 ms when absent.
    #[serde(deserialize_with = "human::some_span")]
    pub max_hold: Option<Span>,
    /// Where the receiver learns the flows' RTT from (PAC §IV-A).
    pub rtt: RttSource,
    /// Whether the budget is searched for, with the threshold as its cap, instead of given.
    pub auto: bool,
    /// Whether exact credit thins ACKs: omits those that the next one covers.
    pub thin_acks: bool,
    /// Segments that a new connection's sender is expected to send at once; `tcp.initial_window` when absent.
    pub initial_window: Option<u32>,
}

impl Default for Pac {
    fn default() -> Self {
        Self {
            threshold: None,
            lambda: 0.8,
            levels: 2,
            demote_at: 20_000,
            rate: None,
            max_hold: None,
            rtt: RttSource::Handshake,
            auto: false,
            thin_acks: true,
            initial_window: None,
        }
    }
}

/// How a receiver measures RTT (PAC §IV-A).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RttSource {
    /// The handshake's sample plus the delay that PAC itself adds; PAC's default.
    Handshake,
    /// The timestamps option; needs `tcp.timestamps`.
    Timestamps,
}

/// ICTCP's parameters; defaults are the published ones.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ictcp {
    /// Capacity of the receiver's interface; `network.rate` when absent.
    #[serde(deserialize_with = "human::some_rate")]
    pub rate: Option<Rate>,
    /// Share of the capacity that is to be used, in (0, 1].
    pub headroom: f64,
    /// Weight of the past in the measured throughput, in [0, 1).
    pub history: f64,
    /// gamma1: below, the window is what limits a connection.
    pub gamma1: f64,
    /// gamma2: above, the window is wasted on a connection. PAC Table I: 0.5; Table II (ns-2): 0.15.
    pub gamma2: f64,
    /// Least window, and that of a new connection, in segments.
    pub min_window: u32,
    /// Windows above the mean shrink while less than this share of the capacity is available, 0 to 1.
    pub fairness: f64,
    /// A connection silent for this long starts anew.
    #[serde(deserialize_with = "human::span")]
    pub idle: Span,
}

impl Default for Ictcp {
    fn default() -> Self {
        Self {
            rate: None,
            headroom: 0.9,
            history: 0.75,
            gamma1: 0.1,
            gamma2: 0.5,
            min_window: 2,
            fairness: 0.2,
            idle: Span::millis(200),
        }
    }
}

/// The ACK shaper's parameters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shaper {
    /// ACKs per second (PAC §II-D: 40 000, 60 000 and 80 000).
    pub rate: u32,
    /// Most ACKs held at once; beyond, they pass. At most one second's.
    pub queue: u32,
}

impl Default for Shaper {
    fn default() -> Self {
        Self { rate: 60_000, queue: 4_096 }
    }
}

/// M21TCP-A's parameters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct M21 {
    /// B of Eq. 1, what senders are told of the switch port's buffer; `switch.buffer` when absent.
    #[serde(deserialize_with = "human::some_bytes")]
    pub buffer: Option<u64>,
    /// MHS of Eq. 1, bytes.
    pub header: u32,
    /// Silence after which a flow no longer counts; `"off"` for the paper's list, which only grows.
    #[serde(deserialize_with = "human::span_or_off")]
    pub expiry: Option<Span>,
    /// Flows that a port remembers at most.
    pub flows: u32,
    /// Which header carries the number of senders.
    pub field: HeaderField,
    /// Whether a window that is above a new cap is cut to it at once; else it only does not grow.
    pub cut: bool,
}

impl Default for M21 {
    fn default() -> Self {
        Self {
            buffer: None,
            header: 42,
            expiry: Some(Span::secs(1)),
            flows: 65_536,
            field: HeaderField::Tcp,
            cut: true,
        }
    }
}

/// Where M21TCP-A's number of senders stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeaderField {
    /// An IP option of 4 bytes.
    Ip,
    /// A TCP option of 8 bytes.
    #[default]
    Tcp,
}

/// HWatch's parameters; defaults are the paper's (§IV, §V).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hwatch {
    /// Probes before each SYN, 1 to 100; the senders' initial window in segments.
    pub probes: u32,
    /// Time over which they are sent; half of `network.rtt` when absent.
    #[serde(deserialize_with = "human::some_span")]
    pub probe_span: Option<Span>,
    /// Rate at which the token bucket of SYN-ACKs fills; `network.rate` when absent.
    #[serde(deserialize_with = "human::some_rate")]
    pub rate: Option<Rate>,
    /// Time in which a full bucket is received; half of `network.rtt` when absent.
    #[serde(deserialize_with = "human::some_span")]
    pub drain: Option<Span>,
    /// Time over which SYN-ACKs of connections whose probes were all marked are spread; twice `network.rtt` when
    /// absent.
    #[serde(deserialize_with = "human::some_span")]
    pub spread: Option<Span>,
    /// Longest time that a SYN-ACK is held.
    #[serde(deserialize_with = "human::span")]
    pub max_hold: Span,
    /// Least window in segments.
    pub min_window: u32,
    /// Whether a round with marks halves a long flow's window; else only half of what was marked is taken off it.
    pub halve: bool,
}

impl Default for Hwatch {
    fn default() -> Self {
        Self {
            probes: 10,
            probe_span: None,
            rate: None,
            drain: None,
            spread: None,
            max_hold: Span::millis(100),
            min_window: 1,
            halve: false,
        }
    }
}

/// What [`Scheme::Dctcp`] sets; the rest stands in `tcp`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dctcp {
    /// K: an arriving ECN-capable frame is marked when the queue before it is larger. PAC Table II: 10 packets at
    /// 1 Gb/s, 65 at 10 Gb/s.
    pub mark_above: Capacity,
    /// Whether SYN and SYN-ACK are ECN-capable too (ECN+, as in PAC's runs).
    pub ecn_syn: bool,
}

impl Default for Dctcp {
    fn default() -> Self {
        Self { mark_above: Capacity::Packets(10), ecn_syn: true }
    }
}

/// What [`Scheme::FixedWindow`] sets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FixedWindow {
    /// Congestion window of every sender, in segments.
    pub segments: u32,
}

impl Default for FixedWindow {
    fn default() -> Self {
        Self { segments: 1 }
    }
}
