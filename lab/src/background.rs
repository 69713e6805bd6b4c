//! The long flow of PAC Fig. 6: from a sender host to the host beside the receiver, as fast as its application writes, which has a
//! rate. It shares the link between the switches with the incast and nothing else.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::dctcp;
use crate::incast::LabError;
use crate::testbed::{Testbed, TestbedError};

/// Where the sender host listens for it.
const PORT: u16 = 5079;
/// How long the connection may take to stand.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the application writes.
const TICK: Duration = Duration::from_millis(1);
/// Most that it writes at once.
const CHUNK: usize = 64 * 1024;

/// A long flow that runs until this is dropped.
pub struct Background {
    ends: [TcpStream; 2],
    received: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Starts it on a testbed with a core, at `rate` payload bits per second; `cc` as in [`IncastConfig::cc`](crate::incast::IncastConfig::cc).
    ///
    /// # Errors
    /// When the testbed has no core, or the connection does not come to stand.
    pub fn start(testbed: &Testbed, rate: u64, cc: Option<&str>) -> Result<Self, LabError> {
        let told = |source| LabError::Io { what: "starting the long flow beside", source };
        let Some(beside) = testbed.beside() else {
            return Err(
                TestbedError::Config("a long flow beside the receiver needs a bottleneck in the core".into()).into()
            );
        };
        // DCTCP is a protocol of both ends (RFC 8257 §3.2).
        let (cc, both) = match cc {
            Some(dctcp::NAME) => (dctcp::name()?, true),
            other => (other.unwrap_or("reno"), false),
        };
        let host = testbed.spec().hosts - 1;
        let address = SocketAddr::new(Testbed::sender_address(host, false), PORT);
        let listener = testbed.sender(host).inside(|| listen(address, cc)).and_then(|done| done).map_err(told)?;
        let receiver =
            beside.inside(|| TcpStream::connect_timeout(&address, PATIENCE)).and_then(|done| done).map_err(told)?;
        if both {
            SockRef::from(&receiver).set_tcp_congestion(cc.as_bytes()).map_err(told)?;
        }
        let (sender, _) = listener.accept().map_err(told)?;
        let sender = TcpStream::from(sender);
        let ends = [sender.try_clone().map_err(told)?, receiver.try_clone().map_err(told)?];
        let received = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&received);
        let threads =
            vec![std::thread::spawn(move || write(sender, rate)), std::thread::spawn(move || read(receiver, &count))];
        Ok(Self { ends, received, threads })
    }

    /// Payload that has arrived so far, in bytes.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        for end in &self.ends {
            // One that is closed already is as good.
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            // A panic in it was told already.
            let _ = thread.join();
        }
    }
}

fn listen(address: SocketAddr, cc: &str) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_tcp_congestion(cc.as_bytes())?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.bind(&address.into())?;
    socket.listen(1)?;
    Ok(socket)
}

/// Writes what is due; what the network did not take in time is made up for when it does.
fn write(mut to: TcpStream, rate: u64) {
    let payload = [0x5a; CHUNK];
    let (began, mut sent) = (Instant::now(), 0_u128);
    loop {
        let due = began.elapsed().as_nanos() * u128::from(rate) / 8_000_000_000;
        while sent < due {
            match to.write(&payload[..usize::try_from(due - sent).unwrap_or(CHUNK).min(CHUNK)]) {
                Ok(len) => sent += len as u128,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
        std::thread::sleep(TICK);
    }
}

fn read(mut from: TcpStream, count: &AtomicU64) {
    let mut buffer = vec![0; 4 * CHUNK];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        count.fetch_add(len as u64, Ordering::Relaxed);
    }
}
