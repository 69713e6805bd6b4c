//! What releasing an ACK makes the sender send, as PAC estimates it: Eq. 3 of §III-C, within what the sender can have.

use super::account::{Class, Outgoing, Trigger, halved, has_no_more, reduces};
use super::config::{Config, Growth, Requests};
use super::state::{Flow, Gate, flag};
use crate::seq::SeqNumber;

/// Segments of a window in which a byte more or less for each ACK no longer matters.
const LARGE_WINDOW: u64 = 32;

/// The trigger, without the right edge, which is `edge` if windows are bounded.
pub(super) fn estimate(config: &Config, gate: &Gate, flow: &Flow, out: &Outgoing, edge: Option<SeqNumber>) -> Trigger {
    let mss = flow.mss.get();
    match out.class {
        Class::Handshake => Trigger::estimate(flow.wire(u64::from(config.initial_window) * u64::from(mss)), 0),
        Class::Request => {
            let kept = flow.window.get().min(advertised(flow, out, edge));
            let response = flow.last_response.get();
            let burst = if response == 0 { kept } else { kept.min(response) };
            Trigger::estimate(flow.wire(u64::from(burst)), 0)
        }
        Class::Stale => Trigger::NOTHING,
        Class::Ack | Class::Urgent | Class::Data => {
            let acked = out.ack.ahead_of(SeqNumber(flow.released_ack.get()));
            let hole = flow.flags.any(flag::RECEIVED) && SeqNumber(flow.received.get()).after(out.ack);
            if acked == 0 && out.class == Class::Urgent && hole {
                return Trigger::estimate(flow.wire(u64::from(mss)), 0);
            }
            if acked == 0 {
                return Trigger::NOTHING;
            }
            let mut increment = increment(config, flow, acked, out);
            if edge.is_some() {
                // A window that the receiver bounds grows no further (RFC 9438 §5.8).
                increment = increment.min(advertised(flow, out, edge).saturating_sub(flow.window.get()));
            }
            if has_no_more(config, gate, flow) {
                // The window grows all the same: the next request will show it.
                return Trigger::estimate(0, increment);
            }
            let payload = u64::from(acked) + u64::from(increment).next_multiple_of(u64::from(mss.max(1)));
            let wire = flow.wire(payload).min(room(flow, out, edge, increment)).min(still_expected(config, flow));
            Trigger::estimate(wire, increment)
        }
    }
}

/// Wire bytes that the sender can still put on their way once `ack` has reached it: it never has more than its window
/// outstanding, of which some has arrived, its ACKs being held, and some is owed already. Eq. 3 alone would charge every
/// ACK in full while a sender that has reduced its window lets them pass without sending anything.
fn room(flow: &Flow, out: &Outgoing, edge: Option<SeqNumber>, increment: u32) -> u64 {
    let arrived = if flow.flags.any(flag::RECEIVED) { SeqNumber(flow.received.get()).ahead_of(out.ack) } else { 0 };
    let window = if reduces(flow, out) { halved(flow) } else { flow.window.get() };
    let window = whole_segments(flow, window.saturating_add(increment).min(advertised(flow, out, edge)));
    flow.wire(u64::from(window.saturating_sub(arrived))).saturating_sub(u64::from(flow.owed.get()))
}

/// The receive window that `out` advertises, up to `edge` if windows are bounded: the sender's window is never larger. Unknown
/// without the handshake's scale.
fn advertised(flow: &Flow, out: &Outgoing, edge: Option<SeqNumber>) -> u32 {
    if let Some(edge) = edge {
        edge.ahead_of(out.ack)
    } else if flow.flags.any(flag::SCALE_KNOWN) {
        u32::from(out.window) << out.shift
    } else {
        u32::MAX
    }
}

/// Wire bytes that the flow may still send if this response is as long as the one before, less what has been charged for
/// it already: the last ACKs of a response trigger nothing, whatever Eq. 3 says. A response that turns out longer is
/// estimated by Eq. 3 alone.
fn still_expected(config: &Config, flow: &Flow) -> u64 {
    let (size, response) = (flow.size.get(), u64::from(flow.last_response.get()));
    if config.requests == Requests::Ignore || size >= response {
        return u64::MAX;
    }
    flow.wire(response - size).saturating_sub(u64::from(flow.owed.get()))
}

/// `Increment` of Eq. 3: how much the sender's window grows. `Window` is the model that the charges themselves keep,
/// since the receiver cannot see the sender's.
fn increment(config: &Config, flow: &Flow, acked: u32, out: &Outgoing) -> u32 {
    let mss = flow.mss.get();
    let grown = match config.growth {
        Growth::PerAck => mss,
        Growth::PerByte => acked,
    };
    if out.ece || out.class == Class::Urgent {
        0
    } else if flow.flags.any(flag::AVOIDANCE) {
        // Rounded up, for the shares of a small window must make a segment; but down where it is large, or the model would
        // outgrow the sender's window: what it lags behind, arrivals show.
        let window = u64::from(whole_segments(flow, flow.window.get()).max(1));
        let grown = u64::from(mss) * u64::from(grown);
        let large = window > LARGE_WINDOW * u64::from(mss);
        if large { (grown / window) as u32 } else { grown.div_ceil(window).min(u64::from(mss)) as u32 }
    } else {
        grown
    }
}

/// `bytes` of a window in whole segments: a sender does not cut one to fit.
pub(super) fn whole_segments(flow: &Flow, bytes: u32) -> u32 {
    let mss = flow.mss.get().max(1);
    bytes / mss * mss
}
