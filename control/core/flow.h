/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * One connection: what is asked of it and nothing decided.
 */
#ifndef ACKGATE_CORE_FLOW_H
#define ACKGATE_CORE_FLOW_H

#include <stddef.h>

#include "segment.h"

/* Payload of a frame until the flow has shown its own: MTU 1500 with timestamps. */
#define USUAL_MSS 1448
/* Header bytes of a frame until the flow has shown its own: Ethernet 14, IPv4 20, TCP 20, timestamps 12 (PAC section IV-A). */
#define USUAL_HEADER 66
/* A full Ethernet frame without FCS. */
#define FULL_FRAME 1514ull
/* Least size of a new grant: one segment alone meets the receiver's delayed ACK, and a sender never uses segments larger than
 * half the largest window that it has seen. */
#define LEAST_SEGMENTS 2

INLINE void raise_flags(struct flow *flow, __u32 bits)
{
	/* Mostly they are set already, and looking is cheaper than a locked write. */
	if ((get32(&flow->flags) & bits) != bits)
		__sync_fetch_and_or(&flow->flags, bits);
}

INLINE void lower_flags(struct flow *flow, __u32 bits)
{
	if (get32(&flow->flags) & bits)
		__sync_fetch_and_and(&flow->flags, ~bits);
}

INLINE void put_flags(struct flow *flow, __u32 bits, bool on)
{
	if (on)
		raise_flags(flow, bits);
	else
		lower_flags(flow, bits);
}

/* Of `all` these are up, and the rest down. */
INLINE void set_flags(struct flow *flow, __u32 all, __u32 up)
{
	raise_flags(flow, up);
	lower_flags(flow, all & ~up);
}

INLINE bool any_flag(const struct flow *flow, __u32 bits)
{
	return get32(&flow->flags) & bits;
}

/* Whether the ends tell each other of marks by counters (RFC 9768), of which ECE and CWR are bits: they are no echo. */
INLINE bool counts_marks(const struct flow *flow)
{
	return (get32(&flow->flags) & (FLOW_ECN | FLOW_ECN_OFFERED)) == FLOW_ECN;
}

/*
 * A connection that is older than the guard: somebody tells what its handshake would have shown, our window scale and the least RTT in ns,
 * 0 where that is not known. The scale waits in flow.scale, beyond the bits that count, for the next segment of ours to take it up.
 */
INLINE bool tell_handshake(struct flow *flow, __u32 scale, __u32 rtt)
{
	if (any_flag(flow, FLOW_SCALE_KNOWN) || get32(&flow->scale) > 0)
		return false;
	if (rtt > 0 && get32(&flow->rtt) == 0) {
		set32(&flow->handshake_rtt, rtt);
		set32(&flow->rtt, rtt);
	}
	return replace32(&flow->scale, 0, ((scale & 15) + 1) << 4);
}

/* Takes the scale back if it is still to be taken up. */
INLINE void untell_scale(struct flow *flow, __u32 scale)
{
	replace32(&flow->scale, ((scale & 15) + 1) << 4, 0);
}

/* What our TCP offered last is what the sender may use: the edge does not move back. Nothing changes for what is held. */
INLINE void take_up_scale(struct flow *flow)
{
	__u32 told = get32(&flow->scale) >> 4, scale = told - 1;

	if (told == 0 || get32(&flow->held) > 0)
		return;
	set32(&flow->scale, scale);
	if (any_flag(flow, FLOW_ACKED))
		set32(&flow->edge, get32(&flow->ack_high) + (get32(&flow->last_window) << (scale & 15)));
	raise_flags(flow, FLOW_SCALE_KNOWN);
}

/*
 * A connection of several paths (RFC 8684) has one window for all of them, which counts from what it has received over all, and an ACK moves
 * it only together with that number: no window of it is for us to write, and a bare copy would open none. A peer may not know of MPTCP:
 * not before it has answered the SYN.
 */
INLINE void note_multipath(WITH_CORE struct flow *flow, const struct segment *segment)
{
	if (segment->multipath && (segment->flags & (SYN | ACK)) != SYN && any_flag(flow, FLOW_SCALE_KNOWN)) {
		lower_flags(flow, FLOW_SCALE_KNOWN);
		add64(&GATE->multipath, 1);
	}
}

/* Both ends have finished, and each has acknowledged all that the other sent: nothing follows but repeats. */
INLINE bool is_over(const struct flow *flow)
{
	__u32 both = FLOW_CLOSING | FLOW_PEER_DONE;

	return (get32(&flow->flags) & both) == both && get32(&flow->held) == 0 && get32(&flow->timed) == get32(&flow->sent) &&
	       get32(&flow->ack_high) == get32(&flow->received);
}

INLINE __u64 since(__u64 now, __u64 earlier)
{
	return saturating_sub(now, earlier);
}

/* Bytes of a SYN on the wire, with its options, preamble and gap; other bare segments have hardly less. */
#define SYN_BYTES 98

/* What has arrived of all flows, wire bytes, bare segments included; headers of data count twice, five percent too much. */
INLINE __u64 arrived(CORE_ONLY)
{
	return get64(&GATE->bytes) + get64(&GATE->arrivals) * SYN_BYTES;
}

/* The handshake's round trip is timed from now on. */
INLINE void time_handshake(WITH_CORE struct flow *flow, __u64 now)
{
	set64(&flow->handshake_start, max_u64(now, 1));
	set32(&flow->arrived_before, arrived(CORE_ALONE));
}

INLINE __u64 round_trip(const struct flow *flow)
{
	return (__u64)get32(&flow->rtt) + get32(&flow->added_delay);
}

/* Payload and header bytes of a full frame from now on. What nearly every segment is weighed by is divided here, once. */
INLINE void set_frame(struct flow *flow, __u32 mss, __u32 header)
{
	if (get32(&flow->mss) == mss && get32(&flow->header) == header)
		return;
	set32(&flow->mss, mss);
	set32(&flow->header, header);
	/* Rounded up: what is left of the last byte comes to nothing up to half a megabyte and more. */
	set32(&flow->header_part, min_u64(((__u64)header << 30) / max_u32(mss, 1) + 1, ~0u));
}

/* Whether segments are longer than in ordinary frames. */
INLINE bool is_jumbo(const struct flow *flow)
{
	return get32(&flow->mss) > FULL_FRAME;
}

/* What so much payload takes on the wire, in full frames. */
INLINE __u64 flow_wire(const struct flow *flow, __u64 payload)
{
	return payload + (payload * get32(&flow->header_part) >> 30);
}

/* What the least that is granted among many brings, wire bytes. */
INLINE __u64 least_grant(const struct flow *flow)
{
	return flow_wire(flow, LEAST_SEGMENTS * get32(&flow->mss));
}

/* What our TCP has acknowledged, and how far the sender may go: neither moves back. */
INLINE void move_on(struct flow *flow, __u32 ack, __u32 edge)
{
	_Static_assert(offsetof(struct flow, released_ack) % 8 == 0, "one write of 64 bits");
	_Static_assert(offsetof(struct flow, edge) == offsetof(struct flow, released_ack) + 4, "one write of 64 bits");

	advance_both(&flow->released_ack, ack, edge);
}

/* What takes more budgets is a stream, whose length tells nothing about the next response. */
#define LONGEST_RESPONSE 4

/* A bare copy is held of the flow's, and nothing else. */
INLINE bool only_a_copy_waits(const struct flow *flow)
{
	return get32(&flow->held) == 1 && any_flag(flow, FLOW_COPIED);
}

/* Nothing of the flow's is held that a later segment could overtake. */
INLINE bool nothing_waits_but_a_copy(const struct flow *flow)
{
	return get32(&flow->held) == 0 || only_a_copy_waits(flow);
}

/* What follows of earlier answers when a request has left, payload bytes, as far as exact credit knows; nothing while several are held, for what
 * they ask is not on its way. */
INLINE __u64 follows(WITH_CORE const struct flow *flow)
{
	return SETTINGS->credit && get32(&flow->held) <= 1 ? get32(&flow->own[PIPELINED]) : 0;
}

/* What may: half as much again, for the window may have been what kept it from being more. */
INLINE __u64 may_follow(WITH_CORE const struct flow *flow)
{
	return follows(CORE flow) / 2 * 3;
}

/* Whether a sender that seems to have stopped is still to answer what was asked before. */
INLINE bool answers_follow(WITH_CORE const struct flow *flow)
{
	__u64 more = follows(CORE flow);

	return more > 0 && get64(&flow->size) < get32(&flow->last_response) + more && !any_flag(flow, FLOW_PEER_DONE);
}

/* Payload of a response: of the flow's last one, with what still follows of earlier ones, or of whosever was last seen to be complete, unless
 * others were much larger of late. What the largest has lost with time is added again. */
INLINE __u64 expected(WITH_CORE const struct flow *flow)
{
	__u64 last = get32(&flow->last_response), usual = get64(&GATE->usual_response), largest = get64(&GATE->largest_response);

	if (last > 0)
		return last + may_follow(CORE flow);
	if (usual >= largest / 4 * 3 || largest > LONGEST_RESPONSE * get64(&GATE->threshold))
		return usual;
	return largest + largest / 32;
}

/* Whether its peer answered with no more than two ordinary segments the last time. */
INLINE bool answers_briefly(const struct flow *flow)
{
	__u32 last = get32(&flow->last_response);

	return last > 0 && last <= LEAST_SEGMENTS * min_u64(get32(&flow->mss), FULL_FRAME);
}

/* What such an answer is, wire bytes, with the bare ACK that comes before it. */
INLINE __u64 brief_answer(const struct flow *flow)
{
	return flow_wire(flow, get32(&flow->last_response)) + get32(&flow->header);
}

INLINE __u64 smooth(__u64 old, __u64 sample)
{
	return old == 0 ? sample : old - old / 8 + sample / 8;
}

/* Whether what arrived ends with less than a whole segment. */
INLINE bool is_cut(const struct flow *flow, __u32 payload)
{
	return payload % max_u32(get32(&flow->mss), 1) > 0;
}

#endif
