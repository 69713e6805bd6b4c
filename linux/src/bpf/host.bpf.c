// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The packet path of the generic host: what a policy in user space may hold or change is copied to a ring, and the original
 * vanishes; what it only watches goes on, and its headers are copied.
 *
 * Everything passes that is not TCP, is signed, does not fit a record, or finds no room in the ring; and all of it while the
 * daemon shows no sign of life.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "intf.h"
#include "packet.h"
#include "path.h"

/* HWatch's probes (control/src/wire/probe.rs). */
#define PROTOCOL_PROBE 253

/* What arrives may be changed, so it is taken; else it is only seen. */
const volatile __u8 take_ingress;
/* Probes that arrive are taken. */
const volatile __u8 take_probes;
/* The guarded device, for what is put back on its way in. */
const volatile __u32 device;

/* The daemon's last sign of life. */
__u64 heartbeat;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 16u << 20);
} ring SEC(".maps");

static __always_inline void tell(const struct __sk_buff *skb, enum what what, __u32 copied, struct taken *taken)
{
	taken->time = bpf_ktime_get_ns();
	taken->length = skb->len;
	taken->copied = copied;
	taken->gso_size = skb->gso_size;
	taken->gso_segs = skb->gso_segs;
	taken->tag = skb->vlan_present ? skb->vlan_tci : 0;
	taken->tag_protocol = skb->vlan_present ? bpf_ntohs(skb->vlan_proto) : 0;
	taken->what = what;
}

/* A record of one size; the kernel wants to know it beforehand. */
#define DEFINE_COPY(name, room)                                                                  \
	struct name##_record {                                                                   \
		struct taken taken;                                                              \
		__u8 frame[room];                                                                \
	};                                                                                       \
	static __always_inline bool copy_##name(struct __sk_buff *skb, enum what what, __u32 count) \
	{                                                                                        \
		struct name##_record *record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);   \
                                                                                                 \
		if (!record)                                                                     \
			return false;                                                            \
		tell(skb, what, count, &record->taken);                                          \
		if (!copy_frame(skb, record->frame, count, room)) {                              \
			bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);                           \
			return false;                                                            \
		}                                                                                \
		bpf_ringbuf_submit(record, 0);                                                   \
		return true;                                                                     \
	}

DEFINE_COPY(headers, HEADERS)
DEFINE_COPY(single, MAX_FRAME)
DEFINE_COPY(jumbo, JUMBO_FRAME)
DEFINE_COPY(largest, LARGEST_FRAME)

static __always_inline bool copy(struct __sk_buff *skb, enum what what, __u32 count)
{
	bool copied;

	if (count <= HEADERS)
		copied = copy_headers(skb, what, count);
	else if (count <= MAX_FRAME)
		copied = copy_single(skb, what, count);
	else if (count <= JUMBO_FRAME)
		copied = copy_jumbo(skb, what, count);
	else
		copied = copy_largest(skb, what, count);
	if (!copied)
		add64(&books.overflow, 1);
	return copied;
}

/* What we have put back ourselves goes on, unmarked; and while nobody is there, everything does. */
static __always_inline bool goes_on(struct __sk_buff *skb)
{
	__u64 now, alive;

	if (skb->mark == PASS_MARK) {
		skb->mark = 0;
		return true;
	}
	now = bpf_ktime_get_ns();
	alive = get64(&heartbeat);
	return now > alive && now - alive > settings.stale;
}

/* An IP header and nothing else, of the protocol that HWatch's probes have. */
static __always_inline bool is_probe(struct __sk_buff *skb)
{
	struct ipv4 ipv4;
	struct ipv6 ipv6;

	if (skb->protocol == bpf_htons(ETHERTYPE_IPV4))
		return bpf_skb_load_bytes(skb, sizeof(struct ethernet), &ipv4, sizeof(ipv4)) == 0 &&
		       ipv4.protocol == PROTOCOL_PROBE && ipv4.total == bpf_htons(sizeof(ipv4));
	if (skb->protocol == bpf_htons(ETHERTYPE_IPV6))
		return bpf_skb_load_bytes(skb, sizeof(struct ethernet), &ipv6, sizeof(ipv6)) == 0 &&
		       ipv6.next == PROTOCOL_PROBE && ipv6.payload == 0;
	return false;
}

SEC("tc")
int host_ingress(struct __sk_buff *skb)
{
	struct packet packet = {};
	enum reject reject;

	if (goes_on(skb))
		return TC_ACT_UNSPEC;
	reject = parse(skb, true, &packet);
	if (reject) {
		if (take_probes && skb->len <= HEADERS && is_probe(skb) && copy(skb, TAKEN_PROBE, skb->len))
			return vanish();
		count_reject(reject);
		return TC_ACT_UNSPEC;
	}
	if (take_ingress)
		return copy(skb, TAKEN_INGRESS, skb->len) ? vanish() : TC_ACT_UNSPEC;
	copy(skb, SEEN_INGRESS, skb->len < HEADERS ? skb->len : HEADERS);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int host_egress(struct __sk_buff *skb)
{
	struct packet packet = {};
	enum reject reject;

	if (goes_on(skb))
		return TC_ACT_UNSPEC;
	reject = parse(skb, false, &packet);
	if (reject) {
		count_reject(reject);
		return TC_ACT_UNSPEC;
	}
	return copy(skb, TAKEN_EGRESS, skb->len) ? vanish() : TC_ACT_UNSPEC;
}

/* On the TAP device that the daemon writes to: what arrives there is put on its way into the guarded one. */
SEC("tc")
int host_inject(struct __sk_buff *skb)
{
	skb->mark = PASS_MARK;
	return bpf_redirect(device, BPF_F_INGRESS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
