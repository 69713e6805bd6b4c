//! A sender's and a receiver's network namespace, joined by a pair of virtual devices; both go when this goes.

#![allow(dead_code, reason = "each test uses its own part")]
#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;

use ackgate_control::flow::FlowKey;
use ackgate_control::units::Time;
use ackgate_linux::{Error, Guard, Options, Outcome, Summary};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

/// The receiver's device, which is guarded.
pub(crate) const DEVICE: &str = "guarded0";
pub(crate) const RECEIVER_V4: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
pub(crate) const SENDER_V4: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
pub(crate) const RECEIVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 1);

/// In VLAN 10, which `World::add_vlan` adds.
pub(crate) const RECEIVER_VLAN: Ipv4Addr = Ipv4Addr::new(10, 99, 1, 1);

pub(crate) struct World {
    sender: File,
    receiver: File,
}

impl World {
    /// `None`, with a word on standard error, where this process may not make namespaces or load BPF programs.
    pub(crate) fn new() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: guarding an interface needs root");
            return None;
        }
        let namespace = || {
            let made = std::thread::spawn(|| {
                unshare(CloneFlags::CLONE_NEWNET)?;
                File::open("/proc/thread-self/ns/net")
            });
            made.join().unwrap()
        };
        let (sender, receiver) = match (namespace(), namespace()) {
            (Ok(sender), Ok(receiver)) => (sender, receiver),
            (Err(error), _) | (_, Err(error)) => {
                eprintln!("skipped: cannot make a network namespace: {error}");
                return None;
            }
        };
        let world = Self { sender, receiver };
        let far = format!("/proc/{}/fd/{}", std::process::id(), world.sender.as_raw_fd());
        world.receiver(|| {
            ip(&format!("link add {DEVICE} type veth peer name sender0"));
            ip(&format!("link set sender0 netns {far}"));
            ip(&format!("addr add {RECEIVER_V4}/24 dev {DEVICE}"));
            ip(&format!("addr add {RECEIVER_V6}/64 dev {DEVICE} nodad"));
            ip(&format!("link set {DEVICE} up"));
        });
        world.sender(|| {
            ip(&format!("addr add {SENDER_V4}/24 dev sender0"));
            ip("addr add fd99::2/64 dev sender0 nodad");
            ip("link set sender0 up");
        });
        Some(world)
    }

    /// Adds a VLAN over both devices; false, with a word on standard error, where the kernel has none.
    pub(crate) fn add_vlan(&self) -> bool {
        let add = |device: &str, address: &str| {
            let link = format!("link add link {device} name vlan10 type vlan id 10");
            let output = Command::new("ip").args(link.split(' ')).output().unwrap();
            if !output.status.success() {
                eprintln!("skipped: VLAN: {}", String::from_utf8_lossy(&output.stderr).trim());
                return false;
            }
            ip(&format!("addr add {address}/24 dev vlan10"));
            ip("link set vlan10 up");
            true
        };
        self.receiver(|| add(DEVICE, &RECEIVER_VLAN.to_string())) && self.sender(|| add("sender0", "10.99.1.2"))
    }

    /// Sees what arrives at the sender's device from now on.
    pub(crate) fn capture(&self) -> Capture {
        self.sender(|| {
            let index = nix::net::if_::if_nametoindex("sender0").unwrap();
            // SAFETY: plain integers; the descriptor that comes back is ours alone. Protocol 0 receives nothing yet.
            let socket = unsafe {
                let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
                assert!(fd >= 0, "{}", io::Error::last_os_error());
                OwnedFd::from_raw_fd(fd)
            };
            setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20)).unwrap();
            setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::milliseconds(20)).unwrap();
            // SAFETY: an all-zero sockaddr_ll is valid.
            let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
            address.sll_ifindex = index.cast_signed();
            // SAFETY: address and length describe a sockaddr_ll that is alive during the call.
            let bound = unsafe {
                libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as u32)
            };
            assert_eq!(bound, 0, "{}", io::Error::last_os_error());
            Capture(socket)
        })
    }

    /// Runs something as the sending host.
    pub(crate) fn sender<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        inside(&self.sender, run)
    }

    /// Runs something as the receiving host.
    pub(crate) fn receiver<T: Send>(&self, run: impl FnOnce() -> T + Send) -> T {
        inside(&self.receiver, run)
    }

    /// Runs something while the receiver's device is guarded.
    pub(crate) fn guarded<T>(&self, options: Options, run: impl FnOnce() -> T) -> (Summary, T) {
        let (stop, mut signal) = UnixStream::pair().unwrap();
        let (ready, wait) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let guard = scope.spawn(move || {
                inside(&self.receiver, move || {
                    let mut guard = Guard::start(options)?;
                    ready.send(()).unwrap();
                    assert_eq!(guard.run(Time::NEVER, stop.as_fd())?, Outcome::Stopped);
                    Ok::<_, Error>(guard.stop())
                })
            });
            if wait.recv().is_err() {
                panic!("no guard: {:?}", guard.join().unwrap());
            }
            // Whatever comes of it, the guard must end, or this would never return.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            io::Write::write_all(&mut signal, b"x").unwrap();
            let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (guard.join().unwrap().unwrap(), done)
        })
    }

    /// Devices, qdiscs, filters and netfilter rules of the receiver.
    pub(crate) fn receiver_state(&self) -> String {
        self.receiver(|| {
            let show = |program: &str, arguments: &str| {
                // What is not installed has nothing to show.
                let output = Command::new(program).args(arguments.split(' ')).output();
                output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
            };
            let links = show("ip", "-o link")
                .lines()
                .map(|line| line.split('@').next().unwrap().to_owned() + "\n")
                .collect::<String>();
            let filters = show("tc", &format!("filter show dev {DEVICE} egress"));
            let rules = show("iptables-legacy", "-t mangle -S") + &show("ip6tables-legacy", "-t mangle -S");
            links + &show("tc", &format!("qdisc show dev {DEVICE}")) + &filters + &rules
        })
    }

    /// Sends frames as they are from the sender's device. Those that the kernel refuses do not matter.
    pub(crate) fn inject(&self, frames: &[Vec<u8>]) {
        self.sender(|| send_raw("sender0", frames));
    }

    /// Sends frames as they are out of the guarded device, through its egress hook.
    pub(crate) fn emit(&self, frames: &[Vec<u8>]) {
        self.receiver(|| send_raw(DEVICE, frames));
    }
}

/// Sends frames out of a device of the calling thread's namespace.
fn send_raw(device: &str, frames: &[Vec<u8>]) {
    let index = nix::net::if_::if_nametoindex(device).unwrap();
    // SAFETY: plain integers; the descriptor that comes back is ours alone.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: an all-zero sockaddr_ll is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = index.cast_signed();
    for frame in frames {
        // SAFETY: frame and address are alive during the call and as long as said.
        unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            );
        }
    }
}

/// A packet socket of the sender's.
pub(crate) struct Capture(OwnedFd);

impl Capture {
    /// Calls `each` with the frames that have arrived, until there are none for a moment. Not with what the sender sends.
    pub(crate) fn frames(&self, mut each: impl FnMut(&mut [u8])) {
        let mut buffer = vec![0; 128 << 10];
        loop {
            // SAFETY: an all-zero sockaddr_ll is valid.
            let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            let mut size = size_of::<libc::sockaddr_ll>() as u32;
            // SAFETY: buffer and address are alive during the call and as long as said.
            let length = unsafe {
                libc::recvfrom(
                    self.0.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                    (&raw mut from).cast(),
                    &raw mut size,
                )
            };
            let Ok(length) = usize::try_from(length) else { return };
            if from.sll_pkttype != libc::PACKET_OUTGOING {
                each(&mut buffer[..length]);
            }
        }
    }
}

/// A connection from a sender that does not exist, to port 5001 of the receiver.
pub(crate) fn flow_key(remote_port: u16) -> FlowKey {
    let address = |last| [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 99, 0, last];
    FlowKey { local: address(1), remote: address(77), local_port: 5001, remote_port, vlan: 0 }
}

/// Lets this process open that many descriptors, if it may.
pub(crate) fn allow_descriptors(count: u64) -> bool {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, count, hard.max(count)).is_ok()
}

fn inside<T: Send>(namespace: &File, run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let run = move || {
            setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET).unwrap();
            run()
        };
        match scope.spawn(run).join() {
            Ok(value) => value,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}
