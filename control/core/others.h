/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Other traffic: what is no TCP, or is left alone, shares link and buffer, and nothing here can hold it back. What is granted must fit
 * beside it: of the port's buffer it has the part that it has of the link (left_of_link, left_of_buffer).
 *
 * But only what takes its part whatever it is left. Other congestion control, in datagrams, tunnels or connections that are left alone,
 * takes whatever it is left, and would have all of the link in the end. It shows: as soon as it is left its part, it takes more. Then it is left
 * nothing for a while, and for longer each time.
 */
#ifndef ACKGATE_CORE_OTHERS_H
#define ACKGATE_CORE_OTHERS_H

#include "path.h"

/* What each frame takes on the wire beside its bytes: preamble, checksum and gap (IEEE 802.3 clause 4). */
#define FRAME_GAP 24
/* How long a look takes, ns; it counts if our own traffic had at least a sixteenth of the link, or waits. */
#define LOOK_TIME (1ull << 24)
/* Looks of a period, whose least counts: until others are left their part, and from then on, for what takes more does it at once. */
#define LOOKS 8
#define LOOKS_AGAIN 3
/* What is less is neglected, and no more is left, in 1/1024 of the link: what has more can hardly show that it takes more. */
#define FEW_OTHERS 10
#define MOST_OTHERS 700
/* For so long, ns, is left nothing what has taken more: at first, and at most. Who has kept to its part for longer is new. */
#define FIRST_DOUBT (1ull << 30)
#define LONGEST_DOUBT (1ull << 36)

/* Frames arrive that are no TCP, or nobody's here. */
INLINE void note_other(WITH_CORE __u64 bytes, __u32 frames)
{
	add64(&GATE->other_bytes, bytes + frames * FRAME_GAP);
}

/* What others may take once they are left `part`: where that was measured, frames of theirs were lost. */
INLINE __u32 most_kept(__u32 part)
{
	return part + part / 4 + 32;
}

INLINE void leave_others(WITH_CORE __u32 part, __u64 now)
{
	set32(&GATE->other_part, part);
	set32(&GATE->other_limit, part > 0 ? most_kept(part) : 0);
	set64(&GATE->other_since, now);
}

/* What they leave of the cap: two frames at least. */
INLINE __u64 most_in_flight(CORE_ONLY)
{
	__u64 cap = get64(&GATE->cap);

	return max_u64(left_of_buffer(CORE cap), min_u64(cap, 2 * FULL_FRAME));
}

/* They have taken more than they were left. */
INLINE void doubt_others(WITH_CORE __u64 now)
{
	__u64 before = get64(&GATE->other_doubt), doubt = min_u64(2 * before, LONGEST_DOUBT);

	if (before == 0 || since(now, get64(&GATE->other_since)) > LONGEST_DOUBT)
		doubt = FIRST_DOUBT;
	set64(&GATE->other_doubt, doubt);
	leave_others(CORE 0, now + doubt);
}

/* A period is over, in which others never took less than `least`. */
INLINE void judge_others(WITH_CORE __u32 least, __u64 now)
{
	__u32 limit = get32(&GATE->other_limit);

	if (limit == 0 || least == 0) {
		if (now >= get64(&GATE->other_since))
			leave_others(CORE min_u64(least, MOST_OTHERS), now);
	} else if (least > limit) {
		doubt_others(CORE now);
	} else {
		set32(&GATE->other_part, min_u64(least, MOST_OTHERS));
	}
}

/* A look is over: others had that part of the link. */
INLINE void look_at_others(WITH_CORE __u32 part, __u64 now)
{
	__u32 looks = get32(&GATE->other_looks);
	__u32 least = looks > 0 ? min_u64(part, get32(&GATE->other_least)) : part;

	if (part < get32(&GATE->other_part))
		set32(&GATE->other_part, part);
	if (++looks >= (get32(&GATE->other_limit) > 0 ? LOOKS_AGAIN : LOOKS)) {
		judge_others(CORE least < FEW_OTHERS ? 0 : least, now);
		looks = 0;
	}
	set32(&GATE->other_least, least);
	set32(&GATE->other_looks, looks);
}

/* What of the link has been taken since the last look. As published, nobody looks. */
SUBPROGRAM int count_others(WITH_CORE __u64 now)
{
	__u64 elapsed = since(now, get64(&GATE->other_looked)), link = whole_link(CORE_ALONE), all, ours, others;

	if (elapsed < LOOK_TIME || !SETTINGS->long_paths)
		return 0;
	all = (link > 0 ? link : peak_rate(CORE_ALONE)) * elapsed >> 20;
	ours = get64(&GATE->bytes) - get64(&GATE->ours_before);
	others = get64(&GATE->other_bytes) - get64(&GATE->other_before);
	set64(&GATE->ours_before, get64(&GATE->ours_before) + ours);
	set64(&GATE->other_before, get64(&GATE->other_before) + others);
	set64(&GATE->other_looked, now);
	if (all == 0)
		return 0;
	set32(&GATE->other_seen, min_u64(others * 1024 / all, 1024));
	if (ours >= all / 16 || get64(&GATE->held) > 0)
		look_at_others(CORE get32(&GATE->other_seen), now);
	return 0;
}

#endif
