/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What waits in a port's queue, as a program at its egress sees it, which a frame passes before its queue. Needs the kernel's BTF
 * and Linux 6.2.
 */
#ifndef ACKGATE_QUEUE_H
#define ACKGATE_QUEUE_H

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* The members that are read; where they stand is found out when the program is loaded. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct gnet_stats_queue {
	__u32 backlog;
};

struct Qdisc {
	struct gnet_stats_queue qstats;
};

struct netdev_queue {
	struct Qdisc *qdisc_sleeping;
};

struct net_device {
	struct netdev_queue *_tx;
};

struct sk_buff {
	struct net_device *dev;
};

#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;

/* Bytes of frames in the queueing discipline of the port's first transmit queue: its root, unless that is `mq`. */
static __always_inline __u32 queued(struct __sk_buff *context)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(context);

	return BPF_CORE_READ(skb, dev, _tx, qdisc_sleeping, qstats.backlog);
}

#endif
