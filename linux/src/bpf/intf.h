/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the BPF programs and the daemon share. `struct gate` and `struct flow` are control/src/pac/state.rs, `struct
 * flow_key` is control/src/flow.rs: a test compares sizes and offsets. Sizes are in bytes, times in ns of the monotonic
 * clock.
 */
#ifndef ACKGATE_INTF_H
#define ACKGATE_INTF_H

/* Connections that are guarded at once; one more is simply not guarded. */
#define MAX_FLOWS 65536

/* Bytes of the largest frame that is ever held. Pure ACKs, SYN-ACKs and small requests fit; what does not, passes. */
#define MAX_FRAME 1280

/* Frames up to this size travel to the daemon in a record of the smaller kind. */
#define SMALL_FRAME 104

struct flow_key {
	__u8 local[16];
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	__u32 vlan;
};

/* Class of control/src/pac/account.rs, in its order. */
enum class { CLASS_ACK, CLASS_HANDSHAKE, CLASS_REQUEST, CLASS_URGENT, CLASS_STALE, CLASS_DATA, CLASS_NONE };

/* Bits of flow.flags (control/src/pac/state.rs, mod flag). */
#define FLOW_KNOWN (1u << 0)
#define FLOW_AVOIDANCE (1u << 1)
#define FLOW_HALF_OPEN (1u << 2)
#define FLOW_CLOSING (1u << 3)
#define FLOW_RECOVERING (1u << 4)
#define FLOW_OVERTAKEN (1u << 5)
#define FLOW_ZERO_WINDOW (1u << 6)
#define FLOW_PUSHED (1u << 7)
#define FLOW_PUSHES_MIDWAY (1u << 8)
#define FLOW_RECEIVED (1u << 9)
#define FLOW_ACKED (1u << 10)
#define FLOW_PEER_DONE (1u << 11)
#define FLOW_ENGAGED (1u << 12)
#define FLOW_SCALE_KNOWN (1u << 13)
#define FLOW_REDUCED (1u << 14)
#define FLOW_WAITED (1u << 15)
#define FLOW_STOPPED (1u << 16)
#define FLOW_ASKED (1u << 17)
#define FLOW_ASKS (1u << 18)
#define FLOW_DRY (1u << 19)
#define FLOW_COPIED (1u << 20)
#define FLOW_AWAITED (1u << 21)

struct gate {
	__u64 owed;
	__u64 written_off;
	__u64 threshold;
	__u64 cap;
	__u64 held;
	__u64 wanted;
	__u64 interval_start;
	__u64 mean_rtt;
	__u64 interval;
	__u64 interval_bytes;
	__u64 interval_frames;
	__u64 interval_marked;
	__u64 interval_charged;
	__u64 charged_before;
	__u64 smooth_bandwidth;
	__u64 smooth_in_flight;
	__u64 half_open;
	__u64 engaged;
	__u64 crowd;
	__u64 crowd_since;
	__u64 response_delay;
	__u64 usual_response;
	__u64 arrivals;
	__u64 last_syn;
	__u64 syn_burst;
	__u64 last_data;
	__u64 bytes;
	__u64 lost;
	__u64 passed;
	__u64 thinned;
	__u64 corrections;
	__u64 voided;
	__u64 heartbeat;
};

struct flow {
	__u64 last_seen;
	__u64 last_active;
	__u64 handshake_start;
	__u64 ts_start;
	__u64 interval_start;
	__u64 last_bandwidth;
	__u64 size;
	__u32 flags;
	__u32 owed;
	__u32 released_ack;
	__u32 ack_high;
	__u32 received;
	__u32 recover;
	__u32 window;
	__u32 last_response;
	__u32 interval_bytes;
	__u32 slow_intervals;
	__u32 rtt;
	__u32 added_delay;
	__u32 ts_value;
	__u32 mss;
	__u32 header;
	__u32 last_window;
	__u32 held;
	__u32 generation;
	__u32 edge;
	__u32 scale;
	__u32 tsval;
	__u32 hole_since;
	__u32 run;
	__u32 due;
	__u32 unpaid;
	__u32 due_since;
};

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
};

/* Settings that the programs need, fixed before they are loaded (control/src/pac/config.rs). */
struct settings {
	__u64 min_interval;
	__u64 silence;
	__u64 lambda_permille;
	__u64 max_held;
	__u64 max_half_open;
	/* Rate of the guarded link in Mb/s; 0 when it is not known. */
	__u64 rate_mbps;
	/* Age of the heartbeat beyond which nothing is held. */
	__u64 stale;
	__u32 initial_window;
	__u32 capacity;
	/* Interface that held frames are redirected to; 0 for none. */
	__u32 hold_ifindex;
	__u8 per_byte_growth;
	__u8 charge_requests;
	__u8 gate_requests;
	__u8 push_ends_response;
	__u8 timestamps;
	/* How a held frame is taken off the wire: enum take. */
	__u8 take;
	/* Time comes from the variable `fixed_clock` instead of the machine: differential test only. */
	__u8 fixed_time;
	/* Exact credit (control/src/credit.rs). */
	__u8 credit;
	/* What may be held: enum hold_what. */
	__u8 hold;
	/* ACKs may be left out. */
	__u8 thin_acks;
	/* Windows are shown no larger than PAC can use. */
	__u8 bound_windows;
	__u8 reserved[1];
};

enum hold_what {
	HOLD_NOTHING = 0,
	HOLD_REQUESTS = 1,
	HOLD_ALL = 2,
};

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
};

/* Mark of what the daemon sends by itself while netfilter holds: not to be held again. */
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

#endif
