// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * M21TCP-A's switch (Adesanmi and Mhamdi, section IV.1), at the egress of a port: counts the flows that traverse it and writes
 * their number into each segment that has room for it, if it is more than the segment says. And, for kernels without RED, marks
 * what finds more than a threshold queued (Alizadeh et al., DCTCP, section 3.1).
 *
 * A flow is one direction of a connection on which SYN, payload, FIN or RST travels; bare ACKs make none. Everything goes on its
 * way, whatever comes of it.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "m21.h"
#include "packet.h"
#include "queue.h"

#define TRIES 8
#define MOST_REMEMBERED 262144

/* Silence after which a flow no longer counts; 0 for never. */
const volatile __u64 expiry;
/* Flows that are counted at most. */
const volatile __u32 most_flows;
/* Bytes queued above which ECN-capable packets are marked; 0 for none. */
const volatile __u32 mark_above;
/* Time comes from `fixed_clock` instead of the machine: tests only. */
const volatile bool fixed_time;
__u64 fixed_clock;

/* What the port did: segments that count, those that the number was written into, and the largest number so far. */
struct port_books {
	struct flow_counter flows;
	__u64 counted;
	__u64 stamped;
	__u64 most;
} port;

/* Period in which each flow was last seen. Those of earlier ones stay until `expire`. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST_REMEMBERED);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct flow_key);
	__type(value, __u64);
} seen SEC(".maps");

static __always_inline __u64 period_now(void)
{
	__u64 now = fixed_time ? fixed_clock : bpf_ktime_get_ns();

	return expiry ? now / expiry : 0;
}

static __always_inline void count(__u64 period, __s32 change)
{
	__u64 *word = &port.flows.words[period & 1], old, new;

	for (int i = 0; i < TRIES; i++) {
		__u32 tag;

		old = get64(word);
		tag = old >> 32;
		if (tag == (__u32)period)
			new = (__u32)old + change < 0x80000000 ? old + change : old;
		else if ((__s32)((__u32)period - tag) > 0)
			new = period << 32 | (change > 0 ? change : 0);
		else
			return;
		if (__sync_val_compare_and_swap(word, old, new) == old)
			return;
	}
}

/* The flow is seen now, whether or not it was before. */
static __always_inline void see(__u64 *last, __u64 period)
{
	__u64 before = get64(last);

	if (before == period || __sync_val_compare_and_swap(last, before, period) != before)
		return;
	if (before + 1 == period)
		count(before, -1);
	count(period, 1);
}

/* FlowCounter::handle_packet: N, this flow included. */
static __always_inline __u32 handle_packet(const struct flow_key *key, bool last)
{
	__u64 period = period_now(), *known = bpf_map_lookup_elem(&seen, key);
	bool remembered = known && get64(known) + 1 >= period;
	__u32 flows = m21_flows(&port.flows, period);

	if (!remembered && flows >= most_flows)
		return flows ? flows : 1;
	if (known) {
		see(known, period);
	} else if (bpf_map_update_elem(&seen, key, &period, BPF_NOEXIST) == 0) {
		count(period, 1);
	}
	flows = m21_flows(&port.flows, period);
	if (remembered && last && expiry && bpf_map_delete_elem(&seen, key) == 0)
		count(period, -1);
	return flows ? flows : 1;
}

struct option_search {
	struct option_bytes bytes;
	__u32 length;
	__u32 at;
	/* Where the number stands, from the first option; 0 until it is found. */
	__u32 found;
};

/* Looks at one option; not 0 ends the search. */
static long search_option(__u32 index, struct option_search *search)
{
	const struct option_bytes *bytes = &search->bytes;
	__u32 at = search->at, kind, size;

	(void)index;
	if (at + 1 >= search->length)
		return 1;
	kind = byte_at(bytes, at);
	if (kind == 0)
		return 1;
	size = kind == 1 ? 1 : byte_at(bytes, at + 1);
	if (size == 0 || at + size > search->length)
		return 1;
	if (kind == EXPERIMENTAL_KIND && size == NUMBER_OPTION && be16_at(bytes, at + 2) == EXPERIMENT_COUNT) {
		search->found = at + 4;
		return 1;
	}
	search->at = at + size;
	return 0;
}

/* m21::stamp. A number at an odd place is left alone: no host of ours puts it there, and the sum would be another. */
static __always_inline void stamp(struct __sk_buff *skb, const struct segment *segment, __u32 own)
{
	__u32 options = segment->tcp + sizeof(struct tcp), at;
	struct option_search search = {};
	__be32 number, larger;
	__u64 rest;
	__u8 offset;

	if (bpf_skb_load_bytes(skb, segment->tcp + 12, &offset, 1))
		return;
	/* `parse` found a header of 20 bytes at least. */
	if (offset >> 4 < 7)
		return;
	rest = masked((offset >> 4) * 4 - 21, OPTIONS_MASK) + 1;
	if (bpf_skb_load_bytes(skb, options, &search.bytes, rest))
		return;
	search.length = rest;
	bpf_loop(MAX_OPTIONS, search_option, &search, 0);
	if (search.found == 0 || search.found & 1)
		return;
	at = options + search.found;
	if (bpf_skb_load_bytes(skb, at, &number, sizeof(number)) || bpf_ntohl(number) >= own)
		return;
	larger = bpf_htonl(own);
	/* The sum first: where it cannot be changed, nothing is. */
	if (bpf_l4_csum_replace(skb, segment->tcp + __builtin_offsetof(struct tcp, check), number, larger, sizeof(number)))
		return;
	if (bpf_skb_store_bytes(skb, at, &larger, sizeof(larger), 0) == 0)
		add64(&port.stamped, 1);
}

SEC("tc")
int switch_egress(struct __sk_buff *skb)
{
	struct packet packet = {};
	__u32 flows;
	__u8 flags;

	if (mark_above && queued(skb) > mark_above)
		bpf_skb_ecn_set_ce(skb);
	if (parse(skb, false, &packet))
		return TC_ACT_UNSPEC;
	flags = packet.segment.flags;
	if (packet.segment.payload == 0 && !(flags & (SYN | FIN | RST)))
		return TC_ACT_UNSPEC;
	add64(&port.counted, 1);
	flows = handle_packet(&packet.key, flags & (FIN | RST));
	if (flows > get64(&port.most))
		*(volatile __u64 *)&port.most = flows;
	stamp(skb, &packet.segment, flows);
	return TC_ACT_UNSPEC;
}

static long expire_one(void *map, const struct flow_key *key, __u64 *last, const __u64 *period)
{
	if (get64(last) + 1 < *period)
		bpf_map_delete_elem(map, key);
	return 0;
}

/* Forgets flows that no longer count. */
SEC("syscall")
int switch_expire(void *context)
{
	__u64 period = period_now();

	(void)context;
	bpf_for_each_map_elem(&seen, expire_one, &period, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
