//! One direction of one link with the queue in front of it: a switch port or a host's interface, its transmitter and
//! the wire.
//!
//! DESIGN NOTES
//! 1. Queues are first in, first out, and disciplines decide on arrival. So the moment a frame is accepted, its whole
//!    future on this channel is known: it starts when the transmitter is free, ends a serialisation later, arrives a
//!    propagation delay after that. No event is spent on queueing or dequeueing.
//! 2. What must be known later is only how full the queue is at some instant: `waiting` keeps, for each frame that had
//!    to wait, when it leaves the buffer. An idle channel keeps nothing.
//! 3. Frames on their way form a list through the slab in order of arrival. Only its head has an event: one pending
//!    event per channel.

use std::collections::VecDeque;

use ackgate_control::units::{Rate, Span};

use super::discipline::{Decision, Queueing};
use super::packet::{NIL, Packet};
use crate::engine::{Chance, PS_PER_SEC, Ps, Random};
use crate::scenario::Capacity;

/// Fixed-point bits of the time that one byte takes.
const BYTE_FRACTION: u32 = 20;

/// A frame that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// First bit on the wire.
    pub start: Ps,
    /// Last bit at the far end.
    pub arrival: Ps,
    /// When it no longer fills the buffer: now, if it does not wait.
    pub leaves: Ps,
}

/// A frame that was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not fit.
    Full,
    /// The discipline dropped it early.
    Early,
    /// Lost by chance.
    Chance,
}

/// A frame that fills the buffer.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    until: Ps,
    bytes: u32,
}

/// Counts of a channel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Frames dropped.
    pub drops: u64,
    /// Frames marked CE.
    pub marks: u64,
    /// Bytes of frames sent.
    pub bytes: u64,
    /// Time the transmitter was busy.
    pub busy: Ps,
    /// Bytes times nanoseconds that frames waited.
    pub byte_ns: u128,
    /// Most bytes that waited.
    pub max_bytes: u64,
}

/// A queue, a transmitter and a wire.
///
/// One cache line: all that a frame touches that finds the channel idle, as most do.
#[repr(C, align(64))]
pub struct Channel {
    /// Time of one byte on the wire in 2^-20 ps.
    byte_time: u64,
    delay: Ps,
    free_at: Ps,
    /// Bytes and frames sent.
    bytes: u64,
    frames: u64,
    /// Newest frame on the way, NIL when none.
    tail: u32,
    /// Oldest frame on the way, NIL when none.
    head: u32,
    gap: u8,
    min_frame: u8,
    /// All that is offered comes from one other channel, in order: no need to wait until it is there.
    pub eager: bool,
    /// A frame that finds the transmitter free is always taken, unmarked: there is no pool, no average, no pause.
    plain: bool,
    /// Every frame fits and nobody asks how many wait: there is nothing to be kept of them.
    endless: bool,
    queue: Box<Queue>,
}

const _: () = assert!(size_of::<Channel>() == 64);

/// What frames that have to wait need.
struct Queue {
    capacity: Capacity,
    /// Index of the memory pool this queue shares, if any.
    pool: Option<u32>,
    count_transmitting: bool,
    /// Each frame is to be offered: a switch counts flows here.
    looked_at: bool,
    discipline: Queueing,
    /// How likely a frame is lost however full the port is.
    loss: Chance,
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    /// The far end has paused this channel (IEEE 802.3x) since then.
    paused_at: Option<Ps>,
    /// Of these, `bytes` and `busy` are counted in the channel's first line.
    counters: Counters,
    /// Bytes on the wire before the rate changed last, and the time that they took.
    before: (u128, u128),
}

/// What a channel is made from.
#[derive(Clone, Copy)]
pub(super) struct ChannelConfig {
    pub(super) rate: Rate,
    pub(super) delay: Span,
    pub(super) gap: u8,
    pub(super) min_frame: u8,
    pub(super) capacity: Capacity,
    pub(super) count_transmitting: bool,
    pub(super) pool: Option<u32>,
}

impl Channel {
    pub(super) fn new(config: ChannelConfig) -> Self {
        Self {
            byte_time: byte_time(config.rate),
            delay: Ps::from_span(config.delay),
            free_at: Ps::ZERO,
            bytes: 0,
            frames: 0,
            tail: NIL,
            head: NIL,
            gap: config.gap,
            min_frame: config.min_frame,
            eager: false,
            plain: !config.count_transmitting && config.pool.is_none(),
            endless: false,
            queue: Box::new(Queue {
                capacity: config.capacity,
                pool: config.pool,
                count_transmitting: config.count_transmitting,
                looked_at: false,
                discipline: Queueing::DropTail,
                loss: Chance::new(0.0),
                waiting: VecDeque::new(),
                waiting_bytes: 0,
                paused_at: None,
                counters: Counters::default(),
                before: (0, 0),
            }),
        }
    }

    /// From now on frames are sent at another rate. What was taken before keeps its times.
    pub fn set_rate(&mut self, rate: Rate) {
        self.queue.before = (self.on_wire(), self.busy());
        self.byte_time = byte_time(rate);
    }

    /// From now on the queue holds so much. What is beyond it already is sent all the same.
    pub fn set_capacity(&mut self, capacity: Capacity) {
        self.queue.capacity = capacity;
    }

    /// From now on frames take as long as on a wire that is longer or shorter, `numerator` to `denominator`.
    pub fn scale_delay(&mut self, numerator: Span, denominator: Span) {
        let scaled = u128::from(self.delay.0) * u128::from(numerator.0) / u128::from(denominator.0.max(1));
        self.delay = Ps(u64::try_from(scaled).unwrap_or(u64::MAX));
    }

    /// Has every frame offered: something looks at each.
    pub(crate) fn look_at_all(&mut self) {
        self.queue.looked_at = true;
        self.plain = false;
    }

    /// Gives the queue a discipline, and the chance that a frame is lost however full it is.
    pub(super) fn set_discipline(&mut self, discipline: Queueing, loss: Chance) {
        self.queue.discipline = discipline;
        self.queue.loss = loss;
        self.plain = self.queue.is_plain();
    }

    /// Nobody will ask how full the queue is: where it takes all that comes, frames that wait need not be kept.
    pub(super) fn is_not_measured(&mut self) {
        let takes_all = self.queue.capacity == Capacity::Unlimited;
        self.endless = takes_all && matches!(self.queue.discipline, Queueing::DropTail);
    }

    /// Index of the memory pool this queue shares, if any.
    #[inline]
    #[must_use]
    pub fn pool(&self) -> Option<u32> {
        self.queue.pool
    }

    /// Time that a frame of `bytes` takes.
    #[inline]
    #[must_use]
    pub fn transmission(&self, bytes: u32) -> Ps {
        // Below 2^17 bytes and 2^64 a byte: what is left of the fraction fits 64 bits.
        let on_wire = u128::from(bytes + u32::from(self.gap));
        Ps(((on_wire * u128::from(self.byte_time)) >> BYTE_FRACTION) as u64)
    }

    /// Bytes that a packet's frame has on this link: Ethernet pads short ones.
    #[inline]
    #[must_use]
    pub fn padded(&self, packet: &Packet) -> u32 {
        packet.frame().max(u32::from(self.min_frame))
    }

    /// Bytes and frames that fill the buffer at `now`. Asked for times that never decrease.
    #[inline]
    pub fn occupancy(&mut self, now: Ps) -> (u64, u32) {
        self.queue.occupancy(now)
    }

    /// A frame arrives and finds the transmitter free or an endless queue, and nothing that could be done but to send it.
    /// `None` when there is more to decide: [`offer`](Self::offer) does.
    #[inline]
    pub fn send_at_once(&mut self, now: Ps, packet: &Packet) -> Option<Offer> {
        if !self.plain || self.free_at > now && !self.endless {
            return None;
        }
        let frame = self.padded(packet);
        self.bytes += u64::from(frame);
        self.frames += 1;
        let start = self.free_at.max(now);
        self.free_at = start + self.transmission(frame);
        Some(Offer { start, arrival: self.free_at + self.delay, leaves: start })
    }

    /// When all that it has taken has left.
    #[must_use]
    pub fn busy_until(&self) -> Ps {
        self.free_at
    }

    /// Whether a frame that [`send_at_once`](Self::send_at_once) does not send only has to [`wait`](Self::wait).
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// A frame arrives at a plain channel whose transmitter is not free.
    ///
    /// # Errors
    /// Why it is dropped.
    #[inline(never)]
    pub fn wait(&mut self, now: Ps, packet: &mut Packet, random: &mut Random) -> Result<Offer, Refusal> {
        self.offer_as::<true>(now, packet, u64::MAX, random)
    }

    /// A frame arrives at the queue. `pool_left` is what a shared memory still has for this queue.
    ///
    /// # Errors
    /// Why it is dropped.
    #[inline(never)]
    pub fn offer(
        &mut self,
        now: Ps,
        packet: &mut Packet,
        pool_left: u64,
        random: &mut Random,
    ) -> Result<Offer, Refusal> {
        self.offer_as::<false>(now, packet, pool_left, random)
    }

    /// As [`offer`](Self::offer); `BUSY` when the channel is plain and the transmitter is not free.
    #[inline(always)]
    fn offer_as<const BUSY: bool>(
        &mut self,
        now: Ps,
        packet: &mut Packet,
        pool_left: u64,
        random: &mut Random,
    ) -> Result<Offer, Refusal> {
        // Nothing by chance on a plain channel.
        if !BUSY && random.hits(self.queue.loss) {
            self.queue.counters.drops += 1;
            return Err(Refusal::Chance);
        }
        let frame = self.padded(packet);
        let paused = if BUSY { None } else { self.queue.paused_at };
        let count_transmitting = !BUSY && self.queue.count_transmitting;
        let now = paused.unwrap_or(now);
        let idle = !BUSY && self.free_at <= now && paused.is_none();
        // While the channel is paused, times are as if the pause had no length; `resume` adds it.
        let start = self.free_at.max(now) + Ps(u64::from(paused.is_some()));
        let end = start + self.transmission(frame);
        let (bytes, packets) = self.queue.occupancy_at(now);
        // A frame that finds the transmitter free does not wait; unless the buffer holds what is on the wire.
        let waits = BUSY || start > now || count_transmitting;
        if waits && (!self.queue.capacity.fits(bytes, packets, frame) || u64::from(frame) > pool_left) {
            self.queue.counters.drops += 1;
            return Err(Refusal::Full);
        }
        let idle_since = if idle { Some(self.free_at) } else { None };
        let decision = self.queue.discipline.decide(now, packet, bytes, packets, idle_since, random);
        if decision == Decision::Drop {
            self.queue.counters.drops += 1;
            return Err(Refusal::Early);
        }
        if decision == Decision::Mark {
            packet.bits |= Packet::CE;
            self.queue.counters.marks += 1;
        }
        let leaves = if count_transmitting { end } else { start };
        if waits {
            self.queue.keep(now, leaves, frame);
        }
        self.bytes += u64::from(frame);
        self.frames += 1;
        self.free_at = end;
        Ok(Offer { start, arrival: end + self.delay, leaves })
    }

    /// What happened so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let busy = Ps(u64::try_from(self.busy() >> BYTE_FRACTION).unwrap_or(u64::MAX));
        Counters { bytes: self.bytes, busy, ..self.queue.counters }
    }

    /// Bytes sent, with the gaps between frames.
    fn on_wire(&self) -> u128 {
        u128::from(self.bytes) + u128::from(self.frames) * u128::from(self.gap)
    }

    /// Time that they took, in 2^-20 ps.
    fn busy(&self) -> u128 {
        let (bytes, busy) = self.queue.before;
        busy + (self.on_wire() - bytes) * u128::from(self.byte_time)
    }

    /// What happened up to `now`: frames that still wait, and the rest of the one on the wire, are left out.
    pub fn counters_at(&mut self, now: Ps) -> Counters {
        let (waiting, _) = self.occupancy(now);
        let ahead = |entry: &Waiting| u128::from(entry.bytes) * u128::from((entry.until - now).0 / 1_000);
        let mut counters = self.counters();
        counters.bytes -= waiting;
        counters.busy = counters.busy - (self.free_at - now);
        counters.byte_ns -= self.queue.waiting.iter().map(ahead).sum::<u128>();
        counters
    }

    /// When a frame of `bytes` will fit, if it does not at `now`: [`Ps::NEVER`] while the channel is paused.
    #[must_use]
    pub fn full_until(&mut self, now: Ps, bytes: u32) -> Option<Ps> {
        let frame = bytes.max(u32::from(self.min_frame));
        let (mut waiting, mut packets) = self.occupancy(now);
        let paused = self.queue.paused_at.is_some();
        let waits = paused || self.free_at > now || self.queue.count_transmitting;
        let mut until = None;
        for entry in &self.queue.waiting {
            if !waits || self.queue.capacity.fits(waiting, packets, frame) {
                break;
            }
            waiting -= u64::from(entry.bytes);
            packets -= 1;
            until = Some(if paused { Ps::NEVER } else { entry.until });
        }
        until
    }

    /// The far end pauses this channel: nothing leaves its queue until [`resume`](Self::resume).
    pub fn pause(&mut self, now: Ps) {
        self.plain = false;
        self.queue.paused_at.get_or_insert(now);
    }

    /// It goes on: all that waits will be later by the length of the pause.
    pub fn resume(&mut self, now: Ps) {
        let Some(paused_at) = self.queue.paused_at.take() else { return };
        self.plain = self.queue.is_plain();
        let length = now - paused_at;
        self.free_at = self.free_at.max(paused_at) + length;
        for entry in &mut self.queue.waiting {
            entry.until += length;
        }
        self.queue.counters.byte_ns += u128::from(self.queue.waiting_bytes) * u128::from(length.0 / 1_000);
    }

    /// Frames on the way: oldest.
    #[inline]
    #[must_use]
    pub fn head(&self) -> u32 {
        self.head
    }

    /// Adds a frame behind those on the way; returns the one before it, NIL when it is the first.
    #[inline]
    pub(crate) fn append(&mut self, handle: u32) -> u32 {
        let before = self.tail;
        self.tail = handle;
        if before == NIL {
            self.head = handle;
        }
        before
    }

    /// The oldest has arrived; `next` follows it.
    #[inline]
    pub(crate) fn advance(&mut self, next: u32) {
        self.head = next;
        if next == NIL {
            self.tail = NIL;
        }
    }
}

/// Time of one byte in 2^-20 ps, rounded up, so that a link is never faster than its rate.
fn byte_time(rate: Rate) -> u64 {
    let time = (u128::from(8 * PS_PER_SEC) << BYTE_FRACTION).div_ceil(u128::from(rate.0.max(1)));
    u64::try_from(time).unwrap_or(u64::MAX)
}

impl Queue {
    /// Whether a frame that finds the transmitter free is always taken, unmarked. RED averages over every arrival; a
    /// threshold is never reached by an empty queue.
    fn is_plain(&self) -> bool {
        !self.count_transmitting
            && !self.looked_at
            && self.pool.is_none()
            && self.loss.is_none()
            && !matches!(self.discipline, Queueing::Red(_))
    }

    #[inline]
    fn occupancy(&mut self, now: Ps) -> (u64, u32) {
        self.occupancy_at(self.paused_at.unwrap_or(now))
    }

    /// The same by the clock of the queue, which stands still while it is paused.
    #[inline]
    fn occupancy_at(&mut self, now: Ps) -> (u64, u32) {
        while let Some(first) = self.waiting.front() {
            if first.until > now {
                break;
            }
            self.waiting_bytes -= u64::from(first.bytes);
            self.waiting.pop_front();
        }
        (self.waiting_bytes, u32::try_from(self.waiting.len()).unwrap_or(u32::MAX))
    }

    /// Takes in a frame that fills the buffer until it leaves.
    #[inline]
    fn keep(&mut self, now: Ps, until: Ps, bytes: u32) {
        self.waiting.push_back(Waiting { until, bytes });
        self.waiting_bytes += u64::from(bytes);
        self.counters.max_bytes = self.counters.max_bytes.max(self.waiting_bytes);
        self.counters.byte_ns += u128::from(bytes) * u128::from((until - now).0 / 1_000);
    }
}
