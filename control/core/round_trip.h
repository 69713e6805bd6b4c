/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a round trip tells: how long the flow's path is, without what stood in the queue, and whether it has become shorter or longer
 * (PAC section IV-A).
 */
#ifndef ACKGATE_CORE_ROUND_TRIP_H
#define ACKGATE_CORE_ROUND_TRIP_H

#include "price.h"

/* Longest RTT that is believed, ns: above, the sample was a pause of the application. */
#define LONGEST_RTT 1000000000ull

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

/* What comes while a handshake meets an idle link takes no more than this part of it on the link, or than hosts may be late. */
#define IDLE_HANDSHAKE 8
/* What a round trip has told about the queue is believed for 2^QUEUE_MEMORY ns, and up to twice as long. */
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

#endif
