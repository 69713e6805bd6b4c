//! Congestion control: how a sender's window grows with ACKs and shrinks with losses and marks. One file each;
//! recovery itself (what to retransmit when) is the sender's.

mod bbr;
mod cubic;
mod dctcp;
mod newreno;

pub use bbr::{Bbr, Delivery, Repair};
pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use newreno::NewReno;

use super::config::TcpConfig;
use crate::engine::Ps;
use crate::scenario::CongestionControl;

/// Congestion window and slow-start threshold, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Congestion window, at least one segment.
    pub cwnd: u32,
    /// Slow-start threshold.
    pub ssthresh: u32,
}

impl Window {
    /// The threshold to come back to, as Linux has it: no lower than three quarters of the window (RFC 2861 §3).
    pub(super) fn three_quarters(&self) -> u32 {
        self.ssthresh.max(self.cwnd / 4 * 3)
    }

    /// Slow start: by at most `step` bytes for each ACK, and no more than a segment beyond its threshold.
    #[inline]
    fn slow_start(&mut self, acked: u32, step: u32, mss: u32) {
        let left = self.ssthresh.saturating_sub(self.cwnd).max(mss);
        self.cwnd = self.cwnd.saturating_add(acked.min(step).min(left));
    }
}

/// An algorithm with its state, which is elsewhere where there is much of it: a sender is to be small.
#[derive(Clone, Debug)]
pub enum Congestion {
    /// RFC 5681.
    NewReno(NewReno),
    /// RFC 9438.
    Cubic(Box<Cubic>),
    /// RFC 8257.
    Dctcp(Box<Dctcp>),
    /// BBR: whatever else an ACK does to the window, [`Bbr::handle_ack`] sets it last.
    Bbr(Box<Bbr>),
}

/// What an ACK of new data tells.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// Now.
    pub now: Ps,
    /// Bytes newly acknowledged.
    pub bytes: u32,
    /// Whether the ACK carries ECE.
    pub ece: bool,
    /// Smoothed round-trip time, zero while unknown.
    pub srtt: Ps,
}

impl Congestion {
    /// A new connection's.
    #[must_use]
    pub fn new(config: &TcpConfig) -> Self {
        match config.algorithm {
            CongestionControl::NewReno => Self::NewReno(NewReno::default()),
            CongestionControl::Cubic => Self::Cubic(Box::default()),
            CongestionControl::Dctcp => Self::Dctcp(Box::default()),
            CongestionControl::Bbr => Self::Bbr(Box::new(Bbr::new(config))),
        }
    }

    /// New data was acknowledged outside of recovery, and the window was what limited the sender.
    #[inline]
    pub fn grow(&mut self, window: &mut Window, acked: &Acked, config: &TcpConfig) {
        if window.cwnd < window.ssthresh {
            window.slow_start(acked.bytes, config.slow_start_step, config.mss);
        } else {
            match self {
                Self::NewReno(state) => state.avoid(window, acked.bytes, config.mss),
                Self::Cubic(state) => state.avoid(window, acked, config.mss),
                Self::Dctcp(state) => state.reno.avoid(window, acked.bytes, config.mss),
                Self::Bbr(_) => {}
            }
        }
        window.cwnd = window.cwnd.min(config.max_window);
    }

    /// Sees every ACK of new data, in recovery too, before the window changes. `una` is what it acknowledges, `nxt`
    /// what was sent.
    #[inline]
    pub fn observe(&mut self, acked: &Acked, una: u64, nxt: u64, config: &TcpConfig) {
        if let Self::Dctcp(state) = self {
            state.observe(acked, una, nxt, config);
        }
    }

    /// Slow-start threshold after a loss that duplicate ACKs told of.
    pub fn after_loss(&mut self, window: &Window, in_flight: u64, config: &TcpConfig) -> u32 {
        match self {
            Self::NewReno(state) => state.after_loss(in_flight, config.mss),
            Self::Cubic(state) => state.after_loss(window, config.mss),
            Self::Dctcp(state) => state.reno.after_loss(in_flight, config.mss),
            Self::Bbr(state) => {
                state.handle_loss();
                window.ssthresh
            }
        }
    }

    /// Slow-start threshold after a retransmission timeout.
    pub fn after_timeout(&mut self, window: &Window, in_flight: u64, config: &TcpConfig) -> u32 {
        match self {
            Self::NewReno(state) => state.after_loss(in_flight, config.mss),
            Self::Cubic(state) => state.after_timeout(window, config.mss),
            Self::Dctcp(state) => state.reno.after_loss(in_flight, config.mss),
            Self::Bbr(state) => {
                state.handle_timeout(config.mss);
                window.ssthresh
            }
        }
    }

    /// Window and threshold after the first ECE in a window of data. The threshold keeps two segments, as after a loss;
    /// how far the window itself goes down is a setting (RFC 3168 §6.1.2 lets it come to one).
    pub fn after_ece(&mut self, window: &Window, in_flight: u64, config: &TcpConfig) -> Window {
        let cut = match self {
            Self::NewReno(state) => state.cut(in_flight),
            Self::Cubic(state) => state.cut(window),
            Self::Dctcp(state) => {
                let cwnd = state.after_ece(window, config);
                return Window { cwnd, ssthresh: cwnd };
            }
            // A mark is no reason to send less.
            Self::Bbr(_) => return *window,
        };
        Window { cwnd: cut.max(config.ecn_min), ssthresh: cut.max(2 * config.mss) }
    }
}
