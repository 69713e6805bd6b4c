//! The guard beside others: programs and filters at the same hooks, and a device that goes.
//!
//! Needs root; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod world;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ackgate_control::gate::Config;
use ackgate_control::units::Span;
use ackgate_linux::doctor::Finding;
use ackgate_linux::watch::{self, Watch};
use ackgate_linux::{Error, Guard, Notice, Options, attach};
use world::{DEVICE, RECEIVER_TUNNEL, RECEIVER_V4, SENDER_DEVICE, TUNNEL, World};

/// What a program returns to end the chain, and to go on with it.
const OK: i32 = 0;
const NEXT: i32 = -1;

fn options() -> Options {
    Options { gate: Config::new(8_000), ..Options::new(DEVICE, 8_000) }
}

/// A world on a kernel with tcx.
fn world_with_tcx() -> Option<World> {
    let world = World::new()?;
    let report = ackgate_linux::doctor::examine(None);
    let tcx = report.checks.iter().find(|check| check.name == "tcx").unwrap();
    if tcx.finding != Finding::Ok {
        eprintln!("skipped: tcx: {}", tcx.detail);
        return None;
    }
    Some(world)
}

/// Somebody else's program: returns a number and nothing else.
struct Foreign {
    program: OwnedFd,
    _link: OwnedFd,
}

fn owned(fd: i32) -> OwnedFd {
    assert!(fd >= 0, "{}", std::io::Error::from_raw_os_error(-fd));
    // SAFETY: the kernel has just given us this descriptor.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn index() -> i32 {
    nix::net::if_::if_nametoindex(DEVICE).unwrap().cast_signed()
}

impl Foreign {
    /// At the head of the device's hook `kind`, in the calling thread's namespace.
    fn attach(verdict: i32, kind: libbpf_sys::bpf_attach_type) -> Self {
        let mut instructions = [libbpf_sys::bpf_insn::default(); 2];
        instructions[0].code = (libbpf_sys::BPF_ALU64 | libbpf_sys::BPF_MOV | libbpf_sys::BPF_K) as u8;
        instructions[0].imm = verdict;
        instructions[1].code = (libbpf_sys::BPF_JMP | libbpf_sys::BPF_EXIT) as u8;
        // SAFETY: two instructions and terminated strings, alive during the call; null stands for default options.
        let program = owned(unsafe {
            libbpf_sys::bpf_prog_load(
                libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
                c"stranger".as_ptr(),
                c"GPL".as_ptr(),
                instructions.as_ptr(),
                2,
                std::ptr::null_mut(),
            )
        });
        let options = libbpf_sys::bpf_link_create_opts {
            sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
            flags: libbpf_sys::BPF_F_BEFORE,
            ..Default::default()
        };
        // SAFETY: integers, and options that are alive during the call.
        let link =
            owned(unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), index(), kind, &raw const options) });
        Self { program, _link: link }
    }

    /// Packets that it ran for while the kernel counted.
    fn runs(&self) -> u64 {
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
        // SAFETY: `info` is as long as said, and its pointers are null.
        let result =
            unsafe { libbpf_sys::bpf_prog_get_info_by_fd(self.program.as_raw_fd(), &raw mut info, &raw mut length) };
        assert_eq!(result, 0);
        info.run_cnt
    }
}

/// Guards until `enough` or half a minute has passed; returns what the guard had to tell and how it ended.
fn guard_until(
    world: &World,
    options: Options,
    started: impl FnOnce() + Send,
    enough: impl Fn(&[Notice]) -> bool + Send + Sync,
) -> (Vec<Notice>, Result<(), Error>) {
    world.receiver(|| {
        let (stop, _keep) = UnixStream::pair().unwrap();
        let mut guard = Guard::start(options).unwrap();
        started();
        let mut told = Vec::new();
        let until = Instant::now() + Duration::from_secs(30);
        let mut end = Ok(());
        while end.is_ok() && !enough(&told) && Instant::now() < until {
            end = guard.run(ackgate_linux::now() + Span::millis(200), stop.as_fd()).map(drop);
            told.append(&mut guard.notices());
        }
        let _ = guard.stop();
        (told, end)
    })
}

fn run(command: &str) {
    let mut words = command.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_program_that_ends_the_chain_hides_nothing_and_sees_what_is_released() {
    let Some(world) = world_with_tcx() else { return };
    let [_ingress, egress] = world
        .receiver(|| [libbpf_sys::BPF_TCX_INGRESS, libbpf_sys::BPF_TCX_EGRESS].map(|hook| Foreign::attach(OK, hook)));
    let (summary, ()) = world.guarded(Options { bpf_stats: true, ..options() }, || world.incast(RECEIVER_V4));
    assert!(summary.arrivals > 0 && summary.passed > 0 && summary.released > 0, "{summary:?}");
    assert_eq!(summary.lost, 0, "{summary:?}");
    assert!(egress.runs() >= summary.passed + summary.released, "{} of {summary:?}", egress.runs());
}

#[test]
fn a_guard_below_a_tunnel_says_where_to_guard_instead() {
    let Some(world) = World::new() else { return };
    if !world.add_tunnel() {
        return;
    }
    let done = AtomicBool::new(false);
    let (told, end) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                world.incast(RECEIVER_TUNNEL);
            }
        });
        let told = guard_until(&world, options(), || (), |told| !told.is_empty());
        done.store(true, Ordering::Relaxed);
        told
    });
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(told, [Notice::Tunnelled { tunnels: vec![TUNNEL.to_owned()] }]);
    assert!(told[0].to_string().contains(TUNNEL), "{}", told[0]);
    let noted = |device| {
        let report = world.receiver(|| ackgate_linux::doctor::examine(Some(device)));
        report.checks.iter().any(|check| check.name == "tunnels" && check.detail.contains(TUNNEL))
    };
    assert!(noted(DEVICE) && !noted(TUNNEL));
}

#[test]
fn whoever_comes_in_front_later_is_told_and_so_is_what_it_hides() {
    let Some(world) = world_with_tcx() else { return };
    let done = AtomicBool::new(false);
    let (told, end) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                world.incast(RECEIVER_V4);
            }
        });
        let foreign = std::sync::Mutex::new(None);
        let put = || *foreign.lock().unwrap() = Some(Foreign::attach(OK, libbpf_sys::BPF_TCX_INGRESS));
        let hidden = |told: &[Notice]| told.iter().any(|notice| matches!(notice, Notice::NoArrivals { .. }));
        let outcome = guard_until(&world, options(), put, hidden);
        done.store(true, Ordering::Relaxed);
        outcome
    });
    end.unwrap();
    let front = told.iter().find_map(|notice| match notice {
        Notice::InFront { hook: "ingress", program } => Some(program.clone()),
        _ => None,
    });
    assert!(front.is_some_and(|program| program.contains("stranger")), "{told:?}");
    let hidden = told.iter().find(|notice| matches!(notice, Notice::NoArrivals { .. })).unwrap().to_string();
    assert!(hidden.contains("stranger") && hidden.contains("restart ackgate"), "{hidden}");
}

#[test]
fn a_program_that_goes_on_hides_nothing_and_nothing_is_said_of_hiding() {
    let Some(world) = world_with_tcx() else { return };
    let foreign = world.receiver(|| Foreign::attach(NEXT, libbpf_sys::BPF_TCX_EGRESS));
    let begin = Instant::now();
    // Several looks around.
    let enough = move |_: &[Notice]| begin.elapsed() > Duration::from_secs(4);
    let (told, end) = guard_until(&world, options(), || world.incast(RECEIVER_V4), enough);
    end.unwrap();
    assert_eq!(told, []);
    drop(foreign);
}

#[test]
fn a_watch_stands_behind_the_guard() {
    let Some(world) = world_with_tcx() else { return };
    let watch = std::sync::Mutex::new(None);
    let settings =
        watch::Options { device: DEVICE.into(), width: Span::millis(1), stall: Span::millis(150), bpf_stats: false };
    let order = || attach::tcx_programs(DEVICE).unwrap();
    let put = || {
        *watch.lock().unwrap() = Some(Watch::start(&settings).unwrap());
        assert_eq!(order()[..2], ["ackgate_ingress", watch::PROGRAM], "arrivals first");
    };
    let begin = Instant::now();
    let enough = move |_: &[Notice]| begin.elapsed() > Duration::from_secs(3);
    let (told, end) = guard_until(&world, options(), put, enough);
    end.unwrap();
    assert_eq!(told, []);
}

/// Connections to a port of the receiver, which the receiver accepts.
fn connections(world: &World, listener: &TcpListener, port: u16, count: usize) -> Vec<[TcpStream; 2]> {
    let address = (RECEIVER_V4, port).into();
    let one = |_| {
        let sender = world.sender(|| TcpStream::connect_timeout(&address, Duration::from_secs(10))).unwrap();
        [sender, listener.accept().unwrap().0]
    };
    (0..count).map(one).collect()
}

/// A guard, and what it tells while its connections are busy for more than a second.
fn busy(guard: &mut Guard, pairs: &mut [[TcpStream; 2]]) -> (u64, u64, Vec<Notice>) {
    let (stop, _keep) = UnixStream::pair().unwrap();
    for _ in 0..10 {
        for [sender, receiver] in &mut *pairs {
            sender.write_all(&[1; 1000]).unwrap();
            receiver.read_exact(&mut [0; 1000]).unwrap();
        }
        guard.run(ackgate_linux::now() + Span::millis(150), stop.as_fd()).unwrap();
    }
    let snapshot = guard.snapshot();
    (snapshot.senders, snapshot.older, guard.notices())
}

#[test]
fn connections_of_this_host_that_are_older_than_the_guard_are_guarded_like_others() {
    let Some(world) = World::new() else { return };
    let (first, second, summary) = world.receiver(|| {
        let listener = TcpListener::bind((RECEIVER_V4, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut pairs = connections(&world, &listener, port, 5);
        let credit = Options { gate: Config::credit(8_000), ..Options::new(DEVICE, 8_000) };
        let mut guard = Guard::start(credit).unwrap();
        let first = busy(&mut guard, &mut pairs);
        pairs.extend(connections(&world, &listener, port, 2));
        let second = busy(&mut guard, &mut pairs);
        (first, second, guard.stop())
    });
    assert_eq!(first, (5, 0, vec![]));
    assert_eq!(second, (7, 0, vec![]));
    assert!(summary.rewritten > 0, "five times 64 KB do not fit 8 KB: {summary:?}");
}

#[test]
fn connections_that_are_older_than_the_guard_and_not_found_are_counted_and_told() {
    let Some(world) = World::new() else { return };
    let ends = world.receiver(|| {
        let listener = TcpListener::bind((RECEIVER_V4, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        // The kernel has no socket with the port that the frames carry.
        let rule = format!("-t nat -A PREROUTING -i {DEVICE} -p tcp --dport 7 -j REDIRECT --to-ports {port}");
        let writes =
            |name: &&str| Command::new(name).args(rule.split(' ')).status().is_ok_and(|status| status.success());
        if !["iptables-legacy", "iptables"].iter().any(writes) {
            return None;
        }
        let mut pairs = connections(&world, &listener, 7, 5);
        let mut guard = Guard::start(options()).unwrap();
        let first = busy(&mut guard, &mut pairs);
        pairs.extend(connections(&world, &listener, 7, 2));
        let second = busy(&mut guard, &mut pairs);
        let _ = guard.stop();
        Some((first, second))
    });
    let Some((first, second)) = ends else {
        eprintln!("skipped: no address translation here");
        return;
    };
    assert_eq!(first, (5, 5, vec![Notice::OlderConnections]));
    assert_eq!(second, (7, 5, vec![]), "told once");
}

#[test]
fn a_device_that_goes_ends_the_guard() {
    for way in ["delete", "namespace", "move"] {
        let Some(world) = World::new() else { return };
        let go = || match way {
            "delete" => run(&format!("ip link del {DEVICE}")),
            // As when a container ends: the namespace that has the other end goes, and both ends with it.
            "namespace" => {
                let made = std::thread::spawn(|| {
                    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
                    std::fs::File::open("/proc/thread-self/ns/net").unwrap()
                });
                let container = made.join().unwrap();
                let path = format!("/proc/{}/fd/{}", std::process::id(), container.as_raw_fd());
                world.sender(|| run(&format!("ip link set {SENDER_DEVICE} netns {path}")));
            }
            _ => {
                let elsewhere = world.sender(|| std::fs::File::open("/proc/thread-self/ns/net")).unwrap();
                run(&format!("ip link set {DEVICE} netns /proc/{}/fd/{}", std::process::id(), elsewhere.as_raw_fd()));
            }
        };
        let (_, end) = guard_until(&world, options(), go, |_| false);
        assert!(matches!(&end, Err(Error::Gone(device)) if device == DEVICE), "{way}: {end:?}");
        assert!(!end.unwrap_err().is_refusal(), "it worked until then");
    }
}

#[test]
fn programs_that_somebody_takes_off_end_the_guard() {
    let Some(world) = world_with_tcx() else { return };
    let take_off = || {
        let mut ids = [0_u32; 64];
        let mut query = libbpf_sys::bpf_prog_query_opts {
            sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
            link_ids: ids.as_mut_ptr(),
            ..Default::default()
        };
        query.__bindgen_anon_1.count = ids.len() as u32;
        let mut programs = [0_u32; 64];
        query.prog_ids = programs.as_mut_ptr();
        // SAFETY: the arrays have room for as many as `count` says and are alive during the call.
        let result = unsafe { libbpf_sys::bpf_prog_query_opts(index(), libbpf_sys::BPF_TCX_EGRESS, &raw mut query) };
        assert_eq!(result, 0);
        // SAFETY: plain integers.
        let link = owned(unsafe { libbpf_sys::bpf_link_get_fd_by_id(ids[0]) });
        // SAFETY: a descriptor that is open.
        assert_eq!(unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) }, 0);
    };
    let (_, end) = guard_until(&world, options(), take_off, |_| false);
    assert!(matches!(end, Err(Error::Detached(_))), "{end:?}");
}

#[test]
fn filters_that_somebody_takes_off_end_the_guard() {
    let Some(world) = World::new() else { return };
    let take_off = || run(&format!("tc qdisc del dev {DEVICE} clsact"));
    let filters = Options { attach: attach::Choice::Clsact, ..options() };
    let (_, end) = guard_until(&world, filters, take_off, |_| false);
    assert!(matches!(end, Err(Error::Detached(_))), "{end:?}");
}

#[test]
fn what_is_in_the_way_is_named_and_left_as_it_is() {
    let filter = "protocol ip prio 1 u32 match ip protocol 17 0xff flowid 1:1";
    let cases = [
        (vec![format!("tc qdisc add dev {DEVICE} ingress")], "`ingress` qdisc"),
        (
            vec![format!("tc qdisc add dev {DEVICE} clsact"), format!("tc filter add dev {DEVICE} egress {filter}")],
            "at priority 1",
        ),
        (vec![format!("ip link set {DEVICE} down")], "is down"),
    ];
    for (commands, what) in cases {
        let Some(world) = World::new() else { return };
        world.receiver(|| commands.iter().for_each(|command| run(command)));
        let before = world.receiver_state();
        let refused =
            world.receiver(|| Guard::start(Options { attach: attach::Choice::Clsact, ..options() }).map(drop));
        let error = refused.unwrap_err();
        assert!(error.is_refusal() && error.to_string().contains(what), "{error}");
        assert_eq!(world.receiver_state(), before);
    }
}
