//! The testbed on this kernel: it shapes, it drops, it loses no byte, it leaves nothing. Needs root; says so when it
//! has to skip. Rates are low, so that a busy machine changes how long a test takes, not what it finds.

#![expect(clippy::unwrap_used, reason = "a panic is the failure report")]

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ackgate_lab::background::Background;
use ackgate_lab::incast::{IncastConfig, IncastReport, Lab, LabError};
use ackgate_lab::load::pull::{Start, Volume};
use ackgate_lab::sockets::Sockets;
use ackgate_lab::testbed::{Fabric, Spec, Testbed, TestbedError, framing_limit_mbps, require_privilege};
use ackgate_lab::web::{Pages, WebConfig, WebError, run_pages, run_web};

/// Whether this test can run here.
fn privileged(test: &str) -> bool {
    match require_privilege() {
        Ok(()) => true,
        Err(e) => {
            eprintln!("SKIPPED {test}: {e}");
            false
        }
    }
}

fn spec() -> Spec {
    Spec { hosts: 4, rate: 100_000_000, burst: Spec::burst_for(100_000_000), ..Spec::pac_edge() }
}

fn config(connections: usize) -> IncastConfig {
    IncastConfig {
        connections,
        volume: Volume::PerConnection(32 * 1024),
        rounds: 3,
        warmup: 1,
        cc: Some("reno".into()),
        mss: None,
        start: Start::Pull,
        fresh: false,
        ipv6: false,
        deadline: Duration::from_secs(60),
        guard: None,
    }
}

fn run(lab: &mut Lab, config: &IncastConfig) -> IncastReport {
    lab.run(config, false, &AtomicBool::new(false), |_| {}).unwrap()
}

#[test]
fn a_hundred_senders_overflow_the_port_and_every_byte_arrives() {
    if !privileged("a_hundred_senders_overflow_the_port_and_every_byte_arrives") {
        return;
    }
    let mut lab = Lab::new(spec()).unwrap();
    let namespaces: Vec<_> = std::iter::once(lab.testbed().receiver())
        .chain(std::iter::once(lab.testbed().switch()))
        .chain((0..4).map(|k| lab.testbed().sender(k)))
        .collect();
    assert!(namespaces.iter().all(|n| n.path().exists()));
    let report = run(&mut lab, &config(100));
    assert_eq!((report.rounds, report.load.bytes), (3, 3 * 100 * 32 * 1024));
    assert!(report.switch_drops > 0, "{report:?}");
    assert!(report.retransmits > 0 && report.rto_timeouts > 0 && report.rounds_with_timeout > 0, "{report:?}");
    // The first bytes of a round pass with the burst, so a little more than the framing allows is right.
    assert!(report.goodput_mbps < 1.05 * framing_limit_mbps(100_000_000, false, None), "{report:?}");
    drop(lab);
    assert!(namespaces.iter().all(|n| !n.path().exists()), "namespaces are gone");
}

#[test]
fn every_way_to_load_works_at_once_with_another_lab() {
    if !privileged("every_way_to_load_works_at_once_with_another_lab") {
        return;
    }
    let mut one = Lab::new(Spec { delayed_ack: true, offloads: true, ..spec() }).unwrap();
    let mut two =
        Lab::new(Spec { initial_window: Some(2), rto_min: Some(Duration::from_millis(10)), ..spec() }).unwrap();
    for lab in [&mut one, &mut two] {
        for (ipv6, fresh, start, mss) in [
            (true, false, Start::Pull, None),
            (false, true, Start::Pull, Some(576)),
            (true, true, Start::Pull, None),
            (false, false, Start::Push, None),
        ] {
            let config = IncastConfig { ipv6, fresh, start, mss, ..config(6) };
            let report = run(lab, &config);
            assert_eq!(report.load.bytes, 3 * 6 * 32 * 1024, "{config:?}");
            assert_eq!(report.load.senders.syn_retransmits, 0, "{config:?}");
        }
    }
}

#[test]
fn a_long_flow_to_the_host_beside_shares_the_link_between_the_switches() {
    if !privileged("a_long_flow_to_the_host_beside_shares_the_link_between_the_switches") {
        return;
    }
    assert!(
        matches!(Background::start(Lab::new(spec()).unwrap().testbed(), 1, None), Err(error) if error.is_refusal())
    );
    let mut lab = Lab::new(Spec { fabric: Fabric::Core, ..spec() }).unwrap();
    let beside = lab.testbed().beside().unwrap();
    let background = Background::start(lab.testbed(), 50_000_000, None).unwrap();
    let before = lab.testbed().port_stats().unwrap().bytes;
    let report = run(&mut lab, &config(4));
    assert_eq!(report.load.bytes, 3 * 4 * 32 * 1024);
    let (passed, received) = (lab.testbed().port_stats().unwrap().bytes - before, background.received());
    assert!(received > 0 && passed > report.load.bytes, "{passed} bytes passed, {received} came beside");
    drop(background);
    drop(lab);
    assert!(!beside.path().exists(), "namespaces are gone");
}

#[test]
fn racks_of_senders_reach_both_hosts_of_the_receivers_rack_through_the_spine() {
    if !privileged("racks_of_senders_reach_both_hosts_of_the_receivers_rack_through_the_spine") {
        return;
    }
    let fabric = Fabric::LeafSpine { racks: 3 };
    for rtts in [vec![], vec![Duration::from_millis(2); 4]] {
        let mark = Some(20_000);
        let mut lab = Lab::new(Spec { fabric, hosts: 4, mark, ecn: true, rtts: rtts.clone(), ..spec() }).unwrap();
        let background = Background::start(lab.testbed(), 50_000_000, None).unwrap();
        for config in [config(8), IncastConfig { ipv6: true, ..config(8) }] {
            let before = lab.testbed().port_stats().unwrap();
            let report = run(&mut lab, &config);
            assert_eq!(report.load.bytes, 3 * 8 * 32 * 1024, "{rtts:?}");
            let stats = lab.testbed().port_stats().unwrap();
            assert!(stats.bytes - before.bytes > report.load.bytes, "all passes the spine's port: {stats:?}");
        }
        assert!(background.received() > 0);
    }
}

#[test]
fn a_racks_port_to_the_spine_is_as_narrow_as_the_spines() {
    if !privileged("a_racks_port_to_the_spine_is_as_narrow_as_the_spines") {
        return;
    }
    // Both hosts of one rack at once: what it cannot pass on is dropped at its own port, and counted.
    let mut lab =
        Lab::new(Spec { fabric: Fabric::LeafSpine { racks: 1 }, hosts: 2, buffer: 20_000, ..spec() }).unwrap();
    let report = run(&mut lab, &IncastConfig { volume: Volume::PerConnection(256 * 1024), ..config(8) });
    let limit = framing_limit_mbps(lab.testbed().spec().rate, false, None);
    assert!(report.goodput_mbps < limit && report.switch_drops > 0, "{report:?}");
}

#[test]
fn samples_of_the_round_trip_time_are_counted_and_windows_are_clamped() {
    if !privileged("samples_of_the_round_trip_time_are_counted_and_windows_are_clamped") {
        return;
    }
    let mut lab = Lab::new(spec()).unwrap();
    let sockets = match Sockets::start(lab.testbed(), Some(1)) {
        Ok(sockets) => sockets,
        Err(error) => return eprintln!("SKIPPED: {error}"),
    };
    let before = sockets.samples().unwrap();
    let report = run(&mut lab, &config(4));
    assert_eq!(report.load.cwnd_mean, 1.0, "{report:?}");
    let samples = sockets.samples().unwrap().since(&before);
    assert!(samples.quantile(0.5) > Some(0.0) && samples.mean() > Some(0.0), "{samples:?}");
    // Connections that the senders open take part as well.
    let config = IncastConfig { fresh: true, start: Start::Push, ..config(4) };
    let before = sockets.samples().unwrap();
    let report = run(&mut lab, &config);
    assert_eq!(report.load.bytes, 3 * 4 * 32 * 1024);
    let seen = sockets.samples().unwrap().since(&before);
    assert!(seen.count() > 3 * 4 * 10, "about one for each segment of 3 rounds: {}", seen.count());
    drop(sockets);
}

#[test]
fn nginx_answers_in_rounds_and_beside_long_flows() {
    if !privileged("nginx_answers_in_rounds_and_beside_long_flows") {
        return;
    }
    let never = AtomicBool::new(false);
    let web = WebConfig {
        spec: spec(),
        connections: 6,
        bytes: 32 * 1024,
        rounds: 3,
        cc: "cubic".into(),
        limit: Duration::from_secs(60),
        guard: None,
    };
    let report = match run_web(&web, &never) {
        Err(WebError::Missing) => return eprintln!("SKIPPED: {}", WebError::Missing),
        report => report.unwrap(),
    };
    assert_eq!((report.rounds, report.connections), (3, 6));
    assert!(report.goodput_mbps > 0.0 && report.answer_ms.p999 >= report.answer_ms.p50, "{report:?}");
    let stalled = run_web(&WebConfig { bytes: 10_000_000, limit: Duration::from_millis(500), ..web }, &never).unwrap();
    assert_eq!((stalled.rounds, stalled.rounds_asked), (0, 3));
    assert_eq!((stalled.goodput_mbps, stalled.answer_ms.max), (0.0, 0.0), "{stalled:?}");
    let pages = Pages {
        spec: Spec { fabric: Fabric::LeafSpine { racks: 2 }, ..spec() },
        flows: 2,
        pages: 20,
        bytes: 5_000,
        gap: Duration::from_millis(2),
        bursts: 2,
        start: Duration::from_millis(100),
        interval: Duration::from_secs(2),
        cc: "cubic".into(),
        seed: 1,
        guard: None,
    };
    let report = run_pages(&pages, &never).unwrap();
    assert_eq!(report.burst_ms.len(), 2);
    assert!(report.burst_ms.iter().all(|ms| *ms > 0.0) && report.long_mbps > 0.0, "{report:?}");
}

#[test]
fn dctcp_senders_are_marked_and_told_so() {
    if !privileged("dctcp_senders_are_marked_and_told_so") {
        return;
    }
    let config = IncastConfig { cc: Some("dctcp".into()), volume: Volume::PerConnection(300_000), ..config(4) };
    let run = || {
        Lab::new(Spec { ecn: true, mark: Some(15_000), ..spec() })?.run(&config, false, &AtomicBool::new(false), |_| {})
    };
    match run() {
        Ok(report) => {
            assert_eq!((report.cc.as_str(), report.load.bytes), ("dctcp", 3 * 4 * 300_000));
            assert!(report.load.senders.flow_ce_marks > 0, "{report:?}");
        }
        Err(LabError::Testbed(error @ TestbedError::Bpf { .. })) => eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn nothing_is_lost_in_the_deep_buffer() {
    if !privileged("nothing_is_lost_in_the_deep_buffer") {
        return;
    }
    let mut lab = Lab::new(spec()).unwrap();
    let before = lab.testbed().port_stats().unwrap();
    let ceiling = lab.ceiling(&config(100), &AtomicBool::new(false)).unwrap();
    let after = lab.testbed().port_stats().unwrap();
    assert!(ceiling > 0.0 && ceiling < 1.05 * framing_limit_mbps(100_000_000, false, None));
    assert_eq!(after.drops, before.drops);
    assert!(after.bytes - before.bytes > 5 * 100 * 32 * 1024);
    // And the shallow one is back.
    assert!(run(&mut lab, &config(100)).switch_drops > 0);
}

#[test]
fn the_port_holds_its_buffer_of_frames() {
    if !privileged("the_port_holds_its_buffer_of_frames") {
        return;
    }
    // At 1 Mb/s a frame of 1000 bytes takes 8 ms, so that hardly anything drains while a sender blasts.
    let spec = Spec { hosts: 1, rate: 1_000_000, buffer: 30_000, burst: 3_076, ..Spec::pac_edge() };
    let testbed = Testbed::build(spec).unwrap();
    let blast = || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let to = SocketAddr::new(Testbed::receiver_address(false), 9);
        // 958 bytes of payload, 8 of UDP, 20 of IP, 14 of Ethernet.
        (0..1000).filter(|_| socket.send_to(&[0; 958], to).is_ok()).count() as u64
    };
    // The receiver's answers that nobody listens there make later sends fail: those were not sent.
    let sent = testbed.sender(0).inside(blast).unwrap();
    let stats = testbed.port_stats().unwrap();
    let taken = sent - stats.drops;
    assert!(stats.drops > 0);
    assert!(taken >= 30, "30 frames fit into 30000 bytes, but only {taken} were taken");
}

#[test]
fn a_standing_testbed_is_found_and_removed_by_name() {
    if !privileged("a_standing_testbed_is_found_and_removed_by_name") {
        return;
    }
    let name = format!("test{}", std::process::id());
    let entry = Testbed::build_standing(Spec { hosts: 1, ..spec() }, &name).unwrap();
    assert!(ackgate_lab::testbed::entries().contains(&entry));
    assert!(Testbed::build_standing(spec(), &name).unwrap_err().to_string().contains("exists already"));
    assert!(ackgate_lab::testbed::clean(false).is_ok_and(|removed| !removed.contains(&name)), "it is no orphan");
    ackgate_lab::testbed::down(&name).unwrap();
    assert!(!ackgate_lab::testbed::entries().contains(&entry));
    assert!(ackgate_lab::testbed::down(&name).unwrap_err().to_string().contains("there is no testbed"));
}
