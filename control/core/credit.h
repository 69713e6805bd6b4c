/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Exact credit: what a flow may still send is its advertised right edge minus what has arrived. No estimate of the sender's
 * congestion window is needed, and a window that the sender has kept cannot burst past its credit.
 *
 * Ledger and scheduler are common to all; what is its own is what a release costs and what it says:
 *
 * - No danger: as long as the windows that TCP offers to all active flows fit the budget together, none is lowered, whatever the
 *   segment is: at the end of a response, in loss recovery, behind a message that nobody answers.
 * - Charge: what the sender may send once the packet has left, right edge minus highest byte received, less what the flow owes
 *   already. Whatever an idle sender still has is charged with the request that wakes it.
 * - Share: else windows are lowered to the flow's share. A few flows send side by side; more take turns with a quarter of the budget
 *   each, less when there are very many. Not beyond what the response is expected to need, and never below two segments. The right edge never
 *   moves left.
 * - Streams: over a long path, and where all send side by side, a response without an end in sight has what the others leave, and not
 *   only a share.
 * - Turns: an ACK that gets no grant leaves all the same without moving the edge, and a bare copy of it waits for the grant
 *   (DECIDE_SPLIT): what has arrived is acknowledged, so no timer of the sender runs, however long the turn takes. The copy leaves
 *   with the flow's latest acknowledgement number and timestamp; it is the window update that lets the sender go on. Over a long path it
 *   waits while the sender still may go on, for later ACKs may be a round trip away. Requests are held for longer, and then do the same.
 * - Requests: among many a request of any size gets the least grant, and so does a copy that had waited when it left, unless all responses
 *   fit; the share follows with the first data. How long a server thinks before it answers then binds little of the budget. Over a long path it gets
 *   the share at once, each further grant takes a round trip; a new connection's gets what slow start sends, ACK by ACK.
 *   Side by side it waits for room for all that its sender will send at once, nearby if that nearly fits: with less, the rest would take
 *   another round trip.
 * - Pipelining: what follows of earlier answers when a request leaves belongs to what is expected (flow.h, `follows`). The request lets it go on
 *   and is granted as an ACK is.
 * - ACK thinning: a lowered window is spent in small pieces, and every piece costs both hosts, and whatever lies between, an ACK
 *   and a small burst. An ACK in the middle of a stream is left out, for the next one says all that it says.
 *
 * DESIGN NOTES
 * 1. Two segments per grant: one alone meets the receiver's delayed ACK (40 ms on Linux), and a sender never uses segments larger
 *    than half the largest window that it has seen. One where flows are so many that a turn of all takes longer than that anyway.
 * 2. The window field counts in units of 1 << scale from the acknowledgement number. Edges are rounded up to it: down would be a
 *    retraction, or leave less than two segments; what that adds is charged. Where a unit is larger than a segment (scales above
 *    10) the rounding would be most of the window.
 * 3. Such a flow, and one first seen in mid-stream, whose scale is unknown, cannot be governed: its ACKs pass as they are and cost
 *    nothing, only the requests that wake it are charged and wait. Estimates held such streams up for the sake of others (long
 *    ones older than the guard to 0.61 of their throughput, windows of scale 14 to 0.36).
 * 4. Duplicate ACKs carry the unmoved edge: a changed window would stop the sender from counting them (RFC 5681 section 2). Partial
 *    ones, which acknowledge something new, need not.
 * 5. A PSH proves little: Linux sets one at the end of every burst that it leaves to segmentation offload. A sender has stopped by
 *    itself if its PSH came while it had room for more; a response is over where the last one ended, too.
 * 6. ACKs are left out only while windows are in danger and the sender certainly sends on without them: what arrived last had no
 *    PSH, so more waits to be sent; half of the window is open; no loss is being repaired; and a window's worth has come since the
 *    last pause with every ACK, for senders may open their windows by the ACK (RFC 5681); and of what came since at most a quarter,
 *    and at most MOST_LEFT_OUT segments, are unacknowledged. After loss or marks at most two, and a quarter of what the sender has
 *    been seen to use: else it may stand before the end of its congestion window, while our TCP, which has sent the ACK, delays the
 *    next. Never on long paths. Never a D-SACK, nor the ACK at a change of CE (RFC 8257 section 3.2): it carries ECN-Echo, or the one
 *    before it did, or more has been received than it acknowledges. Nor where marks are counted (RFC 9768), which every ACK tells of.
 * 7. Turns are reckoned by the most flows that were active at once of late: else the last flows of a round get large grants, keep most of
 *    them, and all send them at the begin of the next.
 * 8. On long paths shares are reckoned by them, too: what has been granted there cannot be taken back for a round trip, and
 *    meets what others nearby begin meanwhile. Only the end of a response is granted at once, up to a quarter of the budget:
 *    granted whole, responses of 64 KB overflow the port together.
 * 9. Who sends unasked keeps a message's length once it has stopped, and not only the least grant, if those of all flows fit the port
 *    together. It is not charged: what was, for windows of senders that had nothing to send, made others wait for milliseconds.
 */
#ifndef ACKGATE_CORE_CREDIT_H
#define ACKGATE_CORE_CREDIT_H

#include "message.h"
#include "pace.h"

/* A grant is at least this share of the budget: when more flows than that wait, they take turns. A few segments at a time
 * cost an ACK less often than one or two, for both hosts. */
#define TURNS 4
/* The same while CE marks come: senders that have reduced their windows need several round trips for a large grant. */
#define MARKED_TURNS 6

/* Least unacknowledged segments of an undisturbed stream with which an ACK goes out; two after loss or marks, as with delayed
 * ACKs (RFC 5681 section 4.2). */
#define MOST_LEFT_OUT 4
/* Until the link has shown that it carries more, a turn takes no more than this many budgets. */
#define BUDGETS_PER_TURN 64

/* Segments of a grant: in pairs where a sender's timer does not wait for the delayed ACK of an odd one. */
INLINE __u64 in_pairs(WITH_CORE __u64 segments)
{
	return timer_is_short(CORE_ALONE) ? segments & ~1ull : segments;
}

/* Wire bytes that a turn of all flows may take. With a short timer half of it: a small budget does not fill the link between turns. */
INLINE __u64 turn(WITH_CORE const struct view *view)
{
	__u64 threshold = get64(&GATE->threshold), longest, shown;

	if (timer_is_short(CORE_ALONE))
		return max_u64(threshold, path_rate(CORE_ALONE) * (own_timer(CORE_ALONE) / 2) >> 20);
	longest = longest_turn(CORE_ALONE);
	shown = max_u64(threshold * BUDGETS_PER_TURN, get64(&GATE->smooth_bandwidth) * longest >> 20);
	return view->rate == 0 ? shown : max_u64(threshold, min_u64(shown, view->rate * longest >> 20));
}

/*
 * What so many flows may have outstanding together over paths like this one's, wire bytes. Side by side on short paths: what the
 * path holds, and what hides the hosts' delays; more only stands in the queue. On long ones: what the path holds, and half of
 * the budget, for flows nearby may have the other. One flow alone may have the whole buffer. With shares of this for each, no
 * mixture has more in the queue than the budget.
 */
INLINE __u64 together(WITH_CORE const struct view *view, __u64 flows)
{
	__u64 threshold = get64(&GATE->threshold);

	if (flows <= 1 || view->rate == 0)
		return threshold + view->pipe;
	if (view->pipe > 0)
		return view->pipe + max_u64(threshold / 2, min_u64(threshold, flows * QUANTUM));
	return min_u64(threshold, view->holds + max_u64(max_u64(view->holds / 2, view->rate * HOST_DELAY >> 20),
							flows * quantum(view->rate)));
}

/* Segments of the least grant; one where two for every flow would take longer than half of what anything may wait, for in a round
 * that begins all wait at once. */
INLINE __u32 least_segments(WITH_CORE const struct flow *flow, const struct view *view)
{
	return view->rate > 0 && least_grants(CORE flow) > (view->rate * SETTINGS->max_hold) >> 21 ? 1 : LEAST_SEGMENTS;
}

/* The flow's share as payload bytes, in whole segments. On long paths the most flows of late count: what has been granted
 * there cannot be taken back for a round trip. So they do where a few are asked one after the other: the first would leave the last none. */
SUBPROGRAM __u32 share(WITH_CORE const struct flow *flow, const struct view *view)
{
	__u64 threshold = get64(&GATE->threshold), peak = max_u64(get64(&GATE->peak_active), 1), mss, flows, part, payload, segments;

	if (!flow || !view)
		return 0;
	mss = max_u32(get32(&flow->mss), 1);
	flows = view->pipe > 0 || (get64(&flow->size) == 0 && view->few) ? peak : max_u64(get64(&GATE->active), 1);
	if (view->pipe > 0 || concurrent(CORE_ALONE))
		part = together(CORE view, flows) / flows;
	else if (!marks_bound(CORE_ALONE))
		part = threshold / min_u64(flows, TURNS);
	else
		/* What a sender that marks slow down leaves of its share would keep the others waiting. */
		part = min_u64(threshold / min_u64(flows, MARKED_TURNS), flow_wire(flow, 2ull * get32(&flow->window)));
	if (view->pipe == 0)
		part = min_u64(part, turn(CORE view) / peak);
	payload = part * mss / (mss + get32(&flow->header));
	segments = in_pairs(CORE payload / mss);
	/* A pair less would leave the path idle. */
	if (view->pipe == 0 && segments < payload / mss && flow_wire(flow, segments * mss) * peak < view->holds)
		segments += 2;
	return min_u64(max_u64(segments, least_segments(CORE flow, view)) * mss, 1u << 30);
}

INLINE bool exceeds_turn(WITH_CORE const struct flow *flow, const struct view *view)
{
	return least_grants(CORE flow) > turn(CORE view);
}

/* Whether all that active flows could send at once fits: then nothing is lowered. As many flows as were active of late count, too, with
 * what responses bring at most: the first of a round would be granted all, and keep it when the others follow. */
INLINE bool all_fits(WITH_CORE const struct flow *flow, const struct view *view)
{
	__u64 active = max_u64(get64(&GATE->active), 1), peak = max_u64(get64(&GATE->peak_active), active);
	/* A flow that goes on after a long silence may not be counted yet. */
	__u64 offered = max_u64(get64(&GATE->offered), offer_of(flow));
	__u64 response = min_u64(offered, get64(&GATE->usual_response) * active);
	__u64 threshold = get64(&GATE->threshold), pipe = active <= 1 ? view->pipe : 0;

	return offered <= threshold + pipe && response * peak <= (threshold + (peak <= 1 ? pipe : 0)) * active;
}

/* Whether the flow is the only one as long as nobody knows the buffer: what it can hold one sender finds out best by itself. */
INLINE bool explores(CORE_ONLY)
{
	return !port_is_known(CORE_ALONE) && get64(&GATE->peak_active) <= 1;
}

/* Whether a sender that has stopped may keep all that TCP offers: as many flows as were active of late would send that together when
 * they are next asked. */
INLINE bool may_keep(WITH_CORE const struct flow *flow, const struct view *view)
{
	__u64 peak = max_u64(get64(&GATE->peak_active), 1);

	return offer_of(flow) * peak <= get64(&GATE->threshold) + (peak <= 1 ? view->pipe : 0);
}

/* Whether the sender has no more: it has finished, or pushed where its responses end. A PSH alone tells little (note 5), and nothing where
 * the window had no room for more: hosts push at the end of each burst. A first response may be as short as the last that ended, whatever is
 * expected of it. */
INLINE bool credit_has_no_more(WITH_CORE const struct flow *flow)
{
	__u64 last = get32(&flow->last_response), response = last > 0 ? last : get64(&GATE->usual_response);
	bool only_at_ends = last > 0 && !any_flag(flow, FLOW_PUSHES_MIDWAY), ends;

	if (!any_flag(flow, ENDS))
		return false;
	if (answers_follow(CORE flow))
		return false;
	ends = only_at_ends ? any_flag(flow, FLOW_STOPPED) : had_no_more(flow) && messages_fit(CORE flow);
	return is_complete(CORE flow, ends || get64(&flow->size) == response || message_is_whole(CORE flow));
}

/* So much payload in whole segments, no less than the least grant. */
INLINE __u64 in_segments(const struct flow *flow, __u64 payload)
{
	__u32 mss = max_u32(get32(&flow->mss), 1);

	return max_u64(div_ceil(payload, mss), LEAST_SEGMENTS) * mss;
}

/* Payload that is still to come of the response, from the acknowledgement number on, in whole segments: a sender whose response is longer
 * than the last one would stand before less than a segment until it probes the window. Among very many, where responses are all alike as
 * far as is known, to the byte: what idle senders keep adds up, the first time already. */
INLINE __u64 lacking(WITH_CORE const struct flow *flow, __u32 ack, const struct view *view)
{
	__u64 size = get64(&flow->size), response = expected(CORE flow), lacking;
	__u32 mss = max_u32(get32(&flow->mss), 1);

	if (size >= response)
		return ~0ull;
	lacking = response - size + (any_flag(flow, FLOW_RECEIVED) ? ahead_of(get32(&flow->received), ack) : 0);
	/* Who sends unasked may go on with the next message at once. */
	if (messages_fit(CORE flow))
		lacking += get64(&GATE->largest_message);
	if (!exceeds_turn(CORE flow, view))
		return in_segments(flow, lacking);
	return response == get64(&GATE->usual_response) ? lacking : div_ceil(lacking, mss) * mss;
}

/* Where windows are in danger; nothing is thinned on long paths, whose senders time their ACKs. */
INLINE bool may_thin(const struct flow *flow, const struct outgoing *out, const struct view *view)
{
	__u32 limit, window, run;

	if (out->class != CLASS_ACK || out->data || view->pipe > 0 || out->ece || out->dsack || out->repeated || get32(&flow->held) > 0 ||
	    counts_marks(flow))
		return false;
	if (any_flag(flow, FLOW_PUSHED | FLOW_RECOVERING | FLOW_PEER_DONE | FLOW_OVERTAKEN) ||
	    get32(&flow->received) != out->ack || !can_go_on(flow, out->ack))
		return false;
	window = remaining(flow, out->ack);
	run = get32(&flow->run);
	limit = get32(&flow->mss) * MOST_LEFT_OUT;
	if (any_flag(flow, FLOW_REDUCED))
		limit = min_u64(2ull * get32(&flow->mss), get32(&flow->window) / 4);
	limit = min_u64(limit, min_u64(run / 4, window / 2));
	return run >= window && ahead_of(out->ack, get32(&flow->released_ack)) < limit;
}

INLINE __u32 least(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct view *view)
{
	return edge_at(out, least_segments(CORE flow, view) * get32(&flow->mss));
}

/* What a sender that has stopped begins with when it goes on: the least grant, or a message, where those of all fit. */
INLINE __u32 kept(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct view *view)
{
	if (messages_fit(CORE flow))
		return edge_at(out, min_u64(in_segments(flow, get64(&GATE->largest_message)), 1u << 30));
	return least(CORE flow, out, view);
}

/* Payload beyond out.ack that there is room for now, in whole segments and no less than the least grant. Side by side a flow that has
 * begun takes what there is instead of waiting for its whole share. */
INLINE __u32 affordable(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct view *view)
{
	__u64 mss = max_u32(get32(&flow->mss), 1);
	__u64 free = room_for(CORE view) + get32(&flow->owed);
	__u64 payload = free * mss / (mss + get32(&flow->header)) +
			(any_flag(flow, FLOW_RECEIVED) ? ahead_of(get32(&flow->received), out->ack) : 0);
	__u64 rounding = (1u << (out->shift & 15)) - 1;

	return min_u64(max_u64(in_pairs(CORE saturating_sub(payload, rounding) / mss), least_segments(CORE flow, view)) * mss, 1u << 30);
}

/* What the sender may have that explores: what its response lacks, or where no end is in sight, as much again as has come of it, and a share.
 * Slow start is no faster (RFC 5681 section 3.1). What was granted beyond could not be taken back, and would come at once when many
 * others are asked, too. */
INLINE __u32 explored(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct view *view)
{
	__u64 part = share(CORE flow, view), wanted = lacking(CORE flow, out->ack, view);

	if (wanted == ~0ull)
		wanted = get64(&flow->size) + part;
	return edge_at(out, min_u64(max_u64(wanted, part), 1u << 30));
}

/* Of what the others leave, a stream may have so much. As by a switch's dynamic threshold (Choudhury and Hahne 1998) several streams come to
 * the same each, and one leaves an eighth unused. */
#define SPARE(left) ((left) / 8 * 7)

/* What may be on its way of a stream, payload bytes: what all flows of late may have together, less what the others owe, and less what those
 * that are idle or wait would bring if they were asked now; or less what the others have brought in a round trip: nearby, they owe little
 * and bring much. An equal share would leave the link idle where they need little. */
INLINE __u64 spare(WITH_CORE const struct flow *flow, const struct view *view)
{
	__u64 peak = max_u64(get64(&GATE->peak_active), 1), mss = max_u32(get32(&flow->mss), 1), all, response, idle, others;

	all = together(CORE view, peak);
	/* What waits has not been charged. */
	idle = saturating_sub(peak, get64(&GATE->active)) + get64(&GATE->held);
	/* Of several sizes the largest, or what is larger would wait for the stream. */
	response = get64(&GATE->largest_response);
	response = response > 0 ? min_u64(flow_wire(flow, response), all / peak) : all / peak;
	others = saturating_sub(counted(CORE view->booked), get32(&flow->owed)) + idle * response;
	others = max_u64(others, get32(&flow->others));
	return SPARE(saturating_sub(all, others)) * mss / (mss + get32(&flow->header));
}

/* Whether as much for each flow of late would fit if the path held its part: who asks last waits for a moment only. */
INLINE bool nearly_fits(WITH_CORE const struct flow *flow, __u64 each, const struct view *view)
{
	__u64 threshold = get64(&GATE->threshold), flows = max_u64(get64(&GATE->peak_active), 1);

	return flow_wire(flow, min_u64(each, threshold)) * flows <= threshold + view->holds;
}

/* Of what a response lacks, what is granted at once: a share. Over a long path all of it where what shares leave of all responses fits the
 * budget, for the rest would take another round trip; over short ones where as much for each active flow fits: a sender that is left alone
 * with a share does not fill the link until the next grant has reached it. Of a known buffer also where it nearly fits, if it is asked for.
 * But where timers are short only if few were active of late, or all come in time: what others wait meanwhile may be longer. Without an end in
 * sight, where nobody takes turns, as much as the others leave; by a sixteenth of what arrives more than before, for what grows faster comes in
 * bursts, or as much as has come in a round trip before. */
INLINE __u64 part_of(WITH_CORE const struct flow *flow, const struct outgoing *out, __u64 lacking, const struct view *view)
{
	__u64 threshold = get64(&GATE->threshold), part = share(CORE flow, view), each = lacking, flows, grown, streamed;
	bool asked;

	if (view->pipe > 0) {
		each = saturating_sub(lacking, part);
		flows = get64(&GATE->peak_active);
	} else if (view->few || (concurrent(CORE_ALONE) && !timer_is_short(CORE_ALONE))) {
		flows = max_u64(get64(&GATE->active), 1);
	} else {
		return view->together ? lacking : part;
	}
	if (flow_wire(flow, min_u64(each, threshold)) * flows <= threshold)
		return lacking;
	asked = get64(&flow->size) == 0 && get32(&flow->last_response) > 0;
	if (asked && view->pipe == 0 && port_is_known(CORE_ALONE) && nearly_fits(CORE flow, each, view))
		return lacking;
	streamed = get32(&flow->streamed);
	if (lacking < ~0ull || streamed == 0 || (view->pipe == 0 && !concurrent(CORE_ALONE)))
		return part;
	grown = remaining(flow, get32(&flow->released_ack)) + ahead_of(out->ack, get32(&flow->released_ack)) / 16;
	grown = max_u64(min_u64(grown, 2 * streamed), streamed);
	return max_u64(part, min_u64(spare(CORE flow, view), grown));
}

/* Whether what asks can be made to wait. */
INLINE bool requests_wait(CORE_ONLY)
{
	return SETTINGS->hold != HOLD_NOTHING && SETTINGS->gate_requests && !SETTINGS->leave_data;
}

/* What a copy waits for where the end of a response is in sight over a long path: all that the sender can use. Of a slow start no more than a
 * share, or a second flight: whole windows would keep others waiting. */
INLINE __u64 in_turn(WITH_CORE const struct flow *flow, __u64 wanted, const struct view *view)
{
	if (get32(&flow->last_response) > 0)
		return wanted;
	return min_u64(wanted, max_u64(share(CORE flow, view), 2 * initial_window(CORE flow)));
}

/* Whether so much is not granted at once over a long path: it is more than a quarter of the budget, or as much for each flow of late takes
 * longer than a timer, and who has ended waits for the others. With a budget that nobody gave that counts for who has answered before: new
 * connections begin with so little that shares of it would not fill the path. */
INLINE bool comes_in_parts(WITH_CORE const struct flow *flow, __u64 wanted)
{
	__u64 threshold = get64(&GATE->threshold), wire = flow_wire(flow, min_u64(wanted, threshold));
	bool shares_fill = port_is_known(CORE_ALONE) || get32(&flow->last_response) > 0;

	return wire > threshold / TURNS || (shares_fill && comes_late(CORE wire * get64(&GATE->peak_active), own_timer(CORE_ALONE)));
}

/* How far the sender may go now. Over a long path each further grant takes a round trip: the end of a response is granted at once, and what
 * there is no room for follows in a copy (`partial`). */
SUBPROGRAM __u32 grant(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct view *view, struct trigger *trigger)
{
	__u64 pipe, wanted, at_once;
	bool midway, may_have_ended, side_by_side, among_many, asks, waits, far_end, calls;

	if (!flow || !out || !view || !trigger)
		return 0;
	pipe = view->pipe;
	midway = any_flag(flow, FLOW_PUSHES_MIDWAY) && (pipe > 0 || get64(&flow->size) < expected(CORE flow));
	may_have_ended = any_flag(flow, FLOW_STOPPED) && out->ack == get32(&flow->received) && !midway;
	side_by_side = pipe > 0 || concurrent(CORE_ALONE);
	asks = out->class == CLASS_REQUEST || (get64(&flow->size) == 0 && follows(CORE flow) == 0);
	among_many = asks && get64(&GATE->active) > TURNS && !side_by_side && !view->together;
	if (out->class == CLASS_HANDSHAKE && !any_flag(flow, FLOW_HALF_OPEN) && !out->data && exceeds_turn(CORE flow, view))
		return out->ack;
	/* Who has called begins with its initial window; among many with less, or as much of it as responses bring, where all fit. */
	calls = out->class == CLASS_HANDSHAKE && any_flag(flow, FLOW_HALF_OPEN);
	if (calls && !may_burst(CORE flow))
		return edge_at(out, initial_window(CORE flow));
	if (calls && view->together)
		return edge_at(out, min_u64(initial_window(CORE flow), in_segments(flow, largest_expected(CORE flow))));
	if (may_have_ended)
		return kept(CORE flow, out, view);
	if (among_many || (out->class == CLASS_HANDSHAKE && !out->data))
		return least(CORE flow, out, view);
	wanted = lacking(CORE flow, out->ack, view);
	far_end = pipe > 0 && wanted < ~0ull && may_begin_together(CORE flow, view);
	/* Slow start sends no more, and what is granted beyond keeps others waiting. */
	if (starts_slowly(CORE flow, view))
		wanted = min_u64(wanted, slow_start(CORE flow));
	waits = asks && requests_wait(CORE_ALONE) && (pipe > 0 || nearly_fits(CORE flow, wanted, view));
	if (pipe == 0 || comes_in_parts(CORE flow, wanted))
		wanted = min_u64(wanted, part_of(CORE flow, out, wanted, view));
	if (!side_by_side)
		return edge_at(out, wanted);
	at_once = affordable(CORE flow, out, view);
	/* What asks waits for all that its sender will send at once. */
	if (waits)
		at_once = max_u64(at_once, get32(&flow->last_response) > 0 ? wanted : initial_window(CORE flow));
	if (far_end && out->copy)
		at_once = max_u64(at_once, in_turn(CORE flow, wanted, view));
	trigger->partial = far_end && at_once < wanted && !view->few;
	return edge_at(out, min_u64(wanted, at_once));
}

/* What asks for a response sets in motion at most, whatever its sender's window, wire bytes: where all responses fit, the largest of them, over
 * a long path in whole segments, for the pace goes by it, and only of who has called or answered before; in jumbo frames as much as that of
 * ordinary ones at least; of who answered with little the last time, as much again, unless something was lost of late. */
INLINE __u64 most_answered(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct view *view)
{
	__u64 most = 1u << 30, last = get32(&flow->last_response);

	if (view->together && view->pipe == 0)
		most = largest_expected(CORE flow);
	else if (leaves_jumbo_frames_empty(CORE flow))
		most = max_u64(largest_expected(CORE flow), LEAST_SEGMENTS * FULL_FRAME);
	else if (view->together && (last > 0 || out->class == CLASS_HANDSHAKE))
		most = in_segments(flow, largest_expected(CORE flow));
	if (last > 0 && nothing_lost_of_late(CORE_ALONE)) {
		if (answers_briefly(flow))
			return brief_answer(flow);
		if (follows(CORE flow) > 0)
			most = min_u64(most, last + follows(CORE flow));
		else if (out->class == CLASS_DATA)
			most = min_u64(most, 2 * last);
	}
	return flow_wire(flow, most);
}

/* Whether it answers who has asked it, and has before. */
INLINE bool answers_as_before(const struct flow *flow)
{
	return get32(&flow->last_response) > 0 && any_flag(flow, FLOW_ASKS);
}

/* What the sender may send up to `to`, less what it owes. Of a wide window no more counts than twice what it has been seen to use, or
 * than its share of a long path, where that is what it has been granted, nor, of a response that has begun, more than what is expected
 * to follow: a trickle would bind the whole budget, and what never comes would keep others waiting until the response has ended. All that is
 * expected to follow counts where it has been granted. It is all that counts over a long path where all responses fit, as it is of requests
 * (`most_answered`): windows may have been left wide. */
INLINE void price(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct view *view, __u32 to,
		  struct trigger *trigger)
{
	__u32 received = any_flag(flow, FLOW_RECEIVED) ? get32(&flow->received) : out->ack;
	__u64 credit = flow_wire(flow, ahead_of(to, received)), much = get64(&GATE->threshold) / TURNS;
	__u64 most = 2ull * max_u32(get32(&flow->window), get32(&flow->streamed)), follows = ~0ull;

	if (get64(&flow->size) == 0)
		credit = min_u64(credit, most_answered(CORE flow, out, view));
	else if (view->pipe > 0 || credit > much)
		follows = lacking(CORE flow, out->ack, view);
	if (follows < ~0ull && answers_as_before(flow) && view->pipe > 0 && all_come_together(CORE flow, view->pipe))
		credit = min_u64(credit, flow_wire(flow, follows));
	if (credit > much && !trigger->calm && view->pipe > 0)
		much = flow_wire(flow, share(CORE flow, view));
	if (credit > much) {
		if (get64(&flow->size) > 0)
			most = trigger->calm || follows == ~0ull ? min_u64(most, follows) : follows;
		credit = max_u64(much, min_u64(credit, flow_wire(flow, most)));
	}
	if (has_no_room(CORE flow, ahead_of(to, received)))
		credit = 0;
	trigger->wire = saturating_sub(credit, get32(&flow->owed));
	trigger->increment = 0;
	trigger->edge = to;
	trigger->moves_edge = true;
}

/* Whether an ACK of a sender that repairs its losses moves the edge: a partial ACK does where there is room. Frozen until all is
 * repaired, the edge would stop a sender with a long path, and it would then send a whole window at once. */
INLINE bool repairs_on(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct view *view)
{
	return ahead_of(out->ack, get32(&flow->released_ack)) > 0 && (view->pipe > 0 || concurrent(CORE_ALONE)) &&
	       room_for(CORE view) > least_grant(flow);
}

INLINE void credit_trigger(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct view *view,
			   struct trigger *trigger)
{
	bool moves = out->class == CLASS_DATA ? !can_go_on(flow, out->ack) || follows(CORE flow) > 0
		     : out->class == CLASS_URGENT ? repairs_on(CORE flow, out, view) : out->class != CLASS_STALE;
	__u32 to = kept_edge(flow, out), all = edge_at(out, 1u << 30);
	bool fits = all_fits(CORE flow, view) || (view->few && others_take(CORE_ALONE)), calm = fits || explores(CORE_ALONE);

	trigger->calm = calm;
	trigger->moves_edge = true;
	if ((out->class == CLASS_ACK || out->class == CLASS_DATA) && credit_has_no_more(CORE flow)) {
		bool nothing = exceeds_turn(CORE flow, view) && !out->repeated;

		trigger->edge = calm && may_keep(CORE flow, view) ? later(all, to) : nothing ? to : later(kept(CORE flow, out, view), to);
		return;
	}
	if (out->class == CLASS_DATA && any_flag(flow, FLOW_ONE_WAY)) {
		trigger->edge = calm && may_keep(CORE flow, view) ? later(all, to) : to;
		return;
	}
	if (calm)
		to = later(fits ? all : explored(CORE flow, out, view), to);
	else if (moves)
		to = later(grant(CORE flow, out, view, trigger), to);
	price(CORE flow, out, view, to, trigger);
}

/* What leaves while its grant waits costs what its sender has left; where `trigger` says already whether there is danger. */
INLINE void without_grant(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct view *view,
			  struct trigger *trigger)
{
	price(CORE flow, out, view, kept_edge(flow, out), trigger);
	/* A request is answered with a bare ACK, too. */
	if (out->data)
		trigger->wire += get32(&flow->header);
}

/* The same for what is held. */
INLINE void split_off(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct view *view, struct trigger *trigger)
{
	trigger->calm = explores(CORE_ALONE) || all_fits(CORE flow, view);
	without_grant(CORE flow, out, view, trigger);
}

#endif
