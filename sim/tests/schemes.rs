//! Every scheme as a table, goodput by senders, so that a change of behaviour shows in a review; and what each scheme's
//! paper says of it, as far as a short run can tell.

mod common;

use ackgate_sim::report::Report;
use ackgate_sim::scenario::Scheme;

use common::report;

/// PAC §V-E, Table II, 1 Gb/s: 96 KB of buffer, RTT 120 us; 64 KB from each sender on a new connection each round.
const PAC_NS2: &str = r#"
rounds = 6
time_limit = "120s"
workload = { kind = "rounds", volume = "64KB", connections = "fresh" }
"#;

/// PAC §V-A, Table I: the testbed, 150 KB of buffer, RTT 100 us, 32 KB from each sender, initial window 3.
const PAC_TESTBED: &str = r#"
rounds = 6
time_limit = "120s"
network.rtt = "100us"
switch.buffer = "150KB"
tcp.initial_window = 3
workload = { kind = "rounds", volume = "32KB", connections = "fresh" }
"#;

/// M21TCP-A, Fig. 3: 64 KB of buffer, RTT 100 us, segments of 576 bytes, 256 KB from each sender.
const M21: &str = r#"
rounds = 3
time_limit = "120s"
network.rtt = "100us"
switch.buffer = "64KB"
tcp.mss = 576
tcp.initial_window = 1
tcp.dctcp_gain = 0.16
dctcp.mark_above = "20p"
workload = { kind = "rounds", volume = "256KB", direction = "pull" }
"#;

/// HWatch §V: long flows and as many short ones of 10 KB in epochs on a 10 Gb/s dumbbell. The buffer of 250 packets is
/// counted in bytes: probes are no full packets.
const HWATCH: &str = r#"
time_limit = "2s"
network = { topology = { kind = "dumbbell", receivers = 1 }, rate = "10gbit", rtt = "100us" }
switch.buffer = "380KB"
tcp.initial_window = 10
workload = { kind = "epochs", epochs = 3, interval = "50ms" }
"#;

fn incast(setting: &str, scheme: &str, senders: u32) -> Report {
    let report = report(&format!("scheme = \"{scheme}\"\nsenders = {senders}\n{setting}"));
    assert!(report.complete, "{scheme} with {senders}");
    report
}

fn table(setting: &str, scheme: &str, senders: &[u32]) -> String {
    let mut table = format!("{scheme}\n  senders  goodput Mb/s  timeouts   drops   marks  held\n");
    for &senders in senders {
        let r = incast(setting, scheme, senders);
        table += &format!(
            "  {:7}  {:12.0}  {:8}  {:6}  {:6}  {:4}\n",
            senders, r.goodput_mbps, r.rto_timeouts, r.drops, r.marks, r.held_max
        );
    }
    table
}

#[test]
fn every_scheme_in_pacs_simulation() {
    // PAC to the letter stalls for longer than a run may take: see below.
    let finish = Scheme::ALL.iter().filter(|scheme| **scheme != Scheme::PacLetter);
    let tables: String = finish.map(|scheme| table(PAC_NS2, scheme.name(), &[8, 16, 32, 40, 64, 96])).collect();
    insta::assert_snapshot!("pac_ns2", tables);
}

#[test]
fn pac_to_the_letter_stops_until_a_timeout_where_pac_as_published_does_not() {
    let run = |scheme: &str| report(&format!("scheme = \"{scheme}\"\nsenders = 16\n{PAC_NS2}"));
    let (letter, published) = (run("pac-letter"), run("pac-published"));
    assert_eq!(published.rounds_with_timeout, 0);
    assert!(letter.rounds_with_timeout * 2 > letter.rounds, "{letter:?}");
    assert!(letter.goodput_mbps < published.goodput_mbps / 10.0, "{letter:?}");
}

#[test]
fn pacs_testbed() {
    let senders = [8, 24, 32, 36, 48, 56, 100];
    let tables: String = ["none", "pac", "ictcp", "dctcp"].map(|scheme| table(PAC_TESTBED, scheme, &senders)).concat();
    insta::assert_snapshot!("pac_testbed", tables);
}

#[test]
fn m21tcp_as_comparison() {
    let senders = [4, 8, 16, 32, 48, 64, 128];
    let tables: String = ["none", "red", "ecn", "dctcp", "m21"].map(|scheme| table(M21, scheme, &senders)).concat();
    insta::assert_snapshot!("m21", tables);
}

fn surges(setting: &str, sources: u32) -> Report {
    report(&format!(
        "{setting}\nsenders = {n}\n{HWATCH}\n[[background]]\nsenders = {n}\nto = \"beside\"",
        n = sources / 2
    ))
}

const STEP: &str = r#"switch.discipline = { kind = "ecn", mark_above = "76KB" }"#;

fn hwatch_rivals() -> [(&'static str, String); 4] {
    [
        ("droptail", String::new()),
        (
            "red",
            r#"tcp.ecn = "on"
switch.discipline = { kind = "red", min = 15, max = 50, ecn = true }"#
                .into(),
        ),
        ("dctcp", "scheme = \"dctcp\"\ndctcp.mark_above = \"76KB\"".into()),
        ("hwatch", format!("scheme = \"hwatch\"\n{STEP}")),
    ]
}

#[test]
fn hwatchs_comparison() {
    let mut tables = String::new();
    for sources in [50, 100] {
        tables += &format!("{sources} sources  FCT ms: p50       p99       max  long Mb/s  timeouts  drops\n");
        for (name, setting) in hwatch_rivals() {
            let r = surges(&setting, sources);
            tables += &format!(
                "  {name:9}  {:13.3}  {:8.3}  {:8.3}  {:9.0}  {:8}  {:5}\n",
                r.flow_ms.p50, r.flow_ms.p99, r.flow_ms.max, r.background_goodput_mbps, r.rto_timeouts, r.drops
            );
        }
    }
    insta::assert_snapshot!("hwatch", tables);
}

/// Vasudevan §4: 1 Gb/s, RTT 100 us, 32 KB of buffer, blocks of 1 MB striped over the servers.
const STRIPED: &str = r#"
rounds = 10
time_limit = "600s"
network.rtt = "100us"
switch.buffer = "32KB"
host.timer_jitter = "20us"
tcp.timestamps = true
workload = { kind = "rounds", volume = "1MB", per = "round", direction = "pull" }
"#;

/// Goodput by senders of variants of one setting, each with some lines of its own.
fn variants(setting: &str, senders: &[u32], variants: &[(&str, &str)]) -> String {
    let mut table = String::from(
        "                               senders  goodput Mb/s  timeouts  spurious  undone   drops   marks\n",
    );
    for (name, lines) in variants {
        for &senders in senders {
            let r = report(&format!("senders = {senders}\n{lines}\n{setting}"));
            assert!(r.complete, "{name} with {senders}");
            table += &format!(
                "{name:30} {:8}  {:12.0}  {:8}  {:8}  {:6}  {:6}  {:6}\n",
                senders, r.goodput_mbps, r.rto_timeouts, r.spurious_timeouts, r.undone_timeouts, r.drops, r.marks
            );
        }
    }
    table
}

#[test]
fn vasudevans_timers() {
    let table = variants(
        STRIPED,
        &[4, 8, 16, 64, 128],
        &[
            ("RTOmin 200 ms", ""),
            (
                "jiffies, HZ 1000",
                "tcp.rto_min = \"1ms\"\ntcp.rto_granularity = \"1ms\"\ntcp.rto_variance_floor = \"4ms\"",
            ),
            (
                "jiffies, HZ 250",
                "tcp.rto_min = \"4ms\"\ntcp.rto_granularity = \"4ms\"\ntcp.rto_variance_floor = \"16ms\"",
            ),
            (
                "jiffies, HZ 100",
                "tcp.rto_min = \"10ms\"\ntcp.rto_granularity = \"10ms\"\ntcp.rto_variance_floor = \"40ms\"",
            ),
            ("200 us", "tcp.rto_min = \"200us\""),
            ("200 us, randomised", "tcp.rto_min = \"200us\"\ntcp.rto_randomize = 0.5"),
            (
                "200 us, bimodal",
                "tcp.rto_min = \"200us\"\ntcp.rto_coarse_from = \"10ms\"\ntcp.rto_coarse_min = \"200ms\"",
            ),
            ("200 us, F-RTO", "tcp.rto_min = \"200us\"\ntcp.spurious = \"frto\""),
            ("200 us, Eifel", "tcp.rto_min = \"200us\"\ntcp.spurious = \"eifel\""),
            ("200 us, delayed ACK 200 us", "tcp.rto_min = \"200us\"\ntcp.delayed_ack = \"200us\""),
            ("200 us, delayed ACK 40 ms", "tcp.rto_min = \"200us\"\ntcp.delayed_ack = \"40ms\""),
            (
                "200 us, adaptive delayed ACK",
                "tcp.rto_min = \"200us\"\ntcp.delayed_ack = \"40ms\"\ntcp.delayed_ack_adaptive = true",
            ),
        ],
    );
    insta::assert_snapshot!("vasudevan", table);
}

#[test]
fn switches() {
    let table = variants(
        PAC_NS2,
        &[8, 32, 64, 96],
        &[
            ("drop-tail, 96 KB", ""),
            ("drop-tail, 384 KB", "switch.buffer = \"384KB\""),
            ("drop-tail, 1536 KB", "switch.buffer = \"1536KB\""),
            ("802.3x pause", "switch.pause = true"),
            ("RED that drops", "switch.discipline = \"red\""),
            ("RED that marks", "tcp.ecn = \"on\"\nswitch.discipline = { kind = \"red\", ecn = true }"),
            (
                "WRED, low = high, ECN senders",
                "tcp.ecn = \"on\"\nswitch.discipline = { kind = \"red\", min = 10, max = 10, weight = 1.0, ecn = true, hard_drop = false }",
            ),
            (
                "WRED, low = high, plain senders",
                "switch.discipline = { kind = \"red\", min = 10, max = 10, weight = 1.0, ecn = true, hard_drop = false }",
            ),
        ],
    );
    insta::assert_snapshot!("switches", table);
}

#[test]
fn combinations() {
    let mark = "switch.discipline = { kind = \"ecn\", mark_above = \"10p\" }";
    let lines = |text: &str| format!("{mark}\n{text}");
    let all = [
        ("PAC over NewReno with ECN", lines("scheme = \"pac\"\ntcp.ecn = \"plus\"")),
        ("PAC over DCTCP", lines("scheme = \"pac\"\ntcp.cc = \"dctcp\"")),
        ("credit over DCTCP", lines("scheme = \"credit\"\ntcp.cc = \"dctcp\"")),
        ("credit, budget searched", "scheme = \"credit\"\npac.auto = true".into()),
        ("HWatch over NewReno", lines("scheme = \"hwatch\"")),
        ("HWatch over DCTCP", lines("scheme = \"hwatch\"\ntcp.cc = \"dctcp\"")),
        ("M21TCP-A, field in IP", "scheme = \"m21\"\nm21.field = \"ip\"".into()),
        ("PAC over DCTCP, RTOmin 10 ms", lines("scheme = \"pac\"\ntcp = { cc = \"dctcp\", rto_min = \"10ms\" }")),
    ];
    let all: Vec<(&str, &str)> = all.iter().map(|(name, lines)| (*name, lines.as_str())).collect();
    insta::assert_snapshot!("combinations", variants(PAC_NS2, &[8, 32, 64, 96], &all));
}

#[test]
fn pac_does_not_collapse_where_all_others_do() {
    // PAC §V-A and §V-E: no degradation at 100 connections; ICTCP above 48 and DCTCP above 36 on the testbed.
    for senders in [36, 56, 100] {
        assert!(incast(PAC_TESTBED, "pac", senders).goodput_mbps > 850.0);
    }
    for (scheme, holds, collapses) in [("ictcp", 48, 56), ("dctcp", 32, 40)] {
        assert!(incast(PAC_TESTBED, scheme, holds).goodput_mbps > 850.0, "{scheme} at {holds}");
        assert!(incast(PAC_TESTBED, scheme, collapses).goodput_mbps < 400.0, "{scheme} at {collapses}");
    }
}

#[test]
fn a_constant_rate_of_acks_wastes_the_link_or_overflows_the_buffer() {
    // PAC §II-D: 40 000 per second leave 30 % of the link unused, 80 000 do not prevent incast.
    let run = |rate, senders| incast(PAC_NS2, &format!("shaper\"\nshaper.rate = {rate} # \""), senders);
    let slow = run(40_000, 8);
    assert!(slow.goodput_mbps < 700.0, "{}", slow.goodput_mbps);
    assert!(run(80_000, 64).rto_timeouts > 0);
}

#[test]
fn one_segment_for_each_sender_lasts_until_the_buffer_is_full() {
    // PAC §II-B: N_max = (B + C x RTT) / MSS, (96 + 15) / 1.5 = 74.
    assert_eq!(incast(PAC_NS2, "fixed-window", 64).rto_timeouts, 0);
    assert!(incast(PAC_NS2, "fixed-window", 96).rto_timeouts > 0);
}

#[test]
fn an_m21_window_above_a_new_cap_is_cut_or_kept() {
    // Windows begin with ten segments, above the cap of three; nothing is lost that would lower them.
    let setting = M21
        .replace("tcp.initial_window = 1\n", "tcp.initial_window = 10\nm21.buffer = \"64KB\"\n")
        .replace("switch.buffer = \"64KB\"", "switch.buffer = \"1MB\"")
        .replace("\"pull\"", "\"pull\", connections = \"fresh\"");
    let mean =
        |cut: bool| report(&format!("scheme = \"m21\"\nsenders = 32\nm21.cut = {cut}\n{setting}")).queue_bytes.mean;
    let (cut, kept) = (mean(true), mean(false));
    assert!(cut < 64_000.0 && kept > 128_000.0, "{cut} {kept}");
}

#[test]
fn m21tcp_a_holds_where_the_others_collapse_and_beyond_eq_1() {
    // M21TCP-A §V: near 900 Mb/s to 64 senders. Beyond 106 the cap is below one segment.
    for senders in [8, 32, 64] {
        assert!(incast(M21, "m21", senders).goodput_mbps > 800.0, "{senders}");
    }
    let (m21, none) = (incast(M21, "m21", 256), incast(M21, "none", 256));
    assert!(m21.goodput_mbps > 3.0 * none.goodput_mbps, "{} and {}", m21.goodput_mbps, none.goodput_mbps);
}

#[test]
fn a_list_that_only_grows_slows_new_connections_down() {
    // §IV.1 has no expiry: with a new connection each round, the count never falls.
    let fresh = M21.replace("direction = \"pull\"", "connections = \"fresh\"").replace("rounds = 3", "rounds = 12");
    let run = |expiry| incast(&fresh, &format!("m21\"\nm21.expiry = \"{expiry}\" # \""), 32);
    let (expiring, growing) = (run("1s"), run("off"));
    assert!(expiring.goodput_mbps > 800.0, "{}", expiring.goodput_mbps);
    assert!(growing.goodput_mbps < 0.9 * expiring.goodput_mbps, "{}", growing.goodput_mbps);
}

#[test]
fn hwatch_keeps_short_flows_from_timing_out() {
    // HWatch §V: with 100 sources no short flow takes more than tens of milliseconds, DCTCP's do; long flows keep theirs.
    let [droptail, _, dctcp, hwatch] = hwatch_rivals().map(|(_, setting)| surges(&setting, 100));
    assert!(hwatch.flow_ms.p99 < 20.0, "{:?}", hwatch.flow_ms);
    assert!(dctcp.flow_ms.p99 > 100.0 && droptail.flow_ms.p99 > 100.0, "{:?}", dctcp.flow_ms);
    assert!(hwatch.background_goodput_mbps > 0.9 * dctcp.background_goodput_mbps);
    assert!(hwatch.queue_bytes.mean < 1.5 * 76_000.0);
}

#[test]
fn schemes_combine_with_senders_of_other_kinds() {
    // PAC over DCTCP senders with ECN: holds where DCTCP alone collapses, though its model of the sender is Reno's (Eq. 3).
    let marking =
        format!("{PAC_NS2}\ntcp.cc = \"dctcp\"\n{}", r#"switch.discipline = { kind = "ecn", mark_above = "10p" }"#);
    let both = incast(&marking, "pac", 64);
    let alone = incast(PAC_NS2, "dctcp", 64);
    assert!(both.marks > 0 && both.rto_timeouts == 0 && both.goodput_mbps > 850.0, "{}", both.goodput_mbps);
    assert!(alone.goodput_mbps < 200.0, "{}", alone.goodput_mbps);
    // A DCTCP, an ECN and a plain group in one queue.
    let mixed = format!(
        "{}\n[[background]]\ncc = \"cubic\"\n[[background]]\ncc = \"newreno\"\necn = \"on\"",
        marking.replace("rounds = 6", "rounds = 20")
    );
    let mixed = incast(&mixed, "pac", 8);
    assert!(mixed.background_goodput_mbps > 10.0 && mixed.goodput_mbps > 10.0);
}

#[test]
fn flow_control_loses_nothing_and_blocks_the_head_of_the_line() {
    // Vasudevan §2.1: it works on a single switch, and blocks others across trunks.
    let star = incast(&format!("{PAC_NS2}\nswitch.pause = true"), "none", 64);
    assert!(star.drops == 0 && star.rto_timeouts == 0 && star.goodput_mbps > 850.0, "{}", star.goodput_mbps);
    let beside = |pause: bool| {
        report(&format!(
            "senders = 16\ntime_limit = \"500ms\"\nworkload = \"long\"\nswitch.pause = {pause}\n\
             network = {{ topology = \"core\", core_rate = \"2gbit\" }}\n[[background]]\nto = \"beside\""
        ))
    };
    let (paused, dropping) = (beside(true), beside(false));
    assert!(paused.drops == 0 && dropping.drops > 0);
    let (blocked, free) = (paused.background_goodput_mbps, dropping.background_goodput_mbps);
    assert!(blocked < 0.5 * free, "{blocked} and {free}");
}

#[test]
fn long_flows_come_and_go_under_pac_as_published() {
    // PAC §V-D: above 900 Mb/s at any time. A sender whose growth the gate misjudges must not fill the budget with bytes
    // that never come, be it alone for seconds or just after another has joined.
    let setting = "switch.discipline = { kind = \"ecn\", mark_above = \"10p\" }\ntcp.ecn = \"plus\"\ntcp.sack = true\n\
                   pac.threshold = \"80KB\"\nscheme = \"pac-published\"\nnetwork.rtt = \"100us\"\nswitch.buffer = \"150KB\"";
    for ssthresh in [10, 30, 300] {
        let alone = report(&format!(
            "senders = 1\ntime_limit = \"4s\"\nworkload = \"long\"\ntcp.initial_ssthresh = {ssthresh}\n{setting}"
        ));
        assert!(alone.goodput_mbps > 900.0, "{ssthresh}: {}", alone.goodput_mbps);
    }
    let joined = report(&format!(
        "senders = 2\ntime_limit = \"5s\"\nworkload = {{ kind = \"long\", start = \"0\", stagger = \"2s\" }}\n{setting}"
    ));
    assert!(joined.goodput_mbps > 850.0, "{}", joined.goodput_mbps);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for scheme in Scheme::ALL {
        let [first, second] = [0; 2].map(|_| Report { wall_s: 0.0, ..incast(PAC_NS2, scheme.name(), 24) });
        assert_eq!(first, second, "{}", scheme.name());
    }
}
