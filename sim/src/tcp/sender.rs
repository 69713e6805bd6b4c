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

use ackgate_control::m21::{self, Allowance};
use ackgate_control::rto::Rto;
use ackgate_control::segment::Flags;
use ackgate_control::seq::SeqNumber;
use ackgate_control::spurious::{Detector, Meaning, Method};

use super::config::TcpConfig;
use super::congestion::{Acked, Congestion, Window};
use super::endpoint::{Arrived, timestamp};
use super::sack::{DUP_THRESH, Scoreboard};
use super::{number_of, offset_near};
use crate::engine::{Ps, Random};
use crate::net::Packet;

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

/// A piece of the stream to send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub(super) start: u64,
    pub(super) len: u16,
    pub(super) flags: Flags,
    pub(super) bits: u8,
}

/// The sending half of an endpoint. Laid out by how often things are touched: the first lines by every ACK and every
/// segment, the last by losses.
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
    pub(super) deadline: Ps,
    timeout: Ps,
    /// The segment that is being timed ends here, 0 when none is.
    timed_end: u64,
    timed_at: Ps,
    /// Growth is allowed while ACKs are for data sent before this: the window was full then.
    limited: u64,
    last_send: Ps,
    /// Congestion window and threshold.
    pub window: Window,
    pub(super) iss: u32,
    dupacks: u32,
    /// Shift of the peer's window field.
    pub(super) peer_wscale: u8,
    phase: Phase,
    /// The stream ends at `end`.
    last: bool,
    /// The first unacknowledged segment is to go again at once.
    retransmit_now: bool,
    /// The deadline is the persist timer's.
    persist: bool,
    /// A window probe is due.
    probe: bool,
    /// The next new segment carries CWR.
    cwr: bool,
    /// No partial ACK in this recovery yet.
    first_partial: bool,
    board: Option<Box<Scoreboard>>,
    /// When it is this sender's turn (M21TCP-A), [`Ps::NEVER`] while it does not wait for one.
    pub(super) turn_at: Ps,
    rto: Rto,
    /// Largest receive window seen.
    max_rwnd: u64,
    congestion: Congestion,
    /// M21TCP-A's cap, and whose turn it is when that is below a segment.
    cap: Option<m21::Cap>,
    turns: m21::Turns,
    /// Loss events before this offset are one event (RFC 6582 §3.2).
    recover: u64,
    /// First unacknowledged byte at the last timeout, `u64::MAX` before the first.
    timed_out: u64,
    /// Whether the last timeout was spurious, and the window as it was before.
    detector: Detector,
    before_timeout: Window,
    /// ECE before this offset is one event.
    ece_recover: u64,
    /// What was counted so far.
    pub counters: Counters,
}

impl Sender {
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
            cwr: false,
            first_partial: false,
            dupacks: 0,
            recover: 0,
            timed_out: u64::MAX,
            detector: Detector::new(config.spurious),
            before_timeout: Window { cwnd: 0, ssthresh: 0 },
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
            board: config.sack.then(Box::default),
            cap: config.cap,
            turns: m21::Turns::default(),
            turn_at: Ps::NEVER,
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

    pub(super) fn write(&mut self, bytes: u64, last: bool) {
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

    fn srtt(&self) -> Ps {
        self.rto.srtt().map_or(Ps::ZERO, Ps::from_span)
    }

    fn renew_timeout(&mut self, config: &TcpConfig, random: &mut Random) {
        let draw = if config.rto.spread > 0 { (random.bits() >> 32) as u32 } else { 0 };
        let lateness = Ps(random.up_to(config.timer_jitter.0));
        self.timeout = Ps::from_span(self.rto.timeout(&config.rto, draw)) + lateness;
    }

    fn sample(&mut self, rtt: Ps, config: &TcpConfig, arrived: &mut Arrived) {
        self.rto.handle_sample(&config.rto, rtt.to_span());
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
        self.deadline = Ps::NEVER;
        if packet.is(Packet::TIMESTAMPS) {
            self.sample(Ps::micros(u64::from(timestamp(now).wrapping_sub(packet.timestamps.1))), config, arrived);
        } else if self.timed_end > 0 {
            self.sample(now - self.timed_at, config, arrived);
        }
        self.timed_end = 0;
        self.rto.handle_progress();
        self.renew_timeout(config, random);
        self.right = 1 + window;
        self.max_rwnd = window;
        self.last_send = now;
    }

    /// M21TCP-A: an ACK echoes how many senders there are.
    #[inline]
    pub(super) fn handle_number(&mut self, senders: u32) {
        if let Some(cap) = &mut self.cap {
            cap.handle_ack(senders);
        }
    }

    fn allowance(&self, config: &TcpConfig) -> Allowance {
        self.cap.map_or(Allowance::Unlimited, |cap| cap.allowance(config.mss))
    }

    /// M21TCP-A Eq. 2: the congestion window is the smaller of its own and the cap.
    fn cap_window(&mut self, config: &TcpConfig) {
        let cap = match self.allowance(config) {
            Allowance::Unlimited => return,
            Allowance::Window(bytes) => bytes.max(config.mss),
            Allowance::Every(_) => config.mss,
        };
        self.window.cwnd = self.window.cwnd.min(cap);
    }

    /// Whether it is this sender's turn to send one segment of new data; else it has been noted when.
    fn has_turn(&mut self, now: Ps, rounds: m21::Rounds, random: &mut Random) -> bool {
        let draw = (random.bits() >> 32) as u32;
        let turn = Ps::from_time(self.turns.next(now.to_time(), rounds.period(self.srtt().to_span()), draw));
        if turn > now {
            self.turn_at = turn;
        }
        turn <= now
    }

    #[inline]
    pub(super) fn handle_ack(
        &mut self,
        now: Ps,
        packet: &Packet,
        ack: u64,
        config: &TcpConfig,
        random: &mut Random,
        arrived: &mut Arrived,
    ) {
        if ack < self.una || ack > self.max {
            return;
        }
        let window = u64::from(packet.window) << self.peer_wscale;
        let edge = ack + window;
        let window_changed = edge != self.right;
        if ack > self.una || edge > self.right {
            self.right = edge;
            self.max_rwnd = self.max_rwnd.max(window);
            if self.persist {
                self.persist = false;
                self.deadline = Ps::NEVER;
                self.rto.handle_progress();
            }
        }
        let news = packet.sack_len > 0 && self.read_sack(packet, ack);
        if ack > self.una {
            self.advance(now, packet, ack, config, random, arrived);
        } else if self.una < self.max && packet.payload == 0 && !packet.flags.has(Flags::FIN) {
            // RFC 5681 §2: same number, no data, no news of the window; with SACK, news of what arrived (RFC 6675 §2).
            let duplicate = if config.sack { news } else { !window_changed };
            if duplicate {
                self.handle_duplicate(packet, config);
            }
        }
        if packet.flags.has(Flags::ECE) && config.ecn && self.una > self.ece_recover && self.phase == Phase::Open {
            self.window.ssthresh = self.congestion.after_ece(&self.window, self.in_flight() + arrived.acked, config);
            self.window.cwnd = self.window.ssthresh.max(config.mss);
            self.ece_recover = self.nxt;
            self.cwr = true;
        }
        if self.cap.is_some() && self.phase != Phase::Recovery {
            self.cap_window(config);
        }
    }

    fn read_sack(&mut self, packet: &Packet, ack: u64) -> bool {
        let Some(board) = &mut self.board else { return false };
        let mut news = false;
        for &(from, to) in &packet.sack[..usize::from(packet.sack_len)] {
            let (from, to) = (offset_near(ack, self.iss, from), offset_near(ack, self.iss, to));
            if to <= self.max {
                news |= board.insert(ack, from, to);
            }
        }
        news
    }

    #[inline]
    fn advance(
        &mut self,
        now: Ps,
        packet: &Packet,
        ack: u64,
        config: &TcpConfig,
        random: &mut Random,
        arrived: &mut Arrived,
    ) {
        let before = self.una;
        let bytes = ack - before;
        arrived.acked = bytes;
        if packet.is(Packet::TIMESTAMPS) {
            self.sample(
                Ps::micros(u64::from(timestamp(now).wrapping_sub(packet.timestamps.1)).max(1)),
                config,
                arrived,
            );
        } else if self.timed_end > 0 && ack >= self.timed_end {
            self.sample(now - self.timed_at, config, arrived);
            self.timed_end = 0;
        }
        if arrived.rtt.is_some() || self.rto.backed_off() || config.random_timers() {
            if arrived.rtt.is_some() || !config.backoff_until_sample {
                self.rto.handle_progress();
            }
            self.renew_timeout(config, random);
        }
        self.una = ack;
        self.nxt = self.nxt.max(ack);
        if let Some(board) = &mut self.board {
            board.advance(ack);
        }
        let acked = Acked {
            now,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            ece: packet.flags.has(Flags::ECE),
            srtt: if matches!(self.congestion, Congestion::Cubic(_)) { self.srtt() } else { Ps::ZERO },
        };
        self.congestion.observe(&acked, ack, self.nxt, config);
        let mut restart = true;
        match self.phase {
            Phase::Open => {
                self.dupacks = 0;
                self.grow(before, &acked, config);
            }
            Phase::Loss => {
                self.dupacks = 0;
                let meaning = if self.detector.is_waiting() { self.judge(packet, true) } else { Meaning::Lost };
                if ack >= self.recover {
                    self.phase = Phase::Open;
                }
                match meaning {
                    Meaning::Spurious => self.undo_timeout(acked.bytes, config),
                    Meaning::TryNew => {
                        // RFC 5682 §2.1 step 2b: two new segments, and nothing is sent again meanwhile.
                        self.nxt = self.max;
                        let flight = u32::try_from(self.in_flight()).unwrap_or(u32::MAX);
                        self.window.cwnd = flight.saturating_add(2 * config.mss);
                    }
                    Meaning::Lost | Meaning::LostAfterAll => self.grow(before, &acked, config),
                }
            }
            Phase::Recovery if ack >= self.recover => {
                // RFC 6582 §3.2 step 3, first variant: no burst when little is in flight.
                if self.board.is_none() {
                    let flight = u32::try_from(self.in_flight()).unwrap_or(u32::MAX).max(config.mss);
                    self.window.cwnd = self.window.ssthresh.min(flight.saturating_add(config.mss));
                } else {
                    self.window.cwnd = self.window.ssthresh;
                }
                self.phase = Phase::Open;
                self.dupacks = 0;
            }
            Phase::Recovery => {
                // A partial ACK: the next hole was lost too.
                if self.board.is_none() {
                    self.retransmit_now = true;
                    let deflated = self.window.cwnd.saturating_sub(acked.bytes);
                    let back = if acked.bytes >= config.mss { config.mss } else { 0 };
                    self.window.cwnd = (deflated + back).max(config.mss);
                }
                // Only the first restarts the timer: many holes are better left to a timeout ("impatient").
                restart = self.first_partial || self.board.is_some();
                self.first_partial = false;
            }
        }
        if self.una >= self.max {
            self.deadline = Ps::NEVER;
        } else if restart {
            self.deadline = now + self.timeout;
        }
    }

    #[inline]
    fn grow(&mut self, before: u64, acked: &Acked, config: &TcpConfig) {
        if (before < self.limited || !config.validate_window) && !acked.ece {
            self.congestion.grow(&mut self.window, acked, config);
        }
    }

    fn handle_duplicate(&mut self, packet: &Packet, config: &TcpConfig) {
        self.dupacks += 1;
        match self.phase {
            Phase::Open => {
                let lost = self.dupacks >= DUP_THRESH
                    || self.board.as_ref().is_some_and(|board| board.lost_below(config.mss) > self.una);
                if lost && self.una > self.recover {
                    self.enter_recovery(config);
                }
            }
            // Each means that a segment has left the network.
            Phase::Recovery if self.board.is_none() => {
                self.window.cwnd = self.window.cwnd.saturating_add(config.mss);
            }
            Phase::Loss => {
                if self.detector.is_waiting() && self.judge(packet, false) == Meaning::LostAfterAll {
                    // RFC 5682 §2.1 step 3a.
                    self.nxt = self.una;
                    self.window.cwnd = 3 * config.mss;
                }
            }
            Phase::Recovery => {}
        }
    }

    /// What an ACK tells about the last timeout.
    fn judge(&mut self, packet: &Packet, advances: bool) -> Meaning {
        let echo = packet.is(Packet::TIMESTAMPS).then_some(packet.timestamps.1);
        let more = self.max < self.limit() && self.max < self.right;
        self.detector.handle_ack(advances, self.una >= self.recover, more, echo)
    }

    /// Nothing was lost: goes on after what has been sent. F-RTO keeps the halved threshold for a window (Vasudevan §3.2),
    /// Eifel restores both, without a burst (RFC 4015 §3.2).
    fn undo_timeout(&mut self, bytes: u32, config: &TcpConfig) {
        self.counters.undone += 1;
        self.nxt = self.max;
        self.phase = Phase::Open;
        self.timed_out = u64::MAX;
        if config.spurious == Method::Eifel {
            let flight = u32::try_from(self.in_flight()).unwrap_or(u32::MAX);
            let no_burst = flight.saturating_add(bytes.min(config.initial_window));
            self.window.ssthresh = self.before_timeout.ssthresh;
            self.window.cwnd = self.before_timeout.cwnd.min(no_burst).max(config.mss);
        } else {
            self.window.cwnd = self.window.ssthresh;
        }
    }

    fn enter_recovery(&mut self, config: &TcpConfig) {
        self.window.ssthresh = self.congestion.after_loss(&self.window, self.in_flight(), config);
        self.phase = Phase::Recovery;
        self.recover = self.max;
        self.ece_recover = self.max;
        self.cwr = config.ecn;
        self.retransmit_now = true;
        self.first_partial = true;
        self.timed_end = 0;
        if let Some(board) = &mut self.board {
            self.window.cwnd = self.window.ssthresh;
            board.high_rxt = self.una;
        } else {
            self.window.cwnd = self.window.ssthresh.saturating_add(DUP_THRESH * config.mss);
        }
    }

    /// Returns whether it was a retransmission timeout (and not the persist timer).
    pub(super) fn handle_timeout(&mut self, config: &TcpConfig) -> bool {
        if self.persist {
            self.rto.handle_timeout(&config.rto);
            self.persist = false;
            self.probe = true;
            return false;
        }
        if self.una >= self.max {
            return false;
        }
        // RFC 5681 §3.1: a segment that times out again does not halve the threshold again.
        if self.una != self.timed_out {
            self.before_timeout = self.window;
            let flight = self.max - self.una;
            self.window.ssthresh = self.congestion.after_timeout(&self.window, flight, config);
        }
        self.timed_out = self.una;
        self.rto.handle_timeout(&config.rto);
        self.detector.handle_timeout();
        self.window.cwnd = config.mss;
        self.phase = Phase::Loss;
        self.recover = self.max;
        self.ece_recover = self.max;
        self.cwr = config.ecn;
        self.nxt = self.una;
        self.dupacks = 0;
        self.timed_end = 0;
        self.retransmit_now = false;
        true
    }

    /// After the last thing to send: the data, and FIN's phantom byte.
    #[inline]
    fn limit(&self) -> u64 {
        self.end + u64::from(self.last)
    }

    /// The next piece to send now.
    #[inline]
    pub(super) fn poll_chunk(&mut self, now: Ps, config: &TcpConfig, random: &mut Random) -> Option<Chunk> {
        if self.retransmit_now {
            self.retransmit_now = false;
            let end = self.max.min(self.una + u64::from(config.mss));
            if let Some(board) = &mut self.board {
                let (_, hole_end) = board.hole(self.una, end);
                board.high_rxt = board.high_rxt.max(hole_end);
                return Some(self.send(now, self.una, hole_end, config, random));
            }
            return Some(self.send(now, self.una, end, config, random));
        }
        if self.phase == Phase::Recovery && self.board.is_some() {
            return self.poll_recovery(now, config, random);
        }
        if self.phase == Phase::Loss
            && let Some(board) = &self.board
            && self.nxt < self.max
        {
            self.nxt = board.hole(self.nxt, self.max).0;
        }
        if self.nxt >= self.limit() {
            return None;
        }
        if self.cap.is_some() {
            self.cap_window(config);
            if let Allowance::Every(rounds) = self.allowance(config)
                && self.nxt == self.una
                && self.nxt == self.max
                && !self.has_turn(now, rounds, random)
            {
                return None;
            }
        }
        let limited_transmit = self.phase == Phase::Open && self.dupacks > 0 && config.limited_transmit;
        let mut flight = self.nxt - self.una;
        if flight == 0 {
            self.restart_if_idle(now, config);
        } else if let Some(board) = &self.board
            && (limited_transmit || self.phase == Phase::Loss)
        {
            // RFC 6675 §5 step 3: with SACK, Limited Transmit is what the pipe leaves room for.
            flight -= board.bytes_below(self.nxt);
        }
        let mut allowed = u64::from(self.window.cwnd);
        if limited_transmit && self.board.is_none() {
            allowed += u64::from(self.dupacks.min(2) * config.mss);
        }
        let mut end = self.limit().min(self.nxt + u64::from(config.mss));
        if self.phase == Phase::Loss
            && let Some(board) = &self.board
            && self.nxt < self.max
        {
            end = end.min(board.hole(self.nxt, self.max).1);
        }
        if flight + (end - self.nxt) > allowed {
            self.limited = self.nxt;
            return None;
        }
        let end = self.fit_receive_window(now, end, config, random)?;
        Some(self.send(now, self.nxt, end, config, random))
    }

    /// RFC 6675 §5 step C: while a segment fits between pipe and window, the next one by NextSeg.
    fn poll_recovery(&mut self, now: Ps, config: &TcpConfig, random: &mut Random) -> Option<Chunk> {
        let limit = self.limit();
        let board = self.board.as_mut()?;
        let mss = u64::from(config.mss);
        if board.pipe(self.una, self.max, config.mss) + mss > u64::from(self.window.cwnd) {
            return None;
        }
        let from = board.high_rxt.max(self.una);
        let (start, hole_end) = board.hole(from, self.max);
        let end = hole_end.min(start + mss);
        let below_sacked = start < board.highest() && start < end;
        // Rule 1: a lost hole. Rule 2: new data. Rule 3: a hole that is not known to be lost.
        if below_sacked && start < board.lost_below(config.mss) {
            board.high_rxt = end;
            return Some(self.send(now, start, end, config, random));
        }
        if self.max < limit {
            self.nxt = self.max;
            let end = limit.min(self.nxt + mss);
            if end <= self.right {
                return Some(self.send(now, self.nxt, end, config, random));
            }
        }
        if below_sacked {
            self.board.as_mut()?.high_rxt = end;
            return Some(self.send(now, start, end, config, random));
        }
        None
    }

    /// RFC 5681 §4.1.
    fn restart_if_idle(&mut self, now: Ps, config: &TcpConfig) {
        if config.idle_restart && self.una == self.max && now - self.last_send > self.timeout {
            self.window.cwnd = self.window.cwnd.min(config.initial_window);
        }
    }

    /// Cuts a piece that would end at `end` to the receive window, unless that would be silly.
    #[inline]
    fn fit_receive_window(&mut self, now: Ps, end: u64, config: &TcpConfig, random: &mut Random) -> Option<u64> {
        if end <= self.right || self.nxt < self.max {
            return Some(end);
        }
        let usable = self.right.saturating_sub(self.nxt);
        if usable > 0 && (usable >= self.max_rwnd / 2 || self.probe) {
            self.probe = false;
            return Some(self.nxt + usable);
        }
        if self.probe {
            // A closed window: a segment outside of it makes the receiver say where it stands.
            self.probe = false;
            self.arm_persist(now, config, random);
            return Some(self.nxt);
        }
        if self.una == self.max && self.deadline == Ps::NEVER {
            self.arm_persist(now, config, random);
        }
        None
    }

    fn arm_persist(&mut self, now: Ps, config: &TcpConfig, random: &mut Random) {
        self.persist = true;
        self.renew_timeout(config, random);
        self.deadline = now + self.timeout;
    }

    /// Accounts for `start..end` as sent.
    #[inline]
    fn send(&mut self, now: Ps, start: u64, end: u64, config: &TcpConfig, random: &mut Random) -> Chunk {
        if start == end {
            // Window probe: an old number, no data.
            return Chunk { start: start - 1, len: 0, flags: Flags::ACK, bits: 0 };
        }
        let data_end = end.min(self.end);
        let len = (data_end - start.min(data_end)) as u16;
        let mut flags = Flags::ACK;
        let mut bits = 0;
        if end > self.end {
            flags |= Flags::FIN;
        }
        if len > 0 && end >= self.end {
            flags |= Flags::PSH;
        }
        if start < self.max {
            bits |= Packet::RETRANSMISSION;
            if self.detector.is_waiting() {
                self.detector.handle_retransmission(timestamp(now));
            }
            if len > 0 {
                self.counters.retransmits += 1;
                self.counters.fast_retransmits += u64::from(self.phase == Phase::Recovery);
            }
        } else {
            if self.cap.is_some() {
                self.turns.handle_sent(now.to_time());
            }
            if self.timed_end == 0 {
                self.timed_end = end;
                self.timed_at = now;
            }
            if self.cwr && len > 0 {
                flags |= Flags::CWR;
                self.cwr = false;
            }
            if config.ecn && len > 0 {
                bits |= Packet::ECT;
            }
        }
        if start == self.nxt {
            self.nxt = end;
            self.max = self.max.max(end);
        }
        if self.deadline == Ps::NEVER || self.persist {
            self.persist = false;
            self.renew_if_backed_off(config, random);
            self.deadline = now + self.timeout;
        }
        self.last_send = now;
        Chunk { start, len, flags, bits }
    }

    #[inline]
    fn renew_if_backed_off(&mut self, config: &TcpConfig, random: &mut Random) {
        if self.rto.backed_off() {
            self.renew_timeout(config, random);
        }
    }
}
