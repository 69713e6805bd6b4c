//! Senders in groups: more senders than the main ones, with a path and a TCP of their own, and perhaps another workload.

use std::borrow::Cow;

use ackgate_control::units::{Rate, Span};
use serde::Deserialize;

use super::human;
use super::tcp::{CongestionControl, EcnMode, Tcp};
use super::workload::{Destination, Long, Workload};
use super::{Host, Network, Scenario};

/// Senders that are alike, each on a host of its own. What is absent is as of the main senders.
///
/// One of [`Scenario::group`] without a workload takes part in the main one; one of [`Scenario::background`] has long flows
/// then. A run ends when every finite workload is done; a run of endless ones ends at `time_limit`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Group {
    /// What reports call it; `group0`, `background0` and so on when absent.
    pub name: Option<String>,
    /// Senders of this group, at least 1.
    pub senders: u32,
    /// Where their data goes.
    pub to: Destination,
    /// Base round-trip time to the receiver: propagation alone. What it is more than other links of the way take is on
    /// these senders' own links. `network.rtt` when absent.
    #[serde(deserialize_with = "human::some_span")]
    pub rtt: Option<Span>,
    /// Upper end of a uniformly random delay of each packet that arrives at these hosts; `host.jitter` when absent.
    #[serde(deserialize_with = "human::some_span")]
    pub jitter: Option<Span>,
    /// Rate of these senders' links; `network.sender_rate` when absent.
    #[serde(deserialize_with = "human::some_rate")]
    pub rate: Option<Rate>,
    /// Congestion control; `tcp.cc` when absent.
    pub cc: Option<CongestionControl>,
    /// Use of ECN; `tcp.ecn` when absent. ECN-capable and other senders may share a queue (HWatch §II).
    pub ecn: Option<EcnMode>,
    /// Maximum segment size; `tcp.mss` when absent.
    pub mss: Option<u32>,
    /// Congestion window of a new connection, in segments; `tcp.initial_window` when absent.
    pub initial_window: Option<u32>,
    /// Floor of the retransmission timeout; `tcp.rto_min` when absent.
    #[serde(deserialize_with = "human::some_span")]
    pub rto_min: Option<Span>,
    /// How long the receiver delays ACKs to these senders, `"off"` for not at all; `tcp.delayed_ack` when absent.
    pub delayed_ack: Option<DelayedAck>,
    /// Whether the scheme acts on their connections: not on what it is told to leave alone, nor on what comes through a tunnel.
    pub guarded: bool,
    /// What they do. A [`Workload::Rounds`] runs as many rounds as the scenario.
    pub workload: Option<Workload>,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            name: None,
            senders: 1,
            to: Destination::Receiver,
            rtt: None,
            jitter: None,
            rate: None,
            cc: None,
            ecn: None,
            mss: None,
            initial_window: None,
            rto_min: None,
            delayed_ack: None,
            guarded: true,
            workload: None,
        }
    }
}

/// A delay of ACKs, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct DelayedAck(#[serde(deserialize_with = "human::span_or_off")] pub Option<Span>);

impl Group {
    /// TCP of these senders, and of the receiver towards them.
    #[must_use]
    pub fn tcp(&self, base: &Tcp) -> Tcp {
        Tcp {
            cc: self.cc.unwrap_or(base.cc),
            ecn: self.ecn.unwrap_or(base.ecn),
            mss: self.mss.unwrap_or(base.mss),
            initial_window: self.initial_window.unwrap_or(base.initial_window),
            rto_min: self.rto_min.unwrap_or(base.rto_min),
            delayed_ack: self.delayed_ack.map_or(base.delayed_ack, |DelayedAck(delay)| delay),
            ..base.clone()
        }
    }
}

/// Some of a run's senders that are alike: the main ones, or a group.
#[derive(Clone, Debug)]
pub struct Party<'a> {
    /// Where it stands in the scenario, as a dotted key; empty for the main senders.
    pub key: String,
    /// What reports call it.
    pub name: Cow<'a, str>,
    /// How many.
    pub senders: u32,
    /// Its settings; `None` for the main senders.
    pub group: Option<&'a Group>,
    /// What it does; `None` for a part in the main workload.
    pub workload: Option<Cow<'a, Workload>>,
}

impl Party<'_> {
    /// TCP of these senders, and of the receiver towards them.
    #[must_use]
    pub fn tcp(&self, scenario: &Scenario) -> Tcp {
        self.group.map_or_else(|| scenario.tcp.clone(), |group| group.tcp(&scenario.tcp))
    }

    /// Rate of the senders' own links.
    #[must_use]
    pub fn rate(&self, network: &Network) -> Rate {
        self.group.and_then(|group| group.rate).or(network.sender_rate).unwrap_or(network.rate)
    }

    /// Whether the scheme acts on their connections.
    #[must_use]
    pub fn guarded(&self) -> bool {
        self.group.is_none_or(|group| group.guarded)
    }

    /// Random delay of what arrives at them.
    #[must_use]
    pub fn jitter(&self, host: &Host) -> Span {
        self.group.and_then(|group| group.jitter).unwrap_or(host.jitter)
    }
}

/// All senders of a scenario: the main ones, groups that take part in the main workload, background groups, groups with a
/// workload of their own.
pub(super) fn parties(scenario: &Scenario) -> Vec<Party<'_>> {
    let main =
        Party { key: String::new(), name: "main".into(), senders: scenario.senders, group: None, workload: None };
    let groups = || scenario.group.iter().enumerate();
    let joined = groups().filter(|(_, group)| group.workload.is_none());
    let own = groups().filter_map(|(at, group)| Some((at, group, group.workload.as_ref()?)));
    let background = scenario.background.iter().enumerate().map(|(at, group)| {
        let long = || Cow::Owned(Workload::Long(Long::default()));
        party("background", at, group, Some(group.workload.as_ref().map_or_else(long, Cow::Borrowed)))
    });
    std::iter::once(main)
        .chain(joined.map(|(at, group)| party("group", at, group, None)))
        .chain(background)
        .chain(own.map(|(at, group, workload)| party("group", at, group, Some(Cow::Borrowed(workload)))))
        .collect()
}

/// All workloads: the key that each stands under, what it is, and how many senders do it. The main one comes first, the
/// others in the order of their parties.
pub(super) fn workloads(scenario: &Scenario) -> Vec<(String, Cow<'_, Workload>, u32)> {
    let main = ("workload".to_owned(), Cow::Borrowed(&scenario.workload), scenario.main_senders());
    let others = parties(scenario).into_iter().filter_map(|party| {
        let Party { key, senders, workload, .. } = party;
        Some((format!("{key}.workload"), workload?, senders))
    });
    std::iter::once(main).chain(others).collect()
}

fn party<'a>(list: &str, at: usize, group: &'a Group, workload: Option<Cow<'a, Workload>>) -> Party<'a> {
    let name = group.name.as_deref().map_or_else(|| Cow::Owned(format!("{list}{at}")), Cow::Borrowed);
    Party { key: format!("{list}.{at}"), name, senders: group.senders, group: Some(group), workload }
}
