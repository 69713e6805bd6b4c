//! The senders' timers, as Vasudevan et al. set them: how short a timeout gets, and what happens when it was too short.

mod common;

use ackgate_sim::report::Report;

use common::report;

/// Vasudevan §4: 1 Gb/s, RTT 100 us, 32 KB of buffer, blocks of 1 MB striped over the servers.
fn incast(senders: u32, tcp: &str) -> Report {
    report(&format!(
        "senders = {senders}\nrounds = 10\ntime_limit = \"600s\"\nnetwork.rtt = \"100us\"\nswitch.buffer = \"32KB\"\n\
         host.timer_jitter = \"20us\"\n{tcp}\n\
         workload = {{ kind = \"rounds\", volume = \"1MB\", per = \"round\", direction = \"pull\" }}"
    ))
}

/// 64 senders begin at once over a switch that loses nothing: the queue makes the round-trip time ten times what the
/// handshake said, and a fine timer goes off.
fn surge(tcp: &str) -> Report {
    report(&format!(
        "senders = 64\nrounds = 1\ntime_limit = \"600s\"\nswitch.buffer = \"unlimited\"\nnetwork.rtt = \"100us\"\n\
         tcp.rto_min = \"100us\"\ntcp.timestamps = true\n{tcp}\n\
         workload = {{ kind = \"rounds\", volume = \"64KB\" }}"
    ))
}

#[test]
fn the_finer_the_timeout_the_more_of_the_link_is_used() {
    // Vasudevan Fig. 3 and 7: 200 ms collapse at 8 servers and more, jiffies help by half, microseconds do.
    let coarse = incast(16, "tcp.rto_min = \"200ms\"");
    let jiffy = incast(16, "tcp.rto_min = \"1ms\"\ntcp.rto_granularity = \"1ms\"\ntcp.rto_variance_floor = \"4ms\"");
    let fine = incast(16, "tcp.rto_min = \"200us\"");
    assert!(coarse.goodput_mbps < 150.0, "{}", coarse.goodput_mbps);
    assert!(fine.goodput_mbps > 700.0, "{}", fine.goodput_mbps);
    assert!(jiffy.goodput_mbps > 2.0 * coarse.goodput_mbps && jiffy.goodput_mbps < 0.95 * fine.goodput_mbps);
}

#[test]
fn delayed_acks_cost_and_the_adaptive_timer_less() {
    // Vasudevan Fig. 6: beyond 8 servers the standard 40 ms cost more than 200 us, and 200 us hardly anything.
    let run = |delayed: &str| incast(16, &format!("tcp.rto_min = \"200us\"\ntcp.delayed_ack = {delayed}")).goodput_mbps;
    let (off, short, standard) = (run("\"off\""), run("\"200us\""), run("\"40ms\""));
    let adaptive = run("\"40ms\"\ntcp.delayed_ack_adaptive = true");
    assert!(standard < short && standard < off, "{off:.0} {short:.0} {standard:.0}");
    assert!(adaptive > standard, "{adaptive:.0} and {standard:.0}");
    // Windows of a few segments, and pauses between them: the adaptive timer must not follow the pauses.
    let crowd =
        |more: &str| incast(64, &format!("tcp.rto_min = \"200us\"\ntcp.delayed_ack = \"40ms\"\n{more}")).goodput_mbps;
    let (standard, adaptive) = (crowd(""), crowd("tcp.delayed_ack_adaptive = true"));
    assert!(adaptive > 1.3 * standard, "{adaptive:.0} and {standard:.0}");
}

#[test]
fn bimodal_timers_are_fine_in_the_data_centre_and_coarse_beyond() {
    let run = |rtt: &str, tcp: &str| {
        report(&format!(
            "senders = 16\nrounds = 5\nnetwork.rtt = \"{rtt}\"\nswitch.buffer = \"32KB\"\ntcp.rto_min = \"200us\"\n{tcp}\n\
             workload = {{ kind = \"rounds\", volume = \"64KB\" }}"
        ))
    };
    let bimodal = "tcp.rto_coarse_from = \"10ms\"\ntcp.rto_coarse_min = \"1s\"";
    let (near, near_bimodal) = (run("100us", ""), run("100us", bimodal));
    assert!(near.rto_timeouts > 0);
    assert_eq!(near.round_ms, near_bimodal.round_ms, "microseconds in the data centre, either way");
    let (far, far_bimodal) = (run("40ms", ""), run("40ms", bimodal));
    assert!(far.rto_timeouts > 0 && far_bimodal.round_ms.max > far.round_ms.max + 500.0, "{far_bimodal:?}");
}

#[test]
fn spurious_timeouts_are_found_and_undone() {
    let (blind, frto, eifel) = (surge(""), surge("tcp.spurious = \"frto\""), surge("tcp.spurious = \"eifel\""));
    assert!(blind.spurious_timeouts > 50 && blind.undone_timeouts == 0, "{}", blind.spurious_timeouts);
    for (name, report) in [("frto", frto), ("eifel", eifel)] {
        assert!(report.undone_timeouts > 0 && report.undone_timeouts <= report.rto_timeouts, "{name}: {report:?}");
        assert!(report.retransmits < blind.retransmits, "{name}: {} and {}", report.retransmits, blind.retransmits);
    }
}

#[test]
fn real_losses_are_not_undone() {
    // Nothing but drops causes timeouts here: the floor is far above the round-trip time.
    for method in ["frto", "eifel"] {
        let report = incast(16, &format!("tcp.timestamps = true\ntcp.spurious = \"{method}\""));
        assert!(report.rto_timeouts > 10 && report.spurious_timeouts == 0, "{method}");
        assert!(report.complete && report.undone_timeouts == 0, "{method}: {}", report.undone_timeouts);
    }
}
