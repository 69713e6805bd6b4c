/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * M21TCP-A on the wire and in the kernel: the option that carries the number of senders, how a switch counts them, what a
 * sender may have under way. The laws are those of control/src/m21, to which differential tests hold them.
 *
 * Sizes are in bytes, times in ns.
 */
#ifndef ACKGATE_M21_H
#define ACKGATE_M21_H

#include <linux/types.h>
#include <stdbool.h>

#include "../../../control/core/cell.h"

/*
 * The option (RFC 6994 section 3): kind, length, identifier, number of senders in network byte order. What a switch may write
 * into and what a receiver echoes are two options, for one packet may carry both. Neither identifier is registered.
 */
#define EXPERIMENTAL_KIND 254
#define EXPERIMENT_COUNT 0x4d32
#define EXPERIMENT_ECHO 0x4d33
#define NUMBER_OPTION 8

struct number_option {
	__u8 kind;
	__u8 length;
	__be16 experiment;
	__be32 number;
};

/* A segment is never sent more seldom than this, whatever the number of senders says. */
#define LONGEST_PERIOD 1000000000ull

/*
 * FlowCounter (control/src/m21/counter.rs): flows by the period in which they were last seen. A word holds a period in its upper
 * half and its count in the lower; there is one for this period and one for that before, so nobody has to move counts on when a
 * period begins, and no lock is needed.
 */
struct flow_counter {
	__u64 words[2];
};

static inline __attribute__((always_inline)) __u32 m21_flows_of(const struct flow_counter *counter, __u64 period)
{
	__u64 word = get64(&counter->words[period & 1]);

	return word >> 32 == (period & 0xffffffff) ? (__u32)word : 0;
}

/* N: the flows seen in this period or the one before. */
static inline __attribute__((always_inline)) __u32 m21_flows(const struct flow_counter *counter, __u64 period)
{
	return m21_flows_of(counter, period) + m21_flows_of(counter, period - 1);
}

/* Cap (control/src/m21/cap.rs): B and MHS of Eq. 1, and the time that B and an eighth more take at the sender's own rate. */
struct m21_cap {
	__u32 buffer;
	__u32 header;
	__u64 drain;
};

/* Eq. 1, bytes of payload in the congestion window for segments of `mss`, at least one segment; 0 where the senders' segments do
 * not fit the buffer, one each. Not for `senders` 0, which says nothing. */
static inline __attribute__((always_inline)) __u32 m21_window(const struct m21_cap *cap, __u32 senders, __u32 mss)
{
	__u32 share = cap->buffer / senders;

	if (share >= cap->header + mss)
		return share - cap->header;
	return ((__u64)mss + cap->header) * senders <= cap->buffer ? mss : 0;
}

/* Below one segment: the time between two. At most LONGEST_PERIOD. */
static inline __attribute__((always_inline)) __u64 m21_period(const struct m21_cap *cap, __u32 senders, __u32 mss, __u64 rtt)
{
	__u64 load = ((__u64)mss + cap->header) * senders;
	__u64 round = rtt > cap->drain / 2 ? rtt * 2 : cap->drain;
	__u64 period;

	if (round > LONGEST_PERIOD || load > ~0ull / LONGEST_PERIOD)
		return LONGEST_PERIOD;
	period = round * load / cap->buffer;
	return period < LONGEST_PERIOD ? period : LONGEST_PERIOD;
}

#endif
