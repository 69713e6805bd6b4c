//! One end of a connection: both halves, the handshake, and the headers they share.

use ackgate_control::segment::Flags;
use ackgate_control::seq::SeqNumber;

use super::config::TcpConfig;
use super::receiver::Receiver;
use super::sender::Sender;
use super::{number_of, offset_near};
use crate::engine::{Ps, Random};
use crate::net::Packet;

/// How far the handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not open.
    Closed,
    /// SYN sent.
    SynSent,
    /// SYN received, SYN-ACK sent.
    SynReceived,
    /// Data may flow.
    Established,
}

/// What an arriving segment brought about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Bytes that became readable.
    pub readable: u64,
    /// Bytes of ours newly acknowledged.
    pub acked: u64,
    /// A round-trip time was measured.
    pub rtt: Option<Ps>,
    /// The handshake is complete, now.
    pub established: bool,
}

/// One end of a connection.
#[repr(C, align(64))]
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// How far the handshake is.
    pub state: State,
    /// A SYN or SYN-ACK is to be sent.
    syn_now: bool,
    /// The pending timer event's time, [`Ps::NEVER`] when there is none; kept here for the event loop.
    pub timer_at: Ps,
    /// What it has received.
    pub receiver: Receiver,
    /// What this end sends; the rarely touched part of it comes last.
    pub sender: Sender,
}

/// One line each of what a segment touches: what was received, and three of the sender; and one for losses.
const _: () = {
    assert!(std::mem::offset_of!(Endpoint, sender) == 64);
    assert!(Sender::RARELY_TOUCHED_FROM == 192);
    assert!(Sender::LOSSES_TOUCH_UP_TO <= 256);
};

impl Endpoint {
    /// A closed end.
    #[must_use]
    pub fn new(config: &TcpConfig, iss: u32) -> Self {
        Self {
            state: State::Closed,
            syn_now: false,
            timer_at: Ps::NEVER,
            sender: Sender::new(config, iss),
            receiver: Receiver::new(),
        }
    }

    /// Begins the handshake.
    pub fn open(&mut self) {
        self.state = State::SynSent;
        self.syn_now = true;
    }

    /// The application writes `bytes`; `last` ends the stream.
    pub fn write(&mut self, bytes: u64, last: bool) {
        self.sender.write(bytes, last);
    }

    /// The next time at which something happens by itself.
    #[inline]
    #[must_use]
    pub fn deadline(&self) -> Ps {
        let deadline = self.sender.deadline.min(self.receiver.ack_deadline);
        if self.sender.more_timers {
            deadline.min(self.sender.turn_at).min(self.sender.tail_at).min(self.sender.pace_at)
        } else {
            deadline
        }
    }

    /// A segment arrives.
    #[inline(always)]
    pub fn handle_segment(&mut self, now: Ps, packet: &Packet, config: &TcpConfig, random: &mut Random) -> Arrived {
        let mut arrived = Arrived::default();
        if config.cap.is_some() {
            if packet.is_stamped() {
                self.receiver.aside.echo.handle_packet(packet.senders);
            } else {
                self.sender.handle_number(packet.senders, config);
            }
        }
        if self.state != State::Established && !self.handle_handshake(now, packet, config, random, &mut arrived) {
            return arrived;
        }
        if packet.flags.has(Flags::SYN) {
            // A SYN-ACK again: our ACK was lost. A SYN again: our SYN-ACK was.
            self.receiver.ack_now = true;
            return arrived;
        }
        let ack = offset_near(self.sender.una, self.sender.iss, packet.ack);
        self.sender.handle_ack(now, packet, ack, config, random, &mut arrived);
        if packet.payload > 0 || packet.flags.has(Flags::FIN) {
            arrived.readable = self.receiver.handle_data(now, packet, config, random);
        } else if offset_near(self.receiver.nxt, self.receiver.irs, packet.seq) < self.receiver.nxt {
            // A probe: outside the window, so it is answered (RFC 9293 §3.10.7.4).
            self.receiver.ack_now = true;
        } else if packet.is(Packet::TIMESTAMPS) {
            self.receiver.ts_recent = packet.timestamps.0;
        }
        arrived
    }

    /// Returns whether the segment is to be looked at further.
    #[cold]
    fn handle_handshake(
        &mut self,
        now: Ps,
        packet: &Packet,
        config: &TcpConfig,
        random: &mut Random,
        arrived: &mut Arrived,
    ) -> bool {
        let syn = packet.flags.has(Flags::SYN);
        match self.state {
            State::Closed | State::SynReceived if syn && !packet.flags.has(Flags::ACK) => {
                self.state = State::SynReceived;
                self.learn_peer(packet, config);
                self.syn_now = true;
                false
            }
            State::SynSent if syn && packet.flags.has(Flags::ACK) => {
                self.learn_peer(packet, config);
                self.establish(now, packet, config, random, arrived);
                self.receiver.ack_now = true;
                false
            }
            State::SynReceived if packet.flags.has(Flags::ACK) && !syn => {
                self.establish(now, packet, config, random, arrived);
                true
            }
            _ => false,
        }
    }

    fn learn_peer(&mut self, packet: &Packet, config: &TcpConfig) {
        self.receiver.irs = packet.seq.0;
        self.receiver.nxt = 1;
        self.sender.peer_wscale = config.wscale;
        if packet.is(Packet::TIMESTAMPS) {
            self.receiver.ts_recent = packet.timestamps.0;
        }
    }

    fn establish(&mut self, now: Ps, packet: &Packet, config: &TcpConfig, random: &mut Random, arrived: &mut Arrived) {
        self.state = State::Established;
        arrived.established = true;
        // The window of a SYN-ACK is not scaled (RFC 7323 §2.2).
        let shift = if packet.flags.has(Flags::SYN) { 0 } else { self.sender.peer_wscale };
        self.sender.establish(now, packet, u64::from(packet.window) << shift, config, random, arrived);
    }

    /// Time has passed the deadline. Returns whether it was the retransmission timer.
    pub fn handle_timeout(&mut self, now: Ps, config: &TcpConfig) -> bool {
        if self.receiver.ack_deadline <= now {
            self.receiver.ack_deadline = Ps::NEVER;
            self.receiver.ack_now = true;
        }
        if self.sender.more_timers {
            if self.sender.turn_at <= now {
                self.sender.turn_at = Ps::NEVER;
            }
            if self.sender.pace_at <= now {
                self.sender.pace_at = Ps::NEVER;
            }
            self.sender.handle_silence(now);
        }
        if self.sender.deadline > now {
            return false;
        }
        self.sender.deadline = Ps::NEVER;
        if self.state == State::Established {
            self.sender.handle_timeout(config)
        } else {
            self.syn_now = true;
            self.sender.handle_syn_timeout(config);
            true
        }
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) is certain to have nothing: what most ends are most of the time.
    #[inline]
    #[must_use]
    pub fn is_quiet(&mut self, config: &TcpConfig) -> bool {
        !self.receiver.ack_now
            && !self.receiver.early_ack_now
            && self.state == State::Established
            && self.sender.is_quiet(config)
    }

    /// Whether the peer is to be told something now, with data or without.
    pub(crate) fn owes_ack(&self) -> bool {
        self.state != State::Established || self.receiver.ack_now || self.receiver.early_ack_now
    }

    /// Whether another segment may follow the one just polled. Nothing follows an ACK that goes alone: it went because
    /// there was no data to send; unless it was early, or asking for data again may have another answer.
    #[inline]
    #[must_use]
    pub fn has_more_after(&self, packet: &Packet) -> bool {
        packet.is_numbered() || self.receiver.ack_now || self.sender.more_timers
    }

    /// Writes the next segment to send into `packet` and returns true; false when nothing may be sent now. To be called
    /// until then. Only what stands in headers is written.
    #[inline(always)]
    pub fn poll_transmit(&mut self, now: Ps, config: &TcpConfig, random: &mut Random, packet: &mut Packet) -> bool {
        if self.state != State::Established {
            return self.poll_syn(now, config, random, packet);
        }
        if self.receiver.early_ack_now {
            self.receiver.early_ack_now = false;
            let due = self.receiver.ack_now;
            self.receiver.ece = !self.receiver.ece;
            self.bare_ack(now, config, packet);
            self.receiver.ece = !self.receiver.ece;
            packet.ack = number_of(self.receiver.irs, self.receiver.aside.early_ack);
            self.receiver.ack_now = due;
            return true;
        }
        if let Some(chunk) = self.sender.poll_chunk(now, config, random) {
            self.begin(now, chunk.start, chunk.flags, config, packet);
            packet.payload = chunk.len;
            packet.bits |= chunk.bits;
            self.receiver.handle_answer(now, config);
            self.receiver.stamp(packet, config);
            return true;
        }
        if self.receiver.ack_now {
            self.bare_ack(now, config, packet);
            return true;
        }
        false
    }

    #[cold]
    fn poll_syn(&mut self, now: Ps, config: &TcpConfig, random: &mut Random, packet: &mut Packet) -> bool {
        if !self.syn_now {
            return false;
        }
        self.syn_now = false;
        let again = self.sender.max > 0;
        self.sender.sent_syn(now, config, random);
        self.begin(now, 0, Flags::SYN, config, packet);
        if again {
            packet.bits |= Packet::RETRANSMISSION;
        }
        if self.state == State::SynReceived {
            self.receiver.stamp(packet, config);
            packet.flags |= Flags::ACK;
            if config.ecn {
                packet.flags |= Flags::ECE;
            }
        } else if config.ecn {
            packet.flags |= Flags::ECE | Flags::CWR;
        }
        packet.window = u16::try_from(config.rwnd).unwrap_or(u16::MAX);
        if config.ecn_syn {
            packet.bits |= Packet::ECT;
        }
        packet.header = config.header + packet.tcp_header();
        true
    }

    #[inline(always)]
    fn bare_ack(&mut self, now: Ps, config: &TcpConfig, packet: &mut Packet) {
        self.begin(now, self.sender.max, Flags::ACK, config, packet);
        self.receiver.stamp(packet, config);
    }

    /// What every segment begins with.
    #[inline]
    fn begin(&self, now: Ps, offset: u64, flags: Flags, config: &TcpConfig, packet: &mut Packet) {
        packet.seq = number_of(self.sender.iss, offset);
        packet.ack = SeqNumber(0);
        packet.flags = flags;
        packet.payload = 0;
        packet.sack_len = 0;
        packet.senders = 0;
        packet.bits = 0;
        if config.timestamps {
            packet.bits = Packet::TIMESTAMPS;
            packet.timestamps = (config.timestamp(now), self.receiver.ts_recent);
        }
    }
}
