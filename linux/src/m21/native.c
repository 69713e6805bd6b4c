/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The cap of m21.h, for the comparison with control's; nothing else of this process calls it. */
#include "../bpf/m21.h"

__u32 ackgate_m21_window(const struct m21_cap *cap, __u32 senders, __u32 mss)
{
	return m21_window(cap, senders, mss);
}

__u64 ackgate_m21_period(const struct m21_cap *cap, __u32 senders, __u32 mss, __u64 rtt)
{
	return m21_period(cap, senders, mss, rtt);
}
