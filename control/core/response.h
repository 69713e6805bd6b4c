/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Evidence about responses: how long they are, what wakes a sender sets in motion, and what was charged and never sent.
 */
#ifndef ACKGATE_CORE_RESPONSE_H
#define ACKGATE_CORE_RESPONSE_H

#include "edge.h"
#include "interval.h"
#include "pace.h"
#include "window.h"

/* Without one of these nothing has ended. */
#define ENDS (FLOW_PUSHED | FLOW_PEER_DONE)

/* Whether nothing follows: the sender has finished, or has pushed what `ends`, by what the flow's law goes by. */
INLINE bool is_complete(WITH_CORE const struct flow *flow, bool ends)
{
	__u32 flags = get32(&flow->flags);
	bool pushed = SETTINGS->push_ends_response && flags & FLOW_PUSHED && (ends || flags & FLOW_DRY);

	return (pushed || flags & FLOW_PEER_DONE) && !(flags & FLOW_RECOVERING);
}

/* Payload of the present message, as far as it has come. */
INLINE __u32 message_so_far(const struct flow *flow)
{
	return ahead_of(get32(&flow->received), get32(&flow->message));
}

/* Length of the present message as far as it tells about the largest: if it may be several, it tells nothing if it is much more than what is
 * known. */
INLINE __u64 message_length(const struct flow *flow, __u64 largest)
{
	__u32 length = message_so_far(flow);

	return get32(&flow->several) && length > largest / 8 * 9 ? 0 : length;
}

/* An answer is complete, as far as that shows. */
INLINE void note_answer(WITH_CORE struct flow *flow)
{
	__u64 size = take64(&flow->size), part = size;

	/* Of messages that nobody asked for and that followed each other at once, the last. */
	if (!any_flag(flow, FLOW_ASKS))
		part = min_u64(size, message_length(flow, get64(&GATE->largest_message)));
	if (size > 0) {
		set64(&GATE->usual_response, size);
		if (part > get64(&GATE->largest_response))
			set64(&GATE->largest_response, part);
		set32(&flow->last_response, size > ~0u ? ~0u : size);
	}
}

INLINE void end_response(WITH_CORE struct flow *flow)
{
	note_answer(CORE flow);
	set32(&flow->run, 0);
	set32(&flow->streamed, 0);
	set64(&flow->interval_start, 0);
	if (!SETTINGS->credit)
		set32(&flow->own[LAST_BANDWIDTH], 0);
}

/* What responses take to begin. Under exact credit it is known from the slower ones: it rises with each that takes longer, as smoothed round-trip
 * times do, and falls by this part of what others take less, for the first answers of a round are those of the fastest servers. PAC's prices are
 * as often too much: what is never sent must not bind the budget for long. */
#define DELAY_FALL 64

INLINE void note_delay(WITH_CORE __u64 delay)
{
	__u64 known = get64(&GATE->response_delay);
	bool falls = SETTINGS->credit && delay < known;

	set64(&GATE->response_delay, falls ? known - (known - delay) / DELAY_FALL : smooth(known, delay));
}

/* An answer moves what is known of servers that think by this part. */
#define THINK_GAIN 16
/* What one answer tells is no more than twice what is known and so much, ns: a few peers that are asked long before they have anything to say
 * are nobody's idle link. */
#define LONGEST_NEWS 1000000ull
/* How long after a loss nothing is asked for because the link is idle, ns. */
#define CAUTION 1000000000ull

/* Data that comes so much later, ns, than the link needs for it has found the queue empty. So it seems, too, where a host was away for as long:
 * what one answer may tell is bounded. */
#define GAP 100000ull

/* So many wire bytes of data have arrived: if the link was idle until then, nothing that came before stands before what comes now. */
INLINE void note_pause(WITH_CORE __u32 wire, __u64 now)
{
	__u64 pause = min_u64(since(now, get64(&GATE->last_data)), 1ull << 32);

	if (pause <= GAP || (pause - GAP) * path_rate(CORE_ALONE) >> 20 <= wire)
		return;
	set32(&GATE->arrived_idle, arrived(CORE_ALONE));
	/* More than the link carries may have been told. */
	if ((pause - GAP) * get64(&GATE->peak) >> 20 > wire)
		set64(&GATE->busy_since, now);
}

/*
 * A server has answered after `pause`: as long as nothing else arrived meanwhile the link was idle, for the path is long, or the server thinks.
 * It has thought, too, while came what cannot have stood in the queue before its answer: what came before the link was last idle, or is more than
 * a given buffer. What a budget that was found leaves of the buffer nobody knows. So much more may be asked for at a time, at the link's pace:
 * where all think for as long, their answers keep it.
 */
INLINE void note_idle(WITH_CORE const struct flow *flow, __u64 pause, __u64 now)
{
	__u64 came = (__u32)((__u32)arrived(CORE_ALONE) - get32(&flow->arrived_before)), given = link_rate(CORE_ALONE);
	/* Where nobody told, no more than has arrived: else what stood in the queue would pass for an idle link. */
	__u64 rate = given > 0 ? given : get64(&GATE->peak);
	__u64 known = get64(&GATE->think), busy = (__u32)((__u32)arrived(CORE_ALONE) - get32(&GATE->arrived_idle));
	__u64 queued = min_u64(came, port_is_known(CORE_ALONE) ? min_u64(busy, port_holds(CORE_ALONE)) : busy);
	__u64 sample = rate > 0 ? saturating_sub(pause, (queued << 20) / rate) : 0;

	sample = min_u64(sample, 2 * known + LONGEST_NEWS);
	if (now >= get64(&GATE->think_after))
		set64(&GATE->think, known - known / THINK_GAIN + sample / THINK_GAIN);
}

/* Something was lost: answers may have come all at once. */
INLINE void forget_idle(WITH_CORE __u64 now)
{
	set64(&GATE->think, 0);
	set64(&GATE->think_after, now + CAUTION);
}

/* Whether what is rather likely may be reckoned with: nothing was lost of late. */
INLINE bool nothing_lost_of_late(CORE_ONLY)
{
	return get64(&GATE->last_data) >= get64(&GATE->think_after);
}

/* What one SYN-ACK tells of them all; an answer twice as much, for it may come late, when the SYN-ACK has been counted as unanswered. */
#define HANDSHAKE_GAIN 16

INLINE void note_unanswered(CORE_ONLY)
{
	__u64 before = get64(&GATE->unanswered);

	set64(&GATE->unanswered, before + (1024 - before) / HANDSHAKE_GAIN);
}

INLINE void note_answered(CORE_ONLY)
{
	__u64 before = get64(&GATE->unanswered);

	if (before > 0)
		set64(&GATE->unanswered, before - div_ceil(2 * before, HANDSHAKE_GAIN));
}

/* Whether SYN-ACKs set nothing in motion: there are more than an incast has, or most of the last ones were answered by nobody, as in
 * a SYN flood. */
INLINE bool answers_a_flood(CORE_ONLY)
{
	return get64(&GATE->half_open) > SETTINGS->max_half_open || (SETTINGS->charge_requests && get64(&GATE->unanswered) > 512);
}

/* What sets an idle sender in motion: its initial window, or the window that it has kept, as far as the last response went; no more than it
 * is shown. */
INLINE void wake_trigger(WITH_CORE const struct flow *flow, const struct outgoing *out, struct trigger *trigger)
{
	__u32 window, response, shown = advertised(flow, out, trigger);

	if (out->class == CLASS_HANDSHAKE) {
		trigger->wire = flow_wire(flow, min_u64(initial_window(CORE flow), shown));
	} else if (asks_briefly(CORE flow, out)) {
		trigger->wire = saturating_sub(brief_answer(flow), get32(&flow->owed));
	} else if (out->class == CLASS_REQUEST) {
		response = get32(&flow->last_response);
		window = min_u64(get32(&flow->window), shown);
		trigger->wire = flow_wire(flow, response == 0 || window < response ? window : response);
	}
}

/* What was owed a longest pause ago and is not paid although data has kept coming was never sent. */
INLINE void look_through(WITH_CORE struct flow *flow, __u64 pause, __u64 now)
{
	__u64 age = (__u32)((__u32)now - get32(&flow->due_since)), timeout, due, unpaid;

	/* Mostly it is too early by the shortest of its bounds, and the others take a division. */
	if (age < SETTINGS->silence && pause * 2 < SETTINGS->silence)
		return;
	timeout = longest_pause(CORE flow);
	if (age < timeout && pause * 2 < timeout)
		return;
	due = get32(&flow->due);
	unpaid = min_u64(get32(&flow->unpaid), get32(&flow->owed));
	if (unpaid > 0 && pause * 2 < timeout) {
		unpaid = take_up_to32(&flow->owed, unpaid);
		forgive(CORE flow, unpaid);
		shrink(flow, unpaid);
		if ((due - unpaid) * 1000 <= due * SETTINGS->lambda_permille)
			raise_flags(flow, FLOW_AVOIDANCE);
	}
	set32(&flow->due, get32(&flow->owed));
	set32(&flow->unpaid, get32(&flow->owed));
	set32(&flow->due_since, now);
}

#endif
