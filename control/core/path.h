/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the link carries, what a flow's path holds, and whether few or many flows share it.
 */
#ifndef ACKGATE_CORE_PATH_H
#define ACKGATE_CORE_PATH_H

#include "edge.h"
#include "timer.h"

/* A path is long if it holds more than three quarters of the threshold, or half of it where flows are few, and at least so much. What
 * shorter ones hold is covered by the budget, and in their RTTs is what stood in the queue. A few flows wait for each other at the end of
 * a response if that leaves the budget little more than the path holds; many fill the link in turns. */
#define LEAST_LONG_PATH (16 * FULL_FRAME)
/* Round trips after which the least of them is believed: one alone may contain a pause of the sender. */
#define SAMPLES 8

/* In samples, beside how many there are. The path has shown to be shorter than its handshake was. */
#define SHORTER (1u << 8)
/* It has shown to be longer. */
#define LONGER (1u << 9)
/* Its sender's last push came when the window that it knew was used up: it may have had more. */
#define USED_UP (1u << 10)
#define PATH_FLAGS (SHORTER | LONGER | USED_UP)
/* Binary logarithm of how long, ns, a least RTT is believed, at least, and at most a longer path. All flows forget at once: their queue drains,
 * and what they queued themselves makes no path longer and longer. */
#define RTT_MEMORY 34

/* Whether there are enough. */
INLINE bool is_timed(const struct flow *flow)
{
	return (get32(&flow->samples) & ~PATH_FLAGS) >= SAMPLES;
}

/* So many full frames keep a sender moving that sends side by side with others: two on their way, two acknowledged. */
#define QUANTUM (4 * FULL_FRAME)
/* What the buffers of ports hold, even shallow ones, wire bytes: so much, or on fast links, whose switches have more, what they carry in so
 * long, ns. As far as the search for a budget goes without a risk: FARTHEST of control/src/budget.rs. */
#define SHALLOW (48 * FULL_FRAME)
#define SHALLOW_TIME 300000ull
/* What a host takes, ns, for each aggregate of segments that arrives: a process wakes and reads, and an ACK leaves. */
#define AGGREGATE_DELAY 20000ull
/* What hosts may keep a stream waiting for, ns: interrupts are coalesced, processes scheduled. Flows side by side have as much
 * more on their way than their paths hold. */
#define HOST_DELAY 200000ull
/* The most bytes of an aggregate. */
#define LARGEST_AGGREGATE 65536ull

/* Of the link's rate, what other traffic leaves: what is no TCP, and cannot be held back (others.h). */
INLINE __u64 left_of_link(WITH_CORE __u64 rate)
{
	return rate - (rate * get32(&GATE->other_part) >> 10);
}

/* Of the port's buffer, wire bytes: they do not come evenly, and have an eighth more of it. */
INLINE __u64 left_of_buffer(WITH_CORE __u64 bytes)
{
	__u64 part = get32(&GATE->other_part);

	return bytes - (bytes * (part + part / 8) >> 10);
}

/* How much of the link makes other traffic matter that takes whatever it is left, in 1/1024. */
#define MANY_OTHERS 128

/* Whether there is some, as far as it has shown (others.h): what we leave it is lost. */
INLINE bool others_take(CORE_ONLY)
{
	return get64(&GATE->other_doubt) > 0 && get32(&GATE->other_part) == 0 && get32(&GATE->other_seen) >= MANY_OTHERS;
}

/* What the link carries with all that is on it, bytes per 2^20 ns: as given, or less where it has shown to. */
INLINE __u64 whole_link(CORE_ONLY)
{
	__u64 given = SETTINGS->rate, carries = get64(&GATE->carries);

	return carries > 0 ? min_u64(given, carries) : given;
}

/* What others leave of it. */
INLINE __u64 link_rate(CORE_ONLY)
{
	return left_of_link(CORE whole_link(CORE_ALONE));
}

/* What the link carries as far as arrivals show: what arrives at most, and a quarter more, for it may not have been filled. */
INLINE __u64 peak_rate(CORE_ONLY)
{
	__u64 peak = get64(&GATE->peak);

	return peak + peak / 4;
}

/* What the link carries, `rate`, or where none was given, what arrivals show, which grows with them. Lengths of paths go by this one. */
INLINE __u64 rate_or_peak(WITH_CORE __u64 rate)
{
	return rate > 0 ? rate : left_of_link(CORE peak_rate(CORE_ALONE));
}

INLINE __u64 path_rate(CORE_ONLY)
{
	return rate_or_peak(CORE link_rate(CORE_ALONE));
}

/* What it carries of full frames: preamble, gap and checksum take a sixty-fourth of it. */
INLINE __u64 frames_rate(WITH_CORE __u64 link)
{
	__u64 rate = rate_or_peak(CORE link);

	return rate - rate / 64;
}

/* What keeps a flow moving side by side with others, wire bytes: two aggregates, large enough that neither host takes longer for one than
 * the link does. */
INLINE __u64 quantum(__u64 rate)
{
	return max_u64(QUANTUM, 2 * min_u64(rate * AGGREGATE_DELAY >> 20, LARGEST_AGGREGATE));
}

/* What the flow's handshake took, or while a peer has yet to answer our SYN-ACK, the least of late, ns; 0 where nobody knows. */
INLINE __u32 handshake_time(WITH_CORE const struct flow *flow)
{
	__u32 rtt = get32(&flow->handshake_rtt);

	return rtt > 0 || !any_flag(flow, FLOW_HALF_OPEN) ? rtt : get32(&GATE->least_handshake);
}

/*
 * What the flow's path holds, wire bytes. The least RTT is timed by timestamps, less what our own grants may have queued
 * meanwhile. Until there are enough samples the handshake's counts, less what may have queued then. Too little here costs
 * a long path some of its window, too much would overflow the buffer.
 */
INLINE __u64 path_holds(WITH_CORE const struct flow *flow, __u64 rate)
{
	/* Never more than the handshake's, where it was seen: what we queue ourselves must not make a path longer and longer. */
	if (is_timed(flow) && get32(&flow->rtt) > 0 && !SETTINGS->timestamps)
		return rate * min_u64(get32(&flow->least_rtt), get32(&flow->rtt)) >> 20;
	if (is_timed(flow))
		return rate * get32(&flow->least_rtt) >> 20;
	return rate * handshake_time(CORE flow) >> 20;
}

INLINE void forget_longer_path(WITH_CORE struct flow *flow)
{
	set32(&GATE->longer_run, 0);
	if (!(get32(&flow->samples) & LONGER))
		return;
	set32(&flow->samples, get32(&flow->samples) & ~LONGER);
	set32(&flow->rtt, get32(&flow->handshake_rtt));
}

/* What was the least round trip before the last period counts no more. */
INLINE void forget_round_trips(WITH_CORE struct flow *flow)
{
	if (get32(&flow->next_rtt) > 0)
		set32(&flow->least_rtt, get32(&flow->next_rtt));
	set32(&flow->next_rtt, 0);
	forget_longer_path(CORE flow);
}

/* A packet of the flow, in either direction. */
INLINE void note_seen(WITH_CORE struct flow *flow, __u64 now)
{
	__u64 before = get64(&flow->last_seen);

	set64(&flow->last_seen, now);
	if ((before ^ now) >> RTT_MEMORY > 0)
		forget_round_trips(CORE flow);
}

/* The flow's least round trip of late, or the handshake's while nobody knows, ns. */
INLINE __u64 least_round_trip(const struct flow *flow)
{
	return is_timed(flow) ? get32(&flow->least_rtt) : get32(&flow->handshake_rtt);
}

/* Whether flows were so few of late that what keeps each of them moving fits the budget. */
INLINE bool are_few(WITH_CORE __u64 rate)
{
	return get64(&GATE->peak_active) * quantum(rate) <= get64(&GATE->threshold);
}

/* The same for whoever has not looked. */
INLINE bool are_few_now(CORE_ONLY)
{
	return are_few(CORE link_rate(CORE_ALONE));
}

/* Whether all active flows can send side by side: nobody waits, and no ACK needs a copy. */
INLINE bool concurrent(CORE_ONLY)
{
	return get64(&GATE->active) * QUANTUM <= get64(&GATE->threshold);
}

/* What paths hold at most that are not long: it is covered by the budget. */
INLINE __u64 short_path(WITH_CORE bool few)
{
	__u64 threshold = get64(&GATE->threshold);

	return max_u64(few ? threshold / 2 : threshold / 4 * 3, LEAST_LONG_PATH);
}

/* So much if a path that holds it is long, else 0. Where all flows of late send side by side, in between a part: no less may be in flight
 * than with a smaller threshold, with which the path would be long. */
INLINE __u64 pipe(WITH_CORE __u64 holds, bool few)
{
	__u64 threshold = get64(&GATE->threshold);

	if (!SETTINGS->long_paths || holds <= LEAST_LONG_PATH)
		return 0;
	if (get64(&GATE->peak_active) * QUANTUM > threshold)
		return holds > short_path(CORE few) ? holds : 0;
	return min_u64(holds, saturating_sub(few ? 3 * holds : holds / 3 * 7, threshold));
}

/* What the flow's path holds if it is long, else 0. */
INLINE __u64 pipe_of(WITH_CORE const struct flow *flow)
{
	__u64 rate = link_rate(CORE_ALONE);

	return pipe(CORE path_holds(CORE flow, frames_rate(CORE rate)), are_few(CORE rate));
}

/* Whether the window of a sender in the middle of a response has no room for a whole segment: it sends nothing then, and waits for its next
 * grant (RFC 9293 section 3.8.6.2.1), unless that is the end of its response. Over short paths only if more than that is expected to follow; and
 * what only rounds windows up counts there as in flight all the same: what nobody accounts has that room. But not of streams,
 * where that of all active flows would bind a quarter of the budget: they would wait for each other. */
INLINE bool has_no_room(WITH_CORE const struct flow *flow, __u32 window)
{
	__u32 mss = get32(&flow->mss);
	__u64 size = get64(&flow->size), response;

	if (window >= mss || size == 0)
		return false;
	response = expected(CORE flow);
	if (size < response && size + window >= response)
		return false;
	if (size > LONGEST_RESPONSE * get64(&GATE->threshold) && get64(&GATE->active) * flow_wire(flow, window) > get64(&GATE->threshold) / 4)
		return true;
	return (window >= mss / 4 && size < response) || pipe_of(CORE flow) > 0;
}

/* The least length of the flow's path, ns, by the least that a handshake has taken of late: a flow's own least round trip, less what may have been
 * queued, can come out at nothing. No more than its own have taken since, and no less than it has become. */
INLINE __u64 least_length(WITH_CORE const struct flow *flow)
{
	__u32 rtt = get32(&flow->rtt), least = get32(&GATE->least_handshake);

	return rtt > 0 && (rtt < least || get32(&flow->samples) & LONGER) ? rtt : least;
}

/* What a flow's debt is booked with, wire bytes: what its path holds; nothing where all in flight counts alike, or nobody knows. */
INLINE __u64 booked_with(WITH_CORE const struct flow *flow, __u64 rate, __u64 holds)
{
	bool known = is_timed(flow) || handshake_time(CORE flow) > 0;


	return SETTINGS->long_paths && known ? max_u64(holds, rate * least_length(CORE flow) >> 20) : 0;
}

/* Payload of a response: of the flow's own, or of the largest of late. */
INLINE __u64 largest_expected(WITH_CORE const struct flow *flow)
{
	return max_u64(expected(CORE flow), get64(&GATE->largest_response));
}

/* Whether responses of late are shorter than a least grant of jumbo frames. */
INLINE bool leaves_jumbo_frames_empty(WITH_CORE const struct flow *flow)
{
	__u64 response;

	if (!is_jumbo(flow))
		return false;
	response = largest_expected(CORE flow);
	return response > 0 && response < LEAST_SEGMENTS * get32(&flow->mss);
}

/* Whether CE marks keep the queue short: senders bound their windows themselves, and what one leaves another may use. */
INLINE bool marks_bound(CORE_ONLY)
{
	return get64(&GATE->threshold) < get64(&GATE->most);
}

/* Whether what the port holds is known: somebody gave it, and it has not proved to be less. */
INLINE bool port_is_known(CORE_ONLY)
{
	return get64(&GATE->port) > 0;
}

/* What fits the port, wire bytes: a given buffer, although the budget may be a part of it; or the budget, where nobody gave one, or marks
 * keep the queue short. */
INLINE __u64 port_holds(CORE_ONLY)
{
	__u64 threshold = get64(&GATE->threshold);

	return marks_bound(CORE_ALONE) ? threshold : max_u64(threshold, left_of_buffer(CORE get64(&GATE->port)));
}

/* What even shallow ports are taken to hold, wire bytes, or less, once that was too much (control/src/budget.rs). */
INLINE __u64 shallow_port(CORE_ONLY)
{
	__u64 usual = left_of_buffer(CORE max_u64(SHALLOW, whole_link(CORE_ALONE) * SHALLOW_TIME >> 20)), less = get64(&GATE->shallow);

	return less > 0 ? min_u64(less, usual) : usual;
}

/* What short answers may use of the port with all else that is on its way, wire bytes: seven eighths of what a given budget may be, and under PAC,
 * which uses it all, a part more, for its estimates run high; or, where nobody gave one, what shallow ports hold all the same. */
INLINE __u64 brief_room(CORE_ONLY)
{
	__u64 holds = port_holds(CORE_ALONE);

	if (!port_is_known(CORE_ALONE))
		return max_u64(holds + holds / 8, shallow_port(CORE_ALONE));
	return SETTINGS->credit ? max_u64(get64(&GATE->threshold), holds - holds / 8) : holds + holds / 32;
}

/* Whether timers are short, and so many wire bytes take longer than `time` to arrive. */
INLINE bool comes_late(WITH_CORE __u64 wire, __u64 time)
{
	return timer_is_short(CORE_ALONE) && wire > path_rate(CORE_ALONE) * time >> 20;
}

/* Whether as large ones of as many flows as were active of late fit the port and what the link carries meanwhile. Where timers are short,
 * what fits may still come too late for the last of them. */
INLINE bool all_come_together(WITH_CORE const struct flow *flow, __u64 meanwhile)
{
	__u64 all = get64(&GATE->peak_active) * flow_wire(flow, largest_expected(CORE flow));

	return expected(CORE flow) > 0 && all <= port_holds(CORE_ALONE) + meanwhile &&
	       !comes_late(CORE all, TIMER_SHARE(own_timer(CORE_ALONE)));
}

/* Whether its response may be asked for beyond the budget although not all responses would fit then: it is no more than the budget, and marks
 * do not say that too much comes already. */
INLINE bool may_be_asked_beyond(WITH_CORE const struct flow *flow)
{
	return !marks_bound(CORE_ALONE) && flow_wire(flow, expected(CORE flow)) <= get64(&GATE->threshold);
}

/* What one decision goes by besides flow and gate. Made once: each look at what many processors share costs time, and code for it more. */
struct view {
	/* What the link carries, bytes per 2^20 ns; 0 when it is not known. */
	__u64 rate;
	/* What the flow's path holds, wire bytes. */
	__u64 holds;
	/* The same if the path is long, else 0. */
	__u64 pipe;
	/* What its debt is booked with, wire bytes. */
	__u64 booked;
	/* What the link could carry beside while servers that are asked make it wait, wire bytes; in the middle of a response no more than half of
	 * what others are asked for; 0 where that is little, or neither all responses would fit then nor one of them is an answer that may come by
	 * itself. */
	__u32 idle;
	/* What keeps each flow of late moving fits the budget. */
	bool few;
	/* Before a response: all responses fit the port and what the link carries meanwhile. */
	bool together;
};

SUBPROGRAM int look(WITH_CORE const struct flow *flow, struct view *view)
{
	__u64 frames, idle, size;

	if (!flow || !view)
		return 0;
	view->rate = link_rate(CORE_ALONE);
	frames = frames_rate(CORE view->rate);
	view->few = are_few(CORE view->rate);
	view->holds = path_holds(CORE flow, frames);
	view->pipe = pipe(CORE view->holds, view->few);
	view->booked = booked_with(CORE flow, frames, view->holds);
	view->together = false;
	view->idle = 0;
	if (!SETTINGS->credit)
		return 0;
	idle = SETTINGS->long_paths ? frames * get64(&GATE->think) >> 20 : 0;
	size = get64(&flow->size);
	if (size == 0)
		view->together = all_come_together(CORE flow, max_u64(view->pipe, idle));
	else if (idle > LEAST_LONG_PATH)
		/* Of those that were asked, half may answer before what may come now has left the queue. */
		idle = min_u64(idle, get64(&GATE->asked) * least_grant(flow)) / 2;
	view->idle = idle > LEAST_LONG_PATH && (view->together || may_be_asked_beyond(CORE flow)) ? min_u64(idle, ~0u) : 0;
	if (size == 0 && answers_briefly(flow))
		view->idle = max_u64(view->idle, min_u64(saturating_sub(brief_room(CORE_ALONE), get64(&GATE->threshold)), ~0u));
	return 0;
}

#endif
