/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What is owed: wire bytes that released segments have triggered and that have not arrived (PAC section III-C, Eq. 4
 * and 5), and how much may be. The only owner of the sum.
 */
#ifndef ACKGATE_CORE_LEDGER_H
#define ACKGATE_CORE_LEDGER_H

#include "path.h"

/* Lengths of paths that are told apart, by powers of two of what they hold; the first hold up to so much. */
#define PATHS 16
#define SHORTEST_PATH 16384ull

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
 * What a long path holds must not come at once, either: it keeps the pace (pace.h).
 */

/* Bytes that released ACKs have triggered and that have not arrived (PAC section III-C). */
INLINE __u64 in_flight(CORE_ONLY)
{
	return saturating_sub(get64(&GATE->owed), get64(&GATE->written_off));
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

/* Of what is in flight over all but the shortest paths, what is due within the round trip of one that holds so much: of a longer path's
 * its part. */
SUBPROGRAM __u64 counted_beyond(WITH_CORE __u64 holds)
{
	__u64 bytes = 0, own = holds >> 10;
	/* Round trips are known to a quarter, and those of short paths hardly, for what waits in the queue is in them. */
	__u64 alike = max_u64(own, short_path(CORE are_few_now(CORE_ALONE)) >> 10) / 4 * 5;

ROLLED
	for (int i = 1; i < PATHS; i++) {
		__u64 owed = get64(&GATE->owed_by_path[i]);
		/* What these paths hold in the mean, KiB. */
		__u64 mean = owed > 0 ? get64(&GATE->held_by_path[i]) / owed : 0;

		bytes += mean > alike ? owed * own / mean : owed;
	}
	return bytes;
}

/* Of all that is in flight, what is due within that round trip. What Eq. 6 has written off is taken from it. */
INLINE __u64 counted(WITH_CORE __u64 holds)
{
	__u64 all = get64(&GATE->owed), bytes = owed_nearby(CORE_ALONE);

	if (bytes < all)
		bytes += counted_beyond(CORE holds);
	return saturating_sub(min_u64(bytes, all), get64(&GATE->written_off));
}

/* Wire bytes that may be triggered now over the flow's path. */
INLINE __u64 room_for(WITH_CORE const struct view *view)
{
	return saturating_sub(get64(&GATE->threshold) + pipe(CORE view->booked, view->few), counted(CORE view->booked));
}

/* The room that `trigger` more bytes need over a path that holds so much, and may have `beside` on its way beside the budget. One trigger
 * larger than all there is could never leave: it need not wait for what the path holds, which has left the queue when the first byte of it
 * arrives. */
INLINE __u64 room_needed(WITH_CORE __u64 trigger, __u64 holds, __u64 beside)
{
	__u64 threshold = get64(&GATE->threshold), all = threshold + beside;

	return trigger <= all ? trigger : all - min_u64(holds, threshold / 4 * 3);
}

/* Whether `trigger` more bytes may be. */
INLINE bool admits(WITH_CORE __u64 trigger, __u64 holds, __u64 beside)
{
	__u64 room = saturating_sub(get64(&GATE->threshold) + beside, counted(CORE holds));

	return room_needed(CORE trigger, holds, beside) <= room;
}

/* What a segment of that class may set in motion beside the budget: what a long path holds, or what the link could carry while servers that are
 * asked think. */
INLINE __u64 beside(WITH_CORE __u32 class, const struct view *view)
{
	__u64 path = pipe(CORE view->booked, view->few);

	return class == CLASS_REQUEST || class == CLASS_ACK ? max_u64(path, view->idle) : path;
}

/* What least grants of as many flows as were active at once of late are together, wire bytes. */
INLINE __u64 least_grants(WITH_CORE const struct flow *flow)
{
	return get64(&GATE->peak_active) * least_grant(flow);
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

/* Raises a flag and counts who has it; says whether it was this call that did. It is counted first: whoever lowers it again finds it in the
 * count. */
INLINE bool enlist(struct flow *flow, __u32 bit, __u64 *count)
{
	if (any_flag(flow, bit))
		return false;
	add64(count, 1);
	if (__sync_fetch_and_or(&flow->flags, bit) & bit) {
		add64(count, -1);
		return false;
	}
	return true;
}

/* The flow takes part in the division of the budget from now on; says whether that is new. */
INLINE bool activate(WITH_CORE struct flow *flow)
{
	if (!enlist(flow, FLOW_ACTIVE, &GATE->active))
		return false;
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

/* Who was asked answers, or owes nothing any more. */
INLINE void await_no_more(WITH_CORE struct flow *flow)
{
	if (SETTINGS->credit && withdraw(flow, FLOW_AWAITED))
		add64(&GATE->asked, -1);
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

/* What the flow owes is booked with what its path holds from now on, as far as that has shown since: by more than an eighth. */
INLINE void rebook(WITH_CORE struct flow *flow, __u64 with)
{
	__u32 holds = min_u64(with >> 10, ~0u), booked = get32(&flow->holds);
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

/* Books a debt with what the flow's path holds. */
INLINE void owe(WITH_CORE struct flow *flow, __u64 bytes, __u64 holds)
{
	__u32 before = get32(&flow->owed), wire = min_u64(min_u64(bytes, ~0u), ~0u - before);

	rebook(CORE flow, holds);
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

SUBPROGRAM int forgive_all(WITH_CORE struct flow *flow)
{
	if (flow)
		forgive(CORE flow, take32(&flow->owed));
	return 0;
}

/* Returns a flow's debt to the budget: it ended, fell silent, or said that it has no more. */
INLINE void void_debt(WITH_CORE struct flow *flow)
{
	set32(&flow->unpaid, 0);
	await_no_more(CORE flow);
	if (get32(&flow->owed) > 0)
		forgive_all(CORE flow);
}

#endif
