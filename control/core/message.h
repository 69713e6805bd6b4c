/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Messages that nobody asks for: how long they are, and whether those of all flows fit the port. Without a request a message begins where
 * the one before has ended, which shows where its sender had room for more and pushed less than a whole segment.
 */
#ifndef ACKGATE_CORE_MESSAGE_H
#define ACKGATE_CORE_MESSAGE_H

#include "response.h"

/* Whether the sender had no more to send. */
INLINE bool had_no_more(const struct flow *flow)
{
	__u32 all = FLOW_PUSHED | FLOW_STOPPED | FLOW_CUT;

	return (get32(&flow->flags) & all) == all;
}

INLINE void begin_message(struct flow *flow, __u32 seq)
{
	set32(&flow->message, seq);
	set32(&flow->several, 0);
}

/* Data arrives beyond what has been received, `pause` after the last: a message begins with it if the one before is over. Whose sender goes on
 * unasked, a round trip after a response that seemed over, sends messages from then on, until it is asked again. */
INLINE void note_message(WITH_CORE struct flow *flow, const struct segment *segment, __u64 pause)
{
	bool asked = any_flag(flow, FLOW_ASKS), over = had_no_more(flow);
	__u64 length;

	if (asked && !(SETTINGS->credit && over && pause > round_trip(flow)))
		return;
	if (asked) {
		lower_flags(flow, FLOW_ASKS);
	} else if (!any_flag(flow, FLOW_RECEIVED)) {
		begin_message(flow, segment->seq);
		return;
	} else if (over) {
		length = message_length(flow, get64(&GATE->largest_message));
		if (length > get64(&GATE->largest_message))
			set64(&GATE->largest_message, length);
	} else if (any_flag(flow, FLOW_CUT)) {
		set32(&flow->several, 1);
	}
	if (over)
		begin_message(flow, get32(&flow->received));
}

/* Whether nobody asks the sender, and the largest message or response of each flow of late fits the port: then every one may begin with a
 * whole message, and nobody need wait for what others keep. Not for a while after a loss. */
INLINE bool messages_fit(WITH_CORE const struct flow *flow)
{
	__u64 message = get64(&GATE->largest_message), each = max_u64(message, get64(&GATE->largest_response));

	return message > 0 && !any_flag(flow, FLOW_ASKS) && nothing_lost_of_late(CORE_ALONE) &&
	       get64(&GATE->peak_active) * flow_wire(flow, each) <= port_holds(CORE_ALONE);
}

#endif
