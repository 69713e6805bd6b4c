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

/* Whether nobody asks the sender, and its message is no more so far than two grants of what keeps a sender moving. What is granted of a longer
 * one is not much more than it needs. */
INLINE bool message_is_short(const struct flow *flow)
{
	return !any_flag(flow, FLOW_ASKS) && flow_wire(flow, message_so_far(flow)) <= 2 * QUANTUM;
}

/* Whether a short message is as long as the largest of late, which fades, and was pushed. */
INLINE bool message_is_whole(WITH_CORE const struct flow *flow)
{
	__u64 largest = max_u64(get64(&GATE->largest_message), 1);
	__u32 length = message_so_far(flow);

	return any_flag(flow, FLOW_PUSHED) && message_is_short(flow) && length >= largest && length <= largest / 8 * 9;
}

INLINE bool message_is_over(WITH_CORE const struct flow *flow)
{
	return had_no_more(flow) || message_is_whole(CORE flow);
}

/* Whether what comes `pause` after the last begins another short message: what its sender has had room for comes within a round trip, which where
 * somebody waits may be as much longer as a full budget takes to arrive. */
INLINE bool next_message(WITH_CORE const struct flow *flow, __u64 pause)
{
	return SETTINGS->credit && pause > least_round_trip(flow) && message_is_short(flow) && message_is_over(CORE flow) &&
	       (get64(&GATE->held) == 0 || pause > least_round_trip(flow) + drain(CORE path_rate(CORE_ALONE)));
}

/* Data comes that nobody asked for, `pause` after the flow's last: how many begin so within a round trip and the time that a full budget takes
 * to arrive. Messages that stand behind each other in the queue are not active at once. */
INLINE void count_sender(WITH_CORE const struct flow *flow, __u64 pause)
{
	__u64 now = get64(&GATE->last_data), before = since(now, get64(&GATE->senders_since));

	if (!SETTINGS->credit || pause <= least_round_trip(flow))
		return;
	if (before > get64(&GATE->mean_rtt) + drain(CORE path_rate(CORE_ALONE))) {
		set64(&GATE->senders, 0);
		set64(&GATE->senders_since, now);
	} else if (pause <= before) {
		return;
	}
	add64(&GATE->senders, 1);
	set64(&GATE->peak_senders, max_u64(get64(&GATE->peak_senders), get64(&GATE->senders)));
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
	bool asked = any_flag(flow, FLOW_ASKS), over;
	__u64 length;

	/* Most that comes has been asked for. */
	if (asked && (!SETTINGS->credit || pause <= round_trip(flow)))
		return;
	over = message_is_over(CORE flow);
	if (asked && (!over || get32(&flow->samples) & USED_UP))
		return;
	count_sender(CORE flow, pause);
	if (asked) {
		lower_flags(flow, FLOW_ASKS);
		/* What was taken for its response may have been several messages. */
		if (get64(&GATE->largest_response) <= get32(&flow->last_response))
			set64(&GATE->largest_response, 0);
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
	__u64 flows = max_u64(get64(&GATE->peak_active), get64(&GATE->peak_senders));

	return message > 0 && !any_flag(flow, FLOW_ASKS) && nothing_lost_of_late(CORE_ALONE) &&
	       flows * flow_wire(flow, each) <= port_holds(CORE_ALONE);
}

#endif
