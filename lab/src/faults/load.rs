//! The load that a fault strikes: connections on which the receiver asks and the senders answer, over and over, every byte of it
//! looked at.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::harm::row::{RowError, io_error};
use crate::harm::streams::{Pair, open, plain};
use crate::testbed::Testbed;

/// Bytes of a response.
const RESPONSE: usize = 32_000;
/// Bytes of a request: the number of its round.
const REQUEST: usize = 8;
/// How long a connection may stand still before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(30);
/// The bytes of all responses: each round's begin at another place.
const PERIOD: usize = 251;

/// What is known of one connection. Times are in microseconds since the load began.
#[derive(Debug, Default)]
struct Account {
    received: AtomicU64,
    wrong: AtomicU64,
    last: AtomicU64,
    longest: AtomicU64,
    lost: AtomicBool,
}

/// Connections under load. Dropping it closes them.
#[derive(Debug)]
pub(super) struct Load {
    began: Instant,
    accounts: Vec<Arc<Account>>,
    stop: Arc<AtomicBool>,
    closers: Vec<std::net::TcpStream>,
    asking: Vec<JoinHandle<()>>,
    answering: Vec<JoinHandle<()>>,
}

/// What became of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Losses {
    pub(super) connections: usize,
    pub(super) bytes: u64,
}

impl Load {
    pub(super) fn start(testbed: &Testbed, connections: usize) -> Result<Self, RowError> {
        let pairs = open(testbed, connections, &plain)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut load = Self {
            began: Instant::now(),
            accounts: Vec::new(),
            stop,
            closers: Vec::new(),
            asking: Vec::new(),
            answering: Vec::new(),
        };
        for Pair { receiver, mut sender } in pairs {
            let setting = io_error("setting up a connection");
            receiver.set_read_timeout(Some(PATIENCE)).map_err(&setting)?;
            for end in [&receiver, &sender] {
                load.closers.push(end.try_clone().map_err(&setting)?);
            }
            // Until its thread says otherwise: one that panics is not through.
            let account = Arc::new(Account { lost: AtomicBool::new(true), ..Account::default() });
            load.accounts.push(Arc::clone(&account));
            load.answering.push(std::thread::spawn(move || {
                let bytes = pattern();
                let mut request = [0; REQUEST];
                while sender.read_exact(&mut request).is_ok() && sender.write_all(response(&bytes, request)).is_ok() {}
            }));
            let (stop, began) = (Arc::clone(&load.stop), load.began);
            load.asking.push(std::thread::spawn(move || {
                let asked = ask(receiver, &account, &stop, began);
                account.lost.store(asked.is_err(), Ordering::Relaxed);
            }));
        }
        Ok(load)
    }

    /// Forgets the pauses so far.
    pub(super) fn mark(&self) {
        for account in &self.accounts {
            account.longest.store(0, Ordering::Relaxed);
        }
    }

    /// Waits until every connection has received something more; how long that took, `None` when one has not in time.
    pub(super) fn wait_for_all(&self, patience: Duration) -> Option<Duration> {
        let received = |account: &Arc<Account>| account.received.load(Ordering::Relaxed);
        let (began, before): (_, Vec<u64>) = (Instant::now(), self.accounts.iter().map(received).collect());
        while self.accounts.iter().zip(&before).any(|(account, before)| received(account) == *before) {
            if began.elapsed() > patience {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Some(began.elapsed())
    }

    /// The longest time since [`Self::mark`] in which a connection received nothing.
    pub(super) fn longest_pause(&self) -> Duration {
        let now = micros(self.began);
        let longest = self.accounts.iter().map(|account| {
            let open = now.saturating_sub(account.last.load(Ordering::Relaxed));
            account.longest.load(Ordering::Relaxed).max(open)
        });
        Duration::from_micros(longest.max().unwrap_or(0))
    }

    /// Lets every connection finish the response that it is at.
    pub(super) fn finish(mut self) -> Losses {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.asking.drain(..) {
            // A panic in it was told already.
            let _ = thread.join();
        }
        let lost = |account: &&Arc<Account>| account.lost.load(Ordering::Relaxed);
        Losses {
            connections: self.accounts.iter().filter(lost).count(),
            bytes: self.accounts.iter().map(|account| account.wrong.load(Ordering::Relaxed)).sum(),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for end in &self.closers {
            // One that is closed already is as good.
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.asking.drain(..).chain(self.answering.drain(..)) {
            let _ = thread.join();
        }
    }
}

/// Asks until it is to stop; an error when the connection breaks before.
fn ask(mut stream: std::net::TcpStream, account: &Account, stop: &AtomicBool, began: Instant) -> io::Result<()> {
    let bytes = pattern();
    let mut buffer = vec![0; RESPONSE];
    account.last.store(micros(began), Ordering::Relaxed);
    for round in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let request = round.to_be_bytes();
        stream.write_all(&request)?;
        let mut filled = 0;
        while filled < RESPONSE {
            let read = match stream.read(&mut buffer[filled..]) {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                read => read,
            };
            let count = match read {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    account.wrong.fetch_add((RESPONSE - filled) as u64, Ordering::Relaxed);
                    return Err(error);
                }
            };
            filled += count;
            let now = micros(began);
            let before = account.last.swap(now, Ordering::Relaxed);
            account.longest.fetch_max(now.saturating_sub(before), Ordering::Relaxed);
            account.received.fetch_add(count as u64, Ordering::Relaxed);
        }
        let wrong = buffer.iter().zip(response(&bytes, request)).filter(|(got, sent)| got != sent).count();
        account.wrong.fetch_add(wrong as u64, Ordering::Relaxed);
    }
    Ok(())
}

fn pattern() -> Vec<u8> {
    (0..RESPONSE + PERIOD).map(|at| (at % PERIOD) as u8).collect()
}

/// The response to a request.
fn response(pattern: &[u8], request: [u8; REQUEST]) -> &[u8] {
    let from = (u64::from_be_bytes(request) % PERIOD as u64) as usize;
    &pattern[from..from + RESPONSE]
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rounds_in_a_row_have_no_byte_in_common() {
        let bytes = pattern();
        let [one, two] = [41_u64, 42].map(|round| response(&bytes, round.to_be_bytes()));
        assert!(one.iter().zip(two).all(|(one, two)| one != two));
        assert_eq!(response(&bytes, 250_u64.to_be_bytes()).len(), RESPONSE);
    }
}
