//! Barrier-synchronised rounds: all senders send, and the next round begins when the last has finished (PAC §V,
//! Vasudevan §2).

use crate::engine::Ps;
use crate::measure::Jain;
use crate::net::Side;
use crate::observer::{Flow, Observer};
use crate::scenario::{self, Connections, Direction, Per};
use crate::world::{Event, World, endpoint};

use super::Kind;

/// Rounds of one group.
pub(super) struct Rounds {
    config: scenario::Rounds,
    senders: u32,
    rounds: u32,
    round: u32,
    started: Ps,
    /// Senders that have not finished.
    remaining: u32,
    saw_timeout: bool,
    /// Ends of connections that are not yet set up.
    setting_up: u32,
    members: Vec<Member>,
    shares: Jain,
    fairness: f64,
}

/// One sender's part of the present round.
#[derive(Clone, Copy, Default)]
struct Member {
    answer: Message,
    request: Message,
    /// Answers that are not yet complete.
    answers_left: u32,
    /// Answers that are not yet asked for.
    unasked: u32,
    /// Answers that are not yet given.
    unanswered: u32,
}

/// Messages of one size that follow each other on a stream.
#[derive(Clone, Copy, Default)]
struct Message {
    size: u64,
    /// Bytes that its reader still waits for.
    left: u64,
}

impl Message {
    fn of(size: u64) -> Self {
        Self { size, left: size }
    }

    /// Its reader reads `bytes`; returns how many were complete.
    #[inline]
    fn read(&mut self, bytes: u64) -> u32 {
        if bytes < self.left {
            self.left -= bytes;
            return 0;
        }
        let more = bytes - self.left;
        let size = self.size.max(1);
        self.left = self.size - more % size;
        (1 + more / size) as u32
    }
}

impl Rounds {
    pub(super) fn new(config: &scenario::Rounds, senders: u32, rounds: u32) -> Self {
        Self {
            config: config.clone(),
            senders,
            rounds,
            round: 0,
            started: Ps::ZERO,
            remaining: 0,
            saw_timeout: false,
            setting_up: 0,
            members: vec![Member::default(); senders as usize],
            shares: Jain::default(),
            fairness: 0.0,
        }
    }

    fn share(&self, member: u32) -> u64 {
        match self.config.per {
            Per::Sender => self.config.volume,
            Per::Round => {
                let senders = u64::from(self.senders);
                self.config.volume / senders + u64::from(u64::from(member) < self.config.volume % senders)
            }
        }
    }

    /// Bytes of a member's part of a round.
    fn volume(&self, member: u32) -> u64 {
        self.share(member) * u64::from(self.config.answers)
    }

    fn fresh(&self) -> bool {
        self.config.connections == Connections::Fresh
    }

    /// Who begins: sets the connection up.
    pub(super) fn opener(&self) -> Side {
        match self.config.direction {
            Direction::Push => Side::Sender,
            Direction::Pull => Side::Receiver,
        }
    }

    /// A member's end has read `bytes`: how many requests or answers that completed.
    #[inline]
    pub(super) fn read(&mut self, member: u32, side: Side, bytes: u64) -> u32 {
        let member = &mut self.members[member as usize];
        if side == Side::Sender { member.request.read(bytes) } else { member.answer.read(bytes) }
    }

    pub(super) fn timed_out(&mut self) {
        self.saw_timeout = true;
    }

    pub(super) fn fairness(&self) -> f64 {
        self.fairness / f64::from(self.round.saturating_sub(u32::from(self.remaining > 0)).max(1))
    }
}

impl<O: Observer> World<'_, O> {
    fn rounds(&mut self, group: u32) -> Option<&mut Rounds> {
        match &mut self.groups[group as usize].kind {
            Kind::Rounds(rounds) => Some(rounds),
            _ => None,
        }
    }

    /// Sets persistent connections up, one after the other so that the handshakes do not collide.
    pub(super) fn start_rounds(&mut self, group: u32) {
        let (first, senders) = (self.groups[group as usize].first, self.groups[group as usize].senders);
        let spacing = self.handshake_spacing();
        let Some(rounds) = self.rounds(group) else { return };
        if rounds.fresh() {
            self.events.push(Ps::ZERO, Event::Group.at(group));
            return;
        }
        rounds.setting_up = 2 * senders;
        for n in 0..senders {
            self.events.push(Ps(spacing.0.saturating_mul(u64::from(n))), Event::Open.at(first + n));
        }
    }

    pub(super) fn established_for_rounds(&mut self, group: u32) {
        let Some(rounds) = self.rounds(group) else { return };
        if rounds.setting_up > 0 {
            rounds.setting_up -= 1;
            if rounds.setting_up == 0 {
                self.events.push(self.now, Event::Group.at(group));
            }
        }
    }

    pub(super) fn begin_round(&mut self, group: u32) {
        let (first, now) = (self.groups[group as usize].first, self.now);
        let Some(rounds) = self.rounds(group) else { return };
        rounds.round += 1;
        rounds.started = now;
        rounds.saw_timeout = false;
        rounds.shares = Jain::default();
        rounds.remaining = 0;
        let (round, senders, config, fresh) = (rounds.round, rounds.senders, rounds.config.clone(), rounds.fresh());
        for n in 0..senders {
            let share = rounds.share(n);
            rounds.members[n as usize] = Member {
                answer: Message::of(share),
                request: Message::of(config.request),
                answers_left: config.answers,
                unasked: config.answers,
                unanswered: config.answers,
            };
            rounds.remaining += u32::from(share > 0);
        }
        if self.is_main(group) {
            if round == 1 {
                self.begin_window();
            }
            self.watch.round_begins(now, round);
        }
        for n in 0..senders {
            let connection = first + n;
            if self.rounds(group).is_none_or(|rounds| rounds.share(n) == 0) {
                continue;
            }
            match config.direction {
                Direction::Push => self.schedule_answer(connection, config.start_jitter),
                Direction::Pull => {
                    if fresh {
                        self.renew(connection, self.connections[connection as usize].route);
                    }
                    self.ask(group, connection, config.outstanding);
                    if fresh {
                        self.open_from(connection, Side::Receiver);
                    } else {
                        self.output(endpoint(connection, Side::Receiver));
                    }
                }
            }
        }
    }

    /// The receiver writes the next requests to a sender, `most` of them, if there are any.
    fn ask(&mut self, group: u32, connection: u32, most: u32) {
        let n = connection - self.groups[group as usize].first;
        let Some(rounds) = self.rounds(group) else { return };
        let member = &mut rounds.members[n as usize];
        let now = most.min(member.unasked);
        member.unasked -= now;
        let bytes = member.request.size * u64::from(now);
        if bytes > 0 {
            self.endpoints[endpoint(connection, Side::Receiver)].write(bytes, false);
        }
    }

    fn schedule_answer(&mut self, connection: u32, jitter: ackgate_control::units::Span) {
        let late = Ps(self.random.start.up_to(Ps::from_span(jitter).0));
        self.events.push(self.now + late, Event::Begin.at(connection));
    }

    /// A sender begins to send its part of the round.
    pub(super) fn begin_answer(&mut self, group: u32, connection: u32) {
        let n = connection - self.groups[group as usize].first;
        let Some(rounds) = self.rounds(group) else { return };
        let (share, fresh, push) = (rounds.share(n), rounds.fresh(), rounds.opener() == Side::Sender);
        let member = &mut rounds.members[n as usize];
        member.unanswered -= 1;
        let last = fresh && member.unanswered == 0;
        let e = endpoint(connection, Side::Sender);
        if push && fresh {
            self.renew(connection, self.connections[connection as usize].route);
            self.endpoints[e].write(share, true);
            self.open_from(connection, Side::Sender);
        } else {
            self.endpoints[e].write(share, last);
            self.output(e);
        }
    }

    /// A member's end has read `complete` requests or answers.
    #[inline(never)]
    pub(super) fn member_read(&mut self, group: u32, connection: u32, side: Side, complete: u32) {
        let now = self.now;
        let n = connection - self.groups[group as usize].first;
        let Some(rounds) = self.rounds(group) else { return };
        if side == Side::Sender {
            let jitter = rounds.config.start_jitter;
            for _ in 0..complete {
                self.schedule_answer(connection, jitter);
            }
            return;
        }
        let member = &mut rounds.members[n as usize];
        member.answers_left -= complete;
        if member.answers_left == 0 {
            self.member_finished(group, connection, now);
        } else {
            self.ask(group, connection, complete);
        }
    }

    fn member_finished(&mut self, group: u32, connection: u32, now: Ps) {
        let n = connection - self.groups[group as usize].first;
        let Some(rounds) = self.rounds(group) else { return };
        let took = now - rounds.started;
        let (bytes, round) = (rounds.volume(n), rounds.round);
        rounds.shares.add(bytes as f64 / took.as_secs_f64());
        rounds.remaining -= 1;
        let (over, fresh) = (rounds.remaining == 0, rounds.fresh());
        if fresh {
            // The receiver closes, too.
            self.endpoints[endpoint(connection, Side::Receiver)].write(0, true);
        }
        let main = self.is_main(group);
        self.tally.flow(self.connections[connection as usize].party, main.then_some(n), took);
        let background = group.checked_sub(1);
        self.watch.flow_ends(now, &Flow { background, sender: n, round: Some(round), bytes, took: took.to_span() });
        if over {
            self.round_finished(group, took);
        }
    }

    fn round_finished(&mut self, group: u32, took: Ps) {
        let now = self.now;
        let main = self.is_main(group);
        let Some(rounds) = self.rounds(group) else { return };
        rounds.fairness += rounds.shares.index();
        let (round, last, pause) = (rounds.round, rounds.round >= rounds.rounds, Ps::from_span(rounds.config.pause));
        let saw_timeout = rounds.saw_timeout;
        let bytes = (0..rounds.senders).map(|n| rounds.volume(n)).sum();
        if main {
            self.tally.round(bytes, took, saw_timeout);
            self.watch.round_ends(now, round, took.to_span());
        }
        if last {
            self.group_done(group);
        } else {
            if main {
                self.tally.pause(pause);
            }
            self.events.push(now + pause, Event::Group.at(group));
        }
    }
}
