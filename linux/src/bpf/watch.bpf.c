// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Counts what arrives at a device, by bins of time, and looks at TCP data segments for signs of loss. It changes nothing and
 * passes every packet on. Each processor has bins of its own, so nothing is locked; user space reads the memory.
 *
 * Only the usual is looked into: IPv4 without options, IPv6 without extension headers, one VLAN tag, headers in the linear part
 * of the packet. All else counts as bytes and frames.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "headers.h"
#include "watch.h"

#define FIN 0x01
#define SYN 0x02
#define PSH 0x08

/* Width of a bin, and the silence that looks like a timeout, ns. */
const volatile __u64 watch_width = 1000000;
const volatile __u64 watch_stall = 150000000;
/* Processors that there are bins for. */
const volatile __u32 watch_processors = 1;

/* Segments whose connection found no place: they count in the bins alone. */
__u64 watch_crowded;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WATCH_BINS);
	__type(key, __u32);
	__type(value, struct watch_bin);
} watch_bins SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WATCH_FLOWS);
	__type(key, __u32);
	__type(value, struct watch_flow);
} watch_flows SEC(".maps");

/* Where a segment is from and to, as far as its hash goes. */
struct ends {
	__u64 addresses;
	__be32 ports;
};

/* A multiplicative hash (Knuth, The Art of Computer Programming 6.4) of what tells connections apart, never 0. */
static __always_inline __u64 hash_of(__u64 addresses, __u64 ports)
{
	__u64 hash = (addresses ^ ports << 32 ^ ports) * 0x9e3779b97f4a7c15ull;

	return (hash ^ hash >> 29) | 1ull << 63;
}

static __always_inline struct watch_flow *place_of(__u64 hash, __u64 now, bool *taken_over)
{
	struct watch_flow *free = NULL;
	__u32 base = (hash >> 20) & (WATCH_FLOWS - WATCH_WAYS);

	for (__u32 way = 0; way < WATCH_WAYS; way++) {
		__u32 index = base + way;
		struct watch_flow *flow = bpf_map_lookup_elem(&watch_flows, &index);

		if (!flow)
			return NULL;
		if (flow->hash == hash)
			return flow;
		if (!free && (flow->hash == 0 || now - flow->last > WATCH_IDLE))
			free = flow;
	}
	*taken_over = free;
	return free;
}

static __always_inline struct watch_bin *bin_of(__u64 number)
{
	__u32 index = bpf_get_smp_processor_id() * WATCH_BINS + (number & (WATCH_BINS - 1));
	struct watch_bin *bin = bpf_map_lookup_elem(&watch_bins, &index);

	if (bin && bin->number != number) {
		__builtin_memset(bin, 0, sizeof(*bin));
		bin->number = number;
	}
	return bin;
}

static __always_inline void name_ends(struct watch_flow *flow, const struct ipv4 *ipv4, const struct ipv6 *ipv6,
				      const struct tcp *tcp)
{
	__builtin_memset(flow->local, 0, sizeof(flow->local));
	__builtin_memset(flow->remote, 0, sizeof(flow->remote));
	if (ipv4) {
		flow->local[10] = flow->local[11] = flow->remote[10] = flow->remote[11] = 0xff;
		__builtin_memcpy(flow->local + 12, &ipv4->destination, 4);
		__builtin_memcpy(flow->remote + 12, &ipv4->source, 4);
	} else {
		__builtin_memcpy(flow->local, ipv6->destination, 16);
		__builtin_memcpy(flow->remote, ipv6->source, 16);
	}
	flow->local_port = bpf_ntohs(tcp->destination);
	flow->remote_port = bpf_ntohs(tcp->source);
}

/* A TCP segment whose headers end before `end`; `rest` is what the IP packet holds from the TCP header on. */
static __always_inline void look(const struct ipv4 *ipv4, const struct ipv6 *ipv6, const struct tcp *tcp, __u32 rest,
				 struct watch_bin *bin, __u64 now)
{
	__u32 header = (tcp->offset >> 4) * 4;
	struct watch_arrival arrival = {};
	struct watch_flow *flow;
	bool new = false;
	__u64 addresses;

	arrival.syn = tcp->flags & SYN;
	if (header < sizeof(*tcp) || header > rest || (header == rest && !arrival.syn))
		return;
	arrival.payload = rest - header;
	arrival.seq = bpf_ntohl(tcp->seq);
	arrival.push = tcp->flags & (PSH | FIN);
	if (ipv4)
		addresses = (__u64)ipv4->source << 32 | ipv4->destination;
	else
		addresses = ((__u64)ipv6->source[0] ^ ipv6->source[2] ^ ipv6->destination[1]) << 32 ^
			    ((__u64)ipv6->source[1] << 7) ^ ipv6->source[3] ^ ((__u64)ipv6->destination[3] << 17) ^
			    ((__u64)ipv6->destination[0] << 3) ^ ipv6->destination[2];
	addresses = hash_of(addresses, (__u64)tcp->source << 16 | tcp->destination);
	flow = place_of(addresses, now, &new);
	if (!flow) {
		__sync_fetch_and_add(&watch_crowded, 1);
		return;
	}
	if (new) {
		__builtin_memset(flow, 0, sizeof(*flow));
		name_ends(flow, ipv4, ipv6, tcp);
		flow->hash = addresses;
	}
	watch_segment(flow, bin, &arrival, now, watch_stall);
}

SEC("tc")
int ackgate_watch(struct __sk_buff *skb)
{
	const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const struct ethernet *ethernet = data;
	__u64 now = bpf_ktime_get_ns();
	__u32 frames = skb->gso_segs > 1 ? skb->gso_segs : 1, link = sizeof(*ethernet), headers;
	struct watch_bin *bin = bin_of(now / watch_width);
	const struct tcp *tcp;
	bool marked;
	__u32 rest;
	__be16 type;

	if (!bin)
		return TC_ACT_UNSPEC;
	/* A tag that the card has taken out was on the wire all the same. */
	bin->bytes += skb->len + (skb->vlan_present ? 4 : 0);
	bin->frames += frames;
	if (data + sizeof(*ethernet) + 4 > end)
		return TC_ACT_UNSPEC;
	type = ethernet->type;
	if (type == bpf_htons(ETHERTYPE_VLAN)) {
		type = *(const __be16 *)(data + sizeof(*ethernet) + 2);
		link += 4;
	}
	if (type == bpf_htons(ETHERTYPE_IPV4)) {
		const struct ipv4 *ip = data + link;

		tcp = (const void *)(ip + 1);
		if ((const void *)(tcp + 1) > end || ip->version_length != 0x45 || ip->protocol != PROTOCOL_TCP ||
		    ip->fragment & bpf_htons(0x3fff))
			return TC_ACT_UNSPEC;
		marked = (ip->tos & 3) == 3;
		/* Aggregates beyond 64 KB say 0. */
		rest = ip->total ? bpf_ntohs(ip->total) - sizeof(*ip) : skb->len - link - sizeof(*ip);
		headers = link + sizeof(*ip);
		look(ip, NULL, tcp, rest, bin, now);
	} else if (type == bpf_htons(ETHERTYPE_IPV6)) {
		const struct ipv6 *ip = data + link;

		tcp = (const void *)(ip + 1);
		if ((const void *)(tcp + 1) > end || ip->next != PROTOCOL_TCP)
			return TC_ACT_UNSPEC;
		marked = (ip->class_label & 0x30) == 0x30;
		rest = ip->payload ? bpf_ntohs(ip->payload) : skb->len - link - sizeof(*ip);
		headers = link + sizeof(*ip);
		look(NULL, ip, tcp, rest, bin, now);
	} else {
		return TC_ACT_UNSPEC;
	}
	if (marked)
		bin->marked += frames;
	/* Of an aggregate only one header is at hand. */
	if (frames > 1)
		bin->bytes += (__u64)(frames - 1) * (headers + (tcp->offset >> 4) * 4);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
