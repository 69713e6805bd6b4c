/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The packet path: control/src/pac/{account,estimate,interval}.rs and control/src/credit.rs, function by function. Why
 * things are as they are is said there; a differential test holds the two equal.
 *
 * Beyond the model there is only concurrency: counters are atomic, and a compare-and-swap that loses SWAP_TRIES times
 * gives up, which errs by one packet and is made good by the decay of unpaid charges.
 */
#ifndef ACKGATE_PAC_H
#define ACKGATE_PAC_H

#include "packet.h"

#define USUAL_MSS 1448
#define USUAL_HEADER 66
#define LONGEST_RTT 1000000000ull
#define FULL_FRAME 1514ull
#define LARGEST_REQUEST 1024
#define LARGE_WINDOW 32
#define SYN_BURST 4
#define LEAST_SEGMENTS 2
#define TURNS 4
#define LEAST_SHARES 2
#define MARKED_TURNS 6
#define LONGEST_TURN 48
#define ABREAST 5
#define ENOUGH 4
#define MOST_LEFT_OUT 4
#define BUDGETS_PER_TURN 64
#define CROWD_STEP 100000000ull
#define SWAP_TRIES 16

const volatile struct settings settings;
struct gate gate;

struct outgoing {
	__u32 class;
	__u32 ack;
	__u16 window;
	__u8 shift;
	bool ece;
	bool data;
	bool repeated;
	bool copy;
	/* Nothing else was held. */
	bool first;
};

struct trigger {
	__u64 wire;
	__u32 increment;
	__u32 edge;
	bool moves_edge;
};

static __always_inline __u32 max_u32(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

static __always_inline __u64 max_u64(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

static __always_inline __u64 min_u64(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static __always_inline __u64 saturating_sub(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

static __always_inline __u64 get64(const __u64 *cell)
{
	return *(const volatile __u64 *)cell;
}

static __always_inline __u32 get32(const __u32 *cell)
{
	return *(const volatile __u32 *)cell;
}

static __always_inline void set64(__u64 *cell, __u64 value)
{
	*(volatile __u64 *)cell = value;
}

static __always_inline void set32(__u32 *cell, __u32 value)
{
	*(volatile __u32 *)cell = value;
}

static __always_inline void add64(__u64 *cell, __u64 n)
{
	__sync_fetch_and_add(cell, n);
}

static __always_inline void add32(__u32 *cell, __u32 n)
{
	__sync_fetch_and_add(cell, n);
}

static __always_inline bool replace64(__u64 *cell, __u64 old, __u64 new)
{
	return __sync_val_compare_and_swap(cell, old, new) == old;
}

static __always_inline __u64 take64(__u64 *cell)
{
	return __sync_lock_test_and_set(cell, 0);
}

static __always_inline __u32 take32(__u32 *cell)
{
	return __sync_lock_test_and_set(cell, 0);
}

static __always_inline __u64 take_up_to64(__u64 *cell, __u64 n)
{
	__u64 now = get64(cell);

#pragma clang loop unroll(disable)
	for (int i = 0; i < SWAP_TRIES; i++) {
		__u64 taken = min_u64(now, n);
		__u64 seen = __sync_val_compare_and_swap(cell, now, now - taken);

		if (seen == now)
			return taken;
		now = seen;
	}
	return 0;
}

static __always_inline __u32 take_up_to32(__u32 *cell, __u32 n)
{
	__u32 now = get32(cell);

	if (now == 0)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < SWAP_TRIES; i++) {
		__u32 taken = now < n ? now : n;
		__u32 seen = __sync_val_compare_and_swap(cell, now, now - taken);

		if (seen == now)
			return taken;
		now = seen;
	}
	return 0;
}

/* Moves a sequence number forward, never back. */
static __always_inline void advance(__u32 *cell, __u32 to)
{
	__u32 now = get32(cell);

#pragma clang loop unroll(disable)
	for (int i = 0; i < SWAP_TRIES && seq_distance(now, to) < 0; i++) {
		__u32 seen = __sync_val_compare_and_swap(cell, now, to);

		if (seen == now)
			return;
		now = seen;
	}
}

static __always_inline void raise_flags(struct flow *flow, __u32 bits)
{
	/* Mostly they are set already, and looking is cheaper than a locked write. */
	if ((get32(&flow->flags) & bits) != bits)
		__sync_fetch_and_or(&flow->flags, bits);
}

static __always_inline void lower_flags(struct flow *flow, __u32 bits)
{
	if (get32(&flow->flags) & bits)
		__sync_fetch_and_and(&flow->flags, ~bits);
}

static __always_inline void put_flags(struct flow *flow, __u32 bits, bool on)
{
	if (on)
		raise_flags(flow, bits);
	else
		lower_flags(flow, bits);
}

static __always_inline bool any_flag(const struct flow *flow, __u32 bits)
{
	return get32(&flow->flags) & bits;
}

static __always_inline __u64 div_ceil(__u64 a, __u64 b)
{
	return a / b + (a % b > 0);
}

static __always_inline __u64 since(__u64 now, __u64 earlier)
{
	return saturating_sub(now, earlier);
}

/* state.rs */

static __always_inline __u64 in_flight(void)
{
	return saturating_sub(get64(&gate.owed), get64(&gate.written_off));
}

static __always_inline bool admits(__u64 trigger)
{
	__u64 bytes = in_flight();

	return bytes == 0 || bytes + trigger <= get64(&gate.threshold);
}

static __always_inline __u64 round_trip(const struct flow *flow)
{
	return (__u64)get32(&flow->rtt) + get32(&flow->added_delay);
}

static __always_inline __u64 flow_wire(const struct flow *flow, __u64 payload)
{
	return payload + payload * get32(&flow->header) / max_u32(get32(&flow->mss), 1);
}

/* interval.rs */

static __always_inline __u64 smooth(__u64 old, __u64 sample)
{
	return old == 0 ? sample : old - old / 8 + sample / 8;
}

static __always_inline __u64 bandwidth(__u64 bytes, __u64 elapsed)
{
	return (bytes << 20) / max_u64(elapsed, 1);
}

static __always_inline __u64 next_threshold(__u64 threshold, __u64 cap, __u64 marked, __u64 frames)
{
	if (marked > 0)
		return max_u64(threshold - threshold * marked / (2 * frames), 2 * FULL_FRAME);
	return min_u64(threshold * 2, cap);
}

static __always_inline void correct(__u64 now_bandwidth, __u64 usual, __u64 marked, __u64 frames,
				    __u64 charged)
{
	__u64 scaled = get64(&gate.smooth_in_flight) * (now_bandwidth * 1024 / max_u64(usual, 1)) / 1024;
	__u64 target = frames > 0 ? scaled * 2 * frames / (2 * frames - marked) : scaled;
	__u64 excess = saturating_sub(in_flight(), max_u64(target, charged));

	if (excess > 0) {
		add64(&gate.written_off, excess);
		add64(&gate.corrections, 1);
	}
}

static __always_inline void forget_crowd(__u64 now)
{
	__u64 elapsed = since(now, get64(&gate.crowd_since)), crowd = get64(&gate.crowd);

	if (elapsed < CROWD_STEP)
		return;
	crowd = elapsed >= 10 * CROWD_STEP ? 0 : saturating_sub(crowd, max_u64(crowd / 8, 1));
	set64(&gate.crowd, max_u64(crowd, get64(&gate.engaged)));
	set64(&gate.crowd_since, now);
}

/* Once per control interval: kept out of line, away from the path of every packet. */
SUBPROGRAM int end_interval(__u64 elapsed, __u64 now)
{
	__u64 bytes, frames, marked, charged, charged_before, now_bandwidth, usual, owed, written_off;
	bool held;

	forget_crowd(now);
	bytes = take64(&gate.interval_bytes);
	frames = take64(&gate.interval_frames);
	marked = min_u64(take64(&gate.interval_marked), frames);
	charged = take64(&gate.interval_charged);
	charged_before = get64(&gate.charged_before);
	set64(&gate.charged_before, charged);
	if (frames > 0)
		set64(&gate.threshold, next_threshold(get64(&gate.threshold), get64(&gate.cap), marked, frames));
	held = get64(&gate.held) > 0;
	if (bytes == 0 && !held)
		return 0;
	now_bandwidth = bandwidth(bytes, elapsed);
	usual = get64(&gate.smooth_bandwidth);
	if (held && !settings.credit && now_bandwidth * 1000 <= usual * settings.lambda_permille)
		correct(now_bandwidth, usual, marked, frames, charged + charged_before);
	set64(&gate.smooth_bandwidth, smooth(usual, now_bandwidth));
	set64(&gate.smooth_in_flight, smooth(get64(&gate.smooth_in_flight), in_flight()));
	owed = get64(&gate.owed);
	written_off = get64(&gate.written_off);
	if (written_off > owed)
		replace64(&gate.written_off, written_off, owed);
	return 0;
}

/* The time in ns that a full threshold takes to arrive; 0 when the link's rate is not known. */
static __always_inline __u64 drain(void)
{
	return settings.rate_mbps == 0 ? 0 : get64(&gate.threshold) * 8000 / settings.rate_mbps;
}

/* The longest pause in ns within one response. */
static __always_inline __u64 longest_pause(const struct flow *flow)
{
	return max_u64(max_u64(settings.silence, 2ull * get32(&flow->rtt)), 2 * drain());
}

static __always_inline void roll(__u64 now)
{
	__u64 start = get64(&gate.interval_start), elapsed;

	if (start == 0) {
		replace64(&gate.interval_start, 0, now);
		return;
	}
	elapsed = since(now, start);
	if (elapsed < max_u64(get64(&gate.interval), settings.min_interval) ||
	    !replace64(&gate.interval_start, start, now))
		return;
	set64(&gate.interval, get64(&gate.mean_rtt) + drain());
	end_interval(elapsed, now);
}

static __always_inline __u64 syn_gap(void)
{
	return settings.rate_mbps == 0 ? 0 : 2 * FULL_FRAME * 8000 / settings.rate_mbps;
}

static __always_inline void note_syn(__u64 now)
{
	bool alone = since(now, get64(&gate.last_syn)) > syn_gap();

	set64(&gate.syn_burst, alone ? 1 : get64(&gate.syn_burst) + 1);
	set64(&gate.last_syn, now);
}

static __always_inline bool syns_are_arriving(__u64 now)
{
	return get64(&gate.syn_burst) >= SYN_BURST && since(now, get64(&gate.last_syn)) <= syn_gap();
}

static __always_inline void note_rtt(__u64 rtt)
{
	__u64 mean = get64(&gate.mean_rtt);

	if (rtt > 0)
		set64(&gate.mean_rtt, smooth(mean, mean > 0 ? min_u64(rtt, 2 * mean) : rtt));
}

static __always_inline void roll_flow(struct flow *flow, __u64 now)
{
	__u64 start = get64(&flow->interval_start), elapsed = since(now, start);
	__u64 bytes, now_bandwidth, before;
	bool waited;

	if (start != 0 && elapsed < max_u64(round_trip(flow), settings.min_interval))
		return;
	set64(&flow->interval_start, now);
	bytes = take32(&flow->interval_bytes);
	note_rtt(get32(&flow->rtt));
	waited = any_flag(flow, FLOW_WAITED);
	lower_flags(flow, FLOW_WAITED);
	if (start == 0 || waited) {
		set64(&flow->last_bandwidth, 0);
		set32(&flow->slow_intervals, 0);
		return;
	}
	now_bandwidth = bandwidth(bytes, elapsed);
	before = get64(&flow->last_bandwidth);
	set64(&flow->last_bandwidth, now_bandwidth);
	if (now_bandwidth * 1000 <= before * settings.lambda_permille) {
		__u32 slow = get32(&flow->slow_intervals) + 1;

		set32(&flow->slow_intervals, slow);
		if (slow >= 2)
			raise_flags(flow, FLOW_AVOIDANCE);
	} else {
		set32(&flow->slow_intervals, 0);
	}
}

static __always_inline bool engage(struct flow *flow)
{
	if (any_flag(flow, FLOW_ENGAGED))
		return false;
	raise_flags(flow, FLOW_ENGAGED);
	add64(&gate.engaged, 1);
	if (get64(&gate.crowd) < get64(&gate.engaged))
		set64(&gate.crowd, get64(&gate.engaged));
	return true;
}

static __always_inline void disengage(struct flow *flow)
{
	if (any_flag(flow, FLOW_ENGAGED)) {
		lower_flags(flow, FLOW_ENGAGED);
		take_up_to64(&gate.engaged, 1);
	}
}

static __always_inline void forgive(__u64 debt)
{
	if (debt > 0) {
		add64(&gate.owed, -debt);
		take_up_to64(&gate.written_off, debt);
		add64(&gate.voided, debt);
	}
}

SUBPROGRAM int void_debt(struct flow *flow)
{
	if (!flow)
		return 0;
	set32(&flow->unpaid, 0);
	if (get32(&flow->owed) == 0)
		return 0;
	forgive(take32(&flow->owed));
	return 0;
}

/* What was owed a longest pause ago and is not paid although data has kept coming was never sent. */
static __always_inline void look_through(struct flow *flow, __u64 pause, __u64 now)
{
	__u64 patience = longest_pause(flow), age = (__u32)((__u32)now - get32(&flow->due_since));
	__u64 due, unpaid, window, mss, excess;

	if (age < patience && pause * 2 < patience)
		return;
	due = get32(&flow->due);
	unpaid = min_u64(get32(&flow->unpaid), get32(&flow->owed));
	if (unpaid > 0 && pause * 2 < patience) {
		take_up_to32(&flow->owed, unpaid);
		forgive(unpaid);
		window = get32(&flow->window);
		mss = get32(&flow->mss);
		excess = unpaid * mss / max_u64(mss + get32(&flow->header), 1);
		set32(&flow->window, max_u64(saturating_sub(window, excess), min_u64(2 * mss, window)));
		if ((due - unpaid) * 1000 <= due * settings.lambda_permille)
			raise_flags(flow, FLOW_AVOIDANCE);
	}
	set32(&flow->due, get32(&flow->owed));
	set32(&flow->unpaid, get32(&flow->owed));
	set32(&flow->due_since, now);
}

/* credit.rs */

static __always_inline bool governs(const struct flow *flow)
{
	return settings.credit && any_flag(flow, FLOW_SCALE_KNOWN) &&
	       1u << (get32(&flow->scale) & 15) <= get32(&flow->mss);
}

static __always_inline __u32 ahead_of(__u32 a, __u32 b)
{
	__s32 distance = seq_distance(a, b);

	return distance > 0 ? distance : 0;
}

static __always_inline __u32 later(__u32 a, __u32 b)
{
	return seq_distance(a, b) < 0 ? b : a;
}

static __always_inline __u64 turn(void)
{
	return max_u64(get64(&gate.threshold) * BUDGETS_PER_TURN, get64(&gate.smooth_bandwidth) * LONGEST_TURN);
}

static __always_inline bool abreast(void)
{
	return get64(&gate.engaged) * ABREAST * FULL_FRAME <= get64(&gate.threshold);
}

static __always_inline __u64 enough(__u64 flows)
{
	if (settings.rate_mbps == 0)
		return ~0ull;
	return max_u64(get64(&gate.mean_rtt) * settings.rate_mbps * 3 / 16000 / flows, ENOUGH * FULL_FRAME);
}

static __always_inline __u32 share(const struct flow *flow)
{
	__u64 mss = max_u32(get32(&flow->mss), 1);
	__u64 threshold = get64(&gate.threshold), crowd = get64(&gate.crowd);
	__u64 turns = threshold < get64(&gate.cap) ? MARKED_TURNS : TURNS;
	__u64 engaged = get64(&gate.engaged), shares = abreast() ? engaged : min_u64(engaged, turns);
	__u64 part = min_u64(threshold / max_u64(shares, LEAST_SHARES), engaged > 1 && abreast() ? enough(engaged) : ~0ull);
	__u64 wire = min_u64(part, turn() / max_u64(crowd, 1));
	__u64 payload = wire * mss / (mss + get32(&flow->header));

	return min_u64(max_u64(payload / mss, LEAST_SEGMENTS) * mss, 1u << 30);
}

static __always_inline bool crowded(const struct flow *flow)
{
	return get64(&gate.crowd) * flow_wire(flow, LEAST_SEGMENTS * get32(&flow->mss)) > turn();
}

static __always_inline __u64 expected(const struct flow *flow)
{
	__u64 last = get32(&flow->last_response);

	return last == 0 ? get64(&gate.usual_response) : last;
}

static __always_inline __u64 lacking(const struct flow *flow, __u32 ack)
{
	__u64 size = get64(&flow->size), response = expected(flow), lacking;
	__u32 mss = max_u32(get32(&flow->mss), 1);

	if (size >= response)
		return ~0ull;
	lacking = response - size + (any_flag(flow, FLOW_RECEIVED) ? ahead_of(get32(&flow->received), ack) : 0);
	return crowded(flow) ? lacking : max_u64(div_ceil(lacking, mss), LEAST_SEGMENTS) * mss;
}

static __always_inline __u32 remaining(const struct flow *flow, __u32 ack)
{
	return ahead_of(get32(&flow->edge), ack);
}

/* account.rs */
static __always_inline bool has_no_more(const struct flow *flow)
{
	__u32 flags = get32(&flow->flags);
	bool governed = governs(flow), first = governed && get32(&flow->last_response) == 0;
	__u64 response = governed ? expected(flow) : get32(&flow->last_response);
	bool believed = get64(&flow->size) == response || flags & FLOW_DRY ||
			(!first && !(flags & FLOW_PUSHES_MIDWAY));
	bool pushed = settings.push_ends_response && flags & FLOW_PUSHED && believed;

	return (pushed || flags & FLOW_PEER_DONE) && !(flags & FLOW_RECOVERING);
}

static __always_inline bool at_edge(const struct flow *flow)
{
	return remaining(flow, get32(&flow->received)) < get32(&flow->mss);
}

static __always_inline bool stopped_short(const struct flow *flow, __u32 payload)
{
	bool cut = payload % max_u32(get32(&flow->mss), 1) > 0;

	return !at_edge(flow) || (cut && remaining(flow, get32(&flow->received)) > 1u << (get32(&flow->scale) & 15));
}

static __always_inline bool can_go_on(const struct flow *flow, __u32 ack)
{
	return remaining(flow, ack) >= LEAST_SEGMENTS * get32(&flow->mss);
}

static __always_inline bool is_superfluous(const struct flow *flow, const struct outgoing *out)
{
	__u32 limit = get32(&flow->mss) * (any_flag(flow, FLOW_REDUCED) ? 2 : MOST_LEFT_OUT), window, run;

	if (!governs(flow) || out->class != CLASS_ACK || out->ece || out->repeated || get32(&flow->held) > 0)
		return false;
	if (any_flag(flow, FLOW_PUSHED | FLOW_RECOVERING | FLOW_PEER_DONE | FLOW_OVERTAKEN) ||
	    get32(&flow->received) != out->ack || !can_go_on(flow, out->ack))
		return false;
	window = remaining(flow, out->ack);
	run = get32(&flow->run);
	limit = min_u64(limit, min_u64(run / 4, window / 2));
	return run >= window && ahead_of(out->ack, get32(&flow->released_ack)) < limit;
}

static __always_inline __u32 in_units(__u32 bytes, __u32 shift)
{
	return ((bytes >> (shift & 15)) + !!(bytes & ((1u << (shift & 15)) - 1))) << (shift & 15);
}

static __always_inline __u32 kept_edge(const struct flow *flow, const struct outgoing *out)
{
	return out->ack + in_units(remaining(flow, out->ack), out->shift);
}

static __always_inline __u32 edge_at(const struct outgoing *out, __u32 wanted)
{
	__u32 offered = (__u32)out->window << (out->shift & 15);

	wanted = in_units(wanted, out->shift);
	return out->ack + (wanted < offered ? wanted : offered);
}

static __always_inline __u32 least(const struct flow *flow, const struct outgoing *out)
{
	return edge_at(out, LEAST_SEGMENTS * get32(&flow->mss));
}

static __always_inline __u32 affordable(const struct flow *flow, const struct outgoing *out)
{
	__u64 mss = max_u32(get32(&flow->mss), 1);
	__u64 free = saturating_sub(get64(&gate.threshold), in_flight()) + get32(&flow->owed);
	__u64 payload = free * mss / (mss + get32(&flow->header)) +
			(any_flag(flow, FLOW_RECEIVED) ? ahead_of(get32(&flow->received), out->ack) : 0);
	__u64 rounding = (1u << (out->shift & 15)) - 1;

	return min_u64(max_u64(saturating_sub(payload, rounding) / mss, LEAST_SEGMENTS) * mss, 1u << 30);
}

static __always_inline __u32 grant(const struct flow *flow, const struct outgoing *out)
{
	bool midway = any_flag(flow, FLOW_PUSHES_MIDWAY) && get64(&flow->size) < expected(flow);
	bool may_have_ended = any_flag(flow, FLOW_STOPPED) && out->ack == get32(&flow->received) && !midway;
	bool among_many = out->class == CLASS_REQUEST && get64(&gate.engaged) > TURNS && !abreast();
	__u32 wanted;

	if (out->class == CLASS_HANDSHAKE && !any_flag(flow, FLOW_HALF_OPEN) && !out->data && crowded(flow))
		return out->ack;
	if (may_have_ended || among_many || out->class == CLASS_HANDSHAKE)
		return least(flow, out);
	wanted = min_u64(share(flow), lacking(flow, out->ack));
	return edge_at(out, abreast() ? min_u64(wanted, affordable(flow, out)) : wanted);
}

static __always_inline void price(const struct flow *flow, const struct outgoing *out, __u32 to,
				  struct trigger *trigger)
{
	__u32 received = any_flag(flow, FLOW_RECEIVED) ? get32(&flow->received) : out->ack;

	trigger->wire = saturating_sub(flow_wire(flow, ahead_of(to, received)), get32(&flow->owed));
	trigger->increment = 0;
	trigger->edge = to;
	trigger->moves_edge = true;
}

static __always_inline void credit_trigger(const struct flow *flow, const struct outgoing *out,
					   struct trigger *trigger)
{
	bool moves = out->class == CLASS_DATA ? !can_go_on(flow, out->ack)
					      : out->class != CLASS_URGENT && out->class != CLASS_STALE;
	__u32 to = kept_edge(flow, out);

	if ((out->class == CLASS_ACK || out->class == CLASS_DATA) && has_no_more(flow)) {
		trigger->edge = crowded(flow) && !out->repeated ? to : later(least(flow, out), to);
		trigger->moves_edge = true;
		return;
	}
	if (moves)
		to = later(grant(flow, out), to);
	price(flow, out, to, trigger);
}

static __always_inline void without_grant(const struct flow *flow, const struct outgoing *out, struct trigger *trigger)
{
	price(flow, out, kept_edge(flow, out), trigger);
}

static __always_inline __u32 within(const struct flow *flow, const struct outgoing *out, __u32 most)
{
	return later(edge_at(out, most), kept_edge(flow, out));
}

/* The window field that says the flow's right edge. */
static __always_inline __u16 credit_window(const struct flow *flow, const struct outgoing *out)
{
	__u32 field = remaining(flow, out->ack) >> (out->shift & 15);

	return field < out->window ? field : out->window;
}

/* account.rs */

static __always_inline bool bounded(const struct flow *flow)
{
	return settings.bound_windows && !settings.credit && any_flag(flow, FLOW_SCALE_KNOWN);
}

static __always_inline __u32 largest_window(const struct flow *flow)
{
	__u64 mss = get32(&flow->mss);
	__u64 segments = get64(&gate.cap) * 4 / 5 / max_u64(mss + get32(&flow->header), 1);

	return min_u64(max_u64(segments, LEAST_SEGMENTS) * mss, 1u << 30);
}

static __always_inline void close_handshake(struct flow *flow)
{
	if (any_flag(flow, FLOW_HALF_OPEN)) {
		lower_flags(flow, FLOW_HALF_OPEN);
		take_up_to64(&gate.half_open, 1);
	}
}

SUBPROGRAM int open_flow(struct flow *flow, __u64 now)
{
	if (!flow)
		return 0;
	void_debt(flow);
	disengage(flow);
	close_handshake(flow);
	set32(&flow->flags, FLOW_KNOWN);
	set64(&flow->last_seen, now);
	set64(&flow->last_active, now);
	set64(&flow->handshake_start, 0);
	set64(&flow->ts_start, 0);
	set64(&flow->interval_start, 0);
	set64(&flow->last_bandwidth, 0);
	set64(&flow->size, 0);
	set32(&flow->mss, USUAL_MSS);
	set32(&flow->header, USUAL_HEADER);
	set32(&flow->window, settings.initial_window * USUAL_MSS);
	set32(&flow->last_response, 0);
	set32(&flow->interval_bytes, 0);
	set32(&flow->slow_intervals, 0);
	set32(&flow->rtt, 0);
	set32(&flow->added_delay, 0);
	set32(&flow->scale, 0);
	set32(&flow->run, 0);
	add32(&flow->generation, 1);
	return 0;
}

static __always_inline void start_handshake(struct flow *flow)
{
	raise_flags(flow, FLOW_HALF_OPEN);
	add64(&gate.half_open, 1);
}

static __always_inline void sample_handshake(struct flow *flow, const struct segment *segment,
					     __u64 now)
{
	__u64 start = take64(&flow->handshake_start);

	if (start != 0 && segment->flags & ACK) {
		__u64 rtt = min_u64(since(now, start), LONGEST_RTT);

		set32(&flow->rtt, rtt);
		note_rtt(rtt);
	}
}

static __always_inline void sample_timestamp(struct flow *flow, const struct segment *segment, __u64 now)
{
	__u64 start = get64(&flow->ts_start);

	if (segment->timestamps && start != 0 && seq_distance(segment->tsecr, get32(&flow->ts_value)) >= 0) {
		set64(&flow->ts_start, 0);
		set32(&flow->rtt, smooth(get32(&flow->rtt), min_u64(since(now, start), LONGEST_RTT)));
	}
}

static __always_inline void end_response(struct flow *flow)
{
	__u64 size = take64(&flow->size);

	if (size > 0) {
		set64(&gate.usual_response, size);
		set32(&flow->last_response, size > ~0u ? ~0u : size);
	}
	set32(&flow->run, 0);
	set64(&flow->interval_start, 0);
	set64(&flow->last_bandwidth, 0);
}

/* Books a debt. */
static __always_inline void owe(struct flow *flow, __u64 bytes)
{
	__u32 wire = min_u64(min_u64(bytes, ~0u), ~0u - get32(&flow->owed));

	add32(&flow->owed, wire);
	add64(&gate.owed, wire);
	add64(&gate.interval_charged, wire);
}

static __always_inline void pay(struct flow *flow, const struct segment *segment)
{
	__u64 paid = take_up_to32(&flow->owed, wire_bytes(segment));
	__u64 written_off = get64(&gate.written_off);

	take_up_to32(&flow->unpaid, wire_bytes(segment));
	if (written_off > 0)
		take_up_to64(&gate.written_off, div_ceil(written_off * paid, max_u64(get64(&gate.owed), 1)));
	add64(&gate.owed, -paid);
}

static __always_inline void note_flight(struct flow *flow, __u32 end)
{
	__u32 flags = get32(&flow->flags), flight;
	bool before_reduction = flags & FLOW_REDUCED && seq_distance(end, get32(&flow->recover)) <= 0;

	if (flags & FLOW_ACKED && !(flags & FLOW_RECOVERING) && !before_reduction) {
		flight = ahead_of(end, get32(&flow->released_ack));
		if (flight > get32(&flow->window))
			set32(&flow->window, flight);
	}
}

SUBPROGRAM int receive(struct flow *flow, const struct segment *segment, __u64 now)
{
	__u32 wire, frame, end;
	__u64 pause;

	if (!flow || !segment)
		return 0;
	wire = wire_bytes(segment);
	pay(flow, segment);
	set64(&gate.last_data, now);
	add64(&gate.bytes, wire);
	add64(&gate.interval_bytes, wire);
	add64(&gate.interval_frames, segment->frames);
	pause = since(now, get64(&flow->last_active));
	set64(&flow->last_active, now);
	if (!governs(flow))
		look_through(flow, pause, now);
	if (pause > max_u64(settings.silence, 2 * get64(&gate.interval)))
		set32(&flow->run, 0);
	set32(&flow->run, get32(&flow->run) + segment->payload);
	if (any_flag(flow, FLOW_ASKED)) {
		lower_flags(flow, FLOW_ASKED);
		set64(&gate.response_delay, smooth(get64(&gate.response_delay), min_u64(pause, LONGEST_RTT)));
	}
	set32(&flow->header, segment->header);
	frame = segment->payload / max_u32(segment->frames, 1);
	if (frame > get32(&flow->mss))
		set32(&flow->mss, frame);
	if (segment->ce)
		add64(&gate.interval_marked, segment->frames);
	roll_flow(flow, now);
	add32(&flow->interval_bytes, segment->payload);

	end = segment_end(segment);
	if (!any_flag(flow, FLOW_RECEIVED) || seq_distance(end, get32(&flow->received)) > 0) {
		if (any_flag(flow, FLOW_PUSHED)) {
			bool stopped = governs(flow) ? !any_flag(flow, FLOW_STOPPED) : any_flag(flow, FLOW_ASKS);

			if (!stopped && pause > longest_pause(flow))
				end_response(flow);
			else
				raise_flags(flow, FLOW_PUSHES_MIDWAY);
		}
		add64(&flow->size, any_flag(flow, FLOW_RECEIVED) ? ahead_of(end, get32(&flow->received)) : segment->payload);
		set32(&flow->received, end);
		raise_flags(flow, FLOW_RECEIVED);
		lower_flags(flow, FLOW_DRY | FLOW_AWAITED);
		note_flight(flow, end);
		put_flags(flow, FLOW_PUSHED, segment->flags & PSH);
		put_flags(flow, FLOW_STOPPED, segment->flags & PSH && stopped_short(flow, segment->payload));
		if (segment->flags & FIN) {
			raise_flags(flow, FLOW_CLOSING | FLOW_PEER_DONE);
			end_response(flow);
		}
		if (has_no_more(flow)) {
			void_debt(flow);
			disengage(flow);
		} else if (engage(flow) && governs(flow)) {
			set32(&flow->run, segment->payload);
			owe(flow, flow_wire(flow, remaining(flow, end)));
		}
	} else {
		if (any_flag(flow, FLOW_RECOVERING) && (__u32)((__u32)now - get32(&flow->hole_since)) >= settings.min_interval)
			add64(&gate.lost, 1);
		if (get32(&flow->held) > 0 && seq_distance(end, get32(&flow->ack_high)) <= 0 &&
		    seq_distance(end, get32(&flow->released_ack)) > 0)
			raise_flags(flow, FLOW_OVERTAKEN);
	}
	return 0;
}

SUBPROGRAM int account_ingress(struct flow *flow, const struct segment *segment, __u64 now)
{
	__u64 wanted;

	if (!flow || !segment)
		return 0;
	roll(now);
	add64(&gate.arrivals, 1);
	if (segment->flags & SYN) {
		if (!(segment->flags & ACK)) {
			open_flow(flow, now);
			start_handshake(flow);
			note_syn(now);
		} else if (segment->wscale == NO_WSCALE) {
			set32(&flow->scale, 0);
		}
		sample_handshake(flow, segment, now);
	} else if (!any_flag(flow, FLOW_KNOWN)) {
		open_flow(flow, now);
	}
	set64(&flow->last_seen, now);
	if (segment->flags & RST) {
		close_handshake(flow);
		raise_flags(flow, FLOW_CLOSING);
		void_debt(flow);
		disengage(flow);
	} else if (!(segment->flags & SYN)) {
		if (any_flag(flow, FLOW_HALF_OPEN)) {
			sample_handshake(flow, segment, now);
			close_handshake(flow);
		}
		if (segment->payload > 0 || segment->flags & FIN)
			receive(flow, segment, now);
		else if (governs(flow))
			pay(flow, segment);
	}
	if (settings.timestamps)
		sample_timestamp(flow, segment, now);
	wanted = get64(&gate.wanted);
	return wanted > 0 && admits(wanted) && replace64(&gate.wanted, wanted, 0);
}

static __always_inline __u64 still_expected(const struct flow *flow)
{
	__u64 size = get64(&flow->size), response = get32(&flow->last_response);

	if (!settings.charge_requests || size >= response)
		return ~0ull;
	return saturating_sub(flow_wire(flow, response - size), get32(&flow->owed));
}

/* A sender does not cut a segment to fit its window. */
static __always_inline __u32 whole_segments(const struct flow *flow, __u32 bytes)
{
	__u32 mss = max_u32(get32(&flow->mss), 1);

	return bytes / mss * mss;
}

/* RFC 5681 Eq. 4. */
static __always_inline __u32 halved(const struct flow *flow)
{
	return max_u32(whole_segments(flow, get32(&flow->window) / 2), 2 * get32(&flow->mss));
}

static __always_inline void reduce(struct flow *flow, __u32 sent)
{
	raise_flags(flow, FLOW_REDUCED | FLOW_AVOIDANCE);
	set32(&flow->recover, sent);
	set32(&flow->window, halved(flow));
}

static __always_inline bool reduces(const struct flow *flow, const struct outgoing *out)
{
	__u32 flags = get32(&flow->flags);
	bool reacting = flags & FLOW_REDUCED && seq_distance(out->ack, get32(&flow->recover)) <= 0;

	return out->ece && !reacting && !(flags & FLOW_RECOVERING);
}

/* The window that the ACK advertises, up to its right edge if windows are bounded. */
static __always_inline __u32 advertised(const struct flow *flow, const struct outgoing *out, const struct trigger *trigger)
{
	if (trigger->moves_edge)
		return ahead_of(trigger->edge, out->ack);
	return any_flag(flow, FLOW_SCALE_KNOWN) ? (__u32)out->window << (out->shift & 15) : ~0u;
}

/* What the sender can still put on its way once the ACK has reached it, in wire bytes. */
static __always_inline __u64 room(const struct flow *flow, const struct outgoing *out, const struct trigger *trigger)
{
	__u32 increment = trigger->increment, offered = advertised(flow, out, trigger);
	__u32 arrived = any_flag(flow, FLOW_RECEIVED) ? ahead_of(get32(&flow->received), out->ack) : 0;
	__u32 window = reduces(flow, out) ? halved(flow) : get32(&flow->window);

	window = window + increment < window ? ~0u : window + increment;
	window = whole_segments(flow, window < offered ? window : offered);
	return saturating_sub(flow_wire(flow, window > arrived ? window - arrived : 0), get32(&flow->owed));
}

static __always_inline __u32 increment(const struct flow *flow, __u32 acked, const struct outgoing *out)
{
	__u32 mss = get32(&flow->mss);
	__u32 grown = settings.per_byte_growth ? acked : mss;

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

SUBPROGRAM int trigger_of(const struct flow *flow, const struct outgoing *out, struct trigger *trigger)
{
	__u32 mss, window, response, acked;
	__u64 payload;
	bool hole;

	if (!flow || !out || !trigger)
		return 0;
	mss = get32(&flow->mss);
	window = get32(&flow->window);
	if (governs(flow)) {
		credit_trigger(flow, out, trigger);
		return 0;
	}
	if (bounded(flow)) {
		trigger->edge = within(flow, out, largest_window(flow));
		trigger->moves_edge = true;
	}
	if (out->class == CLASS_HANDSHAKE) {
		trigger->wire = flow_wire(flow, (__u64)settings.initial_window * mss);
		return 0;
	}
	if (out->class == CLASS_REQUEST) {
		response = get32(&flow->last_response);
		window = min_u64(window, advertised(flow, out, trigger));
		trigger->wire = flow_wire(flow, response == 0 || window < response ? window : response);
		return 0;
	}
	if (out->class == CLASS_STALE)
		return 0;
	acked = ahead_of(out->ack, get32(&flow->released_ack));
	hole = any_flag(flow, FLOW_RECEIVED) && seq_distance(get32(&flow->received), out->ack) > 0;
	if (acked == 0 && out->class == CLASS_URGENT && hole) {
		trigger->wire = flow_wire(flow, mss);
		return 0;
	}
	if (acked == 0)
		return 0;
	trigger->increment = increment(flow, acked, out);
	if (trigger->moves_edge)
		trigger->increment = min_u64(trigger->increment, saturating_sub(advertised(flow, out, trigger), window));
	if (has_no_more(flow))
		return 0;
	payload = acked + div_ceil(trigger->increment, max_u32(mss, 1)) * max_u32(mss, 1);
	trigger->wire = min_u64(min_u64(flow_wire(flow, payload), room(flow, out, trigger)), still_expected(flow));
	return 0;
}

SUBPROGRAM int charge(struct flow *flow, const struct outgoing *out, const struct trigger *trigger, __u64 now)
{
	__u32 window;

	if (!flow || !out || !trigger)
		return 0;
	window = get32(&flow->window);
	if (trigger->wire > 0) {
		engage(flow);
		owe(flow, trigger->wire);
		set64(&flow->last_active, now);
		raise_flags(flow, FLOW_AWAITED | (out->class == CLASS_REQUEST ? FLOW_ASKED : 0));
	}
	if (trigger->moves_edge)
		advance(&flow->edge, trigger->edge);
	set32(&flow->window, window + trigger->increment < window ? ~0u : window + trigger->increment);
	advance(&flow->released_ack, out->ack);
	if (reduces(flow, out))
		reduce(flow, get32(&flow->received) + get32(&flow->owed));
	if (out->class == CLASS_HANDSHAKE && any_flag(flow, FLOW_HALF_OPEN))
		set64(&flow->handshake_start, now);
	return 0;
}

SUBPROGRAM int ack_class(struct flow *flow, const struct segment *segment, bool repeated, bool same_window, bool was_zero)
{
	bool hole, duplicate;
	__u32 flags;

	if (!flow || !segment)
		return 0;
	flags = get32(&flow->flags);
	if (flags & FLOW_OVERTAKEN) {
		if (get32(&flow->held) == 0)
			lower_flags(flow, FLOW_OVERTAKEN);
		else if (repeated && !segment->sack)
			return CLASS_STALE;
	}
	hole = seq_distance(get32(&flow->received), segment->ack) > 0;
	duplicate = hole && flags & FLOW_RECEIVED && !segment->dsack && (segment->sack || (repeated && same_window));
	if (duplicate && !(flags & FLOW_RECOVERING)) {
		raise_flags(flow, FLOW_RECOVERING);
		reduce(flow, get32(&flow->received));
	}
	if (any_flag(flow, FLOW_RECOVERING)) {
		if (seq_distance(segment->ack, get32(&flow->recover)) < 0 || duplicate)
			return CLASS_URGENT;
		lower_flags(flow, FLOW_RECOVERING);
	}
	return was_zero ? CLASS_URGENT : CLASS_ACK;
}

/* Small enough to be held: one frame, and no more than a request. */
static __always_inline bool is_short(const struct segment *segment)
{
	return segment->frames <= 1 && segment->payload <= LARGEST_REQUEST;
}

SUBPROGRAM int data_class(struct flow *flow, const struct segment *segment, __u64 now)
{
	bool received_all, quiet, new, idle, brief;
	__u32 response;

	if (!flow || !segment)
		return 0;
	received_all = !any_flag(flow, FLOW_RECEIVED) || get32(&flow->received) == segment->ack;
	quiet = since(now, get64(&flow->last_active)) > longest_pause(flow);
	raise_flags(flow, FLOW_ASKS);
	new = governs(flow) && !any_flag(flow, FLOW_RECEIVED);
	idle = received_all && (quiet || new || get32(&flow->owed) == 0 || any_flag(flow, FLOW_PUSHED));
	lower_flags(flow, FLOW_PUSHED | FLOW_STOPPED);
	if (!idle)
		return CLASS_DATA;
	void_debt(flow);
	disengage(flow);
	end_response(flow);
	brief = is_short(segment) && segment->payload < get32(&flow->mss) && segment->flags & PSH;
	if (!brief || !settings.charge_requests)
		return CLASS_DATA;
	response = get32(&flow->last_response);
	return response == 0 || response > 2 * get32(&flow->mss) ? CLASS_REQUEST : CLASS_DATA;
}

/* What the segment is to the gate; CLASS_NONE for what triggers nothing and is never held. */
SUBPROGRAM int classify(struct flow *flow, const struct segment *segment, __u64 now, struct outgoing *out)
{
	bool seen, repeated, same_window, was_zero;
	__u32 flags, high, class;

	if (!flow || !segment || !out)
		return 0;
	flags = get32(&flow->flags);
	if (segment->flags & RST) {
		close_handshake(flow);
		raise_flags(flow, FLOW_CLOSING);
		void_debt(flow);
		disengage(flow);
		return CLASS_NONE;
	}
	if (!(segment->flags & ACK))
		return CLASS_NONE;
	high = get32(&flow->ack_high);
	seen = flags & FLOW_ACKED;
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
		if (get64(&gate.half_open) > settings.max_half_open) {
			set64(&flow->handshake_start, now);
			return CLASS_NONE;
		}
		class = CLASS_HANDSHAKE;
	} else if (flags & FLOW_HALF_OPEN) {
		close_handshake(flow);
		class = is_short(segment) ? CLASS_HANDSHAKE : CLASS_DATA;
	} else if (segment->flags & FIN) {
		raise_flags(flow, FLOW_CLOSING);
		end_response(flow);
		class = CLASS_DATA;
	} else if (segment->payload > 0) {
		class = data_class(flow, segment, now);
	} else {
		bool recovered = !any_flag(flow, FLOW_RECOVERING);

		class = ack_class(flow, segment, repeated, same_window, was_zero);
		if (recovered && any_flag(flow, FLOW_RECOVERING))
			set32(&flow->hole_since, now);
		if (class == CLASS_URGENT && was_zero && governs(flow) && !any_flag(flow, FLOW_RECOVERING))
			class = CLASS_ACK;
	}
	if (class == CLASS_HANDSHAKE || class == CLASS_REQUEST)
		engage(flow);
	out->ack = segment->ack;
	out->ece = segment->flags & ECE && !(segment->flags & SYN);
	out->data = segment->payload > 0;
	out->repeated = repeated;
	out->window = segment->window;
	out->shift = segment->flags & SYN ? 0 : get32(&flow->scale);
	return class;
}

/* Nothing of the flow's is held that a later segment could overtake. */
static __always_inline bool only_a_copy_waits(const struct flow *flow)
{
	return get32(&flow->held) == 1 && any_flag(flow, FLOW_COPIED);
}

static __always_inline bool may_pass(const struct flow *flow, const struct segment *segment,
				     __u32 class, __u64 wire, __u64 now)
{
	bool order_kept = get32(&flow->held) == 0 || only_a_copy_waits(flow);
	__u64 held;

	if (settings.hold == HOLD_NOTHING)
		return true;
	if (settings.hold == HOLD_REQUESTS && class == CLASS_ACK)
		return order_kept;
	if (class == CLASS_URGENT || class == CLASS_STALE)
		return order_kept;
	if (class == CLASS_DATA)
		return order_kept || !is_short(segment);
	if (class == CLASS_REQUEST && !settings.gate_requests)
		return order_kept;
	held = get64(&gate.held);
	order_kept = order_kept && !(segment->flags & SYN && syns_are_arriving(now));
	return (order_kept && (wire == 0 || (held == 0 && admits(wire)))) || held >= settings.max_held;
}

/* What becomes of an outgoing segment: control's Decision. */
enum decision {
	DECIDE_PASS,
	DECIDE_HOLD,
	/* It leaves, and a copy of it is held. */
	DECIDE_SPLIT,
	/* It need not leave at all. */
	DECIDE_DISCARD,
};

/* What leaves has been charged; `out` says what is held. */
SUBPROGRAM int account_egress(struct flow *flow, const struct segment *segment, __u64 now, struct outgoing *out)
{
	struct trigger trigger = {};
	bool pass, split = false;

	if (!flow || !segment || !out)
		return DECIDE_PASS;
	if (segment->flags & SYN) {
		if (!(segment->flags & ACK)) {
			open_flow(flow, now);
			start_handshake(flow);
			set64(&flow->handshake_start, now);
		} else if (!any_flag(flow, FLOW_KNOWN)) {
			open_flow(flow, now);
		}
		if (segment->mss > 0) {
			__u32 options = segment->timestamps ? 12 : 0;
			__u32 mss = segment->mss > options ? segment->mss - options : 1;

			set32(&flow->mss, mss);
			set32(&flow->window, settings.initial_window * mss);
		}
		set32(&flow->scale, segment->wscale == NO_WSCALE ? 0 : segment->wscale);
		raise_flags(flow, FLOW_SCALE_KNOWN);
	} else if (!any_flag(flow, FLOW_KNOWN)) {
		open_flow(flow, now);
	}
	set64(&flow->last_seen, now);
	out->class = classify(flow, segment, now, out);
	/* Not without the daemon: what is left behind by a guard that is no more is a plain TCP. */
	if (settings.thin_acks && is_superfluous(flow, out) && since(now, get64(&gate.heartbeat)) <= settings.stale) {
		add64(&gate.thinned, 1);
		return DECIDE_DISCARD;
	}
	if (settings.timestamps && segment->timestamps && get64(&flow->ts_start) == 0 &&
	    get32(&flow->ts_value) != segment->tsval) {
		set32(&flow->ts_value, segment->tsval);
		set64(&flow->ts_start, now);
	}
	if (segment->timestamps && get32(&flow->tsval) != segment->tsval)
		set32(&flow->tsval, segment->tsval);
	if (out->class == CLASS_NONE) {
		add64(&gate.passed, 1);
		return DECIDE_PASS;
	}
	trigger_of(flow, out, &trigger);
	pass = may_pass(flow, segment, out->class, trigger.wire, now);
	if (!pass && governs(flow) && out->class == CLASS_ACK) {
		bool queued = get32(&flow->held) > 0;

		split = !queued && !can_go_on(flow, out->ack);
		pass = !queued || only_a_copy_waits(flow);
		if (pass)
			without_grant(flow, out, &trigger);
	}
	if (pass) {
		charge(flow, out, &trigger, now);
		add64(&gate.passed, 1);
		if (!split)
			return DECIDE_PASS;
		raise_flags(flow, FLOW_COPIED);
	}
	raise_flags(flow, FLOW_WAITED);
	add32(&flow->held, 1);
	out->first = __sync_fetch_and_add(&gate.held, 1) == 0;
	out->copy = split;
	return split ? DECIDE_SPLIT : DECIDE_HOLD;
}

/* A segment that was to be held, or its copy, could not be: charged like any other release. */
SUBPROGRAM int pass_after_all(struct flow *flow, const struct outgoing *out, __u64 now)
{
	struct trigger trigger = {};

	if (!flow || !out)
		return 0;
	lower_flags(flow, FLOW_COPIED);
	trigger_of(flow, out, &trigger);
	add32(&flow->held, -1);
	add64(&gate.held, -1);
	charge(flow, out, &trigger, now);
	add64(&gate.passed, 1);
	return 0;
}

#endif
