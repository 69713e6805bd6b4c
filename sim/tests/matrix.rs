//! Every topology, transport and workload runs to its end, delivers what was sent and loses no packet.

use std::path::PathBuf;

use ackgate_control::units::{Rate, Span};
use ackgate_sim::observer::Nobody;
use ackgate_sim::report::Report;
use ackgate_sim::scenario::{
    Arrival, Capacity, CongestionControl, Connections, Core, Destination, Direction, Discipline, Dumbbell, Ecn,
    EcnMode, Epochs, Framing, Group, LeafSpine, Long, OnOff, Per, Red, Rounds, Scenario, Scheme, Topology, Trace, Tree,
    TreeSwitch, Workload,
};

fn simulate(scenario: &Scenario) -> Report {
    let report = ackgate_sim::run(scenario, &mut Nobody).expect("a valid scenario has a result");
    assert!(report.complete, "{scenario:?} did not finish: {report:?}");
    report
}

fn rounds(rounds: Rounds) -> Workload {
    Workload::Rounds(rounds)
}

fn delivered_all(report: &Report, scenario: &Scenario, per_sender: u64) {
    let payload = u64::from(scenario.tcp.payload());
    let least = u64::from(scenario.senders * scenario.rounds) * per_sender.div_ceil(payload);
    assert!(report.packets_delivered >= least, "{} of {least}", report.packets_delivered);
    assert_eq!(report.rounds, scenario.rounds);
}

#[test]
fn every_transport_finishes_an_incast_with_losses() {
    for cc in [CongestionControl::NewReno, CongestionControl::Cubic, CongestionControl::Dctcp] {
        for sack in [false, true] {
            for limited_transmit in [false, true] {
                for delayed_ack in [None, Some(Span::micros(200)), Some(Span::millis(40))] {
                    for timestamps in [false, true] {
                        let mut scenario = Scenario { senders: 24, rounds: 2, ..Scenario::default() };
                        scenario.tcp.cc = cc;
                        scenario.tcp.sack = sack;
                        scenario.tcp.limited_transmit = limited_transmit;
                        scenario.tcp.delayed_ack = delayed_ack;
                        scenario.tcp.timestamps = timestamps;
                        scenario.switch.buffer = Capacity::Bytes(40_000);
                        scenario.switch.discipline = Discipline::Ecn(Ecn::default());
                        let report = simulate(&scenario);
                        delivered_all(&report, &scenario, 64_000);
                        assert!(report.drops > 0);
                    }
                }
            }
        }
    }
}

#[test]
fn rounds_in_all_forms() {
    for direction in [Direction::Push, Direction::Pull] {
        for connections in [Connections::Persistent, Connections::Fresh] {
            for per in [Per::Sender, Per::Round] {
                for scheme in [Scheme::None, Scheme::Pac] {
                    let workload = Rounds {
                        direction,
                        connections,
                        per,
                        volume: if per == Per::Sender { 30_000 } else { 300_007 },
                        pause: Span::micros(50),
                        ..Rounds::default()
                    };
                    let scenario =
                        Scenario { senders: 10, rounds: 5, scheme, workload: rounds(workload), ..Scenario::default() };
                    let report = simulate(&scenario);
                    delivered_all(&report, &scenario, 30_000);
                    assert!(report.fairness > 0.3 && report.fairness <= 1.0, "{}", report.fairness);
                    assert!(report.flow_ms.max <= report.round_ms.max * 1.001, "{report:?}");
                }
            }
        }
    }
}

#[test]
fn every_topology() {
    let tree = Tree {
        switches: vec![
            TreeSwitch { name: "root".into(), uplink: None, rate: None },
            TreeSwitch { name: "a".into(), uplink: Some("root".into()), rate: Some(Rate(2_000_000_000)) },
            TreeSwitch { name: "b".into(), uplink: Some("root".into()), rate: None },
            TreeSwitch { name: "b1".into(), uplink: Some("b".into()), rate: None },
        ],
        receiver_at: "a".into(),
        senders_at: vec!["b1".into(), "b".into(), "root".into(), "a".into()],
    };
    for topology in [
        Topology::Star,
        Topology::Core(Core::default()),
        Topology::Dumbbell(Dumbbell::default()),
        Topology::Dumbbell(Dumbbell { receivers: Some(2) }),
        Topology::LeafSpine(LeafSpine::default()),
        Topology::Tree(tree),
    ] {
        for pool in [None, Some(60_000)] {
            let mut scenario = Scenario { senders: 9, rounds: 3, ..Scenario::default() };
            scenario.network.topology = topology.clone();
            scenario.switch.pool = pool;
            let steady = Workload::Long(Long { rate: Some(Rate(100_000_000)), ..Long::default() });
            let to = Destination::Beside;
            scenario.background = vec![Group { to, workload: Some(steady), ..Group::default() }];
            let report = simulate(&scenario);
            delivered_all(&report, &scenario, 64_000);
            assert!(report.background_goodput_mbps > 0.0, "{report:?}");
            // Frames are more than what is in them, on however many receivers' links they come.
            assert!(report.throughput_mbps > report.goodput_mbps, "{topology:?}: {report:?}");
        }
    }
}

#[test]
fn every_queue_discipline_framing_and_host() {
    let red = Red { ecn: true, ..Red::default() };
    for discipline in [
        Discipline::DropTail,
        Discipline::Ecn(Ecn { mark_above: Capacity::Bytes(15_000), drop_not_capable: true }),
        Discipline::Red(Red::default()),
        Discipline::Red(Red { gentle: true, ..red }),
    ] {
        for ecn in [EcnMode::Off, EcnMode::On, EcnMode::Plus] {
            for framing in [Framing::Ethernet, Framing::Ip] {
                let mut scenario = Scenario { senders: 6, rounds: 3, ..Scenario::default() };
                scenario.switch.discipline = discipline.clone();
                scenario.switch.buffer = Capacity::Packets(64);
                scenario.switch.count_transmitting = true;
                scenario.tcp.ecn = ecn;
                scenario.network.framing = framing;
                scenario.host.jitter = Span::micros(5);
                scenario.host.timer_jitter = Span::micros(20);
                scenario.tcp.rto_randomize = 0.5;
                let report = simulate(&scenario);
                delivered_all(&report, &scenario, 64_000);
                let marks = ecn != EcnMode::Off && discipline != Discipline::Red(Red::default());
                assert_eq!(report.marks > 0, marks && discipline != Discipline::DropTail, "{discipline:?} {ecn:?}");
            }
        }
    }
}

#[test]
fn short_flows_in_epochs_and_from_a_file() {
    let epochs = Workload::Epochs(Epochs { interval: Span::millis(5), ..Epochs::default() });
    let mut scenario = Scenario { senders: 20, workload: epochs, ..Scenario::default() };
    let paced = Workload::Long(Long { rate: Some(Rate(100_000_000)), ..Long::default() });
    scenario.background = vec![Group { senders: 2, workload: Some(paced), ..Group::default() }];
    let report = simulate(&scenario);
    assert_eq!(report.rounds, 6);
    assert!(report.packets_delivered >= 6 * 20 * 7);

    let arrivals = (0..500).map(|n| Arrival { start: Span::micros(n * 40), sender: (n % 7) as u32, bytes: 1 + n * 17 });
    let trace = Trace { file: PathBuf::new(), arrivals: arrivals.collect() };
    let report = simulate(&Scenario { senders: 7, workload: Workload::Trace(trace), ..Scenario::default() });
    assert!(report.flow_ms.p50 > 0.1 && report.goodput_mbps > 50.0, "{report:?}");
}

#[test]
fn long_flows_come_and_go_and_share() {
    // PAC Fig. 12: four flows that join and leave one after the other.
    let long = Long {
        stagger: Span::millis(20),
        stop: Some(Span::millis(300)),
        stop_stagger: Span::millis(20),
        ..Long::default()
    };
    let mut scenario = Scenario { senders: 4, workload: Workload::Long(long.clone()), ..Scenario::default() };
    scenario.network.sender_rate = Some(Rate(10_000_000_000));
    scenario.tcp.initial_ssthresh = Some(16);
    let report = simulate(&scenario);
    assert!(report.goodput_mbps > 850.0 && report.fairness > 0.6, "{report:?}");

    let paced = Long { rate: Some(Rate(50_000_000)), ..long };
    let report = simulate(&Scenario { senders: 4, workload: Workload::Long(paced), ..Scenario::default() });
    assert!(report.goodput_mbps > 150.0 && report.goodput_mbps < 200.0, "{report:?}");
    assert_eq!(report.rto_timeouts, 0);
}

#[test]
fn on_off_senders_send_half_of_the_time() {
    let onoff = OnOff { rate: Some(Rate(20_000_000)), stop: Some(Span::secs(1)), ..OnOff::default() };
    let report = simulate(&Scenario { senders: 20, workload: Workload::OnOff(onoff), ..Scenario::default() });
    assert!(report.goodput_mbps > 160.0 && report.goodput_mbps < 240.0, "{report:?}");
}
