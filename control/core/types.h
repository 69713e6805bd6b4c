/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the decision core knows: its settings, one gate for the receiver, one flow per connection, and what it sees of a
 * segment. The only place where these are written down: the BPF programs include this file, and the build script of this
 * crate makes the Rust types from it. It therefore keeps to a simple form: a comment before each member, one member a line.
 *
 * Sizes are in bytes, times in ns of the monotonic clock. In-flight bytes are kept as a ledger: every charge is owed by a
 * flow until it arrives, expires or is voided. The sum of all flows' owed is the gate's, always.
 */
#ifndef ACKGATE_CORE_TYPES_H
#define ACKGATE_CORE_TYPES_H

#include <linux/types.h>
#include <stdbool.h>

/* TCP header flags (RFC 9293 section 3.1, RFC 3168 section 6.1). */
#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define PSH 0x08
#define ACK 0x10
#define URG 0x20
#define ECE 0x40
#define CWR 0x80

/* No window scale option. */
#define NO_WSCALE 0xff

/* What an outgoing segment is to the gate. */
enum class {
	/* Acknowledges new data (or updates the window): triggers what Eq. 3 says. */
	CLASS_ACK,
	/* A SYN-ACK or the handshake's last ACK: triggers the sender's initial window. */
	CLASS_HANDSHAKE,
	/* Asks an idle sender for a response: triggers the window that the sender has kept. */
	CLASS_REQUEST,
	/* Loss recovery or flow control must not wait: duplicate ACKs, SACK, partial ACKs, the end of a zero window. */
	CLASS_URGENT,
	/* A duplicate ACK caused by a retransmission that overtook a held ACK (PAC section III-D). */
	CLASS_STALE,
	/* Other data of ours, with whatever it acknowledges. Not held for its own sake. */
	CLASS_DATA,
	/* Triggers nothing and is never held. */
	CLASS_NONE,
};

/* What becomes of an outgoing segment. What leaves has been charged. */
enum decision {
	/* It leaves. */
	DECIDE_PASS,
	/* It waits. */
	DECIDE_HOLD,
	/* It leaves, and a copy of it waits. */
	DECIDE_SPLIT,
	/* It need not leave at all. */
	DECIDE_DISCARD,
};

/* What may be held. */
enum hold_what {
	/* Nothing: with exact credit, only windows are lowered. */
	HOLD_NOTHING,
	/* Requests and handshakes: what wakes an idle sender. */
	HOLD_REQUESTS,
	/* Whatever triggers data. */
	HOLD_ALL,
};

/* Bits of flow.flags. */
/* The entry belongs to a connection that has been seen. */
#define FLOW_KNOWN (1u << 0)
/* The sender is in congestion avoidance (PAC §III-C); in slow start otherwise. */
#define FLOW_AVOIDANCE (1u << 1)
/* SYN seen, handshake not finished. */
#define FLOW_HALF_OPEN (1u << 2)
/* Our FIN has left, or a reset ended it all. */
#define FLOW_CLOSING (1u << 3)
/* Duplicate ACKs went out and recover is not yet acknowledged. */
#define FLOW_RECOVERING (1u << 4)
/* A retransmission arrived for data whose ACK is held: the next duplicate ACK is stale (PAC §III-D). */
#define FLOW_OVERTAKEN (1u << 5)
/* The last window that we advertised was zero. */
#define FLOW_ZERO_WINDOW (1u << 6)
/* All that was received ended with a PSH. */
#define FLOW_PUSHED (1u << 7)
/* The flow has continued after a PSH without being asked: a PSH tells nothing. */
#define FLOW_PUSHES_MIDWAY (1u << 8)
/* Something has been received. */
#define FLOW_RECEIVED (1u << 9)
/* An ACK has been seen from our side: released_ack and ack_high are valid. */
#define FLOW_ACKED (1u << 10)
/* The sender's FIN has arrived, or a reset ended it all: nothing follows. */
#define FLOW_PEER_DONE (1u << 11)
/* The flow takes part in the division of the budget. */
#define FLOW_ACTIVE (1u << 12)
/* The handshake was seen, and with it the window scale. */
#define FLOW_SCALE_KNOWN (1u << 13)
/* The sender has been told to reduce its window: recover is valid. */
#define FLOW_REDUCED (1u << 14)
/* An ACK of the flow was held in the flow's own interval. */
#define FLOW_WAITED (1u << 15)
/* All that was received ended with a PSH short of the right edge: the sender may have no more. */
#define FLOW_STOPPED (1u << 16)
/* A request has left and nothing has arrived since. */
#define FLOW_ASKED (1u << 17)
/* We have sent data, such as a request: a response begins with the next, not with a pause. Not once the sender has gone on unasked. */
#define FLOW_ASKS (1u << 18)
/* All that was received ended with a PSH, and what was released since then brought nothing: nothing follows. */
#define FLOW_DRY (1u << 19)
/* A bare copy of an ACK is held: the sender waits for the grant that will come with it. */
#define FLOW_COPIED (1u << 20)
/* Something that triggers data has left since new data last came. Under exact credit a request, and the flow is counted (asked below). */
#define FLOW_AWAITED (1u << 21)
/* Both ends have agreed on ECN (RFC 3168 section 6.1.1): its marks count. Accurate ECN (RFC 9768) if FLOW_ECN_OFFERED is not set. */
#define FLOW_ECN (1u << 22)
/* The opener has offered ECN, and no accurate one was agreed on. */
#define FLOW_ECN_OFFERED (1u << 23)
/* What we sent last was not answered: a one-way message, which sets nothing in motion. */
#define FLOW_ONE_WAY (1u << 24)
/* What our TCP sent last repeats what it had sent before. */
#define FLOW_REPEATS (1u << 25)
/* The peer's SYN has arrived: ack_high is valid. */
#define FLOW_MET (1u << 26)
/* What our TCP sent last carried ECN-Echo. */
#define FLOW_ECHOES (1u << 27)
/* What the flow owed was voided because it was silent. */
#define FLOW_FORGIVEN (1u << 28)
/* All that was received ended with a PSH and less than a whole segment: there was no more to send then. */
#define FLOW_CUT (1u << 29)
/* The flow has continued after such an end without being asked. */
#define FLOW_CUTS_MIDWAY (1u << 30)
/* What we sent first was not answered: a greeting may go before the first request. */
#define FLOW_GREETED (1u << 31)

/* Settings, fixed while the guard runs (control/src/gate/config.rs says what each is for). */
struct settings {
	/* Shortest control interval. */
	__u64 min_interval;
	/* Silence after which what a flow owes was never sent or was lost; at least twice the RTT. */
	__u64 silence;
	/* The longest hold. */
	__u64 max_hold;
	/* Lambda of PAC section III-C, in thousandths. */
	__u64 lambda_permille;
	/* Most packets held at once; beyond, they pass. */
	__u64 max_held;
	/* Half-open connections beyond which SYN-ACKs pass uncharged. */
	__u64 max_half_open;
	/* Least retransmission timeout of our own TCP, ns; 0 when it is not known. */
	__u64 own_timer;
	/* Rate of the guarded link, bytes per 2^20 ns; 0 when it is not known. */
	__u64 rate;
	/* Age of the heartbeat beyond which nothing is held; 0 where the scheduler is this very process. */
	__u64 stale;
	/* Segments that a new sender is expected to send at once. */
	__u32 initial_window;
	/* Entries of the flow table that may be used. */
	__u32 capacity;
	/* Interface that held frames are redirected to; 0 for none. */
	__u32 hold_ifindex;
	/* Slow start grows by the bytes acknowledged instead of one segment for each ACK. */
	__u8 per_byte_growth;
	/* Requests are charged by what their response is expected to burst. */
	__u8 charge_requests;
	/* Requests are held like ACKs. */
	__u8 gate_requests;
	/* A PSH at the end of all that was received may end a response. */
	__u8 push_ends_response;
	/* Round-trip times come from timestamps instead of the handshake. */
	__u8 timestamps;
	/* How a held frame is taken off the wire: enum take of the packet path. */
	__u8 take;
	/* Time comes from the variable fixed_clock instead of the machine: tests only. */
	__u8 fixed_time;
	/* Connections that are over are not forgotten before they are silent, as in a simulation: tests only. */
	__u8 keep_all;
	/* Exact credit (credit.h) instead of PAC's estimates. */
	__u8 credit;
	/* What may be held: enum hold_what. */
	__u8 hold;
	/* ACKs may be left out. */
	__u8 thin_acks;
	/* Windows are shown no larger than PAC can use. */
	__u8 bound_windows;
	/* What a long path holds is no part of the budget; else everything in flight is, as published. */
	__u8 long_paths;
	/* What carries data of ours is never held: the card encrypts it, and what is sent in its place would leave as it is. */
	__u8 leave_data;
};

/* Receiver-wide state (PAC Algorithm 1, lines 1-3, and section III-C). What is written for nearly every segment comes first, in one
 * cache line of its own: processors that take in and send out segments of other connections share it. */
struct gate {
	/* Wire bytes charged to flows and neither arrived nor voided. */
	__u64 owed;
	/* Of what is owed, what flows owe over paths that have books of their own (owed_by_path). */
	__u64 owed_beyond;
	/* Wire bytes of data that arrived. */
	__u64 bytes;
	/* Segments that arrived. */
	__u64 arrivals;
	/* Segments that passed at once. */
	__u64 passed;
	/* When data last arrived from any flow, ns. */
	__u64 last_data;
	/* Segments whose window was lowered. */
	__u64 rewritten;
	/* Frames of flows with ECN that arrived in this interval. */
	__u64 interval_frames;
	/* Flows that divide the budget among them: asked and not yet answered, or sending. */
	__u64 active;
	/* Receive windows that TCP offers to active flows, bytes in all. */
	__u64 offered;
	/* Payload of the response that was last seen to be complete, whosever it was; 0 when there was none. */
	__u64 usual_response;
	/* Smoothed time from a request to the first data of its response, ns. */
	__u64 response_delay;
	/* Wire bytes that were charged and voided. */
	__u64 voided;
	/* Connections whose handshake is under way. */
	__u64 half_open;
	/* Flows that were asked, owe, and have not begun to answer; under exact credit alone. */
	__u64 asked;
	/* Most flows that were active at once of late: what turns are reckoned with (credit.h). */
	__u64 peak_active;
	/* Payload of the largest response of the last seconds, fading; 0 when none is known. */
	__u64 largest_response;
	/* Part of owed that Eq. 6 judged never to have been sent. */
	__u64 written_off;
	/* Most bytes that may be in flight. */
	__u64 threshold;
	/* Cap of the threshold: the buffer, or the budget that was found to suffice. */
	__u64 cap;
	/* ACKs held now. */
	__u64 held;
	/* Budget in bytes that the scheduler waits for; 0 when it waits for none. Whoever sees it available clears it
	 * and wakes the scheduler. */
	__u64 wanted;
	/* Start of the control interval, ns. */
	__u64 interval_start;
	/* Mean RTT of the flows in the network, without the time that their ACKs are held, ns. */
	__u64 mean_rtt;
	/* Length of the control interval, ns: the mean RTT, and the time that a full threshold takes to arrive. */
	__u64 interval;
	/* Since when arrivals are counted to see what the link carries, ns. */
	__u64 glanced;
	/* Wire bytes of data that had arrived by then. */
	__u64 glanced_bytes;
	/* When that or the control interval ends, ns. */
	__u64 due;
	/* Wire bytes of data that had arrived when the control interval began. */
	__u64 bytes_before;
	/* Of these, frames marked CE. */
	__u64 interval_marked;
	/* Wire bytes charged in this interval, where Eq. 6 asks. */
	__u64 interval_charged;
	/* Wire bytes charged in the interval before. */
	__u64 charged_before;
	/* BW_S of Eq. 6, in bytes per 2^20 ns. */
	__u64 smooth_bandwidth;
	/* What arrived in the glance before, likewise. */
	__u64 bandwidth_before;
	/* What arrived at most of late in two glances, one right after the other, likewise: a host may stall and then catch up. */
	__u64 peak;
	/* That, when was last looked back. */
	__u64 peak_before;
	/* What the link has shown to carry, likewise; 0 while nothing speaks against the rate that was given. */
	__u64 carries;
	/* Segments that were lost, or came after what their flows owed had been voided. */
	__u64 belied;
	/* That, up to when was last looked back. */
	__u64 belied_before;
	/* in_flight_S of Eq. 6, in bytes. */
	__u64 smooth_in_flight;
	/* Of the last SYN-ACKs, the part that nobody answered, in 1/1024. */
	__u64 unanswered;
	/* When peak_active was last let fall, and the link's rate judged, ns. */
	__u64 looked_back;
	/* The same without what may have stood before that data in the queue: how long servers think, ns. Under exact credit without what has
	 * arrived meanwhile, as far as the port holds it, and since the link was last idle. */
	__u64 think;
	/* When a connection was last opened from outside, ns. */
	__u64 last_syn;
	/* How many were opened one right after the other until then. */
	__u64 syn_burst;
	/* Data segments that were lost and came again to fill a hole that our TCP had reported, and answers that left no hole (was_unheard):
	 * what loss looks like at the receiver. Repeats of what was not lost, such as tail loss probes, do not count, and neither does what
	 * other segments have overtaken on the way. */
	__u64 lost;
	/* Of these, such whose hole was first reported when a cut of the budget had had its effect: one overflow is repaired bit
	 * by bit, and cuts it once. Nor what is lost while senders have kept windows of much more than the budget. */
	__u64 overflow;
	/* When the last cut of the budget for losses has its effect, ns. */
	__u64 cut_at;
	/* ACKs that were left out because the next one says it all. */
	__u64 thinned;
	/* Times that Eq. 6 corrected the estimate. */
	__u64 corrections;
	/* Of what is owed, what flows owe by what their paths hold: the second more than 16 KiB, each further twice as much. The first
	 * stays 0: paths up to 16 KiB have what is left. */
	__u64 owed_by_path[16];
	/* The same, each byte times what the flow's path holds in KiB: what paths of a length hold in the mean. */
	__u64 held_by_path[16];
	/* Segments outside the window that their receiver offers: nobody's evidence. */
	__u64 unacceptable;
	/* Connections of MPTCP, whose windows are TCP's own. */
	__u64 multipath;
	/* 1 while what is to leave next waits for room on a long path. */
	__u64 far_waits;
	/* Wire bytes that were set in motion over long paths, less what the link has carried since. */
	__u64 ahead;
	/* Until when that is, ns. */
	__u64 ahead_since;
	/* What the path holds over which the budget is wanted, wire bytes. */
	__u64 wanted_path;
	/* What may be on its way over it beside the budget, wire bytes. */
	__u64 wanted_beside;
	/* Until when nothing is learned about that, ns. */
	__u64 think_after;
	/* Payload of the largest message of the last seconds that nobody asked for (message.h), fading; 0 when none is known. */
	__u64 largest_message;
	/* Flows that have begun a message (message.h) since `senders_since`. */
	__u64 senders;
	/* When these were first counted, ns. */
	__u64 senders_since;
	/* The most of them of late, fading. */
	__u64 peak_senders;
	/* Waits after which our own TCP repeats a request that is held, ns, as peer_timer; 0 while it never has. */
	__u64 own_timer;
	/* Waits after which senders repeat what was received but whose ACK is held, ns: of sixteen senders, about one is faster.
	 * 0 while none has. */
	__u64 peer_timer;
	/* Instant of the scheduler's last sign of life, ns; only used where the scheduler is another process. */
	__u64 heartbeat;
	/* Least RTT of the handshakes of late, less what may have queued meanwhile, ns; 0 when none is known. */
	__u32 least_handshake;
	/* What had arrived (flow.h) when data last came over a link that had been idle. */
	__u32 arrived_idle;
	/* That of the present ten seconds, ns. */
	__u32 next_handshake;
	/* When these began: the low 32 bits of ns / 1024. */
	__u32 handshakes_since;
	/* Of overflow, losses that cost a timeout: each weighs as much as several. */
	__u64 unheard;
	/* What even shallow ports are taken to hold, once that was too much, wire bytes; else 0. Only where nobody gave a buffer. */
	__u64 shallow;
	/* When data last came over a link that had been idle, ns. */
	__u64 busy_since;
	/* Round trips in a row, of all flows whose paths have not become longer yet, that were longer than they are taken to be. */
	__u32 longer_run;
	/* The least of these, ns. */
	__u32 longer;
	/* What one waits in the queue, while flows send side by side, at least of late, ns. */
	__u32 queue_least;
	/* That of the present period, ns. */
	__u32 queue_next;
	/* Which one that is (QUEUE_MEMORY of round_trip.h). */
	__u32 queue_period;
	/* Of other_bytes, what had come at the last glance. */
	__u64 other_glanced;
	/* When was last looked what they take (others.h), ns. */
	__u64 other_looked;
	/* What had come of them by then. */
	__u64 other_before;
	/* And of ours, wire bytes. */
	__u64 ours_before;
	/* Since when they are left their part, or until when they are not, ns. */
	__u64 other_since;
	/* For how long they were not the last time, ns. */
	__u64 other_doubt;
	/* What they leave of the cap: the most that the threshold may be. */
	__u64 most;
	/* What of a given buffer may be used at most, wire bytes; 0 where nobody gave one, or the port has shown that it holds less. */
	__u64 port;
	/* What they had of the link in the last look, in 1/1024. */
	__u32 other_seen;
	/* What they are left of it and of the port's buffer, likewise. */
	__u32 other_part;
	/* What they may take at most, once they are; 0 while they are not. */
	__u32 other_limit;
	/* The least that they took in a look of the present period. */
	__u32 other_least;
	/* Looks of that period. */
	__u32 other_looks;
	/* Bytes of frames that arrived and are nobody's here, such as datagrams; in a line that no segment of TCP reads. */
	__u64 other_bytes;
} __attribute__((aligned(64)));

/* In hole_since: what was lost says nothing about the budget, for much more than that was in flight. */
#define KEPT_WINDOWS 1ull

/* In own, under PAC: throughput of the interval before, in bytes per 2^20 ns; 0 when there was none. */
#define LAST_BANDWIDTH 0
/* Payload received in the flow's own interval. */
#define INTERVAL_BYTES 1
/* Consecutive intervals in which throughput fell to λ of the one before. */
#define SLOW_INTERVALS 2
/* Under exact credit: sequence number after a request that has left and that the peer has not acknowledged yet; 0 when none is waited for. */
#define ASKED_TO 0
/* What had been received when it left. */
#define ASKED_AT 1
/* Payload of earlier answers that comes when a request has left (pipelining), as far as it has of late. */
#define PIPELINED 2

/* State of one connection; what nearly every segment needs comes first. */
struct flow {
	/* Last packet in either direction. */
	__u64 last_seen;
	/* Last charge or arrival of data: where the silence of an indebted flow is measured from. */
	__u64 last_active;
	/* When the TSval in ts_value was first used; 0 when none is awaited. */
	__u64 ts_start;
	/* Payload received since the last request: the flow's size for the priority levels. */
	__u64 size;
	/* Bits of flag. */
	__u32 flags;
	/* Wire bytes charged and neither arrived nor voided. */
	__u32 owed;
	/* Sequence number after the highest byte received. */
	__u32 received;
	/* Highest acknowledgement number that our TCP has sent, released or held. */
	__u32 ack_high;
	/* Latest released acknowledgement number (ACK_prev of Eq. 3). It and the next move in one step (advance_both). */
	__u32 released_ack;
	/* Highest right edge that has left this host. */
	__u32 edge;
	/* Model of the sender's congestion window: Window of Eq. 3. */
	__u32 window;
	/* Window field of our last segment, unscaled. */
	__u32 last_window;
	/* Sequence number after what our TCP has sent. */
	__u32 sent;
	/* Packets of this flow that are held. */
	__u32 held;
	/* Our window scale (RFC 7323); while it is not known, what somebody has told of it (tell_handshake). */
	__u32 scale;
	/* Largest payload of one frame. */
	__u32 mss;
	/* Header bytes of one frame. */
	__u32 header;
	/* What that adds to each byte of payload, in 1/2^30 (set_frame). */
	__u32 header_part;
	/* What the flow adds to the windows offered, bytes. */
	__u32 offered;
	/* TSval of our last segment. */
	__u32 tsval;
	/* Its TSecr. */
	__u32 tsecr;
	/* Newest TSval of the sender's data. */
	__u32 peer_tsval;
	/* TSval whose echo is awaited. */
	__u32 ts_value;
	/* Payload that came at most in a round trip of the present response, beyond what responses bring. */
	__u32 streamed;
	/* Of that which was owed when the flow's books were last looked through (due_since), what is not paid yet, wire bytes. */
	__u32 unpaid;
	/* Payload received since the flow last paused or was asked. */
	__u32 run;
	/* When the books were last looked through: the low 32 bits of ns. */
	__u32 due_since;
	/* Which of the gate's paths the flow's debt is booked with. */
	__u32 path;
	/* What it holds by these books, KiB. */
	__u32 holds;
	/* Base RTT from the handshake, or smoothed RTT from timestamps. */
	__u32 rtt;
	/* Round trips that have been timed for the least RTT, SAMPLES at most, and with these, how many in a row were longer than the path is taken
	 * to be; and PATH_FLAGS. */
	__u32 samples;
	/* Least RTT of late, ns; 0 when none is known. */
	__u32 least_rtt;
	/* Least RTT of the present period (RTT_MEMORY), ns; 0 when none was timed in it. */
	__u32 next_rtt;
	/* The right edge that the sender knew when the awaited TSval left. */
	__u32 ts_edge;
	/* When a sender that had used up its window was let go on: the low 32 bits of ns / 1024, made odd; 0 when it was not. */
	__u32 let_go;
	/* What the others brought in the last round trip of `streamed`, wire bytes. */
	__u32 others;
	/* Start of the flow's own interval (RTT_i). */
	__u64 interval_start;
	/* What the flow's law alone goes by: PAC its phase (LAST_BANDWIDTH and what follows it), exact credit its pipelining (ASKED_TO). */
	__u32 own[3];
	/* Payload of the last complete response; 0 when none is known. */
	__u32 last_response;
	/* Payload of the sender's last segment that could have been larger; 0 where the last one could not. */
	__u32 lesser;
	/* What our TCP's retransmission timer would repeat: what the peer has acknowledged last. Before that where it has received something
	 * beyond (SACK), which repeats the rest without a timer. */
	__u32 timed;
	/* When the SYN or SYN-ACK left whose answer gives the handshake's RTT; 0 when none is awaited. */
	__u64 handshake_start;
	/* What had been received when ts_value was first used. */
	__u32 ts_received;
	/* What all flows had brought by then, wire bytes: the low 32 bits. */
	__u32 ts_bytes;
	/* Smoothed delay that holding adds. */
	__u32 added_delay;
	/* The least round trip of those in a row that were longer than the path is taken to be, ns. */
	__u32 longer;
	/* Since when one is: the low 32 bits of ns / 1024. */
	__u32 held_since;
	/* Counts the connections that used this entry. */
	__u32 generation;
	/* When the first duplicate ACK of the present recovery left our TCP: the low 32 bits of ns, the last of which says whether windows had
	 * been kept then (KEPT_WINDOWS). */
	__u32 hole_since;
	/* What was owed when the flow's books were last looked through, wire bytes. */
	__u32 due;
	/* Largest segment that the peer announced in its SYN, bytes; 0 when it did not. */
	__u32 peer_mss;
	/* The handshake's RTT without what may have queued meanwhile, ns; 0 when it is not known. */
	__u32 handshake_rtt;
	/* What had arrived of all flows when the handshake began to be timed, wire bytes: the low 32 bits. */
	__u32 arrived_before;
	/* Sequence number where the present message began, if nobody asked for it. */
	__u32 message;
	/* Not 0 where that may be several: one may have ended in between, where the window did. */
	__u32 several;
	/* End of what was sent before the sender's window was last reduced (RFC 6582's recover, seen from the
	 * receiver): loss recovery, or the reaction to one ECN-Echo (RFC 3168 §6.1.2), ends when it is acknowledged. */
	__u32 recover;
} __attribute__((aligned(64)));

/* What is seen of a segment, or of an aggregate of several (GRO, TSO). */
struct segment {
	/* First sequence number of the payload (of the SYN or FIN when there is none). */
	__u32 seq;
	/* Acknowledgement number; meaningless without ACK. */
	__u32 ack;
	/* Payload bytes of the whole aggregate. */
	__u32 payload;
	/* Timestamps option (RFC 7323). */
	__u32 tsval;
	/* Its echo. */
	__u32 tsecr;
	/* Window field, unscaled. */
	__u16 window;
	/* Frames that carried it on the wire, at least 1. */
	__u16 frames;
	/* Header bytes of each frame. */
	__u16 header;
	/* Maximum segment size option of a SYN; 0 when absent. */
	__u16 mss;
	/* TCP header flags. */
	__u8 flags;
	/* Window scale option of a SYN, or NO_WSCALE. */
	__u8 wscale;
	/* Congestion Experienced. */
	bool ce;
	/* At least one SACK block (RFC 2018). */
	bool sack;
	/* The only SACK block reports a duplicate (RFC 2883). */
	bool dsack;
	/* The timestamps option is there. */
	bool timestamps;
	/* One of MPTCP's options is there (RFC 8684). */
	bool multipath;
	/* Offset of the TCP header in the frame, for the packet path. */
	__u32 tcp;
};

/* What is remembered of an outgoing segment while it is held. */
struct outgoing {
	/* enum class */
	__u32 class;
	/* Its acknowledgement number. */
	__u32 ack;
	/* Its window field as TCP wrote it. */
	__u16 window;
	/* Binary logarithm of the window field's unit: the window scale, 0 on a SYN-ACK (RFC 7323 section 2.2). */
	__u8 shift;
	/* It carries ECN-Echo: the sender will not grow its window (PAC section III-C). */
	bool ece;
	/* It carries payload, and so must never be discarded. */
	bool data;
	/* It repeats the acknowledgement number before it. */
	bool repeated;
	/* It reports what no later ACK repeats: a duplicate (RFC 2883), or that marks have ended (RFC 8257 section 3.2). */
	bool dsack;
	/* No segment before it had its TSval: a clock of 1 ms, as Linux's, repeats them. */
	bool stamped;
	/* It has left already, without a grant: this is its bare copy. */
	bool copy;
	/* Nothing else was held before it. */
	bool first;
};

/* What releasing a segment triggers. */
struct trigger {
	/* Wire bytes. */
	__u64 wire;
	/* Growth of the sender's congestion window: Increment of Eq. 3. */
	__u32 increment;
	/* The right edge that goes with it, if it moves one. */
	__u32 edge;
	/* Windows are granted or bounded: the edge is valid. */
	bool moves_edge;
	/* Nothing that could be sent is a danger, or nothing can be done against it: it passes. */
	bool calm;
	/* There is no room for all that the sender could use at once. */
	bool partial;
};

#endif
