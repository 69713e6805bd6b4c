//! M21TCP-A at the sender: a cap on the window, and turns where the cap is below one segment.

use ackgate_control::m21::{self, Allowance};

use super::Sender;
use crate::engine::{Ps, Random};
use crate::tcp::config::TcpConfig;

impl Sender {
    /// M21TCP-A: an ACK echoes how many senders there are.
    #[inline]
    pub(in crate::tcp) fn handle_number(&mut self, senders: u32, config: &TcpConfig) {
        if let Some(cap) = &mut self.cap {
            cap.handle_ack(senders);
            self.kept = if config.cap_cuts { 0 } else { self.window.cwnd };
        }
    }

    pub(super) fn allowance(&self, config: &TcpConfig) -> Allowance {
        self.cap.map_or(Allowance::Unlimited, |cap| cap.allowance(config.mss))
    }

    /// M21TCP-A Eq. 2: the congestion window is the smaller of its own and the cap; or of its own and what it was, where that is
    /// more and is not cut.
    #[inline(never)]
    pub(super) fn cap_window(&mut self, config: &TcpConfig) {
        let cap = match self.allowance(config) {
            Allowance::Unlimited => return,
            Allowance::Window(bytes) => bytes.max(config.mss),
            Allowance::Every(_) => config.mss,
        };
        self.window.cwnd = self.window.cwnd.min(cap.max(self.kept));
    }

    /// Whether it is this sender's turn to send one segment of new data; else it has been noted when.
    pub(super) fn has_turn(&mut self, now: Ps, rounds: m21::Rounds, random: &mut Random) -> bool {
        let draw = (random.bits() >> 32) as u32;
        let turn = Ps::from_time(self.turns.next(now.to_time(), rounds.period(self.srtt().to_span()), draw));
        if turn > now {
            self.turn_at = turn;
        }
        turn <= now
    }
}
