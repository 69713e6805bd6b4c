//! What can be set of a guard.

use ackgate_control::gate::Config;
use ackgate_control::units::Span;

use crate::attach;
use crate::dormancy::Follow;
use crate::hold;
use crate::selection::Selection;

/// What to guard, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the interface.
    pub device: String,
    /// The gate's parameters.
    pub gate: Config,
    /// Budget in bytes that is asked for at once when less would do; 0 wakes the daemon for each ACK. Without it: a
    /// sixteenth of the threshold.
    pub batch: Option<u64>,
    /// How held frames are taken.
    pub hold: hold::Choice,
    /// How the programs are attached.
    pub attach: attach::Choice,
    /// Have the kernel measure the programs' run time, which costs some itself.
    pub bpf_stats: bool,
    /// For how long to step aside at first when the guard seems to do harm ([`crate::watchdog`]); without it, never.
    pub step_aside: Option<Span>,
    /// From when on connections are followed. Where the kernel cannot tell what connections' handshakes have shown, for they are not
    /// this host's, where nothing is touched, and with a netfilter queue, that is always from the start.
    pub follow: Follow,
    /// Only look: account and decide as ever, and touch nothing.
    pub observe: bool,
    /// Which connections are guarded.
    pub selection: Selection,
}

impl Options {
    /// PAC as published in front of a switch port with `buffer` bytes, on `device`.
    #[must_use]
    pub fn new(device: &str, buffer: u64) -> Self {
        Self {
            device: device.to_owned(),
            gate: Config::new(buffer),
            batch: None,
            hold: hold::Choice::Auto,
            attach: attach::Choice::Auto,
            bpf_stats: false,
            step_aside: None,
            follow: Follow::default(),
            observe: false,
            selection: Selection::default(),
        }
    }

    /// The first setting, as `ackgate run` calls it, that keeps a running guard from being changed to `wanted`: the guard must be
    /// taken off and put on again.
    #[must_use]
    pub fn fixed(&self, wanted: &Self) -> Option<&'static str> {
        let scheme = |gate: &Config| (gate.prices, gate.requests, gate.long_turns, gate.bound_windows, gate.hold);
        [
            ("dev", self.device != wanted.device),
            ("guard", scheme(&self.gate) != scheme(&wanted.gate)),
            ("hold", self.hold != wanted.hold),
            ("attach", self.attach != wanted.attach),
            ("observe", self.observe != wanted.observe),
            ("bpf-stats", self.bpf_stats != wanted.bpf_stats),
        ]
        .into_iter()
        .find_map(|(name, differs)| differs.then_some(name))
    }

    /// The same for the command line of `ackgate run`, as far as it is about the port.
    pub(super) fn as_arguments(&self) -> String {
        let mut arguments = format!("--dev {}", self.device);
        if !self.gate.auto {
            arguments += &format!(" --buffer {}", self.gate.buffer);
        }
        if self.gate.rate_mbps > 0 {
            arguments += &format!(" --rate {}mbit", self.gate.rate_mbps);
        }
        arguments
    }
}
