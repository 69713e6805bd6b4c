/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The right edge of the advertised window: a sender may not send beyond it. The window field counts from the acknowledgement number in
 * units of 1 << scale (RFC 7323 section 2.2); edges are rounded up to it, for down would be a retraction. No edge ever moves left.
 */
#ifndef ACKGATE_CORE_EDGE_H
#define ACKGATE_CORE_EDGE_H

#include "flow.h"

INLINE __u32 remaining(const struct flow *flow, __u32 ack)
{
	return ahead_of(get32(&flow->edge), ack);
}

INLINE bool at_edge(const struct flow *flow)
{
	return remaining(flow, get32(&flow->received)) < get32(&flow->mss);
}

INLINE bool stopped_short(const struct flow *flow, __u32 payload)
{
	return !at_edge(flow) || (is_cut(flow, payload) && remaining(flow, get32(&flow->received)) > 1u << (get32(&flow->scale) & 15));
}

INLINE bool can_go_on(const struct flow *flow, __u32 ack)
{
	return remaining(flow, ack) >= LEAST_SEGMENTS * get32(&flow->mss);
}

INLINE __u32 in_units(__u32 bytes, __u32 shift)
{
	return ((bytes >> (shift & 15)) + !!(bytes & ((1u << (shift & 15)) - 1))) << (shift & 15);
}

/* The edge that the peer knows already. */
INLINE __u32 kept_edge(const struct flow *flow, const struct outgoing *out)
{
	return out->ack + in_units(remaining(flow, out->ack), out->shift);
}

/* The edge `wanted` bytes beyond the acknowledgement number, no further than TCP itself offers. */
INLINE __u32 edge_at(const struct outgoing *out, __u32 wanted)
{
	__u32 offered = (__u32)out->window << (out->shift & 15);

	wanted = in_units(wanted, out->shift);
	return out->ack + (wanted < offered ? wanted : offered);
}

INLINE __u32 within(const struct flow *flow, const struct outgoing *out, __u32 most)
{
	return later(edge_at(out, most), kept_edge(flow, out));
}

/* The window field that says the flow's right edge. */
INLINE __u16 edge_field(const struct flow *flow, const struct outgoing *out)
{
	__u32 field = remaining(flow, out->ack) >> (out->shift & 15);

	return field < out->window ? field : out->window;
}

/* The window that the ACK advertises, up to its right edge if windows are bounded. */
INLINE __u32 advertised(const struct flow *flow, const struct outgoing *out, const struct trigger *trigger)
{
	if (trigger->moves_edge)
		return ahead_of(trigger->edge, out->ack);
	return any_flag(flow, FLOW_SCALE_KNOWN) ? (__u32)out->window << (out->shift & 15) : ~0u;
}

#endif
