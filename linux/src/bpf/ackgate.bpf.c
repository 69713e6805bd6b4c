// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The packet path of a guarded device: tc ingress accounts, tc egress passes or holds.
 *
 * Both programs let everything through that they do not understand, have no room for, or could not hold: the verdict is
 * TC_ACT_UNSPEC ("go on with whatever else is attached") except for a frame that was taken. What is held goes to the
 * daemon, which releases it past this hook. A daemon that shows no sign of life holds nothing.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "../../../control/core/egress.h"
#include "intf.h"
#include "packet.h"
#include "path.h"
#include "table.h"

#define RING_BYTES (4u << 20)
/* Unread bytes in the ring from which the daemon is woken even if it waits for something else. */
#define RING_ALARM (RING_BYTES / 4)

__u64 fixed_clock;

/* Link header of each entry of `flows` whose peer was told less than TCP said. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_FLOWS);
	__type(key, __u32);
	__type(value, struct link);
} links SEC(".maps");

/* How many entries the daemon wants to be forgotten or given back, and which. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1 + MOST_LEAVING);
	__type(key, __u32);
	__type(value, __u32);
} leaving SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} ring SEC(".maps");

/* Which connections are to be left alone: bits of SELECT_*, 0 where there are no rules. A constant to the verifier. */
const volatile __u32 selection;

/* What the rules say of a peer's address (the bits of all prefixes that it lies in), and of a port at either end. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_RULES);
	__type(key, struct peer_prefix);
	__type(value, __u32);
} peer_rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u16);
	__type(value, __u32);
} port_rules SEC(".maps");

/* What the rules say of a control group (version 2), by its number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MAX_GROUPS);
	__type(key, __u64);
	__type(value, __u32);
} group_rules SEC(".maps");

/* Connections that are left alone, so that each is decided on and counted once. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct flow_key);
	__type(value, __u8);
} left_alone SEC(".maps");

struct small_record {
	struct held held;
	__u8 frame[SMALL_FRAME];
};

struct large_record {
	struct held held;
	__u8 frame[MAX_FRAME];
};

static __always_inline __u64 clock(void)
{
	return settings.fixed_time ? fixed_clock : bpf_ktime_get_ns();
}

/* Whether a segment makes us remember its connection: a SYN while there is room for half-open connections, or anything
 * that our own side sends in mid-stream. Nobody outside can fill the table with packets that our side does not answer. */
static __always_inline bool opens(const struct segment *segment, bool ingress)
{
	if (segment->flags & SYN)
		return get64(&gate.half_open) < settings.max_half_open && !(ingress && segment->flags & ACK);
	return !ingress && !(segment->flags & (FIN | RST));
}

/* What the rules say of the control group that the socket of a frame that leaves was made in, and of those that this one lies in. */
SUBPROGRAM int said_of_groups(struct __sk_buff *skb)
{
	__u32 *found, said = 0;
	__u64 number;
	int level;

	for (level = 0; level < GROUP_LEVELS; level++) {
		number = bpf_skb_ancestor_cgroup_id(skb, level);
		if (!number)
			break;
		found = bpf_map_lookup_elem(&group_rules, &number);
		said |= found ? *found : 0;
	}
	return said;
}

/* Whether the rules leave a connection alone that is not guarded yet, of whose socket they say something already; a SYN begins one
 * that is decided on anew. */
SUBPROGRAM int leave_alone(const struct flow_key *key, int fresh, __u32 said)
{
	struct peer_prefix peer = { .length = 128 };
	struct flow_key own;
	__u32 *found;
	__u8 yes = 1;

	if (!key)
		return 0;
	own = *key;
	if (!fresh && bpf_map_lookup_elem(&left_alone, &own))
		return 1;
	__builtin_memcpy(peer.address, own.remote, sizeof(peer.address));
	found = bpf_map_lookup_elem(&peer_rules, &peer);
	said |= found ? *found : 0;
	found = bpf_map_lookup_elem(&port_rules, &own.local_port);
	said |= found ? *found : 0;
	found = bpf_map_lookup_elem(&port_rules, &own.remote_port);
	said |= found ? *found : 0;
	if (!(said & SELECT_EXCLUDE) && (said & SELECT_INCLUDE || !(selection & SELECT_INCLUDE))) {
		if (fresh)
			bpf_map_delete_elem(&left_alone, &own);
		return 0;
	}
	if (bpf_map_update_elem(&left_alone, &own, &yes, BPF_NOEXIST) == 0)
		add64(&books.excluded, 1);
	return 1;
}

/* With rules that name control groups, whoever opens a connection to this side is decided on by our SYN-ACK: what arrives has no
 * socket yet. Without `skb` there are no such rules: netfilter's match cannot ask for groups. */
static __always_inline struct flow *find_flow(struct __sk_buff *skb, const struct packet *packet, bool ingress, __u32 *id)
{
	bool groups = skb && selection & SELECT_GROUPS, known;
	__u8 flags = packet->segment.flags;
	__u32 said = 0;

	known = (flags & (SYN | ACK)) == SYN ? look_up_id(&packet->key, id) : find_id(&packet->key, id);
	if (groups && !ingress && (!known || (flags & (SYN | ACK)) == (SYN | ACK)))
		said = said_of_groups(skb);
	if (known) {
		if (groups && !ingress && (flags & (SYN | ACK)) == (SYN | ACK) && leave_alone(&packet->key, SYN, said)) {
			let_go(bpf_map_lookup_elem(&flows, id), *id);
			return NULL;
		}
	} else {
		if (!opens(&packet->segment, ingress))
			return NULL;
		if (selection && !(groups && ingress) && leave_alone(&packet->key, flags & SYN, said))
			return NULL;
		*id = remember(&packet->key);
		if (!(flags & SYN))
			add64(&books.joined, 1);
	}
	return bpf_map_lookup_elem(&flows, id);
}

static __always_inline void describe(const struct __sk_buff *skb, const struct outgoing *out, __u32 id, __u64 now,
				     struct held *held)
{
	held->time = now;
	held->flow = id;
	held->magic = bpf_htons(HELD_MAGIC);
	held->ack = out->ack;
	held->frame_length = skb->len;
	held->tag = skb->vlan_present ? skb->vlan_tci : 0;
	held->tag_protocol = skb->vlan_present ? bpf_ntohs(skb->vlan_proto) : 0;
	held->window = out->window;
	held->class = out->class;
	held->bits = (out->ece ? HELD_ECE : 0) | (out->data ? HELD_DATA : 0) | (out->repeated ? HELD_REPEATED : 0) |
		     (out->copy ? HELD_COPY : 0) | (out->dsack ? HELD_DSACK : 0);
	held->shift = out->shift;
}

static __always_inline bool copy_small(struct __sk_buff *skb, const struct outgoing *out, __u32 id, __u64 now,
				       __u64 wake)
{
	struct small_record *record;

	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record)
		return false;
	describe(skb, out, id, now, &record->held);
	if (!copy_frame(skb, record->frame, skb->len, SMALL_FRAME)) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return false;
	}
	bpf_ringbuf_submit(record, wake);
	return true;
}

static __always_inline bool copy_large(struct __sk_buff *skb, const struct outgoing *out, __u32 id, __u64 now,
				       __u64 wake)
{
	struct large_record *record;

	record = bpf_ringbuf_reserve(&ring, sizeof(*record), 0);
	if (!record)
		return false;
	describe(skb, out, id, now, &record->held);
	if (!copy_frame(skb, record->frame, skb->len, MAX_FRAME)) {
		bpf_ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return false;
	}
	bpf_ringbuf_submit(record, wake);
	return true;
}

/* The daemon is woken by the first frame that is held, and by what must not wait for long: loss recovery takes the
 * connection's held frames along. While others wait it is woken by budget (see `ingress`), and reads what came in between
 * then. */
static __always_inline bool copy_to_ring(struct __sk_buff *skb, const struct outgoing *out, __u32 id, __u64 now)
{
	bool urgent = out->first || out->class == CLASS_URGENT || out->class == CLASS_STALE ||
		      bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > RING_ALARM;
	__u64 wake = urgent ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;

	if (skb->len <= SMALL_FRAME)
		return copy_small(skb, out, id, now, wake);
	return skb->len <= MAX_FRAME && copy_large(skb, out, id, now, wake);
}

static __always_inline int take_by_ring(struct __sk_buff *skb, const struct outgoing *out, __u32 id, __u64 now)
{
	if (!copy_to_ring(skb, out, id, now))
		return TC_ACT_UNSPEC;
	return vanish();
}

/* A function of its own: what it puts before the frame is not on the stack where the deepest chain of calls begins. */
static __noinline int take_by_redirect(struct __sk_buff *skb, const struct outgoing *out, __u32 id, __u64 now)
{
	struct held held = {};

	if (skb->len > MAX_FRAME)
		return TC_ACT_UNSPEC;
	describe(skb, out, id, now, &held);
	if (bpf_skb_change_head(skb, sizeof(held), 0))
		return TC_ACT_UNSPEC;
	/* The head is there now: this cannot fail. */
	bpf_skb_store_bytes(skb, 0, &held, sizeof(held), 0);
	return bpf_redirect(settings.hold_ifindex, 0);
}

/* What arrives is no TCP, or nobody's here. */
static __always_inline void count_other(const struct __sk_buff *skb)
{
	note_other(skb->len, skb->gso_segs > 1 ? skb->gso_segs : 1);
}

SEC("tc")
int ackgate_ingress(struct __sk_buff *skb)
{
	struct packet packet = {};
	struct flow *flow;
	enum reject reject;
	__u64 now;
	__u32 id;

	now = clock();
	reject = parse(skb, true, &packet);
	if (reject) {
		count_reject(reject);
		count_other(skb);
		return TC_ACT_UNSPEC;
	}
	flow = find_flow(skb, &packet, true, &id);
	if (!flow) {
		add64(&books.untracked, 1);
		count_other(skb);
		return TC_ACT_UNSPEC;
	}
	if (account_ingress(flow, &packet.segment, now)) {
		/* The wake-up is what counts; a record that is discarded carries it as well as one that is read. */
		void *record = bpf_ringbuf_reserve(&ring, sizeof(__u64), 0);

		if (record)
			bpf_ringbuf_discard(record, BPF_RB_FORCE_WAKEUP);
	}
	end_if_over(flow, id);
	return TC_ACT_UNSPEC;
}

/* Where windows are granted or bounded, the window field of a segment that passes says the flow's right edge. */
static __always_inline bool rewrite_window(struct __sk_buff *skb, const struct flow *flow,
					   const struct segment *segment, const struct outgoing *out)
{
	__u16 window;
	__be16 old, new;

	window = window_field(flow, out);
	if (window == out->window)
		return false;
	add64(&gate.rewritten, 1);
	old = bpf_htons(out->window);
	new = bpf_htons(window);
	/* A checksum that is left to the card is summed up when the packet leaves; this helper knows. */
	if (bpf_l4_csum_replace(skb, segment->tcp + 16, old, new, sizeof(new)) == 0)
		bpf_skb_store_bytes(skb, segment->tcp + 14, &new, sizeof(new), 0);
	return true;
}

/* The peer is told less than TCP said: should nobody be left to make up for it, the standby will. */
static __always_inline void note_link(struct __sk_buff *skb, __u32 id)
{
	struct link *link = bpf_map_lookup_elem(&links, &id);
	const __u32 *from = (void *)(long)skb->data;
	__u32 *to = (void *)link;

	if (!link)
		return;
	if ((void *)from + sizeof(link->head) <= (void *)(long)skb->data_end)
		for (unsigned int i = 0; i < sizeof(link->head) / sizeof(*to); i++)
			to[i] = from[i];
	else if (bpf_skb_load_bytes(skb, 0, link->head, sizeof(link->head)))
		return;
	link->tag = skb->vlan_present ? skb->vlan_tci : 0;
	link->tag_protocol = skb->vlan_present ? bpf_ntohs(skb->vlan_proto) : 0;
}

/* What would have become of a segment that leaves as it is. */
static __always_inline void observe(struct flow *flow, struct outgoing *out, int decision, __u64 now)
{
	if (decision == DECIDE_HOLD || decision == DECIDE_SPLIT) {
		add64(&books.would_hold, 1);
		pass_after_all(flow, out, now);
	}
	if (decision != DECIDE_DISCARD && window_field(flow, out) != out->window)
		add64(&gate.rewritten, 1);
}

SEC("tc")
int ackgate_egress(struct __sk_buff *skb)
{
	struct packet packet = {};
	struct outgoing out = {};
	int decision, verdict = TC_ACT_UNSPEC;
	bool copied = false;
	struct flow *flow;
	enum reject reject;
	__u64 now;
	__u32 id;

	/* What the daemon has released, on its way to whoever stands behind us. */
	if (skb->mark == PASS_MARK)
		return TC_ACT_UNSPEC;
	reject = parse(skb, false, &packet);
	if (reject) {
		count_reject(reject);
		return TC_ACT_UNSPEC;
	}
	now = clock();
	flow = find_flow(skb, &packet, false, &id);
	if (!flow) {
		add64(&books.untracked, 1);
		return TC_ACT_UNSPEC;
	}
	decision = account_egress(flow, &packet.segment, now, &out);
	if (settings.take == TAKE_NOTHING) {
		observe(flow, &out, decision, now);
		return TC_ACT_UNSPEC;
	}
	if (decision != DECIDE_PASS)
		note_link(skb, id);
	if (decision == DECIDE_DISCARD)
		return vanish();
	if (decision != DECIDE_PASS) {
		bool alive = since(now, get64(&gate.heartbeat)) <= settings.stale;

		if (alive && decision == DECIDE_SPLIT)
			copied = copy_to_ring(skb, &out, id, now);
		else if (alive)
			verdict = settings.take == TAKE_REDIRECT ? take_by_redirect(skb, &out, id, now)
								 : take_by_ring(skb, &out, id, now);
		if (verdict != TC_ACT_UNSPEC)
			return verdict;
		if (!copied) {
			add64(&books.overflow, 1);
			pass_after_all(flow, &out, now);
		}
	}
	if (rewrite_window(skb, flow, &packet.segment, &out) && decision == DECIDE_PASS)
		note_link(skb, id);
	end_if_over(flow, id);
	return TC_ACT_UNSPEC;
}

/* Netfilter's queue (`--hold nfqueue`): the verdict is made by the match of a rule in POSTROUTING, before tc, and only
 * what must wait goes to the queue. The window is rewritten afterwards, for whatever passes tc. */

static __always_inline bool note_held(struct __sk_buff *skb, const struct outgoing *out, __u32 id, __u64 now)
{
	struct held *held = bpf_ringbuf_reserve(&ring, sizeof(*held), 0);

	if (!held)
		return false;
	describe(skb, out, id, now, held);
	held->frame_length = 0;
	/* The queue wakes the daemon. */
	bpf_ringbuf_submit(held, BPF_RB_NO_WAKEUP);
	return true;
}

/* Whether the packet has to wait, as netfilter's match `bpf` wants to be told: not 0 is yes. */
SEC("socket")
int ackgate_wait(struct __sk_buff *skb)
{
	struct packet packet = {};
	struct outgoing out = {};
	struct flow *flow;
	enum reject reject;
	int decision;
	__u64 now;
	__u32 id;

	if (skb->mark == PASS_MARK)
		return 0;
	reject = parse_packet(skb, &packet);
	if (reject) {
		count_reject(reject);
		return 0;
	}
	now = clock();
	flow = find_flow(NULL, &packet, false, &id);
	if (!flow) {
		add64(&books.untracked, 1);
		return 0;
	}
	/* Where addresses are translated behind this hook, what arrives has others, and pays nobody: the connection is left alone. */
	if ((packet.segment.flags & (SYN | ACK)) != SYN && !any_flag(flow, FLOW_MET | FLOW_RECEIVED))
		return 0;
	decision = account_egress(flow, &packet.segment, now, &out);
	if (decision == DECIDE_PASS)
		return 0;
	if (since(now, get64(&gate.heartbeat)) <= settings.stale && skb->len + sizeof(struct ethernet) <= MAX_FRAME) {
		if (decision == DECIDE_SPLIT && copy_to_ring(skb, &out, id, now))
			return 0;
		if (decision == DECIDE_HOLD && note_held(skb, &out, id, now))
			return 1;
	}
	add64(&books.overflow, 1);
	pass_after_all(flow, &out, now);
	return 0;
}

SEC("tc")
int ackgate_window(struct __sk_buff *skb)
{
	struct packet packet = {};
	struct segment *segment = &packet.segment;
	struct outgoing out = {};
	struct flow *flow;
	__u32 id;

	if (!(settings.credit || settings.bound_windows) || !daemon_lives(clock()) || parse(skb, false, &packet))
		return TC_ACT_UNSPEC;
	flow = find_id(&packet.key, &id) ? bpf_map_lookup_elem(&flows, &id) : NULL;
	/* What `classify` leaves alone. */
	if (!flow || segment->flags & RST || !(segment->flags & ACK) ||
	    seq_distance(segment->ack, get32(&flow->ack_high)) < 0)
		return TC_ACT_UNSPEC;
	if (segment->flags & SYN && get64(&gate.half_open) > settings.max_half_open)
		return TC_ACT_UNSPEC;
	out.class = CLASS_ACK;
	out.ack = segment->ack;
	out.window = segment->window;
	out.shift = segment->flags & SYN ? 0 : get32(&flow->scale) & 15;
	rewrite_window(skb, flow, segment, &out);
	return TC_ACT_UNSPEC;
}

/*
 * Entries of connections that have ended, or have been silent for long, for the daemon: as system calls of its own, one for each entry and
 * step, they cost more than all that the connection's packets did. What has been given back meanwhile is marked so.
 */

static long forget_one(__u32 index, void *unused)
{
	__u32 at = index + 1, *id = bpf_map_lookup_elem(&leaving, &at);

	(void)unused;
	if (id && !forget(*id))
		*id = NO_ENTRY;
	return 0;
}

static long give_back_one(__u32 index, void *unused)
{
	__u32 at = index + 1, *id = bpf_map_lookup_elem(&leaving, &at);

	(void)unused;
	/* The stack has room for every entry there is. */
	if (id)
		bpf_map_push_elem(&free_ids, id, 0);
	return 0;
}

static __always_inline __u32 leaving_count(void)
{
	__u32 first = 0, *count = bpf_map_lookup_elem(&leaving, &first);

	return count && *count <= MOST_LEAVING ? *count : 0;
}

SEC("tc")
int ackgate_forget(struct __sk_buff *skb)
{
	(void)skb;
	bpf_loop(leaving_count(), forget_one, NULL, 0);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int ackgate_give_back(struct __sk_buff *skb)
{
	(void)skb;
	bpf_loop(leaving_count(), give_back_one, NULL, 0);
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
