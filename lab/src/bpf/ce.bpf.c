// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Sets CE in the IPv4 header of every TCP segment that leaves from one port, whatever was negotiated: what a peer that does
 * not keep to RFC 3168 sends.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define CE 3
#define IPPROTO_TCP 6

/* In network byte order. */
const volatile __u16 port;

SEC("tc")
int ce(struct __sk_buff *context)
{
	const __u32 at = ETH_HLEN + __builtin_offsetof(struct iphdr, tos);
	struct iphdr ip;
	__be16 source;
	__u8 marked;

	if (context->protocol != bpf_htons(ETH_P_IP) || bpf_skb_load_bytes(context, ETH_HLEN, &ip, sizeof(ip)))
		return -1;
	if (ip.protocol != IPPROTO_TCP || bpf_skb_load_bytes(context, ETH_HLEN + ip.ihl * 4, &source, sizeof(source)) ||
	    source != port)
		return -1;
	marked = ip.tos | CE;
	bpf_l3_csum_replace(context, ETH_HLEN + __builtin_offsetof(struct iphdr, check), bpf_htons(ip.tos),
			    bpf_htons(marked), 2);
	bpf_skb_store_bytes(context, at, &marked, sizeof(marked), 0);
	return -1;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
