/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Model of the sender's congestion window: Window of Eq. 3 (PAC section III-C), as far as it shows at the receiver.
 */
#ifndef ACKGATE_CORE_WINDOW_H
#define ACKGATE_CORE_WINDOW_H

#include "flow.h"

/* A sender does not cut a segment to fit its window. */
INLINE __u32 whole_segments(const struct flow *flow, __u32 bytes)
{
	__u32 mss = max_u32(get32(&flow->mss), 1);

	return bytes / mss * mss;
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
	set32(&flow->streamed, get32(&flow->streamed) / 2);
}

INLINE bool reduces(const struct flow *flow, const struct outgoing *out)
{
	__u32 flags = get32(&flow->flags);
	bool reacting = flags & FLOW_REDUCED && seq_distance(out->ack, get32(&flow->recover)) <= 0;

	return out->ece && !reacting && !(flags & FLOW_RECOVERING);
}

/* What came since the last ACK left, payload bytes: a window's worth once the sender waits for the next. */
INLINE __u32 latest_flight(const struct flow *flow)
{
	return any_flag(flow, FLOW_ACKED) ? ahead_of(get32(&flow->received), get32(&flow->released_ack)) : 0;
}

/* The model's window was too large: so much, in wire bytes, was charged and never sent. It is no smaller than what came. */
INLINE void shrink(struct flow *flow, __u64 wire)
{
	__u64 window = get32(&flow->window), mss = get32(&flow->mss);
	__u64 excess = wire * mss / max_u64(mss + get32(&flow->header), 1), least = max_u64(2 * mss, latest_flight(flow));

	set32(&flow->window, max_u64(saturating_sub(window, excess), min_u64(least, window)));
	set32(&flow->streamed, saturating_sub(get32(&flow->streamed), excess));
}

/* A sender reduces its window by and by (RFC 6937): until all is acknowledged that it had sent before, more is on its way than it will have. */
INLINE bool is_reducing(const struct flow *flow)
{
	return any_flag(flow, FLOW_REDUCED) && seq_distance(get32(&flow->released_ack), get32(&flow->recover)) < 0;
}

/* As many segments beyond one that is missing tell a sender of its loss (RFC 5681 section 3.2); fewer may only have overtaken it. */
#define DUPLICATES 3

/* An ACK leaves that tells of a hole, `beyond` bytes after which something has arrived. PAC's model reduces its window when the sender does: with
 * too small a one, what ACKs trigger is underestimated, and packets that overtake each other would overflow the port. */
INLINE void note_duplicate(WITH_CORE struct flow *flow, __u32 beyond)
{
	if (!any_flag(flow, FLOW_RECOVERING)) {
		raise_flags(flow, FLOW_RECOVERING);
		if (!is_reducing(flow))
			lower_flags(flow, FLOW_REDUCED);
		set32(&flow->recover, get32(&flow->received));
	}
	if (!any_flag(flow, FLOW_REDUCED) && (SETTINGS->credit || beyond > DUPLICATES * get32(&flow->mss)))
		reduce(flow, get32(&flow->received));
}

/* A reduction that is over keeps just behind what was released, or the numbers would come round to it. */
INLINE void end_reduction(struct flow *flow)
{
	__u32 behind = get32(&flow->released_ack) - 1;

	if (any_flag(flow, FLOW_REDUCED) && seq_distance(behind, get32(&flow->recover)) > 0)
		set32(&flow->recover, behind);
}

/* So much was on its way at once: the window is no smaller. */
INLINE void note_flight(struct flow *flow, __u32 end)
{
	__u32 flags = get32(&flow->flags), flight;

	if (flags & FLOW_ACKED && !(flags & FLOW_RECOVERING) && !is_reducing(flow)) {
		flight = ahead_of(end, get32(&flow->released_ack));
		if (flight > get32(&flow->window))
			set32(&flow->window, flight);
	}
}

#endif
