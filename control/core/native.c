/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The decision core for a process: what control/src/decision.rs calls. */
#include "egress.h"
#include "silence.h"

#define STATE const struct settings *core_settings, struct gate *core_gate

void ackgate_open(STATE, struct flow *flow, __u64 now)
{
	open_flow(CORE flow, now);
}

void ackgate_close(STATE, struct flow *flow)
{
	close_flow(CORE flow);
}

bool ackgate_is_over(const struct flow *flow)
{
	return is_over(flow);
}

bool ackgate_tell_handshake(STATE, struct flow *flow, __u32 scale, __u32 rtt)
{
	return tell_handshake(flow, scale, rtt);
}

void ackgate_untell_scale(STATE, struct flow *flow, __u32 scale)
{
	untell_scale(flow, scale);
}

bool ackgate_ingress(STATE, struct flow *flow, const struct segment *segment, __u64 now)
{
	return account_ingress(CORE flow, segment, now);
}

void ackgate_note_other(STATE, __u64 bytes, __u32 frames)
{
	note_other(CORE bytes, frames);
}

__u32 ackgate_egress(STATE, struct flow *flow, const struct segment *segment, __u64 now, struct outgoing *out)
{
	return account_egress(CORE flow, segment, now, out);
}

void ackgate_pass_after_all(STATE, struct flow *flow, struct outgoing *out, __u64 now)
{
	pass_after_all(CORE flow, out, now);
}

void ackgate_trigger(STATE, const struct flow *flow, const struct outgoing *out, struct trigger *trigger)
{
	struct view view;

	look(CORE flow, &view);
	trigger_of(CORE flow, out, &view, trigger);
}

void ackgate_without_grant(STATE, const struct flow *flow, const struct outgoing *out, struct trigger *trigger)
{
	struct view view;

	look(CORE flow, &view);
	split_off(CORE flow, out, &view, trigger);
}

void ackgate_charge(STATE, struct flow *flow, const struct outgoing *out, const struct trigger *trigger, __u64 now)
{
	struct view view;

	look(CORE flow, &view);
	charge(CORE flow, out, trigger, &view, now);
}

__u16 ackgate_window(STATE, const struct flow *flow, const struct outgoing *out)
{
	return window_field(CORE flow, out);
}

bool ackgate_told_less(STATE, const struct flow *flow, struct outgoing *out)
{
	return told_less(CORE flow, out);
}

void ackgate_leave_to_tcp(STATE, struct flow *flow, const struct outgoing *out)
{
	leave_to_tcp(CORE flow, out);
}

void ackgate_void(STATE, struct flow *flow)
{
	void_debt(CORE flow);
}

__u64 ackgate_longest_request_hold(STATE)
{
	return longest_request_hold(CORE_ALONE);
}

__u64 ackgate_longest_ack_hold(STATE)
{
	return longest_ack_hold(CORE_ALONE);
}

void ackgate_note_peer_waited(STATE, __u64 wait)
{
	note_peer_waited(CORE wait);
}

void ackgate_note_host_waited(STATE, __u64 wait)
{
	note_host_waited(CORE wait);
}

bool ackgate_void_if_silent(STATE, struct flow *flow, __u64 now)
{
	return void_if_silent(CORE flow, now);
}

void ackgate_note_overtaken(STATE, struct flow *flow)
{
	note_overtaken(CORE flow);
}

__u64 ackgate_silent_at(STATE, const struct flow *flow)
{
	return silent_at(CORE flow);
}

void ackgate_roll(STATE, __u64 now)
{
	roll(CORE now);
}

__u64 ackgate_drain(STATE)
{
	return drain(CORE link_rate(CORE_ALONE));
}

bool ackgate_syns_are_arriving(STATE, __u64 now)
{
	return syns_are_arriving(CORE now);
}

__u64 ackgate_settled_at(STATE)
{
	return settled_at(CORE_ALONE);
}

bool ackgate_governs(STATE, const struct flow *flow)
{
	return governs(CORE flow);
}

bool ackgate_at_edge(STATE, const struct flow *flow)
{
	return at_edge(flow);
}

__u64 ackgate_link_rate(STATE)
{
	return link_rate(CORE_ALONE);
}

__u64 ackgate_in_flight(STATE)
{
	return in_flight(CORE_ALONE);
}

bool ackgate_admits(STATE, __u64 trigger, __u64 holds, __u64 beside)
{
	return admits(CORE trigger, holds, beside);
}

/* What the flow's path holds, as debts are booked, and what a segment of that class may set in motion beside the budget. */
void ackgate_path(STATE, const struct flow *flow, __u32 class, __u64 *holds, __u64 *more)
{
	struct view view;

	look(CORE flow, &view);
	*holds = view.booked;
	*more = beside(CORE class, &view);
}

__u64 ackgate_pipe(STATE, __u64 holds)
{
	return pipe(CORE holds, are_few_now(CORE_ALONE));
}

__u64 ackgate_pipe_of(STATE, const struct flow *flow)
{
	return pipe_of(CORE flow);
}

__u64 ackgate_room_needed(STATE, __u64 trigger, __u64 holds, __u64 beside)
{
	return room_needed(CORE trigger, holds, beside);
}

bool ackgate_keeps_pace(STATE, const struct flow *flow, const struct outgoing *out, const struct trigger *trigger, __u64 now)
{
	struct view view;

	look(CORE flow, &view);
	return keeps_pace(CORE flow, out, trigger, &view, now);
}

__u64 ackgate_keeps_pace_at(STATE, const struct flow *flow, const struct outgoing *out, const struct trigger *trigger, __u64 now)
{
	struct view view;

	look(CORE flow, &view);
	return keeps_pace_at(CORE flow, out, trigger, &view, now);
}
