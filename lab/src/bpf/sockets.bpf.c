// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What the lab asks of its senders' TCP: every sample of the round-trip time, counted; and, for PAC's Figure 2, a congestion window
 * that never grows beyond so many segments. Connections that the lab's hosts accept take part, nothing else.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define SOL_TCP 6
#define MOST_NAMESPACES 1024
/* Cells of the histogram; the last one also holds what is longer. */
#define CELLS 16384

/* Microseconds of a cell. */
const volatile __u32 cell_us = 1;
/* The largest congestion window in segments; 0 for none. */
const volatile __u32 window;

struct samples {
	__u64 cells[CELLS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct samples);
} samples SEC(".maps");

/* Network namespaces whose sockets take part, by cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST_NAMESPACES);
	__type(key, __u64);
	__type(value, __u8);
} namespaces SEC(".maps");

static __always_inline void count(__u32 us)
{
	__u32 first = 0, cell = us / cell_us;
	struct samples *all = bpf_map_lookup_elem(&samples, &first);

	if (!all)
		return;
	if (cell >= CELLS)
		cell = CELLS - 1;
	/* The verifier does not see the bound above in the register that it checks; CELLS is a power of two. */
	asm volatile("" : "+r"(cell));
	cell &= CELLS - 1;
	__sync_fetch_and_add(&all->cells[cell], 1);
}

SEC("sockops")
int sender(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_netns_cookie(ctx);
	int most = window;

	if (!bpf_map_lookup_elem(&namespaces, &cookie))
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG);
		if (most)
			bpf_setsockopt(ctx, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &most, sizeof(most));
		break;
	case BPF_SOCK_OPS_RTT_CB:
		/* Linux 6.10: the sample and the smoothed time. Before, both are 0. */
		count(ctx->args[0]);
		break;
	}
	return 1;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
