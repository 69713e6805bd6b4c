//! TCP connections between the guarded receiver and the sender hosts with both ends in this process, for traffic that the
//! load application has no words for; and what is done with them: bulk, transfers, exchanges.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::row::{Bench, RowError, io_error};
use crate::load::make_room;
use crate::testbed::Testbed;

/// Where sender hosts listen for the rows' own connections.
pub(super) const PORT: u16 = 5078;
/// How long a connection may take to stand.
const PATIENCE: Duration = Duration::from_secs(5);
/// Octets moved by one system call.
const CHUNK: usize = 256 * 1024;

/// One connection, both ends.
pub(crate) struct Pair {
    /// The end at the guarded receiver, which connects.
    pub(crate) receiver: TcpStream,
    /// The end at a sender host, which listens.
    pub(crate) sender: TcpStream,
}

/// Which end of a connection a socket is, or is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The guarded receiver's.
    Receiver,
    /// A sender host's.
    Sender,
}

/// Sets up a socket before it connects to, or listens for, the host at the address.
pub(crate) type Setup = dyn Fn(&Socket, End, SocketAddr) -> io::Result<()> + Sync;

/// Nothing but what all connections get: the senders' congestion control, no Nagle.
pub(crate) fn plain(_: &Socket, _: End, _: SocketAddr) -> io::Result<()> {
    Ok(())
}

/// Opens `count` connections, spread over all sender hosts.
pub(crate) fn open(testbed: &Testbed, count: usize, setup: &Setup) -> Result<Vec<Pair>, RowError> {
    open_from(testbed, 0..testbed.spec().hosts, count, setup)
}

/// Opens `count` connections, spread over these sender hosts.
pub(crate) fn open_from(
    testbed: &Testbed,
    hosts: Range<usize>,
    count: usize,
    setup: &Setup,
) -> Result<Vec<Pair>, RowError> {
    open_as(testbed, hosts, count, Protocol::TCP, setup)
}

/// Opens connections of TCP or of a protocol that is used like it.
pub(super) fn open_as(
    testbed: &Testbed,
    hosts: Range<usize>,
    count: usize,
    protocol: Protocol,
    setup: &Setup,
) -> Result<Vec<Pair>, RowError> {
    make_room(2 * count as u64 + 256)?;
    let hosts: Vec<usize> = hosts.take(count).collect();
    let listeners = hosts
        .iter()
        .map(|&k| testbed.sender(k).inside(|| listen(testbed, k, protocol, setup)).and_then(|listening| listening))
        .collect::<io::Result<Vec<Socket>>>()
        .map_err(io_error("listening at a sender host"))?;
    let connect = || -> io::Result<Vec<Socket>> {
        (0..count)
            .map(|i| {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
                setup(&socket, End::Receiver, address(hosts[i % hosts.len()]))?;
                Ok(socket)
            })
            .collect()
    };
    let sockets =
        testbed.receiver().inside(connect).and_then(|sockets| sockets).map_err(io_error("creating a socket"))?;
    let mut early: HashMap<SocketAddr, Socket> = HashMap::new();
    let mut pairs = Vec::with_capacity(count);
    for (i, socket) in sockets.into_iter().enumerate() {
        socket
            .connect_timeout(&address(hosts[i % hosts.len()]).into(), PATIENCE)
            .map_err(io_error("connecting to a sender host"))?;
        let receiver = TcpStream::from(socket);
        let me = receiver.local_addr().map_err(io_error("asking for an address"))?;
        while !early.contains_key(&me) {
            let (sender, from) = listeners[i % hosts.len()].accept().map_err(not_come)?;
            early.extend(from.as_socket().map(|from| (from, sender)));
        }
        if let Some(sender) = early.remove(&me) {
            let sender = TcpStream::from(sender);
            for end in [&receiver, &sender] {
                // MPTCP knows it since 5.17; elsewhere it only saves time.
                let _ = end.set_nodelay(true);
            }
            pairs.push(Pair { receiver, sender });
        }
    }
    Ok(pairs)
}

/// A connection that does not come in time.
fn not_come(error: io::Error) -> RowError {
    let source = match error.kind() {
        ErrorKind::WouldBlock => io::Error::new(ErrorKind::TimedOut, format!("none came whole within {PATIENCE:?}")),
        _ => error,
    };
    RowError::Io { what: "accepting a connection", source }
}

/// Where sender host `k` listens.
pub(super) fn address(k: usize) -> SocketAddr {
    SocketAddr::new(Testbed::sender_address(k, false), PORT)
}

fn listen(testbed: &Testbed, k: usize, protocol: Protocol, setup: &Setup) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.set_reuse_address(true)?;
    if protocol == Protocol::TCP {
        socket.set_tcp_congestion(testbed.spec().cc.as_bytes())?;
    }
    setup(&socket, End::Sender, SocketAddr::new(Testbed::receiver_address(false), 0))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.bind(&address(k).into())?;
    socket.listen(4096)?;
    Ok(socket)
}

/// Bulk from every sender for as long as this lives.
pub(crate) struct Bulk {
    received: Vec<Arc<AtomicU64>>,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Bulk {
    /// Starts it.
    pub(crate) fn start(pairs: Vec<Pair>) -> Result<Self, RowError> {
        let mut bulk = Self { received: Vec::new(), streams: Vec::new(), threads: Vec::new() };
        for Pair { mut receiver, mut sender } in pairs {
            let count = Arc::new(AtomicU64::new(0));
            for end in [&receiver, &sender] {
                bulk.streams.push(end.try_clone().map_err(io_error("cloning a socket"))?);
            }
            bulk.received.push(Arc::clone(&count));
            bulk.threads.push(std::thread::spawn(move || while sender.write_all(&[0x5a; 65_536]).is_ok() {}));
            bulk.threads.push(std::thread::spawn(move || {
                let mut buffer = vec![0; CHUNK];
                while let Ok(len @ 1..) = receiver.read(&mut buffer) {
                    count.fetch_add(len as u64, Ordering::Relaxed);
                }
            }));
        }
        Ok(bulk)
    }

    /// Octets that applications at the receiver have read so far.
    pub(super) fn received(&self) -> u64 {
        self.received.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Goodput in megabits per second over the next `span`.
    pub(super) fn mbps(&self, bench: &Bench<'_>, span: Duration) -> Result<f64, RowError> {
        let (before, began) = (self.received(), Instant::now());
        bench.sleep(span)?;
        Ok(megabits(self.received() - before, began.elapsed()))
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        for stream in &self.streams {
            // One that is closed already is as good.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            // A panic in it was told already.
            let _ = thread.join();
        }
    }
}

/// Megabits per second.
pub(super) fn megabits(bytes: u64, time: Duration) -> f64 {
    bytes as f64 * 8.0 / time.as_secs_f64() / 1e6
}

/// Milliseconds.
pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Every sender sends `bytes` at once; the time until the last receiver has them, `limit` at most.
pub(super) fn transfer(pairs: &[Pair], bytes: u64, limit: Duration) -> Result<Duration, RowError> {
    let began = Instant::now();
    let until = began + limit;
    let done = std::thread::scope(|scope| {
        for pair in pairs {
            scope.spawn(move || send(&pair.sender, bytes, until));
        }
        let readers: Vec<_> =
            pairs.iter().map(|pair| scope.spawn(move || receive(&pair.receiver, bytes, until))).collect();
        readers
            .into_iter()
            .try_for_each(|reader| reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    timed(done, began, limit)
}

/// A time limit that passes is a result; another error is none.
pub(super) fn timed(done: io::Result<()>, began: Instant, limit: Duration) -> Result<Duration, RowError> {
    match done {
        Ok(()) => Ok(began.elapsed().min(limit)),
        Err(e) if e.kind() == ErrorKind::TimedOut => Ok(limit),
        Err(source) => Err(RowError::Io { what: "a connection broke", source }),
    }
}

/// Writes `bytes` octets; what is left at `until` is left out, for the receiving end to tell.
pub(super) fn send(mut to: &TcpStream, mut bytes: u64, until: Instant) {
    let payload = [0x5a; 65_536];
    while bytes > 0 {
        let Ok(left) = left(until) else { return };
        if to.set_write_timeout(Some(left)).is_err() {
            return;
        }
        match to.write(&payload[..bytes.min(payload.len() as u64) as usize]) {
            Ok(n) => bytes -= n as u64,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Reads `bytes` octets.
///
/// # Errors
/// `TimedOut` when they have not come at `until`; what the kernel said when the connection broke.
pub(super) fn receive(mut from: &TcpStream, mut bytes: u64, until: Instant) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK.min(bytes as usize)];
    while bytes > 0 {
        from.set_read_timeout(Some(left(until)?))?;
        let most = bytes.min(buffer.len() as u64) as usize;
        match from.read(&mut buffer[..most]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => bytes -= n as u64,
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn left(until: Instant) -> io::Result<Duration> {
    until
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
        .ok_or_else(|| ErrorKind::TimedOut.into())
}
