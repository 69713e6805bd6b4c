//! What a guard that only looks has seen, and what it says about guarding.

use ackgate_control::gate::Gate;
use serde::Serialize;

use crate::shared::Books;

/// Segments in ten thousand whose loss is worth a guard.
const LOSS_THAT_MATTERS: u64 = 1;

/// What a guard would have done to the traffic as it was. Had it done so, the traffic would have been another: these are
/// signs, not forecasts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Observation {
    /// Segments that would have been held.
    pub would_hold: u64,
    /// ACKs that would have been left out.
    pub would_thin: u64,
    /// Segments whose window would have been lowered.
    pub would_rewrite: u64,
    /// Data segments that arrived late to fill a hole: what loss looks like at the receiver.
    pub lost_segments: u64,
    /// Most connections that were active at once.
    pub peak_active: u64,
    /// Whether guarding would help, in one sentence.
    pub advice: String,
}

impl Observation {
    /// From the books of programs that touch nothing.
    pub(crate) fn read(gate: &Gate, books: &Books, peak_active: u64, settings: &str) -> Self {
        let mut observation = Self {
            would_hold: books.would_hold.get(),
            would_thin: gate.thinned.get(),
            would_rewrite: gate.rewritten.get(),
            lost_segments: gate.lost.get(),
            peak_active,
            advice: String::new(),
        };
        observation.advice = observation.advise(gate.arrivals.get(), settings);
        observation
    }

    fn advise(&self, arrivals: u64, settings: &str) -> String {
        let Self { would_hold, would_rewrite, lost_segments, peak_active, .. } = self;
        let touches = would_hold + would_rewrite > 0;
        let loses = *lost_segments > 0 && lost_segments * 10_000 >= arrivals * LOSS_THAT_MATTERS;
        let lost = format!("{lost_segments} of {arrivals} segments had been lost before they arrived");
        match (loses, touches) {
            _ if arrivals == 0 => "nothing can be said: no TCP segment arrived".into(),
            (true, true) => format!(
                "guarding would probably help: {lost}, with up to {peak_active} connections active at once; `ackgate run \
                 {settings}` would have held {would_hold} segments and lowered {would_rewrite} windows"
            ),
            (true, false) => format!(
                "guarding with these settings would not help: {lost}, but all that could arrive at once fitted the budget; the \
                 loss is elsewhere, or the port's buffer is smaller (give it with --buffer)"
            ),
            (false, true) => format!(
                "guarding is not needed now: nothing worth mentioning was lost ({lost_segments} of {arrivals} segments), and \
                 `ackgate run {settings}` would have held {would_hold} segments and lowered {would_rewrite} windows without need"
            ),
            (false, false) => format!(
                "guarding would change nothing: {lost_segments} of {arrivals} segments were lost, and all that could arrive at \
                 once fitted the budget"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_and_what_would_have_been_touched_decide() {
        let advice = |lost_segments, would_hold, arrivals| {
            let seen = Observation { lost_segments, would_hold, peak_active: 64, ..Observation::default() };
            seen.advise(arrivals, "--dev eth0")
        };
        assert!(advice(0, 0, 0).contains("nothing can be said"));
        assert!(advice(50, 20, 10_000).contains("would probably help"), "{}", advice(50, 20, 10_000));
        assert!(advice(50, 20, 10_000).contains("`ackgate run --dev eth0`"));
        assert!(advice(50, 0, 10_000).contains("would not help"));
        assert!(advice(0, 20, 10_000).contains("not needed"));
        assert!(advice(1, 20, 1_000_000).contains("not needed"), "one in a million is no incast");
        assert!(advice(0, 0, 10_000).contains("change nothing"));
    }
}
