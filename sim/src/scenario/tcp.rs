//! TCP endpoints: what RFCs leave to the implementation and papers set.

use ackgate_control::units::Span;
use serde::Deserialize;

use super::human;

/// TCP of every host, senders and receivers alike. Windows are in segments, as in the papers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tcp {
    /// Congestion control of the main workload's senders.
    pub cc: CongestionControl,
    /// Maximum segment size in bytes (RFC 9293 §3.7.1): payload plus TCP options of a full segment, 88 to 65495.
    pub mss: u32,
    /// Congestion window of a new connection, in segments, at least 1. Linux 3.0 and later: 10 (RFC 6928).
    pub initial_window: u32,
    /// Slow-start threshold of a new connection, in segments; none when absent.
    pub initial_ssthresh: Option<u32>,
    /// Upper bound of the congestion window, in segments; none when absent. PAC Fig. 2 pins it to 1.
    pub max_window: Option<u32>,
    /// Floor of the retransmission timeout.
    #[serde(deserialize_with = "human::span")]
    pub rto_min: Span,
    /// Timeout before the first RTT sample, for the SYN too (RFC 6298 §2.1: 1 s).
    #[serde(deserialize_with = "human::span")]
    pub rto_initial: Span,
    /// Clock tick: RTT samples and timeouts are rounded up to it. Zero for a nanosecond clock.
    #[serde(deserialize_with = "human::span")]
    pub rto_granularity: Span,
    /// Least value of the RTO's variance term. A kernel that counts in jiffies has four of them, so that an RTOmin of
    /// one jiffy gives timeouts of five (Vasudevan §6).
    #[serde(deserialize_with = "human::span")]
    pub rto_variance_floor: Span,
    /// How a sender estimates how much the round-trip time varies.
    pub rto_estimator: RtoEstimator,
    /// Bimodal operation (Vasudevan §5): connections whose smoothed round-trip time is this or more have
    /// `rto_coarse_min` for a floor. All have `rto_min` when absent.
    #[serde(deserialize_with = "human::some_span")]
    pub rto_coarse_from: Option<Span>,
    /// Floor of the retransmission timeout of those connections.
    #[serde(deserialize_with = "human::span")]
    pub rto_coarse_min: Span,
    /// Whether, and how, a sender finds out that a timeout was spurious, and undoes what it did.
    pub spurious: Spurious,
    /// Largest factor that exponential backoff reaches, a power of two (Vasudevan §7: 64).
    pub rto_backoff_max: u32,
    /// Whether back-off lasts until an RTT sample comes (RFC 6298 §5), which a segment that was sent twice does not
    /// give without timestamps: so in ns-2. Else it ends with any progress: so in ns-3, and in effect in Linux, whose
    /// timestamps make each ACK a sample.
    pub backoff_until_sample: bool,
    /// Each timeout is lengthened by up to this fraction of itself, uniformly at random (Vasudevan §5: 0.5).
    pub rto_randomize: f64,
    /// Which timeouts that lengthens, and of what it is a fraction.
    pub rto_randomizes: RtoRandomizes,
    /// Selective acknowledgement (RFC 2018, RFC 6675).
    pub sack: bool,
    /// Whether a receiver reports what it got twice (D-SACK, RFC 2883), by which a sender finds out that all it sent again
    /// after a timeout had arrived, and takes back that its threshold came down (RFC 3708), as Linux does. The window
    /// grows again from what the timeout left. Needs `sack`.
    pub dsack: bool,
    /// Limited Transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Whether that goes on after a timeout, where the next segment has been sent before: so in ns-2 (`send_one`), which
    /// sends much again that has arrived. RFC 3042 is about new data.
    pub limited_transmit_resends: bool,
    /// Forward acknowledgement (Mathis and Mahdavi, SIGCOMM 1996) with rate halving, as Linux had it until 3.1: what is more
    /// than three segments below the highest that has arrived is lost, and so is a retransmission behind which new data
    /// has arrived; every second ACK of a recovery takes a segment off the window, which never stays more than one above
    /// what is in the network. Needs `sack`.
    pub fack: bool,
    /// RACK-TLP (RFC 8985), as Linux has it: losses by the order of sending instead of by three duplicates, lost
    /// retransmissions too, and a probe after two round-trip times without an ACK. Needs `sack`.
    pub rack: bool,
    /// How much longer than others a tail loss probe waits that would repeat the only segment on its way (TLP.max_ack_delay
    /// of RFC 8985 §7.2): the receiver may delay its ACK. `"off"` is as long as the receiver of the scenario does; Linux
    /// takes the floor of its timeout.
    #[serde(deserialize_with = "human::span_or_off")]
    pub probe_ack_delay: Option<Span>,
    /// Whether every burst ends with a PSH, as Linux marks what it leaves to segmentation offload, and not only what the
    /// application wrote.
    pub push_bursts: bool,
    /// How long an ACK waits for a second segment (RFC 9293 §3.8.6.3): `"off"`, or a time such as `"40ms"`.
    #[serde(deserialize_with = "human::span_or_off")]
    pub delayed_ack: Option<Span>,
    /// Whether a receiver that delays ACKs sends up to 16 at once where they seem to be missed, as Linux does: at the
    /// beginning and after a segment came twice, until it sends data itself within 40 ms of what it got.
    pub quickack: bool,
    /// Whether an ACK waits only as long as the smoothed time between segments suggests, `delayed_ack` being the
    /// longest (Vasudevan §5).
    pub delayed_ack_adaptive: bool,
    /// Explicit congestion notification.
    pub ecn: EcnMode,
    /// Fewest segments that a mark leaves of the window, for all but DCTCP: 1 or 2. RFC 3168 §6.1.2 lets it come down to
    /// one, and so do ns-2 and Linux 2.6 (half of a threshold of two); the threshold stays at two.
    pub ecn_min_window: u32,
    /// DCTCP's gain g for the fraction of marked bytes (RFC 8257 §3.3), in (0, 1].
    pub dctcp_gain: f64,
    /// Fewest segments that DCTCP's window goes down to. Linux: 2.
    pub dctcp_min_window: u32,
    /// Receive window, in bytes.
    #[serde(deserialize_with = "human::bytes")]
    pub rwnd: u64,
    /// Window scale shift (RFC 7323 §2), 0 to 14; the smallest that expresses `rwnd` when absent.
    pub wscale: Option<u8>,
    /// Timestamps option (RFC 7323 §3): 12 bytes of every segment, taken from its payload.
    pub timestamps: bool,
    /// What a timestamp counts: microseconds by default, as in Vasudevan's kernel (§6.2); Linux has `"1ms"`. Where it is more
    /// than a microsecond, senders remember when they sent each segment and measure RTTs by that, as Linux does.
    #[serde(deserialize_with = "human::span")]
    pub timestamp_clock: Span,
    /// Whether a sender that was idle for an RTO starts again from the initial window (RFC 5681 §4.1).
    pub idle_restart: bool,
    /// Whether that restart halves the window for each RTO that the sender was idle, down to the initial window, and
    /// remembers three quarters of it as the threshold (RFC 2861), as Linux does, instead of going down at once.
    pub idle_halving: bool,
    /// Whether the congestion window grows only while it is what limits the sender, as Linux does; ns-2 lets it grow
    /// with every ACK.
    pub validate_window: bool,
    /// Whether slow start grows by all that an ACK acknowledges (RFC 3465 without its limit), as Linux does, and not by one
    /// segment at most.
    pub byte_counting: bool,
    /// Whether senders pace: bursts of a millisecond's worth, at most 64 KB, at twice the window for each round trip in slow start,
    /// and 1.2 times afterwards, as Linux does with `fq`. BBR always does.
    pub pacing: bool,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            cc: CongestionControl::NewReno,
            mss: 1_460,
            initial_window: 2,
            initial_ssthresh: None,
            max_window: None,
            rto_min: Span::millis(200),
            rto_initial: Span::secs(1),
            rto_granularity: Span::ZERO,
            rto_variance_floor: Span::ZERO,
            rto_estimator: RtoEstimator::Rfc6298,
            rto_coarse_from: None,
            rto_coarse_min: Span::millis(200),
            spurious: Spurious::Off,
            rto_backoff_max: 64,
            backoff_until_sample: false,
            rto_randomize: 0.0,
            rto_randomizes: RtoRandomizes::Each,
            sack: false,
            dsack: false,
            limited_transmit: false,
            limited_transmit_resends: false,
            fack: false,
            rack: false,
            probe_ack_delay: None,
            push_bursts: false,
            delayed_ack: None,
            quickack: false,
            delayed_ack_adaptive: false,
            ecn: EcnMode::Auto,
            ecn_min_window: 2,
            dctcp_gain: 0.0625,
            dctcp_min_window: 2,
            rwnd: 4_000_000,
            wscale: None,
            timestamps: false,
            timestamp_clock: Span::micros(1),
            idle_restart: false,
            idle_halving: false,
            validate_window: true,
            byte_counting: false,
            pacing: false,
        }
    }
}

impl Tcp {
    /// Payload bytes of a full segment: the MSS less what options take from each segment.
    #[must_use]
    pub const fn payload(&self) -> u32 {
        self.mss - if self.timestamps { 12 } else { 0 }
    }

    /// Window scale shift that is announced in the handshake.
    #[must_use]
    pub fn shift(&self) -> u8 {
        self.wscale.unwrap_or_else(|| (0..14).find(|shift| self.rwnd >> shift <= 0xffff).unwrap_or(14))
    }
}

/// Congestion control of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CongestionControl {
    /// Slow start, congestion avoidance (RFC 5681) and NewReno recovery (RFC 6582).
    #[default]
    NewReno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// DCTCP (RFC 8257).
    Dctcp,
    /// BBR, version 1, as Linux has it: paced by a model of the path, whatever is lost.
    Bbr,
}

/// Where the random part of a timeout enters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RtoRandomizes {
    /// Each timeout, after back-off.
    #[default]
    Each,
    /// A timeout that has not backed off.
    First,
    /// Each timeout, by a fraction of what it was before back-off.
    Base,
}

/// Estimate of how much the round-trip time varies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RtoEstimator {
    /// A moving average (RFC 6298); the floor is the whole timeout's.
    #[default]
    Rfc6298,
    /// Linux: the largest of the last window, slowly forgotten; the floor is the variance term's.
    Linux,
}

/// Detection of spurious timeouts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spurious {
    /// None.
    #[default]
    Off,
    /// F-RTO (RFC 5682). What is undone: the window is halved instead of shut, as Linux 2.6 did (Vasudevan §3.2).
    Frto,
    /// Eifel (RFC 3522, RFC 4015); needs `timestamps`. What is undone: everything.
    Eifel,
}

impl EcnMode {
    /// How a sender with congestion control `cc` uses ECN: never [`EcnMode::Auto`].
    #[must_use]
    pub const fn with(self, cc: CongestionControl) -> Self {
        match (self, cc) {
            (Self::Auto, CongestionControl::Dctcp) => Self::On,
            (Self::Auto, _) => Self::Off,
            (mode, _) => mode,
        }
    }
}

/// Explicit congestion notification of TCP endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EcnMode {
    /// As the congestion control needs it: on for DCTCP, else off.
    #[default]
    Auto,
    /// Not negotiated.
    Off,
    /// Data packets are ECN-capable (RFC 3168).
    On,
    /// SYN and SYN-ACK are ECN-capable too (ECN+; PAC runs DCTCP so).
    Plus,
}
