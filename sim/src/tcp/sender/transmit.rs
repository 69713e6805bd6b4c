//! What may be sent now: retransmissions first, then what the windows leave room for.

use ackgate_control::m21::Allowance;
use ackgate_control::segment::Flags;
use ackgate_control::units::Span;

use super::{Phase, Sender};
use crate::engine::{Ps, Random};
use crate::net::Packet;
use crate::tcp::config::TcpConfig;

/// The persist timer's least time, which also overrides silly-window avoidance: RFC 9293 §3.8.6.2.1 says 0.1 to 1 s, and Linux takes
/// 200 ms, however short its retransmission timeout is.
const LEAST_PERSIST: Ps = Ps::from_span(Span::millis(200));

/// A piece of the stream to send.
#[derive(Clone, Copy, Debug)]
pub(in crate::tcp) struct Chunk {
    pub(in crate::tcp) start: u64,
    pub(in crate::tcp) len: u16,
    pub(in crate::tcp) flags: Flags,
    pub(in crate::tcp) bits: u8,
}

/// Whether there was anything to repair.
enum Repair {
    /// What was lost comes first: this piece, or nothing now.
    Done(Option<Chunk>),
    /// No: what the window lets through.
    None,
}

impl Sender {
    /// The next piece to send now.
    #[inline(always)]
    pub(in crate::tcp) fn poll_chunk(&mut self, now: Ps, config: &TcpConfig, random: &mut Random) -> Option<Chunk> {
        if config.paces && !self.tail_due && !self.has_pace(now, config) {
            return None;
        }
        if (self.phase != Phase::Open || self.tail_due)
            && let Repair::Done(chunk) = self.poll_repair(now, config, random)
        {
            return chunk;
        }
        if self.nxt >= self.limit() {
            return None;
        }
        if config.cap.is_some() {
            self.cap_window(config);
            if let Allowance::Every(rounds) = self.allowance(config)
                && self.nxt == self.una
                && self.nxt == self.max
                && !self.has_turn(now, rounds, random)
            {
                return None;
            }
        }
        let new_data = self.phase == Phase::Open;
        let sends_again = self.phase == Phase::Loss && config.limited_transmit_resends;
        let limited_transmit = config.limited_transmit && self.dupacks > 0 && (new_data || sends_again);
        let mut flight = self.nxt - self.una;
        if flight == 0 {
            if config.idle_restart {
                self.restart_if_idle(now, config);
            }
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

    /// What recovery and timeouts send before anything else.
    #[inline(never)]
    fn poll_repair(&mut self, now: Ps, config: &TcpConfig, random: &mut Random) -> Repair {
        if self.tail_due {
            return Repair::Done(self.poll_tail(now, config, random));
        }
        if self.retransmit_now {
            self.retransmit_now = false;
            let mut end = self.max.min(self.una + u64::from(config.mss));
            if let Some(board) = &mut self.board {
                end = board.hole(self.una, end).1;
                board.high_rxt = board.high_rxt.max(end);
                board.note_sent(self.una, end, self.max);
                self.prr.out += end - self.una;
            }
            return Repair::Done(Some(self.send(now, self.una, end, config, random)));
        }
        if self.phase == Phase::Recovery && self.board.is_some() {
            return Repair::Done(self.poll_recovery(now, config, random));
        }
        if self.phase == Phase::Loss
            && let Some(board) = &self.board
            && self.nxt < self.max
        {
            self.nxt = board.hole(self.nxt, self.max).0;
        }
        Repair::None
    }

    /// RFC 6675 §5 step C: while a segment fits between pipe and window, the next one by NextSeg.
    fn poll_recovery(&mut self, now: Ps, config: &TcpConfig, random: &mut Random) -> Option<Chunk> {
        let limit = self.limit();
        let board = self.board.as_mut()?;
        let mss = u64::from(config.mss);
        if board.pipe(self.una, self.max, config.mss) + mss > u64::from(self.window.cwnd) {
            return None;
        }
        if board.tracks() {
            return self.poll_tracked(now, config, random);
        }
        let from = board.high_rxt.max(self.una);
        let (start, hole_end) = board.hole(from, self.max);
        let end = hole_end.min(start + mss);
        let below_sacked = start < board.highest() && start < end;
        // Rule 1: a lost hole. Rule 2: new data. Rule 3: a hole that is not known to be lost. Rule 4: once in a recovery,
        // the end of what is outstanding, since nothing behind it could tell of its loss.
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
        let board = self.board.as_mut()?;
        let (hole, end) = board.last_hole(self.una, self.max);
        if self.una > board.rescue_rxt && hole < end {
            board.rescue_rxt = self.recover;
            return Some(self.send(now, hole.max(end.saturating_sub(mss)), end, config, random));
        }
        None
    }

    /// The same with RACK: what is lost, then new data (RFC 8985 §6); and with FACK, then what is missing, as in Linux.
    fn poll_tracked(&mut self, now: Ps, config: &TcpConfig, random: &mut Random) -> Option<Chunk> {
        let limit = self.limit();
        let board = self.board.as_mut()?;
        let (start, end) = match board.next_lost(self.una, config.mss) {
            Some(piece) => piece,
            None if self.max < limit => {
                self.nxt = self.max;
                let end = limit.min(self.max + u64::from(config.mss));
                if end > self.right {
                    return None;
                }
                (self.max, end)
            }
            None if board.is_fack() => board.next_missing(self.una, board.highest(), config.mss)?,
            None => return None,
        };
        // With FACK new data is in the network once, and what is sent again perhaps twice.
        if start < self.max || !board.is_fack() {
            board.note_sent(start, end, self.max);
        }
        self.prr.out += end - start;
        Some(self.send(now, start, end, config, random))
    }

    /// RFC 5681 §4.1, or RFC 2861 §3.
    fn restart_if_idle(&mut self, now: Ps, config: &TcpConfig) {
        let idle = now - self.last_send;
        if self.una != self.max || idle <= self.timeout {
            return;
        }
        let restart = self.window.cwnd.min(config.initial_window);
        if config.idle_halving {
            self.window.ssthresh = self.window.three_quarters();
            let halvings = ((idle.0 - 1) / self.timeout.0.max(1)).min(31);
            self.window.cwnd = (self.window.cwnd >> halvings).max(restart);
            self.last_send = now;
        } else {
            self.window.cwnd = restart;
        }
    }

    /// Cuts a piece that would end at `end` to the receive window, unless that would be silly.
    #[inline]
    fn fit_receive_window(&mut self, now: Ps, end: u64, config: &TcpConfig, random: &mut Random) -> Option<u64> {
        if end <= self.right || self.nxt < self.max {
            return Some(end);
        }
        self.cut_to_receive_window(now, config, random)
    }

    /// What is left of a piece that the receive window cuts.
    #[inline(never)]
    fn cut_to_receive_window(&mut self, now: Ps, config: &TcpConfig, random: &mut Random) -> Option<u64> {
        let usable = self.right.saturating_sub(self.nxt);
        if usable > 0 && (usable >= u64::from(self.max_rwnd / 2) || self.probe) {
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
        self.deadline = now + self.timeout.max(LEAST_PERSIST);
    }

    /// Whether no window has room for another segment after `end`.
    fn ends_burst(&self, end: u64, mss: u32) -> bool {
        let next = end + u64::from(mss);
        next > self.una + u64::from(self.window.cwnd) || next.min(self.limit()) > self.right
    }

    /// Accounts for `start..end` as sent.
    #[inline]
    pub(super) fn send(&mut self, now: Ps, start: u64, end: u64, config: &TcpConfig, random: &mut Random) -> Chunk {
        if start == end {
            // Window probe: an old number, no data.
            return Chunk { start: start - 1, len: 0, flags: Flags::ACK, bits: 0 };
        }
        if config.paces {
            self.note_sent(now, start, end, config, random);
        }
        let data_end = end.min(self.end);
        let len = (data_end - start.min(data_end)) as u16;
        let mut flags = Flags::ACK;
        let mut bits = 0;
        if end > self.end {
            flags |= Flags::FIN;
        }
        if len > 0 && (end >= self.end || (config.push_bursts && self.ends_burst(end, config.mss))) {
            flags |= Flags::PSH;
        }
        if start < self.max {
            bits |= Packet::RETRANSMISSION;
            if config.dsack {
                self.unreported = self.unreported.map(|count| count + 1);
            }
            if self.detector.is_waiting() {
                self.detector.handle_retransmission(config.timestamp(now));
            }
            if let Some(log) = &mut self.sent {
                log.handle_resent(start, end);
            }
            if len > 0 {
                self.counters.retransmits += 1;
                self.counters.fast_retransmits += u64::from(self.phase == Phase::Recovery);
            }
        } else {
            if config.cap.is_some() {
                self.turns.handle_sent(now.to_time());
            }
            if self.timed_end == 0 {
                self.timed_end = end;
                self.timed_at = now;
            }
            if let Some(log) = &mut self.sent {
                log.handle_sent(now, end);
            }
            if self.more_timers {
                self.newest = start;
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
        if config.has_rack() {
            self.watch_tail(now, config);
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
