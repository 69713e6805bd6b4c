/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What is owed: wire bytes that released segments have triggered and that have not arrived (PAC section III-C, Eq. 4
 * and 5), and how much may be. The only owner of the sum.
 */
#ifndef ACKGATE_CORE_LEDGER_H
#define ACKGATE_CORE_LEDGER_H

#include "flow.h"

/* A path is long if it holds more than the threshold. What a shorter one holds is covered by the budget. */
#define LONG_PATH 1
/* Round trips after which the least of them is believed: one alone may contain a pause of the sender. */
#define SAMPLES 8
/* Lengths of paths that are told apart: short ones, and long ones by powers of two. */
#define PATHS 16

/*
 * The law.
 *
 * What must fit the port's buffer is what can stand in its queue, not what is in flight: a path that holds rate x RTT bytes may
 * have that much on its way beside the budget, and harms nobody meanwhile.
 *
 *     counted + trigger <= threshold                 over short paths (Algorithm 1, line 11)
 *     counted + trigger <= threshold + rate x RTT    over long ones, by the flow's own least RTT
 *
 * counted is what is in flight over paths that are not longer than the flow's own: what waits on a longer one leaves no less room
 * for it. That all together do not overfill the buffer is what the shares of flows on long paths are for (credit.h). Without a
 * known rate all paths count as short.
 *
 * What a long path holds is on its way one after the other as long as ACKs clock the sender. A request or a handshake wakes a
 * sender that sends its window at once, and many of them together: what they set in motion over long paths leaves at the link's
 * rate, but for one threshold.
 */

/* What the link carries, bytes per 2^20 ns; 0 when that is not known. */
INLINE __u64 link_rate(CORE_ONLY)
{
	return SETTINGS->rate_mbps > 0 ? SETTINGS->rate_mbps * 131072 / 1000 : get64(&GATE->measured);
}

/*
 * What the flow's path holds, wire bytes. The least RTT is timed by timestamps, less what our own grants may have queued
 * meanwhile. Until there are enough samples the handshake's counts, less what may have queued then. Too little here costs
 * a long path some of its window, too much would overflow the buffer.
 */
INLINE __u64 path_holds(WITH_CORE const struct flow *flow)
{
	__u64 rate = link_rate(CORE_ALONE);

	/* Never more than the handshake's, where it was seen: what we queue ourselves must not make a path longer and longer. */
	if (get32(&flow->samples) >= SAMPLES && get32(&flow->rtt) > 0 && !SETTINGS->timestamps)
		return rate * min_u64(get32(&flow->least_rtt), get32(&flow->rtt)) >> 20;
	if (get32(&flow->samples) >= SAMPLES)
		return rate * get32(&flow->least_rtt) >> 20;
	return rate * get32(&flow->handshake_rtt) >> 20;
}

/* The same if the path is long, else 0. */
INLINE __u64 pipe_of(WITH_CORE const struct flow *flow)
{
	__u64 bytes = path_holds(CORE flow);

	return SETTINGS->long_paths && bytes > get64(&GATE->threshold) / LONG_PATH ? bytes : 0;
}

/* Bytes that released ACKs have triggered and that have not arrived (PAC section III-C). */
INLINE __u64 in_flight(CORE_ONLY)
{
	return saturating_sub(get64(&GATE->owed), get64(&GATE->written_off));
}

/* Which of the gate's paths holds `pipe`. */
INLINE __u32 path_of(WITH_CORE __u64 pipe)
{
	__u64 length = get64(&GATE->threshold) / LONG_PATH;
	__u32 path = 0;

ROLLED
	for (int i = 0; i < PATHS - 1 && pipe > length; i++) {
		length *= 2;
		path++;
	}
	return path;
}

/* Of what is in flight, what counts for a flow whose path holds `pipe`. What Eq. 6 has written off is taken from short paths. */
INLINE __u64 counted(WITH_CORE __u64 pipe)
{
	__u32 path = path_of(CORE pipe);
	__u64 bytes = get64(&GATE->owed_by_path[0]);

ROLLED
	for (__u32 i = 1; i < PATHS && i <= path; i++)
		bytes += get64(&GATE->owed_by_path[i]);
	return saturating_sub(min_u64(bytes, get64(&GATE->owed)), get64(&GATE->written_off));
}

/* Wire bytes that may be triggered now over such a path. */
INLINE __u64 room_for(WITH_CORE __u64 pipe)
{
	return saturating_sub(get64(&GATE->threshold) + pipe, counted(CORE pipe));
}

/* Whether `trigger` more bytes may be. One trigger larger than the threshold is admitted when nothing else is in flight, or it
 * could never leave. */
INLINE bool admits(WITH_CORE __u64 trigger, __u64 pipe)
{
	return trigger <= room_for(CORE pipe) || counted(CORE pipe) == 0;
}

/* Whether the segment wakes a sender. */
INLINE bool wakes(const struct outgoing *out)
{
	return out->class == CLASS_REQUEST || out->class == CLASS_HANDSHAKE;
}

/* What sleeping senders on long paths have been woken for and cannot have arrived yet. */
INLINE __u64 woken(WITH_CORE __u64 now)
{
	__u64 elapsed = min_u64(since(now, get64(&GATE->woken_since)), 1ull << 32);

	return saturating_sub(get64(&GATE->woken), elapsed * link_rate(CORE_ALONE) >> 20);
}

/* Whether a segment keeps the pace: for what wakes senders on long paths. */
INLINE bool keeps_pace(WITH_CORE const struct flow *flow, const struct outgoing *out, __u64 wire, __u64 now)
{
	__u64 before;

	if (!wakes(out) || pipe_of(CORE flow) == 0)
		return true;
	before = woken(CORE now);
	return before == 0 || before + wire <= get64(&GATE->threshold);
}

/* Notes that such a segment has left. */
INLINE void note_pace(WITH_CORE const struct flow *flow, const struct outgoing *out, __u64 wire, __u64 now)
{
	if (!wakes(out) || pipe_of(CORE flow) == 0)
		return;
	set64(&GATE->woken, woken(CORE now) + wire);
	set64(&GATE->woken_since, now);
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
	if (!any_flag(flow, FLOW_ENGAGED))
		count_offer(CORE flow, 0);
}

/* The flow takes part in the division of the budget from now on; says whether that is new. It is counted first: whoever takes it out
 * again finds it in the count. */
INLINE bool engage(WITH_CORE struct flow *flow)
{
	if (any_flag(flow, FLOW_ENGAGED))
		return false;
	add64(&GATE->engaged, 1);
	if (__sync_fetch_and_or(&flow->flags, FLOW_ENGAGED) & FLOW_ENGAGED) {
		add64(&GATE->engaged, -1);
		return false;
	}
	note_offer(CORE flow);
	if (get64(&GATE->crowd) < get64(&GATE->engaged))
		set64(&GATE->crowd, get64(&GATE->engaged));
	return true;
}

/* Lowers one flag of those that are counted; says whether it was this call that did. */
INLINE bool withdraw(struct flow *flow, __u32 bit)
{
	return any_flag(flow, bit) && __sync_fetch_and_and(&flow->flags, ~bit) & bit;
}

/* The flow is idle or has ended: its share is for the others. */
INLINE void disengage(WITH_CORE struct flow *flow)
{
	if (withdraw(flow, FLOW_ENGAGED)) {
		add64(&GATE->engaged, -1);
		count_offer(CORE flow, 0);
	}
}

/* Books a debt, and the flow's earlier one with it: how long the path is may have shown since. */
INLINE void owe(WITH_CORE struct flow *flow, __u64 bytes)
{
	__u32 before = get32(&flow->owed), wire = min_u64(min_u64(bytes, ~0u), ~0u - before);
	__u32 booked = get32(&flow->path) & (PATHS - 1), path = path_of(CORE pipe_of(CORE flow));

	if (path != booked) {
		set32(&flow->path, path);
		add64(&GATE->owed_by_path[path & (PATHS - 1)], take_up_to64(&GATE->owed_by_path[booked], before));
	}
	/* The sum first: who pays or strikes the flow's part at the same moment finds it there. */
	add64(&GATE->owed, wire);
	add64(&GATE->owed_by_path[get32(&flow->path) & (PATHS - 1)], wire);
	add64(&GATE->interval_charged, wire);
	add32(&flow->owed, wire);
}

/* Strikes what a flow has ceased to owe off the gate's books. */
INLINE void strike(WITH_CORE const struct flow *flow, __u64 debt)
{
	add64(&GATE->owed, -debt);
	take_up_to64(&GATE->owed_by_path[get32(&flow->path) & (PATHS - 1)], debt);
}

/* Where nothing is owed, no path has a part in it. A flow that pays while its debt moves to another path may leave some behind. */
INLINE void balance(CORE_ONLY)
{
ROLLED
	for (int i = 0; i < PATHS; i++) {
		__u64 left = get64(&GATE->owed_by_path[i]);

		/* Debts are booked in the sum first, and by path then. */
		if (left > 0 && get64(&GATE->owed) == 0)
			take_up_to64(&GATE->owed_by_path[i], left);
	}
}

/* What arrives pays. What Eq. 6 has written off is spread over all debts alike, and its share in this one was wrong: were it
 * kept, one wrong correction would leave the gate that much too wide for good. */
INLINE void pay(WITH_CORE struct flow *flow, const struct segment *segment)
{
	__u64 paid = take_up_to32(&flow->owed, wire_bytes(segment));
	__u64 written_off = get64(&GATE->written_off);

	take_up_to32(&flow->unpaid, wire_bytes(segment));
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
