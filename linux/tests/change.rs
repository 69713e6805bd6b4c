//! Settings that change while a device is guarded, and connections that are left alone.
//!
//! Needs root; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod world;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ackgate_control::gate::Config;
use ackgate_control::units::{Span, Time};
use ackgate_linux::doctor::Finding;
use ackgate_linux::{Change, Guard, Options, Outcome, Selection, Summary, attach, hold};
use world::{DEVICE, RECEIVER_V4, World};

const BYTES: usize = 1_000_000;
const SENDERS: usize = 8;

fn options() -> Options {
    Options { gate: Config::new(8_000), ..Options::new(DEVICE, 8_000) }
}

fn listen(world: &World) -> TcpListener {
    world.receiver(|| TcpListener::bind((RECEIVER_V4, 0))).unwrap()
}

/// Eight senders at once to a listener; panics unless every byte arrives.
fn incast(world: &World, listener: &TcpListener) {
    let address: SocketAddr = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..SENDERS {
            let mut stream = world.sender(|| TcpStream::connect_timeout(&address, Duration::from_secs(10))).unwrap();
            scope.spawn(move || stream.write_all(&vec![1; BYTES]).unwrap());
        }
        for _ in 0..SENDERS {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            scope.spawn(move || {
                let mut data = Vec::new();
                assert_eq!(stream.read_to_end(&mut data).unwrap(), BYTES);
            });
        }
    });
}

/// Loads programs with other settings while the guard runs.
fn loaded(guard: &mut Guard, wanted: Options, stop: &UnixStream) -> Change {
    let preparation = guard.prepare(wanted).unwrap();
    let loading = std::thread::spawn(move || preparation.load().unwrap());
    while !loading.is_finished() || guard.snapshot().held == 0 && guard.snapshot().senders > 0 {
        guard.run(ackgate_linux::now() + Span::micros(200), stop.as_fd()).unwrap();
    }
    loading.join().unwrap()
}

/// Runs a guard until something is held, changes it then, and runs it to the end of the load.
fn change_while_held(world: &World, first: Options, second: Options) -> Summary {
    let listener = listen(world);
    let (stop, mut signal) = UnixStream::pair().unwrap();
    let (ready, wait) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let guard = scope.spawn(move || {
            world.receiver(move || {
                let mut guard = Guard::start(first).unwrap();
                ready.send(()).unwrap();
                let until = Instant::now() + Duration::from_secs(30);
                while guard.snapshot().held == 0 {
                    assert!(Instant::now() < until, "nothing is ever held");
                    guard.run(ackgate_linux::now() + Span::micros(200), stop.as_fd()).unwrap();
                }
                let change = loaded(&mut guard, second.clone(), &stop);
                let before = guard.snapshot();
                guard.adopt(change).unwrap();
                let after = guard.snapshot();
                assert!(after.held >= before.held, "{before:?} {after:?}");
                assert_eq!(after.released, before.released);
                assert_eq!(after.threshold > before.threshold, second.gate.buffer > 8_000, "{before:?} {after:?}");
                assert_eq!(guard.run(Time::NEVER, stop.as_fd()).unwrap(), Outcome::Stopped);
                assert_eq!(guard.notices(), [], "our programs are still the first");
                guard.stop()
            })
        });
        wait.recv().unwrap();
        incast(world, &listener);
        // The watch on neighbours looks once a second.
        std::thread::sleep(Duration::from_millis(1200));
        signal.write_all(b"x").unwrap();
        guard.join().unwrap()
    })
}

#[test]
fn settings_change_without_letting_go_of_what_is_held() {
    let Some(world) = World::new() else { return };
    let report = ackgate_linux::doctor::examine(None);
    let tcx = report.checks.iter().any(|check| check.name == "tcx" && check.finding == Finding::Ok);
    let mut ways = vec![(attach::Choice::Clsact, hold::Choice::Ring), (attach::Choice::Clsact, hold::Choice::Redirect)];
    if tcx {
        ways.push((attach::Choice::Tcx, hold::Choice::Ring));
    }
    for (attach, hold) in ways {
        let before = world.receiver_state();
        let first = Options { attach, hold, ..options() };
        let larger = Config { max_hold: Span::millis(80), rate_mbps: 1000, ..Config::new(64_000) };
        let second = Options { gate: larger, batch: Some(3000), step_aside: Some(Span::secs(30)), ..first.clone() };
        let summary = change_while_held(&world, first, second);
        assert!(summary.released > 0 && summary.rescues == 0 && summary.lost == 0, "{summary:?}");
        assert_eq!(summary.connections, SENDERS as u64, "the connections are still known");
        assert_eq!(world.receiver_state(), before);
    }
}

#[test]
fn what_needs_another_attachment_is_refused_by_name() {
    let Some(world) = World::new() else { return };
    world.receiver(|| {
        let mut guard = Guard::start(options()).unwrap();
        for (name, wanted) in [
            ("guard", Options { gate: Config::credit(8_000), ..options() }),
            ("hold", Options { hold: hold::Choice::Redirect, ..options() }),
            ("observe", Options { observe: true, ..options() }),
        ] {
            let said = guard.prepare(wanted).unwrap_err().to_string();
            assert!(said.starts_with(name), "{said}");
        }
        guard.adopt(guard.prepare(options()).unwrap().load().unwrap()).unwrap();
    });
}

fn selection(exclude: &[String], include: &[String]) -> Selection {
    let rules = |texts: &[String]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Selection { exclude: rules(exclude), include: rules(include) }
}

#[test]
fn what_is_excluded_is_left_alone_and_counted() {
    let Some(world) = World::new() else { return };
    let (ours, theirs) = (listen(&world), listen(&world));
    let port = |listener: &TcpListener| format!("port {}", listener.local_addr().unwrap().port());
    let text = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let both = SENDERS as u64 * 2;
    for (exclude, include, left_alone) in [
        (vec![port(&theirs)], vec![], both / 2),
        (vec![], vec![port(&ours)], both / 2),
        (text(&["10.99.0.0/24"]), text(&["10.99.0.2"]), both),
        (text(&["10.98.0.0/16", "fd00::/8"]), vec![], 0),
        (vec![], text(&["10.0.0.0/8"]), 0),
    ] {
        let options = Options { selection: selection(&exclude, &include), ..options() };
        let (summary, ()) = world.guarded(options, || {
            incast(&world, &ours);
            incast(&world, &theirs);
        });
        let said = format!("without {exclude:?}, with {include:?}: {summary:?}");
        assert_eq!((summary.excluded, summary.connections), (left_alone, both - left_alone), "{said}");
        assert_eq!(summary.released > 0, left_alone < both, "{said}");
    }
}

#[test]
fn rules_that_change_hold_for_connections_seen_from_then_on() {
    let Some(world) = World::new() else { return };
    let listener = listen(&world);
    let (stop, _signal) = UnixStream::pair().unwrap();
    let nobody = || Options { selection: selection(&["10.99.0.2".into()], &[]), ..options() };
    let each = SENDERS as u64;
    world.receiver(|| {
        let mut guard = Guard::start(options()).unwrap();
        for (wanted, counted) in [(options(), 0), (nobody(), each), (nobody(), 2 * each), (options(), 2 * each)] {
            let change = guard.prepare(wanted).unwrap().load().unwrap();
            guard.adopt(change).unwrap();
            std::thread::scope(|scope| {
                let load = scope.spawn(|| incast(&world, &listener));
                while !load.is_finished() {
                    guard.run(ackgate_linux::now() + Span::millis(1), stop.as_fd()).unwrap();
                }
                load.join().unwrap();
            });
            assert_eq!(guard.snapshot().excluded, counted);
        }
        assert_eq!(guard.stop().connections, 2 * each);
    });
}
