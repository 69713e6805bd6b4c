//! The shape of the network: switches, links, and where senders and receiver are attached.

use ackgate_control::units::{Rate, Span};
use serde::Deserialize;

use super::{Capacity, human};

/// Links: shape, rates, delays, framing.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// How switches are joined and where the hosts are.
    pub topology: Topology,
    /// Rate of the receivers' links, and of every other link that does not have its own.
    #[serde(deserialize_with = "human::rate")]
    pub rate: Rate,
    /// Rate of the senders' links; as `rate` when absent.
    #[serde(deserialize_with = "human::some_rate")]
    pub sender_rate: Option<Rate>,
    /// Rate of the links between switches; as `rate` when absent.
    #[serde(deserialize_with = "human::some_rate")]
    pub core_rate: Option<Rate>,
    /// Base round-trip time on the longest sender-receiver path: propagation alone, no serialisation, no host
    /// processing. Every link of the network gets the same one-way delay, `rtt` / (2 x links of that path).
    #[serde(deserialize_with = "human::span")]
    pub rtt: Span,
    /// Bytes that a frame has around the IP packet.
    pub framing: Framing,
    /// Hosts that the senders live on, dealt round robin; one host for each sender when absent.
    pub sender_hosts: Option<u32>,
    /// Share of the packets that come late to their host, so that others overtake them, as where switches spread packets over
    /// several ways. 0 to 1.
    pub reorder: f64,
    /// How late these are: uniformly random, at most this.
    #[serde(deserialize_with = "human::span")]
    pub detour: Span,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            topology: Topology::Star,
            rate: Rate(1_000_000_000),
            sender_rate: None,
            core_rate: None,
            rtt: Span::micros(120),
            framing: Framing::Ethernet,
            sender_hosts: None,
            reorder: 0.0,
            detour: Span::ZERO,
        }
    }
}

/// What becomes of the network while a scenario runs: a link of a bundle fails, a route changes, a guest moves.
#[derive(Clone, Debug, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Change {
    /// When, from the begin of the run on.
    #[serde(deserialize_with = "human::span")]
    pub at: Span,
    /// Rate of the receivers' links from then on, both ways. What waits for such a link already keeps its time.
    #[serde(deserialize_with = "human::some_rate")]
    pub rate: Option<Rate>,
    /// Base round-trip time from then on; paths with one of their own change by the same factor.
    #[serde(deserialize_with = "human::some_span")]
    pub rtt: Option<Span>,
    /// What one port of a switch holds from then on. Frames that are beyond it already are sent all the same.
    pub buffer: Option<Capacity>,
}

/// How switches are joined and where the hosts are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// Senders and receiver on one switch: congestion at the last hop (PAC Fig. 5).
    #[default]
    Star,
    /// Senders on one switch, receivers on another; the link between is the bottleneck (PAC Fig. 6).
    Core(Core),
    /// As [`Core`], but sender *i* talks to a receiver *i* of its own (HWatch §II, §V).
    Dumbbell(Dumbbell),
    /// Two tiers, every leaf joined to every spine; connections are spread over the spines by a hash, each direction by itself (ECMP).
    LeafSpine(LeafSpine),
    /// Switches in a tree that the scenario spells out.
    Tree(Tree),
}

impl Topology {
    /// Links of the longest way from a sender to a receiver, at least 2, in a topology that makes sense.
    #[must_use]
    pub fn longest_way(&self) -> u64 {
        match self {
            Self::Star => 2,
            Self::Core(_) | Self::Dumbbell(_) => 3,
            Self::LeafSpine(_) => 4,
            Self::Tree(tree) => tree.longest_way(),
        }
    }
}

/// Parameters of [`Topology::Core`]: none so far, `network.core_rate` is the bottleneck.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Core {}

/// Parameters of [`Topology::Dumbbell`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dumbbell {
    /// Receiver hosts; sender *i* talks to receiver *i* mod this. One for each sender when absent.
    pub receivers: Option<u32>,
}

/// Parameters of [`Topology::LeafSpine`]. The receiver is on leaf 0; senders are dealt round robin over the other
/// leaves.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LeafSpine {
    /// Top-of-rack switches, at least 2.
    pub leaves: u32,
    /// Spine switches, at least 1.
    pub spines: u32,
}

impl Default for LeafSpine {
    fn default() -> Self {
        Self { leaves: 4, spines: 2 }
    }
}

/// Parameters of [`Topology::Tree`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tree {
    /// The switches: exactly one has no `uplink`, and following uplinks always ends there.
    pub switches: Vec<TreeSwitch>,
    /// Name of the switch that the receiver (and background receivers) hang on.
    pub receiver_at: String,
    /// Names of the switches that the senders hang on, dealt round robin.
    pub senders_at: Vec<String>,
}

impl Tree {
    fn longest_way(&self) -> u64 {
        let receiver = self.ancestry(&self.receiver_at);
        let way = |name: &String| {
            let sender = self.ancestry(name);
            let shared = receiver.iter().rev().zip(sender.iter().rev()).take_while(|(a, b)| a == b).count();
            (receiver.len() + sender.len() - 2 * shared) as u64 + 2
        };
        self.senders_at.iter().map(way).max().unwrap_or(2)
    }

    /// A switch and all above it.
    fn ancestry<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        let above = |name: &&'a str| self.switches.iter().find(|switch| switch.name == **name)?.uplink.as_deref();
        std::iter::successors(Some(name), above).take(self.switches.len()).collect()
    }
}

/// One switch of a [`Tree`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeSwitch {
    /// Unique name.
    pub name: String,
    /// Name of the switch above; absent for the root.
    #[serde(default)]
    pub uplink: Option<String>,
    /// Rate of the link to the switch above; `network.core_rate` when absent.
    #[serde(default, deserialize_with = "human::some_rate")]
    pub rate: Option<Rate>,
}

/// Bytes around the IP packet: which of them fill buffers, which only take time on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Framing {
    /// Ethernet as on the wire: 14 B header and 4 B FCS fill buffers, 20 B preamble and gap take time as well.
    /// 1500 B IP packets take 1538 B.
    #[default]
    Ethernet,
    /// Ethernet without preamble and gap, as many simulators count: 1518 B for 1500.
    EthernetNoGap,
    /// Two bytes, as ns-3's point-to-point device: 1502 B for 1500.
    Ppp,
    /// IP packets alone, as ns-2: 1500 B for 1500.
    Ip,
}

impl Framing {
    /// Bytes of a frame beside the IP packet that fill buffers.
    #[must_use]
    pub const fn in_buffer(self) -> u32 {
        match self {
            Self::Ethernet | Self::EthernetNoGap => 18,
            Self::Ppp => 2,
            Self::Ip => 0,
        }
    }

    /// Bytes that a frame takes on the wire beyond those that fill buffers.
    #[must_use]
    pub const fn gap(self) -> u32 {
        match self {
            Self::Ethernet => 20,
            Self::EthernetNoGap | Self::Ppp | Self::Ip => 0,
        }
    }
}
