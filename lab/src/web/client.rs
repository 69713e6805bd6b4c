//! A client of many web servers: one thread, one epoll. On kept connections it asks in rounds, all at once; on new ones when their
//! time has come.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::WebError;
use super::http::{Response, request};
use crate::load::make_room;

/// Connections that are opened at a time, so that their SYN-ACKs fit into a shallow buffer.
const WAVE: usize = 64;
/// Most bytes taken from a socket at once.
const READ_BUFFER: usize = 256 * 1024;

/// One connection and what it is asked for.
struct Exchange {
    address: SocketAddr,
    stream: TcpStream,
    /// Of the request, what is not written yet.
    outbox: VecDeque<u8>,
    response: Response,
    asked: Instant,
    took: Option<Duration>,
}

/// A client in the namespace of the thread that made it.
pub(super) struct Client<'a> {
    epoll: Epoll,
    exchanges: Vec<Option<Exchange>>,
    buffer: Vec<u8>,
    cc: Option<String>,
    until: Instant,
    stop: &'a AtomicBool,
    /// Exchanges under way.
    open: usize,
}

impl<'a> Client<'a> {
    /// A client with room for so many connections; `cc` is its own congestion control, for those that are protocols of both ends.
    ///
    /// # Errors
    /// When the kernel gives no epoll or not enough descriptors.
    pub(super) fn new(
        connections: usize,
        cc: Option<String>,
        until: Instant,
        stop: &'a AtomicBool,
    ) -> Result<Self, WebError> {
        make_room(connections as u64 + 256)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|error| WebError::Io { what: "creating an epoll", source: error.into() })?;
        Ok(Self { epoll, exchanges: Vec::new(), buffer: vec![0; READ_BUFFER], cc, until, stop, open: 0 })
    }

    /// Opens connections that are kept, spread over the servers in turn, and asks each once, which is not measured.
    ///
    /// # Errors
    /// When a server cannot be reached or does not serve.
    pub(super) fn open(&mut self, servers: &[SocketAddr], connections: usize, path: &str) -> Result<(), WebError> {
        for first in (0..connections).step_by(WAVE) {
            for i in first..(first + WAVE).min(connections) {
                self.begin(servers[i % servers.len()], path)?;
            }
            self.drive(|client| client.open > 0)?;
        }
        Ok(())
    }

    /// Asks on all connections at once; the time of the round and of each of its answers.
    ///
    /// # Errors
    /// When a connection breaks or time is up.
    pub(super) fn round(&mut self, path: &str) -> Result<(Duration, Vec<Duration>), WebError> {
        let began = Instant::now();
        for slot in 0..self.exchanges.len() {
            if let Some(exchange) = self.exchanges[slot].as_mut() {
                exchange.outbox.extend(request(exchange.address.ip(), path));
                (exchange.response, exchange.asked, exchange.took) = (Response::begin(), Instant::now(), None);
                self.open += 1;
                self.write(slot)?;
            }
        }
        self.drive(|client| client.open > 0)?;
        Ok((began.elapsed(), self.exchanges.iter().flatten().filter_map(|exchange| exchange.took).collect()))
    }

    /// Asks on a new connection at each of `due`, spread over the servers in turn, and closes it with its answer; the times from the
    /// SYN to the last byte, those that time ran out for counted as long as they had.
    ///
    /// # Errors
    /// When a connection breaks.
    pub(super) fn pages(
        &mut self,
        servers: &[SocketAddr],
        path: &str,
        due: &[Duration],
    ) -> Result<Vec<Duration>, WebError> {
        let began = Instant::now();
        let mut took = Vec::with_capacity(due.len());
        let mut next = 0;
        while next < due.len() || self.open > 0 {
            while next < due.len() && began.elapsed() >= due[next] {
                self.begin(servers[next % servers.len()], path)?;
                next += 1;
            }
            let wait = due.get(next).map_or(Duration::from_millis(50), |due| due.saturating_sub(began.elapsed()));
            match self.turn(wait) {
                Err(WebError::Deadline(_)) => break,
                other => other?,
            }
            for slot in &mut self.exchanges {
                if let Some(time) = slot.as_ref().and_then(|exchange| exchange.took) {
                    took.push(time);
                    *slot = None;
                }
            }
        }
        took.extend(self.exchanges.drain(..).flatten().map(|exchange| exchange.asked.elapsed()));
        self.open = 0;
        Ok(took)
    }

    /// Opens a connection and asks.
    fn begin(&mut self, address: SocketAddr, path: &str) -> Result<(), WebError> {
        let refuse = |source| WebError::Broken { address, source };
        let socket =
            Socket::new(Domain::for_address(address), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))
                .map_err(refuse)?;
        socket.set_tcp_nodelay(true).map_err(refuse)?;
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(nix::libc::EINPROGRESS) => return Err(refuse(error)),
            _ => {}
        }
        // After the SYN, which must not be ECN-capable itself.
        if let Some(cc) = &self.cc {
            socket.set_tcp_congestion(cc.as_bytes()).map_err(refuse)?;
        }
        let stream = TcpStream::from(socket);
        let slot = self.exchanges.len();
        let interest = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        self.epoll.add(&stream, EpollEvent::new(interest, slot as u64)).map_err(|error| refuse(error.into()))?;
        let outbox = request(address.ip(), path).into();
        let (asked, response) = (Instant::now(), Response::begin());
        self.exchanges.push(Some(Exchange { address, stream, outbox, response, asked, took: None }));
        self.open += 1;
        Ok(())
    }

    fn drive(&mut self, more: impl Fn(&Self) -> bool) -> Result<(), WebError> {
        while more(self) {
            self.turn(Duration::from_millis(50))?;
        }
        Ok(())
    }

    /// Handles the events of one wait.
    fn turn(&mut self, wait: Duration) -> Result<(), WebError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(WebError::Stopped);
        }
        if Instant::now() > self.until {
            return Err(WebError::Deadline(self.open));
        }
        let mut events = [EpollEvent::empty(); 256];
        let wait = u16::try_from(wait.as_millis() + 1).unwrap_or(50).min(50);
        let count = match self.epoll.wait(&mut events, EpollTimeout::from(wait)) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(error) => return Err(WebError::Io { what: "waiting for events", source: error.into() }),
        };
        for event in &events[..count] {
            let slot = event.data() as usize;
            self.write(slot)?;
            self.read(slot)?;
        }
        Ok(())
    }

    fn write(&mut self, slot: usize) -> Result<(), WebError> {
        let Some(exchange) = self.exchanges.get_mut(slot).and_then(Option::as_mut) else { return Ok(()) };
        while !exchange.outbox.is_empty() {
            match exchange.stream.write(exchange.outbox.as_slices().0) {
                Ok(len) => drop(exchange.outbox.drain(..len)),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(WebError::Broken { address: exchange.address, source }),
            }
        }
        Ok(())
    }

    fn read(&mut self, slot: usize) -> Result<(), WebError> {
        let Some(exchange) = self.exchanges.get_mut(slot).and_then(Option::as_mut) else { return Ok(()) };
        let address = exchange.address;
        if let Ok(Some(source)) = SockRef::from(&exchange.stream).take_error() {
            return Err(WebError::Broken { address, source });
        }
        while exchange.took.is_none() {
            match exchange.stream.read(&mut self.buffer) {
                Ok(0) => return Err(WebError::Broken { address, source: io::ErrorKind::UnexpectedEof.into() }),
                Ok(len) => {
                    let taken = exchange.response.take(&self.buffer[..len]);
                    taken.map_err(|problem| WebError::Answer { address, problem })?;
                    if exchange.response.is_complete() {
                        exchange.took = Some(exchange.asked.elapsed());
                        self.open -= 1;
                    }
                }
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(WebError::Broken { address, source }),
            }
        }
        Ok(())
    }
}
