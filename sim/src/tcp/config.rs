//! TCP settings in the units that endpoints count in: bytes and picoseconds.

use ackgate_control::m21;
use ackgate_control::rto::{Coarse, Estimator, RtoConfig, Spreads};
use ackgate_control::spurious::Method;

use super::sack::Losses;
use crate::engine::Ps;
use crate::scenario::{CongestionControl, EcnMode, RtoEstimator, RtoRandomizes, Scenario, Scheme, Spurious, Tcp};
use crate::settings;

/// Settings of the endpoints of one group of connections.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Payload of a full segment, in bytes.
    pub mss: u32,
    /// MSS option.
    pub announced_mss: u16,
    /// Window of a new connection, in bytes.
    pub initial_window: u32,
    /// Slow-start threshold of a new connection, in bytes.
    pub initial_ssthresh: u32,
    /// Upper bound of the window, in bytes.
    pub max_window: u32,
    /// Which algorithm grows and cuts the window.
    pub algorithm: CongestionControl,
    /// Retransmission timeout.
    pub rto: RtoConfig,
    /// Whether back-off lasts until an RTT sample comes, instead of until any progress.
    pub backoff_until_sample: bool,
    /// RFC 2018 and 6675.
    pub sack: bool,
    /// RFC 2883 and 3708.
    pub dsack: bool,
    /// RFC 3042.
    pub limited_transmit: bool,
    /// Whether that sends again after a timeout.
    pub limited_transmit_resends: bool,
    /// How SACK tells of losses.
    pub losses: Losses,
    /// TLP.max_ack_delay of RFC 8985 §7.2.
    pub probe_ack_delay: Ps,
    /// Whether every burst ends with a PSH, and not only what the application wrote.
    pub push_bursts: bool,
    /// How long an ACK may wait for a second segment; `None` when each segment is acknowledged at once.
    pub delayed_ack: Option<Ps>,
    /// Whether the ACK of a segment waits for the rest of its burst (GRO).
    pub gro: bool,
    /// Whether some are sent at once nevertheless, as in Linux.
    pub quickack: bool,
    /// Whether it waits only as long as the time between segments suggests.
    pub delayed_ack_adaptive: bool,
    /// Detection of spurious timeouts.
    pub spurious: Method,
    /// Whether data is ECN-capable.
    pub ecn: bool,
    /// Whether SYN and SYN-ACK are, too.
    pub ecn_syn: bool,
    /// Least window that a mark leaves, in bytes; DCTCP has its own.
    pub ecn_min: u32,
    /// DCTCP's gain in 2^-16.
    pub dctcp_gain: u32,
    /// DCTCP's least window, in bytes.
    pub dctcp_min: u32,
    /// Receive window, in bytes.
    pub rwnd: u64,
    /// Window scale shift.
    pub wscale: u8,
    /// The window field that stands for `rwnd`.
    pub window_field: u16,
    /// RFC 7323 timestamps.
    pub timestamps: bool,
    /// What TSval counts.
    pub timestamp_clock: Ps,
    /// RFC 5681 §4.1.
    pub idle_restart: bool,
    /// RFC 2861: halved for each idle timeout, instead of shut at once.
    pub idle_halving: bool,
    /// Whether a window grows only while it is what limits the sender (RFC 5681 §3.1 as RFC 9438 §5.8 spells it out).
    pub validate_window: bool,
    /// What one ACK adds to the window in slow start at most, in bytes: a segment (RFC 5681 Eq. 2), or all that it acknowledges
    /// (RFC 3465 without its limit L).
    pub slow_start_step: u32,
    /// Whether segments leave at a rate.
    pub paces: bool,
    /// Upper end of a uniformly random lateness of every timer.
    pub timer_jitter: Ps,
    /// Bytes of a frame before and behind TCP's options and payload; M21TCP-A's field is among them.
    pub header: u8,
    /// The same with the TCP header of a segment without SACK blocks.
    pub full_header: u8,
    /// Bytes of M21TCP-A's field, 0 when there is none.
    pub field: u8,
    /// M21TCP-A's cap.
    pub cap: Option<m21::Cap>,
    /// Whether a window above that is cut to it, and not only kept from growing.
    pub cap_cuts: bool,
}

impl TcpConfig {
    /// Whether congestion control goes by a model of the path (BBR), and not by what was acknowledged or lost.
    #[inline]
    #[must_use]
    pub fn models_path(&self) -> bool {
        self.algorithm == CongestionControl::Bbr
    }

    /// Whether losses are found by RACK (RFC 8985), and tail loss probes are sent.
    #[inline]
    #[must_use]
    pub fn has_rack(&self) -> bool {
        self.losses == Losses::Rack
    }

    /// TSval of a segment that leaves now.
    #[inline]
    #[must_use]
    pub fn timestamp(&self, now: Ps) -> u32 {
        (now.0 / self.timestamp_clock.0) as u32
    }

    /// Whether RTTs are measured by timestamps.
    #[inline]
    #[must_use]
    pub fn times_by_timestamps(&self) -> bool {
        self.timestamps && self.timestamp_clock <= Ps::micros(1)
    }

    /// Whether each segment is timed, because timestamps are too coarse for that. Without timestamps, one of each window is.
    #[must_use]
    pub fn times_each_segment(&self) -> bool {
        self.timestamps && !self.times_by_timestamps()
    }

    /// Settings of senders with this TCP, and of their receivers.
    #[must_use]
    pub fn new(scenario: &Scenario, tcp: &Tcp) -> Self {
        let mss = tcp.payload();
        let segments = |n: u32| n.saturating_mul(mss);
        let ecn = tcp.ecn.with(tcp.cc);
        let cap = if scenario.scheme == Scheme::M21 { settings::m21_cap(scenario).ok() } else { None };
        let field = if cap.is_some() { settings::m21_field(scenario).bytes() } else { 0 };
        let header = u8::try_from(20 + scenario.network.framing.in_buffer() + field).unwrap_or(u8::MAX);
        Self {
            mss,
            announced_mss: u16::try_from(tcp.mss).unwrap_or(u16::MAX),
            initial_window: segments(tcp.initial_window),
            initial_ssthresh: tcp.initial_ssthresh.map_or(u32::MAX, segments),
            max_window: tcp.max_window.map_or(u32::MAX / 2, segments).max(mss),
            algorithm: tcp.cc,
            rto: RtoConfig {
                initial: tcp.rto_initial,
                floor: tcp.rto_min,
                granularity: tcp.rto_granularity,
                max_doublings: u8::try_from(tcp.rto_backoff_max.max(1).ilog2()).unwrap_or(6),
                spread: fixed(tcp.rto_randomize),
                spreads: match tcp.rto_randomizes {
                    RtoRandomizes::Each => Spreads::Each,
                    RtoRandomizes::First => Spreads::First,
                    RtoRandomizes::Base => Spreads::Base,
                },
                variance_floor: tcp.rto_variance_floor,
                estimator: match tcp.rto_estimator {
                    RtoEstimator::Rfc6298 => Estimator::Rfc6298,
                    RtoEstimator::Linux => Estimator::Linux,
                },
                coarse: tcp.rto_coarse_from.map(|from| Coarse { from, floor: tcp.rto_coarse_min }),
                ..RtoConfig::default()
            },
            backoff_until_sample: tcp.backoff_until_sample,
            sack: tcp.sack,
            dsack: tcp.dsack,
            limited_transmit: tcp.limited_transmit,
            limited_transmit_resends: tcp.limited_transmit_resends,
            losses: match (tcp.rack, tcp.fack) {
                (true, _) => Losses::Rack,
                (_, true) => Losses::Fack,
                _ => Losses::Counting,
            },
            probe_ack_delay: tcp.probe_ack_delay.or(tcp.delayed_ack).map_or(Ps::ZERO, Ps::from_span),
            push_bursts: tcp.push_bursts,
            delayed_ack: tcp.delayed_ack.map(Ps::from_span),
            gro: scenario.host.gro,
            quickack: tcp.quickack,
            delayed_ack_adaptive: tcp.delayed_ack_adaptive,
            spurious: match tcp.spurious {
                Spurious::Off => Method::Off,
                Spurious::Frto => Method::FRto,
                Spurious::Eifel => Method::Eifel,
            },
            ecn: ecn != EcnMode::Off,
            ecn_syn: ecn == EcnMode::Plus,
            ecn_min: segments(tcp.ecn_min_window.max(1)),
            dctcp_gain: fixed(tcp.dctcp_gain).max(1),
            dctcp_min: segments(tcp.dctcp_min_window.max(1)),
            rwnd: tcp.rwnd,
            wscale: tcp.shift(),
            window_field: u16::try_from(tcp.rwnd >> tcp.shift()).unwrap_or(u16::MAX),
            timestamps: tcp.timestamps,
            timestamp_clock: Ps::from_span(tcp.timestamp_clock),
            idle_restart: tcp.idle_restart,
            idle_halving: tcp.idle_halving,
            validate_window: tcp.validate_window,
            slow_start_step: if tcp.byte_counting { u32::MAX } else { mss },
            paces: tcp.pacing || tcp.cc == CongestionControl::Bbr,
            timer_jitter: Ps::from_span(scenario.host.timer_jitter),
            header,
            full_header: header.saturating_add(if tcp.timestamps { 32 } else { 20 }),
            field: u8::try_from(field).unwrap_or(u8::MAX),
            cap,
            cap_cuts: scenario.m21.cut,
        }
    }
}

impl TcpConfig {
    /// Whether a timer's length is drawn anew each time that it is set.
    pub(super) fn random_timers(&self) -> bool {
        self.rto.spread > 0 || self.timer_jitter > Ps::ZERO
    }
}

/// A fraction in 0..=1 in 2^-16.
#[expect(clippy::cast_sign_loss, reason = "clamped to 0..=1")]
fn fixed(fraction: f64) -> u32 {
    (fraction.clamp(0.0, 1.0) * 65_536.0 + 0.5) as u32
}
