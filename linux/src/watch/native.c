/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The accounting of watch.h for the packets of a capture. */
#include "../bpf/watch.h"

void ackgate_watch_segment(struct watch_flow *flow, struct watch_bin *bin, const struct watch_arrival *arrival, __u64 now,
			   __u64 stall)
{
	watch_segment(flow, bin, arrival, now, stall);
}
