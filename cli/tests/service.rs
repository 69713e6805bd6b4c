//! `ackgate run` under a service manager: what it tells, and that the unit's capabilities suffice.
//!
//! What needs root, or systemd's tools, says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

#[path = "../../linux/tests/world/mod.rs"]
mod world;

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use world::{DEVICE, World};

fn unit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/systemd/ackgate@.service")
}

/// What the unit sets.
fn setting(key: &str) -> String {
    let text = std::fs::read_to_string(unit()).unwrap();
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap().to_owned()
}

#[test]
fn the_service_manager_is_told_with_no_more_than_the_units_capabilities() {
    let Some(world) = World::new() else { return };
    let capabilities = setting("CapabilityBoundingSet").to_lowercase().replace("cap_", "+").replace(' ', ",");
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let hears = |what: &str| {
        let mut buffer = [0; 1024];
        loop {
            let length = manager.recv(&mut buffer).unwrap_or_else(|error| panic!("never heard `{what}`: {error}"));
            if String::from_utf8_lossy(&buffer[..length]).lines().any(|line| line == what) {
                return;
            }
        }
    };
    let mut child = world
        .receiver(|| {
            Command::new("setpriv")
                .args(["--bounding-set", &format!("-all,{capabilities}"), env!("CARGO_BIN_EXE_ackgate")])
                .args(["run", "--json", "--wait", "--dev", DEVICE])
                .env("NOTIFY_SOCKET", &socket)
                .stdout(Stdio::null())
                .spawn()
        })
        .unwrap();
    hears("READY=1");
    hears("WATCHDOG=1");
    world.receiver(|| assert!(Command::new("ip").args(["link", "set", DEVICE, "down"]).status().unwrap().success()));
    hears("WATCHDOG=1");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    hears("STOPPING=1");
    assert!(child.wait().unwrap().success());
    // A guard that waits for its interface lives, too.
    let mut child = world
        .receiver(|| {
            Command::new(env!("CARGO_BIN_EXE_ackgate"))
                .args(["run", "--json", "--wait", "--dev", DEVICE])
                .env("NOTIFY_SOCKET", &socket)
                .stdout(Stdio::null())
                .spawn()
        })
        .unwrap();
    hears(&format!("STATUS=waiting for `{DEVICE}` to be there and up"));
    hears("WATCHDOG=1");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn systemd_takes_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ackgate@eth0.service");
    let text = std::fs::read_to_string(unit()).unwrap();
    // Where it would be installed there is nothing yet.
    let text =
        text.replace("/usr/bin/ackgate", env!("CARGO_BIN_EXE_ackgate")).replace("Documentation=man:ackgate(8)\n", "");
    std::fs::write(&file, text).unwrap();
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output();
    let Ok(verified) = verified else {
        eprintln!("skipped: there is no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    let about_it: Vec<&str> = said.lines().filter(|line| line.contains("ackgate")).collect();
    assert!(verified.status.success() && about_it.is_empty(), "{said}");
}
