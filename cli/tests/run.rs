//! `ackgate run` as its users and the lab see it: what it prints, how it ends, and what it leaves behind.
//!
//! What needs root says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod process;
#[path = "../../linux/tests/world/mod.rs"]
mod world;

use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use ackgate_linux::doctor::Finding;
use ackgate_linux::privilege::{NEEDED, SYS_ADMIN, USEFUL};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use process::{Process, ackgate, incast};
use world::{DEVICE, SENDER_DEVICE, World};

/// Runs to the end; asserts that it refused with exit code 2 and said `what`.
fn refused(output: &Output, what: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(what), "`{said}` does not say `{what}`");
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let cases: [(&[&str], &str); 15] = [
        (&["--dev", "no-such-dev0", "--buffer", "96KB"], "no network interface `no-such-dev0`"),
        (&["--dev", "lo", "--buffer", "96KB"], "loopback"),
        (&["--dev", "lo", "--buffer", "1000"], "two full frames"),
        (&["--dev", "lo", "--buffer", "96KB", "--max-hold", "1us"], "longest hold"),
        (&["--dev", "lo", "--buffer", "96KB", "--max-hold", "1ms", "--rate", "1mbit"], "shorter than"),
        (&["--dev", "lo", "--buffer", "96KB", "--batch", "90KB"], "half the buffer"),
        (&["--dev", "lo", "--rate", "1gbps"], "write \"1gbit\""),
        (&["--dev", "lo", "--step-aside", "1ms"], "less than 1s"),
        (&["--dev", "lo", "--guard", "ictcp"], "give --rate"),
        (&["--dev", "lo", "--guard", "pac-letter"], "give --buffer"),
        (&["--dev", "lo", "--guard", "shaper", "--hold", "ring"], "--hold is for pac and credit"),
        (&["--dev", "lo", "--guard", "shaper", "--follow", "always"], "--follow is for pac and credit"),
        (&["--dev", "lo", "--guard", "shaper", "--set", "shaper.rate=0"], "at least 1 packet per second"),
        (&["--dev", "lo", "--guard", "shaper", "--set", "ictcp.idle=1s"], "the parameters shaper.KEY only"),
        (&["--dev", "lo", "--guard", "credit", "--rtt", "1ms"], "for guards in user space"),
    ];
    for (arguments, what) in cases {
        refused(&ackgate(&[&["run"], arguments].concat()).output().unwrap(), what);
    }
}

/// Whether this host has what the doctor calls so.
fn supported(feature: &str) -> bool {
    let report = ackgate_linux::doctor::examine(None);
    report.checks.iter().any(|check| check.name == feature && check.finding == Finding::Ok)
}

/// A guard that has said that it is ready.
fn start(world: &World, how: &[&str]) -> Process {
    let arguments = [&["run", "--dev", DEVICE, "--buffer", "8000", "--json"], how].concat();
    let mut run = Process::new(world.receiver(|| ackgate(&arguments).spawn()).unwrap());
    let ready = run.line();
    assert_eq!((ready["event"].as_str(), ready["device"].as_str()), (Some("ready"), Some(DEVICE)), "{ready}");
    run
}

#[test]
fn a_device_has_one_guard_and_ctrl_c_ends_it() {
    let Some(world) = World::new() else { return };
    let before = world.receiver_state();
    let run = start(&world, &[]);
    let second = world.receiver(|| ackgate(&["run", "--dev", DEVICE, "--buffer", "96KB"]).output()).unwrap();
    refused(&second, "is guarded already");
    incast(&world, || ());
    let summary = run.end(Signal::SIGINT);
    assert!(summary["released"].as_u64() > Some(0) && summary["hold_us"]["p99"].as_u64() > Some(0), "{summary}");
    assert_eq!(world.receiver_state(), before);
}

/// The capabilities of this process that are in `named`.
fn capabilities(named: &[(u32, &str)]) -> u64 {
    let mask = named.iter().fold(0_u64, |mask, (bit, _)| mask | 1 << bit);
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("CapPrm:")).unwrap();
    mask & u64::from_str_radix(own.trim(), 16).unwrap()
}

/// The threads of a process with their capabilities, which are all that they can ever get back.
fn threads(pid: u32) -> Vec<(String, u64)> {
    let thread = |entry: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(entry.unwrap().path().join("status")).unwrap();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        let masks = ["CapEff:", "CapPrm:", "CapInh:"].map(|name| u64::from_str_radix(field(name), 16).unwrap());
        assert_eq!((masks[0], masks[2], field("NoNewPrivs:")), (masks[1], 0, "1"), "{status}");
        (field("Name:").to_owned(), masks[0])
    };
    let mut threads: Vec<_> = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(thread).collect();
    threads.sort();
    threads
}

/// Waits until all threads that answer others have given up everything; then the others' capabilities are these.
fn assert_capabilities(pid: u32, answering: &[&str], others: &[(&str, u64)]) {
    let mut seen = threads(pid);
    for _ in 0..100 {
        // A thread has its maker's name and capabilities until it begins.
        if answering.iter().all(|&name| seen.contains(&(name.to_owned(), 0))) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
        seen = threads(pid);
    }
    for &name in answering {
        assert!(seen.contains(&(name.to_owned(), 0)), "{name} in {seen:?}");
    }
    let capable: Vec<_> =
        seen.iter().filter(|(_, mask)| *mask != 0).map(|(name, mask)| (name.as_str(), *mask)).collect();
    assert_eq!(capable, others, "{seen:?}");
}

#[test]
fn a_guard_gives_up_what_it_does_not_need_and_whoever_answers_others_all() {
    let Some(world) = World::new() else { return };
    world.receiver(|| assert!(Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap().success()));
    let needed = capabilities(&[&NEEDED[..], &[USEFUL]].concat());
    let and_namespaces = needed | capabilities(&[SYS_ADMIN]);
    let answering = ["ackgate-metrics", "ackgate-status"];
    let mut ways: Vec<(&[&str], u64)> = vec![
        (&["--metrics"], needed),
        (&["--metrics", "--observe"], needed),
        (&["--metrics", "--attach", "clsact"], needed),
        (&["--metrics", "--hold", "redirect"], needed),
        // An interface that returns needs another namespace.
        (&["--metrics", "--hold", "redirect", "--wait"], and_namespaces),
    ];
    if supported("nfqueue") {
        ways.push((&["--metrics", "--hold", "nfqueue"], needed));
    }
    for (way, kept) in ways {
        let before = world.receiver_state();
        let run = start(&world, way);
        assert_capabilities(run.child.id(), &answering, &[("ackgate", kept)]);
        // They suffice to take everything off.
        run.end(Signal::SIGTERM);
        assert_eq!(world.receiver_state(), before, "{way:?}");
    }
}

#[test]
fn a_scheme_in_user_space_gives_up_what_it_does_not_need() {
    let Some(world) = World::new() else { return };
    let needed = capabilities(&[&NEEDED[..], &[USEFUL]].concat());
    for way in [["--guard", "ictcp", "--rate", "1gbit"], ["--guard", "hwatch", "--rate", "1gbit"]] {
        let before = world.receiver_state();
        let run = start(&world, &way);
        assert_capabilities(run.child.id(), &[], &[("ackgate", needed)]);
        run.end(Signal::SIGTERM);
        assert_eq!(world.receiver_state(), before, "{way:?}");
    }
}

#[test]
fn a_guard_by_a_file_gives_up_what_its_interfaces_do_not_need() {
    let Some(world) = World::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ackgate.toml");
    let needed = capabilities(&[&NEEDED[..], &[USEFUL]].concat());
    let and_namespaces = needed | capabilities(&[SYS_ADMIN]);
    let thread = format!("ack-{DEVICE}");
    let before = world.receiver_state();
    for (hold, kept) in [("ring", needed), ("redirect", and_namespaces)] {
        std::fs::write(&file, format!("[[device]]\nname = \"{DEVICE}\"\nbuffer = \"8000\"\nhold = \"{hold}\"\n"))
            .unwrap();
        let child = world.receiver(|| ackgate(&["run", "--json", "--config"]).arg(&file).spawn()).unwrap();
        let mut run = Process::new(child);
        assert_eq!(run.line()["event"], "ready", "{hold}");
        assert_capabilities(
            run.child.id(),
            &["ackgate-status"],
            &[(&thread, kept), ("ackgate", kept), ("ackgate-signals", kept)],
        );
        run.end(Signal::SIGTERM);
        assert_eq!(world.receiver_state(), before, "{hold}");
    }
    // One that gave up what `redirect` needs says so when it is asked for it later, and is still there.
    std::fs::write(&file, format!("[[device]]\nname = \"{DEVICE}\"\nbuffer = \"8000\"\n")).unwrap();
    let child = world.receiver(|| ackgate(&["run", "--json", "--config"]).arg(&file).spawn()).unwrap();
    let mut run = Process::new(child);
    assert_eq!(run.line()["event"], "ready");
    std::fs::write(&file, format!("[[device]]\nname = \"{DEVICE}\"\nbuffer = \"8000\"\nhold = \"redirect\"\n"))
        .unwrap();
    run.signal(Signal::SIGHUP);
    let waiting = loop {
        let line = run.line();
        if line["event"] == "waiting" {
            break line;
        }
    };
    assert!(waiting.to_string().contains("lacks CAP_SYS_ADMIN"), "{waiting}");
    std::fs::write(&file, format!("[[device]]\nname = \"{DEVICE}\"\nbuffer = \"8000\"\n")).unwrap();
    run.signal(Signal::SIGHUP);
    while run.line()["event"] != "ready" {}
    run.end(Signal::SIGTERM);
}

#[test]
fn a_kill_in_the_middle_of_an_incast_hurts_no_connection() {
    let Some(world) = World::new() else { return };
    let mut ways = vec![["--attach", "clsact"], ["--hold", "redirect"]];
    for (feature, way) in [("tcx", ["--attach", "tcx"]), ("nfqueue", ["--hold", "nfqueue"])] {
        if supported(feature) {
            ways.push(way);
        }
    }
    for way in ways {
        let before = world.receiver_state();
        let mut run = start(&world, &way);
        incast(&world, || {
            run.signal(Signal::SIGKILL);
        });
        run.child.wait().unwrap();
        // The janitor needs a moment; without it this would go on for ever.
        let until = std::time::Instant::now() + Duration::from_secs(30);
        while world.receiver_state() != before {
            assert!(std::time::Instant::now() < until, "{way:?} left: {}", world.receiver_state());
            std::thread::sleep(Duration::from_millis(20));
        }
        let again = start(&world, &way);
        incast(&world, || ());
        again.end(Signal::SIGINT);
    }
}

/// A guard with these outputs, as soon as it guards.
fn guard_with(world: &World, stdout: Stdio, stderr: Stdio) -> Child {
    let before = world.receiver_state();
    let arguments = ["run", "--dev", DEVICE, "--buffer", "8000", "--json", "--attach", "clsact"];
    let child = world.receiver(|| ackgate(&arguments).stdout(stdout).stderr(stderr).spawn()).unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while world.receiver_state() == before {
        assert!(std::time::Instant::now() < until, "it does not guard");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

/// Ends it by a signal; returns its exit code. A guard that does not end is killed, and has none.
fn end(mut child: Child, signal: Signal) -> Option<i32> {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if std::time::Instant::now() > until {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_reader_that_sleeps_keeps_nobody_from_ending_the_guard() {
    let Some(world) = World::new() else { return };
    let before = world.receiver_state();
    let (_reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let flags = nix::fcntl::OFlag::O_NONBLOCK;
    nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFL(flags)).unwrap();
    while nix::unistd::write(&writer, &[b'x'; 4096]).is_ok() {}
    nix::fcntl::fcntl(&writer, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::empty())).unwrap();
    let child = guard_with(&world, writer.into(), Stdio::null());
    incast(&world, || ());
    assert_eq!(end(child, Signal::SIGTERM), Some(1));
    assert_eq!(world.receiver_state(), before);
}

#[test]
fn a_reader_that_has_gone_ends_no_guard_and_is_told_of_in_the_end() {
    let Some(world) = World::new() else { return };
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let mut child = guard_with(&world, writer.into(), Stdio::piped());
    drop(reader);
    // Two samples have nowhere to go.
    std::thread::sleep(Duration::from_secs(2));
    assert!(child.try_wait().unwrap().is_none(), "it must go on guarding");
    let mut said = child.stderr.take().unwrap();
    assert_eq!(end(child, Signal::SIGTERM), Some(1));
    let mut text = String::new();
    said.read_to_string(&mut text).unwrap();
    assert!(text.contains("(its reader has closed it); ackgate continues without it"), "{text}");
    assert!(text.contains("not written to standard output"), "{text}");
}

#[test]
fn a_full_disk_ends_no_guard_and_is_no_panic() {
    let Some(world) = World::new() else { return };
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let child = guard_with(&world, full().into(), full().into());
    assert_eq!(end(child, Signal::SIGINT), Some(1));
}

#[test]
fn a_terminal_that_hangs_up_gets_its_summary() {
    let Some(world) = World::new() else { return };
    // Under `nohup` it would be ignored, by the guard too.
    // SAFETY: no handler is installed, and nothing here relies on the signal being ignored.
    unsafe { nix::sys::signal::signal(Signal::SIGHUP, nix::sys::signal::SigHandler::SigDfl) }.unwrap();
    let mut run = start(&world, &[]);
    run.signal(Signal::SIGHUP);
    while run.line()["event"] != "summary" {}
    assert!(run.child.wait().unwrap().success());
}

#[test]
fn a_device_that_goes_fails_the_guard_or_is_waited_for() {
    let Some(world) = World::new() else { return };
    let delete = || {
        world.receiver(|| Command::new("ip").args(["link", "del", DEVICE]).status()).unwrap();
    };
    let mut waiting = start(&world, &["--wait"]);
    delete();
    while waiting.line()["event"] != "summary" {}
    world.receiver(|| {
        for command in [format!("link add {DEVICE} type veth peer name again0"), format!("link set {DEVICE} up")] {
            assert!(Command::new("ip").args(command.split(' ')).status().unwrap().success());
        }
    });
    while waiting.line()["event"] != "ready" {}
    waiting.end(Signal::SIGINT);
    let mut run = start(&world, &[]);
    delete();
    while run.line()["event"] != "summary" {}
    assert_eq!(run.child.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    run.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("was deleted or moved"), "{said}");
}

#[test]
fn a_scheme_in_user_space_that_is_killed_or_stopped_hurts_no_connection() {
    let Some(world) = World::new() else { return };
    for scheme in ["ictcp", "shaper", "hwatch", "pac-letter"] {
        let how = ["--guard", scheme, "--rate", "1gbit"];
        let before = world.receiver_state();
        let mut run = start(&world, &how);
        let mut again = None;
        incast(&world, || {
            run.signal(Signal::SIGKILL);
            run.child.wait().unwrap();
            again = Some(start(&world, &how));
        });
        let run = again.unwrap();
        incast(&world, || run.signal(Signal::SIGSTOP));
        incast(&world, || run.signal(Signal::SIGCONT));
        incast(&world, || ());
        let summary = run.end(Signal::SIGINT);
        assert!(summary["arrivals"].as_u64() > Some(100) && summary["lost"] == 0, "{scheme}: {summary}");
        assert_eq!(world.receiver_state(), before, "{scheme}");
    }
}

#[test]
fn that_it_was_stopped_is_logged_unless_warnings_are_not_wanted() {
    let Some(world) = World::new() else { return };
    for (level, wanted) in [("", true), ("error", false)] {
        let arguments = ["run", "--dev", DEVICE, "--buffer", "8000", "--json"];
        let child = world.receiver(|| ackgate(&arguments).env("RUST_LOG", level).spawn()).unwrap();
        let mut run = Process::new(child);
        while run.line()["event"] != "ready" {}
        run.signal(Signal::SIGSTOP);
        std::thread::sleep(Duration::from_secs(1));
        run.signal(Signal::SIGCONT);
        while run.line()["rescues"].as_u64().unwrap_or(0) == 0 {}
        run.signal(Signal::SIGINT);
        assert!(run.child.wait().unwrap().success());
        let said = run.said();
        assert_eq!(said.contains("this process was stopped for more than"), wanted, "{said}");
    }
}

#[test]
fn fine_timeouts_at_a_sender_that_are_killed_or_stopped_hurt_no_connection() {
    let Some(world) = World::new() else { return };
    let start = || {
        let arguments = ["run", "--dev", SENDER_DEVICE, "--guard", "rto", "--rate", "1gbit", "--json"];
        let mut run = Process::new(world.sender(|| ackgate(&arguments).spawn()).unwrap());
        assert_eq!(run.line()["event"], "ready");
        run
    };
    let links = || world.sender(|| Command::new("ip").args(["-o", "link"]).output()).unwrap().stdout;
    let names = || -> Vec<String> {
        let text = String::from_utf8(links()).unwrap();
        text.lines().map(|line| line.split(':').nth(1).unwrap().trim().to_owned()).collect()
    };
    let before = names();
    let mut run = start();
    let mut again = None;
    incast(&world, || {
        run.signal(Signal::SIGKILL);
        run.child.wait().unwrap();
        again = Some(start());
    });
    let run = again.unwrap();
    incast(&world, || run.signal(Signal::SIGSTOP));
    incast(&world, || run.signal(Signal::SIGCONT));
    incast(&world, || ());
    let summary = run.end(Signal::SIGINT);
    assert!(summary["arrivals"].as_u64() > Some(100) && summary["lost"] == 0, "{summary}");
    assert_eq!(names(), before);
}
