//! A daemon that is stopped or killed while it holds segments and has lowered windows: no connection is to wait for a timer of its
//! TCP. Real TCP between two namespaces; the guard is a process of its own, for only that can be stopped.
//!
//! Needs root; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod world;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ackgate_control::flow::FlowKey;
use ackgate_control::gate::Config;
use ackgate_control::segment::Segment;
use ackgate_control::units::Time;
use ackgate_control::wire::{self, Checksum, Direction, Meta};
use ackgate_linux::netstat::counters;
use ackgate_linux::{Guard, Options, attach, hold};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use world::{DEVICE, RECEIVER_V4, RECEIVER_V6, World};

/// What the guard's process is told to do, for its first connection with its parent.
const HOW: &str = "ACKGATE_TEST_GUARD";
/// The kernel's queue for what arrives from another namespace is one for each processor (`net.core.netdev_max_backlog`), and so is the
/// time of the processors: several of these loads at once lose segments to each other, and their timers fire for it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// How long something may take before it is taken for hung.
const PATIENCE: Duration = Duration::from_secs(20);

/// Not a test: the process that guards in the others. It guards until its standard input ends.
#[test]
#[ignore = "the others start it"]
fn guard_process() {
    let Ok(how) = std::env::var(HOW) else { return };
    let [guard, hold, attach] = how.split(' ').collect::<Vec<_>>()[..] else { panic!("{how}") };
    let pac = if guard == "pac" { Config::new(BUFFER) } else { Config::credit(BUFFER) };
    let hold = match hold {
        "redirect" => hold::Choice::Redirect,
        "nfqueue" => hold::Choice::NfQueue,
        _ => hold::Choice::Ring,
    };
    let attach = if attach == "clsact" { attach::Choice::Clsact } else { attach::Choice::Auto };
    let mut guard = Guard::start(Options { gate: pac, hold, attach, ..Options::new(DEVICE, BUFFER) }).unwrap();
    println!("\nready");
    guard.run(Time::NEVER, std::io::stdin().as_fd()).unwrap();
    println!("\n{} rescues", guard.stop().rescues);
}

/// Small enough for nearly everything to wait.
const BUFFER: u64 = 16_000;

/// One test's failure is not the others'.
fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Daemon {
    child: Child,
    lines: BufReader<ChildStdout>,
    stdin: Option<ChildStdin>,
}

impl Daemon {
    fn start(world: &World, how: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "guard_process", "--ignored", "--nocapture"]).env(HOW, how);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = world.receiver(|| command.spawn()).unwrap();
        let (stdin, lines) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut daemon = Self { child, lines, stdin };
        daemon.wait_for("ready");
        daemon
    }

    fn wait_for(&mut self, what: &str) -> String {
        let mut line = String::new();
        while !line.trim_end().ends_with(what) {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended before it said `{what}`");
        }
        line
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Ends it in peace; says how often its standby has acted.
    fn stop(mut self) -> u64 {
        drop(self.stdin.take());
        let line = self.wait_for("rescues");
        assert!(self.child.wait().unwrap().success());
        line.split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It has mostly ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const CONNECTIONS: usize = 80;
/// Bytes of a request, of what is sent with it to no effect, and of a response.
const REQUEST: usize = 100;
const RESPONSE: usize = 64_000;

/// Connections on which the receiver asks and the senders answer, over and over.
struct Load<'a> {
    done: &'a [AtomicU32],
}

impl Load<'_> {
    /// Waits until every connection has done so many more exchanges.
    fn wait_for_all(&self, more: u32) {
        let goals: Vec<u32> = self.done.iter().map(|done| done.load(Ordering::Relaxed) + more).collect();
        let until = Instant::now() + PATIENCE;
        while self.done.iter().zip(&goals).any(|(done, &goal)| done.load(Ordering::Relaxed) < goal) {
            assert!(Instant::now() < until, "a connection stands");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs `disturb` beside the load, over connections to these addresses in turn.
fn under_load(world: &World, addresses: &[IpAddr], disturb: impl FnOnce(&Load<'_>)) {
    let stop = AtomicBool::new(false);
    let done: Vec<AtomicU32> = (0..CONNECTIONS).map(|_| AtomicU32::new(0)).collect();
    let listeners: Vec<TcpListener> =
        addresses.iter().map(|&address| world.receiver(|| TcpListener::bind((address, 0))).unwrap()).collect();
    std::thread::scope(|scope| {
        let (stop, done) = (&stop, &done);
        for (index, done) in done.iter().enumerate() {
            let listener = &listeners[index % listeners.len()];
            let to: SocketAddr = listener.local_addr().unwrap();
            let mut server = world.sender(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap();
            let mut client = listener.accept().unwrap().0;
            for stream in [&server, &client] {
                stream.set_nodelay(true).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
            }
            scope.spawn(move || {
                let (mut request, response) = ([0; REQUEST], vec![1; RESPONSE]);
                while server.read_exact(&mut request).is_ok() && server.write_all(&response).is_ok() {}
            });
            scope.spawn(move || {
                let mut response = vec![0; RESPONSE];
                while !stop.load(Ordering::Relaxed) {
                    client.write_all(&[2; REQUEST]).unwrap();
                    client.read_exact(&mut response).unwrap();
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let disturbed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| disturb(&Load { done })));
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = disturbed {
            std::panic::resume_unwind(panic);
        }
    });
}

/// How often a timer of TCP's has fired on either host because nothing was heard: retransmissions and window probes.
fn timers(world: &World) -> u64 {
    let count = || {
        let text = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
        counters(&text)
            .filter(|(_, name, _)| ["TCPTimeouts", "TCPWinProbe"].contains(name))
            .map(|(_, _, value)| value)
            .sum::<u64>()
    };
    world.sender(count) + world.receiver(count)
}

/// The guards and ways to hold that are tried, where this host has them.
fn ways() -> Vec<&'static str> {
    let mut ways = vec!["credit ring auto", "pac ring auto", "credit redirect clsact", "pac redirect auto"];
    let report = ackgate_linux::doctor::examine(None);
    let queue = report.checks.iter().find(|check| check.name == "nfqueue").unwrap();
    if queue.finding == ackgate_linux::doctor::Finding::Ok {
        ways.extend(["credit nfqueue auto", "pac nfqueue clsact"]);
    } else {
        eprintln!("skipped: nfqueue: {}", queue.detail);
    }
    ways
}

const V4: [IpAddr; 1] = [IpAddr::V4(RECEIVER_V4)];

/// Without anybody to see to them, the timers of nearly all fire. Some had run for long when the daemon was stopped: senders wait for
/// their turn, too.
fn assert_not_all(timers: u64, what: &str) {
    assert!(
        timers * 4 < CONNECTIONS as u64 * 3,
        "{what}: TCP's timers fired {timers} times for {CONNECTIONS} connections"
    );
}

#[test]
fn while_the_daemon_is_stopped_no_connection_waits_for_a_timer() {
    let _alone = alone();
    let Some(world) = World::new() else { return };
    for way in ways() {
        let daemon = Daemon::start(&world, way);
        under_load(&world, &V4, |load| {
            load.wait_for_all(2);
            let before = timers(&world);
            daemon.signal(Signal::SIGSTOP);
            // On a fast host three answers may come before the standby finds the heartbeat stale.
            std::thread::sleep(Duration::from_millis(500));
            load.wait_for_all(3);
            assert_not_all(timers(&world) - before, way);
            daemon.signal(Signal::SIGCONT);
            load.wait_for_all(3);
        });
        assert!(daemon.stop() > 0, "{way}: it must have been the standby that saw to it");
    }
}

#[test]
fn a_daemon_that_is_told_to_end_while_it_is_stopped_knows_that_its_standby_has_acted() {
    let _alone = alone();
    let Some(world) = World::new() else { return };
    let mut daemon = Daemon::start(&world, "credit ring auto");
    under_load(&world, &V4, |load| {
        load.wait_for_all(2);
        daemon.signal(Signal::SIGSTOP);
        std::thread::sleep(Duration::from_millis(500));
        drop(daemon.stdin.take());
        daemon.signal(Signal::SIGCONT);
        load.wait_for_all(3);
    });
    assert!(daemon.stop() > 0, "else it sends again what the standby has sent");
}

#[test]
fn after_a_kill_no_connection_waits_for_a_timer() {
    let _alone = alone();
    let Some(world) = World::new() else { return };
    for way in ways() {
        let state = world.receiver_state();
        let mut daemon = Daemon::start(&world, way);
        under_load(&world, &V4, |load| {
            load.wait_for_all(2);
            let before = timers(&world);
            daemon.signal(Signal::SIGKILL);
            daemon.child.wait().unwrap();
            load.wait_for_all(3);
            assert_not_all(timers(&world) - before, way);
        });
        let until = Instant::now() + PATIENCE;
        while world.receiver_state() != state {
            assert!(Instant::now() < until, "{way} left: {}", world.receiver_state());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn taking_the_guard_off_leaves_no_connection_waiting_for_a_timer() {
    let _alone = alone();
    let Some(world) = World::new() else { return };
    for way in ways() {
        let mut daemon = Some(Daemon::start(&world, way));
        under_load(&world, &V4, |load| {
            load.wait_for_all(2);
            let before = timers(&world);
            assert_eq!(daemon.take().unwrap().stop(), 0);
            load.wait_for_all(3);
            assert_not_all(timers(&world) - before, way);
        });
    }
}

/// What connections have said on the wire.
#[derive(Default)]
struct Said {
    last: HashMap<FlowKey, Segment>,
    segments: u32,
    /// Segments that say less than one before them.
    outdated: u32,
}

impl Said {
    fn hear(&mut self, frame: &mut [u8]) {
        let Ok(packet) = wire::parse(frame, &Meta::whole(frame), Direction::Egress) else { return };
        let segment = packet.segment;
        // What a virtual device is handed without a checksum has the pseudo-header's.
        assert_ne!(wire::complete_checksum(frame, &packet.layout), Checksum::Wrong, "{segment:?}");
        self.segments += 1;
        if let Some(before) = self.last.get(&packet.key) {
            let (now, then) = (segment.timestamps.unwrap(), before.timestamps.unwrap());
            let older = |now: u32, then: u32| now.wrapping_sub(then).cast_signed() < 0;
            let sequence = segment.payload == 0 && segment.seq.before(before.end());
            let outdated = segment.ack.before(before.ack) || older(now.0, then.0) || older(now.1, then.1) || sequence;
            self.outdated += u32::from(outdated);
            if outdated {
                return;
            }
        }
        self.last.insert(packet.key, segment);
    }
}

#[test]
fn what_goes_out_is_current_at_every_moment() {
    let _alone = alone();
    let Some(world) = World::new() else { return };
    let mut addresses = vec![IpAddr::V4(RECEIVER_V4), IpAddr::V6(RECEIVER_V6)];
    addresses.extend(world.add_vlan().then_some(IpAddr::V4(world::RECEIVER_VLAN)));
    for way in ["credit ring auto", "pac ring auto"] {
        let daemon = Daemon::start(&world, way);
        let capture = world.arrivals();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut said = Said::default();
                while !over.load(Ordering::Relaxed) {
                    capture.frames(|frame| said.hear(frame));
                }
                said
            });
            let load = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                under_load(&world, &addresses, |load| {
                    load.wait_for_all(2);
                    daemon.signal(Signal::SIGSTOP);
                    load.wait_for_all(3);
                    daemon.signal(Signal::SIGCONT);
                    load.wait_for_all(3);
                });
            }));
            over.store(true, Ordering::Relaxed);
            if let Err(panic) = load {
                std::panic::resume_unwind(panic);
            }
            let Said { segments, outdated, .. } = reader.join().unwrap();
            // Between the last look and the device another processor may have sent something.
            assert!(
                segments > 1000 && outdated * 100 < segments,
                "{way}: {outdated} of {segments} segments are outdated"
            );
        });
        assert!(daemon.stop() >= 1);
    }
}
