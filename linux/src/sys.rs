//! The few system calls that no crate wraps, each behind a safe function.

pub(crate) mod features;
pub(crate) mod interface;
pub(crate) mod tcx;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use ackgate_control::units::{Span, Time};
use nix::poll::{PollFd, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

/// Now, on the monotonic clock, which `bpf_ktime_get_ns` reads too.
///
/// # Panics
/// Never: `CLOCK_MONOTONIC` exists on every Linux, and its values are never negative.
#[must_use]
pub fn now() -> Time {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("the monotonic clock can be read");
    Time(now.tv_sec().cast_unsigned() * 1_000_000_000 + now.tv_nsec().cast_unsigned())
}

/// Which side of a device a program is attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ingress,
    Egress,
}

/// Loads a tc program that passes every packet on: `r0 = -1; exit`.
pub(crate) fn smallest_program() -> io::Result<OwnedFd> {
    let mut instructions = [libbpf_sys::bpf_insn::default(); 2];
    instructions[0].code = (libbpf_sys::BPF_ALU64 | libbpf_sys::BPF_MOV | libbpf_sys::BPF_K) as u8;
    instructions[0].imm = -1;
    instructions[1].code = (libbpf_sys::BPF_JMP | libbpf_sys::BPF_EXIT) as u8;
    // SAFETY: two instructions, alive during the call, and terminated strings; null stands for default options.
    let fd = unsafe {
        libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SCHED_CLS,
            c"ackgate_probe".as_ptr(),
            c"GPL".as_ptr(),
            instructions.as_ptr(),
            instructions.len() as libbpf_sys::size_t,
            std::ptr::null_mut(),
        )
    };
    owned(fd)
}

/// Takes over a descriptor from a function that returns a negative errno on failure.
fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just given us this descriptor; nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets this thread's timers fire when they are due rather than up to 50 us later.
pub(crate) fn precise_timers() {
    // SAFETY: takes an integer by value; failure only means less precision.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Puts this thread, and none that it starts, before all ordinary ones (the lowest real-time priority), or among them again.
pub(crate) fn go_first(first: bool) -> io::Result<()> {
    let policy = if first { libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK } else { libc::SCHED_OTHER };
    let priority = libc::sched_param { sched_priority: i32::from(first) };
    // SAFETY: reads a sched_param that lives until the call returns; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const priority) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Processor time that this thread has taken.
pub(crate) fn thread_time() -> Span {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(TimeSpec::new(0, 0));
    Span(time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned())
}

/// Waits until one of the descriptors is ready, `until`, or a signal.
pub(crate) fn wait(fds: &mut [PollFd<'_>], until: Time) -> nix::Result<()> {
    let span = until.since(now()).0;
    let seconds = i64::try_from(span / 1_000_000_000).unwrap_or(i64::MAX);
    // Below a billion.
    let timeout = TimeSpec::new(seconds, (span % 1_000_000_000) as i64);
    match ppoll(fds, Some(timeout), None) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Opens a packet socket that only sends, on one device, by its qdisc and through tc, where frames are known by `mark`. Each
/// frame has a virtio header before it.
pub(crate) fn marked_sender(ifindex: i32, mark: u32) -> io::Result<OwnedFd> {
    let socket = sender()?;
    set_option(&socket, libc::PACKET_VNET_HDR, 1)?;
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::Mark, &mark)?;
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::SndBufForce, &SEND_BUFFER)?;
    bind_packet(&socket, ifindex, 0)?;
    Ok(socket)
}

/// Bytes that may wait in the qdisc for one socket.
const SEND_BUFFER: usize = 8 << 20;

/// Opens a packet socket that receives nothing so far.
pub(crate) fn sender() -> io::Result<OwnedFd> {
    // SAFETY: plain integers. Protocol 0 receives nothing.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) };
    if fd < 0 { Err(io::Error::last_os_error()) } else { owned(fd) }
}

/// Opens a packet socket that only sends, on one device, past its qdisc and past tc.
pub(crate) fn raw_sender(ifindex: i32) -> io::Result<OwnedFd> {
    let socket = sender()?;
    set_option(&socket, libc::PACKET_QDISC_BYPASS, 1)?;
    bind_packet(&socket, ifindex, 0)?;
    Ok(socket)
}

pub(crate) fn set_option(socket: &OwnedFd, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: the option's value is an int, alive during the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Binds a packet socket to a device; `protocol` in host order, 0 to receive nothing.
pub(crate) fn bind_packet(socket: &OwnedFd, ifindex: i32, protocol: u16) -> io::Result<()> {
    // SAFETY: an all-zero sockaddr_ll is valid.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = ifindex;
    // SAFETY: address and length describe a sockaddr_ll that is alive during the call.
    let result = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Most frames that one [`send_frames`] hands to the kernel.
pub(crate) const SEND_BATCH: usize = 64;

/// Sends the first [`SEND_BATCH`] frames in one system call; returns how many went, an error only when none did.
pub(crate) fn send_frames(socket: &OwnedFd, frames: &[Vec<u8>]) -> io::Result<usize> {
    let count = frames.len().min(SEND_BATCH);
    let mut pieces = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; SEND_BATCH];
    // SAFETY: all-zero message headers are valid.
    let mut headers: [libc::mmsghdr; SEND_BATCH] = unsafe { std::mem::zeroed() };
    for ((frame, piece), header) in frames.iter().zip(&mut pieces).zip(&mut headers) {
        piece.iov_base = frame.as_ptr().cast_mut().cast();
        piece.iov_len = frame.len();
        header.msg_hdr.msg_iov = &raw mut *piece;
        header.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: `count` headers point at as many pieces, which point at frames; all are alive during the call, and sending
    // does not write to them.
    let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Sends one frame.
pub(crate) fn send_frame(socket: &OwnedFd, frame: &[u8]) -> io::Result<()> {
    let sent = nix::sys::socket::send(socket.as_raw_fd(), frame, nix::sys::socket::MsgFlags::MSG_DONTWAIT);
    sent.map(drop).map_err(io::Error::from)
}

/// Closes the descriptors from `first` to `last`, whatever they are.
pub(crate) fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: plain integers; the caller knows that nothing uses these descriptors any more.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// The name that `ps` shows.
pub(crate) fn name_this_process(name: &std::ffi::CStr) {
    // SAFETY: a terminated string, alive during the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Frames that one [`receive_frames`] takes at most, and bytes of each.
pub(crate) const RECEIVE_BATCH: usize = 64;
pub(crate) const RECEIVE_BYTES: usize = 1536;

/// Opens a packet socket that receives everything on one device.
pub(crate) fn raw_receiver(ifindex: i32) -> io::Result<OwnedFd> {
    // It receives nothing until it is bound.
    let socket = sender()?;
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::RcvBufForce, &(8 << 20))?;
    bind_packet(&socket, ifindex, libc::ETH_P_ALL as u16)?;
    Ok(socket)
}

/// Receives what is there, up to [`RECEIVE_BATCH`] frames of up to [`RECEIVE_BYTES`], into `buffer`, one after the other
/// at that distance; calls `each` for every frame and returns how many there were.
pub(crate) fn receive_frames(socket: &OwnedFd, buffer: &mut [u8], mut each: impl FnMut(&[u8])) -> io::Result<usize> {
    let mut pieces = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; RECEIVE_BATCH];
    // SAFETY: all-zero message headers are valid.
    let mut headers: [libc::mmsghdr; RECEIVE_BATCH] = unsafe { std::mem::zeroed() };
    let mut room = 0;
    for ((slot, piece), header) in buffer.chunks_exact_mut(RECEIVE_BYTES).zip(&mut pieces).zip(&mut headers) {
        piece.iov_base = slot.as_mut_ptr().cast();
        piece.iov_len = slot.len();
        header.msg_hdr.msg_iov = &raw mut *piece;
        header.msg_hdr.msg_iovlen = 1;
        room += 1;
    }
    // SAFETY: `room` headers point at as many pieces, which point into `buffer`; all are alive during the call.
    let received = unsafe {
        libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), room, libc::MSG_DONTWAIT, std::ptr::null_mut())
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for (slot, header) in buffer.chunks_exact(RECEIVE_BYTES).zip(&headers).take(received) {
        each(&slot[..(header.msg_len as usize).min(RECEIVE_BYTES)]);
    }
    Ok(received)
}

/// Runs `inside` in a new network namespace, on a thread of its own; the namespace lives as long as what holds on to it.
pub(crate) fn in_new_namespace<T: Send>(inside: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let run = move || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)?;
            inside()
        };
        scope.spawn(run).join().unwrap_or_else(|_| Err(io::Error::other("the thread in the new namespace panicked")))
    })
}

/// While this lives, the kernel measures the run time of every BPF program (Linux 5.8).
#[derive(Debug)]
pub(crate) struct RunTimeStats {
    _enabled: OwnedFd,
}

impl RunTimeStats {
    pub(crate) fn enable() -> io::Result<Self> {
        // SAFETY: takes an integer, returns a descriptor or a negative errno.
        let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
        Ok(Self { _enabled: owned(fd)? })
    }
}

/// Runs a program that is called, not attached (`BPF_PROG_TYPE_SYSCALL`).
pub(crate) fn run_syscall_program(program: BorrowedFd<'_>) -> io::Result<()> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    // SAFETY: the options name no memory and are alive during the call.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

/// What BPF programs call the network namespace of the calling thread (Linux 5.14).
pub(crate) fn namespace_cookie() -> io::Result<u64> {
    /// `SO_NETNS_COOKIE` (include/uapi/asm-generic/socket.h).
    const NETNS_COOKIE: libc::c_int = 71;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    let (mut cookie, mut length) = (0_u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: `cookie` is as long as `length` says, and both are alive during the call.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, NETNS_COOKIE, (&raw mut cookie).cast(), &raw mut length)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(cookie) }
}

/// What the kernel tells about a program.
pub(crate) fn program_info(program: BorrowedFd<'_>) -> io::Result<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: `info` is as long as `length` says, and its pointers are null, which asks for nothing else.
    let result = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(info) }
}

/// The instructions that the verifier has left of a program, all its functions one after the other. Empty where the kernel keeps them to
/// itself (`bpf_jit_harden`).
pub(crate) fn program_instructions(program: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; program_info(program)?.xlated_prog_len as usize];
    let mut info = libbpf_sys::bpf_prog_info {
        xlated_prog_len: bytes.len() as u32,
        xlated_prog_insns: bytes.as_mut_ptr() as u64,
        ..Default::default()
    };
    let mut length = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: `info` is as long as `length` says; of its pointers only that to `bytes` is set, which are as many as it says.
    let result = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length) };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    bytes.truncate(if info.xlated_prog_insns == 0 { 0 } else { info.xlated_prog_len as usize });
    Ok(bytes)
}

/// Runs of a program and nanoseconds that they took, as far as the kernel measured them.
pub(crate) fn run_time(program: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    program_info(program).map(|info| (info.run_cnt, info.run_time_ns))
}

/// The kernel's release, for example `6.1.0-56-amd64`.
pub(crate) fn kernel_release() -> String {
    let name = nix::sys::utsname::uname();
    name.map_or_else(|_| "of unknown release".to_owned(), |name| name.release().to_string_lossy().into_owned())
}

/// CPU time of this process so far, s.
#[must_use]
pub fn cpu_seconds() -> f64 {
    usage().0
}

/// CPU time of this process in seconds, and its peak memory in KiB.
pub(crate) fn usage() -> (f64, u64) {
    let Ok(usage) = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF) else { return (0.0, 0) };
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let peak = u64::try_from(usage.max_rss()).unwrap_or(0);
    (seconds(usage.user_time()) + seconds(usage.system_time()), peak)
}

/// Runs a program over a frame (`BPF_PROG_TEST_RUN`); returns what it returned, and the frame afterwards.
pub(crate) fn test_run(
    program: BorrowedFd<'_>,
    frame: &[u8],
    gso_size: u16,
    gso_segs: u16,
) -> io::Result<(u32, Vec<u8>)> {
    use crate::skel::guard::types::__sk_buff;
    let mut context = [0_u8; size_of::<__sk_buff>()];
    let fields =
        [(std::mem::offset_of!(__sk_buff, gso_segs), gso_segs), (std::mem::offset_of!(__sk_buff, gso_size), gso_size)];
    for (at, value) in fields {
        context[at..at + 4].copy_from_slice(&u32::from(value).to_ne_bytes());
    }
    let mut after = vec![0; frame.len() + 256];
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as libbpf_sys::size_t,
        data_in: frame.as_ptr().cast(),
        data_size_in: frame.len() as u32,
        data_out: after.as_mut_ptr().cast(),
        data_size_out: after.len() as u32,
        ctx_in: context.as_ptr().cast(),
        ctx_size_in: context.len() as u32,
        ..Default::default()
    };
    // SAFETY: the options' pointers and lengths describe `frame`, `after` and `context`, all alive during the call.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    after.truncate(options.data_size_out as usize);
    Ok((options.retval, after))
}
