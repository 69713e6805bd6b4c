//! Recovery with FACK and rate halving, as Linux had it until 3.1 (Sarolahti and Kuznetsov, "Congestion Control in Linux
//! TCP", USENIX 2002, §3 and §5): what the highest SACK block tells, and a window that follows what is in the network.

use super::{Phase, Sender};
use crate::tcp::config::TcpConfig;

/// A doubtful ACK leaves the window at most so many segments above what is in the network (`tcp_moderate_cwnd`).
const BURST: u32 = 3;

impl Sender {
    /// A recovery begins: its first retransmission may go.
    pub(super) fn begin_halving(&mut self, config: &TcpConfig) {
        self.halving = false;
        self.window.cwnd = self.window.cwnd.min(self.room_for(1, config));
    }

    /// An ACK has been dealt with otherwise: it told `news` of what has arrived, or `advanced` the window; `doubtful` when
    /// there was a loss to recover from.
    #[inline(never)]
    pub(super) fn handle_fack(&mut self, news: bool, advanced: bool, doubtful: bool, config: &TcpConfig) {
        let Some(board) = &mut self.board else { return };
        board.settle(self.una, config.mss);
        let (lost, quiet) = (board.lost_below(config.mss) > self.una, board.is_empty());
        if self.phase == Phase::Open && advanced && lost {
            // Any ACK may tell of a loss, not only a duplicate one.
            self.enter_recovery(config);
        } else if self.phase == Phase::Recovery && (news || advanced) {
            if self.halving && self.window.cwnd > self.window.ssthresh {
                self.window.cwnd -= config.mss;
            }
            self.halving = !self.halving;
            self.window.cwnd = self.window.cwnd.min(self.room_for(1, config));
        } else if doubtful || !quiet {
            self.window.cwnd = self.window.cwnd.min(self.room_for(BURST, config));
        }
    }

    /// The window that leaves room for `segments` more.
    fn room_for(&self, segments: u32, config: &TcpConfig) -> u32 {
        let in_network = u32::try_from(self.in_network(config)).unwrap_or(u32::MAX);
        in_network.saturating_add(segments * config.mss)
    }
}
