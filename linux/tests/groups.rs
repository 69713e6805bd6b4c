//! Rules that name control groups: the socket on this side decides, whoever opened the connection.
//!
//! Needs root and control groups of version 2; says so and passes where it cannot run.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

mod world;

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use ackgate_control::gate::Config;
use ackgate_control::units::Span;
use ackgate_linux::{Guard, Notice, Options, Selection, hold};
use world::{DEVICE, RECEIVER_V4, RECEIVER_V6, SENDER_V4, SENDER_V6, World};

/// A process is in one group, with all its threads.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A control group of this test, removed when this is dropped.
struct Group {
    root: PathBuf,
    folder: PathBuf,
}

impl Group {
    /// `None`, and says why, where this machine does not let one be made.
    fn new(test: &str) -> Option<Self> {
        let made = ackgate_linux::m21::root_cgroup().map_err(|error| error.to_string()).and_then(|root| {
            let folder = root.join(format!("ackgate-{test}-{}", std::process::id()));
            fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            Ok(Self { root, folder })
        });
        made.inspect_err(|why| eprintln!("skipped: no control group of version 2: {why}")).ok()
    }

    /// The rule that names it.
    fn rule(&self) -> String {
        format!("cgroup /{}", self.folder.file_name().unwrap().to_str().unwrap())
    }

    /// Has this process make something in it.
    fn within<T>(&self, make: impl FnOnce() -> T) -> T {
        let enter = |folder: &Path| fs::write(folder.join("cgroup.procs"), std::process::id().to_string()).unwrap();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap();
        enter(&self.folder);
        let made = make();
        enter(&self.root.join(own));
        made
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

fn options(exclude: &[String], include: &[String]) -> Options {
    let rules = |texts: &[String]| texts.iter().map(|text| text.parse().unwrap()).collect();
    let selection = Selection { exclude: rules(exclude), include: rules(include) };
    Options { gate: Config::new(8_000), selection, ..Options::new(DEVICE, 8_000) }
}

fn connect(from: &World, receiver: bool, listener: &TcpListener) -> TcpStream {
    let address = listener.local_addr().unwrap();
    let open = || TcpStream::connect_timeout(&address, Duration::from_secs(10));
    if receiver { from.receiver(open) } else { from.sender(open) }.unwrap()
}

/// A byte both ways.
fn exchange(mut client: TcpStream, listener: &TcpListener) {
    let (mut server, _) = listener.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    }
    client.write_all(b"a").unwrap();
    server.read_exact(&mut [0]).unwrap();
    server.write_all(b"b").unwrap();
    client.read_exact(&mut [0]).unwrap();
}

/// One connection each way, whose socket at the receiver `make` makes.
fn both_ways(world: &World, make: impl Fn(&dyn Fn())) {
    for (receiver, sender) in
        [(IpAddr::from(RECEIVER_V4), IpAddr::from(SENDER_V4)), (RECEIVER_V6.into(), SENDER_V6.into())]
    {
        let made = Mutex::new(None);
        make(&|| *made.lock().unwrap() = Some(world.receiver(|| TcpListener::bind((receiver, 0))).unwrap()));
        let listener = made.into_inner().unwrap().unwrap();
        exchange(connect(world, false, &listener), &listener);

        let listener = world.sender(|| TcpListener::bind((sender, 0))).unwrap();
        let made = Mutex::new(None);
        make(&|| *made.lock().unwrap() = Some(connect(world, true, &listener)));
        exchange(made.into_inner().unwrap().unwrap(), &listener);
    }
}

#[test]
fn connections_are_told_by_the_group_of_the_socket_on_this_side() {
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    let (Some(world), Some(group)) = (World::new(), Group::new("rules")) else { return };
    let rule = || vec![group.rule()];
    for (exclude, include, left_alone) in [
        (rule(), vec![], 4),
        (vec![], rule(), 4),
        (vec!["cgroup /".to_owned()], vec![], 8),
        (vec![], vec!["cgroup /".to_owned()], 0),
        (vec!["10.99.0.0/24".to_owned()], rule(), 6),
    ] {
        let (summary, ()) = world.guarded(options(&exclude, &include), || {
            both_ways(&world, |make| group.within(make));
            both_ways(&world, |make| make());
        });
        let said = format!("without {exclude:?}, with {include:?}: {summary:?}");
        assert_eq!(summary.excluded, left_alone, "{said}");
    }
}

#[test]
fn a_group_that_is_made_anew_is_found_again() {
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    let (Some(world), Some(group)) = (World::new(), Group::new("anew")) else { return };
    let (summary, ()) = world.guarded(options(&[group.rule()], &[]), || {
        fs::remove_dir(&group.folder).unwrap();
        fs::create_dir(&group.folder).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        both_ways(&world, |make| group.within(make));
    });
    assert_eq!(summary.excluded, 4, "{summary:?}");
}

#[test]
fn a_group_that_is_not_there_is_told_once_and_matches_nothing() {
    let Some(world) = World::new() else { return };
    let Ok(root) = ackgate_linux::m21::root_cgroup() else {
        return eprintln!("skipped: no control groups of version 2");
    };
    let (stop, _signal) = UnixStream::pair().unwrap();
    world.receiver(|| {
        let mut guard = Guard::start(options(&["cgroup /no/such.service".to_owned()], &[])).unwrap();
        let mut notices = Vec::new();
        for _ in 0..2 {
            guard.run(ackgate_linux::now() + Span::millis(1_200), stop.as_fd()).unwrap();
            notices.extend(guard.notices());
        }
        assert_eq!(notices, [Notice::NoGroup { group: root.join("no/such.service") }]);
        assert_eq!(guard.stop().connections, 0);
    });
}

#[test]
fn netfilters_queue_takes_no_groups() {
    let Some(world) = World::new() else { return };
    let refused = world.receiver(|| {
        let options = Options { hold: hold::Choice::NfQueue, ..options(&["cgroup /".to_owned()], &[]) };
        Guard::start(options).map(|_| ()).unwrap_err().to_string()
    });
    assert!(refused.contains("nfqueue"), "{refused}");
}
