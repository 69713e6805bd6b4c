//! Proportional Rate Reduction (RFC 6937, RFC 9937), as Linux sends in recovery with RACK: what leaves the network says
//! how much may enter it, so that a window with many losses is not sent again in one burst.

use super::{Phase, Sender};
use crate::tcp::config::TcpConfig;

/// Counts of one recovery, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    /// In flight when it began (RecoverFS).
    flight: u64,
    /// Arrived at the receiver since (prr_delivered).
    delivered: u64,
    /// Sent since (prr_out).
    pub(super) out: u64,
    /// What the receiver had at the last ACK.
    arrived: u64,
    /// What had been found lost at the last ACK.
    lost_below: u64,
}

impl Sender {
    /// Everything that the receiver has told to have.
    pub(super) fn arrived(&self) -> u64 {
        self.una + self.board.as_ref().map_or(0, |board| board.bytes_below(self.max))
    }

    /// A recovery begins.
    pub(super) fn begin_prr(&mut self) {
        self.prr = Prr { flight: self.in_flight(), arrived: self.prr.arrived, ..Prr::default() };
    }

    /// An ACK: in recovery, how much more may be sent now. `progress` when it moved the window and told of no
    /// retransmission that was lost.
    pub(super) fn reduce(&mut self, progress: bool, config: &TcpConfig) {
        let arrived = self.arrived();
        let Some(board) = &self.board else { return };
        if self.phase != Phase::Recovery {
            self.prr.arrived = arrived;
            return;
        }
        let (mss, ssthresh) = (u64::from(config.mss), u64::from(self.window.ssthresh));
        let lost_below = board.lost_below(config.mss);
        let pipe = board.pipe(self.una, self.max, config.mss);
        let prr = &mut self.prr;
        let now = arrived.saturating_sub(prr.arrived);
        prr.delivered += now;
        let send = if pipe > ssthresh {
            // Proportional: ssthresh for each flight that has left.
            (prr.delivered * ssthresh).div_ceil(prr.flight.max(1)).saturating_sub(prr.out)
        } else {
            // As much as has left; more when nothing says that this is too much.
            let conserved = prr.delivered.saturating_sub(prr.out).max(now);
            let safe = progress && lost_below <= prr.lost_below;
            (ssthresh - pipe).min(if safe { conserved + mss } else { conserved })
        };
        (prr.arrived, prr.lost_below) = (arrived, lost_below);
        self.window.cwnd = u32::try_from(pipe + send).unwrap_or(u32::MAX);
    }
}
