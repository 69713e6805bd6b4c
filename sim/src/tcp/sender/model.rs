//! A sender whose congestion control goes by a model of the path (BBR), and the pace of any.

use super::{Phase, Sender};
use crate::engine::{PS_PER_SEC, Ps, Random};
use crate::net::Packet;
use crate::tcp::config::TcpConfig;
use crate::tcp::congestion::{Congestion, Delivery, Repair};
use crate::tcp::offset_near;

impl Sender {
    /// Bytes that have been sent and neither arrived nor got lost, as far as is known.
    pub(super) fn in_network(&self, config: &TcpConfig) -> u64 {
        let sent = self.nxt - self.una;
        match &self.board {
            // All was lost, and is sent again up to `nxt`.
            Some(board) if self.phase == Phase::Loss => sent - board.bytes_below(self.nxt),
            Some(board) => board.pipe(self.una, self.max, config.mss),
            None => sent.saturating_sub(u64::from(self.dupacks) * u64::from(config.mss)),
        }
    }

    /// The connection is open: at what rate to begin.
    pub(super) fn begin_pace(&mut self, now: Ps, config: &TcpConfig) {
        let srtt = self.srtt();
        if let Congestion::Bbr(model) = &mut self.congestion {
            let rate = model.begin(now, srtt);
            self.set_pace(rate);
        } else if config.paces {
            self.pace_by_window(config);
        }
    }

    /// The application is about to write: if all was sent and the window has room, it is what limited the sender.
    pub(super) fn note_limit(&mut self) {
        let in_flight = self.in_flight();
        if self.nxt >= self.limit()
            && in_flight < u64::from(self.window.cwnd)
            && let Some(log) = &mut self.rates
        {
            log.handle_limit(in_flight);
        }
    }

    /// `start..end` leaves.
    #[inline(never)]
    pub(super) fn note_sent(&mut self, now: Ps, start: u64, end: u64, config: &TcpConfig, random: &mut Random) {
        let idle = self.una == self.max;
        if idle
            && self.rates.as_ref().is_some_and(|log| log.is_limited())
            && let Congestion::Bbr(model) = &mut self.congestion
        {
            let rate = model.restart(now, random);
            self.set_pace(rate);
        }
        if let Some(log) = &mut self.rates {
            if start < self.max {
                log.handle_resent(now, start, end);
            } else {
                log.handle_sent(now, end, idle);
            }
        }
        self.note_pace(now, end - start + u64::from(config.full_header));
    }

    /// An ACK has been dealt with otherwise, when `before` bytes were in the network: what it says about rates.
    #[inline(never)]
    pub(super) fn handle_rate(
        &mut self,
        now: Ps,
        packet: &Packet,
        before: Option<u64>,
        rtt: Option<Ps>,
        config: &TcpConfig,
        random: &mut Random,
    ) {
        if !config.models_path() {
            self.pace_by_window(config);
            return;
        }
        let in_flight = self.in_network(config);
        let (una, total) = (self.una, self.arrived());
        let lost_below = self.board.as_ref().map_or(0, |board| board.lost_below(config.mss)).max(una);
        let (Congestion::Bbr(model), Some(log)) = (&mut self.congestion, &mut self.rates) else { return };
        let mut blocks = [(0, 0); 4];
        let count = usize::from(packet.sack_len).min(blocks.len());
        for (block, &(from, to)) in blocks.iter_mut().zip(&packet.sack[..count]) {
            *block = (offset_near(una, self.iss, from), offset_near(una, self.iss, to));
        }
        let arrived = log.handle_ack(now, una, &blocks[..count], total, model.least_rtt());
        let known = log.lost_below.max(una);
        let lost = match &self.board {
            Some(board) if lost_below > known => {
                lost_below - known - (board.bytes_below(lost_below) - board.bytes_below(known))
            }
            _ => 0,
        };
        log.lost_below = log.lost_below.max(lost_below);
        let repair = match self.phase {
            Phase::Open => Repair::None,
            Phase::Recovery => Repair::Recovery,
            Phase::Loss => Repair::Timeout,
        };
        let ack = Delivery { now, arrived, rtt, lost, before: before.unwrap_or(in_flight), in_flight, repair };
        let rate = model.handle_ack(&mut self.window, &ack, config, random);
        if model.probes_rtt() {
            log.handle_limit(in_flight);
        }
        self.set_pace(rate);
    }

    fn set_pace(&mut self, rate: u64) {
        if let Some(pace) = &mut self.pace {
            pace.rate = rate;
        }
    }

    /// What a paced sender sends within a time.
    pub(super) fn paced_bytes_in(&self, time: Ps) -> Option<u64> {
        let rate = self.pace.as_ref()?.rate;
        u64::try_from(u128::from(rate) * u128::from(time.0) / u128::from(PS_PER_SEC)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Purpose;
    use crate::scenario::{CongestionControl, Scenario, Tcp};

    #[test]
    fn a_tail_loss_probe_does_not_wait_for_the_pace() {
        let tcp = Tcp { cc: CongestionControl::Bbr, sack: true, rack: true, ..Tcp::default() };
        let config = TcpConfig::new(&Scenario::default(), &tcp);
        let mut random = Random::new(1, Purpose::Timeout);
        let mut sender = Sender::new(&config, 0);
        (sender.una, sender.nxt, sender.max, sender.end) = (1, 1, 1, 1 + 3 * u64::from(config.mss));
        sender.right = sender.end;
        // A byte a second: one segment leaves, and the next would in half an hour.
        sender.set_pace(1);
        assert!(sender.poll_chunk(Ps::ZERO, &config, &mut random).is_some());
        assert!(sender.poll_chunk(Ps::millis(1), &config, &mut random).is_none());
        sender.tail_due = true;
        assert!(sender.poll_chunk(Ps::millis(1), &config, &mut random).is_some());
    }

    #[test]
    fn the_application_limits_a_sender_only_while_the_window_has_room() {
        let tcp = Tcp { cc: CongestionControl::Bbr, sack: true, ..Tcp::default() };
        let config = TcpConfig::new(&Scenario::default(), &tcp);
        for (in_flight, limited) in [(9_999, true), (10_000, false)] {
            let mut sender = Sender::new(&config, 0);
            sender.window.cwnd = 10_000;
            (sender.una, sender.nxt, sender.max, sender.end) = (1, 1 + in_flight, 1 + in_flight, 1 + in_flight);
            sender.note_limit();
            assert_eq!(sender.rates.as_ref().is_some_and(|log| log.is_limited()), limited, "{in_flight}");
        }
    }
}
