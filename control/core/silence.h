/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Silence: how long a flow that owes may say nothing, and what follows when it does.
 */
#ifndef ACKGATE_CORE_SILENCE_H
#define ACKGATE_CORE_SILENCE_H

#include "price.h"

/*
 * How long an indebted flow may be silent before its debt expires: the longest pause, or half of it if the sender may have no more,
 * but one and a half round trips, for what was granted takes one to be answered; or twice what responses take to begin if it has
 * just been asked; that four times as long while everybody is silent, for the requests may not even have left our own queue. But no
 * longer than an ACK may be held.
 */
INLINE __u64 idle_timeout(WITH_CORE const struct flow *flow)
{
	__u64 pause = longest_pause(CORE flow), span = pause;

	if (any_flag(flow, FLOW_ASKED)) {
		bool others_go_on = get64(&GATE->last_data) >= get64(&flow->last_active);

		span = max_u64(pause, 2 * get64(&GATE->response_delay)) * (others_go_on ? 1 : 4);
	} else if (SETTINGS->credit && any_flag(flow, FLOW_STOPPED)) {
		span = max_u64(pause / 2, get32(&flow->rtt) / 2 * 3ull);
	}
	return min_u64(span, SETTINGS->max_hold);
}

/* When the flow will have been silent for long enough, if it stays silent. */
INLINE __u64 silent_at(WITH_CORE const struct flow *flow)
{
	return get64(&flow->last_active) + idle_timeout(CORE flow) + 1;
}

/* Expires what a silent flow owes; says whether it did. */
INLINE bool void_if_silent(WITH_CORE struct flow *flow, __u64 now)
{
	__u32 owed = get32(&flow->owed), flags = get32(&flow->flags);

	if ((owed == 0 && !(flags & FLOW_ACTIVE)) || now < silent_at(CORE flow))
		return false;
	if (!SETTINGS->credit)
		pac_note_silence(CORE flow);
	if (owed > 0 && flags & FLOW_HALF_OPEN)
		note_unanswered(CORE_ALONE);
	if (owed > 0 && !(flags & FLOW_ASKED))
		raise_flags(flow, FLOW_FORGIVEN);
	void_debt(CORE flow);
	if (get32(&flow->held) == 0)
		deactivate(CORE flow);
	/* It may go on; several that fall silent together are asked in any order. */
	if (any_flag(flow, FLOW_STOPPED))
		set64(&GATE->usual_response, max_u64(get64(&GATE->usual_response), get64(&flow->size)));
	return true;
}

#endif
