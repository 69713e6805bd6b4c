//! What limits a real host, where a scenario asks for it: segments leave TCP in bursts (TSO) and arrive in bursts (GRO), each
//! burst costs processor time however short it is, and TCP keeps little in the host's own queues (TCP small queues).
//!
//! A host has one processor for what it sends and one for what arrives. Bursts are formed of what the windows allow at
//! once: small windows make short bursts, and then the processors are what limits.

use std::collections::VecDeque;

use crate::engine::Ps;
use crate::net::{NIL, Packet};
use crate::observer::Observer;
use crate::scenario::{Host, Scenario};

use super::World;
use super::event::Event;
use super::host::first_channel;

/// Hosts' limits.
pub(super) struct Offload {
    /// Segments of a burst at most.
    segments: u32,
    burst_time: Ps,
    /// By host: when its processors are free.
    processors: Vec<Processors>,
    /// By endpoint, what of it waits in its host; empty without small queues.
    waiting: Vec<Waiting>,
    small_queues: bool,
}

#[derive(Clone, Copy, Default)]
struct Processors {
    sends_until: Ps,
    receives_until: Ps,
    /// The last packet sent has others of its burst behind it.
    sending: bool,
}

/// Bytes of an endpoint that have not left its host's interface.
#[derive(Clone, Default)]
struct Waiting {
    bursts: VecDeque<(Ps, u32)>,
    bytes: u64,
    /// A wake-up is on its way.
    called: bool,
}

/// Bursts that may wait in a host, whatever their sender's rate (Linux, `tcp_small_queue_check`).
const BURSTS: u64 = 2;
/// Time's worth of a sender's rate that may wait there, if that is more.
const WORTH: Ps = Ps::millis(1);

impl Offload {
    /// What a scenario asks for; `None` when its hosts are without limits.
    pub(super) fn new(scenario: &Scenario, hosts: u32) -> Option<Self> {
        let Host { tso, burst_time, small_queues, .. } = scenario.host;
        let segments = tso.unwrap_or(1);
        let burst_time = Ps::from_span(burst_time);
        (segments > 1 || burst_time > Ps::ZERO || small_queues).then(|| Self {
            segments,
            burst_time,
            processors: vec![Processors::default(); hosts as usize],
            waiting: Vec::new(),
            small_queues,
        })
    }

    /// When a packet that TCP sends now leaves its host's processor.
    pub(super) fn sent(&mut self, now: Ps, host: u32, packet: &Packet) -> Ps {
        let processors = &mut self.processors[host as usize];
        if !processors.sending {
            processors.sends_until = processors.sends_until.max(now) + self.burst_time;
        }
        processors.sending = packet.is(Packet::MORE);
        processors.sends_until
    }

    /// When TCP has a packet that reaches the host at `arrival`: what is behind it in its burst costs nothing more.
    pub(super) fn received(&mut self, arrival: Ps, host: u32, packet: &Packet) -> Ps {
        let processors = &mut self.processors[host as usize];
        processors.receives_until = processors.receives_until.max(arrival);
        if !packet.is(Packet::MORE) {
            processors.receives_until += self.burst_time;
        }
        processors.receives_until
    }
}

impl Waiting {
    /// Whether another burst may join, of a sender that may have `limit` bytes in its host; or else when to ask again.
    fn admits(&mut self, now: Ps, limit: u64) -> Result<(), Ps> {
        while let Some(&(until, bytes)) = self.bursts.front()
            && until <= now
        {
            self.bytes -= u64::from(bytes);
            self.bursts.pop_front();
        }
        match self.bursts.front() {
            Some(&(until, _)) if self.bytes >= limit => Err(until),
            _ => Ok(()),
        }
    }
}

impl<O: Observer> World<'_, O> {
    /// Sends what an endpoint may send now, burst by burst.
    #[inline(never)]
    pub(super) fn output_in_bursts(&mut self, e: usize) {
        while self.makes_burst(e) && self.admits(e) && self.send_burst(e) {}
    }

    /// Whether what an endpoint may send is worth a burst: an ACK, a repair, all that it has, or enough.
    fn makes_burst(&mut self, e: usize) -> bool {
        let Some(offload) = &self.offload else { return true };
        let mss = self.configs[usize::from(self.connections[e / 2].party)].mss;
        let endpoint = &mut self.endpoints[e];
        endpoint.owes_ack() || !endpoint.sender.defers(offload.segments, mss)
    }

    /// Sends one burst; returns whether there may be another.
    fn send_burst(&mut self, e: usize) -> bool {
        let Some(offload) = &self.offload else { return false };
        let (most, host) = (offload.segments, self.connections[e / 2].host[e % 2]);
        let (mut held, mut segments, mut bytes, mut more) = (NIL, 0, 0, true);
        while more && segments < most {
            let Some((handle, follows)) = self.poll_packet(e) else {
                more = false;
                break;
            };
            more = follows;
            let Packet { seq, payload, .. } = self.slab[handle];
            // Only what is contiguous goes as one.
            let last = (held != NIL).then(|| self.slab[held]);
            let joins =
                last.is_some_and(|last| payload > 0 && last.payload > 0 && last.seq + u32::from(last.payload) == seq);
            if held != NIL {
                if joins {
                    self.slab[held].bits |= Packet::MORE;
                }
                self.emit_polled(e, held);
            }
            held = handle;
            segments += 1;
            bytes += self.slab[handle].frame();
        }
        if held == NIL {
            return false;
        }
        self.emit_polled(e, held);
        let until = self.channels[first_channel(host)].busy_until();
        if let Some(offload) = &mut self.offload
            && offload.small_queues
        {
            let waiting = &mut offload.waiting[e];
            waiting.bursts.push_back((until, bytes));
            waiting.bytes += u64::from(bytes);
        }
        more
    }

    /// Whether an endpoint's host takes another burst of it; if not, the endpoint will be called.
    fn admits(&mut self, e: usize) -> bool {
        let Some(offload) = &mut self.offload else { return true };
        if !offload.small_queues {
            return true;
        }
        if offload.waiting.len() <= e {
            offload.waiting.resize(self.endpoints.len(), Waiting::default());
        }
        let mss = u64::from(self.configs[usize::from(self.connections[e / 2].party)].mss);
        let worth = self.endpoints[e].sender.bytes_in(WORTH);
        let limit = worth.max(BURSTS * u64::from(offload.segments) * mss);
        let waiting = &mut offload.waiting[e];
        match waiting.admits(self.now, limit) {
            Ok(()) => true,
            Err(at) => {
                if !std::mem::replace(&mut waiting.called, true) {
                    self.events.push(at, Event::Wake.at(e as u32));
                }
                false
            }
        }
    }

    /// A host's queue has room again for an endpoint that waited for it.
    pub(super) fn wake(&mut self, e: u32) {
        if let Some(offload) = &mut self.offload {
            offload.waiting[e as usize].called = false;
        }
        self.output(e as usize);
    }

    /// As [`leave`](Self::leave), for those who seldom do it.
    #[inline(never)]
    pub(super) fn leave_now(&mut self, handle: u32) {
        self.leave(handle);
    }

    /// A packet leaves its host, now or as soon as the processor has dealt with it.
    #[inline]
    pub(super) fn leave(&mut self, handle: u32) {
        let at = match &mut self.offload {
            None => self.now,
            Some(offload) => {
                let packet = &self.slab[handle];
                let host = self.connections[packet.flow as usize].host[packet.from as usize];
                offload.sent(self.now, host, packet)
            }
        };
        self.inject(at, handle);
    }
}
