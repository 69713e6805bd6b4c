/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The parser of the BPF programs in a process: what it asks the kernel for is a frame in memory here. */
#include <stddef.h>
#include <string.h>
#include <arpa/inet.h>
#include <linux/types.h>

#define bpf_htons htons
#define bpf_htonl htonl
#define bpf_ntohs ntohs
#define bpf_ntohl ntohl

/* What the parser reads of the kernel's: lengths and marks, and what of the frame lies in the linear part. */
struct frame {
	const __u8 *bytes;
	unsigned long data;
	unsigned long data_end;
	__u32 len;
	__u32 gso_size;
	__u32 gso_segs;
	__u32 vlan_present;
	__u32 vlan_tci;
	__u32 protocol;
};
#define __sk_buff frame

/* As the kernel's: all or nothing. */
static long bpf_skb_load_bytes(const struct frame *skb, __u32 offset, void *to, __u32 length)
{
	if (offset > skb->len || length > skb->len - offset)
		return -1;
	memcpy(to, skb->bytes + offset, length);
	return 0;
}

#define bpf_loop(count, step, context, flags)                              \
	do {                                                               \
		for (__u32 i_ = 0; i_ < (count) && !step(i_, context); i_++) \
			;                                                  \
	} while (0)

#include "../../linux/src/bpf/packet.h"

int ackgate_parse_frame(struct frame *frame, bool ingress, struct packet *out)
{
	return parse(frame, ingress, out);
}

int ackgate_parse_packet(struct frame *frame, struct packet *out)
{
	return parse_packet(frame, out);
}
