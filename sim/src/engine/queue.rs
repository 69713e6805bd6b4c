//! The event queue: what happens next, in O(1) for network events.
//!
//! DESIGN NOTES
//! 1. Two wheels and an overflow. The near wheel's slots are some part of a packet time wide and hold what is due within
//!    the present *span* (one slot of the far wheel); the far wheel holds the next thousand spans; whatever is later waits
//!    in a heap. A binary heap for everything would cost a cache-missing sift per event; here an event stays where it was
//!    written, and is relinked at most twice.
//! 2. A slot is a linked list of nodes in a pool, last in first. When the clock reaches a slot its list is sorted and
//!    becomes `current`. So order is exact to the picosecond although slots are coarse.
//! 3. Ties go in order of scheduling: a run must not depend on how wide the slots happen to be. Lists are last in first
//!    and are taken from the newest on, so that an older event goes before what it ties with; what waited in the overflow
//!    was scheduled before what waited in the far wheel for the same span, and that before what went to the near one.
//! 4. Empty slots are skipped by bitmap, 64 at a time.
//! 5. Nodes are written and read field by field. Put together elsewhere and copied, as the first version did, a node
//!    is read in wider pieces than it was written in a moment ago, for which a processor must wait.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::clock::Ps;

const NEAR_BITS: u32 = 13;
const NEAR: usize = 1 << NEAR_BITS;
const FAR_BITS: u32 = 10;
const FAR: usize = 1 << FAR_BITS;
const NIL: u32 = u32::MAX;
/// Events of a slot that are sorted in their list; more are sorted beside it.
const FEW: usize = 24;

/// An event in a list.
struct Node {
    time: u64,
    event: u32,
    next: u32,
}

/// Events by time. An event is 32 bits that the caller packs as it likes.
pub struct EventQueue {
    /// Log2 of a near slot's width in picoseconds.
    shift: u32,
    /// Free nodes.
    free: u32,
    /// Events of the present slot and what joined them, earliest first, and the last of them.
    current: u32,
    last: u32,
    /// Present near slot, counted from time zero.
    slot: u64,
    pool: Vec<Node>,
    near: Box<[u32; NEAR]>,
    near_map: [u64; NEAR / 64],
    far: Box<[u32; FAR]>,
    far_map: [u64; FAR / 64],
    /// By time, then by order of scheduling, which `overflowed` counts.
    overflow: BinaryHeap<Reverse<(u64, u64, u32)>>,
    overflowed: u64,
}

impl EventQueue {
    /// A queue with slots about `width` wide: events that are closer together have to be sorted.
    #[must_use]
    pub fn new(width: Ps) -> Self {
        let shift = width.0.max(1).ilog2().clamp(10, 30);
        Self {
            shift,
            free: NIL,
            current: NIL,
            last: NIL,
            slot: 0,
            pool: Vec::new(),
            near: Box::new([NIL; NEAR]),
            near_map: [0; NEAR / 64],
            far: Box::new([NIL; FAR]),
            far_map: [0; FAR / 64],
            overflow: BinaryHeap::new(),
            overflowed: 0,
        }
    }

    /// Schedules an event. One in the past happens as soon as possible.
    #[inline]
    pub fn push(&mut self, time: Ps, event: u32) {
        let slot = time.0 >> self.shift;
        if slot > self.slot && slot ^ self.slot < NEAR as u64 {
            let index = slot as usize % NEAR;
            self.near[index] = self.link(time.0, event, self.near[index]);
            self.near_map[index / 64] |= 1 << (index % 64);
        } else {
            self.push_elsewhere(time.0, event, slot);
        }
    }

    /// The next event and its time.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<(Ps, u32)> {
        if self.current == NIL && !self.advance() {
            return None;
        }
        let at = self.current;
        let node = &mut self.pool[at as usize];
        self.current = node.next;
        node.next = self.free;
        self.free = at;
        Some((Ps(node.time), node.event))
    }

    /// What will happen next, as far as that is known already: slot by slot in order, within a slot to come in any.
    #[inline]
    pub fn upcoming(&self) -> impl Iterator<Item = u32> {
        let (mut at, mut index) = (self.current, self.slot as usize % NEAR);
        std::iter::from_fn(move || {
            if at == NIL {
                index = next_set(&self.near_map, index)?;
                at = self.near[index];
            }
            let node = &self.pool[at as usize];
            at = node.next;
            Some(node.event)
        })
    }

    /// For an event that is not due in one of the next slots of this span.
    #[inline(never)]
    fn push_elsewhere(&mut self, time: u64, event: u32, slot: u64) {
        if slot <= self.slot {
            self.push_current(time, event);
        } else if (slot >> NEAR_BITS) - (self.slot >> NEAR_BITS) < FAR as u64 {
            let index = (slot >> NEAR_BITS) as usize % FAR;
            self.far[index] = self.link(time, event, self.far[index]);
            self.far_map[index / 64] |= 1 << (index % 64);
        } else {
            self.overflow.push(Reverse((time, self.overflowed, event)));
            self.overflowed += 1;
        }
    }

    /// Puts an event behind all of the present slot that are not later.
    fn push_current(&mut self, time: u64, event: u32) {
        let is_last = self.current == NIL || self.pool[self.last as usize].time <= time;
        let before = if is_last { (self.current != NIL).then_some(self.last) } else { self.last_until(time) };
        let next = before.map_or(self.current, |before| self.pool[before as usize].next);
        let next = if is_last { NIL } else { next };
        let at = self.link(time, event, next);
        match before {
            Some(before) => self.pool[before as usize].next = at,
            None => self.current = at,
        }
        if is_last {
            self.last = at;
        }
    }

    /// The last event of the present slot that is not later than `time`.
    fn last_until(&self, time: u64) -> Option<u32> {
        let (mut before, mut at) = (None, self.current);
        while let Some(node) = self.pool.get(at as usize)
            && node.time <= time
        {
            (before, at) = (Some(at), node.next);
        }
        before
    }

    /// Writes an event into a free node, in front of the list that begins with `next`.
    #[inline]
    fn link(&mut self, time: u64, event: u32, next: u32) -> u32 {
        let at = self.free;
        match self.pool.get_mut(at as usize) {
            Some(node) => {
                self.free = node.next;
                node.time = time;
                node.event = event;
                node.next = next;
                at
            }
            None => self.link_new(Node { time, event, next }),
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
        let index = self.slot as usize % NEAR;
        match next_set(&self.near_map, index) {
            Some(next) => self.enter(next),
            None => return self.next_span(),
        }
        true
    }

    /// Makes a slot of this span the present one.
    #[inline(always)]
    fn enter(&mut self, index: usize) {
        self.slot = (self.slot & !(NEAR as u64 - 1)) | index as u64;
        self.near_map[index / 64] &= !(1 << (index % 64));
        let first = std::mem::replace(&mut self.near[index], NIL);
        self.current = first;
        self.last = first;
        if self.pool[first as usize].next != NIL {
            self.sort(first);
        }
    }

    /// Sorts a list, newest first as it is, and makes it the present one: by insertion for the usual handful.
    #[inline]
    fn sort(&mut self, first: u32) {
        let mut at = std::mem::replace(&mut self.pool[first as usize].next, NIL);
        for _ in 0..FEW {
            let Node { time, next, .. } = self.pool[at as usize];
            // Before what is not earlier: that is newer.
            let (mut before, mut behind) = (NIL, self.current);
            while let Some(node) = self.pool.get(behind as usize)
                && node.time < time
            {
                (before, behind) = (behind, node.next);
            }
            self.pool[at as usize].next = behind;
            match self.pool.get_mut(before as usize) {
                Some(node) => node.next = at,
                None => self.current = at,
            }
            if behind == NIL {
                self.last = at;
            }
            if next == NIL {
                return;
            }
            at = next;
        }
        self.sort_rest(at);
    }

    /// Sorts the rest of a long list, newest first as it is, into the present one: a burst has filled a slot.
    #[cold]
    fn sort_rest(&mut self, rest: u32) {
        // Oldest first: the rest is older than what has been sorted.
        let mut list: Vec<(u64, u32)> = self.list(rest).collect();
        list.reverse();
        list.extend(self.list(self.current));
        list.sort_by_key(|&(time, _)| time);
        let mut next = NIL;
        self.last = list.last().map_or(NIL, |&(_, at)| at);
        for &(_, at) in list.iter().rev() {
            self.pool[at as usize].next = next;
            next = at;
        }
        self.current = next;
    }

    /// Times and nodes of a list.
    fn list(&self, first: u32) -> impl Iterator<Item = (u64, u32)> {
        let mut at = first;
        std::iter::from_fn(move || {
            let node = self.pool.get(at as usize)?;
            let found = (node.time, at);
            at = node.next;
            Some(found)
        })
    }

    /// Moves to the next span that holds anything, spreads it over the near wheel and enters its first slot; false when
    /// there is none.
    #[inline(never)]
    fn next_span(&mut self) -> bool {
        let span = self.slot >> NEAR_BITS;
        let here = span as usize % FAR;
        let in_far = next_set_cyclic(&self.far_map, here).map(|index| {
            let ahead = (index as u64).wrapping_sub(here as u64) & (FAR as u64 - 1);
            span + ahead
        });
        let in_overflow = self.overflow.peek().map(|Reverse((time, ..))| time >> self.shift >> NEAR_BITS);
        let next = match (in_far, in_overflow) {
            (Some(far), Some(over)) => far.min(over),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return false,
        };
        self.slot = next << NEAR_BITS;
        while let Some(&Reverse((time, _, event))) = self.overflow.peek()
            && time >> self.shift >> NEAR_BITS <= next
        {
            self.overflow.pop();
            let at = self.link(time, event, NIL);
            self.spread(at);
        }
        if in_far == Some(next) {
            let index = next as usize % FAR;
            self.far_map[index / 64] &= !(1 << (index % 64));
            let newest_first = std::mem::replace(&mut self.far[index], NIL);
            let mut at = self.reverse(newest_first);
            while at != NIL {
                let behind = self.pool[at as usize].next;
                self.spread(at);
                at = behind;
            }
        }
        let first = if self.near_map[0] & 1 == 1 { Some(0) } else { next_set(&self.near_map, 0) };
        if let Some(index) = first {
            self.enter(index);
        }
        first.is_some()
    }

    /// Puts a node of this span into its slot.
    fn spread(&mut self, at: u32) {
        let node = &mut self.pool[at as usize];
        let index = (node.time >> self.shift) as usize % NEAR;
        node.next = std::mem::replace(&mut self.near[index], at);
        self.near_map[index / 64] |= 1 << (index % 64);
    }

    /// Turns a list round; returns its new beginning.
    fn reverse(&mut self, first: u32) -> u32 {
        let (mut at, mut before) = (first, NIL);
        while at != NIL {
            let next = std::mem::replace(&mut self.pool[at as usize].next, before);
            (before, at) = (at, next);
        }
        before
    }
}

/// First set bit after `index`.
#[inline]
fn next_set(map: &[u64], index: usize) -> Option<usize> {
    let mut word = index / 64;
    let mut bits = map[word] & (!1 << (index % 64));
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
