/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The pace: what a long path holds must not come at once. What asks over one, and among many senders what grants more than ACKs clock,
 * leaves at the link's rate, but for one threshold. So does what is asked for over a short path beyond the budget, because the link is idle
 * while servers think.
 */
#ifndef ACKGATE_CORE_PACE_H
#define ACKGATE_CORE_PACE_H

#include "ledger.h"

/* What a frame takes on the link beside its bytes: preamble, gap and checksum (IEEE 802.3). */
#define FRAMING 24ull

/* What a sender begins with, payload bytes (RFC 6928). */
INLINE __u64 initial_window(WITH_CORE const struct flow *flow)
{
	return (__u64)SETTINGS->initial_window * get32(&flow->mss);
}

/* What initial windows of as many flows as were active at once of late are together, wire bytes. */
INLINE __u64 initial_windows(WITH_CORE const struct flow *flow)
{
	return get64(&GATE->peak_active) * flow_wire(flow, initial_window(CORE flow));
}

/* Whether initial windows of all flows at once are more than the budget. Fewer senders hurt nobody by beginning together. */
INLINE bool may_burst(WITH_CORE const struct flow *flow)
{
	return initial_windows(CORE flow) > get64(&GATE->threshold);
}

/* Whether it asks a peer that answers with little, be it asked beside (`comes_beside` of egress.h) or in turn. */
INLINE bool asks_briefly(WITH_CORE const struct flow *flow, const struct outgoing *out)
{
	bool beside = SETTINGS->charge_requests && out->class == CLASS_DATA && out->data && get64(&flow->size) == 0 &&
		      !any_flag(flow, FLOW_ONE_WAY);

	return (beside || out->class == CLASS_REQUEST) && answers_briefly(flow);
}

/* What of `wire` bytes has not kept the pace before. What is left of a window in the middle of a response, and is too little for a segment,
 * has, and is charged again with the next grant. What only rounds windows up, and is never used, is no part of that. */
INLINE __u64 not_paced_before(const struct flow *flow, __u64 wire)
{
	__u32 left = remaining(flow, get32(&flow->received)), mss = get32(&flow->mss);

	if (get64(&flow->size) == 0 || left >= mss || left < mss / 4)
		return wire;
	return saturating_sub(wire, saturating_sub(flow_wire(flow, left), get32(&flow->owed)));
}

/* What `wire` bytes take on the link, with what is between frames: so many full ones as are nearest, for edges are rounded up to a unit that
 * nobody fills, or one small frame. Of jumbo frames that unit is little, and they are seldom full. */
INLINE __u64 on_link(const struct flow *flow, __u64 wire)
{
	__u64 full = max_u64(get32(&flow->mss) + get32(&flow->header), 1), frames = (wire + full / 2) / full;

	if (is_jumbo(flow))
		return wire + div_ceil(wire, full) * FRAMING;
	if (frames > 0)
		return frames * (full + FRAMING);
	return wire > 0 ? wire + FRAMING : 0;
}

/* What a response of so much payload takes there. */
INLINE __u64 response_on_link(const struct flow *flow, __u64 payload)
{
	return payload + div_ceil(payload, max_u32(get32(&flow->mss), 1)) * (get32(&flow->header) + FRAMING);
}

/* The most that comes at once of so many wire bytes of a response in slow start (RFC 5681 section 3.1), wire bytes. */
SUBPROGRAM __u64 largest_flight(WITH_CORE const struct flow *flow, __u64 wire)
{
	__u64 flight, largest = 0;

	if (!flow)
		return wire;
	flight = flow_wire(flow, initial_window(CORE flow));
ROLLED
	for (int i = 0; i < 8 && wire > flight; i++) {
		wire -= flight;
		largest = flight;
		flight *= 2;
	}
	return max_u64(largest, wire);
}

/* What a segment is likely to set in motion at once. A connection's first response comes in slow start. A request: of the window that the
 * sender has kept or is granted, of which its price may leave out some, no more than the last one did, or than twice what the sender has
 * been seen to use, or where all responses fit, or jumbo frames are not full, than the largest of them; a short answer and the bare ACK
 * before it are two frames. PAC's price is all that its model says the sender has. */
INLINE __u64 likely_burst(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct trigger *trigger,
			  const struct view *view)
{
	__u64 response = get32(&flow->last_response), wire = trigger->wire, came;

	if (view->pipe == 0)
		return max_u64(wire, on_link(flow, wire));
	if (SETTINGS->credit && asks_briefly(CORE flow, out))
		return brief_answer(flow) + 2 * FRAMING;
	if (response == 0 && get64(&flow->size) == 0 && get64(&GATE->usual_response) > 0 && view->few) {
		wire = largest_flight(CORE flow, wire);
	} else if (out->class != CLASS_REQUEST) {
		wire = not_paced_before(flow, wire);
	} else if (response > 0 && SETTINGS->credit) {
		/* What has come since its ACK number was written is not set in motion any more. */
		came = any_flag(flow, FLOW_RECEIVED) ? ahead_of(get32(&flow->received), out->ack) : 0;
		wire = max_u64(wire, flow_wire(flow, saturating_sub(advertised(flow, out, trigger), came)));
		if (view->together || leaves_jumbo_frames_empty(CORE flow))
			return min_u64(on_link(flow, wire), response_on_link(flow, largest_expected(CORE flow)));
		wire = min_u64(wire, flow_wire(flow, max_u64(response, 2ull * get32(&flow->window))));
	}
	return on_link(flow, wire);
}

/* Whether initial windows of all have room in path and port together, or in twice that, where nobody told the buffer. */
INLINE bool may_begin_together(WITH_CORE const struct flow *flow, const struct view *view)
{
	__u64 room = view->pipe + get64(&GATE->threshold);

	return initial_windows(CORE flow) <= (port_is_known(CORE_ALONE) ? room : 2 * room);
}

/* Whether what is expected of all fits path and port together. */
INLINE bool may_come_together(WITH_CORE const struct flow *flow, const struct view *view)
{
	return get64(&GATE->peak_active) * flow_wire(flow, expected(CORE flow)) <= get64(&GATE->threshold) + view->pipe;
}

/* Whether a sender's slow start is followed: a new connection's, over a long path, as far as its response is expected to go, where all that is
 * expected of all does not fit, but their initial windows may begin together. Not one that a mark ends sooner (RFC 3168 section 6.1.2). */
INLINE bool starts_slowly(WITH_CORE const struct flow *flow, const struct view *view)
{
	return view->pipe > 0 && !(view->few && may_come_together(CORE flow, view)) && get32(&flow->last_response) == 0 &&
	       get64(&flow->size) < expected(CORE flow) && !any_flag(flow, FLOW_ECN) && may_begin_together(CORE flow, view);
}

/* What such a sender has on its way at most, payload bytes: the initial window, and what has been acknowledged (RFC 5681 section 3.1). */
INLINE __u64 slow_start(WITH_CORE const struct flow *flow)
{
	return initial_window(CORE flow) + get64(&flow->size);
}

/* Whether windows that double side by side overflow the port: half of what they bring stands in its queue. */
INLINE bool double_too_fast(WITH_CORE const struct flow *flow, const struct view *view)
{
	return starts_slowly(CORE flow, view) && get64(&GATE->peak_active) * flow_wire(flow, slow_start(CORE flow)) > get64(&GATE->threshold);
}

/* Whether what sets `wire` bytes in motion must keep the pace: on a short path what is asked for beyond the budget, on a long one what asks,
 * and among many a grant of more than twice what it acknowledges. Slow start grows no faster (RFC 5681 section 3.1), and what has arrived
 * clocks it; where that is too fast, one of half as much again. */
INLINE bool paced(WITH_CORE const struct flow *flow, const struct outgoing *out, __u64 wire, const struct view *view)
{
	__u64 acked;
	bool asks;

	if (view->pipe == 0)
		return view->idle > 0 && out->class == CLASS_REQUEST && counted(CORE view->booked) + wire > get64(&GATE->threshold);
	asks = out->class == CLASS_REQUEST || out->class == CLASS_HANDSHAKE || asks_briefly(CORE flow, out);
	acked = flow_wire(flow, ahead_of(out->ack, get32(&flow->released_ack)));
	return asks || (wire > 2 * acked && may_burst(CORE flow)) || (2 * wire > 3 * acked && double_too_fast(CORE flow, view));
}

/* What has been set in motion over long paths, faster than the link carries it. */
INLINE __u64 ahead_of_link(WITH_CORE __u64 now)
{
	__u64 elapsed = min_u64(since(now, get64(&GATE->ahead_since)), 1ull << 32);

	return saturating_sub(get64(&GATE->ahead), elapsed * path_rate(CORE_ALONE) >> 20);
}

/* Whether what sets so much in motion keeps the pace. */
SUBPROGRAM bool keeps_pace(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct trigger *trigger,
			   const struct view *view, __u64 now)
{
	__u64 before;

	if (!flow || !out || !trigger || !view || !paced(CORE flow, out, trigger->wire, view))
		return true;
	before = ahead_of_link(CORE now);
	return before == 0 || before + likely_burst(CORE flow, out, trigger, view) <= get64(&GATE->threshold);
}

/* When what does not keep the pace will: what is too much has been carried, but no less than a sixteenth of the threshold, so that
 * nobody is woken for each segment. */
INLINE __u64 keeps_pace_at(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct trigger *trigger,
			   const struct view *view, __u64 now)
{
	__u64 before = ahead_of_link(CORE now), after = before + likely_burst(CORE flow, out, trigger, view);
	__u64 threshold = get64(&GATE->threshold);
	__u64 excess = min_u64(max_u64(saturating_sub(after, threshold), threshold / 16), before);

	return now + (excess << 20) / max_u64(path_rate(CORE_ALONE), 1) + 1;
}

/* Notes what leaves. Of what ACKs clock among many, no more than one threshold: the queue that it may stand in. */
INLINE void note_pace(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct trigger *trigger,
		      const struct view *view, __u64 now)
{
	__u64 before, after;

	if (trigger->wire == 0 || (view->pipe == 0 && (view->idle == 0 || out->class != CLASS_REQUEST)))
		return;
	before = ahead_of_link(CORE now);
	after = before + likely_burst(CORE flow, out, trigger, view);
	if (!paced(CORE flow, out, trigger->wire, view))
		after = may_burst(CORE flow) ? max_u64(before, min_u64(after, get64(&GATE->threshold))) : before;
	set64(&GATE->ahead, after);
	set64(&GATE->ahead_since, now);
}

#endif
