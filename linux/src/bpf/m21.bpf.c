// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * M21TCP-A's hosts (Adesanmi and Mhamdi, sections IV.2 and IV.3): what the kernel's TCP asks about its sockets.
 *
 * As a sender, a host leaves room in what counts at a switch for the number of senders, and keeps its congestion window below what
 * the number that comes back allows. As a receiver it echoes the number of the latest segment. A peer that knows nothing of this
 * ignores the options, and its connections have no cap.
 *
 * Connections that were there before are left alone.
 */
#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "m21.h"

#define TCP_HEADER_SYN 2
#define TCP_HEADER_ACK 16
#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47
#define SOL_TCP 6
#define UNPACED (~0u)
/* What a socket without a clamp has, as far as the socket option can say it. */
#define UNCLAMPED 0x7fffffff
#define MOST_NAMESPACES 4096

/* Eq. 1's constants. */
const volatile struct m21_cap cap;

/* What was done so far. */
struct host_books {
	/* Segments that brought a number from a switch, and ACKs that brought one back. */
	__u64 numbers;
	__u64 echoes;
	/* Changes of a congestion window's clamp, and of a pace below one segment per round trip. */
	__u64 clamped;
	__u64 paced;
	/* The kernel did not take one. */
	__u64 refused;
} books;

/* Network namespaces whose sockets take part, by cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST_NAMESPACES);
	__type(key, __u64);
	__type(value, __u8);
} namespaces SEC(".maps");

/* One connection's. */
struct connection {
	/* m21::Echo: the number in the latest segment. */
	__u32 latest;
	/* What was last set; 0 for nothing. */
	__u32 clamp;
	__u32 pace;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

static __always_inline bool is_ours(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_netns_cookie(ctx);

	return bpf_map_lookup_elem(&namespaces, &cookie) != NULL;
}

static __always_inline struct connection *connection_of(struct bpf_sock_ops *ctx, __u64 flags)
{
	struct bpf_sock *sk = ctx->sk;

	return sk && ctx->is_fullsock ? bpf_sk_storage_get(&connections, sk, NULL, flags) : NULL;
}

/* The number in an option of the segment at hand, or of the SYN that is being answered; -1 where there is no such option. */
static __always_inline __s64 number_in(struct bpf_sock_ops *ctx, __u16 experiment, __u64 where)
{
	struct number_option option = {
		.kind = EXPERIMENTAL_KIND,
		/* What to look for: kind, length and identifier. */
		.length = 4,
		.experiment = bpf_htons(experiment),
	};

	if (bpf_load_hdr_opt(ctx, &option, sizeof(option), where) != NUMBER_OPTION)
		return -1;
	return bpf_ntohl(option.number);
}

static __always_inline void set(struct bpf_sock_ops *ctx, int level, int name, __u32 value)
{
	if (bpf_setsockopt(ctx, level, name, &value, sizeof(value)))
		add64(&books.refused, 1);
}

/* The cap of Eq. 1, in whole segments. A window that is larger already comes down with the next ACK that finds it used up; one
 * that has sent nothing comes down at once. */
static __always_inline void clamp(struct bpf_sock_ops *ctx, struct connection *connection, __u32 segments)
{
	if (connection->clamp != segments) {
		connection->clamp = segments;
		add64(&books.clamped, 1);
		set(ctx, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, segments);
	}
	if (ctx->snd_cwnd > segments && ctx->data_segs_out == 0)
		set(ctx, SOL_TCP, TCP_BPF_IW, segments);
}

/* Bytes per second, UNPACED for as fast as may be. What differs by less than an eighth is left as it is. */
static __always_inline void pace(struct bpf_sock_ops *ctx, struct connection *connection, __u32 rate)
{
	__u32 before = connection->pace ? connection->pace : UNPACED;

	if (rate >= before - before / 8 && rate - before / 8 <= before)
		return;
	connection->pace = rate;
	add64(&books.paced, 1);
	set(ctx, SOL_SOCKET, SO_MAX_PACING_RATE, rate);
}

/* An ACK echoes this number (Cap::handle_ack). */
static __always_inline void handle_echo(struct bpf_sock_ops *ctx, struct connection *connection, __u32 senders)
{
	struct m21_cap eq = { .buffer = cap.buffer, .header = cap.header, .drain = cap.drain };
	__u32 mss = ctx->mss_cache, window;

	if (senders == 0 || mss == 0)
		return;
	window = m21_window(&eq, senders, mss);
	if (window) {
		clamp(ctx, connection, window / mss);
		pace(ctx, connection, UNPACED);
	} else {
		/* `srtt_us` counts eighths. */
		__u64 period = m21_period(&eq, senders, mss, (__u64)ctx->srtt_us * 125);
		__u64 rate = mss * 1000000000ull / (period ? period : 1);

		clamp(ctx, connection, 1);
		pace(ctx, connection, rate < UNPACED ? rate : UNPACED);
	}
}

/* What the segment at hand says. */
static __always_inline void hear(struct bpf_sock_ops *ctx)
{
	struct connection *connection = connection_of(ctx, BPF_SK_STORAGE_GET_F_CREATE);
	__s64 number;

	if (!connection)
		return;
	number = number_in(ctx, EXPERIMENT_COUNT, 0);
	if (number > 0) {
		connection->latest = number;
		add64(&books.numbers, 1);
	}
	number = number_in(ctx, EXPERIMENT_ECHO, 0);
	if (number > 0) {
		add64(&books.echoes, 1);
		handle_echo(ctx, connection, number);
	}
}

/* Asks to be called for options that TCP does not know, and for each segment that leaves. */
static __always_inline void take_part(struct bpf_sock_ops *ctx)
{
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG |
					       BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/* The number to echo, and whether the segment has room for a count; `payload` is whether it carries any, or may. */
struct wanted {
	__u32 echo;
	bool count;
};

static __always_inline struct wanted wanted(struct bpf_sock_ops *ctx, bool payload)
{
	struct wanted wanted = { .count = payload };
	struct connection *connection;
	__s64 number;

	if (ctx->skb_tcp_flags & TCP_HEADER_SYN) {
		if (ctx->skb_tcp_flags & TCP_HEADER_ACK) {
			/* Only to a peer that does the same. */
			number = number_in(ctx, EXPERIMENT_COUNT, BPF_LOAD_HDR_OPT_TCP_SYN);
			wanted.echo = number > 0 ? number : 0;
			wanted.count = number >= 0;
		} else {
			/* One that was lost may have been lost for what was in it. */
			wanted.count = ctx->total_retrans == 0;
		}
		return wanted;
	}
	connection = connection_of(ctx, 0);
	if (connection)
		wanted.echo = connection->latest;
	return wanted;
}

static __always_inline void reserve(struct bpf_sock_ops *ctx)
{
	struct wanted want = wanted(ctx, ctx->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS || ctx->skb_len > 0);

	/* One that does not fit, for SACK has taken the room, comes with a later segment. */
	if (want.echo)
		bpf_reserve_hdr_opt(ctx, NUMBER_OPTION, 0);
	if (want.count)
		bpf_reserve_hdr_opt(ctx, NUMBER_OPTION, 0);
}

static __always_inline void store(struct bpf_sock_ops *ctx, __u16 experiment, __u32 number)
{
	struct number_option option = {
		.kind = EXPERIMENTAL_KIND,
		.length = NUMBER_OPTION,
		.experiment = bpf_htons(experiment),
		.number = bpf_htonl(number),
	};

	bpf_store_hdr_opt(ctx, &option, sizeof(option), 0);
}

static __always_inline void write(struct bpf_sock_ops *ctx)
{
	/* The length has the header in it now; where no room was reserved for a count, there is none. */
	struct wanted want = wanted(ctx, true);

	if (want.echo)
		store(ctx, EXPERIMENT_ECHO, want.echo);
	if (want.count)
		store(ctx, EXPERIMENT_COUNT, 0);
}

SEC("sockops")
int m21_host(struct bpf_sock_ops *ctx)
{
	if (!is_ours(ctx))
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		take_part(ctx);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		take_part(ctx);
		hear(ctx);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		hear(ctx);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		reserve(ctx);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		write(ctx);
		break;
	}
	return 1;
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct bpf_iter__tcp {
	struct sock_common *sk_common;
};

#pragma clang attribute pop

/* Takes the cap off each connection of a namespace, at the end. */
SEC("iter/tcp")
int m21_release(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct connection *connection;
	struct tcp_sock *sk;
	__u32 value;

	if (!common)
		return 0;
	sk = bpf_skc_to_tcp_sock(common);
	if (!sk)
		return 0;
	connection = bpf_sk_storage_get(&connections, sk, NULL, 0);
	if (!connection)
		return 0;
	if (connection->clamp) {
		value = UNCLAMPED;
		bpf_setsockopt(sk, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &value, sizeof(value));
	}
	if (connection->pace) {
		value = UNPACED;
		bpf_setsockopt(sk, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value));
	}
	connection->clamp = connection->pace = 0;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
