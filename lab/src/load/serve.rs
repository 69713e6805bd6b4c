//! The sending end of the load: accepts connections on any number of addresses and sends what it is asked for. One thread,
//! one epoll. It keeps nothing but sockets and counts, so a broken or hostile client costs one connection.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::LoadError;
use super::counters::{HostCounters, SenderCounters, TcpInfo};
use super::wire::{COMMAND_LEN, Command, HELLO_LEN, Hello, Reply, Role};

/// How long a connection may be silent before it is closed.
const IDLE_LIMIT: Duration = Duration::from_secs(600);
/// Most bytes written to one connection before the others get a turn.
const TURN: u64 = 1 << 20;
/// How often the stop flag and idle connections are looked at.
const TICK_MS: u16 = 100;
/// Marks an epoll event as a listener's.
const LISTENER: u64 = 1 << 63;

/// The sending end.
#[derive(Debug)]
pub struct Server {
    epoll: Epoll,
    listeners: Vec<Listener>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    sessions: HashMap<(u64, usize), SenderCounters>,
    payload: Vec<u8>,
}

#[derive(Debug)]
struct Listener {
    socket: TcpListener,
    host: u64,
    counters: HostCounters,
    /// The network namespace that it is in.
    namespace: File,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    listener: usize,
    hello: Option<Hello>,
    inbox: [u8; HELLO_LEN],
    filled: usize,
    owed: u64,
    replies: Vec<u8>,
    waits_to_write: bool,
    /// It ends when all is sent.
    ends: bool,
    last_active: Instant,
}

/// What to do with a connection after an event.
#[derive(PartialEq, Eq)]
enum Fate {
    Keep,
    Close,
}

impl Server {
    /// A sending end that listens nowhere yet.
    ///
    /// # Errors
    /// When the kernel gives no epoll.
    pub fn new() -> Result<Self, LoadError> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|e| LoadError::Io { what: "creating an epoll", source: e.into() })?;
        Ok(Self {
            epoll,
            listeners: Vec::new(),
            connections: Vec::new(),
            free: Vec::new(),
            sessions: HashMap::new(),
            payload: vec![0x5a; 256 * 1024],
        })
    }

    /// Listens on `addr` in the calling thread's network namespace, whose counters it will report, and says where (port 0
    /// becomes a real one). `mss` clamps the segment size of the connections accepted here, in bytes.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn listen(&mut self, addr: SocketAddr, mss: Option<u32>) -> Result<SocketAddr, LoadError> {
        let refuse = |source| LoadError::Listen { addr, source };
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))
            .map_err(refuse)?;
        if addr.is_ipv6() {
            socket.set_only_v6(true).map_err(refuse)?;
        }
        socket.set_reuse_address(true).map_err(refuse)?;
        if let Some(mss) = mss {
            socket.set_tcp_mss(mss).map_err(refuse)?;
        }
        socket.bind(&addr.into()).map_err(refuse)?;
        socket.listen(i32::from(u16::MAX)).map_err(refuse)?;
        let socket = TcpListener::from(socket);
        let bound = socket.local_addr().map_err(refuse)?;
        let token = LISTENER | self.listeners.len() as u64;
        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, token)).map_err(|e| refuse(e.into()))?;
        let counters = HostCounters::open().map_err(LoadError::io("reading /proc/net"))?;
        let namespace = File::open("/proc/thread-self/ns/net").map_err(LoadError::io("opening a network namespace"))?;
        self.listeners.push(Listener { socket, host: host_id(), counters, namespace });
        Ok(bound)
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    /// When file descriptors run out or epoll fails; a client's errors only close its connection.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), LoadError> {
        let mut events = [EpollEvent::empty(); 256];
        let mut swept = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let count = match self.epoll.wait(&mut events, EpollTimeout::from(TICK_MS)) {
                Ok(count) => count,
                Err(nix::errno::Errno::EINTR) => 0,
                Err(e) => return Err(LoadError::Io { what: "waiting for events", source: e.into() }),
            };
            for event in &events[..count] {
                if event.data() & LISTENER != 0 {
                    self.accept((event.data() & !LISTENER) as usize)?;
                } else {
                    self.serve_one(event.data() as usize, event.events());
                }
            }
            if swept.elapsed() > Duration::from_secs(10) {
                swept = Instant::now();
                self.sweep();
            }
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize) -> Result<(), LoadError> {
        loop {
            let stream = match self.listeners[listener].socket.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if matches!(e.raw_os_error(), Some(nix::libc::EMFILE | nix::libc::ENFILE)) => {
                    let open = self.connections.len() as u64;
                    return Err(LoadError::Descriptors { need: open + 1, hard: open });
                }
                // The client gave up between its SYN and now.
                Err(_) => continue,
            };
            if stream.set_nonblocking(true).is_err() || stream.set_nodelay(true).is_err() {
                continue;
            }
            self.keep(Connection {
                stream,
                listener,
                hello: None,
                inbox: [0; HELLO_LEN],
                filled: 0,
                owed: 0,
                replies: Vec::new(),
                waits_to_write: false,
                ends: false,
                last_active: Instant::now(),
            });
        }
    }

    /// Takes care of a connection from now on.
    fn keep(&mut self, connection: Connection) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let mut interest = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP;
        interest.set(EpollFlags::EPOLLOUT, connection.waits_to_write);
        if self.epoll.add(&connection.stream, EpollEvent::new(interest, slot as u64)).is_err() {
            self.free.push(slot);
            return;
        }
        self.connections[slot] = Some(connection);
    }

    /// Opens a connection to where a control connection comes from, and sends on it.
    fn dial(&mut self, control: usize, port: u16, bytes: u64) -> io::Result<()> {
        let Some(Connection { stream, listener, hello: Some(hello), .. }) = self.connections[control].as_ref() else {
            return Ok(());
        };
        let (mut here, mut there) = (stream.local_addr()?, stream.peer_addr()?);
        here.set_port(0);
        there.set_port(port);
        let at = &self.listeners[*listener];
        if at.host != host_id() {
            setns(&at.namespace, CloneFlags::CLONE_NEWNET)?;
        }
        let socket =
            Socket::new(Domain::for_address(there), Type::STREAM.nonblocking().cloexec(), Some(Protocol::TCP))?;
        socket.set_tcp_nodelay(true)?;
        socket.bind(&here.into())?;
        match socket.connect(&there.into()) {
            Err(error) if error.raw_os_error() != Some(nix::libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        // After the SYN, as at the receiver.
        if !hello.cc.is_empty() {
            socket.set_tcp_congestion(hello.cc.as_bytes())?;
        }
        let connection = Connection {
            stream: socket.into(),
            listener: *listener,
            hello: Some(Hello { role: Role::Data, ..hello.clone() }),
            inbox: [0; HELLO_LEN],
            filled: 0,
            owed: bytes,
            replies: Vec::new(),
            waits_to_write: true,
            ends: true,
            last_active: Instant::now(),
        };
        self.keep(connection);
        Ok(())
    }

    fn serve_one(&mut self, slot: usize, flags: EpollFlags) {
        let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) else { return };
        connection.last_active = Instant::now();
        let mut fate = Fate::Keep;
        if flags.contains(EpollFlags::EPOLLOUT) {
            fate = self.write(slot);
        }
        if fate == Fate::Keep && flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP) {
            fate = self.read(slot);
        }
        if fate == Fate::Close || flags.contains(EpollFlags::EPOLLERR) {
            self.close(slot);
        }
    }

    /// Reads what is there and obeys it.
    fn read(&mut self, slot: usize) -> Fate {
        // A client that never stops writing gets its turns like every other.
        for _ in 0..64 {
            let Some(connection) = self.connections[slot].as_mut() else { return Fate::Keep };
            let need = if connection.hello.is_some() { COMMAND_LEN } else { HELLO_LEN };
            match connection.stream.read(&mut connection.inbox[connection.filled..need]) {
                Ok(0) => return Fate::Close,
                Ok(n) => connection.filled += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Fate::Keep,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Fate::Close,
            }
            if connection.filled < need {
                continue;
            }
            connection.filled = 0;
            let fate = if connection.hello.is_none() { self.take_hello(slot) } else { self.take_command(slot) };
            if fate == Fate::Close {
                return fate;
            }
        }
        Fate::Keep
    }

    fn take_hello(&mut self, slot: usize) -> Fate {
        let Some(connection) = self.connections[slot].as_mut() else { return Fate::Keep };
        let Ok(hello) = Hello::decode(&connection.inbox) else { return Fate::Close };
        let cc_set =
            hello.cc.is_empty() || SockRef::from(&connection.stream).set_tcp_congestion(hello.cc.as_bytes()).is_ok();
        match (hello.role, cc_set) {
            (Role::Data, false) => return Fate::Close,
            (Role::Control, false) => connection.replies.extend(Reply::NoSuchCc.encode()),
            (Role::Data, true) => {}
            (Role::Control, true) => {
                self.sessions.insert((hello.session, connection.listener), SenderCounters::default());
            }
        }
        connection.hello = Some(hello);
        self.write(slot)
    }

    fn take_command(&mut self, slot: usize) -> Fate {
        let Some(connection) = self.connections[slot].as_mut() else { return Fate::Keep };
        let Some(hello) = &connection.hello else { return Fate::Close };
        let mut bytes = [0; COMMAND_LEN];
        bytes.copy_from_slice(&connection.inbox[..COMMAND_LEN]);
        let (session, listener) = (hello.session, connection.listener);
        match (hello.role, Command::decode(&bytes)) {
            (Role::Data, Ok(Command::Request { bytes, .. })) => {
                connection.owed = connection.owed.saturating_add(bytes);
                self.write(slot)
            }
            (Role::Control, Ok(Command::Ping)) => {
                connection.replies.extend(Reply::Ok.encode());
                self.write(slot)
            }
            (Role::Control, Ok(Command::Counters)) => {
                let Ok(values) = self.counters(session, listener) else { return Fate::Close };
                let Some(connection) = self.connections[slot].as_mut() else { return Fate::Keep };
                connection.replies.extend(Reply::Counters(values).encode());
                self.write(slot)
            }
            (Role::Control, Ok(Command::Push { bytes, .. })) => {
                self.push(session, listener, bytes);
                Fate::Keep
            }
            // A connection that cannot be opened is one that the receiver waits for in vain, which it tells.
            (Role::Control, Ok(Command::Dial { port, bytes, .. })) => match self.dial(slot, port, bytes) {
                Ok(()) => Fate::Keep,
                Err(_) => Fate::Close,
            },
            _ => Fate::Close,
        }
    }

    /// Every data connection of the session sends `bytes`.
    fn push(&mut self, session: u64, listener: usize, bytes: u64) {
        for slot in 0..self.connections.len() {
            let Some(connection) = self.connections[slot].as_mut() else { continue };
            if connection.belongs_to(session, listener) {
                connection.owed = connection.owed.saturating_add(bytes);
                if self.write(slot) == Fate::Close {
                    self.close(slot);
                }
            }
        }
    }

    /// The host's number, then its counters and those of the session's connections.
    fn counters(&mut self, session: u64, listener: usize) -> io::Result<Vec<u64>> {
        let at = &mut self.listeners[listener];
        let mut sum = at.counters.read()?;
        let mut values = vec![at.host];
        if let Some(closed) = self.sessions.get(&(session, listener)) {
            sum = sum.plus(*closed, false);
        }
        for connection in self.connections.iter().flatten().filter(|c| c.belongs_to(session, listener)) {
            sum.add_flow(&TcpInfo::of(connection.stream.as_fd())?);
        }
        values.extend(sum.to_values());
        Ok(values)
    }

    /// Writes what is owed until the socket is full or the turn is over.
    fn write(&mut self, slot: usize) -> Fate {
        let Some(connection) = self.connections[slot].as_mut() else { return Fate::Keep };
        let mut turn = TURN;
        let done = loop {
            let written = if connection.replies.is_empty() {
                let len = connection.owed.min(self.payload.len() as u64).min(turn);
                if len == 0 {
                    break connection.owed == 0;
                }
                connection.stream.write(&self.payload[..len as usize])
            } else {
                connection.stream.write(&connection.replies)
            };
            match written {
                Ok(n) if connection.replies.is_empty() => {
                    connection.owed -= n as u64;
                    turn -= n as u64;
                }
                Ok(n) => drop(connection.replies.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break false,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Fate::Close,
            }
        };
        if done && connection.ends && connection.stream.shutdown(Shutdown::Write).is_err() {
            return Fate::Close;
        }
        if connection.waits_to_write == done {
            let mut interest = EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP;
            interest.set(EpollFlags::EPOLLOUT, !done);
            connection.waits_to_write = !done;
            if self.epoll.modify(&connection.stream, &mut EpollEvent::new(interest, slot as u64)).is_err() {
                return Fate::Close;
            }
        }
        Fate::Keep
    }

    fn close(&mut self, slot: usize) {
        let Some(connection) = self.connections[slot].take() else { return };
        self.free.push(slot);
        // Closing the last descriptor of a socket removes it from the epoll by itself.
        let Some(hello) = &connection.hello else { return };
        let key = (hello.session, connection.listener);
        match hello.role {
            Role::Control => drop(self.sessions.remove(&key)),
            Role::Data => {
                if let (Some(sum), Ok(info)) = (self.sessions.get_mut(&key), TcpInfo::of(connection.stream.as_fd())) {
                    sum.add_closed_flow(&info);
                }
            }
        }
    }

    fn sweep(&mut self) {
        for slot in 0..self.connections.len() {
            if self.connections[slot].as_ref().is_some_and(|c| c.last_active.elapsed() > IDLE_LIMIT) {
                self.close(slot);
            }
        }
    }
}

impl Connection {
    fn belongs_to(&self, session: u64, listener: usize) -> bool {
        self.listener == listener && self.hello.as_ref().is_some_and(|h| h.session == session && h.role == Role::Data)
    }
}

/// A number that is the same for all addresses of one network namespace of one boot, and hardly ever for two.
fn host_id() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let boot =
        boot.bytes().filter_map(|b| char::from(b).to_digit(16)).fold(0u64, |n, d| n.rotate_left(4) ^ u64::from(d));
    let namespace = std::fs::metadata("/proc/thread-self/ns/net").map_or(0, |m| m.ino());
    boot ^ namespace.rotate_left(32)
}
