/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the BPF programs and the daemon share beside the decision core's state (control/core/types.h). `struct flow_key` is
 * control/src/flow.rs: a test compares sizes. Sizes are in bytes, times in ns of the monotonic clock.
 */
#ifndef ACKGATE_INTF_H
#define ACKGATE_INTF_H

#include "../../../control/core/types.h"

/* Connections that are guarded at once; one more is simply not guarded. */
#define MAX_FLOWS 65536

/* Bytes of the largest frame that is ever held. Pure ACKs, SYN-ACKs and small requests fit; what does not, passes. */
#define MAX_FRAME 1536

/* Frames up to this size travel to the daemon in a record of the smaller kind. */
#define SMALL_FRAME 104

struct flow_key {
	__u8 local[16];
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	/* At most two tags of 12 bits. */
	__u32 vlan;
} __attribute__((aligned(8)));

/* As the tags of an entry's key: the entry belongs to no connection. */
#define NO_CONNECTION 0xffffffffu
/* As a number in `leaving`: somebody else has given the entry back. */
#define NO_ENTRY 0xffffffffu

/* How a connection's frames begin: enough for addresses, two VLAN tags and the type behind them. For whoever writes one that our
 * TCP did not send. */
struct link {
	__u8 head[28];
	/* A tag that travels beside the frame, as in struct held. */
	__u16 tag;
	__u16 tag_protocol;
} __attribute__((aligned(4)));

/* Books of the datapath itself, beside PAC's. */
struct books {
	/* Entries of the flow table that were handed out at least once. */
	__u64 fresh;
	/* Connections that found no room. */
	__u64 unguarded;
	/* Frames that should have been held but passed: the ring was full or the frame too large. */
	__u64 overflow;
	/* Frames by what the parser made of them, both directions. */
	__u64 not_tcp;
	__u64 fragments;
	__u64 malformed;
	__u64 authenticated;
	/* Segments that would have been held, had anything been taken. */
	__u64 would_hold;
	/* Connections that the rules leave alone. */
	__u64 excluded;
	/* TCP segments of connections that are not in the flow table, both directions. */
	__u64 untracked;
	/* Connections that were met in mid-stream. */
	__u64 joined;
};

/* Entries of the flow table that are forgotten or given back at once: some ten microseconds. */
#define MOST_LEAVING 128

/* What rules say of a connection. */
enum select {
	SELECT_EXCLUDE = 1,
	/* As a bit of `selection`: only what is included is guarded. */
	SELECT_INCLUDE = 2,
	/* As a bit of `selection`: rules name control groups. */
	SELECT_GROUPS = 4,
};

/* Control groups that rules can name, and how many levels of the hierarchy are looked at, the root's among them. */
#define MAX_GROUPS 1024
#define GROUP_LEVELS 16

/* Prefixes that rules can name. */
#define MAX_RULES 65536

/* A peer's address as in struct flow_key, of which the first `length` bits count. */
struct peer_prefix {
	__u32 length;
	__u8 address[16];
};

/* How a held frame is taken off the wire (settings.take). */
enum take {
	/* Copied to the ring; the original is consumed by a clsact action. */
	TAKE_STOLEN = 0,
	/* Copied to the ring; the original is redirected to no device, which is how tcx lets a packet vanish without
	 * telling TCP of a loss. */
	TAKE_VANISH = 1,
	/* The frame itself travels, through a pair of virtual devices, behind a `struct held` header. */
	TAKE_REDIRECT = 2,
	/* The frame stays in the kernel, in a netfilter queue; its `struct held` goes to the ring. */
	TAKE_QUEUE = 3,
	/* Nothing is taken, left out or rewritten: what would have been is counted. */
	TAKE_NOTHING = 4,
};

/* Mark of what the daemon sends by itself through our own hooks: not to be taken again. */
#define PASS_MARK 0x0acc0acc

/* What stands before a held frame. `frame_length` 0 is a wake-up: budget that the scheduler waited for is there. */
struct held {
	__u64 time;
	__u32 flow;
	/* HELD_MAGIC in network order, where a network stack that is handed this as a frame looks for the protocol. */
	__u16 magic;
	__u16 frame_length;
	__u32 ack;
	__u16 window;
	/* Tag control information that travels beside the frame, and its protocol in host order; protocol 0 for none. */
	__u16 tag;
	__u16 tag_protocol;
	/* enum class */
	__u8 class;
	/* HELD_* */
	__u8 bits;
	__u8 shift;
	__u8 reserved[3];
};

/* What stands before a frame on its way to the generic host. */
struct taken {
	__u64 time;
	/* Bytes of the frame, and how many of them follow. */
	__u32 length;
	__u32 copied;
	/* Of an aggregate, else 0. */
	__u16 gso_size;
	__u16 gso_segs;
	/* As in `struct held`. */
	__u16 tag;
	__u16 tag_protocol;
	/* enum what */
	__u8 what;
	__u8 reserved[7];
};

/* What the generic host is shown. */
enum what {
	/* It was on its way out, and is the host's now. */
	TAKEN_EGRESS,
	/* It was on its way in, and is the host's now. */
	TAKEN_INGRESS,
	/* It is on its way in; these are its headers. */
	SEEN_INGRESS,
	/* A probe that arrived. */
	TAKEN_PROBE,
};

/* Bytes of the records that frames travel in to the generic host: headers and pure ACKs, single frames, jumbo frames, and the
 * largest aggregate whose length an IP header can tell, with two tags. */
#define HEADERS 256
#define JUMBO_FRAME 9216
#define LARGEST_FRAME (14 + 8 + 65535)

/* Local experimental Ethertype 1 (IEEE 802-2014 section 9.2.4). */
#define HELD_MAGIC 0x88b5
/* The frame carries ECN-Echo. */
#define HELD_ECE 1
/* The frame carries payload. */
#define HELD_DATA 2
/* The frame repeats the acknowledgement number before it. */
#define HELD_REPEATED 4
/* The frame has left already; this is its copy, which becomes a bare ACK. */
#define HELD_COPY 8
/* The frame reports a duplicate. */
#define HELD_DSACK 16

#endif
