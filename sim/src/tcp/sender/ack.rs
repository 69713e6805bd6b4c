//! What an ACK does: it moves the window, says what arrived, or tells of a loss by telling nothing new.

use ackgate_control::segment::Flags;
use ackgate_control::spurious::{Meaning, Method};

use super::sent::Measured;
use super::{Phase, Sender};
use crate::engine::{Ps, Random};
use crate::net::Packet;
use crate::tcp::config::TcpConfig;
use crate::tcp::congestion::{Acked, Congestion};
use crate::tcp::endpoint::Arrived;
use crate::tcp::offset_near;
use crate::tcp::sack::{DUP_THRESH, Losses};

impl Sender {
    #[inline(always)]
    pub(in crate::tcp) fn handle_ack(
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
        if ack == self.max && edge == self.right && self.says_nothing(packet, ack, config) {
            return;
        }
        let before = config.models_path().then(|| self.in_network(config));
        let window_changed = edge != self.right;
        if ack > self.una || edge > self.right {
            self.right = edge;
            self.max_rwnd = self.max_rwnd.max(u32::try_from(window).unwrap_or(u32::MAX));
            if self.persist {
                self.persist = false;
                self.deadline = Ps::NEVER;
                self.rto.handle_progress();
            }
        }
        let doubtful = self.phase != Phase::Open;
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
            self.window = self.congestion.after_ece(&self.window, self.in_flight() + arrived.acked, config);
            self.ece_recover = self.nxt;
            self.cwr = true;
        }
        if config.losses == Losses::Fack {
            self.handle_fack(news, arrived.acked > 0, doubtful, config);
        }
        if config.has_rack() {
            self.handle_rack(now, packet, ack, arrived.acked > 0, config);
        }
        if config.paces {
            self.handle_rate(now, packet, before, arrived.rtt, config, random);
        }
        if config.cap.is_some() && self.phase != Phase::Recovery {
            self.cap_window(config);
        }
    }

    /// Whether the acknowledgement in a packet is news to nobody, as in what comes from a peer that is only sending.
    #[inline]
    fn says_nothing(&self, packet: &Packet, ack: u64, config: &TcpConfig) -> bool {
        ack == self.una
            && packet.sack_len == 0
            && !packet.flags.has(Flags::ECE)
            && config.cap.is_none()
            && !config.has_rack()
    }

    #[inline(never)]
    fn read_sack(&mut self, packet: &Packet, ack: u64) -> bool {
        let Some(board) = &mut self.board else { return false };
        let mut news = false;
        for &(from, to) in &packet.sack[..usize::from(packet.sack_len)] {
            let (from, to) = (offset_near(ack, self.iss, from), offset_near(ack, self.iss, to));
            if to <= ack {
                self.unreported = self.unreported.map(|count| count.saturating_sub(1));
            } else if to <= self.max {
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
        if config.times_by_timestamps() {
            let rtt = Ps::micros(u64::from(config.timestamp(now).wrapping_sub(packet.timestamps.1)).max(1));
            self.sample(rtt, ack, config, arrived);
        } else if config.times_each_segment() {
            self.time_segments(now, packet, ack, config, arrived);
        } else if self.timed_end > 0 && ack >= self.timed_end {
            self.sample(now - self.timed_at, ack, config, arrived);
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
        let restart = if self.phase == Phase::Open {
            self.dupacks = 0;
            self.grow(before, &acked, config);
            true
        } else {
            self.advance_after_loss(packet, ack, before, &acked, config)
        };
        if self.una >= self.max {
            self.deadline = Ps::NEVER;
        } else if restart {
            self.deadline = now + self.timeout;
        }
    }

    /// As Linux does (`tcp_ack_update_rtt`): where segments were sent twice, a timestamp tells which was acknowledged, however coarse.
    #[inline(never)]
    fn time_segments(&mut self, now: Ps, packet: &Packet, ack: u64, config: &TcpConfig, arrived: &mut Arrived) {
        let measured = self.sent.as_mut().map_or(Measured::Nothing, |log| log.handle_ack(now, ack));
        let rtt = match measured {
            Measured::Rtt(rtt) => rtt,
            Measured::Ambiguous => {
                let ticks = config.timestamp(now).wrapping_sub(packet.timestamps.1).max(1);
                Ps(u64::from(ticks).saturating_mul(config.timestamp_clock.0))
            }
            Measured::Nothing => return,
        };
        self.sample(rtt, ack, config, arrived);
    }

    /// An ACK of new data after a loss: whether it restarts the timer.
    #[inline(never)]
    fn advance_after_loss(
        &mut self,
        packet: &Packet,
        ack: u64,
        before: u64,
        acked: &Acked,
        config: &TcpConfig,
    ) -> bool {
        match self.phase {
            Phase::Open => {}
            Phase::Loss => {
                self.dupacks = 0;
                let meaning = if self.detector.is_waiting() { self.judge(packet, true) } else { Meaning::Lost };
                if ack >= self.recover {
                    self.phase = Phase::Open;
                    if config.dsack && self.unreported.take() == Some(0) {
                        self.restore_threshold();
                    }
                }
                match meaning {
                    Meaning::Spurious => self.undo_timeout(acked.bytes, config),
                    Meaning::TryNew => {
                        // RFC 5682 §2.1 step 2b: two new segments, and nothing is sent again meanwhile.
                        self.nxt = self.max;
                        let flight = u32::try_from(self.in_flight()).unwrap_or(u32::MAX);
                        self.window.cwnd = flight.saturating_add(2 * config.mss);
                    }
                    Meaning::Lost | Meaning::LostAfterAll => {
                        self.grow(before, acked, config);
                        if ack >= self.recover && config.spurious == Method::FRto {
                            // As Linux leaves F-RTO when all has arrived, whether the window was in use or not.
                            self.window.cwnd = self.window.cwnd.max(2 * config.mss);
                        }
                    }
                }
            }
            Phase::Recovery if ack >= self.recover => {
                // RFC 6582 §3.2 step 3, first variant: no burst when little is in flight.
                if self.board.is_none() {
                    let flight = u32::try_from(self.in_flight()).unwrap_or(u32::MAX).max(config.mss);
                    self.window.cwnd = self.window.ssthresh.min(flight.saturating_add(config.mss));
                } else if config.losses == Losses::Fack {
                    self.window.cwnd = self.window.cwnd.min(self.window.ssthresh);
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
                let restart = self.first_partial || self.board.is_some();
                self.first_partial = false;
                return restart;
            }
        }
        true
    }

    #[inline]
    fn grow(&mut self, before: u64, acked: &Acked, config: &TcpConfig) {
        if (before < self.limited || !config.validate_window) && !acked.ece {
            self.congestion.grow(&mut self.window, acked, config);
        }
    }

    #[inline(never)]
    fn handle_duplicate(&mut self, packet: &Packet, config: &TcpConfig) {
        self.dupacks += 1;
        match self.phase {
            Phase::Open => {
                let lost = self.dupacks >= DUP_THRESH
                    || self.board.as_ref().is_some_and(|board| board.lost_below(config.mss) > self.una);
                // RACK knows by itself what was sent since; duplicates alone may be of what was sent again.
                if lost && (self.una > self.recover || config.losses != Losses::Counting) {
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
}
