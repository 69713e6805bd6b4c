/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What leaves: what it is to the gate, and whether it may leave now (Algorithm 1, lines 8-14).
 */
#ifndef ACKGATE_CORE_EGRESS_H
#define ACKGATE_CORE_EGRESS_H

#include "ingress.h"

/* Bytes of payload of the largest request that is ever held: one segment. What takes more is an upload and passes. */
#define LARGEST_REQUEST 1460

/* Whether somebody releases what is held. */
INLINE bool daemon_lives(WITH_CORE __u64 now)
{
	return SETTINGS->stale == 0 || since(now, get64(&GATE->heartbeat)) <= SETTINGS->stale;
}

HOT enum class ack_class(WITH_CORE struct flow *flow, const struct segment *segment, bool repeated, bool same_window, bool was_zero)
{
	__u32 flags = get32(&flow->flags);
	bool hole, duplicate;

	if (flags & FLOW_OVERTAKEN) {
		if (get32(&flow->held) == 0)
			lower_flags(flow, FLOW_OVERTAKEN);
		else if (repeated && !segment->sack && !(segment->flags & ECE) == !(flags & FLOW_ECHOES))
			return CLASS_STALE;
	}
	hole = seq_distance(get32(&flow->received), segment->ack) > 0;
	duplicate = hole && flags & FLOW_RECEIVED && !segment->dsack && (segment->sack || (repeated && same_window));
	if (duplicate)
		note_duplicate(CORE flow, ahead_of(get32(&flow->received), segment->ack));
	if (any_flag(flow, FLOW_RECOVERING)) {
		if (seq_distance(segment->ack, get32(&flow->recover)) < 0 || duplicate)
			return CLASS_URGENT;
		lower_flags(flow, FLOW_RECOVERING);
	}
	return was_zero ? CLASS_URGENT : CLASS_ACK;
}

/* Small enough to be held: one frame, and no more than a request. */
INLINE bool is_short(const struct segment *segment)
{
	return segment->frames <= 1 && segment->payload <= LARGEST_REQUEST;
}

/* Whether what asks need not wait: its peer answered with little the last time, and that fits beside what is on its way: nearby, or over a long
 * path, at all. Many such answers fill a port as well as long ones do. */
INLINE bool comes_beside(WITH_CORE const struct flow *flow)
{
	__u64 others;

	if (!answers_briefly(flow))
		return false;
	others = pipe_of(CORE flow) > 0 ? in_flight(CORE_ALONE) : owed_up_to(CORE path_of(get64(&GATE->threshold)));
	return others + brief_answer(flow) <= brief_room(CORE_ALONE);
}

/* Whether a request is no more than an ACK to the gate: its sender is to send other answers before, and nothing is held that it would overtake. */
INLINE bool lets_answers_go_on(WITH_CORE const struct flow *flow)
{
	return governs(CORE flow) && answers_follow(CORE flow) && nothing_waits_but_a_copy(flow) && !answers_briefly(flow);
}

/* What data of ours is. A subprogram: in one piece with what is done with its result it is too much for the verifier of Linux 6.1. */
SUBPROGRAM int data_class(WITH_CORE struct flow *flow, const struct segment *segment, __u64 now)
{
	bool received_all, quiet, new, idle, brief, unanswered;

	if (!flow || !segment)
		return CLASS_DATA;
	/* A repeat asks for nothing new. */
	if (any_flag(flow, FLOW_REPEATS))
		return CLASS_DATA;
	/* Nothing came since we last sent: nobody answers. */
	unanswered = any_flag(flow, FLOW_ASKS) && get64(&flow->size) == 0;
	received_all = !any_flag(flow, FLOW_RECEIVED) || get32(&flow->received) == segment->ack;
	quiet = since(now, get64(&flow->last_active)) > longest_pause(CORE flow);
	new = governs(CORE flow) && !any_flag(flow, FLOW_RECEIVED);
	idle = received_all && (quiet || new || get32(&flow->owed) == 0 || any_flag(flow, FLOW_PUSHED));
	lower_flags(flow, FLOW_PUSHED | FLOW_STOPPED);
	/* It asks for the next answer while others are still to come: it lets them go on, as an ACK does. */
	if (idle && !quiet && !unanswered && lets_answers_go_on(CORE flow)) {
		note_answer(CORE flow);
		raise_flags(flow, FLOW_ASKS);
		return CLASS_ACK;
	}
	if (idle) {
		void_debt(CORE flow);
		deactivate(CORE flow);
		end_response(CORE flow);
	}
	raise_flags(flow, FLOW_ASKS);
	if (!idle)
		return CLASS_DATA;
	/* PAC's model would charge the request with more than it brings. */
	if (SETTINGS->credit && unanswered && !any_flag(flow, FLOW_RECEIVED | FLOW_GREETED)) {
		raise_flags(flow, FLOW_GREETED);
		unanswered = false;
	}
	put_flags(flow, FLOW_ONE_WAY, unanswered);
	brief = !unanswered && is_short(segment) && segment->flags & PSH;
	if (!brief || !SETTINGS->charge_requests)
		return CLASS_DATA;
	return comes_beside(CORE flow) ? CLASS_DATA : CLASS_REQUEST;
}

/* Our retransmission timer has fired: for what is held; or what the peer answered may be lost (was_unheard), after it was asked. */
INLINE void note_repeat(WITH_CORE struct flow *flow, __u64 now)
{
	bool waits = get32(&flow->held) > 0 && !only_a_copy_waits(flow);
	__u64 asked = max_u64(get64(&flow->last_active), saturating_sub(now, LONGEST_RTT));

	if (waits)
		note_own_timer(CORE (__u64)(__u32)((__u32)(now >> 10) - get32(&flow->held_since)) << 10);
	/* The peer may only have delayed its ACK, or what it answers may still be on its way. */
	if (!any_flag(flow, FLOW_RECOVERING))
		set32(&flow->hole_since, waits || since(now, asked) <= DELAYED_ACK + least_round_trip(flow) ? now | KEPT_WINDOWS : asked & ~KEPT_WINDOWS);
}

/* Notes how far our TCP has sent, and whether this is what it had sent before. If that is the first that the peer has not acknowledged,
 * the retransmission timer has fired. A tail loss probe (RFC 8985 section 7.3), which comes much earlier, repeats the last of several, and
 * the SACK that it brings the others. */
INLINE void note_sent(WITH_CORE struct flow *flow, const struct segment *segment, bool seen, __u64 now)
{
	__u32 end = segment_end(segment);
	bool new = !seen || seq_distance(end, get32(&flow->sent)) > 0, repeats = segment->payload > 0 && !new;

	put_flags(flow, FLOW_REPEATS, repeats);
	if (new)
		set32(&flow->sent, end);
	else if (repeats && segment->seq == get32(&flow->timed))
		note_repeat(CORE flow, now);
}

/* What the segment is to the gate; CLASS_NONE for what triggers nothing and is never held. */
HOT enum class classify(WITH_CORE struct flow *flow, const struct segment *segment, __u64 now, struct outgoing *out)
{
	__u32 flags = get32(&flow->flags), high, class;
	bool seen, repeated, same_window, was_zero;

	if (segment->flags & RST) {
		close_handshake(CORE flow);
		raise_flags(flow, FLOW_CLOSING | FLOW_PEER_DONE);
		void_debt(CORE flow);
		deactivate(CORE flow);
		return CLASS_NONE;
	}
	if (!(segment->flags & ACK))
		return CLASS_NONE;
	high = get32(&flow->ack_high);
	seen = flags & FLOW_ACKED;
	note_sent(CORE flow, segment, seen, now);
	repeated = seen && segment->ack == high && segment->payload == 0;
	same_window = get32(&flow->last_window) == segment->window;
	was_zero = flags & FLOW_ZERO_WINDOW;
	set32(&flow->last_window, segment->window);
	put_flags(flow, FLOW_ZERO_WINDOW, segment->window == 0);
	if (seen && seq_distance(segment->ack, high) < 0)
		return CLASS_NONE;
	set32(&flow->ack_high, segment->ack);
	if (!seen) {
		raise_flags(flow, FLOW_ACKED);
		set32(&flow->released_ack, segment->ack);
		set32(&flow->edge, segment->ack);
	}
	if (segment->flags & SYN) {
		if (answers_a_flood(CORE_ALONE)) {
			time_handshake(CORE flow, now);
			/* What its window allows, its sender may use. */
			advance(&flow->edge, segment->ack + segment->window);
			return CLASS_NONE;
		}
		class = CLASS_HANDSHAKE;
	} else if (flags & FLOW_HALF_OPEN) {
		close_handshake(CORE flow);
		class = is_short(segment) ? CLASS_HANDSHAKE : CLASS_DATA;
	} else if (segment->flags & FIN) {
		raise_flags(flow, FLOW_CLOSING);
		end_response(CORE flow);
		class = CLASS_DATA;
	} else if (segment->payload > 0) {
		class = data_class(CORE flow, segment, now);
	} else {
		bool recovered = !any_flag(flow, FLOW_RECOVERING);

		class = ack_class(CORE flow, segment, repeated, same_window, was_zero);
		if (recovered && any_flag(flow, FLOW_RECOVERING))
			set32(&flow->hole_since, (now & ~KEPT_WINDOWS) | (windows_were_kept(CORE_ALONE) ? KEPT_WINDOWS : 0));
		if (class == CLASS_URGENT && was_zero && governs(CORE flow) && !any_flag(flow, FLOW_RECOVERING))
			class = CLASS_ACK;
	}
	if (class == CLASS_HANDSHAKE || class == CLASS_REQUEST)
		activate(CORE flow);
	out->ack = segment->ack;
	out->ece = segment->flags & ECE && !(segment->flags & SYN) && !counts_marks(flow);
	out->dsack = segment->dsack || (flags & FLOW_ECHOES && !out->ece);
	put_flags(flow, FLOW_ECHOES, out->ece);
	out->data = segment->payload > 0;
	out->repeated = repeated;
	out->window = segment->window;
	out->shift = segment->flags & SYN ? 0 : get32(&flow->scale) & 15;
	return class;
}

/* Whether what is held does not wait for budget: the scheduler has been called and has not come yet, or it waits for the pace or for SYNs.
 * Wherever its next release has no room it leaves a wish for budget behind, and one that comes true is taken back. */
INLINE bool scheduler_is_called(CORE_ONLY)
{
	return get64(&GATE->wanted) == 0;
}

INLINE bool may_pass(WITH_CORE const struct flow *flow, const struct segment *segment, const struct outgoing *out,
		     const struct view *view, const struct trigger *trigger, __u64 now)
{
	bool order_kept = nothing_waits_but_a_copy(flow), first;
	__u64 held, wire = trigger->wire;
	__u32 class = out->class;

	if (SETTINGS->hold == HOLD_NOTHING || (SETTINGS->leave_data && segment->payload > 0))
		return true;
	/* PAC's estimates know one path, and each of them has other ACKs than they expect. */
	if (segment->multipath && !SETTINGS->credit)
		return true;
	if (trigger->calm)
		return order_kept;
	if (SETTINGS->hold == HOLD_REQUESTS && class == CLASS_ACK)
		return order_kept;
	if (class == CLASS_URGENT || class == CLASS_STALE)
		return order_kept;
	if (class == CLASS_DATA)
		return order_kept || !is_short(segment) || any_flag(flow, FLOW_REPEATS);
	if (class == CLASS_REQUEST && !SETTINGS->gate_requests)
		return order_kept;
	held = get64(&GATE->held);
	order_kept = order_kept && !(segment->flags & SYN && syns_are_arriving(CORE now));
	/* A short exchange on a new connection does not queue behind others: what a handshake invites may use an eighth more than the
	 * budget, which the buffer has. */
	if (order_kept && class == CLASS_HANDSHAKE && SETTINGS->credit && keeps_pace(CORE flow, out, trigger, view, now) &&
	    owed_up_to(CORE path_of(max_u64(view->booked, get64(&GATE->threshold)))) + wire <=
		    get64(&GATE->threshold) + max_u64(get64(&GATE->threshold) / 8, view->pipe))
		return true;
	if (held >= SETTINGS->max_held)
		return true;
	/* A request does not wait for the scheduler beside what does: its server is to think meanwhile. Requests that leave together once the
	 * scheduler has come are answered together, and leave the link idle until then.
	 * What waits for room on short paths does not stand before a long one, which has room of its own. Many take turns there, too. */
	first = held == 0 || (class == CLASS_REQUEST && governs(CORE flow) && scheduler_is_called(CORE_ALONE)) ||
		(governs(CORE flow) && view->pipe > 0 && !(get64(&GATE->far_waits) && may_burst(CORE flow)));
	return order_kept && (wire == 0 || (first && admits(CORE wire, view->booked, beside(CORE class, view)) &&
					    keeps_pace(CORE flow, out, trigger, view, now)));
}

/*
 * Whether the segment may leave while its grant waits: an ACK does, for its sender's timer runs. So do the last ACK of a handshake that
 * we have begun and the request behind it, as long as nothing was granted: what they set in motion is a bare ACK.
 */
INLINE bool leaves_without_grant(WITH_CORE const struct flow *flow, const struct segment *segment, const struct outgoing *out)
{
	bool opens = out->class == CLASS_HANDSHAKE && !(segment->flags & SYN);
	bool asks = out->class == CLASS_REQUEST && only_a_copy_waits(flow);

	return out->class == CLASS_ACK || ((opens || asks) && remaining(flow, out->ack) == 0);
}

/* Whether a response with an end in sight comes over a long path: its next ACK may be a round trip away, and the burst that a late grant
 * brings is none that a stream would go on with. */
INLINE bool ends_far_away(WITH_CORE const struct flow *flow, const struct view *view)
{
	return view->pipe > 0 && get64(&flow->size) < expected(CORE flow);
}

/* Whether a copy of what leaves can be held for what there is no room for. */
INLINE bool rest_can_wait(WITH_CORE const struct flow *flow, const struct outgoing *out)
{
	return out->class == CLASS_ACK && SETTINGS->hold == HOLD_ALL && get32(&flow->held) == 0 && get64(&GATE->held) < SETTINGS->max_held;
}

/* Nobody grants anything: every window is TCP's own again. */
INLINE void leave_to_tcp(WITH_CORE struct flow *flow, const struct outgoing *out)
{
	void_debt(CORE flow);
	deactivate(CORE flow);
	move_on(flow, out->ack, edge_at(out, 1u << 30));
}

/* What our TCP said last, as `out`; whether its peer was told less than that, or nothing yet. */
INLINE bool told_less(WITH_CORE const struct flow *flow, struct outgoing *out)
{
	__u32 flags = get32(&flow->flags), window;
	bool waits, lowered;

	if (!(flags & FLOW_KNOWN) || !(flags & FLOW_ACKED) || flags & FLOW_HALF_OPEN)
		return false;
	out->class = CLASS_ACK;
	out->shift = get32(&flow->scale) & 15;
	/* A packet on its way writes the window first, and then the number. */
	do {
		out->ack = get32(&flow->ack_high);
		window = get32(&flow->last_window);
	} while (out->ack != get32(&flow->ack_high));
	out->window = window;
	waits = get32(&flow->held) > 0 || seq_distance(out->ack, get32(&flow->released_ack)) > 0;
	lowered = !(flags & FLOW_PEER_DONE) && window_field(CORE flow, out) != out->window;
	return waits || lowered;
}

/* What leaves has been charged; `out` says what is held. */
SUBPROGRAM int account_egress(WITH_CORE struct flow *flow, const struct segment *segment, __u64 now, struct outgoing *out)
{
	struct trigger trigger = {};
	struct view view;
	bool pass, split;
	__u32 tsval;

	if (!flow || !segment || !out)
		return DECIDE_PASS;
	if (segment->flags & SYN) {
		if (!(segment->flags & ACK)) {
			open_flow(CORE flow, now);
			start_handshake(CORE flow);
			time_handshake(CORE flow, now);
			set64(&GATE->ahead, ahead_of_link(CORE now) + SYN_BYTES);
			set64(&GATE->ahead_since, now);
		} else if (!any_flag(flow, FLOW_KNOWN) || !any_flag(flow, FLOW_HALF_OPEN)) {
			/* Our TCP has accepted a connection whose SYN we did not take for one. */
			open_flow(CORE flow, now);
			start_handshake(CORE flow);
		}
		note_ecn(flow, segment);
		if (segment->mss > 0) {
			__u32 options = segment->timestamps ? 12 : 0;
			__u32 mss = segment->mss > options ? segment->mss - options : 1;

			set_frame(flow, mss, get32(&flow->header));
			limit_mss(flow, segment);
			set32(&flow->window, SETTINGS->initial_window * get32(&flow->mss));
		}
		set32(&flow->scale, segment->wscale == NO_WSCALE ? 0 : segment->wscale);
		raise_flags(flow, FLOW_SCALE_KNOWN);
	} else if (!any_flag(flow, FLOW_KNOWN)) {
		open_flow(CORE flow, now);
	} else if (!any_flag(flow, FLOW_SCALE_KNOWN)) {
		take_up_scale(flow);
	}
	note_seen(CORE flow, now);
	note_multipath(CORE flow, segment);
	out->class = classify(CORE flow, segment, now, out);
	/* A SYN's window is not scaled; the same window in the unit of those that follow. */
	if (segment->flags & SYN)
		set32(&flow->last_window, segment->window >> (get32(&flow->scale) & 15));
	tsval = get32(&flow->tsval);
	/* Of a connection that is older than the guard the first may have been used before. */
	out->stamped = segment->timestamps && tsval != segment->tsval && (tsval != 0 || segment->flags & SYN);
	if (segment->timestamps && tsval != segment->tsval)
		set32(&flow->tsval, segment->tsval);
	if (segment->timestamps && get32(&flow->tsecr) != segment->tsecr)
		set32(&flow->tsecr, segment->tsecr);
	if (!daemon_lives(CORE now) && out->class != CLASS_NONE) {
		leave_to_tcp(CORE flow, out);
		out->class = CLASS_NONE;
	}
	if (any_flag(flow, FLOW_ACTIVE))
		note_offer(CORE flow);
	if (out->class == CLASS_NONE) {
		add64(&GATE->passed, 1);
		return DECIDE_PASS;
	}
	look(CORE flow, &view);
	trigger_of(CORE flow, out, &view, &trigger);
	if (SETTINGS->thin_acks && !trigger.calm && governs(CORE flow) && may_thin(flow, out, &view)) {
		add64(&GATE->thinned, 1);
		return DECIDE_DISCARD;
	}
	pass = may_pass(CORE flow, segment, out, &view, &trigger, now);
	split = pass && trigger.partial && rest_can_wait(CORE flow, out);
	if (!pass && governs(CORE flow) && leaves_without_grant(CORE flow, segment, out)) {
		bool queued = get32(&flow->held) > 0;

		split = !queued && (!can_go_on(flow, out->ack) || ends_far_away(CORE flow, &view));
		pass = !queued || only_a_copy_waits(flow);
		if (pass)
			without_grant(CORE flow, out, &view, &trigger);
	}
	if (pass) {
		__u32 edge = get32(&flow->edge);

		charge(CORE flow, out, &trigger, &view, now);
		if (out->stamped && get64(&flow->ts_start) == 0) {
			set32(&flow->ts_edge, edge);
			set32(&flow->ts_value, segment->tsval);
			set32(&flow->ts_received, get32(&flow->received));
			set32(&flow->ts_bytes, get64(&GATE->bytes));
			set64(&flow->ts_start, now);
		}
		add64(&GATE->passed, 1);
		if (!split)
			return DECIDE_PASS;
		raise_flags(flow, FLOW_COPIED);
	}
	raise_flags(flow, FLOW_WAITED);
	if (get32(&flow->held) == 0)
		set32(&flow->held_since, now >> 10);
	add32(&flow->held, 1);
	out->first = __sync_fetch_and_add(&GATE->held, 1) == 0;
	out->copy = split;
	if (split) {
		out->class = CLASS_ACK;
		out->ece = out->dsack = false;
	}
	return split ? DECIDE_SPLIT : DECIDE_HOLD;
}

/* A segment that was to be held, or its copy, could not be: charged like any other release. */
SUBPROGRAM int pass_after_all(WITH_CORE struct flow *flow, struct outgoing *out, __u64 now)
{
	struct trigger trigger = {};
	struct view view;

	if (!flow || !out)
		return 0;
	lower_flags(flow, FLOW_COPIED);
	out->copy = false;
	look(CORE flow, &view);
	trigger_of(CORE flow, out, &view, &trigger);
	add32(&flow->held, -1);
	add64(&GATE->held, -1);
	charge(CORE flow, out, &trigger, &view, now);
	add64(&GATE->passed, 1);
	return 0;
}

#endif
