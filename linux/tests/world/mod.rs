//! A sender's and a receiver's network namespace, joined by a pair of virtual devices; both go when this goes.

#![allow(dead_code, reason = "each test uses its own part")]
#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

pub(crate) mod tshark;

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use ackgate_control::flow::FlowKey;
use ackgate_control::policy::Policy;
use ackgate_control::units::Time;
use ackgate_linux::{Error, Guard, Host, Options, Outcome, Summary, host};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

/// The receiver's device, which is guarded.
pub(crate) const DEVICE: &str = "guarded0";
pub(crate) const RECEIVER_V4: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
/// The sender's.
pub(crate) const SENDER_DEVICE: &str = "sender0";
pub(crate) const SENDER_V4: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
pub(crate) const RECEIVER_V6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 1);

/// In VLAN 10, which `World::add_vlan` adds.
pub(crate) const RECEIVER_VLAN: Ipv4Addr = Ipv4Addr::new(10, 99, 1, 1);
/// Of the tunnel that `World::add_tunnel` adds.
pub(crate) const TUNNEL: &str = "vxlan7";
pub(crate) const RECEIVER_TUNNEL: Ipv4Addr = Ipv4Addr::new(10, 99, 2, 1);
pub(crate) const SENDER_V6: Ipv6Addr = Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, 2);
/// One of the two hosts.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    Sender,
    Receiver,
}

pub(crate) struct World {
    sender: File,
    receiver: File,
}

/// Adds a device with an address to the calling thread's namespace; false, with a word on standard error, where the kernel has none of its kind.
fn add_device(name: &str, upon: &str, kind: &str, address: Ipv4Addr) -> bool {
    let link = format!("link add {upon} name {name} type {kind}");
    let output = Command::new("ip").args(link.split_ascii_whitespace()).output().unwrap();
    if !output.status.success() {
        eprintln!("skipped: {kind}: {}", String::from_utf8_lossy(&output.stderr).trim());
        return false;
    }
    ip(&format!("addr add {address}/24 dev {name}"));
    ip(&format!("link set {name} up"));
    true
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
            ip(&format!("link add {DEVICE} type veth peer name {SENDER_DEVICE}"));
            ip(&format!("link set {SENDER_DEVICE} netns {far}"));
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

    /// VLAN 10 over both devices; false where the kernel has none.
    pub(crate) fn add_vlan(&self) -> bool {
        let add = |device: &str, address| add_device("vlan10", &format!("link {device}"), "vlan id 10", address);
        self.receiver(|| add(DEVICE, RECEIVER_VLAN)) && self.sender(|| add(SENDER_DEVICE, Ipv4Addr::new(10, 99, 1, 2)))
    }

    /// A VXLAN between both hosts; false where the kernel has none.
    pub(crate) fn add_tunnel(&self) -> bool {
        let add = |device: &str, [local, remote]: [Ipv4Addr; 2], address| {
            add_device(
                TUNNEL,
                "",
                &format!("vxlan id 7 dstport 4789 dev {device} local {local} remote {remote}"),
                address,
            )
        };
        self.receiver(|| add(DEVICE, [RECEIVER_V4, SENDER_V4], RECEIVER_TUNNEL))
            && self.sender(|| add(SENDER_DEVICE, [SENDER_V4, RECEIVER_V4], Ipv4Addr::new(10, 99, 2, 2)))
    }

    /// Moves this thread into a host's network namespace, for good.
    pub(crate) fn enter(&self, place: Place) {
        setns(File::open(self.namespace(place)).unwrap(), CloneFlags::CLONE_NEWNET).unwrap();
    }

    /// A path that stands for a host's network namespace, as long as this lives.
    pub(crate) fn namespace(&self, place: Place) -> String {
        let file = match place {
            Place::Sender => &self.sender,
            Place::Receiver => &self.receiver,
        };
        format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
    }

    /// Sees what arrives at the sender's device from now on.
    pub(crate) fn arrivals(&self) -> Arrivals {
        self.arrivals_at(Place::Sender)
    }

    /// Sees what arrives at a host's device from now on.
    pub(crate) fn arrivals_at(&self, place: Place) -> Arrivals {
        let (namespace, device) = match place {
            Place::Sender => (&self.sender, SENDER_DEVICE),
            Place::Receiver => (&self.receiver, DEVICE),
        };
        inside(namespace, || {
            let index = nix::net::if_::if_nametoindex(device).unwrap();
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
            let on: libc::c_int = 1;
            // SAFETY: the option's value is alive during the call and as long as said.
            let set = unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    libc::SOL_PACKET,
                    PACKET_VNET_HDR,
                    (&raw const on).cast(),
                    size_of_val(&on) as u32,
                )
            };
            assert_eq!(set, 0, "{}", io::Error::last_os_error());
            Arrivals(socket)
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

    /// Runs something while a policy sees the frames of a device.
    pub(crate) fn hosted<T>(
        &self,
        place: Place,
        options: host::Options,
        make: fn() -> Box<dyn Policy>,
        run: impl FnOnce() -> T,
    ) -> (host::Summary, T) {
        let namespace = match place {
            Place::Sender => &self.sender,
            Place::Receiver => &self.receiver,
        };
        let (stop, mut signal) = UnixStream::pair().unwrap();
        let (ready, wait) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let host = scope.spawn(move || {
                inside(namespace, move || {
                    let mut host = Host::start(&options, make())?;
                    ready.send(()).unwrap();
                    assert_eq!(host.run(Time::NEVER, stop.as_fd())?, Outcome::Stopped);
                    Ok::<_, Error>(host.stop())
                })
            });
            if wait.recv().is_err() {
                panic!("no host: {:?}", host.join().unwrap());
            }
            // Whatever comes of it, the host must end, or this would never return.
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            io::Write::write_all(&mut signal, b"x").unwrap();
            let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (host.join().unwrap().unwrap(), done)
        })
    }

    /// Runs something while a host is on the receiver's device that does nothing, as if it were stopped.
    pub(crate) fn stopped_host(
        &self,
        options: host::Options,
        make: fn() -> Box<dyn Policy>,
        run: impl FnOnce(),
    ) -> host::Summary {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (ready, wait) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let host = scope.spawn(move || {
                inside(&self.receiver, move || {
                    let host = Host::start(&options, make())?;
                    ready.send(()).unwrap();
                    let _ = ended.recv();
                    Ok::<_, Error>(host.stop())
                })
            });
            if wait.recv().is_err() {
                panic!("no host: {:?}", host.join().unwrap());
            }
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            drop(end);
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            host.join().unwrap().unwrap()
        })
    }

    /// Eight senders at once to an address of the receiver; panics unless every byte arrives.
    pub(crate) fn incast(&self, to: impl Into<IpAddr>) {
        const BYTES: usize = 150_000;
        let to = to.into();
        let listener = self.receiver(|| TcpListener::bind((to, 0))).unwrap();
        let address = SocketAddr::new(to, listener.local_addr().unwrap().port());
        std::thread::scope(|scope| {
            for sender in 0..8_u8 {
                let connect = || TcpStream::connect_timeout(&address, Duration::from_secs(10));
                let mut stream = self.sender(connect).unwrap();
                scope.spawn(move || stream.write_all(&vec![sender; BYTES]).unwrap());
            }
            for _ in 0..8 {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                scope.spawn(move || {
                    let mut data = Vec::new();
                    stream.read_to_end(&mut data).unwrap();
                    assert!(data.len() == BYTES && data.iter().all(|&byte| byte == data[0]));
                });
            }
        });
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
        self.sender(|| send(SENDER_DEVICE, frames));
    }

    /// Sends frames as they are from the receiver's device.
    pub(crate) fn emit(&self, frames: &[Vec<u8>]) {
        self.receiver(|| send(DEVICE, frames));
    }

    /// Has both hosts sum up every segment before it leaves, so that the other one checks it.
    pub(crate) fn sum_up_in_software(&self) {
        self.receiver(|| leave_nothing_to_the_card(DEVICE));
        self.sender(|| leave_nothing_to_the_card(SENDER_DEVICE));
    }

    /// Segments that arrived at either host with a wrong checksum.
    pub(crate) fn checksum_errors(&self) -> u64 {
        let errors = || {
            let snmp = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
            let mut tcp = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: ")).map(|line| line.split(' '));
            let (mut names, mut values) = (tcp.next().unwrap(), tcp.next().unwrap());
            let at = names.position(|name| name == "InCsumErrors").unwrap();
            values.nth(at).unwrap().parse::<u64>().unwrap()
        };
        self.receiver(errors) + self.sender(errors)
    }

    /// Begins to listen on a host's device.
    pub(crate) fn capture(&self, place: Place) -> Capture {
        match place {
            Place::Sender => self.sender(|| Capture::new(SENDER_DEVICE)),
            Place::Receiver => self.receiver(|| Capture::new(DEVICE)),
        }
    }
}

/// Whatever passes a device.
pub(crate) struct Capture(OwnedFd);

impl Capture {
    fn new(device: &str) -> Self {
        let socket = packet_socket();
        let on: libc::c_int = 1;
        let address = address_of(device, libc::ETH_P_ALL as u16);
        // SAFETY: option and address are alive during the calls and as long as said.
        unsafe {
            let length = size_of_val(&on) as u32;
            let option = libc::PACKET_AUXDATA;
            let fd = socket.as_raw_fd();
            assert_eq!(libc::setsockopt(fd, libc::SOL_PACKET, option, (&raw const on).cast(), length), 0);
            let length = size_of::<libc::sockaddr_ll>() as u32;
            assert_eq!(libc::bind(fd, (&raw const address).cast(), length), 0);
        }
        Self(socket)
    }

    /// What has passed within `time`, with the tag control information that the kernel took out; frames without a tag are
    /// left out.
    pub(crate) fn tagged(&self, time: std::time::Duration) -> Vec<(u16, Vec<u8>)> {
        std::thread::sleep(time);
        let mut found = Vec::new();
        loop {
            let (mut frame, mut control) = (vec![0_u8; 4096], [0_u64; 16]);
            let mut piece = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
            // SAFETY: an all-zero header is valid.
            let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
            (header.msg_iov, header.msg_iovlen) = (&raw mut piece, 1);
            (header.msg_control, header.msg_controllen) = (control.as_mut_ptr().cast(), size_of_val(&control));
            // SAFETY: the header describes buffers that are alive during the call.
            let length = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
            let Ok(length) = usize::try_from(length) else { return found };
            frame.truncate(length);
            // SAFETY: the kernel has filled in the control messages; a packet socket's auxiliary data is this struct.
            unsafe {
                let message = libc::CMSG_FIRSTHDR(&raw const header);
                if !message.is_null() && (*message).cmsg_type == libc::PACKET_AUXDATA {
                    let data = libc::CMSG_DATA(message).cast::<libc::tpacket_auxdata>().read_unaligned();
                    if data.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                        found.push((data.tp_vlan_tci, frame));
                    }
                }
            }
        }
    }
}

/// `ETHTOOL_STXCSUM` (include/uapi/linux/ethtool.h): segmentation offload goes with it.
fn leave_nothing_to_the_card(device: &str) {
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    const STXCSUM: u32 = 0x17;
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    let mut value = Value { command: STXCSUM, data: 0 };
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request names a device and points at a command that is alive during the call.
    let done = unsafe { libc::ioctl(packet_socket().as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

fn packet_socket() -> OwnedFd {
    // SAFETY: plain integers; the descriptor that comes back is ours alone.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0);
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

fn address_of(device: &str, protocol: u16) -> libc::sockaddr_ll {
    let index = nix::net::if_::if_nametoindex(device).unwrap();
    // SAFETY: an all-zero sockaddr_ll is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index.cast_signed();
    address
}

fn send(device: &str, frames: &[Vec<u8>]) {
    let (socket, address) = (packet_socket(), address_of(device, 0));
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
pub(crate) struct Arrivals(OwnedFd);

/// `PACKET_VNET_HDR` (include/uapi/linux/if_packet.h): each frame stands behind a `struct virtio_net_hdr`.
const PACKET_VNET_HDR: libc::c_int = 15;
const VIRTIO_HEADER: usize = 10;
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CHECKSUM: u8 = 1;

impl Arrivals {
    /// Those that have arrived, but for those whose checksum the kernel holds to be left to a card: one right checksum in
    /// 65536 looks the same, and then it is done anew.
    pub(crate) fn summed_up(&self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        self.records(|virtio, frame| {
            if virtio[0] & NEEDS_CHECKSUM == 0 {
                all.push(frame.to_vec());
            }
        });
        all
    }

    /// Calls `each` with the frames that have arrived, until there are none for a moment. Not with what the sender sends.
    pub(crate) fn frames(&self, mut each: impl FnMut(&mut [u8])) {
        self.records(|_, frame| each(frame));
    }

    /// Frames, and what the kernel says of each (`struct virtio_net_hdr`).
    fn records(&self, mut each: impl FnMut(&[u8], &mut [u8])) {
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
                let (virtio, frame) = buffer[..length].split_at_mut(VIRTIO_HEADER);
                each(virtio, frame);
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
