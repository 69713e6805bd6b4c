//! The event queue: what happens next, in O(1) for network events.
//!
//! DESIGN NOTES
//! 1. Two wheels and an overflow. The near wheel's slots are about a packet time wide and hold what is due within the
//!    present *span* (one slot of the far wheel); the far wheel holds the next thousand spans; whatever is later waits in
//!    a heap. A binary heap for everything would cost a cache-missing sift per event; here an event is touched at most
//!    three times.
//! 2. A slot is a linked list of nodes in a pool, last in first. When the clock reaches a slot it becomes `current`: a
//!    small vector, sorted. So order is exact to the picosecond although slots are coarse.
//! 3. Ties go in order of scheduling. Each event carries a serial number, as lists are drained in reverse and the
//!    overflow keeps no order: a run must not depend on how wide the slots happen to be.
//! 4. Empty slots are skipped by bitmap, 64 at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::clock::Ps;

const NEAR_BITS: u32 = 13;
const NEAR: usize = 1 << NEAR_BITS;
const FAR_BITS: u32 = 10;
const FAR: usize = 1 << FAR_BITS;
const NIL: u32 = u32::MAX;

/// An event in a slot's list.
#[derive(Clone, Copy)]
struct Node {
    time: u64,
    serial: u32,
    event: u32,
    next: u32,
}

/// An event in order: by time, then by order of scheduling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    time: u64,
    serial: u32,
    event: u32,
}

/// Events by time. An event is 32 bits that the caller packs as it likes.
pub struct EventQueue {
    /// Log2 of a near slot's width in picoseconds.
    shift: u32,
    /// Present near slot, counted from time zero.
    slot: u64,
    serial: u32,
    pool: Vec<Node>,
    free: u32,
    near: Box<[u32; NEAR]>,
    near_map: [u64; NEAR / 64],
    far: Box<[u32; FAR]>,
    far_map: [u64; FAR / 64],
    overflow: BinaryHeap<Reverse<Due>>,
    /// Events of the present slot, earliest last.
    current: Vec<Due>,
}

impl EventQueue {
    /// A queue for events that are typically `spacing` apart.
    #[must_use]
    pub fn new(spacing: Ps) -> Self {
        let shift = spacing.0.max(1).ilog2().clamp(10, 30);
        Self {
            shift,
            slot: 0,
            serial: 0,
            pool: Vec::new(),
            free: NIL,
            near: Box::new([NIL; NEAR]),
            near_map: [0; NEAR / 64],
            far: Box::new([NIL; FAR]),
            far_map: [0; FAR / 64],
            overflow: BinaryHeap::new(),
            current: Vec::with_capacity(64),
        }
    }

    /// Schedules an event. One in the past happens as soon as possible.
    #[inline]
    pub fn push(&mut self, time: Ps, event: u32) {
        let serial = self.serial;
        self.serial = serial.wrapping_add(1);
        self.place(Due { time: time.0, serial, event });
    }

    /// The next event and its time.
    #[inline]
    pub fn pop(&mut self) -> Option<(Ps, u32)> {
        loop {
            if let Some(due) = self.current.pop() {
                return Some((Ps(due.time), due.event));
            }
            if !self.advance() {
                return None;
            }
        }
    }

    /// The event that comes `ahead` after the next one, as far as that is known already.
    #[inline]
    #[must_use]
    pub fn upcoming(&self, ahead: usize) -> Option<u32> {
        let at = self.current.len().checked_sub(1 + ahead)?;
        self.current.get(at).map(|due| due.event)
    }

    #[inline]
    fn place(&mut self, due: Due) {
        let slot = due.time >> self.shift;
        if slot > self.slot && slot >> NEAR_BITS == self.slot >> NEAR_BITS {
            let index = (slot & (NEAR as u64 - 1)) as usize;
            self.near[index] = self.link(due, self.near[index]);
            self.near_map[index / 64] |= 1 << (index % 64);
        } else {
            self.place_elsewhere(due, slot);
        }
    }

    /// For an event that is not due in one of the next slots of this span.
    #[inline(never)]
    fn place_elsewhere(&mut self, due: Due, slot: u64) {
        if slot <= self.slot {
            // Serial numbers wrap, so equal times are told apart by distance: the newcomer goes behind all of them.
            let at = self.current.partition_point(|other| other.time > due.time);
            self.current.insert(at, due);
        } else if (slot >> NEAR_BITS) - (self.slot >> NEAR_BITS) < FAR as u64 {
            let index = ((slot >> NEAR_BITS) & (FAR as u64 - 1)) as usize;
            self.far[index] = self.link(due, self.far[index]);
            self.far_map[index / 64] |= 1 << (index % 64);
        } else {
            self.overflow.push(Reverse(due));
        }
    }

    #[inline]
    fn link(&mut self, due: Due, next: u32) -> u32 {
        let node = Node { time: due.time, serial: due.serial, event: due.event, next };
        let at = self.free;
        match self.pool.get_mut(at as usize) {
            Some(slot) => {
                self.free = slot.next;
                *slot = node;
                at
            }
            None => self.link_new(node),
        }
    }

    #[cold]
    fn link_new(&mut self, node: Node) -> u32 {
        self.pool.push(node);
        u32::try_from(self.pool.len() - 1).expect("fewer than 2^32 events wait")
    }

    /// Moves to the next slot that holds anything; false when there is none.
    #[inline(always)]
    fn advance(&mut self) -> bool {
        let index = (self.slot & (NEAR as u64 - 1)) as usize;
        if let Some(next) = next_set(&self.near_map, index) {
            self.slot = (self.slot & !(NEAR as u64 - 1)) | next as u64;
            self.near_map[next / 64] &= !(1 << (next % 64));
            let first = std::mem::replace(&mut self.near[next], NIL);
            let mut last = first;
            loop {
                let Node { time, serial, event, next } = self.pool[last as usize];
                self.current.push(Due { time, serial, event });
                if next == NIL {
                    break;
                }
                last = next;
            }
            self.pool[last as usize].next = self.free;
            self.free = first;
            if self.current.len() > 1 {
                // Pushed newest first; a stable sort, latest time first, keeps the newest of equal times in front.
                sort_latest_first(&mut self.current);
            }
            true
        } else {
            self.next_span()
        }
    }

    /// Moves to the next span that holds anything and spreads it over the near wheel; false when there is none.
    #[inline(never)]
    fn next_span(&mut self) -> bool {
        let span = self.slot >> NEAR_BITS;
        let here = (span & (FAR as u64 - 1)) as usize;
        let in_far = next_set_cyclic(&self.far_map, here).map(|index| {
            let ahead = (index as u64).wrapping_sub(here as u64) & (FAR as u64 - 1);
            span + ahead
        });
        let in_overflow = self.overflow.peek().map(|Reverse(due)| due.time >> self.shift >> NEAR_BITS);
        let next = match (in_far, in_overflow) {
            (Some(far), Some(over)) => far.min(over),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return false,
        };
        // The span's first slot is the present one: what is due in it goes straight to `current`.
        self.slot = next << NEAR_BITS;
        let mut arrivals = Vec::new();
        while let Some(Reverse(due)) = self.overflow.peek() {
            if due.time >> self.shift >> NEAR_BITS > next {
                break;
            }
            arrivals.push(*due);
            self.overflow.pop();
        }
        let index = (next & (FAR as u64 - 1)) as usize;
        if in_far == Some(next) {
            self.far_map[index / 64] &= !(1 << (index % 64));
            let mut at = std::mem::replace(&mut self.far[index], NIL);
            while at != NIL {
                let node = self.pool[at as usize];
                self.pool[at as usize].next = self.free;
                self.free = at;
                arrivals.push(Due { time: node.time, serial: node.serial, event: node.event });
                at = node.next;
            }
        }
        // Oldest first, so that lists and ties come out as if each had been scheduled here at once.
        let newest = self.serial;
        arrivals.sort_unstable_by_key(|due| Reverse(newest.wrapping_sub(due.serial)));
        for due in arrivals {
            self.place(due);
        }
        true
    }
}

/// Insertion sort for the usual handful, merge sort (stable) when a burst fills a slot.
#[inline]
fn sort_latest_first(list: &mut [Due]) {
    if list.len() > 24 {
        list.sort_by_key(|due| Reverse(due.time));
        return;
    }
    for i in 1..list.len() {
        let due = list[i];
        let mut j = i;
        while j > 0 && list[j - 1].time < due.time {
            list[j] = list[j - 1];
            j -= 1;
        }
        list[j] = due;
    }
}

/// First set bit after `index`.
#[inline]
fn next_set(map: &[u64], index: usize) -> Option<usize> {
    let mut word = index / 64;
    let mut bits = map[word] & (!0 << (index % 64)) & !(1 << (index % 64));
    loop {
        if bits != 0 {
            return Some(word * 64 + bits.trailing_zeros() as usize);
        }
        word += 1;
        bits = *map.get(word)?;
    }
}

/// First set bit after `index`, going round; `index` itself comes last.
fn next_set_cyclic(map: &[u64], index: usize) -> Option<usize> {
    next_set(map, index).or_else(|| {
        let (word, bits) = map.iter().enumerate().find(|(_, bits)| **bits != 0)?;
        Some(word * 64 + bits.trailing_zeros() as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ties_go_in_order_of_scheduling_in_every_wheel() {
        for base in [0, 1 << 12, 1 << 28, 1 << 50] {
            let mut queue = EventQueue::new(Ps(1 << 12));
            for event in 0..100 {
                queue.push(Ps(base), event);
            }
            let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
            assert_eq!(order, (0..100).collect::<Vec<_>>(), "at {base}");
        }
    }

    proptest! {
        /// Against the obvious model: a list sorted by time and order of scheduling.
        #[test]
        fn comes_out_as_a_sorted_list_would(steps in prop::collection::vec((0u32..48, 0u64..1 << 20, 0usize..4), 1..400)) {
            let mut queue = EventQueue::new(Ps(1 << 10));
            let mut model: Vec<(u64, u32)> = Vec::new();
            let mut now = 0;
            for (event, (scale, mantissa, pops)) in (0u32..).zip(steps) {
                let time = now + ((mantissa << (scale % 24)) >> (scale / 24 * 10));
                queue.push(Ps(time), event);
                model.push((time, event));
                for _ in 0..pops {
                    model.sort_unstable();
                    let got = queue.pop().map(|(time, event)| (time.0, event));
                    let want = if model.is_empty() { None } else { Some(model.remove(0)) };
                    prop_assert_eq!(got, want);
                    now = want.map_or(now, |(time, _)| time);
                }
            }
        }
    }
}
