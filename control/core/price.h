/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The price of a segment, and what else PAC's estimates (pac.h) and exact credit (credit.h) each have to say. Neither knows of the other;
 * what they say is asked for here and nowhere else:
 *
 *     governs       whether the flow's windows are granted: by exact credit
 *     trigger_of    what a release sets in motion, the right edge that goes with it, and whether any of that is a danger
 *     has_no_more   whether the sender has nothing to send
 *     window_field  the window with which a segment leaves
 *
 * Under exact credit a flow that cannot be governed is left alone, but for what wakes it: estimates would hold up long streams for the
 * sake of others (credit.h, note 3).
 */
#ifndef ACKGATE_CORE_PRICE_H
#define ACKGATE_CORE_PRICE_H

#include "credit.h"
#include "pac.h"

/* Exact credit needs the unit of the window field, and one that is no larger than a segment. */
INLINE bool governs(WITH_CORE const struct flow *flow)
{
	return SETTINGS->credit && any_flag(flow, FLOW_SCALE_KNOWN) &&
	       1u << (get32(&flow->scale) & 15) <= get32(&flow->mss);
}

INLINE bool has_no_more(WITH_CORE const struct flow *flow)
{
	return governs(CORE flow) ? credit_has_no_more(CORE flow) : pac_has_no_more(CORE flow);
}

INLINE __u16 window_field(WITH_CORE const struct flow *flow, const struct outgoing *out)
{
	if (out->class == CLASS_NONE)
		return out->window;
	if (SETTINGS->credit)
		return governs(CORE flow) ? edge_field(flow, out) : out->window;
	return pac_window(CORE flow, out);
}

HOT void trigger_of(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct view *view, struct trigger *trigger)
{
	if (governs(CORE flow)) {
		credit_trigger(CORE flow, out, view, trigger);
	} else if (SETTINGS->credit) {
		wake_trigger(CORE flow, out, trigger);
	} else {
		trigger->calm = pac_beyond_timers(CORE flow, view);
		pac_trigger(CORE flow, out, view, trigger);
	}
}

/* What was held of the flow has been overtaken by its sender's timer. */
INLINE void note_overtaken(WITH_CORE struct flow *flow)
{
	lower_flags(flow, FLOW_OVERTAKEN);
	if (!SETTINGS->credit)
		pac_note_timeout(flow);
}

/* What asks leaves: until the peer has it, what comes is of earlier answers. */
INLINE void note_asked(struct flow *flow)
{
	if (get32(&flow->own[ASKED_TO]) == 0 && !any_flag(flow, FLOW_REPEATS) && nothing_waits_but_a_copy(flow)) {
		set32(&flow->own[ASKED_AT], get32(&flow->received));
		set32(&flow->own[ASKED_TO], get32(&flow->sent));
	}
}

/* A segment leaves: what it triggers is owed from now on (Eq. 4), and the sender may go on to its edge. */
SUBPROGRAM int charge(WITH_CORE struct flow *flow, const struct outgoing *out, const struct trigger *trigger,
		      const struct view *view, __u64 now)
{
	__u32 window, edge;

	if (!flow || !out || !trigger || !view)
		return 0;
	window = get32(&flow->window);
	edge = get32(&flow->edge);
	note_pace(CORE flow, out, trigger, view, now);
	if (trigger->wire > 0) {
		/* A short answer has no share in the budget. */
		if (out->class != CLASS_DATA || trigger->wire > LEAST_SEGMENTS * FULL_FRAME)
			activate(CORE flow);
		owe(CORE flow, trigger->wire, view->booked);
		if (out->class == CLASS_REQUEST)
			set32(&flow->arrived_before, arrived(CORE_ALONE));
		lower_flags(flow, FLOW_FORGIVEN);
		set64(&flow->last_active, now);
		if (SETTINGS->credit && out->class == CLASS_REQUEST)
			enlist(flow, FLOW_AWAITED, &GATE->asked);
		raise_flags(flow, (SETTINGS->credit ? 0 : FLOW_AWAITED) | (out->class == CLASS_REQUEST ? FLOW_ASKED : 0));
	}
	if (trigger->moves_edge) {
		if (at_edge(flow) && ahead_of(trigger->edge, edge) >= get32(&flow->mss))
			set32(&flow->let_go, now >> 10 | 1);
		/* What repeats a TSval may be what is answered. */
		if (out->copy)
			set64(&flow->ts_start, 0);
		edge = trigger->edge;
	}
	set32(&flow->window, window + trigger->increment < window ? ~0u : window + trigger->increment);
	move_on(flow, out->ack, edge);
	if (reduces(flow, out))
		reduce(flow, get32(&flow->received) + get32(&flow->owed));
	else
		end_reduction(flow);
	if (SETTINGS->credit && out->data && !out->copy)
		note_asked(flow);
	if (out->class == CLASS_HANDSHAKE && any_flag(flow, FLOW_HALF_OPEN))
		time_handshake(CORE flow, now);
	return 0;
}

#endif
