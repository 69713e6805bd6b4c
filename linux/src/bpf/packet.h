/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Reads a TCP frame: the same rules in the same order as control/src/wire, to which a differential test holds it.
 * A frame that is not understood is none of our business and passes untouched.
 */
#ifndef ACKGATE_PACKET_H
#define ACKGATE_PACKET_H

#include "../../../control/core/cell.h"
#include "headers.h"
#include "intf.h"

/*
 * Bounds that the verifier needs and that a compiler may believe superfluous: what it can prove, or can say in another
 * way, it leaves out or rewrites, and the verifier does not follow. So the compiler is told nothing: `opaque` is a value
 * that it cannot reason about, to be compared afterwards; `masked` is `value & MASK` done out of its sight, so that the
 * register which is used is the register which was masked. MASK is a constant of the form 2^n - 1.
 */
static __always_inline __u64 opaque(__u64 value)
{
	asm volatile("" : "+r"(value));
	return value;
}

#ifdef __bpf__
#define masked(value, MASK)                                          \
	({                                                           \
		__u64 masked_ = (value);                             \
		asm volatile("%0 &= %1" : "+r"(masked_) : "i"(MASK)); \
		masked_;                                             \
	})
#else
/* In a process, where the fuzz targets run it, nobody has to be convinced. */
#define masked(value, MASK) ((__u64)(value) & (MASK))
#endif

#define MAX_VLAN_TAGS 2
#define MAX_EXTENSION_HEADERS 4

#define MAX_WSCALE 14

/* SIGNED: TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925). What is changed would not verify. */
enum reject { ACCEPTED, NOT_TCP, FRAGMENT, MALFORMED, SIGNED };

struct packet {
	struct flow_key key;
	struct segment segment;
};

/* What an IP header contributes: where TCP starts and where the packet ends. */
struct ip {
	__u32 tcp;
	__u32 end;
	/* Bytes of the link layer that are on the wire and not at hand. */
	__u32 link;
	bool ce;
};

struct options {
	__u32 tsval;
	__u32 tsecr;
	__u16 mss;
	__u8 wscale;
	bool sack;
	/* The first SACK block is the only one, and where it ends. */
	bool lone_block;
	__u32 block_end;
	bool timestamps;
	/* The segment is signed. */
	bool authenticated;
	/* One of MPTCP's is there (RFC 8684). */
	bool multipath;
};

#define OPTIONS_MASK 63
/* Options take 40 bytes at most (RFC 9293 section 3.1: the header's length has four bits). */
#define MAX_OPTIONS 40

/* Options, in a buffer that a masked index cannot leave. */
struct option_bytes {
	__u8 at[OPTIONS_MASK + 1];
};

static __always_inline __u32 byte_at(const struct option_bytes *bytes, __u32 at)
{
	return bytes->at[masked(at, OPTIONS_MASK)];
}

static __always_inline __u32 be16_at(const struct option_bytes *bytes, __u32 at)
{
	return byte_at(bytes, at) << 8 | byte_at(bytes, at + 1);
}

static __always_inline __u32 be32_at(const struct option_bytes *bytes, __u32 at)
{
	return be16_at(bytes, at) << 16 | be16_at(bytes, at + 2);
}

struct option_walk {
	struct option_bytes bytes;
	struct options found;
	__u32 length;
	__u32 at;
};

/* Looks at one option; not 0 ends the walk. A list that does not add up ends there; what came before it counts. */
static long walk_option(__u32 index, struct option_walk *walk)
{
	const struct option_bytes *bytes = &walk->bytes;
	__u32 at = walk->at, kind, size;

	(void)index;
	if (at >= walk->length)
		return 1;
	kind = byte_at(bytes, at);
	if (kind == 0)
		return 1;
	if (kind == 1) {
		walk->at = at + 1;
		return 0;
	}
	if (at + 1 >= walk->length)
		return 1;
	size = byte_at(bytes, at + 1);
	if (size < 2 || at + size > walk->length)
		return 1;
	if (kind == 2 && size == 4) {
		walk->found.mss = be16_at(bytes, at + 2);
	} else if (kind == 3 && size == 3) {
		__u32 shift = byte_at(bytes, at + 2);

		walk->found.wscale = shift > MAX_WSCALE ? MAX_WSCALE : shift;
	} else if (kind == 5 && size >= 10) {
		walk->found.sack = true;
		walk->found.lone_block = size == 10;
		walk->found.block_end = be32_at(bytes, at + 6);
	} else if (kind == 19 || kind == 29) {
		walk->found.authenticated = true;
	} else if (kind == 30) {
		walk->found.multipath = true;
	} else if (kind == 8 && size == 10) {
		walk->found.tsval = be32_at(bytes, at + 2);
		walk->found.tsecr = be32_at(bytes, at + 6);
		walk->found.timestamps = true;
	}
	walk->at = at + size;
	return 0;
}

/* Where the IP packet ends. Aggregates above 64 KB ("BIG TCP") carry length 0 and end where the frame ends. */
static __always_inline bool ip_end(const struct __sk_buff *skb, __u32 offset, __u32 total, struct ip *ip)
{
	ip->end = total == 0 && skb->gso_size > 0 ? skb->len : offset + total;
	return ip->end <= skb->len && ip->end > offset;
}

static __always_inline void ipv4_addresses(const struct ipv4 *ip, bool ingress, struct flow_key *key)
{
	__be32 *local = (__be32 *)key->local, *remote = (__be32 *)key->remote;

	local[0] = local[1] = remote[0] = remote[1] = 0;
	local[2] = remote[2] = bpf_htonl(0xffff);
	local[3] = ingress ? ip->destination : ip->source;
	remote[3] = ingress ? ip->source : ip->destination;
}

SUBPROGRAM int parse_ipv4(struct __sk_buff *skb, __u32 offset, bool ingress, struct ip *out, struct flow_key *key)
{
	struct ipv4 ip;
	__u32 length;

	if (!out || !key)
		return MALFORMED;
	if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)))
		return MALFORMED;
	length = (ip.version_length & 0x0f) * 4;
	if (ip.version_length >> 4 != 4 || length < 20)
		return MALFORMED;
	if (bpf_ntohs(ip.fragment) & 0x3fff)
		return FRAGMENT;
	if (ip.protocol != PROTOCOL_TCP)
		return NOT_TCP;
	if (!ip_end(skb, offset, bpf_ntohs(ip.total), out) || offset + length > out->end)
		return MALFORMED;
	out->tcp = offset + length;
	out->ce = (ip.tos & 3) == 3;
	ipv4_addresses(&ip, ingress, key);
	return ACCEPTED;
}

SUBPROGRAM int parse_ipv6(struct __sk_buff *skb, __u32 offset, bool ingress, struct ip *out, struct flow_key *key)
{
	__u32 at = offset + sizeof(struct ipv6), payload;
	struct ipv6 ip;
	__u8 next;

	if (!out || !key)
		return MALFORMED;
	if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)))
		return MALFORMED;
	if (ip.version_class >> 4 != 6)
		return MALFORMED;
	payload = bpf_ntohs(ip.payload);
	if (!ip_end(skb, offset, payload ? sizeof(ip) + payload : 0, out))
		return MALFORMED;
	next = ip.next;
	for (int i = 0; i < MAX_EXTENSION_HEADERS; i++) {
		__u8 extension[4];

		if (next != 0 && next != 43 && next != 60)
			break;
		if (bpf_skb_load_bytes(skb, at, extension, sizeof(extension)))
			return MALFORMED;
		/* On a source route whose end is still ahead: the address is neither the connection's nor the checksum's. */
		if (next == 43 && extension[3] > 0)
			return NOT_TCP;
		next = extension[0];
		at += ((__u32)extension[1] + 1) * 8;
	}
	if (next == 44)
		return FRAGMENT;
	if (next != PROTOCOL_TCP)
		return NOT_TCP;
	if (at > out->end)
		return MALFORMED;
	out->tcp = at;
	out->ce = (ip.class_label >> 4 & 3) == 3;
	__builtin_memcpy(key->local, ingress ? ip.destination : ip.source, 16);
	__builtin_memcpy(key->remote, ingress ? ip.source : ip.destination, 16);
	return ACCEPTED;
}

/* What a segment says whose headers have been found sound. */
static __always_inline void describe_segment(const struct __sk_buff *skb, const struct ip *ip, const struct tcp *tcp,
					     const struct options *options, bool ingress, struct packet *out)
{
	struct segment *segment = &out->segment;
	__u32 headers = ip->tcp + (tcp->offset >> 4) * 4;

	segment->tcp = ip->tcp;
	segment->seq = bpf_ntohl(tcp->seq);
	segment->ack = bpf_ntohl(tcp->ack);
	segment->payload = ip->end - headers;
	segment->window = bpf_ntohs(tcp->window);
	segment->flags = tcp->flags;
	segment->ce = ip->ce;
	segment->sack = options->sack;
	segment->dsack = options->lone_block && (__s32)(options->block_end - segment->ack) <= 0;
	segment->mss = tcp->flags & SYN ? options->mss : 0;
	segment->wscale = tcp->flags & SYN ? options->wscale : NO_WSCALE;
	segment->timestamps = options->timestamps;
	segment->multipath = options->multipath;
	segment->tsval = options->tsval;
	segment->tsecr = options->tsecr;

	/* Headers this long are no aggregate's and the sum fits; the model saturates all the same. */
	headers += ip->link + (skb->vlan_present ? sizeof(struct vlan_tag) : 0);
	segment->header = headers > 0xffff ? 0xffff : headers;
	if (skb->gso_segs > 0) {
		segment->frames = skb->gso_segs;
	} else if (skb->gso_size > 0) {
		__u32 frames = (segment->payload + skb->gso_size - 1) / skb->gso_size;

		segment->frames = frames > 0xffff ? 0xffff : frames < 1 ? 1 : frames;
	} else {
		segment->frames = 1;
	}
	out->key.local_port = bpf_ntohs(ingress ? tcp->destination : tcp->source);
	out->key.remote_port = bpf_ntohs(ingress ? tcp->source : tcp->destination);
}

SUBPROGRAM int parse_tcp(struct __sk_buff *skb, const struct ip *ip, bool ingress, struct packet *out)
{
	struct option_walk walk = { .found.wscale = NO_WSCALE };
	__u32 length;
	struct tcp tcp;
	__u64 rest;

	if (!ip || !out)
		return MALFORMED;
	if (bpf_skb_load_bytes(skb, ip->tcp, &tcp, sizeof(tcp)))
		return MALFORMED;
	length = (tcp.offset >> 4) * 4;
	if (length < 20 || ip->tcp + length > ip->end)
		return MALFORMED;
	if (length > 20) {
		/* Never 0, without a comparison that says so: older verifiers learn nothing from `!= 0`. */
		rest = masked(length - 21, OPTIONS_MASK) + 1;
		if (bpf_skb_load_bytes(skb, ip->tcp + 20, &walk.bytes, rest))
			return MALFORMED;
		walk.length = rest;
		bpf_loop(MAX_OPTIONS, walk_option, &walk, 0);
	}
	if (walk.found.authenticated)
		return SIGNED;
	describe_segment(skb, ip, &tcp, &walk.found, ingress, out);
	return ACCEPTED;
}

/* The options that Linux's SYNs have, in its order: MSS, SACK permitted, timestamps, window scale. */
static __always_inline bool usual_of_syn(const __be32 *words, struct options *options)
{
	__u32 mss = bpf_ntohl(words[0]), scale = bpf_ntohl(words[4]);

	if (mss >> 16 != 0x0204 || words[1] != bpf_htonl(0x0402080a) || scale >> 8 != 0x010303)
		return false;
	options->mss = mss;
	options->wscale = (__u8)scale > MAX_WSCALE ? MAX_WSCALE : (__u8)scale;
	options->tsval = bpf_ntohl(words[2]);
	options->tsecr = bpf_ntohl(words[3]);
	return true;
}

/*
 * What nearly every segment looks like: untagged IPv4 without options, TCP with nothing but timestamps, aligned as RFC 7323
 * appendix A has it, or a SYN of Linux's, all headers in the linear part. It is read in place, for each call of a helper costs
 * as much as the rest. False is no verdict.
 */
static __always_inline bool parse_usual(const struct __sk_buff *skb, bool ingress, struct packet *out)
{
	const void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	const struct ethernet *ethernet = data;
	const struct ipv4 *ipv4 = data + sizeof(*ethernet);
	const struct tcp *tcp = (void *)(ipv4 + 1);
	const __be32 *words = (void *)(tcp + 1);
	struct ip ip = { .tcp = sizeof(*ethernet) + sizeof(*ipv4) };
	struct options options = { .wscale = NO_WSCALE, .timestamps = true };

	if ((void *)(words + 3) > end || skb->vlan_present)
		return false;
	if (ethernet->type != bpf_htons(ETHERTYPE_IPV4) || ipv4->version_length != 0x45 ||
	    ipv4->protocol != PROTOCOL_TCP || ipv4->fragment & bpf_htons(0x3fff))
		return false;
	if (tcp->offset >> 4 == 8 && words[0] == bpf_htonl(0x0101080a)) {
		options.tsval = bpf_ntohl(words[1]);
		options.tsecr = bpf_ntohl(words[2]);
	} else if (!(tcp->offset >> 4 == 10 && (void *)(words + 5) <= end && usual_of_syn(words, &options))) {
		return false;
	}
	if (!ip_end(skb, sizeof(*ethernet), bpf_ntohs(ipv4->total), &ip) || ip.tcp + (tcp->offset >> 4) * 4 > ip.end)
		return false;
	ip.ce = (ipv4->tos & 3) == 3;
	ipv4_addresses(ipv4, ingress, &out->key);
	describe_segment(skb, &ip, tcp, &options, ingress, out);
	return true;
}

SUBPROGRAM int parse_unusual(struct __sk_buff *skb, bool ingress, struct packet *out)
{
	__u32 offset = sizeof(struct ethernet), tags = 0, vlan = 0;
	struct ethernet ethernet;
	struct ip ip = {};
	__be16 type;
	int reject;

	if (!out)
		return MALFORMED;
	if (bpf_skb_load_bytes(skb, 0, &ethernet, sizeof(ethernet)))
		return MALFORMED;
	type = ethernet.type;
	if (skb->vlan_present) {
		vlan = skb->vlan_tci & 0x0fff;
		tags = 1;
	}
	for (int i = 0; i < MAX_VLAN_TAGS; i++) {
		struct vlan_tag tag;

		if (tags >= MAX_VLAN_TAGS ||
		    (type != bpf_htons(ETHERTYPE_VLAN) && type != bpf_htons(ETHERTYPE_SERVICE_VLAN)))
			break;
		if (bpf_skb_load_bytes(skb, offset, &tag, sizeof(tag)))
			return MALFORMED;
		vlan = vlan << 12 | (bpf_ntohs(tag.tci) & 0x0fff);
		type = tag.type;
		offset += sizeof(tag);
		tags++;
	}
	if (type == bpf_htons(ETHERTYPE_IPV4))
		reject = parse_ipv4(skb, offset, ingress, &ip, &out->key);
	else if (type == bpf_htons(ETHERTYPE_IPV6))
		reject = parse_ipv6(skb, offset, ingress, &ip, &out->key);
	else
		return NOT_TCP;
	if (reject)
		return reject;
	out->key.vlan = vlan;
	return parse_tcp(skb, &ip, ingress, out);
}

static __always_inline enum reject parse(struct __sk_buff *skb, bool ingress, struct packet *out)
{
	if (parse_usual(skb, ingress, out))
		return ACCEPTED;
	return parse_unusual(skb, ingress, out);
}

/* A packet that begins with its IP header, as netfilter sees it; ours, on its way out. */
static __always_inline enum reject parse_packet(struct __sk_buff *skb, struct packet *out)
{
	struct ip ip = { .link = sizeof(struct ethernet) };
	int reject;

	if (skb->protocol == bpf_htons(ETHERTYPE_IPV4))
		reject = parse_ipv4(skb, 0, false, &ip, &out->key);
	else if (skb->protocol == bpf_htons(ETHERTYPE_IPV6))
		reject = parse_ipv6(skb, 0, false, &ip, &out->key);
	else
		return NOT_TCP;
	return reject ? reject : (enum reject)parse_tcp(skb, &ip, false, out);
}

#endif
