/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What is done once per interval: the threshold follows ECN (Eq. 2), a suspicious fall of throughput corrects the
 * estimate of in-flight bytes (Eq. 6), and each flow's phase is inferred from its own throughput (PAC section III-C).
 */
#ifndef ACKGATE_CORE_INTERVAL_H
#define ACKGATE_CORE_INTERVAL_H

#include "ledger.h"
#include "others.h"
#include "timer.h"

/* So many SYNs, one right after the other, are a burst. */
#define SYN_BURST 4
/* A given rate is not believed to be more than so many times too much. */
#define MOST_TOO_MUCH 64
/* How often is looked back, ns: then the peak of active flows fades by an eighth. */
#define LOOK_BACK 100000000ull

INLINE __u64 bandwidth(__u64 bytes, __u64 elapsed)
{
	return (bytes << 20) / max_u64(elapsed, 1);
}

INLINE __u64 next_threshold(__u64 threshold, __u64 cap, __u64 marked, __u64 frames)
{
	if (marked > 0)
		return max_u64(threshold - threshold * marked / (2 * frames), 2 * FULL_FRAME);
	return min_u64(threshold * 2, cap);
}

INLINE void correct(WITH_CORE __u64 now_bandwidth, __u64 usual, __u64 marked, __u64 frames,
				    __u64 charged)
{
	__u64 scaled = get64(&GATE->smooth_in_flight) * (now_bandwidth * 1024 / max_u64(usual, 1)) / 1024;
	__u64 target = frames > 0 ? scaled * 2 * frames / (2 * frames - marked) : scaled;
	__u64 excess = saturating_sub(in_flight(CORE_ALONE), max_u64(target, charged));

	if (excess > 0) {
		add64(&GATE->written_off, excess);
		add64(&GATE->corrections, 1);
	}
}

/*
 * The rate that was given, or that the interface says, may be more than the link carries: a veth says 10 Gb/s on any host, and a
 * virtual machine may have a part of its port. Then paths look longer than they are, debts are voided while what they are for still
 * stands in the queue, and the buffer overflows. Losses among many flows, and data that comes when its debt has been voided, belie
 * the rate: from then on it is what arrives at most, and a quarter more. Where that is too little, for the link was not filled, it
 * grows with what arrives.
 */
INLINE __u64 shown_rate(CORE_ONLY)
{
	__u64 given = SETTINGS->rate, carries = max_u64(peak_rate(CORE_ALONE), given / MOST_TOO_MUCH);

	return carries < given ? carries : 0;
}

INLINE void measure_link(WITH_CORE __u64 arrives)
{
	__u64 carries = get64(&GATE->carries), shown;

	set64(&GATE->peak, max_u64(get64(&GATE->peak), min_u64(arrives, get64(&GATE->bandwidth_before))));
	set64(&GATE->bandwidth_before, arrives);
	shown = shown_rate(CORE_ALONE);
	if (carries > 0 && (shown == 0 || shown > carries))
		set64(&GATE->carries, shown);
}

INLINE void judge_link(CORE_ONLY)
{
	__u64 belied = get64(&GATE->belied), peak = get64(&GATE->peak), before = get64(&GATE->peak_before);

	/* As long as more and more arrives, the link has not shown what it carries. */
	if (belied != get64(&GATE->belied_before) && get64(&GATE->peak_active) > 1 && peak <= before + before / 4)
		set64(&GATE->carries, shown_rate(CORE_ALONE));
	set64(&GATE->belied_before, belied);
	peak = peak / 64 * 63;
	set64(&GATE->peak, peak);
	set64(&GATE->peak_before, peak);
}

/* A peak of so many flows, when so much time has passed, ns: by an eighth, or wholly if it is long. */
INLINE __u64 faded(__u64 flows, __u64 elapsed)
{
	return elapsed >= 10 * LOOK_BACK ? 0 : saturating_sub(flows, max_u64(flows / 8, 1));
}

/* Every tenth of a second: the peak of active flows and the largest response fade, and what was seen meanwhile is judged. */
INLINE void look_back(WITH_CORE __u64 now)
{
	__u64 elapsed = since(now, get64(&GATE->looked_back));
	__u64 largest = get64(&GATE->largest_response), message = get64(&GATE->largest_message);

	if (elapsed < LOOK_BACK)
		return;
	judge_link(CORE_ALONE);
	set64(&GATE->largest_response, largest - largest / 64);
	set64(&GATE->largest_message, message - message / 64);
	set64(&GATE->peak_active, max_u64(faded(get64(&GATE->peak_active), elapsed), get64(&GATE->active)));
	set64(&GATE->peak_senders, faded(get64(&GATE->peak_senders), elapsed));
	set64(&GATE->looked_back, now);
}

/* The time in ns that a full threshold takes to arrive at a rate; 0 when that is not known. */
INLINE __u64 drain(WITH_CORE __u64 rate)
{
	return rate == 0 ? 0 : (get64(&GATE->threshold) << 20) / rate;
}

/* The longest hold of a request or a handshake: before our own TCP's timer fires, its answer must have passed what may stand in the queue. */
INLINE __u64 longest_request_hold(CORE_ONLY)
{
	__u64 timer = own_timer(CORE_ALONE), wait = below_timer(SETTINGS->max_hold, timer);

	return timer > 0 ? min_u64(wait, max_u64(saturating_sub(timer, drain(CORE link_rate(CORE_ALONE))), timer / 8)) : wait;
}

/* The longest pause in ns within one response: two round trips, or two budgets. Marks lower the threshold at once, but not what is on its
 * way by then. */
INLINE __u64 longest_pause(WITH_CORE const struct flow *flow)
{
	__u64 rate = link_rate(CORE_ALONE), budget = rate == 0 ? 0 : (get64(&GATE->most) << 20) / rate;

	return max_u64(max_u64(SETTINGS->silence, 2ull * get32(&flow->rtt)), 2 * budget);
}

/* Once per control interval: kept out of line, away from the path of every packet. */
SUBPROGRAM int end_interval(WITH_CORE __u64 elapsed, __u64 now)
{
	__u64 bytes, frames, marked, charged, charged_before, now_bandwidth, usual, owed, written_off;
	bool held;

	look_back(CORE now);
	balance(CORE_ALONE);
	bytes = get64(&GATE->bytes) - get64(&GATE->bytes_before);
	set64(&GATE->bytes_before, get64(&GATE->bytes_before) + bytes);
	frames = take64(&GATE->interval_frames);
	marked = min_u64(take64(&GATE->interval_marked), frames);
	charged = take64(&GATE->interval_charged);
	charged_before = get64(&GATE->charged_before);
	set64(&GATE->charged_before, charged);
	set64(&GATE->most, most_in_flight(CORE_ALONE));
	if (bytes > 0)
		set64(&GATE->threshold, next_threshold(get64(&GATE->threshold), get64(&GATE->most), marked, frames));
	held = get64(&GATE->held) > 0;
	if (bytes == 0 && !held)
		return 0;
	now_bandwidth = bandwidth(bytes, elapsed);
	usual = get64(&GATE->smooth_bandwidth);
	if (held && !SETTINGS->credit && now_bandwidth * 1000 <= usual * SETTINGS->lambda_permille)
		correct(CORE now_bandwidth, usual, marked, frames, charged + charged_before);
	set64(&GATE->smooth_bandwidth, smooth(usual, now_bandwidth));
	set64(&GATE->smooth_in_flight, smooth(get64(&GATE->smooth_in_flight), in_flight(CORE_ALONE)));
	owed = get64(&GATE->owed);
	written_off = get64(&GATE->written_off);
	if (written_off > owed)
		replace64(&GATE->written_off, written_off, owed);
	return 0;
}

/* How long arrivals are counted, ns, to see what the link carries: no longer than a full threshold takes, for what has overflowed the buffer
 * comes at the link's rate that long, and the rest of a long round trip may be idle. */
INLINE __u64 glance(CORE_ONLY)
{
	__u64 interval = get64(&GATE->interval), full = drain(CORE path_rate(CORE_ALONE));

	return max_u64(full == 0 ? interval : min_u64(interval, full), SETTINGS->min_interval);
}

INLINE void end_glance(WITH_CORE __u64 elapsed, __u64 now)
{
	__u64 bytes = get64(&GATE->bytes) - get64(&GATE->glanced_bytes);
	__u64 others = get64(&GATE->other_bytes) - get64(&GATE->other_glanced);

	set64(&GATE->other_glanced, get64(&GATE->other_glanced) + others);
	count_others(CORE now);
	set64(&GATE->glanced, now);
	set64(&GATE->glanced_bytes, get64(&GATE->bytes));
	if (bytes > 0 || get64(&GATE->held) > 0)
		measure_link(CORE bandwidth(bytes + others, elapsed));
}

/* Something is due: a glance or an interval is over. */
SUBPROGRAM int roll_over(WITH_CORE __u64 now)
{
	__u64 start = get64(&GATE->interval_start), glanced = get64(&GATE->glanced);

	if (start == 0) {
		set64(&GATE->interval_start, now);
		set64(&GATE->glanced, now);
		start = glanced = now;
	}
	if (since(now, glanced) >= glance(CORE_ALONE))
		end_glance(CORE since(now, glanced), now);
	if (since(now, start) >= max_u64(get64(&GATE->interval), SETTINGS->min_interval)) {
		set64(&GATE->interval_start, now);
		set64(&GATE->interval, get64(&GATE->mean_rtt) + drain(CORE SETTINGS->rate));
		end_interval(CORE since(now, start), now);
	}
	set64(&GATE->due, min_u64(get64(&GATE->glanced) + glance(CORE_ALONE),
				  get64(&GATE->interval_start) + max_u64(get64(&GATE->interval), SETTINGS->min_interval)));
	return 0;
}

INLINE void roll(WITH_CORE __u64 now)
{
	__u64 due = get64(&GATE->due);

	if (now >= due && replace64(&GATE->due, due, now + SETTINGS->min_interval))
		roll_over(CORE now);
}

INLINE __u64 syn_gap(CORE_ONLY)
{
	return SETTINGS->rate == 0 ? 0 : (2 * FULL_FRAME << 20) / SETTINGS->rate;
}

INLINE void note_syn(WITH_CORE __u64 now)
{
	bool alone = since(now, get64(&GATE->last_syn)) > syn_gap(CORE_ALONE);

	set64(&GATE->syn_burst, alone ? 1 : get64(&GATE->syn_burst) + 1);
	set64(&GATE->last_syn, now);
}

INLINE bool syns_are_arriving(WITH_CORE __u64 now)
{
	return get64(&GATE->syn_burst) >= SYN_BURST && since(now, get64(&GATE->last_syn)) <= syn_gap(CORE_ALONE);
}

/* When the burst of SYNs will be over, if none arrives any more. */
INLINE __u64 settled_at(CORE_ONLY)
{
	return get64(&GATE->last_syn) + syn_gap(CORE_ALONE) + 1;
}

INLINE void note_rtt(WITH_CORE __u64 rtt)
{
	__u64 mean = get64(&GATE->mean_rtt);

	if (rtt > 0)
		set64(&GATE->mean_rtt, smooth(mean, mean > 0 ? min_u64(rtt, 2 * mean) : rtt));
}

INLINE void roll_flow(WITH_CORE struct flow *flow, __u64 now)
{
	__u64 start = get64(&flow->interval_start), elapsed = since(now, start);
	__u64 bytes, now_bandwidth, before;
	bool waited;

	if (start != 0 && elapsed < max_u64(round_trip(flow), SETTINGS->min_interval))
		return;
	set64(&flow->interval_start, now);
	note_rtt(CORE get32(&flow->rtt));
	/* Phases are PAC's alone. */
	if (SETTINGS->credit)
		return;
	bytes = take32(&flow->own[INTERVAL_BYTES]);
	waited = any_flag(flow, FLOW_WAITED);
	lower_flags(flow, FLOW_WAITED);
	if (start == 0 || waited) {
		set32(&flow->own[LAST_BANDWIDTH], 0);
		set32(&flow->own[SLOW_INTERVALS], 0);
		return;
	}
	now_bandwidth = bandwidth(bytes, elapsed);
	before = get32(&flow->own[LAST_BANDWIDTH]);
	set32(&flow->own[LAST_BANDWIDTH], min_u64(now_bandwidth, ~0u));
	if (now_bandwidth * 1000 <= before * SETTINGS->lambda_permille) {
		__u32 slow = get32(&flow->own[SLOW_INTERVALS]) + 1;

		set32(&flow->own[SLOW_INTERVALS], slow);
		if (slow >= 2)
			raise_flags(flow, FLOW_AVOIDANCE);
	} else {
		set32(&flow->own[SLOW_INTERVALS], 0);
	}
}

#endif
