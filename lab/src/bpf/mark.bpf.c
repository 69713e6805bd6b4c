// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The switch port's marking, for kernels without RED: CE on an arriving ECT frame when the queue now holds more than the
 * threshold (Alizadeh et al., DCTCP, section 3.1). Attached to the port's egress, which a frame passes before its queue.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "../../../linux/src/bpf/queue.h"

/* In bytes of frames. */
const volatile __u32 threshold;

SEC("tc")
int mark(struct __sk_buff *context)
{
	if (queued(context) > threshold)
		bpf_skb_ecn_set_ce(context);
	/* TC_ACT_UNSPEC: on to the queue. */
	return -1;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
