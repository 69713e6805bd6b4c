//! The receiving half: puts segments in order, and decides what is acknowledged when (RFC 5681 §4.2), with SACK blocks
//! (RFC 2018) and reports of duplicates (RFC 2883), ECN echo (RFC 3168 §6.1.3) or DCTCP's exact echo (RFC 8257 §3.2).

use ackgate_control::delack::Adaptive;
use ackgate_control::m21::Echo;
use ackgate_control::segment::Flags;

use super::config::TcpConfig;
use super::{number_of, offset_near};
use crate::engine::{Ps, Random};
use crate::net::{Packet, SACK_BLOCKS};
use crate::scenario::CongestionControl;

/// What has arrived, and what the other end has yet to be told. Here is what every segment touches.
#[repr(C)]
#[derive(Clone, Debug)]
pub struct Receiver {
    /// Next offset expected in order.
    pub nxt: u64,
    /// Offset of the last ACK sent.
    last_ack: u64,
    /// When a waiting ACK must go, [`Ps::NEVER`] when none waits.
    pub(super) ack_deadline: Ps,
    /// The peer's initial sequence number.
    pub(super) irs: u32,
    /// TSval to echo.
    pub(super) ts_recent: u32,
    /// Segments that no ACK has covered.
    unacked: u8,
    /// An ACK is due now.
    pub(super) ack_now: bool,
    /// Before it, one for what came up to [`Aside::early_ack`] with the other CE state (DCTCP).
    pub(super) early_ack_now: bool,
    /// ECE is to be set: until CWR (RFC 3168), or while CE arrives (DCTCP).
    pub(super) ece: bool,
    /// The peer's FIN has been seen, at [`Aside::fin_at`].
    fin_seen: bool,
    /// And reached.
    pub(super) finished: bool,
    /// Something is here beyond a gap.
    gap: bool,
    /// The rest.
    pub(super) aside: Box<Aside>,
}

/// What few segments touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Aside {
    /// Ranges beyond a gap, the most recently touched first.
    beyond: Vec<(u64, u64)>,
    pub(super) early_ack: u64,
    fin_at: u64,
    /// M21TCP-A's number of senders, for the next ACK.
    pub(super) echo: Echo,
    /// Time between segments, for the adaptive delayed-ACK timer.
    arrivals: Adaptive,
    /// What the next ACK reports to have come twice.
    duplicate: Option<(u64, u64)>,
    /// Linux's quick acknowledgements.
    quick: Quick,
}

/// ACKs that are sent at once, although ACKs are delayed. As Linux has it (`tcp_in_quickack_mode`): while there are some
/// left and the connection is not "interactive", which it becomes by data sent soon after data was received, for then the
/// next answer can carry the ACK.
#[derive(Clone, Copy, Debug)]
struct Quick {
    left: u8,
    interactive: bool,
    last_data: Ps,
}

impl Default for Quick {
    fn default() -> Self {
        Self { left: QUICK_ACKS, interactive: false, last_data: Ps::NEVER }
    }
}

impl Quick {
    /// The peer seems to miss ACKs.
    fn renew(&mut self) {
        self.left = QUICK_ACKS;
        self.interactive = false;
    }
}

/// TCP_MAX_QUICKACKS of Linux.
const QUICK_ACKS: u8 = 16;
/// TCP_ATO_MIN of Linux: data that follows received data within this is an answer.
const ANSWER_WITHIN: Ps = Ps::millis(40);

/// A burst whose end does not come is taken for whole after this.
const GRO_WAIT: Ps = Ps::micros(50);

impl Receiver {
    pub(super) fn new() -> Self {
        Self {
            nxt: 0,
            last_ack: 0,
            ack_deadline: Ps::NEVER,
            irs: 0,
            ts_recent: 0,
            unacked: 0,
            ack_now: false,
            early_ack_now: false,
            ece: false,
            fin_seen: false,
            finished: false,
            gap: false,
            aside: Box::default(),
        }
    }

    /// Data, or a FIN, arrives. Returns the bytes that became readable.
    #[inline(always)]
    pub(super) fn handle_data(&mut self, now: Ps, packet: &Packet, config: &TcpConfig, random: &mut Random) -> u64 {
        let start = offset_near(self.nxt, self.irs, packet.seq);
        let end = start + u64::from(packet.payload);
        if packet.payload > 0 {
            self.handle_ce(packet, config);
        }
        if packet.is(Packet::TIMESTAMPS) && start <= self.last_ack {
            self.ts_recent = packet.timestamps.0;
        }
        if packet.flags.has(Flags::FIN) {
            self.fin_seen = true;
            self.aside.fin_at = end;
        }
        if end > self.nxt && start > self.nxt {
            self.keep(start, end);
            self.ack_now = true;
            return 0;
        }
        if end <= self.nxt && packet.payload > 0 {
            // An old copy: the sender has missed an ACK.
            self.ack_now = true;
            if config.dsack {
                self.aside.duplicate = Some((start, end));
            }
            if config.quickack {
                self.aside.quick.renew();
            }
            return 0;
        }
        if config.delayed_ack_adaptive
            && let Some(longest) = config.delayed_ack
        {
            self.aside.arrivals.handle_arrival(now.to_time(), longest.to_span());
        }
        let before = self.nxt;
        self.nxt = self.nxt.max(end);
        let filled = self.gap;
        if filled {
            self.fill();
        }
        let quick = config.quickack && self.is_quick(now, filled);
        let readable = self.nxt - before;
        if self.fin_seen && self.aside.fin_at == self.nxt && !self.finished {
            self.finished = true;
            self.nxt += 1;
            self.ack_now = true;
        }
        self.unacked = self.unacked.saturating_add(1);
        if config.gro && packet.is(Packet::MORE) && !self.ack_now {
            self.ack_deadline = self.ack_deadline.min(now + GRO_WAIT);
            return readable;
        }
        match config.delayed_ack {
            Some(longest) if !filled && !quick && self.unacked < 2 && !self.ack_now => {
                let delay = if config.delayed_ack_adaptive {
                    Ps::from_span(self.aside.arrivals.delay(longest.to_span()))
                } else {
                    longest
                };
                let lateness = Ps(random.up_to(config.timer_jitter.0));
                self.ack_deadline = self.ack_deadline.min(now + delay + lateness);
            }
            _ => self.ack_now = true,
        }
        readable
    }

    /// Whether the ACK of what has just come in order is a quick one. A gap that is closed ends interactivity.
    fn is_quick(&mut self, now: Ps, filled: bool) -> bool {
        let quick = &mut self.aside.quick;
        quick.last_data = now;
        if filled && !self.gap {
            quick.interactive = false;
        }
        let is = quick.left > 0 && !quick.interactive;
        quick.left -= u8::from(is);
        is
    }

    /// This end sends data.
    #[inline]
    pub(super) fn handle_answer(&mut self, now: Ps, config: &TcpConfig) {
        if config.quickack {
            let quick = &mut self.aside.quick;
            quick.interactive |= quick.last_data != Ps::NEVER && now - quick.last_data < ANSWER_WITHIN;
        }
    }

    fn handle_ce(&mut self, packet: &Packet, config: &TcpConfig) {
        if !config.ecn {
            return;
        }
        let ce = packet.is(Packet::CE);
        if config.algorithm == CongestionControl::Dctcp {
            if ce != self.ece {
                // RFC 8257 §3.2: what came before is acknowledged with the state that it came with.
                if self.unacked > 0 {
                    self.early_ack_now = true;
                    self.aside.early_ack = self.nxt;
                }
                // The early ACK is sent with the old state; see `Endpoint::poll_transmit`.
                self.ece = ce;
                self.ack_now = true;
            }
        } else {
            if packet.flags.has(Flags::CWR) {
                self.ece = false;
            }
            self.ece |= ce;
        }
    }

    #[inline(never)]
    fn keep(&mut self, mut start: u64, mut end: u64) {
        self.aside.beyond.retain(|&(from, to)| {
            let apart = from > end || to < start;
            if !apart {
                start = start.min(from);
                end = end.max(to);
            }
            apart
        });
        self.aside.beyond.insert(0, (start, end));
        self.gap = true;
    }

    /// Moves on over ranges that are now in order.
    #[inline(never)]
    fn fill(&mut self) {
        let beyond = &mut self.aside.beyond;
        while let Some(at) = beyond.iter().position(|&(from, _)| from <= self.nxt) {
            let (_, to) = beyond.remove(at);
            self.nxt = self.nxt.max(to);
        }
        self.gap = !beyond.is_empty();
    }

    /// Whether the peer's segment at `offset` is here, in order or beyond a gap.
    #[must_use]
    pub fn has(&self, offset: u64) -> bool {
        offset < self.nxt || self.gap && self.aside.beyond.iter().any(|&(from, to)| from <= offset && offset < to)
    }

    /// Whether the byte at `offset` is here in order and no ACK has said so: it is delayed.
    pub fn delays(&self, offset: u64) -> bool {
        (self.last_ack..self.nxt).contains(&offset)
    }

    /// The ACK fields of a segment that is about to be sent.
    #[inline]
    pub(super) fn stamp(&mut self, packet: &mut Packet, config: &TcpConfig) {
        packet.ack = number_of(self.irs, self.nxt);
        packet.window = config.window_field;
        if self.ece {
            packet.flags |= Flags::ECE;
        }
        if config.cap.is_some() && packet.payload == 0 {
            packet.senders = self.aside.echo.number();
        }
        if config.sack && (self.gap || config.dsack) {
            // RFC 2883 §4: what came twice comes first.
            let twice = self.aside.duplicate.take();
            let blocks = twice.iter().chain(&self.aside.beyond).take(SACK_BLOCKS);
            for (slot, &(from, to)) in packet.sack.iter_mut().zip(blocks) {
                *slot = (number_of(self.irs, from), number_of(self.irs, to));
                packet.sack_len += 1;
            }
        }
        packet.header = if packet.sack_len > 0 { config.header + packet.tcp_header() } else { config.full_header };
        self.last_ack = self.nxt;
        self.ack_now = false;
        self.ack_deadline = Ps::NEVER;
        self.unacked = 0;
    }
}
