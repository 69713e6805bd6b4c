/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What `ackgate watch` makes of a segment that arrives: the only place where it is written down. The BPF program counts live
 * traffic by it, linux/src/watch/native.c the packets of a capture. Sizes are in bytes, times in ns.
 */
#ifndef ACKGATE_WATCH_H
#define ACKGATE_WATCH_H

#include <linux/types.h>
#include <stdbool.h>

/* Bins that are kept for each processor; the reader comes in time. A power of two. */
#define WATCH_BINS 4096
/* Connections that are told apart; a power of two, in sets of WATCH_WAYS. */
#define WATCH_FLOWS 16384
#define WATCH_WAYS 4
/* Silence after which a connection's place may be given to another. */
#define WATCH_IDLE 10000000000ull
/* A segment that comes this soon after the hole that it fills was overtaken on its way; one that comes later was sent again, for
 * that takes a round trip and the queue's time. */
#define WATCH_REORDERING 250000ull

/* One bin of one processor: a cache line. */
struct watch_bin {
	/* Time since boot in widths of a bin. */
	__u64 number;
	/* Wire bytes that arrived, of whatever protocol. */
	__u64 bytes;
	/* Frames that arrived. */
	__u32 frames;
	/* Connections that data arrived on. */
	__u32 senders;
	/* Frames marked CE. */
	__u32 marked;
	/* Connections whose sender has come back after a silence as after a retransmission timeout. */
	__u32 stalls;
	/* Payload that arrived late, because it had been lost. */
	__u32 retransmitted;
	/* Payload that arrived late, because it had been overtaken. */
	__u32 out_of_order;
	/* Nothing. */
	__u32 reserved[6];
};

#define WATCH_SEEN 1
/* What arrived last ended with a PSH: the sender may have no more. */
#define WATCH_PUSHED 2

/* One connection, seen from here. */
struct watch_flow {
	/* Of the addresses and ports; 0 for a place that is free. */
	__u64 hash;
	/* When data last arrived. */
	__u64 last;
	/* When the last hole was seen. */
	__u64 hole_since;
	/* The last bin that it was counted in. */
	__u64 last_bin;
	/* Payload that arrived. */
	__u64 bytes;
	/* As in the bins. */
	__u64 retransmitted;
	/* As in the bins. */
	__u64 out_of_order;
	/* Sequence number after the highest byte that arrived. */
	__u32 highest;
	/* Bytes below it that have not arrived. */
	__u32 missing;
	/* As in the bins. */
	__u32 stalls;
	/* WATCH_* */
	__u32 flags;
	/* Addresses, IPv4 as IPv6 (RFC 4291 section 2.5.5.2), and ports. */
	__u8 local[16];
	/* See local. */
	__u8 remote[16];
	/* See local. */
	__u16 local_port;
	/* See local. */
	__u16 remote_port;
	/* Nothing. */
	__u32 reserved;
};

/* A segment with data, or a SYN. */
struct watch_arrival {
	/* First sequence number. */
	__u32 seq;
	/* Payload. */
	__u32 payload;
	/* It opens a connection. */
	bool syn;
	/* It carries PSH. */
	bool push;
};

/* `stall`: silence from which a sender's return looks like a timeout. */
static inline __attribute__((always_inline)) void watch_segment(struct watch_flow *flow, struct watch_bin *bin,
								const struct watch_arrival *arrival, __u64 now, __u64 stall)
{
	__u32 end = arrival->seq + arrival->payload;
	__s32 ahead;

	if (arrival->syn) {
		flow->flags = WATCH_SEEN | WATCH_PUSHED;
		flow->missing = 0;
		flow->highest = end + 1;
		flow->last = now;
		return;
	}
	if (flow->last_bin != bin->number) {
		flow->last_bin = bin->number;
		bin->senders++;
	}
	ahead = flow->flags & WATCH_SEEN ? (__s32)(arrival->seq - flow->highest) : 0;
	/* Probes of a closed window and of a connection's life repeat one byte (RFC 9293 section 3.8.4, 3.8.6.1). */
	if (ahead < 0 && arrival->payload <= 1)
		return;
	if (flow->flags & WATCH_SEEN && now - flow->last >= stall && ahead <= 0 &&
	    (flow->missing > 0 || !(flow->flags & WATCH_PUSHED))) {
		flow->stalls++;
		bin->stalls++;
	}
	if (ahead > 0) {
		flow->missing += ahead;
		flow->hole_since = now;
	} else if (ahead < 0) {
		__u32 late = 0u - (__u32)ahead < arrival->payload ? 0u - (__u32)ahead : arrival->payload;

		if (flow->missing > 0 && now - flow->hole_since < WATCH_REORDERING) {
			flow->out_of_order += late;
			bin->out_of_order += late;
		} else {
			flow->retransmitted += late;
			bin->retransmitted += late;
		}
		flow->missing = flow->missing > late ? flow->missing - late : 0;
	}
	if (!(flow->flags & WATCH_SEEN) || (__s32)(end - flow->highest) > 0)
		flow->highest = end;
	flow->flags = WATCH_SEEN | (arrival->push ? WATCH_PUSHED : 0);
	flow->bytes += arrival->payload;
	flow->last = now;
}

#endif
