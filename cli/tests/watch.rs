//! `ackgate watch` as its users see it: what it prints, how it ends, and that it leaves nothing.
//!
//! What needs root says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod process;
#[path = "../../linux/tests/world/mod.rs"]
mod world;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use process::ackgate;
use world::{DEVICE, RECEIVER_V4, World};

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let cases: [(&[&str], &str); 6] = [
        (&["--dev", "no-such-dev0"], "no network interface `no-such-dev0`"),
        (&["--dev", "lo", "--bin", "1us"], "--bin 1us: must be between"),
        (&["--dev", "lo", "--bin", "1s"], "--bin 1s: must be between"),
        (&["--pcap", "/dev/null"], "`/dev/null`"),
        (&["--dev", "lo", "--rate", "1gbps"], "\"1gbit\""),
        (&["--dev", "lo", "--html", "/no/such/folder/page.html"], "cannot write /no/such/folder/page.html"),
    ];
    for (arguments, what) in cases {
        let output = ackgate(&[&["watch"], arguments].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(what), "`{said}` does not say `{what}`");
    }
}

#[test]
fn a_capture_of_an_incast_makes_a_page_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (capture, page) = (path("capture.pcapng"), path("page.html"));
    let scenario = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/incast-1g.toml");
    let simulated =
        ["sim", "run", scenario, "--set", "senders=48", "--set", "rounds=2", "--pcap", &capture, "--pcap-snap", "96"];
    assert!(ackgate(&simulated).output().unwrap().status.success());
    let output = ackgate(&["watch", "--pcap", &capture, "--rate", "1gbit", "--html", &page]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("<h1>This is incast, and a guard would help") && html.contains("The worst bursts"), "{html}");
    assert!(html.matches("<polyline").count() == 3 && html.contains("<rect"), "{html}");
    let Some(browser) = browser() else { return };
    let profile = format!("--user-data-dir={}", path("profile"));
    let quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"];
    let shown =
        std::process::Command::new(browser).args(quiet).args([&profile, &format!("file://{page}")]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.contains("<h1>This is incast") && shown.matches("</svg>").count() == 3, "{shown}");
}

/// A browser, if one is installed.
fn browser() -> Option<&'static str> {
    let there = |name: &&str| std::process::Command::new(name).arg("--version").output().is_ok();
    let browser = ["chromium", "google-chrome"].into_iter().find(there);
    if browser.is_none() {
        eprintln!("skipped: no browser is installed (apt install chromium)");
    }
    browser
}

#[test]
fn traffic_is_told_second_by_second_and_summed_up() {
    let Some(world) = World::new() else { return };
    let before = world.receiver_state();
    let arguments = ["watch", "--dev", DEVICE, "--rate", "1gbit", "--for", "3s", "--json", "--bpf-stats"];
    let child = world.receiver(|| ackgate(&arguments).spawn()).unwrap();
    // Its lines are read while it writes: a pipe that is full ends it with an error.
    let watching = std::thread::spawn(move || child.wait_with_output().unwrap());
    let listener = world.receiver(|| TcpListener::bind((RECEIVER_V4, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let mut sent = 0;
    while !watching.is_finished() {
        let mut stream = world.sender(|| TcpStream::connect(address)).unwrap();
        let writer = std::thread::spawn(move || stream.write_all(&[7; 1_000_000]).unwrap());
        let mut data = Vec::new();
        sent += listener.accept().unwrap().0.read_to_end(&mut data).unwrap() as u64;
        writer.join().unwrap();
    }
    let output = watching.join().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("tcx") {
        eprintln!("skipped: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let events: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    assert_eq!((of("ready").len(), of("summary").len()), (1, 1), "{lines}");
    assert!(of("second").len() >= 2 && !of("burst").is_empty(), "{lines}");
    let summary = of("summary")[0];
    let bytes = summary["bytes"].as_u64().unwrap();
    assert!(bytes > 1_000_000 && bytes < sent * 2, "{bytes} of {sent}");
    assert_eq!(summary["peers"][0]["address"], "10.99.0.2", "{summary}");
    let service = &summary["services"][0];
    assert_eq!((service["port"].as_u64(), service["remote"].as_bool()), (Some(u64::from(address.port())), Some(false)));
    assert!(summary["advice"].as_str().unwrap().contains("no more than"), "{summary}");
    assert!(summary["cost"]["program_ns_per_packet"].as_f64() > Some(0.0), "{summary}");
    assert_eq!(world.receiver_state(), before);
}
