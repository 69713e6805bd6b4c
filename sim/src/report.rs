//! What a run came to: one flat record of figures, as JSON and CSV show it.

use serde::Serialize;

/// The result of one run. Field names are the names in JSON; nested ones are joined with `_` in CSV.
///
/// Everything but [`wall_s`](Self::wall_s) is a function of scenario and seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Name of the scheme.
    pub scheme: String,
    /// Connections of the main workload.
    pub senders: u32,
    /// The seed of the run.
    pub seed: u64,
    /// Whether every finite workload finished before the time limit.
    pub complete: bool,
    /// Simulated time in seconds, from the first round's or flow's start to the end of the last one.
    pub simulated_s: f64,
    /// Application data of the main workload delivered in order, in 10^6 bit/s of simulated time; set-up of persistent
    /// connections and pauses between rounds do not count as time.
    pub goodput_mbps: f64,
    /// The mean over the rounds of a round's application data divided by its time, in 10^6 bit/s: what PAC's figures show,
    /// where a round with a timeout weighs no more than one without.
    pub round_goodput_mbps: f64,
    /// Frames delivered on the links of the main workload's receivers, preamble and gap not counted, in 10^6 bit/s of the
    /// same time.
    pub throughput_mbps: f64,
    /// Rounds (or epochs) that finished.
    pub rounds: u32,
    /// Of these, how many saw at least one retransmission timeout: PAC's timeout ratio.
    pub rounds_with_timeout: u32,
    /// Retransmission timeouts of all senders, connection set-up included.
    pub rto_timeouts: u64,
    /// Of these, how many retransmitted what had arrived (its ACK was lost or late).
    pub spurious_timeouts: u64,
    /// Of these, how many while the scheme held a packet of the connection, or discarded one, as the timer ran. Not where
    /// the receiver delays its ACK, and no window keeps the sender from going on.
    pub spurious_while_held: u64,
    /// Timeouts that their senders found to be spurious, and undid.
    pub undone_timeouts: u64,
    /// How long the retransmission timers had run that fired, backoff included, in microseconds.
    pub timeout_us: Quantiles,
    /// Data segments sent again, for whatever reason.
    pub retransmits: u64,
    /// Of these, how many by fast retransmit and recovery.
    pub fast_retransmits: u64,
    /// Frames dropped by switches and host queues.
    pub drops: u64,
    /// Frames that switches marked CE.
    pub marks: u64,
    /// Round completion times in milliseconds.
    pub round_ms: Quantiles,
    /// Flow completion times in milliseconds: of each sender's part of a round, or of each short flow.
    pub flow_ms: Quantiles,
    /// The same, averaged over all flows (rounds, epochs) of each sender first: HWatch §V draws these.
    pub sender_ms: Quantiles,
    /// Flow completion times of background groups, where these have an end.
    pub background_flow_ms: Quantiles,
    /// Application data of the background groups delivered in order, in 10^6 bit/s of `simulated_s`.
    pub background_goodput_mbps: f64,
    /// Queue at the bottleneck port.
    pub queue_bytes: Level,
    /// Fraction of `simulated_s` that the bottleneck link was sending, preamble and gap counted, 0 to 1.
    pub link_use: f64,
    /// Jain's index of the senders' goodput, 1/senders to 1: of each round's rates, averaged, or of long flows.
    pub fairness: f64,
    /// RTT samples of the senders in microseconds, retransmitted segments left out (Karn).
    pub rtt_us: Quantiles,
    /// ACKs (or other packets) that the scheme held at most at the same time, over all receivers.
    pub held_max: u64,
    /// How long those were held that were, in microseconds.
    pub hold_us: Quantiles,
    /// Events that the simulator's core handled.
    pub events: u64,
    /// Data packets that reached a receiver's TCP.
    pub packets_delivered: u64,
    /// Every packet, ACKs and handshakes included, from leaving TCP: `sent = arrived + dropped + queued`, exactly.
    pub packets: Packets,
    /// The main senders and each group of senders by itself; empty when there are no groups. Not among the columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupReport>,
    /// What in the scenario is asking for trouble. Not among the columns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Whole distributions of what the quantiles above sum up; not among the columns.
    #[serde(skip)]
    pub distributions: Distributions,
    /// Wall-clock time from the first event on in seconds, without the laying out of the network: the one figure that
    /// differs between equal runs.
    pub wall_s: f64,
}

/// Median, tail, maximum and mean of a set of samples; all zero when there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
}

/// What senders came to that are alike.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupReport {
    /// `main`, or the group's.
    pub name: String,
    /// How many.
    pub senders: u32,
    /// Application data delivered in order, in 10^6 bit/s of [`Report::simulated_s`].
    pub goodput_mbps: f64,
    /// Flows that ended.
    pub flows: u64,
    /// Their completion times in milliseconds.
    pub flow_ms: Tail,
    /// Retransmission timeouts, connection set-up included.
    pub rto_timeouts: u64,
    /// Of these, how many retransmitted what had arrived.
    pub spurious_timeouts: u64,
    /// Of these, how many while the scheme held a packet of the connection, or discarded one, as the timer ran. Not where
    /// the receiver delays its ACK, and no window keeps the sender from going on.
    pub spurious_while_held: u64,
}

/// As [`Quantiles`], with what one sample in a thousand exceeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Tail {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
}

/// Cumulative distributions: values by rising order, each with the share of samples that are at most as large, 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distributions {
    /// Of [`Report::rtt_us`].
    pub rtt_us: Vec<(f64, f64)>,
    /// Of [`Report::flow_ms`].
    pub flow_ms: Vec<(f64, f64)>,
    /// Of [`Report::sender_ms`].
    pub sender_ms: Vec<(f64, f64)>,
    /// Of [`Report::timeout_us`].
    pub timeout_us: Vec<(f64, f64)>,
}

/// A quantity over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Level {
    /// Weighted by time, over `simulated_s`.
    pub mean: f64,
    /// Largest.
    pub max: u64,
}

/// Where all packets of a run went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Packets {
    /// Handed to the network by a TCP endpoint.
    pub sent: u64,
    /// Handed to a TCP endpoint.
    pub arrived: u64,
    /// Dropped by a switch or a host's queue, or discarded by a scheme.
    pub dropped: u64,
    /// Still in a queue, on a link, in a host or held as the run ended.
    pub queued: u64,
}
