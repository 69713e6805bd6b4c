//! The tasks whose speed is reported: barrier-synchronised incast over a star, from the papers' settings.

use ackgate_control::units::{Rate, Span};
use ackgate_sim::scenario::{Capacity, CongestionControl, Discipline, Ecn, Per, Rounds, Scenario, Scheme, Workload};

/// One task of the benchmark.
pub struct Case {
    /// Name on the command line and in the table.
    pub name: &'static str,
    /// What is simulated.
    pub scenario: fn() -> Scenario,
}

/// All tasks, in the order of the table.
pub const ALL: [Case; 12] = [
    Case { name: "1g-newreno-100", scenario: || pac_1g(100) },
    Case { name: "10g-newreno-32", scenario: || pac_10g(32) },
    Case { name: "10g-newreno-256", scenario: || pac_10g(256) },
    Case { name: "1g-dctcp-32", scenario: dctcp_1g },
    Case { name: "10g-vasudevan-2048", scenario: || vasudevan_10g(2_048) },
    Case { name: "10g-vasudevan-100", scenario: || Scenario { rounds: 20, ..vasudevan_10g(100) } },
    Case { name: "10g-vasudevan-10000", scenario: || Scenario { rounds: 20, ..vasudevan_10g(10_000) } },
    Case { name: "1g-newreno-10000", scenario: || Scenario { rounds: 5, ..pac_1g(10_000) } },
    Case { name: "10g-newreno-100", scenario: || pac_10g(100) },
    Case { name: "10g-newreno-10000", scenario: || Scenario { rounds: 5, ..pac_10g(10_000) } },
    Case { name: "10g-fixed-100", scenario: || fixed_10g(100) },
    Case { name: "10g-fixed-10000", scenario: || Scenario { rounds: 5, ..fixed_10g(10_000) } },
];

/// PAC §V-E1: 1 Gb/s, 120 us, 96 KB; 64 KB from each sender. The scenario's own defaults.
fn pac_1g(senders: u32) -> Scenario {
    Scenario { senders, rounds: 100, time_limit: Span::secs(1_000_000), ..Scenario::default() }
}

/// PAC §V-E2: 10 Gb/s, 80 us, 375 KB; 64 KB from each sender.
fn pac_10g(senders: u32) -> Scenario {
    let mut scenario = pac_1g(senders);
    scenario.network.rate = Rate(10_000_000_000);
    scenario.network.rtt = Span::micros(80);
    scenario.switch.buffer = Capacity::Bytes(375_000);
    scenario
}

/// One segment from each sender at a time and room for all: nothing is lost, so that a packet is the same work however
/// many senders there are, and only the memory that they take makes a difference.
fn fixed_10g(senders: u32) -> Scenario {
    let mut scenario = pac_10g(senders);
    scenario.scheme = Scheme::FixedWindow;
    scenario.switch.buffer = Capacity::Unlimited;
    scenario
}

/// PAC Table II: DCTCP marking above 10 packets, 32 senders.
fn dctcp_1g() -> Scenario {
    let mut scenario = pac_1g(32);
    scenario.tcp.cc = CongestionControl::Dctcp;
    scenario.switch.discipline = Discipline::Ecn(Ecn::default());
    scenario
}

/// Vasudevan Fig. 11: up to 2048 senders, 10 Gb/s, 20 us, 32 KB, 200 blocks of 40 MB, RTOmin 20 us.
fn vasudevan_10g(senders: u32) -> Scenario {
    let mut scenario = pac_10g(senders);
    scenario.rounds = 200;
    scenario.network.rtt = Span::micros(20);
    scenario.switch.buffer = Capacity::Bytes(32_000);
    scenario.tcp.rto_min = Span::micros(20);
    scenario.workload = Workload::Rounds(Rounds { volume: 40_000_000, per: Per::Round, ..Rounds::default() });
    scenario
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn every_case_is_a_scenario_and_has_a_name_of_its_own() {
        for (at, case) in ALL.iter().enumerate() {
            let checked = (case.scenario)().check();
            assert!(checked.is_ok(), "{}: {checked:?}", case.name);
            assert!(ALL[..at].iter().all(|other| other.name != case.name), "two cases are called {}", case.name);
        }
    }
}
