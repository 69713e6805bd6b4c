// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * DCTCP for kernels that were built without, from RFC 8257. What the RFC leaves to the TCP that it is part of (slow start,
 * congestion avoidance, loss recovery) is the kernel's NewReno.
 */
#include "kernel.h"

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* BPF_PROG gives every program a context that none needs, and TCP some more. */
#pragma clang diagnostic ignored "-Wunused-parameter"

/* Alpha is a fraction of this. */
#define ONE 1024u
/* The gain g as a shift: 1/16 (RFC 8257 section 4.2). */
#define GAIN_SHIFT 4
#define LEAST_WINDOW 2u

/* Per connection, in `icsk_ca_priv`; both ends run this, and each is sender and receiver. */
struct dctcp {
	/* DCTCP.Alpha */
	__u32 alpha;
	/* DCTCP.WindowEnd */
	__u32 window_end;
	/* The kernel's counts of segments delivered, and of those marked, when the window began. */
	__u32 delivered;
	__u32 delivered_ce;
	/* What had been received before the last change of DCTCP.CE. */
	__u32 received;
	/* DCTCP.CE */
	bool ce;
};

extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

static struct dctcp *state(struct sock *sk)
{
	return (struct dctcp *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __u32 at_least(__u32 least, __u32 value)
{
	return value > least ? value : least;
}

static void begin_window(const struct tcp_sock *tp, struct dctcp *dctcp)
{
	dctcp->window_end = tp->snd_nxt;
	dctcp->delivered = tp->delivered;
	dctcp->delivered_ce = tp->delivered_ce;
}

SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	const struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *dctcp = state(sk);

	/* RFC 8257 section 4.2: 1, so that the first marks halve the window. */
	dctcp->alpha = ONE;
	dctcp->received = tp->rcv_nxt;
	dctcp->ce = false;
	begin_window(tp, dctcp);
}

/* RFC 8257 section 3.3: once per window of data, Alpha = Alpha * (1 - g) + g * M. */
SEC("struct_ops")
void BPF_PROG(dctcp_in_ack_event, struct sock *sk, __u32 flags)
{
	const struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *dctcp = state(sk);
	__u32 delivered, marked, alpha;

	if ((__s32)(tp->snd_una - dctcp->window_end) < 0)
		return;
	delivered = tp->delivered - dctcp->delivered;
	marked = tp->delivered_ce - dctcp->delivered_ce;
	if (delivered > 0) {
		if (marked > delivered)
			marked = delivered;
		alpha = dctcp->alpha;
		/* Rounded up, or a small Alpha would never reach 0. */
		alpha -= (alpha + (1u << GAIN_SHIFT) - 1) >> GAIN_SHIFT;
		alpha += (__u32)(((__u64)marked * ONE / delivered) >> GAIN_SHIFT);
		dctcp->alpha = alpha < ONE ? alpha : ONE;
	}
	begin_window(tp, dctcp);
}

/* RFC 8257 section 3.3: cwnd = cwnd * (1 - Alpha / 2). The kernel asks when it enters CWR, once per window of data. */
SEC("struct_ops")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	const struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 window = tp->snd_cwnd;

	return at_least(LEAST_WINDOW, window - (__u32)(((__u64)window * state(sk)->alpha) / (2 * ONE)));
}

/* RFC 8257 section 3.5: loss is no milder than without DCTCP. */
SEC("struct_ops")
void BPF_PROG(dctcp_set_state, struct sock *sk, __u8 to)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (to == TCP_CA_RECOVERY || to == TCP_CA_LOSS)
		tp->snd_ssthresh = at_least(LEAST_WINDOW, tp->prior_cwnd / 2);
}

/* RFC 8257 section 3.2: when the CE state of arriving segments changes, what came before is acknowledged at once with the
 * old state; from then on ACKs echo the new one. */
SEC("struct_ops")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, __u32 event)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct dctcp *dctcp = state(sk);
	bool ce;

	if (event != CA_EVENT_ECN_IS_CE && event != CA_EVENT_ECN_NO_CE)
		return;
	ce = event == CA_EVENT_ECN_IS_CE;
	if (ce != dctcp->ce) {
		if (tp->inet_conn.icsk_ack.pending & ICSK_ACK_TIMER) {
			if (dctcp->ce)
				tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
			else
				tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
			bpf_tcp_send_ack(tp, dctcp->received);
		}
		dctcp->ce = ce;
	}
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
	dctcp->received = tp->rcv_nxt;
}

SEC("struct_ops")
void BPF_PROG(dctcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops dctcp = {
	.init = (void *)dctcp_init,
	.ssthresh = (void *)dctcp_ssthresh,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.set_state = (void *)dctcp_set_state,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.name = "dctcp",
	.flags = TCP_CONG_NEEDS_ECN,
};

char LICENSE[] SEC("license") = "Dual BSD/GPL";
