/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What every packet path of ours does: counts what it does not understand, copies a frame out, takes one off its way.
 */
#ifndef ACKGATE_PATH_H
#define ACKGATE_PATH_H

#include "intf.h"
#include "packet.h"

struct books books;

static __always_inline void count_reject(enum reject reject)
{
	if (reject == NOT_TCP)
		add64(&books.not_tcp, 1);
	else if (reject == FRAGMENT)
		add64(&books.fragments, 1);
	else if (reject == SIGNED)
		add64(&books.authenticated, 1);
	else
		add64(&books.malformed, 1);
}

/* Copies the first `count` bytes of a frame to where there is `room`, a constant. */
static __always_inline bool copy_frame(struct __sk_buff *skb, __u8 *to, __u32 count, __u32 room)
{
	/* One comparison bounds both sides, for 0 becomes the largest number; and the length that is used is never 0, which older
	 * verifiers do not learn from `!= 0`. */
	__u64 less_one = opaque((__u64)count - 1);

	if (less_one >= room)
		return false;
	return bpf_skb_load_bytes(skb, 0, to, less_one + 1) == 0;
}

/* Takes a packet off its way without telling TCP of a loss. */
static __always_inline int vanish(void)
{
	return settings.take == TAKE_STOLEN ? TC_ACT_STOLEN : bpf_redirect(0, 0);
}

#endif
