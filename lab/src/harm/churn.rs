//! Connections that come and go: one request each, as HTTP/1.0 has it, the guarded host being the client or the server; the
//! same four-tuple used again at once; requests in the SYN (TCP Fast Open); and many that are opened and kept.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::libc;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::row::{Bench, Measure, Row, RowError, Unit, end, fast, io_error, spec};
use super::streams::{PORT, millis, open, plain};
use crate::load::make_room;
use crate::testbed::{Namespace, Spec, Testbed};

/// Octets of a request.
const REQUEST: usize = 100;
/// Threads that accept at a host.
const ACCEPTING: usize = 8;
/// `TCP_FASTOPEN_CONNECT` (include/uapi/linux/tcp.h): the SYN waits for the first write, and carries it.
const TCP_FASTOPEN_CONNECT: libc::c_int = 30;

/// Clients that open a connection, ask once, read until the server closes, and begin again.
pub(crate) struct Churn {
    clients: usize,
    /// Octets of a response.
    response: usize,
    /// The guarded host serves instead of asking.
    serve: bool,
    way: Way,
    /// Rate of the port in megabits per second; `None` for no limit.
    mbps: Option<u64>,
}

/// How clients use connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Plain,
    /// Each client keeps its port, and resets the connection in the end, so that the next one may follow at once.
    SamePort,
    /// The SYN carries the request.
    FastOpen,
}

const PULL: Churn = Churn { clients: 64, response: 1000, serve: false, way: Way::Plain, mbps: None };

const fn row(name: &'static str, what: &'static str, measure: &'static Churn) -> Row {
    Row { name, what, unit: Unit::PerSecond, measure }
}

pub(super) const ROWS: &[Row] = &[
    row("churn-pull", "64 clients at the guarded host, a connection for each request of 1 KB, no limit", &PULL),
    row("churn-serve", "the guarded host serves 64 such clients", &Churn { serve: true, ..PULL }),
    row(
        "reuse",
        "8 clients, 20 KB, the same four-tuple again at once, 200 Mb/s",
        &Churn { clients: 8, response: 20_000, way: Way::SamePort, mbps: Some(200), ..PULL },
    ),
    row(
        "fast-open",
        "8 clients, 20 KB, requests in the SYN (TFO), 200 Mb/s",
        &Churn { clients: 8, response: 20_000, way: Way::FastOpen, mbps: Some(200), ..PULL },
    ),
    Row {
        name: "open-4000",
        what: "4000 connections opened and kept, no limit",
        unit: Unit::Millis,
        measure: &Opened(4000),
    },
];

impl Measure for Churn {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let hosts = 4;
        let spec = self.mbps.map_or_else(|| fast(hosts), |mbps| spec(hosts, mbps));
        let (testbed, guard) = bench.bed(spec)?;
        self.prepare(&testbed)?;
        let per_second = self.run(&testbed, bench, Duration::from_millis(1500))?;
        end(guard)?;
        Ok(per_second)
    }
}

impl Churn {
    /// That many clients at the guarded host, a connection for each request of 1 KB.
    pub(crate) const fn of(clients: usize) -> Self {
        Self { clients, ..PULL }
    }

    /// Sets up the hosts.
    pub(crate) fn prepare(&self, testbed: &Testbed) -> Result<(), RowError> {
        make_room(4096)?;
        let senders = (0..testbed.spec().hosts).map(|k| testbed.sender(k));
        let everywhere = std::iter::once(testbed.receiver()).chain(senders);
        let settings: &[(&str, &str)] = match self.way {
            // Both ends; no blackhole detection, which one lost SYN would set off.
            Way::FastOpen => &[("ipv4/tcp_fastopen", "3"), ("ipv4/tcp_fastopen_blackhole_timeout_sec", "0")],
            Way::SamePort => &[],
            // A client's port is free again at once, or the run ends with the last of them.
            Way::Plain => &[("ipv4/tcp_tw_reuse", "1")],
        };
        for host in everywhere {
            host.set_sysctls(settings).map_err(io_error("setting up a host"))?;
        }
        Ok(())
    }

    /// Serves and asks; responses per second of `span`, which begins when all are under way.
    pub(crate) fn run(&self, testbed: &Testbed, bench: &Bench<'_>, span: Duration) -> Result<f64, RowError> {
        let hosts = testbed.spec().hosts;
        let senders: Vec<Namespace> = (0..hosts).map(|k| testbed.sender(k)).collect();
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let serving: Vec<(Namespace, SocketAddr)> = if self.serve {
            vec![(testbed.receiver(), SocketAddr::new(Testbed::receiver_address(false), PORT))]
        } else {
            senders.iter().cloned().enumerate().map(|(k, host)| (host, super::streams::address(k))).collect()
        };
        let listeners = serving
            .iter()
            .map(|(host, at)| {
                Ok((host.inside(|| self.listen(*at, &testbed.spec().cc)).and_then(|listening| listening)?, *at))
            })
            .collect::<io::Result<Vec<(Socket, SocketAddr)>>>()
            .map_err(io_error("listening"))?;
        std::thread::scope(|scope| {
            for (listener, _) in &listeners {
                for _ in 0..ACCEPTING.div_ceil(listeners.len()) {
                    scope.spawn(|| self.serve(listener, &stop));
                }
            }
            for client in 0..self.clients {
                let host = if self.serve { senders[client % hosts].clone() } else { testbed.receiver() };
                let to = listeners[client % listeners.len()].1;
                let (stop, done) = (&stop, &done);
                // A namespace that cannot be entered has no clients, and no responses.
                scope.spawn(move || host.inside(|| self.ask(client, to, stop, done)));
            }
            let value = bench.sleep(Duration::from_millis(300)).and_then(|()| {
                let (before, began) = (done.load(Ordering::Relaxed), Instant::now());
                bench.sleep(span)?;
                Ok((done.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64())
            });
            stop.store(true, Ordering::Relaxed);
            value
        })
    }

    fn listen(&self, at: SocketAddr, cc: &str) -> io::Result<Socket> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_tcp_congestion(cc.as_bytes())?;
        // So that those who accept see that they are to end.
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        socket.bind(&at.into())?;
        if self.way == Way::FastOpen {
            set_tcp(&socket, libc::TCP_FASTOPEN, 1024)?;
        }
        socket.listen(4096)?;
        Ok(socket)
    }

    /// Accepts, reads a request, writes the response, closes.
    fn serve(&self, listener: &Socket, stop: &AtomicBool) {
        let (mut request, response) = ([0; REQUEST], vec![0x5a; self.response]);
        while !stop.load(Ordering::Relaxed) {
            let Ok((socket, _)) = listener.accept() else { continue };
            let mut stream = TcpStream::from(socket);
            // A client that went away, or whose request was lost as the run ended.
            let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
            let _ = stream.read_exact(&mut request).and_then(|()| stream.write_all(&response));
        }
    }

    fn ask(&self, client: usize, to: SocketAddr, stop: &AtomicBool, done: &AtomicU64) {
        // Below the ports that the kernel gives out by itself.
        let port = (self.way == Way::SamePort).then_some(900 + client as u16);
        while !stop.load(Ordering::Relaxed) {
            // A connection that fails counts as no response.
            if self.ask_once(port, to).is_ok_and(|whole| whole) {
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// One connection; whether the response came whole.
    fn ask_once(&self, port: Option<u16>, to: SocketAddr) -> io::Result<bool> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        if let Some(port) = port {
            socket.set_reuse_address(true)?;
            socket.bind(&SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), port).into())?;
        }
        if self.way == Way::FastOpen {
            set_tcp(&socket, TCP_FASTOPEN_CONNECT, 1)?;
            socket.connect(&to.into())?;
        } else {
            socket.connect_timeout(&to.into(), Duration::from_secs(1))?;
        }
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(&[0x51; REQUEST])?;
        let (mut buffer, mut read) = ([0; 16_384], 0);
        while read < self.response {
            match stream.read(&mut buffer)? {
                0 => return Ok(false),
                len => read += len,
            }
        }
        if self.way == Way::SamePort {
            SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        }
        Ok(true)
    }
}

fn set_tcp(socket: &Socket, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the option's value is an int, alive during the call.
    let done =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, option, (&raw const value).cast(), length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// This many connections, opened one after another and kept.
struct Opened(usize);

impl Measure for Opened {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (testbed, guard) = bench.bed(Spec { offloads: false, ..fast(4) })?;
        let began = Instant::now();
        let pairs = open(&testbed, self.0, &plain)?;
        let took = began.elapsed();
        drop(pairs);
        end(guard)?;
        Ok(millis(took))
    }
}
