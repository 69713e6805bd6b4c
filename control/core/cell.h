/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Integers that several processors share, the packet path and the scheduler among them, and how the core gets at its
 * settings and its gate: natively they are arguments (one process may have many), in BPF they are the object's own.
 *
 * Each counter is exact by itself, and nothing is inferred from the order in which two of them change, but for advance().
 */
#ifndef ACKGATE_CORE_CELL_H
#define ACKGATE_CORE_CELL_H

#include "types.h"

#ifdef __bpf__
/* The object has one gate and its settings are constants. */
#define WITH_CORE
#define CORE
#define CORE_ONLY void
#define CORE_ALONE
#define SETTINGS (&settings)
#define GATE (&gate)
/* Verified once by itself instead of wherever it is called, which keeps the verifier's work small; its pointers must be
 * checked, for it is verified for any caller. */
#define SUBPROGRAM __attribute__((noinline))
/* What nearly every packet passes through is none: a call takes ten nanoseconds and more on processors that are protected from speculation
 * behind returns (SRSO, Retbleed). */
#define HOT INLINE
/* The verifier's bounded loops are not unrolled. */
#define ROLLED _Pragma("clang loop unroll(disable)")
const volatile struct settings settings;
struct gate gate;
#else
/* Settings and gate are arguments. */
#define WITH_CORE const struct settings *core_settings, struct gate *core_gate,
#define CORE core_settings, core_gate,
#define CORE_ONLY const struct settings *core_settings, struct gate *core_gate
#define CORE_ALONE core_settings, core_gate
#define SETTINGS core_settings
#define GATE core_gate
#define SUBPROGRAM static inline
#define HOT static inline
#define ROLLED
#endif
#define INLINE static inline __attribute__((always_inline))

/* Attempts at a compare-and-swap. One that loses so often gives up, which errs by one packet and expires with what is owed. */
#define SWAP_TRIES 16

INLINE __u32 max_u32(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

INLINE __u64 max_u64(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

INLINE __u64 min_u64(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

INLINE __u64 saturating_sub(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

INLINE __u64 div_ceil(__u64 a, __u64 b)
{
	return a / b + (a % b > 0);
}

INLINE __u64 get64(const __u64 *cell)
{
	return *(const volatile __u64 *)cell;
}

INLINE __u32 get32(const __u32 *cell)
{
	return *(const volatile __u32 *)cell;
}

INLINE void set64(__u64 *cell, __u64 value)
{
	*(volatile __u64 *)cell = value;
}

INLINE void set32(__u32 *cell, __u32 value)
{
	*(volatile __u32 *)cell = value;
}

INLINE void add64(__u64 *cell, __u64 n)
{
	__sync_fetch_and_add(cell, n);
}

INLINE void add32(__u32 *cell, __u32 n)
{
	__sync_fetch_and_add(cell, n);
}

INLINE bool replace64(__u64 *cell, __u64 old, __u64 new)
{
	return __sync_val_compare_and_swap(cell, old, new) == old;
}

INLINE bool replace32(__u32 *cell, __u32 old, __u32 new)
{
	return __sync_val_compare_and_swap(cell, old, new) == old;
}

INLINE __u64 take64(__u64 *cell)
{
	return __sync_lock_test_and_set(cell, 0);
}

INLINE __u32 take32(__u32 *cell)
{
	return __sync_lock_test_and_set(cell, 0);
}

INLINE __u64 take_up_to64(__u64 *cell, __u64 n)
{
	__u64 now = get64(cell);

	if (now == 0 || n == 0)
		return 0;
ROLLED
	for (int i = 0; i < SWAP_TRIES; i++) {
		__u64 taken = min_u64(now, n);
		__u64 seen = __sync_val_compare_and_swap(cell, now, now - taken);

		if (seen == now)
			return taken;
		now = seen;
	}
	return 0;
}

INLINE __u32 take_up_to32(__u32 *cell, __u32 n)
{
	__u32 now = get32(cell);

	if (now == 0)
		return 0;
ROLLED
	for (int i = 0; i < SWAP_TRIES; i++) {
		__u32 taken = now < n ? now : n;
		__u32 seen = __sync_val_compare_and_swap(cell, now, now - taken);

		if (seen == now)
			return taken;
		now = seen;
	}
	return 0;
}


#endif
