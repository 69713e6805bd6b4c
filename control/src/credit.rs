//! Exact credit: what a flow may still send is its advertised right edge minus what has arrived. No estimate of the
//! sender's congestion window is needed, and a window that the sender has kept cannot burst past its credit.
//!
//! The gate stays PAC's (ledger, scheduler, holding); what changes is what a release costs and what it says:
//!
//! - **Charge**: what the sender may send once the packet has left, right edge minus highest byte received, less what the
//!   flow owes already. Whatever an idle sender still has is charged with the request that wakes it.
//! - **Window**: outgoing windows are lowered to the flow's share of the budget. A few flows send side by side, with
//!   `W = budget / engaged flows`; more take turns with a quarter each (less in a crowd). Not beyond what the response is
//!   expected to need, and never below [`LEAST_SEGMENTS`] segments; the right edge never moves left.
//! - **Turns**: when more flows want a share than there are, they take turns. An ACK that gets no grant leaves all the same
//!   without moving the edge, and a bare copy of it waits for the grant ([`crate::policy::Verdict::Split`]): what has
//!   arrived is acknowledged, so no timer of the sender runs, however long the turn takes. The copy, released with the
//!   flow's latest acknowledgement number and timestamp, is the window update that lets the sender go on. Requests are held
//!   for longer, and then do the same.
//! - **Requests**: among many a request gets the least grant, the share follows with the first data. How long a server thinks
//!   before it answers then binds little of the budget.
//! - **Fewer ACKs**: an ACK in the middle of a stream is left out, for the next one says all that it says. A lowered window
//!   is spent in small pieces, and every piece costs both hosts, and whatever lies between, an ACK and a small burst; this
//!   gives it back, with interest.
//!
//! DESIGN NOTES
//! 1. Two segments per grant: one alone meets the receiver's delayed ACK (40 ms on Linux), and a sender never uses
//!    segments larger than half the largest window that it has seen.
//! 2. The window field counts in units of `1 << scale` from the acknowledgement number. Edges are rounded up to it: down
//!    would be a retraction, or leave less than two segments; what that adds is charged. Where a unit is larger
//!    than a segment (scales above 10) the rounding would be most of the window: such flows are estimated as PAC does.
//! 3. A flow first seen in mid-stream has an unknown scale: it is estimated as PAC does, and never rewritten.
//! 4. Duplicate ACKs carry the unmoved edge: a changed window would stop the sender from counting them (RFC 5681 §2).
//! 5. A PSH proves little: Linux sets one at the end of every burst that it leaves to segmentation offload. A sender has
//!    stopped by itself if its PSH came while it had room for more; a response is over where the last one ended, too.
//! 6. ACKs are left out only while the sender certainly sends on without them: what arrived last had no PSH, so more waits
//!    to be sent; half of the window is open; no loss is being repaired; and a window's worth has come since the last pause with
//!    every ACK, for senders may open their windows by the ACK (RFC 5681); and of what came since at most a quarter, and at most
//!    [`MOST_LEFT_OUT`] segments, are unacknowledged. Receivers whose network card joins segments acknowledge as rarely.
//! 7. Turns are reckoned by the crowd, the most flows engaged of late: else the last flows of a round get large grants, keep
//!    most of them, and all send them at the begin of the next.

use crate::pac::account::{Class, Outgoing, Trigger, has_no_more};
use crate::pac::config::{Config, FULL_FRAME};
use crate::pac::state::{Flow, Gate, flag};
use crate::segment::Edit;
use crate::seq::SeqNumber;

/// Least size of a new grant, in segments.
pub const LEAST_SEGMENTS: u32 = 2;
/// A grant is at least this share of the budget: when more flows than that wait, they take turns. A few segments at a time
/// cost an ACK less often than one or two, for both hosts.
pub const TURNS: u64 = 4;
/// The same while CE marks come: senders that have reduced their windows need several round trips for a large grant, and
/// bind budget all the while.
pub const MARKED_TURNS: u64 = 6;
/// A flow never gets more than this part of the budget, not even alone: what it keeps of its window when it falls idle
/// must leave room for others when it is asked again.
pub const LEAST_SHARES: u64 = 2;
/// As long as each gets this many full frames, all flows send side by side: nobody waits, and no ACK needs a copy.
pub const ABREAST: u64 = 5;
/// So many full frames keep a sender moving that sends side by side with others.
pub const ENOUGH: u64 = 4;
/// Least unacknowledged segments of an undisturbed stream with which an ACK goes out. Two after loss or marks, as with
/// delayed ACKs (RFC 5681 §4.2).
pub const MOST_LEFT_OUT: u32 = 4;
/// A turn of all flows takes no more than 50 ms, as long as grants can be made smaller, so that a held request is served
/// before our own TCP repeats it. In units of 2^20 ns, as throughput is measured.
pub const LONGEST_TURN: u64 = 48;
/// Until the link has shown what it carries, a turn takes no more than this many budgets.
pub const BUDGETS_PER_TURN: u64 = 64;

/// Whether the flow is under exact credit.
#[inline]
#[must_use]
pub fn governs(config: &Config, flow: &Flow) -> bool {
    config.credit && flow.flags.any(flag::SCALE_KNOWN) && 1 << flow.scale.get() <= flow.mss.get()
}

/// The bytes that all grants of a turn may have together.
#[inline]
fn turn(gate: &Gate) -> u64 {
    (gate.threshold.get() * BUDGETS_PER_TURN).max(gate.smooth_bandwidth.get() * LONGEST_TURN)
}

/// Whether all engaged flows can send side by side.
#[inline]
fn abreast(gate: &Gate) -> bool {
    gate.engaged.get() * ABREAST * FULL_FRAME <= gate.threshold.get()
}

/// What each of several flows side by side has use for: one and a half times its part of the path's bandwidth-delay product, or
/// the frames that keep a sender moving. What they have beyond it only stands in the queue. No limit where the link's rate is not known.
fn enough(config: &Config, gate: &Gate, flows: u64) -> u64 {
    if config.rate_mbps == 0 {
        return u64::MAX;
    }
    (gate.mean_rtt.get() * config.rate_mbps * 3 / 16_000 / flows).max(ENOUGH * FULL_FRAME)
}

/// The budget with which so many flows never wait for each other: a frame more for each, for grants are rounded up to units of
/// the window field.
pub(crate) const fn side_by_side(flows: u64) -> u64 {
    flows * (ABREAST + 1) * FULL_FRAME
}

/// The flow's share of the budget as payload bytes, in whole segments.
#[inline]
fn share(config: &Config, gate: &Gate, flow: &Flow) -> u32 {
    let mss = u64::from(flow.mss.get().max(1));
    let turns = if gate.threshold.get() < gate.cap.get() { MARKED_TURNS } else { TURNS };
    let engaged = gate.engaged.get();
    let shares = if abreast(gate) { engaged } else { engaged.min(turns) };
    let share = gate.threshold.get() / shares.max(LEAST_SHARES);
    let share = if engaged > 1 && abreast(gate) { share.min(enough(config, gate, engaged)) } else { share };
    let wire = share.min(turn(gate) / gate.crowd.get().max(1));
    let payload = wire * mss / (mss + u64::from(flow.header.get()));
    ((payload / mss).max(u64::from(LEAST_SEGMENTS)) * mss).min(1 << 30) as u32
}

/// Whether there are so many flows that what the least grants leave open at the end of each response, taken together, could
/// not be served within a turn. The requests of the next round would then have to leave before their grants, and
/// overflow the port with what they set in motion: in a crowd nothing is left open.
#[inline]
fn crowded(gate: &Gate, flow: &Flow) -> bool {
    gate.crowd.get() * flow.wire(u64::from(LEAST_SEGMENTS * flow.mss.get())) > turn(gate)
}

/// The payload that the response is expected to have: as much as the flow's last one, or as others' when this is its
/// first; 0 when nothing is known.
#[inline]
pub(crate) fn expected(gate: &Gate, flow: &Flow) -> u64 {
    let last = u64::from(flow.last_response.get());
    if last == 0 { gate.usual_response.get() } else { last }
}

/// Payload bytes beyond `ack` that the response is expected to need, in whole segments but in a crowd; without limit when
/// it has turned out longer than expected.
#[inline]
fn lacking(gate: &Gate, flow: &Flow, ack: SeqNumber) -> u64 {
    let (size, response) = (flow.size.get(), expected(gate, flow));
    if size >= response {
        return u64::MAX;
    }
    let lacking = response - size + unacknowledged(flow, ack);
    let mss = u64::from(flow.mss.get().max(1));
    if crowded(gate, flow) { lacking } else { lacking.div_ceil(mss).max(u64::from(LEAST_SEGMENTS)) * mss }
}

/// Bytes that have arrived beyond `ack`.
fn unacknowledged(flow: &Flow, ack: SeqNumber) -> u64 {
    if flow.flags.any(flag::RECEIVED) { u64::from(SeqNumber(flow.received.get()).ahead_of(ack)) } else { 0 }
}

/// Bytes that the sender may send beyond `ack`.
#[inline]
#[must_use]
pub fn remaining(flow: &Flow, ack: SeqNumber) -> u32 {
    SeqNumber(flow.edge.get()).ahead_of(ack)
}

/// Whether the sender has used its credit up: it has stopped because it must.
#[inline]
#[must_use]
pub fn at_edge(flow: &Flow) -> bool {
    remaining(flow, SeqNumber(flow.received.get())) < flow.mss.get()
}

/// Whether the last `payload` bytes that arrived show that the sender had no more: room for another segment is left, or
/// the last one was cut short of what little is left. (Linux ends every burst with a PSH, and cuts the last segment where
/// the window ends, a unit of the window field short of our edge if an ACK on its way rounds it up.)
#[inline]
#[must_use]
pub fn stopped_short(flow: &Flow, payload: u32) -> bool {
    let cut = !payload.is_multiple_of(flow.mss.get().max(1));
    !at_edge(flow) || (cut && remaining(flow, SeqNumber(flow.received.get())) > 1 << flow.scale.get())
}

/// Whether the sender can go on, and cause another ACK, without a new grant.
#[inline]
#[must_use]
pub fn can_go_on(flow: &Flow, ack: SeqNumber) -> bool {
    remaining(flow, ack) >= LEAST_SEGMENTS * flow.mss.get()
}

/// Whether the ACK may be left out, because the next one will say all that it says and is certain to come (note 6).
#[must_use]
pub fn is_superfluous(config: &Config, flow: &Flow, out: &Outgoing) -> bool {
    const NOT_NOW: u32 = flag::PUSHED | flag::RECOVERING | flag::PEER_DONE | flag::OVERTAKEN;
    if !governs(config, flow) || out.class != Class::Ack || out.ece || out.repeated || flow.held.get() > 0 {
        return false;
    }
    if flow.flags.any(NOT_NOW) || flow.received.get() != out.ack.0 || !can_go_on(flow, out.ack) {
        return false;
    }
    let segments = if flow.flags.any(flag::REDUCED) { 2 } else { MOST_LEFT_OUT };
    let (window, run) = (remaining(flow, out.ack), flow.run.get());
    let limit = (segments * flow.mss.get()).min(run / 4).min(window / 2);
    run >= window && out.ack.ahead_of(SeqNumber(flow.released_ack.get())) < limit
}

/// What releasing `out` with a full grant costs, and where it moves the right edge.
#[must_use]
pub fn trigger(config: &Config, gate: &Gate, flow: &Flow, out: &Outgoing) -> Trigger {
    if matches!(out.class, Class::Ack | Class::Data) && has_no_more(config, gate, flow) {
        // Nothing is charged for the end of a response. A little room is left all the same, so that a sender that has more
        // after all need not wait for its persist timer.
        let kept = kept(flow, out);
        let edge = if crowded(gate, flow) && !out.repeated { kept } else { least(flow, out).max(kept) };
        return Trigger { wire: 0, increment: 0, edge: Some(edge) };
    }
    let moves = match out.class {
        Class::Urgent | Class::Stale => false,
        Class::Data => !can_go_on(flow, out.ack),
        Class::Ack | Class::Handshake | Class::Request => true,
    };
    let kept = kept(flow, out);
    let to = if moves { grant(config, gate, flow, out).max(kept) } else { kept };
    price(flow, out, to)
}

/// What releasing `out` costs when the edge stays: nothing, but for what wakes an idle sender.
#[must_use]
pub fn without_grant(flow: &Flow, out: &Outgoing) -> Trigger {
    price(flow, out, kept(flow, out))
}

/// What it costs to let a request go without a grant: what its sender has left, and the bare ACK that it answers with.
#[must_use]
pub fn cost_of_split(flow: &Flow, out: &Outgoing) -> u64 {
    without_grant(flow, out).wire + if out.data { u64::from(flow.header.get()) } else { 0 }
}

/// A charge tops the flow's debt up to what it may send up to `to`: whatever was voided or is left over is counted anew.
fn price(flow: &Flow, out: &Outgoing, to: SeqNumber) -> Trigger {
    let received = if flow.flags.any(flag::RECEIVED) { SeqNumber(flow.received.get()) } else { out.ack };
    let credit = flow.wire(u64::from(to.ahead_of(received)));
    Trigger { wire: credit.saturating_sub(u64::from(flow.owed.get())), increment: 0, edge: Some(to) }
}

/// The right edge that has been advertised, as the window field of `out` can say it.
fn kept(flow: &Flow, out: &Outgoing) -> SeqNumber {
    out.ack + (remaining(flow, out.ack).div_ceil(1 << out.shift) << out.shift)
}

/// The right edge of a full grant: the share, but no more than the response is expected to need; or the least where the
/// response may be complete, and for a new connection: nobody has asked it for anything yet, and a share
/// that lies idle is a share less for others.
fn grant(config: &Config, gate: &Gate, flow: &Flow, out: &Outgoing) -> SeqNumber {
    // A burst's PSH in a flow known to send them in mid-stream, before the response is as long as expected, is only that.
    let midway = flow.flags.any(flag::PUSHES_MIDWAY) && flow.size.get() < expected(gate, flow);
    let may_have_ended = flow.flags.any(flag::STOPPED) && out.ack.0 == flow.received.get() && !midway;
    if out.class == Class::Handshake && !flow.flags.any(flag::HALF_OPEN) && !out.data && crowded(gate, flow) {
        return out.ack;
    }
    let among_many = out.class == Class::Request && gate.engaged.get() > TURNS && !abreast(gate);
    if may_have_ended || among_many || out.class == Class::Handshake {
        return least(flow, out);
    }
    let wanted = u64::from(share(config, gate, flow)).min(lacking(gate, flow, out.ack)) as u32;
    edge_at(out, if abreast(gate) { wanted.min(affordable(gate, flow, out)) } else { wanted })
}

/// Payload beyond `out.ack` that the budget has room for now, in whole segments and no less than the least grant. Side by side a flow
/// takes what there is instead of waiting for its whole share.
fn affordable(gate: &Gate, flow: &Flow, out: &Outgoing) -> u32 {
    let mss = u64::from(flow.mss.get().max(1));
    let free = gate.threshold.get().saturating_sub(gate.in_flight()) + u64::from(flow.owed.get());
    let payload = free * mss / (mss + u64::from(flow.header.get())) + unacknowledged(flow, out.ack);
    let rounding = (1 << out.shift) - 1;
    ((payload.saturating_sub(rounding) / mss).max(u64::from(LEAST_SEGMENTS)) * mss).min(1 << 30) as u32
}

/// The right edge of the least grant.
fn least(flow: &Flow, out: &Outgoing) -> SeqNumber {
    edge_at(out, LEAST_SEGMENTS * flow.mss.get())
}

/// `wanted` bytes beyond the acknowledgement, in units of the window field, but no more than TCP itself offers.
fn edge_at(out: &Outgoing, wanted: u32) -> SeqNumber {
    let offered = u32::from(out.window) << out.shift;
    out.ack + (wanted.div_ceil(1 << out.shift) << out.shift).min(offered)
}

/// The right edge of a window of `most` bytes, or the one that has been advertised if that lies further.
pub(crate) fn within(flow: &Flow, out: &Outgoing, most: u32) -> SeqNumber {
    edge_at(out, most).max(kept(flow, out))
}

/// The window field that says the flow's right edge.
#[must_use]
pub fn edit(flow: &Flow, out: &Outgoing) -> Edit {
    let field = (remaining(flow, out.ack) >> out.shift).min(u32::from(out.window)) as u16;
    if out.copy {
        // The receiver of an older acknowledgement number or timestamp would not look at the window (RFC 9293 §3.10.7.4,
        // RFC 7323 §5.3), and later ones may have passed.
        return Edit { window: Some(field), ack: Some(out.ack), tsval: Some(flow.tsval.get()), ..Edit::NONE };
    }
    Edit { window: (field != out.window).then_some(field), ..Edit::NONE }
}
