//! The shim slot of a host: the scheme that sees every packet between TCP and the network, as in the papers' Netfilter
//! hooks. The decisions are `control`'s; here they are made from the scenario.

use ackgate_control::gate::AckGate;
use ackgate_control::hwatch::HWatch;
use ackgate_control::ictcp::Ictcp;
use ackgate_control::letter::Letter;
use ackgate_control::policy::{FlowId, Policy};
use ackgate_control::shaper::Shaper;

use crate::engine::Ps;
use crate::observer::Gate;
use crate::scenario::{Scenario, Scheme};
use crate::settings;
use crate::world::Error;

/// The scheme at one host, with what the event loop keeps for it.
pub(crate) struct Shim {
    policy: Scheming,
    /// Time of its pending timer event, [`Ps::NEVER`] when there is none.
    pub(crate) timer_at: Ps,
    /// Packets it holds.
    pub(crate) held: u64,
    /// The connection behind each of the host's flow numbers, which are dense as in a host's flow table.
    flows: Vec<u32>,
}

/// A scheme; known ones are named so that their state can be shown.
enum Scheming {
    Gate(Box<AckGate>),
    Letter(Box<Letter>),
    Ictcp(Box<Ictcp>),
    Shaper(Box<Shaper>),
    HWatch(Box<HWatch>),
    /// The caller's.
    Own(Box<dyn Policy>),
}

impl Shim {
    /// The scheme at each of the first hosts: at the `receivers`, at all `hosts`, or nowhere.
    pub(crate) fn all(scenario: &Scenario, receivers: u32, hosts: u32) -> Result<Vec<Self>, Error> {
        let refused = |problem: &'static str| Error::Scheme(problem);
        let count = match scenario.scheme {
            Scheme::Pac | Scheme::PacPublished | Scheme::Credit | Scheme::WindowOnly | Scheme::RequestsOnly => {
                receivers
            }
            Scheme::PacLetter | Scheme::Ictcp | Scheme::Shaper => receivers,
            Scheme::Hwatch => hosts,
            Scheme::None | Scheme::M21 | Scheme::Dctcp | Scheme::Ecn | Scheme::Red | Scheme::FixedWindow => 0,
        };
        (0..count)
            .map(|host| {
                let policy = match scenario.scheme {
                    Scheme::PacLetter => Letter::new(settings::letter(scenario))
                        .map(|letter| Scheming::Letter(Box::new(letter)))
                        .map_err(|error| refused(error.0))?,
                    Scheme::Ictcp => Ictcp::new(settings::ictcp(scenario))
                        .map(|ictcp| Scheming::Ictcp(Box::new(ictcp)))
                        .map_err(|error| refused(error.0))?,
                    Scheme::Shaper => Shaper::new(settings::shaper(scenario))
                        .map(|shaper| Scheming::Shaper(Box::new(shaper)))
                        .map_err(|error| refused(error.0))?,
                    Scheme::Hwatch => HWatch::new(settings::hwatch(scenario, host))
                        .map(|hwatch| Scheming::HWatch(Box::new(hwatch)))
                        .map_err(|error| refused(error.0))?,
                    _ => AckGate::new(settings::gate(scenario))
                        .map(|shim| Scheming::Gate(Box::new(shim)))
                        .map_err(|error| refused(error.0))?,
                };
                Ok(Self { policy, timer_at: Ps::NEVER, held: 0, flows: Vec::new() })
            })
            .collect()
    }

    /// A scheme of the caller's.
    pub(crate) fn own(policy: Box<dyn Policy>) -> Self {
        Self { policy: Scheming::Own(policy), timer_at: Ps::NEVER, held: 0, flows: Vec::new() }
    }

    /// A number of this host for a connection.
    pub(crate) fn number(&mut self, connection: u32) -> FlowId {
        self.flows.push(connection);
        FlowId(u32::try_from(self.flows.len() - 1).expect("fewer than 2^32 flows"))
    }

    /// The connection behind a number.
    pub(crate) fn connection(&self, flow: FlowId) -> Option<u32> {
        self.flows.get(flow.0 as usize).copied()
    }

    /// What there is to show of its state.
    pub(crate) fn gate(&self) -> Gate {
        let held = u32::try_from(self.held).unwrap_or(u32::MAX);
        match &self.policy {
            Scheming::Gate(shim) => {
                let gate = shim.gate();
                Gate { in_flight: shim.in_flight(), threshold: gate.threshold.get(), held }
            }
            Scheming::Letter(letter) => Gate { in_flight: letter.in_flight(), threshold: letter.threshold(), held },
            Scheming::Ictcp(_) | Scheming::Shaper(_) | Scheming::HWatch(_) | Scheming::Own(_) => {
                Gate { in_flight: 0, threshold: 0, held }
            }
        }
    }

    #[inline]
    pub(crate) fn policy(&mut self) -> &mut dyn Policy {
        match &mut self.policy {
            Scheming::Gate(shim) => shim.as_mut(),
            Scheming::Letter(letter) => letter.as_mut(),
            Scheming::Ictcp(ictcp) => ictcp.as_mut(),
            Scheming::Shaper(shaper) => shaper.as_mut(),
            Scheming::HWatch(hwatch) => hwatch.as_mut(),
            Scheming::Own(own) => own.as_mut(),
        }
    }
}
