/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Retransmission timers, as far as they can be known: no hold outlives them. Our own TCP's floor may be set, and shows when a request
 * that is held is sent again. A sender's shows when data comes again that was received and whose ACK is held.
 */
#ifndef ACKGATE_CORE_TIMER_H
#define ACKGATE_CORE_TIMER_H

#include "flow.h"

/* A sender's evidence moves what is known by this part. */
#define TIMER_GAIN 8
/* A hold that nobody's timer has ended moves it up by this part: one hasty sender among sixteen sets no limit for all. */
#define TIMER_RISE 128
/* Parts of a timer that a hold may take: what was released has to arrive before it fires. */
#define TIMER_SHARE(timer) ((timer) / 4 * 3)

/* So many turns of all flows fit into the longest hold; with a short timer of our own TCP, into less. */
#define TURNS_PER_HOLD 3

/* Lets a wait last no longer than `timer` allows, if there is one. */
INLINE __u64 below_timer(__u64 wait, __u64 timer)
{
	return timer > 0 ? min_u64(wait, TIMER_SHARE(timer)) : wait;
}

/* The timer of our own TCP: the shorter of what is set and what was seen. */
INLINE __u64 own_timer(CORE_ONLY)
{
	__u64 set = SETTINGS->own_timer, seen = get64(&GATE->own_timer);

	return set > 0 && seen > 0 ? min_u64(set, seen) : max_u64(set, seen);
}

/* The longest hold of an ACK. */
INLINE __u64 longest_ack_hold(CORE_ONLY)
{
	return below_timer(SETTINGS->max_hold, get64(&GATE->peer_timer));
}

/* The longest turn, ns. */
INLINE __u64 longest_turn(CORE_ONLY)
{
	return SETTINGS->max_hold / TURNS_PER_HOLD;
}

INLINE bool timer_is_short(CORE_ONLY)
{
	__u64 timer = own_timer(CORE_ALONE);

	return timer > 0 && TIMER_SHARE(timer) < longest_turn(CORE_ALONE);
}

/* A timer has fired after `wait`. Of sixteen that do, about one is faster than what is known then. */
INLINE void note_timer(WITH_CORE __u64 *timer, __u64 wait)
{
	__u64 known = get64(timer);

	if (known == 0)
		known = SETTINGS->max_hold;
	wait = max_u64(wait, SETTINGS->min_interval);
	if (wait < known)
		set64(timer, known - (known - wait) / TIMER_GAIN);
}

/* Something was held for `wait`, and no timer fired: that tells something from this part of what is known on. */
INLINE void note_waited(WITH_CORE __u64 *timer, __u64 wait, __u64 part)
{
	__u64 known = get64(timer);

	if (known > 0 && wait >= known / part)
		set64(timer, known >= 2 * SETTINGS->max_hold ? 0 : known + known / TIMER_RISE);
}

/* Our TCP's timer has fired for what is held since `wait`. */
INLINE void note_own_timer(WITH_CORE __u64 wait)
{
	note_timer(CORE &GATE->own_timer, wait);
}

/* A sender has sent again what was received, `pause` after the last that it heard. */
INLINE void note_peer_timer(WITH_CORE __u64 pause)
{
	note_timer(CORE &GATE->peer_timer, pause);
}

/* An ACK was held for `wait`, and its sender waited. */
INLINE void note_peer_waited(WITH_CORE __u64 wait)
{
	note_waited(CORE &GATE->peer_timer, wait, 2);
}

/* A request was, and our own TCP waited. Requests leave without a grant after half of the longest hold. */
INLINE void note_host_waited(WITH_CORE __u64 wait)
{
	note_waited(CORE &GATE->own_timer, wait, 4);
}

#endif
