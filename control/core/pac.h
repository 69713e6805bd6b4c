/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * PAC's price of a segment: Eq. 3 of section III-C, within what the sender can have; and what a release does to the model.
 */
#ifndef ACKGATE_CORE_PAC_H
#define ACKGATE_CORE_PAC_H

#include "credit.h"

/* Segments of a window in which a byte more or less for each ACK no longer matters. */
#define LARGE_WINDOW 32

INLINE bool bounded(WITH_CORE const struct flow *flow)
{
	return SETTINGS->bound_windows && !SETTINGS->credit && any_flag(flow, FLOW_SCALE_KNOWN);
}

INLINE __u32 largest_window(WITH_CORE const struct flow *flow)
{
	__u64 mss = get32(&flow->mss);
	__u64 segments = (get64(&GATE->cap) * 4 / 5 + pipe_of(CORE flow)) / max_u64(mss + get32(&flow->header), 1);

	return min_u64(max_u64(segments, LEAST_SEGMENTS) * mss, 1u << 30);
}

/* The window field with which the segment leaves: where windows are granted or bounded it says the flow's right edge. */
INLINE __u16 window_field(WITH_CORE const struct flow *flow, const struct outgoing *out)
{
	if (out->class == CLASS_NONE || !(governs(CORE flow) || bounded(CORE flow)))
		return out->window;
	return credit_window(flow, out);
}

/* RFC 5681 Eq. 4. */
INLINE __u32 halved(const struct flow *flow)
{
	return max_u32(whole_segments(flow, get32(&flow->window) / 2), 2 * get32(&flow->mss));
}

INLINE void reduce(struct flow *flow, __u32 sent)
{
	raise_flags(flow, FLOW_REDUCED | FLOW_AVOIDANCE);
	set32(&flow->recover, sent);
	set32(&flow->window, halved(flow));
}

INLINE bool reduces(const struct flow *flow, const struct outgoing *out)
{
	__u32 flags = get32(&flow->flags);
	bool reacting = flags & FLOW_REDUCED && seq_distance(out->ack, get32(&flow->recover)) <= 0;

	return out->ece && !reacting && !(flags & FLOW_RECOVERING);
}

/* The window that the ACK advertises, up to its right edge if windows are bounded. */
INLINE __u32 advertised(const struct flow *flow, const struct outgoing *out, const struct trigger *trigger)
{
	if (trigger->moves_edge)
		return ahead_of(trigger->edge, out->ack);
	return any_flag(flow, FLOW_SCALE_KNOWN) ? (__u32)out->window << (out->shift & 15) : ~0u;
}

/* What the sender can still put on its way once the ACK has reached it, in wire bytes. */
INLINE __u64 room(const struct flow *flow, const struct outgoing *out, const struct trigger *trigger)
{
	__u32 increment = trigger->increment, offered = advertised(flow, out, trigger);
	__u32 arrived = any_flag(flow, FLOW_RECEIVED) ? ahead_of(get32(&flow->received), out->ack) : 0;
	__u32 window = reduces(flow, out) ? halved(flow) : get32(&flow->window);

	window = window + increment < window ? ~0u : window + increment;
	window = whole_segments(flow, window < offered ? window : offered);
	return saturating_sub(flow_wire(flow, window > arrived ? window - arrived : 0), get32(&flow->owed));
}

INLINE __u32 increment(WITH_CORE const struct flow *flow, __u32 acked, const struct outgoing *out)
{
	__u32 mss = get32(&flow->mss);
	__u32 grown = SETTINGS->per_byte_growth ? acked : mss;

	if (out->ece || out->class == CLASS_URGENT)
		return 0;
	if (any_flag(flow, FLOW_AVOIDANCE)) {
		__u64 window = max_u32(whole_segments(flow, get32(&flow->window)), 1);
		__u64 product = (__u64)mss * grown;

		if (window > LARGE_WINDOW * (__u64)mss)
			return product / window;
		return min_u64(div_ceil(product, window), mss);
	}
	return grown;
}

SUBPROGRAM int trigger_of(WITH_CORE const struct flow *flow, const struct outgoing *out, struct trigger *trigger)
{
	__u32 mss, window, response, acked;
	__u64 payload;
	bool hole;

	if (!flow || !out || !trigger)
		return 0;
	mss = get32(&flow->mss);
	window = get32(&flow->window);
	if (governs(CORE flow)) {
		credit_trigger(CORE flow, out, trigger);
		return 0;
	}
	if (bounded(CORE flow)) {
		trigger->edge = within(flow, out, largest_window(CORE flow));
		trigger->moves_edge = true;
	}
	if (out->class == CLASS_HANDSHAKE) {
		trigger->wire = flow_wire(flow, (__u64)SETTINGS->initial_window * mss);
		return 0;
	}
	if (out->class == CLASS_REQUEST) {
		response = get32(&flow->last_response);
		window = min_u64(window, advertised(flow, out, trigger));
		trigger->wire = flow_wire(flow, response == 0 || window < response ? window : response);
		return 0;
	}
	/* Under exact credit a flow that cannot be governed is left alone, but for the requests that wake it: estimates would hold up
	 * long streams for the sake of others. */
	if (out->class == CLASS_STALE || SETTINGS->credit)
		return 0;
	acked = ahead_of(out->ack, get32(&flow->released_ack));
	hole = any_flag(flow, FLOW_RECEIVED) && seq_distance(get32(&flow->received), out->ack) > 0;
	if (acked == 0 && out->class == CLASS_URGENT && hole) {
		trigger->wire = flow_wire(flow, mss);
		return 0;
	}
	if (acked == 0)
		return 0;
	trigger->increment = increment(CORE flow, acked, out);
	if (trigger->moves_edge)
		trigger->increment = min_u64(trigger->increment, saturating_sub(advertised(flow, out, trigger), window));
	if (has_no_more(CORE flow) || any_flag(flow, FLOW_ONE_WAY))
		return 0;
	payload = acked + div_ceil(trigger->increment, max_u32(mss, 1)) * max_u32(mss, 1);
	trigger->wire = min_u64(min_u64(flow_wire(flow, payload), room(flow, out, trigger)), still_expected(CORE flow));
	return 0;
}

SUBPROGRAM int charge(WITH_CORE struct flow *flow, const struct outgoing *out, const struct trigger *trigger, __u64 now)
{
	__u32 window;

	if (!flow || !out || !trigger)
		return 0;
	window = get32(&flow->window);
	note_pace(CORE flow, out, trigger->wire, now);
	if (trigger->wire > 0) {
		engage(CORE flow);
		owe(CORE flow, trigger->wire);
		lower_flags(flow, FLOW_FORGIVEN);
		set64(&flow->last_active, now);
		raise_flags(flow, FLOW_AWAITED | (out->class == CLASS_REQUEST ? FLOW_ASKED : 0));
	}
	if (trigger->moves_edge) {
		if (at_edge(flow) && ahead_of(trigger->edge, get32(&flow->edge)) >= get32(&flow->mss))
			set32(&flow->let_go, now >> 10 | 1);
		/* What repeats a TSval may be what is answered. */
		if (out->copy)
			set64(&flow->ts_start, 0);
		advance(&flow->edge, trigger->edge);
	}
	set32(&flow->window, window + trigger->increment < window ? ~0u : window + trigger->increment);
	advance(&flow->released_ack, out->ack);
	if (reduces(flow, out))
		reduce(flow, get32(&flow->received) + get32(&flow->owed));
	if (out->class == CLASS_HANDSHAKE && any_flag(flow, FLOW_HALF_OPEN))
		time_handshake(CORE flow, now);
	return 0;
}

#endif
