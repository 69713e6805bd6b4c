//! The shim slot of a host: the scheme that sees every packet between TCP and the network, as in the papers' Netfilter
//! hooks. The decisions are `control`'s; here they are made from the scenario.

use ackgate_control::pac::{self, Pac, RttMethod};
use ackgate_control::policy::Policy;

use crate::engine::Ps;
use crate::observer::Gate;
use crate::scenario::{Capacity, RttSource, Scenario, Scheme};
use crate::world::Error;

/// The scheme at one host, with what the event loop keeps for it.
pub(crate) struct Shim {
    pub(crate) policy: Scheming,
    /// Time of its pending timer event, [`Ps::NEVER`] when there is none.
    pub(crate) timer_at: Ps,
    /// Packets it holds.
    pub(crate) held: u64,
}

/// A scheme; known ones are named so that their state can be shown.
pub(crate) enum Scheming {
    /// Proactive ACK Control.
    Pac(Box<Pac>),
}

impl Shim {
    fn new(policy: Scheming) -> Self {
        Self { policy, timer_at: Ps::NEVER, held: 0 }
    }

    /// The scheme at each receiving host.
    pub(crate) fn all(scenario: &Scenario, receivers: u32) -> Result<Vec<Self>, Error> {
        let one = || match scenario.scheme {
            Scheme::None => Ok(None),
            Scheme::Pac => Ok(Some(Scheming::Pac(Box::new(Pac::new(pac_config(scenario))?)))),
        };
        (0..receivers).filter_map(|_| one().map(|policy| policy.map(Self::new)).transpose()).collect()
    }

    /// What there is to show of its state.
    pub(crate) fn gate(&self) -> Gate {
        match &self.policy {
            Scheming::Pac(pac) => {
                let gate = pac.gate();
                let held = u32::try_from(self.held).unwrap_or(u32::MAX);
                Gate { in_flight: gate.in_flight(), threshold: gate.threshold.get(), held }
            }
        }
    }

    #[inline]
    pub(crate) fn policy(&mut self) -> &mut dyn Policy {
        match &mut self.policy {
            Scheming::Pac(pac) => pac.as_mut(),
        }
    }
}

/// PAC's parameters as the scenario has them.
fn pac_config(scenario: &Scenario) -> pac::Config {
    let parameters = &scenario.pac;
    let tcp = &scenario.tcp;
    let frame = u64::from(tcp.mss + 40 + scenario.network.framing.in_buffer());
    let buffer = parameters.threshold.unwrap_or(match scenario.switch.buffer {
        Capacity::Bytes(bytes) => bytes,
        Capacity::Packets(packets) => u64::from(packets) * frame,
        // Without a bound nothing is ever lost: whatever is allowed here is safe.
        Capacity::Unlimited => 1 << 30,
    });
    let mut config = pac::Config::new(buffer);
    config.max_hold = parameters.max_hold;
    config.initial_window = parameters.initial_window.unwrap_or(tcp.initial_window);
    config.lambda_permille = permille(parameters.lambda);
    config.rtt = match parameters.rtt {
        RttSource::Handshake => RttMethod::Handshake,
        RttSource::Timestamps => RttMethod::Timestamps,
    };
    // Level n begins at n times the first threshold (PAC names only one, for two levels).
    config.demotions = usize::from(parameters.levels.saturating_sub(1)).min(config.demotion.len());
    for (n, slot) in (1..).zip(config.demotion.iter_mut().take(config.demotions)) {
        *slot = parameters.demote_at * n;
    }
    config
}

#[expect(clippy::cast_sign_loss, reason = "clamped to 0..=1")]
fn permille(fraction: f64) -> u32 {
    (fraction.clamp(0.0, 1.0) * 1_000.0 + 0.5) as u32
}
