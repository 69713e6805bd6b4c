//! RACK-TLP at the sender (RFC 8985): a probe after silence, since nothing comes behind the end of a flight that could
//! tell of its loss; and what ACKs tell about retransmissions.

use super::transmit::Chunk;
use super::{Phase, Sender};
use crate::engine::{Ps, Random};
use crate::net::Packet;
use crate::tcp::config::TcpConfig;

/// The last tail loss probe.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tail {
    /// After the highest offset sent when it went (TLP.end_seq), 0 when none is outstanding.
    end: u64,
    /// It was data sent before (TLP.is_retrans).
    resent: bool,
    /// TSval that it carried.
    stamp: u32,
}

impl Sender {
    /// RFC 8985 §7.2: when to probe, unless something is heard before.
    pub(super) fn watch_tail(&mut self, now: Ps, config: &TcpConfig) {
        self.tail_at = Ps::NEVER;
        let hole = self.board.as_ref().is_some_and(|board| board.highest() > self.una);
        let Some(srtt) = self.rto.srtt().map(Ps::from_span) else { return };
        if self.phase != Phase::Open || self.una >= self.max || hole || self.tail.end > self.una {
            return;
        }
        let tick = Ps::from_span(config.rto.granularity);
        // Two clock ticks, as in Linux; and a single segment may be waiting for company at a receiver that delays ACKs.
        let alone = self.max - self.una <= u64::from(config.mss);
        let patience = if alone { config.probe_ack_delay } else { Ps::ZERO };
        let wait = srtt + srtt + tick + tick + patience;
        if now + wait < self.deadline {
            self.tail_at = now + wait;
        }
    }

    /// Time has passed [`tail_at`](Self::tail_at), perhaps.
    pub(in crate::tcp) fn handle_silence(&mut self, now: Ps) {
        if self.tail_at <= now {
            self.tail_at = Ps::NEVER;
            self.tail_due = self.una < self.max;
        }
    }

    /// RFC 8985 §7.3: new data if there is some, whatever the congestion window says, or else the last segment again.
    pub(super) fn poll_tail(&mut self, now: Ps, config: &TcpConfig, random: &mut Random) -> Option<Chunk> {
        self.tail_due = false;
        let mss = u64::from(config.mss);
        let next = self.limit().min(self.max + mss);
        let resent = next == self.max || next > self.right;
        // What is heard of it restarts the timer.
        self.deadline = Ps::NEVER;
        self.nxt = self.max;
        let chunk = if resent {
            self.timed_end = 0;
            self.send(now, self.una.max(self.newest), self.max, config, random)
        } else {
            self.send(now, self.max, next, config, random)
        };
        self.tail = Tail { end: self.max, resent, stamp: config.timestamp(now) };
        self.tail_at = Ps::NEVER;
        Some(chunk)
    }

    /// No probe is outstanding, and none is due.
    pub(super) fn forget_tail(&mut self) {
        // Without RACK there never was one, and what is kept of it is far from what losses touch.
        if self.more_timers {
            self.tail = Tail::default();
            self.tail_at = Ps::NEVER;
            self.tail_due = false;
        }
    }

    /// An ACK has been dealt with otherwise; `advanced` when it moved the window.
    #[inline(never)]
    pub(super) fn handle_rack(&mut self, now: Ps, packet: &Packet, ack: u64, advanced: bool, config: &TcpConfig) {
        let lost_again = self.board.as_mut().is_some_and(|board| board.settle(self.una, config.mss));
        self.reduce(advanced && !lost_again, config);
        // Any ACK may tell of a loss, not only a duplicate one (RFC 8985 §6.2): one that was delayed does both.
        let tells_of_loss = self.board.as_ref().is_some_and(|board| board.lost_below(config.mss) > self.una);
        if advanced && self.phase == Phase::Open && tells_of_loss {
            self.enter_recovery(config);
        }
        if self.tail.end > 0 && ack >= self.tail.end {
            self.handle_probe_acked(packet, ack, advanced, config);
        }
        self.watch_tail(now, config);
    }

    /// RFC 8985 §7.4.2: a probe that had to stand in for a lost segment is a sign of congestion. Whether it had to,
    /// timestamps tell; without them, a duplicate ACK says that it had not, and a later ACK that it had.
    fn handle_probe_acked(&mut self, packet: &Packet, ack: u64, advanced: bool, config: &TcpConfig) {
        let Tail { end, resent, stamp } = self.tail;
        let timed = packet.is(Packet::TIMESTAMPS);
        if resent && !timed && ack == end && advanced {
            return;
        }
        let stood_in = if timed { packet.timestamps.1.wrapping_sub(stamp).cast_signed() >= 0 } else { ack > end };
        if resent && stood_in && self.phase == Phase::Open {
            self.window.ssthresh = self.congestion.after_loss(&self.window, self.in_flight(), config);
            self.window.cwnd = self.window.ssthresh.max(config.mss);
            self.cwr = config.ecn;
        }
        self.tail = Tail::default();
    }
}
