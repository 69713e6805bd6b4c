//! The sending half: what may be sent now, and what to do when ACKs come, come twice, or do not come (RFC 5681, NewReno
//! RFC 6582, SACK RFC 6675, Limited Transmit RFC 3042, timer RFC 6298, ECN RFC 3168).
//!
//! DESIGN NOTES
//! 1. After a timeout the sender goes back to the first unacknowledged byte and walks forward again, skipping what SACK
//!    says has arrived; `max` remembers how far it had been.
//! 2. The window is in bytes, but a full segment is never cut to fit it: either it fits or it waits. Only the receive
//!    window cuts segments, and then with silly-window avoidance (RFC 9293 §3.8.6.2.1), whose override is the persist
//!    timer.
//! 3. A window that an ACK without news shrinks is ignored, as Linux does (RFC 9293 §3.10.7.4 leaves it open).

mod ack;
mod fack;
mod loss;
mod model;
mod pace;
mod prr;
mod rate;
mod sent;
mod tail;
mod transmit;
mod turn;

use ackgate_control::m21;
use ackgate_control::rto::{Estimator, Rto};
use ackgate_control::seq::SeqNumber;
use ackgate_control::spurious::Detector;

use super::config::TcpConfig;
use super::congestion::{Congestion, Window};
use super::endpoint::Arrived;
use super::number_of;
use super::sack::Scoreboard;
use crate::engine::{Ps, Random};
use crate::net::Packet;

pub(super) use pace::burst;
pub(super) use rate::Delivered;

use pace::Pace;
use prr::Prr;
use rate::RateLog;
use sent::SentLog;
use tail::Tail;

/// What the sender is recovering from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing.
    Open,
    /// A loss that duplicate ACKs told of.
    Recovery,
    /// A timeout.
    Loss,
}

/// Counts of one sender.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Data segments sent again.
    pub retransmits: u64,
    /// Of these, in fast retransmit and recovery.
    pub fast_retransmits: u64,
    /// Timeouts that were found to be spurious, and undone.
    pub undone: u64,
}

/// The sending half of an endpoint. Laid out by how often things are touched, a cache line each: by every segment in both
/// directions, by what is sent, by what is acknowledged; the rest by losses.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct Sender {
    /// First offset not acknowledged.
    pub una: u64,
    /// Next offset to send.
    pub nxt: u64,
    /// After the highest offset ever sent.
    pub max: u64,
    /// After the last byte that the application wrote.
    end: u64,
    /// Right edge of the receive window.
    right: u64,
    /// Retransmission, handshake or persist timer, [`Ps::NEVER`] when off.
    pub(in crate::tcp) deadline: Ps,
    timeout: Ps,
    /// The segment that is being timed ends here, 0 when none is.
    timed_end: u64,

    pub(in crate::tcp) iss: u32,
    /// Shift of the peer's window field.
    pub(in crate::tcp) peer_wscale: u8,
    phase: Phase,
    /// The stream ends at `end`.
    last: bool,
    /// The first unacknowledged segment is to go again at once.
    retransmit_now: bool,
    /// The deadline is the persist timer's.
    persist: bool,
    /// A window probe is due.
    probe: bool,
    /// A tail loss probe is due.
    tail_due: bool,
    /// The next new segment carries CWR.
    cwr: bool,
    /// No partial ACK in this recovery yet.
    first_partial: bool,
    /// Time may pass `turn_at` or `tail_at`, too.
    pub(in crate::tcp) more_timers: bool,
    /// Congestion window and threshold.
    pub window: Window,
    dupacks: u32,
    /// Largest receive window seen.
    max_rwnd: u32,
    timed_at: Ps,
    /// Growth is allowed while ACKs are for data sent before this: the window was full then.
    limited: u64,
    last_send: Ps,
    board: Option<Box<Scoreboard>>,

    rto: Rto,
    congestion: Congestion,
    /// ECE before this offset is one event.
    ece_recover: u64,

    /// Whether the last timeout was spurious, and the window as it was before. This line holds all that every timeout and
    /// every retransmission touches.
    detector: Detector,
    before_timeout: Window,
    /// Loss events before this offset are one event (RFC 6582 §3.2).
    recover: u64,
    /// First unacknowledged byte at the last timeout, `u64::MAX` before the first.
    timed_out: u64,
    /// What was counted so far.
    pub counters: Counters,
    /// Segments sent again since the last timeout that no D-SACK has reported; `None` when a timeout cannot be undone by
    /// them.
    unreported: Option<u32>,
    /// Of two ACKs in a recovery with FACK, one has come.
    halving: bool,
    /// A window of data is over when this is acknowledged, for Linux's estimate of the RTT's variance.
    window_end: u64,
    /// When it is this sender's turn (M21TCP-A), [`Ps::NEVER`] while it does not wait for one.
    pub(in crate::tcp) turn_at: Ps,
    /// When silence calls for a tail loss probe (RFC 8985 §7), [`Ps::NEVER`] while it does not.
    pub(in crate::tcp) tail_at: Ps,
    /// M21TCP-A's cap, and whose turn it is when that is below a segment.
    cap: Option<m21::Cap>,
    /// The window as the last ACK came, where a cap does not cut it.
    kept: u32,
    turns: m21::Turns,
    /// Where the segment of the highest number begins: what a tail loss probe sends again.
    newest: u64,
    /// The last tail loss probe, and what recovery may send, with RACK.
    tail: Tail,
    prr: Prr,
    /// When each segment was sent, where each is timed.
    sent: Option<Box<SentLog>>,
    /// How fast segments arrive, where congestion control goes by that.
    rates: Option<Box<RateLog>>,
    /// At what rate segments leave, where they are paced; and when the next may, [`Ps::NEVER`] while none waits.
    pace: Option<Box<Pace>>,
    pub(in crate::tcp) pace_at: Ps,
}

impl Sender {
    /// Where, in bytes, what losses touch begins.
    pub(super) const RARELY_TOUCHED_FROM: usize = std::mem::offset_of!(Self, detector);
    /// Where what most losses touch ends.
    pub(super) const LOSSES_TOUCH_UP_TO: usize = std::mem::offset_of!(Self, unreported);

    pub(super) fn new(config: &TcpConfig, iss: u32) -> Self {
        Self {
            una: 0,
            nxt: 0,
            max: 0,
            end: 1,
            right: 0,
            window: Window { cwnd: config.initial_window.min(config.max_window), ssthresh: config.initial_ssthresh },
            phase: Phase::Open,
            last: false,
            retransmit_now: false,
            persist: false,
            probe: false,
            tail_due: false,
            cwr: false,
            first_partial: false,
            more_timers: config.has_rack() || config.cap.is_some() || config.paces,
            dupacks: 0,
            recover: 0,
            timed_out: u64::MAX,
            detector: Detector::new(config.spurious),
            before_timeout: Window { cwnd: 0, ssthresh: 0 },
            unreported: None,
            halving: false,
            window_end: 0,
            ece_recover: 0,
            limited: 0,
            timed_end: 0,
            timed_at: Ps::ZERO,
            deadline: Ps::NEVER,
            timeout: Ps::from_span(config.rto.initial),
            last_send: Ps::ZERO,
            rto: Rto::default(),
            congestion: Congestion::new(config),
            max_rwnd: 0,
            iss,
            peer_wscale: 0,
            counters: Counters::default(),
            board: config.sack.then(|| Box::new(Scoreboard::new(config.losses))),
            cap: config.cap,
            kept: 0,
            turns: m21::Turns::default(),
            turn_at: Ps::NEVER,
            tail_at: Ps::NEVER,
            newest: 0,
            tail: Tail::default(),
            prr: Prr::default(),
            sent: config.times_each_segment().then(Box::default),
            rates: config.models_path().then(Box::default),
            pace: config.paces.then(Box::default),
            pace_at: Ps::NEVER,
        }
    }

    /// Takes back what was written and not sent yet.
    pub fn truncate(&mut self) {
        self.end = self.end.min(self.max.max(1));
    }

    /// Bytes written and not sent yet.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        self.end.saturating_sub(self.max)
    }

    /// Whether the next segment is larger than what is left of the receive window.
    #[must_use]
    pub fn wants_window(&self, mss: u32) -> bool {
        self.end.min(self.max + u64::from(mss)) > self.right
    }

    pub(super) fn write(&mut self, bytes: u64, last: bool) {
        self.note_limit();
        self.end += bytes;
        self.last |= last;
    }

    /// Bytes sent and not acknowledged.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.nxt - self.una
    }

    /// The sequence number that stands for an offset.
    #[must_use]
    pub fn number(&self, offset: u64) -> SeqNumber {
        number_of(self.iss, offset)
    }

    /// Whether the stream was ended and all of it acknowledged, or nothing was ever sent.
    #[must_use]
    pub fn closed(&self) -> bool {
        self.max == 0 || self.last && self.una > self.end
    }

    /// Whether [`poll_chunk`](Self::poll_chunk) is certain to have nothing, of what it most often finds: all was sent and
    /// nothing is to be sent again, or the congestion window is full.
    #[inline]
    pub(super) fn is_quiet(&mut self, config: &TcpConfig) -> bool {
        if self.phase != Phase::Open || self.tail_due {
            return false;
        }
        let (limit, mss) = (self.limit(), u64::from(config.mss));
        if self.nxt >= limit {
            return true;
        }
        let flight = self.nxt - self.una;
        let full = flight > 0 && flight + mss.min(limit - self.nxt) > u64::from(self.window.cwnd);
        if full && self.dupacks == 0 && config.cap.is_none() {
            self.limited = self.nxt;
            return true;
        }
        false
    }

    /// What it sends within a time, by its congestion window and round-trip time, a fifth added as in Linux's pacing rate.
    pub(crate) fn bytes_in(&self, time: Ps) -> u64 {
        if let Some(bytes) = self.paced_bytes_in(time) {
            return bytes;
        }
        let srtt = u128::from(self.srtt().0.max(1));
        let bytes = u128::from(self.window.cwnd) * u128::from(time.0) * 6 / (5 * srtt);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Whether to wait for more room than there is, so that what is sent makes a burst of `segments` or of a third of the
    /// window, as Linux does (`tcp_tso_should_defer`): more ACKs are on their way. Repairs and the end of the data never wait.
    pub(crate) fn defers(&mut self, segments: u32, mss: u32) -> bool {
        if self.phase != Phase::Open || self.tail_due || self.nxt == self.una || self.nxt < self.max || self.dupacks > 0
        {
            return false;
        }
        let window = u64::from(self.window.cwnd).min(self.right.saturating_sub(self.una));
        let room = window.saturating_sub(self.nxt - self.una);
        let burst = (u64::from(segments) * u64::from(mss)).min(window / 3);
        let waits = room < burst && room < self.limit() - self.nxt;
        if waits {
            // The window is what limits: it may grow.
            self.limited = self.nxt;
        }
        waits
    }

    /// How long the timer runs from one (re)start on, backoff included.
    pub(crate) fn timeout(&self) -> Ps {
        self.timeout
    }

    fn srtt(&self) -> Ps {
        self.rto.srtt().map_or(Ps::ZERO, Ps::from_span)
    }

    /// After the last thing to send: the data, and FIN's phantom byte.
    #[inline]
    fn limit(&self) -> u64 {
        self.end + u64::from(self.last)
    }

    fn renew_timeout(&mut self, config: &TcpConfig, random: &mut Random) {
        let draw = if config.rto.spread > 0 { (random.bits() >> 32) as u32 } else { 0 };
        let lateness = Ps(random.up_to(config.timer_jitter.0));
        self.timeout = Ps::from_span(self.rto.timeout(&config.rto, draw)) + lateness;
    }

    /// A round-trip time was measured by the ACK of what is below `una`.
    fn sample(&mut self, rtt: Ps, una: u64, config: &TcpConfig, arrived: &mut Arrived) {
        self.rto.handle_sample(&config.rto, rtt.to_span());
        if config.rto.estimator == Estimator::Linux && una > self.window_end {
            self.rto.handle_window();
            self.window_end = self.max;
        }
        arrived.rtt = Some(rtt);
    }

    pub(super) fn sent_syn(&mut self, now: Ps, config: &TcpConfig, random: &mut Random) {
        if self.max == 0 {
            self.timed_end = 1;
            self.timed_at = now;
        }
        self.nxt = 1;
        self.max = 1;
        self.renew_timeout(config, random);
        self.deadline = now + self.timeout;
    }

    pub(super) fn handle_syn_timeout(&mut self, config: &TcpConfig) {
        self.rto.handle_timeout(&config.rto);
        self.timed_end = 0;
        // RFC 5681 §3.1: after a lost SYN the first window is one segment.
        self.window.cwnd = config.mss;
    }

    pub(super) fn establish(
        &mut self,
        now: Ps,
        packet: &Packet,
        window: u64,
        config: &TcpConfig,
        random: &mut Random,
        arrived: &mut Arrived,
    ) {
        self.una = 1;
        self.nxt = 1;
        if let Some(board) = &mut self.board {
            board.advance(1);
        }
        self.deadline = Ps::NEVER;
        if config.times_by_timestamps() {
            let rtt = Ps::micros(u64::from(config.timestamp(now).wrapping_sub(packet.timestamps.1)));
            self.sample(rtt, 1, config, arrived);
        } else if self.timed_end > 0 {
            self.sample(now - self.timed_at, 1, config, arrived);
        }
        self.timed_end = 0;
        self.rto.handle_progress();
        self.renew_timeout(config, random);
        self.right = 1 + window;
        self.max_rwnd = u32::try_from(window).unwrap_or(u32::MAX);
        self.last_send = now;
        self.begin_pace(now, config);
    }
}
