/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Sequence space (RFC 9293 section 3.4) and what a segment weighs.
 */
#ifndef ACKGATE_CORE_SEGMENT_H
#define ACKGATE_CORE_SEGMENT_H

#include "types.h"
#include "cell.h"

/* Signed distance in sequence space (RFC 9293 section 3.4). */
INLINE __s32 seq_distance(__u32 from, __u32 origin)
{
	return (__s32)(from - origin);
}

INLINE __u32 later(__u32 a, __u32 b)
{
	return seq_distance(a, b) < 0 ? b : a;
}

/* Moves a sequence number forward, never back. */
INLINE void advance(__u32 *cell, __u32 to)
{
	__u32 now = get32(cell);

ROLLED
	for (int i = 0; i < SWAP_TRIES && seq_distance(now, to) < 0; i++) {
		__u32 seen = __sync_val_compare_and_swap(cell, now, to);

		if (seen == now)
			return;
		now = seen;
	}
}

/* The same for two neighbouring ones, the first at a multiple of eight bytes, in one step. */
INLINE void advance_both(__u32 *cells, __u32 first, __u32 second)
{
	__u64 now = get64((__u64 *)cells);

ROLLED
	for (int i = 0; i < SWAP_TRIES; i++) {
		union {
			__u64 both;
			__u32 each[2];
		} to = { .both = now };
		__u64 seen;

		to.each[0] = later(to.each[0], first);
		to.each[1] = later(to.each[1], second);
		if (to.both == now)
			return;
		seen = __sync_val_compare_and_swap((__u64 *)cells, now, to.both);
		if (seen == now)
			return;
		now = seen;
	}
}

INLINE __u32 ahead_of(__u32 a, __u32 b)
{
	__s32 distance = seq_distance(a, b);

	return distance > 0 ? distance : 0;
}

/* Bytes on the wire: payload plus one header per frame (Segment::wire_bytes). */
INLINE __u32 wire_bytes(const struct segment *segment)
{
	return segment->payload + (__u32)segment->frames * segment->header;
}

/* Sequence number after the segment: SYN and FIN count as one byte each (Segment::end). */
INLINE __u32 segment_end(const struct segment *segment)
{
	return segment->seq + segment->payload + !!(segment->flags & SYN) + !!(segment->flags & FIN);
}

#endif
