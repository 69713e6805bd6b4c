//! What is told of a running guard: the same statistics under the same names, as samples, by `ackgate status` and as metrics.
//!
//! What needs root, or Prometheus, says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod process;
#[path = "../../linux/tests/world/mod.rs"]
mod world;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ackgate_linux::statistics::{Kind, STATISTICS};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use process::ackgate;
use serde_json::Value;
use world::{DEVICE, World};

const METRICS: &str = "127.0.0.1:9477";
const NOBODY: libc::uid_t = 65_534;

/// A guard that tells its metrics, and the first sample that it printed.
struct Run {
    child: Child,
    sample: Value,
}

impl Run {
    fn start(world: &World) -> Self {
        world.receiver(|| assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success()));
        let arguments = ["run", "--dev", DEVICE, "--buffer", "96KB", "--json", "--metrics"];
        let mut child = world.receiver(|| ackgate(&arguments).spawn()).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let sample = lines.find_map(|line| {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            (event["event"] == "sample").then_some(event)
        });
        // Whoever reads on keeps the guard from complaining.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, sample: sample.unwrap() }
    }

    fn stop(mut self) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGTERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

fn status(world: &World, arguments: &[&str]) -> Output {
    world.receiver(|| ackgate(&[&["status"], arguments].concat()).output()).unwrap()
}

/// The body of a page, and the head before it.
fn get(world: &World, address: &str, path: &str) -> Option<(String, String)> {
    ask(world.receiver(|| TcpStream::connect(address)).ok()?, address, path)
}

fn ask(mut stream: TcpStream, address: &str, path: &str) -> Option<(String, String)> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    text.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned()))
}

#[test]
fn a_statistic_has_one_name_wherever_it_is_told() {
    let Some(world) = World::new() else { return };
    let nobody = status(&world, &[]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("no guard runs in this network namespace"));
    let run = Run::start(&world);
    let json = status(&world, &["--json"]);
    assert!(json.status.success(), "{json:?}");
    let state: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((state["device"].as_str(), state["guard"].as_str()), (Some(DEVICE), Some("credit")), "{state}");
    let text = String::from_utf8(status(&world, &[]).stdout).unwrap();
    let (head, metrics) = get(&world, METRICS, "/metrics").unwrap();
    assert!(head.contains("200") && head.contains("application/openmetrics-text"), "{head}");
    for statistic in STATISTICS {
        let name = statistic.name;
        assert!(run.sample[name].is_u64(), "{name} in {}", run.sample);
        assert!(state[name].is_u64(), "{name} in {state}");
        assert!(text.contains(&format!("  {name} ")) && text.contains(statistic.help), "{name} in {text}");
        let suffix = if statistic.kind == Kind::Counter { "_total" } else { "" };
        let line = format!("ackgate_{name}{suffix}{{device=\"{DEVICE}\"}} ");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    let as_nobody = world.receiver(|| {
        // SAFETY: takes integers; called by its number it changes this thread alone.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) }, 0);
        TcpStream::connect(METRICS).ok().and_then(|stream| ask(stream, METRICS, "/metrics"))
    });
    assert!(as_nobody.is_some_and(|(head, _)| head.contains("200")), "loopback belongs to all users");
    let (head, page) = get(&world, METRICS, "/").unwrap();
    assert!(head.contains("200") && head.contains("text/html") && page.contains("fetch('/metrics'"), "{head}\n{page}");
    let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!elsewhere.contains("://"), "it works where nothing else can be reached");
    assert!(get(&world, METRICS, "/metric").unwrap().0.contains("404"));
    let stranger = world.receiver(|| ackgate(&["status"]).uid(NOBODY).output());
    match stranger {
        Ok(stranger) => {
            assert_eq!(stranger.status.code(), Some(2), "{stranger:?}");
            assert!(String::from_utf8_lossy(&stranger.stderr).contains("answers only root"), "{stranger:?}");
        }
        Err(error) => eprintln!("skipped: another user cannot run {}: {error}", env!("CARGO_BIN_EXE_ackgate")),
    }
    let page = world.receiver(|| ackgate(&["top", "--once"]).output()).unwrap();
    assert!(page.status.success(), "{page:?}");
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.starts_with("ackgate top   1 interface guarded") && page.contains(&format!("\n{DEVICE}")), "{page}");
    assert!(page.contains("excluded") && page.lines().all(|line| line.chars().count() <= 80), "{page}");
    run.stop();
    let nobody = world.receiver(|| ackgate(&["top", "--once"]).output()).unwrap();
    assert_eq!(nobody.status.code(), Some(2), "{nobody:?}");
    assert!(get(&world, METRICS, "/metrics").is_none(), "nobody serves any more");
    assert_eq!(status(&world, &[]).status.code(), Some(2));
}

#[test]
fn an_address_that_is_taken_is_named_and_nothing_is_guarded() {
    let Some(world) = World::new() else { return };
    let run = Run::start(&world);
    let before = world.receiver_state();
    let arguments = ["run", "--dev", "again0", "--buffer", "96KB", "--metrics"];
    world.receiver(|| {
        for command in ["link add again0 type veth peer name again1", "link set again0 up"] {
            assert!(Command::new("ip").args(command.split(' ')).status().unwrap().success());
        }
    });
    let second = world.receiver(|| ackgate(&arguments).output()).unwrap();
    assert_eq!(second.status.code(), Some(2), "{second:?}");
    assert!(String::from_utf8_lossy(&second.stderr).contains(METRICS), "{second:?}");
    world.receiver(|| assert!(Command::new("ip").args(["link", "del", "again0"]).status().unwrap().success()));
    assert_eq!(world.receiver_state(), before);
    run.stop();
}

#[test]
fn a_browser_shows_how_a_guard_stands() {
    let browser =
        ["chromium", "google-chrome"].into_iter().find(|it| Command::new(it).arg("--version").output().is_ok());
    let Some(browser) = browser else {
        eprintln!("skipped: no browser is installed (apt install chromium)");
        return;
    };
    let Some(world) = World::new() else { return };
    let run = Run::start(&world);
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new(browser);
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("http://{METRICS}/"));
    let shown = world.receiver(|| command.output()).unwrap();
    let budget = run.sample["threshold"].as_f64().unwrap() / 1000.0;
    run.stop();
    let page = String::from_utf8_lossy(&shown.stdout);
    assert!(page.contains(&format!("<h2>{DEVICE}</h2>")) && page.contains("guarded by credit"), "{shown:?}");
    assert!(page.contains(&format!("in flight of {budget:.1} kB")), "{page}");
}

#[test]
fn prometheus_scrapes_it_and_takes_the_alert_rules() {
    let installed = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !installed("prometheus") || !installed("promtool") {
        eprintln!("skipped: Prometheus is not installed (apt install prometheus)");
        return;
    }
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/prometheus/ackgate.rules.yml");
    let checked = Command::new("promtool").args(["check", "rules", rules]).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    let Some(world) = World::new() else { return };
    let run = Run::start(&world);
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("prometheus.yml");
    let text = format!(
        "global: {{ scrape_interval: 1s }}\nrule_files: [ '{rules}' ]\nscrape_configs:\n  - job_name: ackgate\n    \
         static_configs: [ {{ targets: [ '{METRICS}' ] }} ]\n"
    );
    std::fs::write(&config, text).unwrap();
    let address = "127.0.0.1:19090";
    let mut prometheus = world
        .receiver(|| {
            Command::new("prometheus")
                .arg(format!("--config.file={}", config.display()))
                .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
                .arg(format!("--web.listen-address={address}"))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        })
        .unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    let found = loop {
        let answer = get(&world, address, "/api/v1/query?query=ackgate_threshold").map(|(_, body)| body);
        if answer.as_ref().is_some_and(|body| body.contains(DEVICE)) || Instant::now() > until {
            break answer;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    prometheus.kill().unwrap();
    prometheus.wait().unwrap();
    let threshold = run.sample["threshold"].to_string();
    run.stop();
    let found = found.expect("Prometheus answers");
    assert!(
        found.contains("\"__name__\":\"ackgate_threshold\"") && found.contains(&format!("\"{threshold}\"")),
        "{found}"
    );
}
