//! Traffic: who sends how much, when.

use std::path::PathBuf;
use std::sync::Arc;

use ackgate_control::units::{Rate, Span};
use serde::Deserialize;

use super::human;

/// What a group of senders does.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Barrier-synchronised rounds: all senders send, and the next round begins when the last has finished.
    Rounds(Rounds),
    /// Each sender keeps one connection busy.
    Long(Long),
    /// Surges of short flows, each on a new connection.
    Epochs(Epochs),
    /// Each sender alternates between sending at a rate and silence.
    OnOff(OnOff),
    /// Each sender sends datagrams at a rate, whatever becomes of them (UDP).
    Datagrams(Datagrams),
    /// Flow arrivals read from a file.
    Trace(Trace),
}

impl Default for Workload {
    fn default() -> Self {
        Self::Rounds(Rounds::default())
    }
}

/// Parameters of [`Workload::Rounds`], the incast workload of PAC and Vasudevan. `Scenario::rounds` says how many.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rounds {
    /// Bytes of application data, at least 1.
    #[serde(deserialize_with = "human::bytes")]
    pub volume: u64,
    /// Whether `volume` is what each sender sends in a round, or what all together do, divided evenly (the first
    /// `volume % senders` senders send one byte more).
    pub per: Per,
    /// Who starts a round.
    pub direction: Direction,
    /// Whether connections live through the run or last one round.
    pub connections: Connections,
    /// Size of the receiver's request when it pulls, in bytes.
    #[serde(deserialize_with = "human::bytes")]
    pub request: u64,
    /// How often each sender sends its volume in a round: on a pulled connection, each time for a request.
    pub answers: u32,
    /// How many of these the receiver asks for at a time: the next when one is complete (pipelining, queue depth).
    pub outstanding: u32,
    /// Each sender begins an answer late by a uniformly random time up to this, as processes on real hosts do.
    #[serde(deserialize_with = "human::span")]
    pub start_jitter: Span,
    /// Silence between rounds.
    #[serde(deserialize_with = "human::span")]
    pub pause: Span,
}

impl Default for Rounds {
    fn default() -> Self {
        Self {
            volume: 64_000,
            per: Per::Sender,
            direction: Direction::Push,
            connections: Connections::Persistent,
            request: 100,
            answers: 1,
            outstanding: 1,
            start_jitter: Span::micros(20),
            pause: Span::ZERO,
        }
    }
}

/// What a volume is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Per {
    /// For each sender ("fixed volume per sender").
    Sender,
    /// For all senders together ("fixed volume in total").
    Round,
}

/// Who starts a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The receiver sends each sender a request; `start_jitter` delays the answer.
    Pull,
    /// The senders begin by themselves at the barrier; `start_jitter` delays each.
    Push,
}

/// How long connections live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connections {
    /// Set up before the first round, kept to the end; rounds are timed from the first barrier after set-up.
    Persistent,
    /// Set up anew in each round by the side that starts it; set-up is part of the round.
    Fresh,
}

/// Parameters of [`Workload::Long`]: sender *i* runs from `start + i·stagger` to `stop + i·stop_stagger`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Long {
    /// When the first sender begins.
    #[serde(deserialize_with = "human::span")]
    pub start: Span,
    /// Time from one sender's begin to the next one's.
    #[serde(deserialize_with = "human::span")]
    pub stagger: Span,
    /// When the first sender ends. Beside finite workloads: with the run, when absent.
    #[serde(deserialize_with = "human::some_span")]
    pub stop: Option<Span>,
    /// Time from one sender's end to the next one's.
    #[serde(deserialize_with = "human::span")]
    pub stop_stagger: Span,
    /// Rate at which the application writes, payload bits per second; as fast as TCP takes it when absent.
    #[serde(deserialize_with = "human::some_rate")]
    pub rate: Option<Rate>,
}

impl Default for Long {
    fn default() -> Self {
        Self { start: Span::ZERO, stagger: Span::ZERO, stop: None, stop_stagger: Span::ZERO, rate: None }
    }
}

/// Parameters of [`Workload::Epochs`]: in every epoch each sender sends one short flow on a new connection, in random
/// order, with exponentially distributed gaps between them (HWatch §V).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Epochs {
    /// Number of epochs, at least 1.
    pub epochs: u32,
    /// When the first epoch begins.
    #[serde(deserialize_with = "human::span")]
    pub start: Span,
    /// Time from one epoch's begin to the next one's.
    #[serde(deserialize_with = "human::span")]
    pub interval: Span,
    /// Bytes of each flow, at least 1.
    #[serde(deserialize_with = "human::bytes")]
    pub size: u64,
    /// Mean time between the starts of two flows of an epoch.
    #[serde(deserialize_with = "human::span")]
    pub mean_gap: Span,
}

impl Default for Epochs {
    fn default() -> Self {
        Self {
            epochs: 6,
            start: Span::millis(100),
            interval: Span::millis(100),
            size: 10_000,
            mean_gap: Span::nanos(1_200),
        }
    }
}

/// Parameters of [`Workload::OnOff`]: connections are kept; periods are exponentially distributed.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OnOff {
    /// Mean length of a sending period.
    #[serde(deserialize_with = "human::span")]
    pub on: Span,
    /// Mean length of a silence.
    #[serde(deserialize_with = "human::span")]
    pub off: Span,
    /// Rate at which the application writes while it sends, payload bits per second; as fast as TCP takes it when
    /// absent.
    #[serde(deserialize_with = "human::some_rate")]
    pub rate: Option<Rate>,
    /// When all senders end. Beside finite workloads: with the run, when absent.
    #[serde(deserialize_with = "human::some_span")]
    pub stop: Option<Span>,
}

impl Default for OnOff {
    fn default() -> Self {
        Self { on: Span::millis(5), off: Span::millis(5), rate: None, stop: None }
    }
}

/// Parameters of [`Workload::Datagrams`]: each sender sends `burst` datagrams at a time, at equal intervals, from `start` to `stop`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Datagrams {
    /// Rate of each sender, payload bits per second.
    #[serde(deserialize_with = "human::rate")]
    pub rate: Rate,
    /// Payload bytes of a datagram, at least 1; with headers of IP and UDP no more than `tcp.mss` and the headers of TCP.
    #[serde(deserialize_with = "human::bytes")]
    pub payload: u64,
    /// Datagrams that are sent one right after the other, at least 1.
    pub burst: u32,
    /// When the senders begin.
    #[serde(deserialize_with = "human::span")]
    pub start: Span,
    /// When they end. Beside finite workloads: with the run, when absent.
    #[serde(deserialize_with = "human::some_span")]
    pub stop: Option<Span>,
}

impl Default for Datagrams {
    fn default() -> Self {
        Self { rate: Rate(100_000_000), payload: 1_400, burst: 1, start: Span::ZERO, stop: None }
    }
}

/// Parameters of [`Workload::Trace`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trace {
    /// CSV with the columns `start_us,sender,bytes`, in any order of rows. A relative path is taken from the
    /// scenario's folder.
    pub file: PathBuf,
    /// What the file held, by time; filled when a scenario is loaded, shared by all points of a sweep.
    #[serde(skip)]
    pub arrivals: Arc<[Arrival]>,
}

/// One flow of a [`Trace`], on a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When the connection is opened.
    pub start: Span,
    /// Which sender sends, below `Scenario::senders`.
    pub sender: u32,
    /// Bytes of application data, at least 1.
    pub bytes: u64,
}

/// Where a group's data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Destination {
    /// The main workload's (first) receiver.
    Receiver,
    /// A host of its own, attached where the receiver is: shares links between switches, not the last one.
    Beside,
}
