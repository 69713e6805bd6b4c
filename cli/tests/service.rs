//! `ackgate run` under a service manager: what it tells, and that the unit's capabilities suffice.
//!
//! What needs root, or systemd's tools, says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

#[path = "../../linux/tests/world/mod.rs"]
mod world;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use world::{DEVICE, World};

/// What guards a host, and what runs a scheme in user space.
const GUARD: &str = "ackgate.service";
const SCHEME: &str = "ackgate@.service";

fn unit(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/systemd").join(name)
}

/// What a unit sets, once for each time.
fn settings(unit_name: &str, key: &str) -> Vec<String> {
    let text = std::fs::read_to_string(unit(unit_name)).unwrap();
    text.lines().filter_map(|line| Some(line.strip_prefix(key)?.strip_prefix('=')?.to_owned())).collect()
}

/// `setpriv` with no more than a unit's capabilities, in a mount namespace where the kernel's devices that the unit does not show
/// are hidden; arguments of the program follow.
fn as_unit(unit_name: &str) -> Command {
    let capabilities =
        settings(unit_name, "CapabilityBoundingSet")[0].to_lowercase().replace("cap_", "+").replace(' ', ",");
    let shows_tun = settings(unit_name, "PrivateDevices") != ["yes"];
    let hide = if shows_tun {
        "true"
    } else {
        "if [ -d /dev/net ]; then mount --make-rprivate /dev && mount -t tmpfs none /dev/net; fi"
    };
    let script = format!("{hide} && exec setpriv --bounding-set '-all,{capabilities}' \"$0\" \"$@\"");
    let mut command = Command::new("unshare");
    // In a changed root the root is no mount of its own, whose propagation could be changed; that of /dev can.
    command.args(["--mount", "--propagation", "unchanged", "sh", "-c", &script, env!("CARGO_BIN_EXE_ackgate")]);
    command.stdout(Stdio::null());
    command
}

#[test]
fn the_service_manager_is_told_with_no_more_than_the_units_capabilities() {
    let Some(world) = World::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let hears = |what: &str| {
        let mut buffer = [0; 1024];
        loop {
            let length = manager.recv(&mut buffer).unwrap_or_else(|error| panic!("never heard `{what}`: {error}"));
            let said = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if said.lines().any(|line| line == what) {
                return said;
            }
        }
    };
    let file = folder.path().join("ackgate.toml");
    std::fs::write(&file, format!("[[device]]\nname = '{DEVICE}'\n")).unwrap();
    // The unit's own command, with the file elsewhere.
    let arguments = settings(GUARD, "ExecStart")[0].replace("/etc/ackgate/ackgate.toml", file.to_str().unwrap());
    let arguments: Vec<&str> = arguments.split(' ').skip(1).collect();
    let mut child = world.receiver(|| as_unit(GUARD).args(&arguments).env("NOTIFY_SOCKET", &socket).spawn()).unwrap();
    assert!(hears(&format!("STATUS=guarding {DEVICE}")).contains("READY=1"));
    hears("WATCHDOG=1");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGHUP).unwrap();
    hears("RELOADING=1");
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
fn a_scheme_that_changes_what_arrives_runs_as_its_unit_and_not_as_the_guards() {
    let Some(world) = World::new() else { return };
    if !Path::new("/dev/net/tun").exists() {
        eprintln!("skipped: this host has no /dev/net/tun");
        return;
    }
    let run = |unit_name| {
        let mut child = world.receiver(|| {
            let arguments = ["run", "--json", "--dev", DEVICE, "--guard", "hwatch", "--rate", "1gbit"];
            as_unit(unit_name).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
        });
        let child = child.as_mut().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let _ = kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        child.wait().unwrap();
        line + &said
    };
    let ready = run(SCHEME);
    assert!(ready.contains("\"ready\""), "{ready}");
    let refused = run(GUARD);
    assert!(refused.contains("/dev/net/tun"), "{refused}");
}

#[test]
fn the_units_call_nothing_but_the_guard_and_the_shell() {
    // A host that has only what every Debian has: `kill`, for one, is a program of a package that may be missing.
    for name in [GUARD, SCHEME] {
        let commands: Vec<String> =
            ["ExecStart", "ExecReload"].into_iter().flat_map(|key| settings(name, key)).collect();
        assert!(!commands.is_empty());
        for command in commands {
            let program = command.split(' ').next().unwrap();
            assert!(["/usr/bin/ackgate", "/bin/sh"].contains(&program), "{name}: {command}");
        }
    }
}

#[test]
fn systemd_takes_the_units() {
    for (name, installed) in [(GUARD, "ackgate.service"), (SCHEME, "ackgate@eth0.service")] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(installed);
        let text = std::fs::read_to_string(unit(name)).unwrap();
        // Where it would be installed there is nothing yet.
        let text = text
            .replace("/usr/bin/ackgate", env!("CARGO_BIN_EXE_ackgate"))
            .replace("Documentation=man:ackgate(8)\n", "");
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
}
