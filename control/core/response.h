/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Evidence about responses: where one begins, how long it is, and when nothing more will come.
 */
#ifndef ACKGATE_CORE_RESPONSE_H
#define ACKGATE_CORE_RESPONSE_H

#include "interval.h"

INLINE bool governs(WITH_CORE const struct flow *flow)
{
	return SETTINGS->credit && any_flag(flow, FLOW_SCALE_KNOWN) &&
	       1u << (get32(&flow->scale) & 15) <= get32(&flow->mss);
}

INLINE __u64 expected(WITH_CORE const struct flow *flow)
{
	__u64 last = get32(&flow->last_response);

	return last == 0 ? get64(&GATE->usual_response) : last;
}

/* Whether the sender has no more. A PSH alone tells little: Linux ends each burst with one that it leaves to segmentation offload. */
INLINE bool has_no_more(WITH_CORE const struct flow *flow)
{
	__u32 flags = get32(&flow->flags), last = get32(&flow->last_response);
	bool governed = governs(CORE flow);
	__u64 response = governed ? expected(CORE flow) : last;
	bool ends = governed ? last > 0 && !(flags & FLOW_PUSHES_MIDWAY) : (flags & (FLOW_CUT | FLOW_CUTS_MIDWAY)) == FLOW_CUT;
	bool believed = get64(&flow->size) == response || flags & FLOW_DRY || ends;
	bool pushed = SETTINGS->push_ends_response && flags & FLOW_PUSHED && believed;

	return (pushed || flags & FLOW_PEER_DONE) && !(flags & FLOW_RECOVERING);
}

INLINE void end_response(WITH_CORE struct flow *flow)
{
	__u64 size = take64(&flow->size);

	if (size > 0) {
		set64(&GATE->usual_response, size);
		set32(&flow->last_response, size > ~0u ? ~0u : size);
	}
	set32(&flow->run, 0);
	set64(&flow->interval_start, 0);
	set64(&flow->last_bandwidth, 0);
}

INLINE __u64 still_expected(WITH_CORE const struct flow *flow)
{
	__u64 size = get64(&flow->size), response = get32(&flow->last_response);

	if (!SETTINGS->charge_requests || size >= response)
		return ~0ull;
	return saturating_sub(flow_wire(flow, response - size), get32(&flow->owed));
}

/* So many debts fill the threshold that each may be unpaid because of the others. */
#define SMALL_DEBTS 12

/* The model's window was too large: so much, in wire bytes, was charged and never sent. */
INLINE void shrink(struct flow *flow, __u64 wire)
{
	__u64 window = get32(&flow->window), mss = get32(&flow->mss);
	__u64 excess = wire * mss / max_u64(mss + get32(&flow->header), 1);

	set32(&flow->window, max_u64(saturating_sub(window, excess), min_u64(2 * mss, window)));
}

/* What was owed a longest pause ago and is not paid although data has kept coming was never sent. */
INLINE void look_through(WITH_CORE struct flow *flow, __u64 pause, __u64 now)
{
	__u64 patience = longest_pause(CORE flow), age = (__u32)((__u32)now - get32(&flow->due_since));
	__u64 due, unpaid;

	if (age < patience && pause * 2 < patience)
		return;
	due = get32(&flow->due);
	unpaid = min_u64(get32(&flow->unpaid), get32(&flow->owed));
	if (unpaid > 0 && pause * 2 < patience) {
		unpaid = take_up_to32(&flow->owed, unpaid);
		forgive(CORE flow, unpaid);
		shrink(flow, unpaid);
		if ((due - unpaid) * 1000 <= due * SETTINGS->lambda_permille)
			raise_flags(flow, FLOW_AVOIDANCE);
	}
	set32(&flow->due, get32(&flow->owed));
	set32(&flow->unpaid, get32(&flow->owed));
	set32(&flow->due_since, now);
}

/*
 * How long an indebted flow may be silent before its debt expires: the longest pause, or half of it if the sender may have no
 * more, or twice what responses take to begin if it has just been asked; that four times as long while everybody is silent, for
 * the requests may not even have left our own queue. But no longer than an ACK may be held.
 */
INLINE __u64 patience(WITH_CORE const struct flow *flow)
{
	__u64 pause = longest_pause(CORE flow), span = pause;

	if (any_flag(flow, FLOW_ASKED)) {
		bool others_go_on = get64(&GATE->last_data) >= get64(&flow->last_active);

		span = max_u64(pause, 2 * get64(&GATE->response_delay)) * (others_go_on ? 1 : 4);
	} else if (SETTINGS->credit && any_flag(flow, FLOW_STOPPED)) {
		span = pause / 2;
	}
	return min_u64(span, SETTINGS->max_hold);
}

/* When the flow will have been silent for long enough, if it stays silent. */
INLINE __u64 silent_at(WITH_CORE const struct flow *flow)
{
	return get64(&flow->last_active) + patience(CORE flow) + 1;
}

/* Expires what a silent flow owes; says whether it did. */
INLINE bool void_if_silent(WITH_CORE struct flow *flow, __u64 now)
{
	__u32 owed = get32(&flow->owed), flags = get32(&flow->flags);
	bool fills_the_gate = 2ull * owed >= get64(&GATE->threshold);

	if ((owed == 0 && !(flags & FLOW_ENGAGED)) || now < silent_at(CORE flow))
		return false;
	/* A PSH came, and what was released since then brought nothing. While a flow's own ACKs wait for their turn its silence
	 * tells nothing. */
	if (!SETTINGS->credit && owed > 0 && (flags & (FLOW_PUSHED | FLOW_AWAITED)) == (FLOW_PUSHED | FLOW_AWAITED))
		raise_flags(flow, FLOW_DRY);
	/* Less came than was charged, and the sender waits for nobody but us: as in look_through. Among many, each owes little,
	 * and is silent because of the others. */
	if (!SETTINGS->credit && get32(&flow->held) > 0 && !(flags & FLOW_ASKED)) {
		if (SETTINGS->charge_requests && (__u64)SMALL_DEBTS * owed >= get64(&GATE->threshold))
			shrink(flow, owed);
		if (fills_the_gate)
			raise_flags(flow, FLOW_AVOIDANCE);
	}
	if (owed > 0 && !(flags & FLOW_ASKED))
		raise_flags(flow, FLOW_FORGIVEN);
	void_debt(CORE flow);
	if (get32(&flow->held) == 0)
		disengage(CORE flow);
	/* It may go on; several that fall silent together are asked in any order. */
	if (any_flag(flow, FLOW_STOPPED))
		set64(&GATE->usual_response, max_u64(get64(&GATE->usual_response), get64(&flow->size)));
	return true;
}

#endif
