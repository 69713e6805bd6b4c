//! What to simulate, as plain data: the network, its hosts, their TCP, the traffic and the scheme that guards it.
//!
//! Every field has a default, and the defaults together are PAC's 1 Gb/s setting (PAC §V-E, Table II): a scenario file
//! says only what differs. Rust field names are the keys of the file. Quantities are read from human strings, see
//! [`human`].

mod check;
mod decode;
mod document;
mod error;
mod group;
pub mod human;
mod limits;
mod preset;
pub mod schema;
mod scheme;
mod switch;
mod tcp;
mod topology;
mod traffic_file;
mod warning;
mod workload;

use std::borrow::Cow;
use std::path::Path;

use ackgate_control::units::Span;
use serde::Deserialize;

pub use check::Invalid;
pub use document::{Assignment, Document};
pub use error::{Place, ScenarioError};
pub use group::{DelayedAck, Group, Party};
pub use scheme::{Dctcp, FixedWindow, HeaderField, Hwatch, Ictcp, M21, Pac, RttSource, Scheme, Shaper};
pub use switch::{Capacity, Discipline, Ecn, Red, Switch};
pub use tcp::{CongestionControl, EcnMode, RtoEstimator, RtoRandomizes, Spurious, Tcp};
pub use topology::{Change, Core, Dumbbell, Framing, LeafSpine, Network, Topology, Tree, TreeSwitch};
pub use traffic_file::parse as parse_traffic;
pub use workload::{
    Arrival, Connections, Datagrams, Destination, Direction, Epochs, Long, OnOff, Per, Rounds, Trace, Workload,
};

/// One simulation, whole: with the same scenario and seed every run gives the same result.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// Where all randomness of the run comes from: jitter, RTO randomisation, RED, arrival times, path choice.
    pub seed: u64,
    /// Connections of the main workload, all towards one receiver; the papers' x axis. At least 1. Those of groups that
    /// take part in it come on top.
    pub senders: u32,
    /// Barrier-synchronised rounds of a [`Workload::Rounds`]; other workloads do not look at it. At least 1.
    pub rounds: u32,
    /// What guards the receiver. Its parameters stand in the table of the same name.
    pub scheme: Scheme,
    /// Simulated time after which a run that has not finished by itself is ended and reported as it stands.
    #[serde(deserialize_with = "human::span")]
    pub time_limit: Span,
    /// Time from the begin of the main workload until figures are taken that are per time, and flows that end are timed:
    /// slow start is over then.
    #[serde(deserialize_with = "human::span")]
    pub warm_up: Span,
    /// Links: shape, rates, delays, framing.
    pub network: Network,
    /// Switch ports: buffers and queue discipline. The same for every switch.
    pub switch: Switch,
    /// Host processing.
    pub host: Host,
    /// TCP endpoints.
    pub tcp: Tcp,
    /// What the `senders` do.
    pub workload: Workload,
    /// More senders, with paths and TCP of their own; without a workload of its own a group takes part in the main one.
    pub group: Vec<Group>,
    /// What else is on the network: more senders, with long flows when they have no other workload.
    pub background: Vec<Group>,
    /// What becomes of the network meanwhile.
    pub change: Vec<Change>,
    /// PAC's parameters, for [`Scheme::Pac`] and [`Scheme::Credit`].
    pub pac: Pac,
    /// Parameters of [`Scheme::Ictcp`].
    pub ictcp: Ictcp,
    /// Parameters of [`Scheme::Shaper`].
    pub shaper: Shaper,
    /// Parameters of [`Scheme::M21`].
    pub m21: M21,
    /// Parameters of [`Scheme::Hwatch`].
    pub hwatch: Hwatch,
    /// Parameters of [`Scheme::Dctcp`].
    pub dctcp: Dctcp,
    /// The switches' RED for [`Scheme::Red`] and [`Scheme::Ecn`], which say by themselves whether it marks.
    pub red: Red,
    /// Parameters of [`Scheme::FixedWindow`].
    pub fixed_window: FixedWindow,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: 1,
            senders: 8,
            rounds: 20,
            scheme: Scheme::None,
            time_limit: Span::secs(3_600),
            warm_up: Span::ZERO,
            network: Network::default(),
            switch: Switch::default(),
            host: Host::default(),
            tcp: Tcp::default(),
            workload: Workload::default(),
            group: Vec::new(),
            background: Vec::new(),
            change: Vec::new(),
            pac: Pac::default(),
            ictcp: Ictcp::default(),
            shaper: Shaper::default(),
            m21: M21::default(),
            hwatch: Hwatch::default(),
            dctcp: Dctcp::default(),
            red: Red::default(),
            fixed_window: FixedWindow::default(),
        }
    }
}

impl Scenario {
    /// Reads, changes, understands and checks a scenario file.
    ///
    /// # Errors
    /// When the file cannot be read, or something in it or in a change is not as it should be.
    pub fn load(path: &Path, changes: &[Assignment]) -> Result<Self, ScenarioError> {
        let mut document = Document::read(path)?;
        changes.iter().try_for_each(|change| document.set(change))?;
        document.scenario()
    }

    /// Refuses what makes no sense: zero senders, a cyclic topology, absurd sizes. Loading from a file does this too.
    ///
    /// # Errors
    /// The first fault found.
    pub fn check(&self) -> Result<(), Invalid> {
        check::check(self)
    }

    /// What in it is asking for trouble, though it makes sense; mostly nothing.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        warning::warnings(&self.resolved())
    }

    /// All senders: the main ones, groups that take part in the main workload, background groups, groups with a workload of
    /// their own. Connections are numbered in this order.
    #[must_use]
    pub fn parties(&self) -> Vec<Party<'_>> {
        group::parties(self)
    }

    /// All workloads: the key that each stands under, what it is, and how many senders do it; the main one first, then in
    /// the order of [`parties`](Self::parties).
    #[must_use]
    pub fn workloads(&self) -> Vec<(String, Cow<'_, Workload>, u32)> {
        group::workloads(self)
    }

    /// Senders of the main workload, those of groups included.
    #[must_use]
    pub fn main_senders(&self) -> u32 {
        let joined = self.group.iter().filter(|group| group.workload.is_none()).map(|group| group.senders);
        joined.fold(self.senders, u32::saturating_add)
    }

    /// The scenario with what its scheme says about endpoints and switches written into `tcp` and `switch`: what a
    /// run looks at. A scheme that sits in a shim leaves them as they are.
    #[must_use]
    pub fn resolved(&self) -> Self {
        preset::resolve(self)
    }
}

/// What a host adds to the time a packet takes. Packets of one host are never reordered by it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Host {
    /// Time from a packet's arrival at the host's interface to its arrival at the shim and TCP.
    #[serde(deserialize_with = "human::span")]
    pub delay: Span,
    /// Upper end of a uniformly random addition to `delay`, drawn anew for each packet.
    #[serde(deserialize_with = "human::span")]
    pub jitter: Span,
    /// Upper end of a uniformly random lateness of every TCP timer, as of a busy kernel (Vasudevan §4: 20 us).
    #[serde(deserialize_with = "human::span")]
    pub timer_jitter: Span,
    /// Upper end of a uniformly random addition to the base round-trip time of each sending host, drawn once in a run.
    #[serde(deserialize_with = "human::span")]
    pub rtt_spread: Span,
    /// Transmit queue of the host's interface. A sender's own bursts wait in it.
    pub nic_queue: Capacity,
    /// Segments that leave TCP as one burst at most, as segmentation offload (TSO) has it; each by itself when absent.
    pub tso: Option<u32>,
    /// Whether a burst that arrives is acknowledged as a whole (GRO).
    pub gro: bool,
    /// Processor time of each burst, whatever its length, where it is sent and where it arrives; of an ACK, too.
    #[serde(deserialize_with = "human::span")]
    pub burst_time: Span,
    /// Whether TCP keeps no more than two bursts of a connection, or a millisecond of its rate, in its host's queues (TCP small
    /// queues).
    pub small_queues: bool,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            delay: Span::ZERO,
            jitter: Span::ZERO,
            timer_jitter: Span::ZERO,
            rtt_spread: Span::ZERO,
            nic_queue: Capacity::Unlimited,
            tso: None,
            gro: false,
            burst_time: Span::ZERO,
            small_queues: false,
        }
    }
}
