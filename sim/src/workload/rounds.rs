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
    /// Bytes that the receiver still waits for.
    left: u64,
    /// Bytes of the request that the sender still waits for.
    asked: u64,
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

    /// A member's end has read `bytes`: whether that was all that it waits for.
    #[inline]
    pub(super) fn read(&mut self, member: u32, side: Side, bytes: u64) -> bool {
        let member = &mut self.members[member as usize];
        let left = if side == Side::Sender { &mut member.asked } else { &mut member.left };
        *left = left.saturating_sub(bytes);
        *left == 0
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
            rounds.members[n as usize] = Member { left: share, asked: config.request };
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
            if self.rounds(group).is_none_or(|rounds| rounds.members[n as usize].left == 0) {
                continue;
            }
            match config.direction {
                Direction::Push => self.schedule_answer(connection, config.start_jitter),
                Direction::Pull => {
                    if fresh {
                        self.renew(connection, self.connections[connection as usize].route);
                    }
                    let e = endpoint(connection, Side::Receiver);
                    self.endpoints[e].write(config.request, false);
                    if fresh {
                        self.open_from(connection, Side::Receiver);
                    } else {
                        self.output(e);
                    }
                }
            }
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
        let e = endpoint(connection, Side::Sender);
        if push && fresh {
            self.renew(connection, self.connections[connection as usize].route);
            self.endpoints[e].write(share, true);
            self.open_from(connection, Side::Sender);
        } else {
            self.endpoints[e].write(share, fresh);
            self.output(e);
        }
    }

    /// A member's end has read all that it waited for: the request, or the answer.
    #[inline(never)]
    pub(super) fn member_read_all(&mut self, group: u32, connection: u32, side: Side) {
        let now = self.now;
        let Some(rounds) = self.rounds(group) else { return };
        if side == Side::Sender {
            let jitter = rounds.config.start_jitter;
            self.schedule_answer(connection, jitter);
        } else {
            self.member_finished(group, connection, now);
        }
    }

    fn member_finished(&mut self, group: u32, connection: u32, now: Ps) {
        let n = connection - self.groups[group as usize].first;
        let Some(rounds) = self.rounds(group) else { return };
        let took = now - rounds.started;
        let (bytes, round) = (rounds.share(n), rounds.round);
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
        let bytes = (0..rounds.senders).map(|n| rounds.share(n)).sum();
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
