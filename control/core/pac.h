/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * PAC: what a release triggers is estimated from a model of the sender's congestion window (Eq. 3 of section III-C), within what the
 * sender can have. Windows that the sender should not grow beyond are shown no larger than PAC can use.
 */
#ifndef ACKGATE_CORE_PAC_H
#define ACKGATE_CORE_PAC_H

#include "response.h"

/* Segments of a window in which a byte more or less for each ACK no longer matters. */
#define LARGE_WINDOW 32
/* Full frames of the least window of senders that send side by side: two that one ACK acknowledges, and one on its way meanwhile. */
#define SIDE_BY_SIDE 3
/* So many times more requests than answer within a response's time on the link keep it busy although servers answer at random times. */
#define ASKED_AHEAD 4
/* So many turns at a time fill a long path, unless senders are few. */
#define TURNS_ON_THE_WAY 8
/* So many debts fill the threshold that each may be unpaid because of the others. */
#define SMALL_DEBTS 12

/* Whether the sender has no more: it has finished, or pushed where its last response ended, or less than a whole segment. */
INLINE bool pac_has_no_more(WITH_CORE const struct flow *flow)
{
	return is_complete(CORE flow, get64(&flow->size) == get32(&flow->last_response) ||
					      (get32(&flow->flags) & (FLOW_CUT | FLOW_CUTS_MIDWAY)) == FLOW_CUT);
}

/* Wire bytes of the response that have neither come nor been charged. */
INLINE __u64 still_expected(WITH_CORE const struct flow *flow)
{
	__u64 size = get64(&flow->size), response = get32(&flow->last_response);

	if (!SETTINGS->charge_requests || size >= response)
		return ~0ull;
	return saturating_sub(flow_wire(flow, response - size), get32(&flow->owed));
}

/* Whether the sender is shown no more than the largest window. */
INLINE bool bounded(WITH_CORE const struct flow *flow)
{
	return SETTINGS->bound_windows && any_flag(flow, FLOW_SCALE_KNOWN);
}

/* A server has answered after `pause`. When it was asked no more was in flight than the budget had room for beside what it was charged,
 * `wire` of which has arrived: the answer waited in the port's queue no longer than that takes. */
INLINE void pac_note_answer(WITH_CORE const struct flow *flow, __u64 wire, __u64 pause)
{
	__u64 before = saturating_sub(get64(&GATE->threshold), get32(&flow->owed) + wire), rate = link_rate(CORE_ALONE);
	__u64 known = get64(&GATE->think), sample = rate > 0 ? saturating_sub(pause, (before << 20) / rate) : 0;

	set64(&GATE->think, known - known / THINK_GAIN + sample / THINK_GAIN);
}

/* Whether so many wire bytes take longer to arrive than the part of a short timer that a hold may take. */
INLINE bool meets_timers(WITH_CORE __u64 wire)
{
	return comes_late(CORE wire, below_timer(longest_turn(CORE_ALONE), own_timer(CORE_ALONE)));
}

/* Whether such windows of all flows that were active of late do not fit the threshold, and come only after timers fire. */
INLINE bool windows_meet_timers(WITH_CORE const struct flow *flow, __u64 window)
{
	__u64 all = get64(&GATE->peak_active) * flow_wire(flow, window);

	return all > get64(&GATE->threshold) && meets_timers(CORE all);
}

/* Whether there are so few senders that they need not take turns. */
INLINE bool few_send(CORE_ONLY)
{
	return max_u64(get64(&GATE->peak_active), 1) * SIDE_BY_SIDE * FULL_FRAME <= get64(&GATE->most);
}

/* Whether senders are shown windows that fit the buffer together, because timers are short: the least ones come in time. Not a new
 * connection's over a path longer than a timer, whose slow start would take more round trips; nor those of a few by marks. */
INLINE bool all_abreast(WITH_CORE const struct flow *flow, const struct view *view)
{
	if (!timer_is_short(CORE_ALONE) || (marks_bound(CORE_ALONE) && few_send(CORE_ALONE)))
		return false;
	return !windows_meet_timers(CORE flow, LEAST_SEGMENTS * get32(&flow->mss)) &&
	       (any_flag(flow, FLOW_RECEIVED) || !meets_timers(CORE view->pipe));
}

/*
 * How many windows are to fit the buffer together. Those of a few senders: then they send side by side, and nothing waits. More take
 * turns of a whole window each, for what comes in one go costs both hosts least, as long as servers answer at once. What one that
 * thinks was asked for binds its window's worth of the budget until it comes. To fill the link, so many must be asked at a time as
 * begin to answer while one responds, rate x think / response; by chance fewer do, so several times more.
 */
INLINE __u64 windows_abreast(WITH_CORE const struct flow *flow, const struct view *view)
{
	__u64 peak = max_u64(get64(&GATE->peak_active), 1), response = expected(CORE flow), meanwhile;

	if (all_abreast(CORE flow, view))
		return peak;
	if (marks_bound(CORE_ALONE))
		return 1;
	if (few_send(CORE_ALONE))
		return peak;
	if (response == 0)
		return 1;
	/* What a long path holds is no part of the budget. */
	meanwhile = saturating_sub(view->rate * get64(&GATE->think) >> 20, view->pipe);
	return min_u64(peak, 1 + ASKED_AHEAD * meanwhile / response);
}

/*
 * One window leaves room beside it for the begin of the next turn. Over a long path that begins a round trip before it shows: as many windows
 * are on their way as fill the path, each with its part of what that holds, but no less than over a short one.
 */
INLINE __u32 largest_window(WITH_CORE const struct flow *flow, const struct view *view)
{
	__u64 mss = get32(&flow->mss), cap = get64(&GATE->most), abreast = windows_abreast(CORE flow, view);
	__u64 turn = cap * 4 / 5, turns = few_send(CORE_ALONE) ? 1 : TURNS_ON_THE_WAY;
	__u64 window = abreast > 1 ? (cap + view->pipe) / abreast : max_u64(turn, (turn + view->pipe) / turns);
	__u64 segments = window / max_u64(mss + get32(&flow->header), 1);

	return min_u64(max_u64(segments, LEAST_SEGMENTS) * mss, 1u << 30);
}

INLINE __u16 pac_window(WITH_CORE const struct flow *flow, const struct outgoing *out)
{
	return bounded(CORE flow) ? edge_field(flow, out) : out->window;
}

/* What the sender can still put on its way once the ACK has reached it, in wire bytes. */
INLINE __u64 room(const struct flow *flow, const struct outgoing *out, const struct trigger *trigger)
{
	__u32 increment = trigger->increment, offered = advertised(flow, out, trigger);
	__u32 arrived = any_flag(flow, FLOW_RECEIVED) ? ahead_of(get32(&flow->received), out->ack) : 0;
	__u32 window = reduces(flow, out) ? halved(flow) : get32(&flow->window);

	window = window + increment < window ? ~0u : window + increment;
	window = whole_segments(flow, window < offered ? window : offered);
	return saturating_sub(flow_wire(flow, window > arrived ? window - arrived : 0), get32(&flow->owed));
}

/* Increment of Eq. 3. */
INLINE __u32 increment(WITH_CORE const struct flow *flow, __u32 acked, const struct outgoing *out)
{
	__u32 mss = get32(&flow->mss);
	__u32 grown = SETTINGS->per_byte_growth ? acked : mss;

	if (out->ece || out->class == CLASS_URGENT)
		return 0;
	if (any_flag(flow, FLOW_AVOIDANCE)) {
		__u64 window = max_u32(whole_segments(flow, get32(&flow->window)), 1);
		__u64 product = (__u64)mss * grown;

		if (window > LARGE_WINDOW * (__u64)mss)
			return product / window;
		return min_u64(div_ceil(product, window), mss);
	}
	return grown;
}

/* Whether it acknowledges nothing of the present answer, which was asked for after what it does acknowledge had come. The request is
 * charged with that answer; what leaves before it sets nothing in motion. */
INLINE bool is_of_earlier_answers(WITH_CORE const struct flow *flow, const struct outgoing *out)
{
	return SETTINGS->charge_requests && ahead_of(get32(&flow->received), out->ack) >= get64(&flow->size);
}

/* Eq. 3: what the segment acknowledges, and what the sender's window grows by. */
INLINE void pac_trigger(WITH_CORE const struct flow *flow, const struct outgoing *out, const struct view *view, struct trigger *trigger)
{
	__u32 mss = get32(&flow->mss), acked;
	__u64 payload;
	bool hole;

	if (bounded(CORE flow)) {
		trigger->edge = within(flow, out, largest_window(CORE flow, view));
		trigger->moves_edge = true;
	}
	wake_trigger(CORE flow, out, trigger);
	if (out->class == CLASS_HANDSHAKE || out->class == CLASS_REQUEST || out->class == CLASS_STALE || asks_briefly(CORE flow, out))
		return;
	acked = ahead_of(out->ack, get32(&flow->released_ack));
	hole = any_flag(flow, FLOW_RECEIVED) && seq_distance(get32(&flow->received), out->ack) > 0;
	if (acked == 0) {
		trigger->wire = out->class == CLASS_URGENT && hole ? flow_wire(flow, mss) : 0;
		return;
	}
	trigger->increment = increment(CORE flow, acked, out);
	if (trigger->moves_edge)
		trigger->increment = min_u64(trigger->increment, saturating_sub(advertised(flow, out, trigger), get32(&flow->window)));
	if (pac_has_no_more(CORE flow) || any_flag(flow, FLOW_ONE_WAY) || is_of_earlier_answers(CORE flow, out))
		return;
	payload = acked + div_ceil(trigger->increment, max_u32(mss, 1)) * max_u32(mss, 1);
	trigger->wire = min_u64(min_u64(flow_wire(flow, payload), room(flow, out, trigger)), still_expected(CORE flow));
}

/* Whether all that waits would take longer than senders' timers allow: then holding only makes them fire. */
INLINE bool pac_beyond_timers(WITH_CORE const struct flow *flow, const struct view *view)
{
	return windows_meet_timers(CORE flow, get32(&flow->window)) && !(bounded(CORE flow) && all_abreast(CORE flow, view));
}

/* A stale ACK shows that the sender's timer has fired: it is in slow start again (section III-D). */
INLINE void pac_note_timeout(struct flow *flow)
{
	lower_flags(flow, FLOW_AVOIDANCE);
	set32(&flow->own[SLOW_INTERVALS], 0);
}

/* What the model learns when a flow has been silent for so long that its debt expires. */
INLINE void pac_note_silence(WITH_CORE struct flow *flow)
{
	__u32 owed = get32(&flow->owed), flags = get32(&flow->flags);

	/* A PSH came, and what was released since then brought nothing. While a flow's own ACKs wait for their turn its silence
	 * tells nothing. */
	if (owed > 0 && (flags & (FLOW_PUSHED | FLOW_AWAITED)) == (FLOW_PUSHED | FLOW_AWAITED))
		raise_flags(flow, FLOW_DRY);
	/* Less came than was charged, and the sender waits for nobody but us: as in look_through. Among many that have answered before, each owes
	 * little, and is silent because of the others. In its first answer the model only grows, and by more than some senders do. */
	if (get32(&flow->held) > 0 && !(flags & FLOW_ASKED)) {
		bool large = (__u64)SMALL_DEBTS * owed >= get64(&GATE->threshold), answered = get32(&flow->last_response) > 0;

		if (SETTINGS->charge_requests && (large || !answered))
			shrink(flow, owed);
		if (2ull * owed >= get64(&GATE->threshold) || (SETTINGS->charge_requests && large && answered))
			raise_flags(flow, FLOW_AVOIDANCE);
	}
}

#endif
