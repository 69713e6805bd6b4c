//! The receiving end of the load: opens the connections, asks all senders at once, waits for all of them, asks again.
//! One thread, one epoll.

mod config;
mod control;

use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::counters::SenderCounters;
use super::report::{LoadReport, Round};
use super::wire::{Command, Hello, Reply, Role};
use super::{LoadError, make_room};
use control::Control;

pub use config::{PullConfig, Start, Volume};

/// What happens while a load runs.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// All connections stand and the warm-up is over: measurement begins.
    WarmedUp,
    /// A measured round is complete.
    Round(&'a Round),
    /// Measurement is over.
    Measured,
}

/// How many connections are opened at a time outside measured rounds, so that their SYN-ACKs fit into a shallow buffer.
const WAVE: usize = 64;
/// Marks an epoll event as the listener's.
const LISTENER: u64 = u64::MAX;
/// Most bytes taken from a socket at once.
const READ_BUFFER: usize = 256 * 1024;

/// Runs a load in the calling thread's network namespace.
///
/// `tell` hears of the rounds as they end. When the deadline passes after at least one measured round, the report covers
/// the rounds done so far (`rounds < rounds_asked`).
///
/// # Errors
/// Senseless settings, senders that cannot be reached or break, too few file descriptors, the deadline before the first
/// measured round, or `stop`.
pub fn pull(config: &PullConfig, stop: &AtomicBool, mut tell: impl FnMut(Event<'_>)) -> Result<LoadReport, LoadError> {
    config.check()?;
    make_room((config.connections + config.servers.len() + 64) as u64)?;
    let mut run = Run::new(config, stop)?;
    run.open_control()?;
    match (config.fresh, config.start) {
        (false, _) => run.open_all()?,
        (true, Start::Push) => run.listen()?,
        (true, Start::Pull) => {}
    }
    let mut flow_micros = Vec::with_capacity(config.connections * config.rounds as usize);
    let mut per_round = Vec::with_capacity(config.rounds as usize);
    let mut before = run.counters()?;
    let mut due = Instant::now();
    for index in 0..config.warmup + config.rounds {
        if index == config.warmup {
            tell(Event::WarmedUp);
        }
        if let Some(pace) = config.pace {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            due = Instant::now() + pace;
        }
        let took = match run.round(index) {
            Ok(took) => took,
            Err(LoadError::Deadline { .. }) if !per_round.is_empty() => break,
            Err(e) => return Err(e),
        };
        let now = run.counters()?;
        if index >= config.warmup {
            let round =
                Round { index: index - config.warmup, ms: took.as_secs_f64() * 1e3, senders: now.since(before) };
            tell(Event::Round(&round));
            per_round.push(round);
            flow_micros.extend(run.flows.iter().map(|f| u64::try_from(f.took.as_micros()).unwrap_or(u64::MAX)));
        }
        before = now;
    }
    tell(Event::Measured);
    Ok(LoadReport::new(
        config.connections,
        config.servers.len().min(config.connections),
        config.rounds,
        config.bytes() * config.connections as u64,
        per_round,
        &mut flow_micros,
    ))
}

struct Flow {
    addr: SocketAddr,
    stream: Option<TcpStream>,
    /// Octets still to be written before data can come (hello, request).
    outbox: Vec<u8>,
    /// The epoll watches for room to write.
    watches_out: bool,
    left: u64,
    asked: Instant,
    took: Duration,
}

struct Run<'a> {
    config: &'a PullConfig,
    stop: &'a AtomicBool,
    until: Instant,
    session: u64,
    epoll: Epoll,
    flows: Vec<Flow>,
    controls: Vec<Control>,
    /// Where senders connect to, when they open the connections.
    listener: Option<TcpListener>,
    buffer: Vec<u8>,
    round: u32,
    /// Flows with something in their outbox.
    unsent: usize,
    /// Flows that wait for data.
    unfilled: usize,
}

impl<'a> Run<'a> {
    fn new(config: &'a PullConfig, stop: &'a AtomicBool) -> Result<Self, LoadError> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|e| LoadError::Io { what: "creating an epoll", source: e.into() })?;
        let now = Instant::now();
        let flows = (0..config.connections)
            .map(|i| Flow {
                addr: config.servers[i % config.servers.len()],
                stream: None,
                outbox: Vec::new(),
                watches_out: false,
                left: 0,
                asked: now,
                took: Duration::ZERO,
            })
            .collect();
        Ok(Self {
            config,
            stop,
            until: now + config.deadline,
            session: std::hash::RandomState::new().build_hasher().finish(),
            epoll,
            flows,
            controls: Vec::new(),
            listener: None,
            buffer: vec![0; READ_BUFFER],
            round: 0,
            unsent: 0,
            unfilled: 0,
        })
    }

    /// One control connection to each server that has connections; blocking, with the deadline as its time limit.
    fn open_control(&mut self) -> Result<(), LoadError> {
        let cc = self.config.cc.clone().unwrap_or_default();
        for &addr in self.config.servers.iter().take(self.config.connections) {
            let refuse = |source| LoadError::Connect { addr, source };
            let patience = self.time_left()?.min(Duration::from_secs(5));
            let stream = TcpStream::connect_timeout(&addr, patience).map_err(refuse)?;
            stream.set_nodelay(true).map_err(refuse)?;
            stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(refuse)?;
            stream.set_write_timeout(Some(Duration::from_secs(10))).map_err(refuse)?;
            let mut control = Control { addr, stream, inbox: Vec::new() };
            let hello = Hello { role: Role::Control, session: self.session, cc: cc.clone() };
            control.write(&hello.encode())?;
            control.write(&Command::Ping.encode())?;
            match control.reply()? {
                Reply::NoSuchCc => return Err(LoadError::NoSuchCc { addr, cc }),
                _ => self.controls.push(control),
            }
        }
        Ok(())
    }

    /// Listens for the connections that senders open.
    fn listen(&mut self) -> Result<(), LoadError> {
        let ipv6 = self.config.servers.iter().any(SocketAddr::is_ipv6);
        let any: IpAddr = if ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        let addr = SocketAddr::new(any, 0);
        let refuse = |source| LoadError::Listen { addr, source };
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))
            .map_err(refuse)?;
        if let Some(mss) = self.config.mss {
            socket.set_tcp_mss(mss).map_err(refuse)?;
        }
        if let Some(cc) = &self.config.own_cc {
            socket.set_tcp_congestion(cc.as_bytes()).map_err(|_| LoadError::NoOwnCc(cc.clone()))?;
        }
        socket.bind(&addr.into()).map_err(refuse)?;
        socket.listen(i32::from(u16::MAX)).map_err(refuse)?;
        let listener = TcpListener::from(socket);
        self.epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER)).map_err(|e| refuse(e.into()))?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Has each sender open the connections that are its own.
    fn dial(&mut self, round: u32, bytes: u64) -> Result<(), LoadError> {
        let Some(listener) = &self.listener else { return Ok(()) };
        let port = listener.local_addr().map_err(LoadError::io("asking where it listens"))?.port();
        let each = Command::Dial { port, round, bytes }.encode();
        let (servers, connections) = (self.controls.len(), self.flows.len());
        for (i, control) in self.controls.iter_mut().enumerate() {
            let count = connections / servers + usize::from(i < connections % servers);
            control.write(&each.repeat(count))?;
        }
        Ok(())
    }

    /// Takes the connections that have come to stand.
    fn accept(&mut self) -> Result<(), LoadError> {
        let Some(listener) = &self.listener else { return Ok(()) };
        let failed = LoadError::io("accepting a connection");
        loop {
            let (stream, addr) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(failed(error)),
            };
            stream.set_nonblocking(true).map_err(&failed)?;
            // One more than was asked for is none of ours.
            let Some(slot) = self.flows.iter().position(|flow| flow.stream.is_none()) else { continue };
            self.epoll
                .add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, slot as u64))
                .map_err(|error| failed(error.into()))?;
            self.flows[slot].addr = addr;
            self.flows[slot].stream = Some(stream);
        }
    }

    /// Opens all data connections in waves and waits until the servers know them.
    fn open_all(&mut self) -> Result<(), LoadError> {
        for first in (0..self.flows.len()).step_by(WAVE) {
            for slot in first..(first + WAVE).min(self.flows.len()) {
                self.connect(slot, None)?;
            }
            self.drive()?;
        }
        // A push reaches only connections whose hello the server has read.
        while self.counters()?.connections < self.flows.len() as u64 {
            self.time_left()?;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Starts to connect, and leaves the hello (and a request) to be written when the connection stands.
    fn connect(&mut self, slot: usize, request: Option<Command>) -> Result<(), LoadError> {
        let flow = &mut self.flows[slot];
        let addr = flow.addr;
        let refuse = |source| LoadError::Connect { addr, source };
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))
            .map_err(refuse)?;
        socket.set_tcp_nodelay(true).map_err(refuse)?;
        if let Some(mss) = self.config.mss {
            socket.set_tcp_mss(mss).map_err(refuse)?;
        }
        match socket.connect(&addr.into()) {
            Ok(()) => {}
            Err(e) if e.raw_os_error() == Some(nix::libc::EINPROGRESS) => {}
            Err(e) => return Err(refuse(e)),
        }
        // After the SYN, which must not be ECN-capable itself, or a listener that runs something else refuses ECN.
        if let Some(cc) = &self.config.own_cc {
            socket.set_tcp_congestion(cc.as_bytes()).map_err(|_| LoadError::NoOwnCc(cc.clone()))?;
        }
        let stream = TcpStream::from(socket);
        let interest = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT;
        self.epoll.add(&stream, EpollEvent::new(interest, slot as u64)).map_err(|e| refuse(e.into()))?;
        let hello = Hello { role: Role::Data, session: self.session, cc: self.config.cc.clone().unwrap_or_default() };
        flow.outbox = hello.encode().to_vec();
        flow.outbox.extend(request.iter().flat_map(Command::encode));
        flow.watches_out = true;
        flow.stream = Some(stream);
        self.unsent += 1;
        Ok(())
    }

    /// One round; its length from the first request to the last byte.
    fn round(&mut self, index: u32) -> Result<Duration, LoadError> {
        self.round = index;
        let bytes = self.config.bytes();
        let request = Command::Request { round: index, bytes };
        let began = Instant::now();
        for flow in &mut self.flows {
            flow.left = bytes;
            flow.asked = began;
        }
        self.unfilled = self.flows.len();
        match (self.config.start, self.config.fresh) {
            (Start::Push, true) => self.dial(index, bytes)?,
            (Start::Push, false) => {
                let push = Command::Push { round: index, bytes }.encode();
                for control in &mut self.controls {
                    control.write(&push)?;
                }
            }
            (Start::Pull, true) => {
                for slot in 0..self.flows.len() {
                    self.flows[slot].asked = Instant::now();
                    self.connect(slot, Some(request))?;
                }
            }
            (Start::Pull, false) => {
                let octets = request.encode();
                for slot in 0..self.flows.len() {
                    self.flows[slot].asked = Instant::now();
                    self.flows[slot].outbox.extend_from_slice(&octets);
                    self.unsent += 1;
                    self.write(slot)?;
                }
            }
        }
        self.drive()?;
        let took = began.elapsed();
        if self.config.fresh {
            for flow in &mut self.flows {
                flow.stream = None;
            }
        }
        Ok(took)
    }

    /// Handles events until nothing is left to send and no data to wait for.
    fn drive(&mut self) -> Result<(), LoadError> {
        let mut events = [EpollEvent::empty(); 256];
        while self.unsent > 0 || self.unfilled > 0 {
            if self.stop.load(Ordering::Relaxed) {
                return Err(LoadError::Stopped);
            }
            self.time_left()?;
            let count = match self.epoll.wait(&mut events, EpollTimeout::from(50u16)) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => 0,
                Err(e) => return Err(LoadError::Io { what: "waiting for events", source: e.into() }),
            };
            for event in &events[..count] {
                if event.data() == LISTENER {
                    self.accept()?;
                    continue;
                }
                let slot = event.data() as usize;
                if event.events().contains(EpollFlags::EPOLLOUT) {
                    self.write(slot)?;
                }
                if event.events().intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP) {
                    self.read(slot)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the outbox; the epoll watches for room only while something is left of it.
    fn write(&mut self, slot: usize) -> Result<(), LoadError> {
        let round = self.round;
        let flow = &mut self.flows[slot];
        let Some(stream) = flow.stream.as_mut() else { return Ok(()) };
        let addr = flow.addr;
        if let Ok(Some(source)) = stream.take_error() {
            return Err(LoadError::Connect { addr, source });
        }
        let had_some = !flow.outbox.is_empty();
        while !flow.outbox.is_empty() {
            match stream.write(&flow.outbox) {
                Ok(n) => drop(flow.outbox.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(LoadError::Broken { addr, round, source }),
            }
        }
        let wants_out = !flow.outbox.is_empty();
        if had_some && !wants_out {
            self.unsent -= 1;
        }
        if wants_out != flow.watches_out {
            flow.watches_out = wants_out;
            let mut interest = EpollFlags::EPOLLIN;
            interest.set(EpollFlags::EPOLLOUT, wants_out);
            self.epoll
                .modify(&*stream, &mut EpollEvent::new(interest, slot as u64))
                .map_err(|e| LoadError::Broken { addr, round, source: e.into() })?;
        }
        Ok(())
    }

    /// Reads what is there.
    fn read(&mut self, slot: usize) -> Result<(), LoadError> {
        let round = self.round;
        let flow = &mut self.flows[slot];
        let Some(stream) = flow.stream.as_mut() else { return Ok(()) };
        let broken = |source| LoadError::Broken { addr: flow.addr, round, source };
        if flow.left == 0 && self.listener.is_some() {
            // All has come, and the sender has ended it.
            return self.epoll.delete(&*stream).map_err(|e| broken(e.into()));
        }
        loop {
            match stream.read(&mut self.buffer) {
                Ok(0) => {
                    return Err(broken(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the sender closed it (does it offer the congestion control, and has it descriptors left?)",
                    )));
                }
                Ok(n) if n as u64 > flow.left => {
                    return Err(broken(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "more bytes came than were asked for",
                    )));
                }
                Ok(n) => {
                    flow.left -= n as u64;
                    if self.config.quickack {
                        SockRef::from(&*stream).set_tcp_quickack(true).map_err(broken)?;
                    }
                    if flow.left == 0 {
                        flow.took = flow.asked.elapsed();
                        self.unfilled -= 1;
                        return Ok(());
                    }
                    // A short read emptied the socket: asking again would only cost a system call.
                    if n < self.buffer.len() {
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(broken(e)),
            }
        }
    }

    /// The senders' counters now, added up over hosts.
    fn counters(&mut self) -> Result<SenderCounters, LoadError> {
        for control in &mut self.controls {
            control.write(&Command::Counters.encode())?;
        }
        let mut sum = SenderCounters::default();
        let mut seen = Vec::with_capacity(self.controls.len());
        for control in &mut self.controls {
            let Reply::Counters(values) = control.reply()? else {
                return Err(LoadError::Wire { addr: control.addr, source: super::wire::WireError::Field("reply") });
            };
            let (host, values) = values.split_first().map_or((0, &[][..]), |(h, v)| (*h, v));
            sum = sum.plus(SenderCounters::from_values(values), seen.contains(&host));
            seen.push(host);
        }
        Ok(sum)
    }

    fn time_left(&self) -> Result<Duration, LoadError> {
        match self.until.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(LoadError::Deadline {
                deadline: self.config.deadline,
                done: self.flows.iter().filter(|f| f.stream.is_some() && f.left == 0).count(),
                asked: self.flows.len(),
            }),
        }
    }
}

impl Drop for Run<'_> {
    /// A load that ends in the middle of a round resets its connections: senders that went on sending to nobody would
    /// count their timeouts in the next load.
    fn drop(&mut self) {
        if self.unfilled > 0 {
            for stream in self.flows.iter().filter_map(|flow| flow.stream.as_ref()) {
                // Without it the connection is closed the slow way.
                let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
            }
        }
    }
}
