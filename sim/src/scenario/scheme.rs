//! Which scheme guards the receiver, and with what parameters.

use ackgate_control::units::Span;
use serde::Deserialize;

use super::human;

/// A scheme by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// No guard: plain TCP.
    #[default]
    None,
    /// Proactive ACK Control, as published, in the receivers' shim slot.
    Pac,
}

impl Scheme {
    /// The name as scenario files and reports have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pac => "pac",
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
    /// Longest time that an ACK is held.
    #[serde(deserialize_with = "human::span")]
    pub max_hold: Span,
    /// Where the receiver learns the flows' RTT from (PAC §IV-A).
    pub rtt: RttSource,
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
            max_hold: Span::millis(100),
            rtt: RttSource::Handshake,
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
