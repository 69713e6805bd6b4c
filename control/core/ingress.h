/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What arrives pays what is owed (Eq. 5) and tells about its sender (Algorithm 1, lines 5-7).
 */
#ifndef ACKGATE_CORE_INGRESS_H
#define ACKGATE_CORE_INGRESS_H

#include "price.h"

/* Longest RTT that is believed, ns: above, the sample was a pause of the application. */
#define LONGEST_RTT 1000000000ull

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

/* How long a least handshake is believed, in units of 1024 ns. */
#define HANDSHAKE_MEMORY (10u * 1000000000u / 1024u)

/* The least sample of this and the last ten seconds; `next` is that of these alone, which began at `since`. */
INLINE void note_least(__u32 *least, __u32 *next, __u32 *since, __u32 sample, __u64 now)
{
	__u32 before = get32(least), present = get32(next), clock = now >> 10;

	if (present == 0 || sample < present)
		set32(next, present = sample);
	if (before == 0 || sample < before) {
		set32(least, sample);
	} else if (clock - get32(since) > HANDSHAKE_MEMORY) {
		set32(least, present);
		set32(next, sample);
		set32(since, clock);
	}
}

INLINE void note_least_rtt(struct flow *flow, __u32 sample)
{
	__u32 least = get32(&flow->least_rtt), next = get32(&flow->next_rtt);

	if (!is_timed(flow))
		set32(&flow->samples, get32(&flow->samples) + 1);
	if (least == 0 || sample < least)
		set32(&flow->least_rtt, sample);
	if (next == 0 || sample < next)
		set32(&flow->next_rtt, sample);
}

/* A handshake's round trip less what may have stood before it in the queue: what came meanwhile, and other connections' SYNs, too. */
INLINE __u64 without_burst(WITH_CORE const struct flow *flow, __u64 sample)
{
	__u64 came = (__u32)((__u32)arrived(CORE_ALONE) - get32(&flow->arrived_before)), rate = path_rate(CORE_ALONE);

	return rate == 0 ? sample : saturating_sub(sample, (came << 20) / rate);
}

INLINE void sample_handshake(WITH_CORE struct flow *flow, const struct segment *segment,
					     __u64 now)
{
	__u64 start = take64(&flow->handshake_start);

	if (start != 0 && segment->flags & ACK) {
		__u64 rtt = min_u64(since(now, start), LONGEST_RTT), known = get32(&GATE->least_handshake);
		__u64 alone = max_u64(without_burst(CORE flow, rtt), 1);

		/* What came may have been on its way instead: no path is taken for shorter than all others if it need not be. */
		if (known > alone && known <= rtt)
			alone = known;
		set32(&flow->rtt, rtt);
		set32(&flow->handshake_rtt, alone);
		note_rtt(CORE rtt);
		note_least(&GATE->least_handshake, &GATE->next_handshake, &GATE->handshakes_since, alone, now);
	}
}

/* Of a handshake that met an idle link, what came meanwhile is no more than this part, or than hosts may be late. */
#define IDLE_HANDSHAKE 8
/* Binary logarithm of how long is believed, ns, at least, and at most twice as long, what a round trip has told about the queue. */
#define QUEUE_MEMORY 26

/* How long the flow's path is, ns, if its handshake met an idle link, and it has not become longer since; else 0. */
INLINE __u64 length_seen(WITH_CORE const struct flow *flow)
{
	__u32 rtt = get32(&flow->rtt), alone = get32(&flow->handshake_rtt);
	bool idle = alone > 0 && rtt <= alone + max_u64(rtt / IDLE_HANDSHAKE, HOST_DELAY);

	return idle && !SETTINGS->timestamps && !(get32(&flow->samples) & LONGER) ? rtt : 0;
}

/* Which period this is: nothing is known of the first two. */
INLINE __u32 queue_period(__u64 now)
{
	return (now >> QUEUE_MEMORY) + 2;
}

/* What one waits in the queue at least of late, ns; 0 where nobody knows. */
INLINE __u32 standing_queue(WITH_CORE __u64 now)
{
	return queue_period(now) - get32(&GATE->queue_period) <= 1 ? get32(&GATE->queue_least) : 0;
}

INLINE void note_queue(WITH_CORE __u32 delay, __u64 now)
{
	__u32 period = queue_period(now), passed = period - get32(&GATE->queue_period), least = delay, next = delay;

	if (passed == 0)
		next = min_u64(next, get32(&GATE->queue_next));
	if (passed <= 1)
		least = min_u64(least, passed == 0 ? get32(&GATE->queue_least) : get32(&GATE->queue_next));
	set32(&GATE->queue_least, least);
	set32(&GATE->queue_next, next);
	set32(&GATE->queue_period, period);
}

/* Side by side the queue does not drain. Whose path's length is known shows in the middle of a response what one waits there, unless that is more
 * than what is in flight explains; the least of it is taken from all round trips. */
INLINE __u64 without_standing_queue(WITH_CORE const struct flow *flow, __u64 sample, __u64 rate, bool midway, __u64 now)
{
	__u64 length = length_seen(CORE flow), delay = saturating_sub(sample, length);

	if (midway && length > 0 && delay <= (get64(&GATE->owed) << 20) / rate + HOST_DELAY)
		note_queue(CORE delay, now);
	return saturating_sub(sample, standing_queue(CORE now));
}

/* A round trip less what stood in the queue, or least round trips would make short paths look long: while flows take turns, the time that what is in
 * flight over short paths takes on the link. Some of it is on its way instead, or its sender has less to send than it may: no less is left than the
 * flow's own handshake took, or the least of any of late. */
INLINE __u64 without_queue(WITH_CORE const struct flow *flow, __u64 sample, bool midway, __u64 now)
{
	__u64 handshake = max_u64(get32(&flow->handshake_rtt), least_length(CORE flow));
	__u64 rate = path_rate(CORE_ALONE), least = max_u64(min_u64(handshake, sample), 1);
	__u32 threshold = path_of(get64(&GATE->threshold));

	if (rate == 0 || threshold == 0)
		return sample;
	sample = concurrent(CORE_ALONE) ? without_standing_queue(CORE flow, sample, rate, midway, now) :
					  saturating_sub(sample, (owed_up_to(CORE threshold - 1) << 20) / rate);
	return max_u64(sample, least);
}

/* A round trip of a response that is longer than usual, and than the budget, is over. */
INLINE void note_stream(WITH_CORE struct flow *flow)
{
	__u32 came = ahead_of(get32(&flow->received), get32(&flow->ts_received));
	__u32 all = (__u32)get64(&GATE->bytes) - get32(&flow->ts_bytes);

	set32(&flow->others, saturating_sub(all, flow_wire(flow, came)));
	if (any_flag(flow, FLOW_RECOVERING) || is_reducing(flow))
		return;
	if (get64(&flow->size) > max_u64(expected(CORE flow), get64(&GATE->threshold)) && came > get32(&flow->streamed))
		set32(&flow->streamed, came);
}

/* A round trip that is much shorter than the handshake belies it: that had lost a segment and waited for a timer, or the path has become
 * shorter since. From then on it is the least that counts. So is what has become longer belied. */
INLINE void note_shorter_path(WITH_CORE struct flow *flow, __u64 sample)
{
	__u32 samples = get32(&flow->samples), handshake = get32(&flow->handshake_rtt);
	__u64 least = samples & SHORTER ? handshake : handshake / 4;

	if (samples & LONGER && sample < get32(&flow->rtt) / 2)
		forget_longer_path(CORE flow);
	if (sample >= least)
		return;
	set32(&flow->handshake_rtt, max_u64(sample, 1));
	if (!SETTINGS->timestamps && sample < get32(&flow->rtt))
		set32(&flow->rtt, max_u64(sample, 1));
	set32(&flow->samples, get32(&flow->samples) | SHORTER);
}

/* No peer delays an ACK for longer, ns: Linux when it expects to answer. */
#define DELAYED_ACK 40000000ull
/* A pause that no delayed ACK explains, ns. */
#define A_TIMEOUT (DELAYED_ACK / 4 * 5)

/* Whether the flow may be one of those that send messages unasked, which pause between them. */
INLINE bool may_push(WITH_CORE const struct flow *flow)
{
	return !any_flag(flow, FLOW_ASKS) && get64(&GATE->largest_message) > 0;
}

/* Hosts may answer so much later than they are asked, ns, and all of a few times, at most. */
#define LATE_HOSTS 2000000ull

/* What explains that something arrives later than its path is long, ns: the queue, in which stands no more of ours than has come since the link was
 * last idle, for what a full port takes nobody knows once the link has become slower; hosts, which are late by no more than half of what it takes;
 * and a full port where other traffic comes, too: twice what it is taken to hold where nobody knows. */
INLINE __u64 longest_delay(WITH_CORE __u64 now)
{
	__u64 rate = min_u64(path_rate(CORE_ALONE), get64(&GATE->peak)), busy = since(now, get64(&GATE->busy_since));
	__u64 full = rate == 0 ? 2 * LATE_HOSTS : (max_u64(port_holds(CORE_ALONE), shallow_port(CORE_ALONE)) << 20) / rate;
	__u64 others = get32(&GATE->other_seen) < FEW_OTHERS ? 0 : port_is_known(CORE_ALONE) ? full : 2 * full;

	return busy + others + min_u64(full / 2, LATE_HOSTS);
}

/* Whether a round trip was not that of a sender that waited for its timer, because something was lost: nothing was of late, or no timer is as
 * short. Where nobody knows the port's buffer, what overflows it is longer than what it was taken to hold. */
INLINE bool is_no_timeout(WITH_CORE __u64 sample)
{
	return nothing_lost_of_late(CORE_ALONE) || (port_is_known(CORE_ALONE) && !timer_is_short(CORE_ALONE) && sample < A_TIMEOUT);
}

/* So many round trips in a row, of whatever flows, say that all paths have become longer: then one is enough for each. */
#define ALL_LONGER (2 * SAMPLES)

/* It is taken to be so long from now on, ns. */
INLINE void lengthen_path(struct flow *flow, __u32 rtt)
{
	set32(&flow->rtt, rtt);
	set32(&flow->least_rtt, rtt);
	set32(&flow->next_rtt, rtt);
	set32(&flow->samples, (get32(&flow->samples) & PATH_FLAGS) | LONGER | SAMPLES);
}

/*
 * A path may become longer, too: another route, a guest that moves. It has if a sender that only waited to be let go on (`blocked`) took longer than
 * the path and the queue explain, as many times in a row as a least round trip needs.
 */
SUBPROGRAM int note_longer_path(WITH_CORE struct flow *flow, __u64 sample, bool blocked, __u64 now)
{
	__u32 samples, flags, rtt;
	bool all;

	if (!flow)
		return 0;
	samples = get32(&flow->samples);
	flags = samples & PATH_FLAGS;
	rtt = get32(&flow->rtt);
	all = !(flags & LONGER) && get32(&GATE->longer_run) >= ALL_LONGER;
	samples -= flags;
	if (SETTINGS->timestamps || rtt == 0 || samples < SAMPLES || !(all || (blocked && is_no_timeout(CORE sample))))
		return 0;
	/* Among many, what waits for ACKs that PAC holds is in the round trips. */
	if (!SETTINGS->credit && !are_few_now(CORE_ALONE))
		return 0;
	if (sample <= rtt + longest_delay(CORE now)) {
		if (samples > SAMPLES)
			set32(&flow->samples, flags | SAMPLES);
		if (!(flags & LONGER))
			set32(&GATE->longer_run, 0);
		return 0;
	}
	if (all) {
		lengthen_path(flow, min_u64(sample, get32(&GATE->longer) * (blocked ? 2ull : 1)));
		return 0;
	}
	if (get32(&GATE->longer_run) == 0 || sample < get32(&GATE->longer))
		set32(&GATE->longer, sample);
	set32(&GATE->longer_run, get32(&GATE->longer_run) + 1);
	if (samples == SAMPLES || sample < get32(&flow->longer))
		set32(&flow->longer, sample);
	if (samples + 1 == 2 * SAMPLES)
		lengthen_path(flow, get32(&flow->longer));
	else
		set32(&flow->samples, flags | (samples + 1));
	return 0;
}

/* PAC section IV-A, method 1: the echo of a TSval that was new when it left. */
INLINE void sample_timestamp(WITH_CORE struct flow *flow, const struct segment *segment, bool blocked, __u64 now)
{
	__u64 start = get64(&flow->ts_start), sample;

	if (!segment->timestamps || start == 0 || seq_distance(segment->tsecr, get32(&flow->ts_value)) < 0)
		return;
	set64(&flow->ts_start, 0);
	sample = min_u64(since(now, start), LONGEST_RTT);
	if (SETTINGS->timestamps)
		set32(&flow->rtt, smooth(get32(&flow->rtt), sample));
	note_shorter_path(CORE flow, sample);
	if (segment->payload > 0 && segment->tsecr == get32(&flow->ts_value)) {
		note_longer_path(CORE flow, sample, blocked, now);
		note_least_rtt(flow, without_queue(CORE flow, sample, get64(&flow->size) > segment->payload, now));
		if (SETTINGS->credit)
			note_stream(CORE flow);
	}
}

/* A sender that had used up its window answers what let it go on: with a whole segment, for which there was no room before. What is
 * smaller, such as the end of a response, may have been on its way already. */
INLINE void sample_answer(WITH_CORE struct flow *flow, __u32 payload, bool blocked, __u64 now)
{
	__u32 start = get32(&flow->let_go);
	__u64 sample;

	if (start == 0)
		return;
	set32(&flow->let_go, 0);
	sample = (__u64)(__u32)((__u32)(now >> 10) - start) << 10;
	if (payload < get32(&flow->mss) || sample > LONGEST_RTT)
		return;
	note_shorter_path(CORE flow, sample);
	note_longer_path(CORE flow, sample, blocked, now);
	note_least_rtt(flow, without_queue(CORE flow, sample, get64(&flow->size) > payload, now));
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
