/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The members of the kernel's own structs that the lab's programs use; where they stand is found out when the programs are
 * loaded (BTF, "compile once, run everywhere").
 */
#ifndef ACKGATE_LAB_KERNEL_H
#define ACKGATE_LAB_KERNEL_H

#include <linux/types.h>
#include <stdbool.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock {
	int sk_rcvbuf;
};

struct inet_connection_sock {
	__u64 icsk_ca_priv[13];
	struct {
		__u8 pending;
	} icsk_ack;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 snd_cwnd;
	__u32 snd_ssthresh;
	__u32 prior_cwnd;
	__u32 delivered;
	__u32 delivered_ce;
	__u8 ecn_flags;
};

/* The window is in segments. */
struct tcp_congestion_ops {
	void (*init)(struct sock *sk);
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, __u32 event);
	void (*in_ack_event)(struct sock *sk, __u32 flags);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	__u32 flags;
};

#pragma clang attribute pop

/* enum tcp_ca_event, enum tcp_ca_state */
#define CA_EVENT_ECN_NO_CE 4
#define CA_EVENT_ECN_IS_CE 5
#define TCP_CA_RECOVERY 3
#define TCP_CA_LOSS 4
/* tcp_congestion_ops.flags: wants ECN negotiated, and every segment to be ECT. */
#define TCP_CONG_NEEDS_ECN 2
/* tcp_sock.ecn_flags: the next ACKs carry ECN-Echo. */
#define TCP_ECN_DEMAND_CWR 4
/* inet_connection_sock.icsk_ack.pending: an ACK is being delayed. */
#define ICSK_ACK_TIMER 2

#endif
