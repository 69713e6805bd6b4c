//! The delay line: base round-trip times on a kernel without netem. It is one thread between the switch and its far hosts.
//!
//! ```text
//!  receiver ──► switch ──► device `late` (TAP) ──► this thread, for one RTT ──► port to-sK ──► sender K
//!  receiver ◄── switch ◄─────────────────────────────────────────── port to-sK ◄── sender K
//! ```
//!
//! 1. The whole round-trip time is put on the way to the sender, where requests and ACKs go: it carries few bytes, and neither
//!    end can tell on which way the time went by. What the senders send stays in the kernel at full speed.
//! 2. Frames keep their virtio header from the TAP to the port: segments that an offload left whole stay whole, and checksums
//!    that were left to the card stay so.
//! 3. Frames for one host leave in the order in which they came, none before its time. Only a thread that the machine wakes
//!    late makes it later; the thread has real-time priority for that.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

/// The TAP that the switch routes far hosts' frames to.
pub(super) const DEVICE: &str = "late";
/// Frames that may wait to be read from the TAP: those of a burst, while the thread sends others.
pub(super) const TAP_FRAMES: u32 = 20_000;
/// Most bytes that wait at a time: 200 ms of 10 Gb/s.
const MOST_WAITING: usize = 256 << 20;
/// Longest sleep, so that the thread sees that it is to end.
const TICK: Duration = Duration::from_millis(50);
/// Frames read before those that are due are sent.
const BATCH: usize = 64;
/// `struct virtio_net_hdr` (include/uapi/linux/virtio_net.h), in front of each frame.
const VIRTIO_HEADER: usize = 10;
/// A virtio header and the largest segment that an offload leaves whole.
const LARGEST: usize = VIRTIO_HEADER + 14 + 65_536;

/// `TUNSETIFF`, `TUNSETOFFLOAD` (include/uapi/linux/if_tun.h).
const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
/// `TUN_F_CSUM`; with `TUN_F_TSO4`, `TUN_F_TSO6` and `TUN_F_TSO_ECN`.
const CHECKSUM: libc::c_ulong = 0x01;
const SEGMENTATION: libc::c_ulong = 0x0f;

/// One host that is far away.
#[derive(Clone, Copy, Debug)]
pub(super) struct Far {
    /// Its hardware address.
    pub(super) mac: [u8; 6],
    /// Index of the switch's port towards it.
    pub(super) port: i32,
    /// Hardware address of what is at the other end: its own, or a leaf's.
    pub(super) next: [u8; 6],
    /// Its base round-trip time.
    pub(super) rtt: Duration,
}

/// The ends of a delay line, before it runs.
#[derive(Debug)]
pub(super) struct Ends {
    tap: File,
    sender: OwnedFd,
}

impl Ends {
    /// Creates [`DEVICE`] in the calling thread's network namespace.
    ///
    /// # Errors
    /// When this kernel has no TAP devices, or denies it.
    pub(super) fn open(offloads: bool) -> io::Result<Self> {
        let tap =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun").map_err(
                |e| io::Error::new(e.kind(), format!("/dev/net/tun: {e} (a base RTT needs TAP devices: CONFIG_TUN)")),
            )?;
        // SAFETY: an all-zero ifreq is a valid value of that C struct.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(DEVICE.bytes()) {
            *to = libc::c_char::from_ne_bytes([from]);
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes an ifreq, which lives until the call returns.
        check(unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETIFF as _, &raw mut request) })?;
        let offloads = if offloads { SEGMENTATION } else { CHECKSUM };
        // SAFETY: TUNSETOFFLOAD takes its flags as an integer.
        check(unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETOFFLOAD as _, offloads) })?;
        Ok(Self { tap, sender: packet_sender()? })
    }
}

/// A delay line that runs. Dropping it ends it; what waits in it is lost, as on a cable that is pulled.
#[derive(Debug)]
pub(super) struct DelayLine {
    stop: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    longer: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl DelayLine {
    /// Delays frames for `hosts`; frames for others are none of ours and vanish.
    pub(super) fn start(ends: Ends, hosts: Vec<Far>) -> Self {
        let (stop, lost, longer) = <(Arc<AtomicBool>, Arc<AtomicU64>, Arc<AtomicU64>)>::default();
        let mut line = Line::new(ends, hosts, Arc::clone(&lost), Arc::clone(&longer));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            real_time();
            while !flag.load(Ordering::Relaxed) {
                line.turn();
            }
        });
        Self { stop, lost, longer, thread: Some(thread) }
    }

    /// From now on all round trips take so much more than their hosts' own. What comes behind frames that wait longer leaves with
    /// them.
    pub(super) fn lengthen(&self, by: Duration) {
        self.longer.store(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Frames that did not fit or that the port did not take.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for DelayLine {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic in it was told already.
            let _ = thread.join();
        }
    }
}

/// Frames that wait equally long: the first that came is the first that is due.
#[derive(Debug)]
struct Lane {
    rtt: Duration,
    waiting: VecDeque<(Instant, i32, Vec<u8>)>,
}

struct Line {
    ends: Ends,
    hosts: Vec<Far>,
    lanes: Vec<Lane>,
    waiting: usize,
    buffer: Vec<u8>,
    lost: Arc<AtomicU64>,
    /// What all round trips take beyond their hosts' own, ns.
    longer: Arc<AtomicU64>,
}

impl Line {
    fn new(ends: Ends, hosts: Vec<Far>, lost: Arc<AtomicU64>, longer: Arc<AtomicU64>) -> Self {
        let mut lanes: Vec<Lane> = Vec::new();
        for host in &hosts {
            if !lanes.iter().any(|lane| lane.rtt == host.rtt) {
                lanes.push(Lane { rtt: host.rtt, waiting: VecDeque::new() });
            }
        }
        Self { ends, hosts, lanes, waiting: 0, buffer: vec![0; LARGEST], lost, longer }
    }

    /// Reads what came, sends what is due, and sleeps until something comes or is due.
    fn turn(&mut self) {
        let emptied = self.read();
        let now = Instant::now();
        let next = self.send_due(now);
        if emptied {
            let sleep = next.map_or(TICK, |due| due.saturating_duration_since(now).min(TICK));
            let mut tap = [PollFd::new(self.ends.tap.as_fd(), PollFlags::POLLIN)];
            // A signal only makes this turn short.
            let _ = ppoll(&mut tap, Some(TimeSpec::from_duration(sleep)), None);
        }
    }

    /// Takes frames from the TAP; whether it is empty now.
    fn read(&mut self) -> bool {
        for _ in 0..BATCH {
            // One read is one frame. An error is that there is none, or that the device went away with its namespace.
            let Ok(len) = self.ends.tap.read(&mut self.buffer) else { return true };
            let Some(mac) = self.buffer[..len].get_mut(VIRTIO_HEADER..VIRTIO_HEADER + 6) else { continue };
            let Some(&Far { port, rtt, next, .. }) = self.hosts.iter().find(|host| host.mac == mac) else { continue };
            mac.copy_from_slice(&next);
            if self.waiting + len > MOST_WAITING {
                self.lost.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.waiting += len;
            if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.rtt == rtt) {
                let longer = Duration::from_nanos(self.longer.load(Ordering::Relaxed));
                lane.waiting.push_back((Instant::now() + rtt + longer, port, self.buffer[..len].to_vec()));
            }
        }
        false
    }

    /// Sends what is due, and tells when the next will be.
    fn send_due(&mut self, now: Instant) -> Option<Instant> {
        for lane in &mut self.lanes {
            while lane.waiting.front().is_some_and(|(due, ..)| *due <= now) {
                let Some((_, port, frame)) = lane.waiting.pop_front() else { break };
                self.waiting -= frame.len();
                if send(&self.ends.sender, port, &frame).is_err() {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        self.lanes.iter().filter_map(|lane| lane.waiting.front()).map(|(due, ..)| *due).min()
    }
}

/// A packet socket that sends frames with their virtio headers, past the port's qdisc.
fn packet_sender() -> io::Result<OwnedFd> {
    // SAFETY: plain integers. Protocol 0 receives nothing.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    check(fd)?;
    // SAFETY: the kernel has just given us this descriptor; nobody else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    for option in [libc::PACKET_VNET_HDR, libc::PACKET_QDISC_BYPASS] {
        let on: libc::c_int = 1;
        let length = size_of_val(&on) as libc::socklen_t;
        // SAFETY: the option's value is an int, alive during the call.
        check(unsafe { libc::setsockopt(fd, libc::SOL_PACKET, option, (&raw const on).cast(), length) })?;
    }
    Ok(socket)
}

fn send(socket: &OwnedFd, port: i32, frame: &[u8]) -> io::Result<()> {
    // SAFETY: an all-zero sockaddr_ll is valid.
    let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    to.sll_family = libc::AF_PACKET as u16;
    to.sll_ifindex = port;
    // The frame's own EtherType; with 0 the kernel would take it for a frame of no protocol.
    let ethertype = VIRTIO_HEADER + 12;
    to.sll_protocol = frame.get(ethertype..ethertype + 2).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]]));
    let length = size_of_val(&to) as libc::socklen_t;
    // SAFETY: frame and address live until the call returns, and are as long as told.
    let sent = unsafe {
        libc::sendto(socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0, (&raw const to).cast(), length)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Gives this thread real-time priority: it is woken when a frame is due, whatever else runs. Where that is denied, delays
/// are longer under load, never shorter.
fn real_time() {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: 0 is the calling thread; the parameters live during the call.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
