/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two processors in the decision core at once, in every order with up to two changes of turn: each look at a cell, and each change of
 * one, is a step, before which the other processor may go on. control/tests/interleavings.rs asks what came of it.
 */
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

static void step(void);

#define __sync_fetch_and_add(...) (step(), __sync_fetch_and_add(__VA_ARGS__))
#define __sync_fetch_and_or(...) (step(), __sync_fetch_and_or(__VA_ARGS__))
#define __sync_fetch_and_and(...) (step(), __sync_fetch_and_and(__VA_ARGS__))
#define __sync_val_compare_and_swap(...) (step(), __sync_val_compare_and_swap(__VA_ARGS__))
#define __sync_lock_test_and_set(...) (step(), __sync_lock_test_and_set(__VA_ARGS__))
#include "../core/cell.h"
#define get32(cell) (step(), get32(cell))
#define get64(cell) (step(), get64(cell))
#define set32(cell, value) (step(), set32(cell, value))
#define set64(cell, value) (step(), set64(cell, value))
#include "../core/egress.h"
#include "../core/silence.h"

#define STACK (256 << 10)
#define MSS 1448u

/* One connection that both processors work on, another that owes meanwhile, and what each processor has to hold. */
static struct world {
	struct gate gate;
	struct flow flow;
	struct flow other;
	struct outgoing held[2];
	bool holds[2];
} world;

static const struct settings *core_settings;
static struct gate *const core_gate = &world.gate;
static ucontext_t scheduler, processors[2];
static char stacks[2][STACK];
static bool exploring, done[2];
static int running;
/* Steps until the other one's turn. */
static long left;
static long steps;
static __u64 now;
/* How far the sender might go at the last step; of which connection, 0 if none has begun: two first segments at once both set the edge. Whether
 * it might go less far once. */
static __u32 furthest, connection;
static bool retracted;

static void watch_edge(void)
{
	if (!(world.flow.flags & FLOW_ACKED))
		connection = 0;
	if (connection != world.flow.generation)
		return;
	retracted |= (__s32)(world.flow.edge - furthest) < 0;
	furthest = world.flow.edge;
}

static void step(void)
{
	steps++;
	watch_edge();
	if (exploring && left > 0 && --left == 0)
		swapcontext(&processors[running], &scheduler);
}

static void arrives(__u8 flags, __u32 seq, __u32 payload)
{
	struct segment segment = { .seq = seq, .ack = 101, .payload = payload, .flags = flags, .frames = 1, .header = 66, .window = 1000,
				   .wscale = flags & SYN ? 7 : NO_WSCALE, .mss = flags & SYN ? 1460 : 0 };

	account_ingress(CORE &world.flow, &segment, now);
}

static void leaves(__u8 flags, __u32 ack, __u32 payload)
{
	struct segment segment = { .seq = 1, .ack = ack, .payload = payload, .flags = flags, .frames = 1, .header = 66, .window = 1000,
				   .wscale = flags & SYN ? 7 : NO_WSCALE, .mss = flags & SYN ? 1460 : 0 };
	struct outgoing out = {};
	int decision = account_egress(CORE &world.flow, &segment, now, &out);

	if (decision == DECIDE_HOLD || decision == DECIDE_SPLIT) {
		world.held[running] = out;
		world.holds[running] = true;
	}
}

static __u32 received(void)
{
	return world.flow.received ? world.flow.received : 1;
}

static void data(void) { arrives(ACK, 1 + 2 * MSS, MSS); }
static void push(void) { arrives(ACK | PSH, 1 + 2 * MSS, 700); }
static void again(void) { arrives(ACK, 1, MSS); }
static void peer_fin(void) { arrives(ACK | FIN, 1 + 2 * MSS, 0); }
static void peer_rst(void) { arrives(RST, received(), 0); }
static void peer_syn(void) { arrives(SYN, 900, 0); }
static void acks(void) { leaves(ACK, received(), 0); }
static void asks(void) { leaves(ACK | PSH, received(), 100); }
static void syn_ack(void) { leaves(SYN | ACK, 1, 0); }
static void our_fin(void) { leaves(ACK | FIN, received(), 0); }
static void our_rst(void) { leaves(RST | ACK, received(), 0); }
static void silence(void) { void_if_silent(CORE &world.flow, now + 1000000000); }
static void interval(void) { roll(CORE now + 1000000000); }
static void forget(void) { close_flow(CORE &world.flow); }

static const struct {
	const char *name;
	void (*run)(void);
} works[] = {
	{ "data", data },	{ "a push", push },	 { "data again", again },   { "a FIN", peer_fin },
	{ "a reset", peer_rst }, { "a SYN", peer_syn },	 { "an ACK", acks },	    { "a request", asks },
	{ "a SYN-ACK", syn_ack }, { "our FIN", our_fin }, { "our reset", our_rst }, { "silence", silence },
	{ "an interval", interval }, { "oblivion", forget },
};
#define WORKS (sizeof(works) / sizeof(works[0]))
#define BEGINNINGS 4

/* How the connection stands when both begin. */
static void begin(int beginning)
{
	__u64 most = world.gate.threshold;

	running = 0;
	now += 1000000;
	arrives(SYN, 0, 0);
	if (beginning == 0)
		return;
	syn_ack();
	world.holds[0] = false;
	arrives(ACK, 1, 0);
	now += 100000;
	asks();
	arrives(ACK, 1, MSS);
	acks();
	arrives(ACK | (beginning == 2 ? PSH : 0), 1 + MSS, MSS);
	if (beginning == 2)
		acks();
	if (beginning == 3) {
		/* Another one owes all that may be owed: what leaves has to wait. */
		open_flow(CORE &world.other, now);
		activate(CORE &world.other);
		owe(CORE &world.other, most, 0);
	}
	if (world.holds[0]) {
		world.holds[0] = false;
		world.flow.held--;
		world.gate.held--;
	}
}

static void work(int which, int of)
{
	works[of].run();
	done[which] = true;
}

static void start(int which, int of)
{
	getcontext(&processors[which]);
	processors[which].uc_stack.ss_sp = stacks[which];
	processors[which].uc_stack.ss_size = STACK;
	processors[which].uc_link = &scheduler;
	makecontext(&processors[which], (void (*)(void))work, 2, which, of);
	done[which] = false;
}

/* A processor's turn; 0 steps is until its work is done. */
static void goes_on(int which, long most)
{
	if (done[which])
		return;
	running = which;
	left = most;
	exploring = true;
	swapcontext(&scheduler, &processors[which]);
	exploring = false;
}

static const char *what_is_wrong(void)
{
	if (world.gate.owed != (__u64)world.flow.owed + world.other.owed)
		return "what is owed";
	if (world.gate.active != (__u64)!!(world.flow.flags & FLOW_ACTIVE) + !!(world.other.flags & FLOW_ACTIVE))
		return "active flows";
	if (world.gate.half_open != (__u64)!!(world.flow.flags & FLOW_HALF_OPEN))
		return "handshakes";
	if (world.gate.offered != (__u64)world.flow.offered + world.other.offered)
		return "windows offered";
	if (world.gate.held != world.flow.held)
		return "what is held";
	return NULL;
}

/* What the scheduler does with what is held. */
static void release(int which)
{
	struct trigger trigger = {};
	struct view view;

	if (!world.holds[which])
		return;
	look(CORE &world.flow, &view);
	trigger_of(CORE &world.flow, &world.held[which], &view, &trigger);
	charge(CORE &world.flow, &world.held[which], &trigger, &view, now);
	add32(&world.flow.held, -1);
	add64(&world.gate.held, -1);
}

static const char *try(const struct world *from, int first, int second, long before, long between)
{
	const char *wrong;

	world = *from;
	furthest = from->flow.edge;
	connection = from->flow.flags & FLOW_ACKED ? from->flow.generation : 0;
	retracted = false;
	start(0, first);
	start(1, second);
	goes_on(0, before);
	goes_on(1, between);
	goes_on(0, 0);
	goes_on(1, 0);
	wrong = what_is_wrong();
	if (wrong)
		return wrong;
	release(0);
	release(1);
	if (world.gate.held)
		return "what is held in the end";
	watch_edge();
	if (retracted)
		return "the window's edge, which moved back";
	wrong = what_is_wrong();
	if (wrong)
		return wrong;
	close_flow(CORE &world.flow);
	close_flow(CORE &world.other);
	if (world.gate.owed || world.gate.active || world.gate.offered || world.gate.half_open)
		return "what is left in the end";
	/* A debt may stay behind on a path that its flow has just left, until nothing is owed any more. */
	balance(CORE_ALONE);
	for (int i = 0; i < PATHS; i++)
		if (world.gate.owed_by_path[i] || world.gate.held_by_path[i])
			return "what is left on a path in the end";
	return NULL;
}

/* Tries all orders; how many, or -1 and a line about the first in which the books do not add up. */
long ackgate_interleavings(const struct settings *settings, const struct gate *gate, char *report, unsigned long most)
{
	long tried = 0;

	core_settings = settings;
	for (int beginning = 0; beginning < BEGINNINGS; beginning++) {
		struct world from;

		memset(&world, 0, sizeof(world));
		world.gate = *gate;
		now = 1000000000;
		begin(beginning);
		from = world;
		for (int first = 0; first < (int)WORKS; first++) {
			for (int second = 0; second < (int)WORKS; second++) {
				long lengths[2];

				for (int which = 0; which < 2; which++) {
					world = from;
					running = which;
					steps = 0;
					works[which ? second : first].run();
					lengths[which] = steps;
				}
				for (long before = 1; before <= lengths[0]; before++) {
					for (long between = 0; between <= lengths[1]; between += 1 + lengths[1] / 24) {
						const char *wrong = try(&from, first, second, before, between);

						tried++;
						if (!wrong)
							continue;
						snprintf(report, most, "%s: %s for %ld steps, %s for %ld, then the rest, beginning %d", wrong,
							 works[first].name, before, works[second].name, between, beginning);
						return -1;
					}
				}
			}
		}
	}
	return tried;
}
