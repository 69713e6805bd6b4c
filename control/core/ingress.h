/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What arrives pays what is owed (Eq. 5) and tells about its sender (Algorithm 1, lines 5-7).
 */
#ifndef ACKGATE_CORE_INGRESS_H
#define ACKGATE_CORE_INGRESS_H

#include "round_trip.h"

INLINE void close_handshake(WITH_CORE struct flow *flow)
{
	if (withdraw(flow, FLOW_HALF_OPEN))
		add64(&GATE->half_open, -1);
}

/* Ends a connection's claims: called before the entry is given to another. */
INLINE void close_flow(WITH_CORE struct flow *flow)
{
	void_debt(CORE flow);
	deactivate(CORE flow);
	close_handshake(CORE flow);
	/* What is counted stays: another packet may have raised it just now. */
	lower_flags(flow, ~(FLOW_ACTIVE | FLOW_HALF_OPEN | (SETTINGS->credit ? FLOW_AWAITED : 0)));
}

SUBPROGRAM int open_flow(WITH_CORE struct flow *flow, __u64 now)
{
	if (!flow)
		return 0;
	close_flow(CORE flow);
	raise_flags(flow, FLOW_KNOWN);
	set64(&flow->last_seen, now);
	set64(&flow->last_active, now);
	set64(&flow->handshake_start, 0);
	set64(&flow->ts_start, 0);
	set64(&flow->interval_start, 0);
	set64(&flow->size, 0);
	set_frame(flow, USUAL_MSS, USUAL_HEADER);
	set32(&flow->window, SETTINGS->initial_window * USUAL_MSS);
	set32(&flow->last_response, 0);
	set32(&flow->own[0], 0);
	set32(&flow->own[1], 0);
	set32(&flow->own[2], 0);
	set32(&flow->rtt, 0);
	set32(&flow->least_rtt, 0);
	set32(&flow->next_rtt, 0);
	set32(&flow->samples, 0);
	set32(&flow->let_go, 0);
	set32(&flow->handshake_rtt, 0);
	set32(&flow->peer_mss, 0);
	set32(&flow->lesser, 0);
	set32(&flow->added_delay, 0);
	set32(&flow->scale, 0);
	set32(&flow->tsval, 0);
	set32(&flow->tsecr, 0);
	set32(&flow->peer_tsval, 0);
	set32(&flow->run, 0);
	set32(&flow->streamed, 0);
	set32(&flow->others, 0);
	add32(&flow->generation, 1);
	return 0;
}

/* Segments are no larger than either end announces: a host with jumbo frames hears mostly from others without. */
INLINE void limit_mss(struct flow *flow, const struct segment *segment)
{
	__u32 options = segment->timestamps ? 12 : 0, announced = get32(&flow->peer_mss);

	if (announced > options && announced - options < get32(&flow->mss))
		set_frame(flow, announced - options, get32(&flow->header));
}

INLINE void start_handshake(WITH_CORE struct flow *flow)
{
	enlist(flow, FLOW_HALF_OPEN, &GATE->half_open);
}

/*
 * Segments follow what arrives: larger ones show at once that they may be. Smaller ones do when two of a size come that nothing else
 * ended, neither a PSH nor the edge of the window: the path has become narrower, or has been since the SYNs. What repairs a loss is cut as
 * the hole is, and says nothing.
 */
INLINE void follow_mss(struct flow *flow, const struct segment *segment, __u32 end)
{
	__u32 frames = segment->frames, mss = get32(&flow->mss);
	/* Most segments are one frame, and a division takes longer than all that follows. */
	__u32 frame = frames > 1 ? segment->payload / frames : segment->payload;

	if (frame > mss) {
		set_frame(flow, frame, segment->header);
	} else if (frame == mss) {
		if (get32(&flow->lesser) > 0)
			set32(&flow->lesser, 0);
	} else if (segment->flags & (PSH | FIN) || segment->payload != frame * max_u32(frames, 1) || remaining(flow, end) < mss ||
		   (any_flag(flow, FLOW_RECEIVED) && seq_distance(segment->seq, get32(&flow->received)) < 0)) {
		return;
	} else if (get32(&flow->lesser) == frame && frame > 0) {
		set_frame(flow, frame, segment->header);
		set32(&flow->lesser, 0);
	} else {
		set32(&flow->lesser, frame);
	}
}

/* What costs a timeout weighs as much as so many holes: nothing looks like it by chance. */
#define TIMEOUT 4

INLINE void count_loss(WITH_CORE const struct flow *flow, bool timeout, __u64 now)
{
	__u64 cut_at = get64(&GATE->cut_at);
	bool since_cut = since(now, cut_at) >> 31 > 0 || seq_distance(get32(&flow->hole_since), (__u32)cut_at) > 0;

	add64(&GATE->lost, 1);
	if (SETTINGS->credit)
		forget_idle(CORE now);
	add64(&GATE->belied, 1);
	if (!since_cut || get32(&flow->hole_since) & KEPT_WINDOWS)
		return;
	/* What comes unasked goes by what its sender's window had been: that says nothing about a given buffer. */
	if (port_is_known(CORE_ALONE) && !any_flag(flow, FLOW_ASKS))
		return;
	add64(&GATE->overflow, timeout ? TIMEOUT : 1);
	if (timeout)
		add64(&GATE->unheard, 1);
}

/* Whether senders nearby may send much more than the budget: they have kept windows of before the guard came, or that they had when it was
 * larger. What overflows then says nothing about the budget. */
INLINE bool windows_were_kept(CORE_ONLY)
{
	__u64 threshold = get64(&GATE->threshold);

	return SETTINGS->credit && owed_up_to(CORE path_of(threshold)) > 2 * threshold;
}

/*
 * Whether what arrives `pause` after the last follows a tail that was lost: that leaves no hole, and the sender's timer fires. It had not said
 * that it has no more (PSH), could have sent a whole segment, and waited for longer than an ACK of ours may be delayed (A_TIMEOUT), and a round
 * trip: in slow start over a long path each flight waits for that.
 */
INLINE bool tail_was_lost(const struct flow *flow, __u64 pause)
{
	return pause <= LONGEST_RTT && pause > A_TIMEOUT + least_round_trip(flow) && get64(&flow->size) > 0 && get32(&flow->held) == 0 &&
	       !any_flag(flow, FLOW_PUSHED | FLOW_RECOVERING) && remaining(flow, get32(&flow->received)) >= get32(&flow->mss);
}

SUBPROGRAM int note_tail(WITH_CORE struct flow *flow, __u64 pause, __u64 now)
{
	if (!flow || !tail_was_lost(flow, pause))
		return 0;
	set32(&flow->hole_since, ((now - pause) & ~KEPT_WINDOWS) | (windows_were_kept(CORE_ALONE) ? KEPT_WINDOWS : 0));
	count_loss(CORE flow, true, now);
	return 0;
}

/* The newest TSval of the flow's data is noted. */
INLINE void note_tsval(struct flow *flow, const struct segment *segment)
{
	__u32 newest = get32(&flow->peer_tsval);

	if (segment->timestamps && (newest == 0 || seq_distance(segment->tsval, newest) > 0))
		set32(&flow->peer_tsval, segment->tsval);
}

/*
 * Whether what fills a hole was lost and is sent again: else other segments have overtaken it on the way, as on hosts that take in
 * one connection on several processors. What is sent again has a newer TSval than what came before it, what was overtaken an older
 * one (RFC 3522 has the same test for a sender). Where they are the same, or there are none, time must tell.
 */
INLINE bool was_lost(WITH_CORE const struct flow *flow, const struct segment *segment, __u64 now)
{
	__u32 newest = get32(&flow->peer_tsval);

	if (segment->timestamps && segment->tsval != newest)
		return seq_distance(segment->tsval, newest) > 0;
	return (__u32)((__u32)now - get32(&flow->hole_since)) >= SETTINGS->min_interval;
}

/* By how much what arrives takes the response further. The first segment that arrives need not be the first that was sent. A FIN is no byte
 * of a response. */
INLINE __u32 adds_to_response(const struct flow *flow, const struct segment *segment)
{
	__u32 end = segment->seq + segment->payload, flags = get32(&flow->flags);

	if (!(flags & (FLOW_RECEIVED | FLOW_ACKED)))
		return segment->payload;
	return ahead_of(end, flags & FLOW_RECEIVED ? get32(&flow->received) : get32(&flow->ack_high));
}

/* Whether all that has been received ends with a PSH, and how. */
/* Whether the sender had used up the window that it knew when it sent the segment: what our awaited TSval brought was still on its way. */
INLINE bool used_up(const struct flow *flow, const struct segment *segment)
{
	return any_flag(flow, FLOW_ASKS) && segment->timestamps && get64(&flow->ts_start) != 0 && seq_distance(segment->tsecr, get32(&flow->ts_value)) < 0 &&
	       seq_distance(get32(&flow->ts_edge), segment_end(segment)) < (__s32)get32(&flow->mss);
}

INLINE void note_used_up(struct flow *flow, bool it_is)
{
	__u32 before = get32(&flow->samples), after = it_is ? before | USED_UP : before & ~USED_UP;

	if (after != before)
		set32(&flow->samples, after);
}

INLINE void note_end(struct flow *flow, const struct segment *segment)
{
	__u32 up = 0;

	if (segment->flags & PSH) {
		up = FLOW_PUSHED | (stopped_short(flow, segment->payload) ? FLOW_STOPPED : 0);
		up |= is_cut(flow, segment->payload) ? FLOW_CUT : 0;
		note_used_up(flow, used_up(flow, segment));
	}
	set_flags(flow, FLOW_PUSHED | FLOW_STOPPED | FLOW_CUT | FLOW_DRY | FLOW_ONE_WAY, up);
}

HOT void receive(WITH_CORE struct flow *flow, const struct segment *segment, __u64 now)
{
	__u32 wire = wire_bytes(segment), end;
	bool midway = get64(&flow->size) > 0;
	__u64 pause;

	pay(CORE flow, segment);
	note_pause(CORE wire, now);
	set64(&GATE->last_data, now);
	add64(&GATE->bytes, wire);
	/* Eq. 2 goes by the part of frames that are marked, of those that can be. */
	if (any_flag(flow, FLOW_ECN))
		add64(&GATE->interval_frames, segment->frames);
	await_no_more(CORE flow);
	pause = since(now, get64(&flow->last_active));
	set64(&flow->last_active, now);
	look_through(CORE flow, pause, now);
	if (pause > max_u64(SETTINGS->silence, 2 * get64(&GATE->interval)))
		set32(&flow->run, 0);
	set32(&flow->run, get32(&flow->run) + segment->payload);
	if (any_flag(flow, FLOW_ASKED)) {
		lower_flags(flow, FLOW_ASKED);
		note_delay(CORE min_u64(pause, LONGEST_RTT));
		if (SETTINGS->credit)
			note_idle(CORE flow, min_u64(pause, LONGEST_RTT), now);
		else
			pac_note_answer(CORE flow, wire, min_u64(pause, LONGEST_RTT));
	}
	set_frame(flow, get32(&flow->mss), segment->header);
	end = segment_end(segment);
	follow_mss(flow, segment, end);
	if (segment->ce && any_flag(flow, FLOW_ECN))
		add64(&GATE->interval_marked, segment->frames);
	roll_flow(CORE flow, now);
	if (!SETTINGS->credit)
		add32(&flow->own[INTERVAL_BYTES], segment->payload);

	if (!any_flag(flow, FLOW_RECEIVED) || seq_distance(end, get32(&flow->received)) > 0) {
		if (any_flag(flow, FLOW_PUSHED)) {
			bool stopped = governs(CORE flow) ? !any_flag(flow, FLOW_STOPPED) :
							    any_flag(flow, FLOW_ASKS) || !any_flag(flow, FLOW_CUT);

			if (next_message(CORE flow, pause) || (!stopped && pause > longest_pause(CORE flow)))
				end_response(CORE flow);
			else
				raise_flags(flow, FLOW_PUSHES_MIDWAY | (any_flag(flow, FLOW_CUT) ? FLOW_CUTS_MIDWAY : 0));
		}
		if (pause > A_TIMEOUT)
			note_tail(CORE flow, pause, now);
		note_message(CORE flow, segment, pause);
		if (withdraw(flow, FLOW_FORGIVEN))
			add64(&GATE->belied, 1);
		add64(&flow->size, adds_to_response(flow, segment));
		set32(&flow->received, end);
		raise_flags(flow, FLOW_RECEIVED);
		note_flight(flow, end);
		sample_answer(CORE flow, segment->payload, midway && !may_push(CORE flow), now);
		note_end(flow, segment);
		if (!SETTINGS->credit)
			lower_flags(flow, FLOW_AWAITED);
		if (segment->flags & FIN) {
			raise_flags(flow, FLOW_PEER_DONE);
			end_response(CORE flow);
		}
		if (has_no_more(CORE flow)) {
			void_debt(CORE flow);
			deactivate(CORE flow);
		} else if (activate(CORE flow) && governs(CORE flow)) {
			struct view view = {};

			look(CORE flow, &view);
			set32(&flow->run, segment->payload);
			owe(CORE flow, flow_wire(flow, remaining(flow, end)), view.booked);
		}
		/* What is left of its window waits with the flow for its next grant. */
		if (governs(CORE flow) && has_no_room(CORE flow, remaining(flow, end)) && !any_flag(flow, FLOW_RECOVERING))
			void_debt(CORE flow);
	} else {
		if (any_flag(flow, FLOW_RECOVERING) && was_lost(CORE flow, segment, now))
			count_loss(CORE flow, false, now);
		if (get32(&flow->held) > 0 && seq_distance(end, get32(&flow->ack_high)) <= 0 &&
		    seq_distance(end, get32(&flow->released_ack)) > 0) {
			/* A tail loss probe repeats the last segment (RFC 8985), a timeout the first. */
			bool first = seq_distance(segment->seq, get32(&flow->released_ack)) <= 0;

			if (first && end != get32(&flow->received) && !any_flag(flow, FLOW_OVERTAKEN))
				note_peer_timer(CORE pause);
			raise_flags(flow, FLOW_OVERTAKEN);
		}
	}
	note_tsval(flow, segment);
}

/* A sender may be this far behind the window with a retransmission that counts, bytes at least. */
#define LEAST_WINDOW (1u << 16)
/* No window is larger (RFC 7323 section 2.3). */
#define LARGEST_WINDOW (1u << 30)

/*
 * Whether our TCP would look at the segment (RFC 9293 section 3.10.7.4). What lies outside the window that it has offered is
 * nobody's evidence: one forged segment would else hang a connection. A retransmission of what lies right before it counts, for
 * it tells about the sender's timer. Nor is what acknowledges bytes that we have not sent, or that are older than any window
 * (RFC 5961 section 5). A reset must be the very next byte (section 3.2; after the peer's FIN, also the one before). A SYN never
 * ends a connection whose peer has not closed it: our TCP answers it with a challenge (section 4.2), and if it does accept a new
 * connection, its own SYN-ACK says so.
 */
INLINE bool acceptable(const struct flow *flow, const struct segment *segment)
{
	__u32 flags = get32(&flow->flags), window, offset;

	if (!(flags & FLOW_KNOWN))
		return true;
	if (!(flags & FLOW_ACKED) || flags & FLOW_HALF_OPEN) {
		if (segment->flags & (SYN | RST))
			return true;
		/* Without a SYN it is what comes late of a connection before. */
		if (!(flags & FLOW_MET))
			return !(flags & FLOW_HALF_OPEN);
	} else if (segment->flags & SYN) {
		return flags & FLOW_PEER_DONE;
	} else if (segment->flags & RST) {
		__u32 last = flags & FLOW_RECEIVED ? later(get32(&flow->received), get32(&flow->ack_high)) : get32(&flow->ack_high);

		return seq_distance(segment->seq, get32(&flow->ack_high) - 1) >= 0 && seq_distance(segment->seq, last) <= 0;
	} else if (flags & FLOW_SCALE_KNOWN && segment->flags & ACK && get32(&flow->sent) - segment->ack > LARGEST_WINDOW) {
		return false;
	}
	window = max_u32(max_u32(offer_of(flow), ahead_of(get32(&flow->edge), get32(&flow->ack_high))), LEAST_WINDOW);
	offset = segment->seq - get32(&flow->ack_high) + window;
	return offset <= 2 * window;
}

/* Whether both ends agree on ECN shows in their SYNs (RFC 3168 section 6.1.1; RFC 9768 table 2 where it is accurate: see types.h). */
INLINE void note_ecn(struct flow *flow, const struct segment *segment)
{
	__u32 bits = segment->flags & (ECE | CWR);

	if (!(segment->flags & ACK))
		put_flags(flow, FLOW_ECN_OFFERED, bits == (ECE | CWR));
	else if (bits && any_flag(flow, FLOW_ECN_OFFERED)) {
		raise_flags(flow, FLOW_ECN);
		if (bits & CWR)
			lower_flags(flow, FLOW_ECN_OFFERED);
	}
}

/* Whether the peer had what our timer has repeated, and is heard of it for the first time: what it answered was lost. An answer of one segment
 * leaves no hole, and no other trace. It says so itself (RFC 2883), or what comes echoes an older timestamp than that of the repeat. */
INLINE bool was_unheard(const struct flow *flow, const struct segment *segment)
{
	if (get32(&flow->timed) == segment->ack || get32(&flow->sent) != segment->ack)
		return false;
	return (segment->dsack || (segment->timestamps && seq_distance(segment->tsecr, get32(&flow->tsval)) < 0)) &&
	       !any_flag(flow, FLOW_RECOVERING) && !(get32(&flow->hole_since) & KEPT_WINDOWS);
}

/* Something arrives after our TCP has last repeated something. */
SUBPROGRAM int note_heard(WITH_CORE const struct flow *flow, const struct segment *segment, __u64 now)
{
	if (flow && segment && was_unheard(flow, segment))
		count_loss(CORE flow, true, now);
	return 0;
}

/* So many segments keep a sender going over a long path on which others are, too: what one of a few has at least for its part. */
#define FULL_PART (4 * QUANTUM)

/* Whether flows may have so much more than one answer outstanding each: they send side by side, or all of it fits path and port. Else they take
 * turns, and what one has for its next answers the others lack: many that begin together then overflowed the port. */
INLINE bool may_pipeline(WITH_CORE const struct flow *flow, __u64 more)
{
	__u64 flows = get64(&GATE->peak_active), threshold = get64(&GATE->threshold), all = threshold + pipe_of(CORE flow);

	return flows * QUANTUM <= threshold || flows * FULL_PART <= all || flows * flow_wire(flow, get32(&flow->last_response) + more) <= all;
}

/* What has arrived between a request and the first that the peer sent when it knew of it is of earlier answers. */
SUBPROGRAM int note_pipelined(WITH_CORE struct flow *flow)
{
	__u32 came, known, most;

	if (!flow)
		return 0;
	set32(&flow->own[ASKED_TO], 0);
	came = any_flag(flow, FLOW_RECEIVED) ? ahead_of(get32(&flow->received), get32(&flow->own[ASKED_AT])) : 0;
	known = get32(&flow->own[PIPELINED]);
	most = max_u32(came, known - div_ceil(known, 4));
	set32(&flow->own[PIPELINED], most > 0 && may_pipeline(CORE flow, most) ? most : 0);
	return 0;
}

/* Whether the peer knows of the request that is waited for. */
INLINE bool was_asked(WITH_CORE const struct flow *flow, const struct segment *segment)
{
	__u32 asked_to = SETTINGS->credit ? get32(&flow->own[ASKED_TO]) : 0;

	return asked_to != 0 && segment->flags & ACK && seq_distance(segment->ack, asked_to) >= 0;
}

/* Which segment of ours a timer would repeat. */
INLINE void note_timed(struct flow *flow, const struct segment *segment)
{
	__u32 timed = segment->ack - segment->sack;

	if (segment->flags & ACK && get32(&flow->timed) != timed)
		set32(&flow->timed, timed);
}

/* Whether the sender of what echoes our awaited TSval was only waiting to be let go on: in the middle of a response, with its window used up, as far as it
 * knew when that left. Under PAC, which bounds few windows, also if it had not pushed: a push may be the end of all that there
 * is. Where it is known that it was let go, the same round trip is timed already (sample_answer). */
INLINE bool was_blocked(WITH_CORE const struct flow *flow, const struct segment *segment)
{
	bool full;

	if (get64(&flow->ts_start) == 0 || !segment->timestamps || segment->tsecr != get32(&flow->ts_value))
		return false;
	full = seq_distance(get32(&flow->ts_edge), get32(&flow->received)) < (__s32)get32(&flow->mss);
	return get64(&flow->size) > 0 && get32(&flow->let_go) == 0 && !may_push(CORE flow) && (full || (!SETTINGS->credit && !any_flag(flow, FLOW_PUSHED)));
}

/* Says whether the scheduler is to be woken: there is room now for what it waits to release. */
HOT bool account_ingress(WITH_CORE struct flow *flow, const struct segment *segment, __u64 now)
{
	__u64 wanted;
	bool blocked;

	roll(CORE now);
	add64(&GATE->arrivals, 1);
	if (!acceptable(flow, segment)) {
		add64(&GATE->unacceptable, 1);
		return false;
	}
	if (segment->flags & SYN) {
		if (!(segment->flags & ACK)) {
			open_flow(CORE flow, now);
			start_handshake(CORE flow);
			note_syn(CORE now);
		} else if (segment->wscale == NO_WSCALE) {
			set32(&flow->scale, 0);
		}
		set32(&flow->ack_high, segment->seq + 1);
		raise_flags(flow, FLOW_MET);
		set32(&flow->peer_mss, segment->mss);
		note_ecn(flow, segment);
		limit_mss(flow, segment);
		sample_handshake(CORE flow, segment, now);
	} else if (!any_flag(flow, FLOW_KNOWN)) {
		open_flow(CORE flow, now);
	}
	note_seen(CORE flow, now);
	blocked = was_blocked(CORE flow, segment);
	note_multipath(CORE flow, segment);
	if (any_flag(flow, FLOW_REPEATS))
		note_heard(CORE flow, segment, now);
	note_timed(flow, segment);
	if (was_asked(CORE flow, segment))
		note_pipelined(CORE flow);
	if (segment->flags & RST) {
		close_handshake(CORE flow);
		raise_flags(flow, FLOW_CLOSING | FLOW_PEER_DONE);
		void_debt(CORE flow);
		deactivate(CORE flow);
	} else if (!(segment->flags & SYN)) {
		if (any_flag(flow, FLOW_HALF_OPEN)) {
			sample_handshake(CORE flow, segment, now);
			note_answered(CORE_ALONE);
			close_handshake(CORE flow);
		}
		if (segment->payload > 0 || segment->flags & FIN)
			receive(CORE flow, segment, now);
		else if (governs(CORE flow))
			pay(CORE flow, segment);
	}
	sample_timestamp(CORE flow, segment, blocked, now);
	wanted = get64(&GATE->wanted);
	return wanted > 0 && admits(CORE wanted, get64(&GATE->wanted_path), get64(&GATE->wanted_beside)) && replace64(&GATE->wanted, wanted, 0);
}

#endif
