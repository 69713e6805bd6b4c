/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Headers as they are on the wire: IEEE 802.3 and 802.1Q, RFC 791, RFC 8200, RFC 9293. */
#ifndef ACKGATE_HEADERS_H
#define ACKGATE_HEADERS_H

#include <linux/types.h>

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_SERVICE_VLAN 0x88a8
#define PROTOCOL_TCP 6

struct ethernet {
	__u8 destination[6];
	__u8 source[6];
	__be16 type;
} __attribute__((packed));

struct vlan_tag {
	__be16 tci;
	__be16 type;
};

struct ipv4 {
	__u8 version_length;
	__u8 tos;
	__be16 total;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__be16 check;
	__be32 source;
	__be32 destination;
};

struct ipv6 {
	__u8 version_class;
	__u8 class_label;
	__be16 label;
	__be16 payload;
	__u8 next;
	__u8 hops;
	__be32 source[4];
	__be32 destination[4];
};

struct tcp {
	__be16 source;
	__be16 destination;
	__be32 seq;
	__be32 ack;
	__u8 offset;
	__u8 flags;
	__be16 window;
	__be16 check;
	__be16 urgent;
};

#endif
