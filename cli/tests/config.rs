//! A file of settings: `ackgate config check`, and `ackgate run --config` with several devices in one process.
//!
//! What needs root says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod process;
#[path = "../../linux/tests/world/mod.rs"]
mod world;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use process::{Process, ackgate, incast};
use serde_json::Value;
use world::{DEVICE, World};

/// A second device of the receiver, which carries nothing.
const QUIET: &str = "quiet0";

fn ip(world: &World, arguments: &str) {
    world.receiver(|| assert!(Command::new("ip").args(arguments.split(' ')).status().unwrap().success()));
}

#[test]
fn a_file_is_checked_with_line_and_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ackgate.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).unwrap();
        ackgate(&["config", "check"]).arg(&file).output().unwrap()
    };
    let fine = check("[[device]]\nname = 'eth7'\nbuffer = '96KB'\nrate = '1gbit'\n[metrics]\n");
    assert!(fine.status.success(), "{fine:?}");
    let said = String::from_utf8(fine.stdout).unwrap();
    assert_eq!(said, "credit on eth7: buffer 96000 bytes, rate 1000 Mb/s\nmetrics at http://127.0.0.1:9477/metrics\n");
    let wrong = check("[[device]]\nname = 'eth7'\n\nmax-holt = '50ms'\n");
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    let said = String::from_utf8(wrong.stderr).unwrap();
    let at = format!("{}:4: key `device.0.max-holt`: unknown key `max-holt`; did you mean `max-hold`?", file.display());
    assert!(said.contains(&at), "{said}");
    let run = ackgate(&["run", "--config"]).arg(&file).output().unwrap();
    assert_eq!((run.status.code(), String::from_utf8(run.stderr).unwrap()), (Some(2), said));
    let both = ackgate(&["run", "--dev", "eth0", "--config"]).arg(&file).output().unwrap();
    assert!(String::from_utf8(both.stderr).unwrap().contains("cannot be used with"));
}

#[test]
fn the_example_is_a_file_that_can_be_used() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/ackgate.toml");
    let text = std::fs::read_to_string(example).unwrap();
    // What stands there commented out, as an operator would write it: one `#`, no blank.
    let used: String = text
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| !rest.starts_with(' ') && !rest.is_empty()).unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ackgate.toml");
    std::fs::write(&file, &used).unwrap();
    let checked = ackgate(&["config", "check"]).arg(&file).output().unwrap();
    assert!(checked.status.success(), "{checked:?}\n{used}");
}

/// A service that guards what a file names.
struct Service {
    process: Process,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

impl Service {
    fn start(world: &World, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ackgate.toml");
        std::fs::write(&file, text).unwrap();
        let child = world.receiver(|| ackgate(&["run", "--json", "--config"]).arg(&file).spawn()).unwrap();
        Self { process: Process::new(child), file, _folder: folder }
    }

    /// The next of these events; samples before it are fine, and nothing else.
    fn event(&mut self, event: &str, device: &str) -> Value {
        loop {
            let line = self.process.line();
            assert!(line["time"].is_f64(), "{line}");
            if line["event"] == event && line["device"] == device {
                return line;
            }
            assert_eq!(line["event"], "sample", "{line} came before {event} of {device}");
        }
    }

    fn reload(&self, text: &str) {
        std::fs::write(&self.file, text).unwrap();
        self.process.signal(Signal::SIGHUP);
    }

    /// What it said on standard error, when it has ended well.
    fn end(mut self) -> String {
        assert!(self.process.child.wait().unwrap().success());
        self.process.said()
    }
}

fn device(name: &str, settings: &str) -> String {
    format!("[[device]]\nname = \"{name}\"\n{settings}\n")
}

#[test]
fn devices_come_go_and_change_without_letting_go_of_the_others() {
    let Some(world) = World::new() else { return };
    ip(&world, "link set lo up");
    ip(&world, &format!("link add {QUIET} type veth peer name far0"));
    ip(&world, &format!("link set {QUIET} up"));
    let before = world.receiver_state();
    let metrics = "[metrics]\naddress = \"127.0.0.1:9478\"\n[status]\nsamples = \"1s\"\n";
    let loaded = |settings: &str| device(DEVICE, settings) + metrics;
    let mut service = Service::start(&world, &loaded("buffer = 8000"));
    let ready = service.event("ready", DEVICE);
    assert_eq!((ready["buffer"].as_u64(), ready["guard"].as_str()), (Some(8000), Some("credit")), "{ready}");
    // One comes, while data arrives at the other.
    incast(&world, || {
        service.reload(&(loaded("buffer = 8000") + &device(QUIET, "observe = true")));
        assert_eq!(service.event("ready", QUIET)["observe"], true);
        service.reload(&(loaded("buffer = 16000\nmax-hold = '60ms'") + &device(QUIET, "observe = true")));
        service.event("changed", DEVICE);
    });
    let status = world.receiver(|| ackgate(&["status", "--json"]).output()).unwrap();
    let states: Vec<Value> =
        serde_json::Deserializer::from_slice(&status.stdout).into_iter().map(Result::unwrap).collect();
    let mut buffers: Vec<_> = states.iter().map(|state| (state["device"].as_str(), state["buffer"].as_u64())).collect();
    buffers.sort_unstable();
    assert_eq!(buffers, [(Some(DEVICE), Some(16_000)), (Some(QUIET), Some(4 << 20))]);
    let text = world.receiver(|| {
        let mut stream = TcpStream::connect("127.0.0.1:9478").unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    });
    for device in [DEVICE, QUIET] {
        assert!(text.contains(&format!("ackgate_held{{device=\"{device}\"}} ")), "{text}");
    }
    // One goes; a file that makes no sense changes nothing.
    service.reload(&loaded("buffer = 16000\nmax-hold = '60ms'"));
    service.event("summary", QUIET);
    service.reload(&loaded("buffer = 1000"));
    let sample = service.event("sample", DEVICE);
    assert!(sample["released"].as_u64() > Some(0), "it was never taken off: {sample}");
    incast(&world, || ());
    service.process.signal(Signal::SIGTERM);
    let summary = service.event("summary", DEVICE);
    assert!(summary["connections"].as_u64() >= Some(4) && summary["rescues"] == 0, "{summary}");
    let said = service.end();
    assert!(
        said.contains("reload failed, the previous settings stay in force") && said.contains("two full frames"),
        "{said}"
    );
    assert_eq!(world.receiver_state(), before);
}

#[test]
fn a_setting_that_needs_another_attachment_has_the_device_guarded_anew() {
    let Some(world) = World::new() else { return };
    let mut service = Service::start(&world, &device(DEVICE, "buffer = 8000"));
    service.event("ready", DEVICE);
    service.reload(&device(DEVICE, "buffer = 8000\nguard = 'pac'"));
    let changed = service.event("changed", DEVICE);
    assert!(changed["text"].as_str().unwrap().contains("guard cannot be changed"), "{changed}");
    service.event("summary", DEVICE);
    assert_eq!(service.event("ready", DEVICE)["guard"], "pac");
    incast(&world, || ());
    service.process.signal(Signal::SIGINT);
    service.event("summary", DEVICE);
    service.end();
}

#[test]
fn a_device_that_is_not_there_is_waited_for_and_one_that_is_unfit_refused() {
    let Some(world) = World::new() else { return };
    let both = device(DEVICE, "") + &device("later0", "");
    let mut service = Service::start(&world, &both);
    let mut events: Vec<String> =
        (0..2).map(|_| service.process.line()["event"].as_str().unwrap().to_owned()).collect();
    events.sort_unstable();
    assert_eq!(events, ["ready", "waiting"]);
    ip(&world, "link add later0 type veth peer name later1");
    ip(&world, "link set later0 up");
    service.event("ready", "later0");
    ip(&world, "link del later0");
    service.event("summary", "later0");
    service.process.signal(Signal::SIGTERM);
    while service.process.line()["event"] != "summary" {}
    service.end();
    let mut refused = Service::start(&world, &(device(DEVICE, "") + &device("lo", "")));
    assert_eq!(refused.process.child.wait().unwrap().code(), Some(2));
    let said = refused.process.said();
    assert!(said.contains("`lo` cannot be guarded"), "{said}");
}
