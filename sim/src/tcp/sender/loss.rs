//! Losses: what begins and ends recovery, timeouts, and those that turn out to have been spurious.

use ackgate_control::spurious::{Meaning, Method};

use super::{Phase, Sender};
use crate::net::Packet;
use crate::tcp::config::TcpConfig;
use crate::tcp::sack::{DUP_THRESH, Losses};

impl Sender {
    pub(super) fn enter_recovery(&mut self, config: &TcpConfig) {
        self.window.ssthresh = self.congestion.after_loss(&self.window, self.in_flight(), config);
        self.phase = Phase::Recovery;
        self.recover = self.max;
        self.ece_recover = self.max;
        self.cwr = config.ecn;
        self.retransmit_now = true;
        self.first_partial = true;
        self.timed_end = 0;
        self.forget_tail();
        if let Some(board) = &mut self.board {
            self.retransmit_now = !board.is_sent_again(self.una);
            board.begin_recovery(self.una);
            match config.losses {
                Losses::Fack => self.begin_halving(config),
                Losses::Rack => {
                    self.window.cwnd = self.window.ssthresh;
                    self.begin_prr();
                }
                Losses::Counting => self.window.cwnd = self.window.ssthresh,
            }
        } else {
            self.window.cwnd = self.window.ssthresh.saturating_add(DUP_THRESH * config.mss);
        }
    }

    /// Returns whether it was a retransmission timeout (and not the persist timer).
    pub(in crate::tcp) fn handle_timeout(&mut self, config: &TcpConfig) -> bool {
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
        // What was sent again before is not told from what will be.
        if config.dsack {
            self.unreported = (self.una != self.timed_out).then_some(0);
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
        self.forget_tail();
        if let Some(board) = &mut self.board {
            board.begin(self.una);
        }
        true
    }

    /// What an ACK tells about the last timeout.
    pub(super) fn judge(&mut self, packet: &Packet, advances: bool) -> Meaning {
        let echo = packet.is(Packet::TIMESTAMPS).then_some(packet.timestamps.1);
        let more = self.max < self.limit() && self.max < self.right;
        self.detector.handle_ack(advances, self.una >= self.recover, more, echo)
    }

    /// D-SACKs reported all that was sent again after a timeout: nothing had been lost (RFC 3708). The window that the
    /// timeout left stays: Linux's CUBIC has forgotten the former one by then, until 3.3.
    pub(super) fn restore_threshold(&mut self) {
        self.counters.undone += 1;
        self.window.ssthresh = self.window.ssthresh.max(self.before_timeout.three_quarters());
    }

    /// Nothing was lost: goes on after what has been sent. F-RTO keeps the halved threshold for a window (Vasudevan §3.2),
    /// Eifel restores both, without a burst (RFC 4015 §3.2).
    pub(super) fn undo_timeout(&mut self, bytes: u32, config: &TcpConfig) {
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
}
