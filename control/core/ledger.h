/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What is owed: wire bytes that released segments have triggered and that have not arrived (PAC section III-C, Eq. 4
 * and 5), and how much may be. The only owner of the sum.
 */
#ifndef ACKGATE_CORE_LEDGER_H
#define ACKGATE_CORE_LEDGER_H

#include "edge.h"

/* A path is long if it holds more than three quarters of the threshold, or half of it where flows are few, and at least so much. What
 * shorter ones hold is covered by the budget, and in their RTTs is what stood in the queue. A few flows wait for each other at the end of
 * a response if that leaves the budget little more than the path holds; many fill the link in turns. */
#define LEAST_LONG_PATH (16 * FULL_FRAME)
/* Round trips after which the least of them is believed: one alone may contain a pause of the sender. */
#define SAMPLES 8
/* Lengths of paths that are told apart, by powers of two of what they hold; the first hold up to so much. */
#define PATHS 16
#define SHORTEST_PATH 16384ull

/* What a frame takes on the link beside its bytes: preamble, gap and checksum (IEEE 802.3). */
#define FRAMING 24ull

/* So many full frames keep a sender moving that sends side by side with others: two on their way, two acknowledged. */
#define QUANTUM (4 * FULL_FRAME)
/* What a host takes, ns, for each aggregate of segments that arrives: a process wakes and reads, and an ACK leaves. */
#define AGGREGATE_DELAY 20000ull
/* The most bytes of an aggregate. */
#define LARGEST_AGGREGATE 65536ull

/*
 * The law.
 *
 * What must fit the port's buffer is what can stand in its queue, not what is in flight: a path that holds rate x RTT bytes may
 * have that much on its way beside the budget, and harms nobody meanwhile.
 *
 *     counted + trigger <= threshold                 over short paths (Algorithm 1, line 11)
 *     counted + trigger <= threshold + rate x RTT    over long ones, by the flow's own least RTT
 *
 * counted is what of all that is in flight is due within the flow's own round trip: all of it over paths that hold no more than its
 * own, and of what is in flight over a longer one, the part that its own path is of that. That all together do not overfill the
 * buffer is, beyond that, what the shares of flows on long paths are for (credit.h). Without a given rate, lengths of paths go by what arrives.
 *
 * What a long path holds must not come at once. What asks over one, and among many senders what grants more than ACKs clock, leaves at
 * the link's rate, but for one threshold.
 */

/* What the link carries, bytes per 2^20 ns: as given, or less where it has shown to. */
INLINE __u64 link_rate(CORE_ONLY)
{
	__u64 given = SETTINGS->rate, carries = get64(&GATE->carries);

	return carries > 0 ? min_u64(given, carries) : given;
}

/* What the link carries as far as arrivals show: what arrives at most, and a quarter more, for it may not have been filled. */
INLINE __u64 peak_rate(CORE_ONLY)
{
	__u64 peak = get64(&GATE->peak);

	return peak + peak / 4;
}

/* What the link carries, or where no rate was given, what arrivals show, which grows with them. Lengths of paths go by this one. */
INLINE __u64 path_rate(CORE_ONLY)
{
	__u64 rate = link_rate(CORE_ALONE);

	return rate > 0 ? rate : peak_rate(CORE_ALONE);
}

/* What the link carries of full frames: preamble, gap and checksum take a sixty-fourth of it. */
INLINE __u64 frames_rate(CORE_ONLY)
{
	__u64 rate = path_rate(CORE_ALONE);

	return rate - rate / 64;
}

/* What keeps a flow moving side by side with others, wire bytes: two aggregates, large enough that neither host takes longer for one than
 * the link does. */
INLINE __u64 quantum(__u64 rate)
{
	return max_u64(QUANTUM, 2 * min_u64(rate * AGGREGATE_DELAY >> 20, LARGEST_AGGREGATE));
}

/*
 * What the flow's path holds, wire bytes. The least RTT is timed by timestamps, less what our own grants may have queued
 * meanwhile. Until there are enough samples the handshake's counts, less what may have queued then. Too little here costs
 * a long path some of its window, too much would overflow the buffer.
 */
INLINE __u64 path_holds(WITH_CORE const struct flow *flow)
{
	__u64 rate = frames_rate(CORE_ALONE);

	/* Never more than the handshake's, where it was seen: what we queue ourselves must not make a path longer and longer. */
	if (get32(&flow->samples) >= SAMPLES && get32(&flow->rtt) > 0 && !SETTINGS->timestamps)
		return rate * min_u64(get32(&flow->least_rtt), get32(&flow->rtt)) >> 20;
	if (get32(&flow->samples) >= SAMPLES)
		return rate * get32(&flow->least_rtt) >> 20;
	return rate * get32(&flow->handshake_rtt) >> 20;
}

/* Whether flows were so few of late that what keeps each of them moving fits the budget. */
INLINE bool are_few(CORE_ONLY)
{
	return get64(&GATE->peak_active) * quantum(link_rate(CORE_ALONE)) <= get64(&GATE->threshold);
}

/* What paths hold at most that are not long: it is covered by the budget. */
INLINE __u64 short_path(CORE_ONLY)
{
	__u64 threshold = get64(&GATE->threshold);

	return max_u64(are_few(CORE_ALONE) ? threshold / 2 : threshold / 4 * 3, LEAST_LONG_PATH);
}

/* So much if a path that holds it is long, else 0. Where all flows of late send side by side, in between a part: no less may be in flight
 * than with a smaller threshold, with which the path would be long. */
INLINE __u64 pipe(WITH_CORE __u64 holds)
{
	__u64 threshold = get64(&GATE->threshold);

	if (!SETTINGS->long_paths || holds <= LEAST_LONG_PATH)
		return 0;
	if (get64(&GATE->peak_active) * QUANTUM > threshold)
		return holds > short_path(CORE_ALONE) ? holds : 0;
	return min_u64(holds, saturating_sub(are_few(CORE_ALONE) ? 3 * holds : holds / 3 * 7, threshold));
}

/* What the flow's path holds if it is long, else 0. */
INLINE __u64 pipe_of(WITH_CORE const struct flow *flow)
{
	return pipe(CORE path_holds(CORE flow));
}

/* Whether a sender in the middle of a response sends nothing, for its window has no room for a whole segment. Over short paths, where a
 * debt soon expires, what is left counts as in flight all the same: the ends of responses do fit. */
INLINE bool sends_nothing(WITH_CORE const struct flow *flow, __u32 window)
{
	return window < get32(&flow->mss) && get64(&flow->size) > 0 && pipe_of(CORE flow) > 0;
}

/* Bytes that released ACKs have triggered and that have not arrived (PAC section III-C). */
INLINE __u64 in_flight(CORE_ONLY)
{
	return saturating_sub(get64(&GATE->owed), get64(&GATE->written_off));
}

/* What the shortest path holds, wire bytes, by the least that a handshake has taken of late: a flow's own least round trip, less what may have
 * been queued, can come out at nothing. */
INLINE __u64 least_path(CORE_ONLY)
{
	return frames_rate(CORE_ALONE) * get32(&GATE->least_handshake) >> 20;
}

/* What a flow's debt is booked with, wire bytes: what its path holds; nothing where all in flight counts alike, or nobody knows. */
INLINE __u64 booked_with(WITH_CORE const struct flow *flow)
{
	bool known = get32(&flow->samples) >= SAMPLES || get32(&flow->handshake_rtt) > 0;

	return SETTINGS->long_paths && known ? max_u64(path_holds(CORE flow), least_path(CORE_ALONE)) : 0;
}

/* Which of the gate's paths hold so much. By sizes that never change: the threshold does, and debts must be found again. */
INLINE __u32 path_of(__u64 holds)
{
	__u64 length = SHORTEST_PATH;
	__u32 path = 0;

ROLLED
	for (int i = 0; i < PATHS - 1 && holds > length; i++) {
		length *= 2;
		path++;
	}
	return path;
}

/* What is in flight over the shortest paths: what the books of the others do not have. */
INLINE __u64 owed_nearby(CORE_ONLY)
{
	return saturating_sub(get64(&GATE->owed), get64(&GATE->owed_beyond));
}

/* What is in flight over this path and shorter ones. */
SUBPROGRAM __u64 owed_up_to(WITH_CORE __u32 path)
{
	__u64 bytes = owed_nearby(CORE_ALONE);

	if (get64(&GATE->owed_beyond) == 0)
		return bytes;
ROLLED
	for (__u32 i = 1; i < PATHS && i <= path; i++)
		bytes += get64(&GATE->owed_by_path[i]);
	return bytes;
}

/* Of what is in flight, what is due within the round trip of a path that holds so much: of a longer path's its part. What Eq. 6 has
 * written off is taken from it. */
SUBPROGRAM __u64 counted(WITH_CORE __u64 holds)
{
	__u64 all = get64(&GATE->owed), bytes = owed_nearby(CORE_ALONE), own = holds >> 10;
	/* Round trips are known to a quarter, and those of short paths hardly, for what waits in the queue is in them. */
	__u64 alike = max_u64(own, short_path(CORE_ALONE) >> 10) / 4 * 5;

	if (bytes < all) {
ROLLED
		for (int i = 1; i < PATHS; i++) {
			__u64 owed = get64(&GATE->owed_by_path[i]);
			/* What these paths hold in the mean, KiB. */
			__u64 mean = owed > 0 ? get64(&GATE->held_by_path[i]) / owed : 0;

			bytes += mean > alike ? owed * own / mean : owed;
		}
	}
	return saturating_sub(min_u64(bytes, all), get64(&GATE->written_off));
}

/* Wire bytes that may be triggered now over a path that holds so much. */
INLINE __u64 room_for(WITH_CORE __u64 holds)
{
	return saturating_sub(get64(&GATE->threshold) + pipe(CORE holds), counted(CORE holds));
}

/* The room that `trigger` more bytes need. One trigger larger than all there is could never leave: it need not wait for what the path
 * holds, which has left the queue when the first byte of it arrives. */
INLINE __u64 room_needed(WITH_CORE __u64 trigger, __u64 holds)
{
	__u64 threshold = get64(&GATE->threshold), all = threshold + pipe(CORE holds);

	return trigger <= all ? trigger : all - min_u64(holds, threshold / 4 * 3);
}

/* Whether `trigger` more bytes may be. */
INLINE bool admits(WITH_CORE __u64 trigger, __u64 holds)
{
	return room_needed(CORE trigger, holds) <= room_for(CORE holds);
}

/* What least grants of as many flows as were active at once of late are together, wire bytes. */
INLINE __u64 least_grants(WITH_CORE const struct flow *flow)
{
	return get64(&GATE->peak_active) * flow_wire(flow, LEAST_SEGMENTS * get32(&flow->mss));
}

/* Whether all active flows can send side by side: nobody waits, and no ACK needs a copy. */
INLINE bool concurrent(CORE_ONLY)
{
	return get64(&GATE->active) * QUANTUM <= get64(&GATE->threshold);
}

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
 * nobody fills, or one small frame. */
INLINE __u64 on_link(const struct flow *flow, __u64 wire)
{
	__u64 full = max_u64(get32(&flow->mss) + get32(&flow->header), 1), frames = (wire + full / 2) / full;

	if (frames > 0)
		return frames * (full + FRAMING);
	return wire > 0 ? wire + FRAMING : 0;
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
 * been seen to use. */
INLINE __u64 likely_burst(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct trigger *trigger)
{
	__u64 response = get32(&flow->last_response), wire = trigger->wire;

	if (response == 0 && get64(&flow->size) == 0 && get64(&GATE->usual_response) > 0 && are_few(CORE_ALONE)) {
		wire = largest_flight(CORE flow, wire);
	} else if (out->class != CLASS_REQUEST) {
		wire = not_paced_before(flow, wire);
	} else if (response > 0) {
		wire = max_u64(wire, flow_wire(flow, advertised(flow, out, trigger)));
		wire = min_u64(wire, flow_wire(flow, max_u64(response, 2ull * get32(&flow->window))));
	}
	return on_link(flow, wire);
}

/* Whether initial windows of all have room in path and port together, or in twice that, where nobody told the buffer. */
INLINE bool may_begin_together(WITH_CORE const struct flow *flow, __u64 pipe)
{
	__u64 room = pipe + get64(&GATE->threshold);

	return initial_windows(CORE flow) <= (SETTINGS->search ? 2 * room : room);
}

/* Whether a sender's slow start is followed: a new connection's, over a long path, as far as its response is expected to go, among many whose
 * initial windows may begin together. Not one that a mark ends sooner (RFC 3168 section 6.1.2). */
INLINE bool starts_slowly(WITH_CORE const struct flow *flow)
{
	__u64 pipe;

	if (get32(&flow->last_response) > 0 || get64(&flow->size) >= expected(CORE flow) || any_flag(flow, FLOW_ECN))
		return false;
	pipe = pipe_of(CORE flow);
	return pipe > 0 && !are_few(CORE_ALONE) && may_begin_together(CORE flow, pipe);
}

/* What such a sender has on its way at most, payload bytes: the initial window, and what has been acknowledged (RFC 5681 section 3.1). */
INLINE __u64 slow_start(WITH_CORE const struct flow *flow)
{
	return initial_window(CORE flow) + get64(&flow->size);
}

/* Whether windows that double side by side overflow the port: half of what they bring stands in its queue. */
INLINE bool double_too_fast(WITH_CORE const struct flow *flow)
{
	return starts_slowly(CORE flow) && get64(&GATE->peak_active) * flow_wire(flow, slow_start(CORE flow)) > get64(&GATE->threshold);
}

/* Whether what sets `wire` bytes in motion must keep the pace: on a long path what asks, and among many a grant of more than
 * twice what it acknowledges. Slow start grows no faster (RFC 5681 section 3.1), and what has arrived clocks it; where that is too fast, one
 * of half as much again. */
INLINE bool paced(WITH_CORE const struct flow *flow, const struct outgoing *out, __u64 wire)
{
	bool asks = out->class == CLASS_REQUEST || out->class == CLASS_HANDSHAKE;
	__u64 acked = flow_wire(flow, ahead_of(out->ack, get32(&flow->released_ack)));

	if (pipe_of(CORE flow) == 0)
		return false;
	return asks || (wire > 2 * acked && may_burst(CORE flow)) || (2 * wire > 3 * acked && double_too_fast(CORE flow));
}

/* What has been set in motion over long paths, faster than the link carries it. */
INLINE __u64 ahead_of_link(WITH_CORE __u64 now)
{
	__u64 elapsed = min_u64(since(now, get64(&GATE->ahead_since)), 1ull << 32);

	return saturating_sub(get64(&GATE->ahead), elapsed * path_rate(CORE_ALONE) >> 20);
}

/* Whether what sets so much in motion keeps the pace. */
INLINE bool keeps_pace(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct trigger *trigger, __u64 now)
{
	__u64 before;

	if (!paced(CORE flow, out, trigger->wire))
		return true;
	before = ahead_of_link(CORE now);
	return before == 0 || before + likely_burst(CORE flow, out, trigger) <= get64(&GATE->threshold);
}

/* When what does not keep the pace will: what is too much has been carried, but no less than a sixteenth of the threshold, so that
 * nobody is woken for each segment. */
INLINE __u64 keeps_pace_at(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct trigger *trigger, __u64 now)
{
	__u64 before = ahead_of_link(CORE now), threshold = get64(&GATE->threshold), after = before + likely_burst(CORE flow, out, trigger);
	__u64 excess = min_u64(max_u64(saturating_sub(after, threshold), threshold / 16), before);

	return now + (excess << 20) / max_u64(path_rate(CORE_ALONE), 1) + 1;
}

/* Notes what leaves. Of what ACKs clock among many, no more than one threshold: the queue that it may stand in. */
INLINE void note_pace(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct trigger *trigger, __u64 now)
{
	__u64 before, after;

	if (trigger->wire == 0 || pipe_of(CORE flow) == 0)
		return;
	before = ahead_of_link(CORE now);
	after = before + likely_burst(CORE flow, out, trigger);
	if (!paced(CORE flow, out, trigger->wire))
		after = may_burst(CORE flow) ? max_u64(before, min_u64(after, get64(&GATE->threshold))) : before;
	set64(&GATE->ahead, after);
	set64(&GATE->ahead_since, now);
}

/* The receive window that our TCP offers the flow's sender, bytes. Much where the scale is not known. */
INLINE __u32 offer_of(const struct flow *flow)
{
	__u32 window = get32(&flow->last_window);

	return any_flag(flow, FLOW_SCALE_KNOWN) ? window << (get32(&flow->scale) & 15) : 1u << 20;
}

/* The flow adds `bytes` to the windows that active flows are offered. */
INLINE void count_offer(WITH_CORE struct flow *flow, __u32 bytes)
{
	__u32 before;

	if (get32(&flow->offered) == bytes)
		return;
	before = __sync_lock_test_and_set(&flow->offered, bytes);
	add64(&GATE->offered, (__u64)bytes - before);
}

/* What our TCP offers now counts, unless the flow has ceased to be active meanwhile: it takes itself out first, and its window then. */
INLINE void note_offer(WITH_CORE struct flow *flow)
{
	count_offer(CORE flow, offer_of(flow));
	if (!any_flag(flow, FLOW_ACTIVE))
		count_offer(CORE flow, 0);
}

/* The flow takes part in the division of the budget from now on; says whether that is new. It is counted first: whoever takes it out
 * again finds it in the count. */
INLINE bool activate(WITH_CORE struct flow *flow)
{
	if (any_flag(flow, FLOW_ACTIVE))
		return false;
	add64(&GATE->active, 1);
	if (__sync_fetch_and_or(&flow->flags, FLOW_ACTIVE) & FLOW_ACTIVE) {
		add64(&GATE->active, -1);
		return false;
	}
	note_offer(CORE flow);
	if (get64(&GATE->peak_active) < get64(&GATE->active))
		set64(&GATE->peak_active, get64(&GATE->active));
	return true;
}

/* Lowers one flag of those that are counted; says whether it was this call that did. */
INLINE bool withdraw(struct flow *flow, __u32 bit)
{
	return any_flag(flow, bit) && __sync_fetch_and_and(&flow->flags, ~bit) & bit;
}

/* The flow is idle or has ended: its share is for the others. */
INLINE void deactivate(WITH_CORE struct flow *flow)
{
	if (withdraw(flow, FLOW_ACTIVE)) {
		add64(&GATE->active, -1);
		count_offer(CORE flow, 0);
	}
}

/* Enters a debt in the books of its path. The shortest paths have none: theirs is what is left. */
INLINE void book(WITH_CORE __u32 path, __u64 debt, __u64 holds)
{
	if (path == 0)
		return;
	add64(&GATE->owed_by_path[path & (PATHS - 1)], debt);
	add64(&GATE->owed_beyond, debt);
	add64(&GATE->held_by_path[path & (PATHS - 1)], debt * holds);
}

/* Takes a debt out again, as far as it is there; says how much that was. */
INLINE __u64 unbook(WITH_CORE __u32 path, __u64 debt, __u64 holds)
{
	__u64 taken;

	if (path == 0)
		return debt;
	taken = take_up_to64(&GATE->owed_by_path[path & (PATHS - 1)], debt);
	add64(&GATE->owed_beyond, -taken);
	take_up_to64(&GATE->held_by_path[path & (PATHS - 1)], debt * holds);
	return taken;
}

/* What the flow owes is booked with its path from now on, as far as that has shown its length since: by more than an eighth. */
INLINE void rebook(WITH_CORE struct flow *flow)
{
	__u32 holds = min_u64(booked_with(CORE flow) >> 10, ~0u), booked = get32(&flow->holds);
	__u32 before = get32(&flow->path), apart = holds > booked ? holds - booked : booked - holds, path;

	if (apart == 0)
		return;
	path = path_of((__u64)holds << 10);
	if (path == before && apart <= booked / 8)
		return;
	set32(&flow->path, path);
	set32(&flow->holds, holds);
	book(CORE path, unbook(CORE before, get32(&flow->owed), booked), holds);
}

/* Books a debt. */
INLINE void owe(WITH_CORE struct flow *flow, __u64 bytes)
{
	__u32 before = get32(&flow->owed), wire = min_u64(min_u64(bytes, ~0u), ~0u - before);

	rebook(CORE flow);
	/* The sum first: who pays or strikes the flow's part at the same moment finds it there. */
	add64(&GATE->owed, wire);
	book(CORE get32(&flow->path), wire, get32(&flow->holds));
	/* Eq. 6 alone asks. */
	if (!SETTINGS->credit)
		add64(&GATE->interval_charged, wire);
	add32(&flow->owed, wire);
}

/* Strikes what a flow has ceased to owe off the gate's books. */
INLINE void strike(WITH_CORE const struct flow *flow, __u64 debt)
{
	add64(&GATE->owed, -debt);
	unbook(CORE get32(&flow->path), debt, get32(&flow->holds));
}

/* Where nothing is owed, no path has a part in it. A flow that pays while its debt moves to another path may leave some behind. */
INLINE void balance(CORE_ONLY)
{
ROLLED
	for (int i = 1; i < PATHS; i++) {
		__u64 left = get64(&GATE->owed_by_path[i]), held = get64(&GATE->held_by_path[i]);

		/* Debts are booked in the sum first, and by path then. */
		if (get64(&GATE->owed) > 0)
			return;
		if (left > 0)
			add64(&GATE->owed_beyond, -take_up_to64(&GATE->owed_by_path[i], left));
		if (held > 0)
			take_up_to64(&GATE->held_by_path[i], held);
	}
}

/* What arrives pays. What Eq. 6 has written off is spread over all debts alike, and its share in this one was wrong: were it
 * kept, one wrong correction would leave the gate that much too wide for good. */
INLINE void pay(WITH_CORE struct flow *flow, const struct segment *segment)
{
	__u32 wire = wire_bytes(segment), unpaid = get32(&flow->unpaid);
	__u64 paid = take_up_to32(&flow->owed, wire), written_off = get64(&GATE->written_off);

	/* What the flow owes bounds it: that another processor pays at the same moment does no harm. */
	set32(&flow->unpaid, unpaid > wire ? unpaid - wire : 0);
	if (written_off > 0)
		take_up_to64(&GATE->written_off, div_ceil(written_off * paid, max_u64(get64(&GATE->owed), 1)));
	strike(CORE flow, paid);
}

/* A debt that nobody will pay. What Eq. 6 has already written off is not returned twice. */
INLINE void forgive(WITH_CORE const struct flow *flow, __u64 debt)
{
	if (debt > 0) {
		strike(CORE flow, debt);
		take_up_to64(&GATE->written_off, debt);
		add64(&GATE->voided, debt);
	}
}

/* Returns a flow's debt to the budget: it ended, fell silent, or said that it has no more. */
SUBPROGRAM int void_debt(WITH_CORE struct flow *flow)
{
	if (!flow)
		return 0;
	set32(&flow->unpaid, 0);
	if (get32(&flow->owed) == 0)
		return 0;
	forgive(CORE flow, take32(&flow->owed));
	return 0;
}

#endif
