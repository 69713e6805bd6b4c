//! From a scenario to the testbed that has the same settings: what the simulator is told, the lab builds.

use std::path::PathBuf;
use std::time::Duration;

use ackgate_control::units::Span;
use ackgate_papers::kernel::Point;
use ackgate_sim::scenario::{
    Capacity, CongestionControl, Connections, Direction, Discipline, EcnMode, Per, Scenario, Scheme, Topology, Workload,
};

use crate::dctcp;
use crate::guard::GuardConfig;
use crate::incast::IncastConfig;
use crate::load::pull::{Start, Volume};
use crate::testbed::{Fabric, Spec};

/// Sender hosts.
const HOSTS: usize = 8;
/// Racks of them at one side of a dumbbell, as in HWatch's testbed (§VI).
const RACKS: usize = 3;
/// What a frame takes there and back between two of the lab's hosts.
const OWN_RTT: Span = Span::micros(100);
/// Headers of a frame, in bytes: Ethernet, IPv4 and TCP without options.
const HEADERS: u32 = 54;
/// A segment that a port of 1500 bytes carries.
const FULL: u32 = 1_460;
/// Below this, a timeout needs the shim: TCP's own timers cannot have it.
const FINE: Span = Span::millis(1);
/// The shim's floor, and that of the TCP beside it, at the paper's rate.
const FLOOR: Duration = Duration::from_micros(200);
const USUAL: Duration = Duration::from_millis(200);

/// A testbed and its hosts.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setup {
    pub(super) spec: Spec,
    pub(super) guard: Option<GuardConfig>,
    /// Of all hosts.
    pub(super) sysctls: Vec<(&'static str, &'static str)>,
    /// Clamp of the senders' congestion windows, in segments.
    pub(super) window: Option<u32>,
    pub(super) cc: Option<String>,
    pub(super) mss: Option<u32>,
}

impl Setup {
    /// The testbed of a point.
    pub(super) fn of(point: &Point, program: Option<&PathBuf>) -> Self {
        let scenario = point.scenario.resolved();
        let network = &scenario.network;
        let tcp = &scenario.tcp;
        // What a switch counts in packets are the setting's own.
        let frame = u64::from(tcp.mss.min(FULL) + HEADERS);
        let (mark, marking) = mark(&scenario.switch.discipline, frame);
        let rtt = Duration::from_nanos(network.rtt.0.saturating_sub(OWN_RTT.0));
        let shim = tcp.rto_min < FINE;
        // Linux's timeout is the smoothed time and at least the floor; a floor of the variance is one of the timeout.
        let floor = Span(tcp.rto_min.0 + tcp.rto_variance_floor.0);
        let rto_min = if shim { USUAL.mul_f64(point.motion.factor()) } else { Duration::from_nanos(floor.0) };
        let spec = Spec {
            hosts: HOSTS,
            rate: network.rate.0,
            buffer: bytes(scenario.switch.buffer, frame),
            burst: Spec::burst_for(network.rate.0),
            rto_min: Some(rto_min),
            initial_window: Some(tcp.initial_window),
            delayed_ack: tcp.delayed_ack.is_some(),
            ecn: marking && tcp.ecn.with(tcp.cc) != EcnMode::Off,
            mark: mark.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX)),
            rtts: if rtt.is_zero() { Vec::new() } else { vec![rtt; HOSTS] },
            fabric: match network.topology {
                Topology::Core(_) => Fabric::Core,
                Topology::Dumbbell(_) => Fabric::LeafSpine { racks: RACKS },
                _ => Fabric::Edge,
            },
            ..Spec::pac_edge()
        };
        let guard = if shim {
            let floor = FLOOR.mul_f64(point.motion.factor());
            Some(("rto", vec!["--rto-floor".into(), format!("{}us", floor.as_micros())], None))
        } else {
            guard(&scenario)
        };
        Self {
            spec,
            guard: guard.map(|(policy, extra, hold)| GuardConfig {
                program: program.cloned(),
                policy: policy.into(),
                max_hold: hold.map(|hold: Span| Duration::from_nanos(hold.0)),
                extra,
            }),
            sysctls: sysctls(&scenario),
            window: tcp.max_window,
            cc: Some(match tcp.cc {
                CongestionControl::NewReno => "reno".into(),
                CongestionControl::Cubic => "cubic".into(),
                CongestionControl::Dctcp => dctcp::NAME.into(),
                CongestionControl::Bbr => "bbr".into(),
            }),
            mss: (tcp.mss < FULL).then_some(tcp.mss),
        }
    }

    /// The load of a point; `None` when its workload has no rounds.
    pub(super) fn load(&self, point: &Point) -> Option<IncastConfig> {
        let Workload::Rounds(rounds) = &point.scenario.workload else { return None };
        let connections = point.scenario.senders as usize;
        Some(IncastConfig {
            connections,
            volume: match rounds.per {
                Per::Sender => Volume::PerConnection(rounds.volume),
                Per::Round => Volume::Total(rounds.volume),
            },
            rounds: point.rounds,
            warmup: 0,
            cc: self.cc.clone(),
            mss: self.mss,
            start: match rounds.direction {
                Direction::Pull => Start::Pull,
                Direction::Push => Start::Push,
            },
            fresh: rounds.connections == Connections::Fresh,
            ipv6: false,
            deadline: Duration::from_secs(point.limit_s.into()),
            guard: self.guard.clone(),
        })
    }
}

/// What guards, with its arguments and its longest hold.
fn guard(scenario: &Scenario) -> Option<(&'static str, Vec<String>, Option<Span>)> {
    let set = |changes: Vec<String>| changes.into_iter().flat_map(|change| ["--set".to_owned(), change]).collect();
    let (pac, ictcp) = (&scenario.pac, &scenario.ictcp);
    let gate = || {
        let window = ["--initial-window".to_owned(), scenario.tcp.initial_window.to_string()].into_iter();
        let buffer = pac.threshold.map(|threshold| ["--buffer".to_owned(), threshold.to_string()]);
        window.chain(buffer.into_iter().flatten()).collect()
    };
    Some(match scenario.scheme {
        Scheme::None | Scheme::Dctcp | Scheme::Ecn | Scheme::Red | Scheme::FixedWindow => return None,
        Scheme::Shaper => ("shaper", set(vec![format!("shaper.rate={}", scenario.shaper.rate)]), None),
        Scheme::Ictcp => {
            let changes = [format!("ictcp.gamma1={}", ictcp.gamma1), format!("ictcp.gamma2={}", ictcp.gamma2)];
            ("ictcp", set(changes.into()), None)
        }
        Scheme::Hwatch => ("hwatch", vec!["--rtt".into(), format!("{}us", scenario.network.rtt.0 / 1_000)], None),
        Scheme::M21 => ("m21", Vec::new(), None),
        scheme => (scheme.name(), gate(), pac.max_hold),
    })
}

/// Where a port marks, and whether it does so by what the hosts have negotiated.
fn mark(discipline: &Discipline, frame: u64) -> (Option<u64>, bool) {
    match discipline {
        Discipline::DropTail => (None, false),
        Discipline::Ecn(ecn) => (Some(bytes(ecn.mark_above, frame)), true),
        // This kernel has no RED: a port marks by its queue at the moment, above what RED's average would mark all from.
        #[expect(clippy::cast_sign_loss, reason = "thresholds are not negative")]
        Discipline::Red(red) => (red.ecn.then_some((red.max * frame as f64) as u64), red.ecn),
    }
}

fn bytes(capacity: Capacity, frame: u64) -> u64 {
    match capacity {
        Capacity::Bytes(bytes) => bytes,
        Capacity::Packets(packets) => u64::from(packets) * frame,
        Capacity::Unlimited => u64::MAX,
    }
}

/// The paper's TCP as far as sysctls can say it.
fn sysctls(scenario: &Scenario) -> Vec<(&'static str, &'static str)> {
    let switch = |on: bool| if on { "1" } else { "0" };
    let tcp = &scenario.tcp;
    vec![
        ("ipv4/tcp_sack", switch(tcp.sack)),
        ("ipv4/tcp_timestamps", switch(tcp.timestamps)),
        ("ipv4/tcp_slow_start_after_idle", switch(tcp.idle_restart)),
        ("ipv4/tcp_recovery", switch(tcp.rack)),
        ("ipv4/tcp_early_retrans", if tcp.rack { "3" } else { "0" }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackgate_papers::kernel::Plan;

    /// The setup of a curve's last point at a fifth of 1 Gb/s, and its load.
    fn setup(curve: &str) -> (Setup, Option<IncastConfig>) {
        let plan = Plan::all().unwrap_or_else(|error| panic!("{error}"));
        let experiment = plan.experiments.iter().find(|one| one.curves.iter().any(|name| name == curve));
        let experiment = experiment.unwrap_or_else(|| panic!("{curve} is measured"));
        let points = plan.points(experiment, true, 200_000_000).unwrap_or_else(|error| panic!("{error}"));
        let point = points.iter().rfind(|point| point.curve == curve).unwrap_or_else(|| panic!("{curve} has points"));
        let setup = Setup::of(point, None);
        let load = setup.load(point);
        (setup, load)
    }

    #[test]
    fn pacs_edge_in_slow_motion() {
        let (setup, load) = setup("edge.pac");
        let spec = &setup.spec;
        assert_eq!((spec.rate, spec.buffer, spec.mark, spec.ecn), (200_000_000, 150_000, Some(15_140), true));
        assert_eq!((spec.rto_min, spec.rtts[0]), (Some(Duration::from_secs(1)), Duration::from_micros(400)));
        let guard = setup.guard.unwrap_or_else(|| panic!("it is guarded"));
        assert_eq!((guard.policy.as_str(), guard.max_hold), ("pac-published", Some(Duration::from_millis(750))));
        assert_eq!(guard.extra, ["--initial-window", "3", "--buffer", "80000"]);
        assert!(
            setup.sysctls.contains(&("ipv4/tcp_timestamps", "0"))
                && setup.sysctls.contains(&("ipv4/tcp_recovery", "0"))
        );
        let load = load.unwrap_or_else(|| panic!("it has rounds"));
        assert_eq!((load.connections, load.volume), (100, Volume::PerConnection(32_000)));
        assert_eq!((load.fresh, load.start), (true, Start::Push), "the senders open them");
    }

    #[test]
    fn each_other_curve_has_what_its_scenario_says() {
        let of = |curve| setup(curve).0;
        let fabrics = ["core.dctcp", "edge.dctcp", "web.hwatch"].map(|curve| of(curve).spec.fabric);
        assert_eq!(fabrics, [Fabric::Core, Fabric::Edge, Fabric::LeafSpine { racks: 3 }]);
        assert_eq!((of("web.hwatch").spec.rate, of("edge.dctcp").spec.rate), (100_000_000, 200_000_000));
        assert_eq!((of("edge.dctcp").cc.as_deref(), of("edge.dctcp").guard), (Some("dctcp"), None));
        assert_eq!(of("pinned.b80").window, Some(1));
        // Packets of 576 bytes of payload.
        assert_eq!((of("star.ecn").spec.mark, of("star.dctcp").spec.mark), (Some(25 * 630), Some(20 * 630)));
        assert_eq!((of("star.m21").mss, of("star.m21").spec.delayed_ack), (Some(576), true));
        let shim = of("cluster.us");
        assert_eq!(shim.spec.rto_min, Some(Duration::from_secs(1)));
        assert_eq!(
            shim.guard.map(|guard| (guard.policy, guard.extra)),
            Some(("rto".into(), vec!["--rto-floor".into(), "1000us".into()]))
        );
        assert_eq!(of("cluster.jiffy").spec.rto_min, Some(Duration::from_millis(25)));
        assert_eq!(of("shaper.r40").guard.map(|guard| guard.extra[1].clone()).as_deref(), Some("shaper.rate=8000"));
        assert!(
            setup("long.pac").1.is_none() && setup("web.hwatch").1.is_none(),
            "what has no rounds has no load of rounds"
        );
    }
}
