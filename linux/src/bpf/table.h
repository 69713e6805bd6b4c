/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The flow table: which entry belongs to which connection.
 *
 * `keys` has the truth. An entry belongs to the connection whose address is there, and to none while the tags of it are NO_CONNECTION:
 * whoever writes that, atomically, has ended the entry and gives it back, once. `flow_ids` finds entries by address, and `hints` guesses
 * them: a lookup in a hash map of the kernel's takes some 30 ns more.
 */
#ifndef ACKGATE_TABLE_H
#define ACKGATE_TABLE_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

#include "../../../control/core/ingress.h"
#include "intf.h"

/* Binary logarithm of the number of hints: one for each entry of the table, and few enough to stay in the cache. */
#define HINT_BITS 16
/* Fibonacci hashing (Knuth, volume 3, section 6.4): 2^64 by the golden ratio, odd. */
#define GOLDEN_RATIO 0x9e3779b97f4a7c15ull
/* Entries that have ended and are not used again before so many others have: packets may be under way that have found them before. */
#define LOBBY 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_FLOWS);
	__type(key, __u32);
	__type(value, struct flow);
} flows SEC(".maps");

/* Address of each entry of `flows`. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_FLOWS);
	__type(key, __u32);
	__type(value, struct flow_key);
} keys SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_FLOWS);
	__type(key, struct flow_key);
	__type(value, __u32);
} flow_ids SEC(".maps");

/* Entries that were given back; those never used are handed out by `books.fresh`. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK);
	__uint(max_entries, MAX_FLOWS);
	__type(value, __u32);
} free_ids SEC(".maps");

/* Entries on their way to `free_ids`, plus one, and how many have come this way. */
__u32 lobby[LOBBY];
__u32 left;

/* Which entry an address that hashes to this was found in last, plus one: 0, which is also the last entry's, tells nothing. */
__u16 hints[1 << HINT_BITS] SEC(".bss.hints");

/* An address as words, the ports and tags last. */
#define KEY_WORDS 5

static __always_inline const volatile __u64 *words_of(const struct flow_key *key)
{
	return (const volatile __u64 *)key;
}

/* Addresses that were chosen to meet here cost a lookup each, no more. */
static __always_inline __u32 hint_of(const struct flow_key *key)
{
	const volatile __u64 *words = words_of(key);
	__u64 hash = (words[0] ^ words[1]) * GOLDEN_RATIO + (words[2] ^ words[3]);

	hash = ((hash ^ hash >> 32) + words[4]) * GOLDEN_RATIO;
	return hash >> (64 - HINT_BITS);
}

/* The last word first: while an entry changes hands it is the last to be written. */
static __always_inline bool is_entry_of(const struct flow_key *slot, const struct flow_key *key)
{
	const volatile __u64 *a = words_of(slot), *b = words_of(key);

	return a[4] == b[4] && a[3] == b[3] && a[2] == b[2] && a[1] == b[1] && a[0] == b[0];
}

/* Makes the entry a connection's. */
static __always_inline void hand_over(struct flow_key *slot, const struct flow_key *key)
{
	const volatile __u64 *from = words_of(key);
	__u64 *to = (__u64 *)slot;

	for (int i = 0; i < KEY_WORDS - 1; i++)
		set64(&to[i], from[i]);
	/* Atomic, so that it is the last for others, too. */
	__sync_lock_test_and_set(&to[KEY_WORDS - 1], from[KEY_WORDS - 1]);
}

/* The connection's entry, if there is one, without a guess: of a new one's address the hint is in no cache. */
static __always_inline bool look_up_id(const struct flow_key *key, __u32 *id)
{
	__u32 *known = bpf_map_lookup_elem(&flow_ids, key);

	if (known)
		*id = *known;
	return known;
}

/* The connection's entry, if there is one. */
static __always_inline bool find_id(const struct flow_key *key, __u32 *id)
{
	volatile __u16 *hint = &hints[hint_of(key)];
	struct flow_key *slot;

	*id = (__u32)*hint - 1;
	slot = bpf_map_lookup_elem(&keys, id);
	if (slot && is_entry_of(slot, key))
		return true;
	if (!look_up_id(key, id))
		return false;
	*hint = *id + 1;
	return true;
}

/* A free entry, or one that was never used; at least `settings.capacity` when there is none. */
static __always_inline __u32 new_id(void)
{
	__u64 fresh;
	__u32 id;

	if (bpf_map_pop_elem(&free_ids, &id) == 0)
		return id;
	if (get64(&books.fresh) >= settings.capacity)
		return settings.capacity;
	fresh = __sync_fetch_and_add(&books.fresh, 1);
	if (fresh >= settings.capacity)
		add64(&books.fresh, -1ull);
	return fresh;
}

/* An entry for a connection that has none. Negative when there is none. */
SUBPROGRAM int remember(const struct flow_key *key)
{
	struct flow_key *slot, own;
	__u32 id;

	if (!key)
		return -1;
	/* Until Linux 6.4 a map takes no key by a subprogram's argument. */
	own = *key;
	id = new_id();
	if (id >= settings.capacity) {
		add64(&books.unguarded, 1);
		return -1;
	}
	slot = bpf_map_lookup_elem(&keys, &id);
	if (slot)
		hand_over(slot, &own);
	if (bpf_map_update_elem(&flow_ids, &own, &id, BPF_NOEXIST)) {
		__u32 *known = bpf_map_lookup_elem(&flow_ids, &own);

		if (slot)
			set32(&slot->vlan, NO_CONNECTION);
		bpf_map_push_elem(&free_ids, &id, 0);
		if (!known) {
			add64(&books.unguarded, 1);
			return -1;
		}
		id = *known;
	}
	hints[hint_of(&own)] = id + 1;
	return id;
}

/* Ends an entry; says whether it was this call that did, and so has to give it back. */
SUBPROGRAM int forget(__u32 id)
{
	struct flow_key *slot = bpf_map_lookup_elem(&keys, &id), own, ended;
	const __u32 last = KEY_WORDS - 1;
	__u16 *hint;

	if (!slot)
		return false;
	own = ended = *slot;
	ended.vlan = NO_CONNECTION;
	if (own.vlan == NO_CONNECTION || !replace64((__u64 *)slot + last, words_of(&own)[last], words_of(&ended)[last]))
		return false;
	bpf_map_delete_elem(&flow_ids, &own);
	hint = &hints[hint_of(&own)];
	if (*hint == (__u16)(id + 1))
		*hint = 0;
	return true;
}

/* Forgets a connection and gives its entry back, by way of the lobby. So soon, for another that begins now finds it in the cache. */
SUBPROGRAM int let_go(struct flow *flow, __u32 id)
{
	__u32 before;

	if (!flow || !forget(id))
		return false;
	close_flow(flow);
	before = __sync_lock_test_and_set(&lobby[__sync_fetch_and_add(&left, 1) & (LOBBY - 1)], id + 1);
	if (before > 0) {
		before -= 1;
		bpf_map_push_elem(&free_ids, &before, 0);
	}
	return true;
}

static __always_inline void end_if_over(struct flow *flow, __u32 id)
{
	if (!settings.keep_all && is_over(flow))
		let_go(flow, id);
}

#endif
