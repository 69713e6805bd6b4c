//! The floor of the retransmission timeout, as far as a stock kernel lets it be lowered (Vasudevan et al., §5, without
//! the kernel patch): by a sysctl for all connections (Linux 6.11), or by routes for some. What was there before is written
//! down first, and comes back with [`reset`].
//!
//! What is asked for is not what holds. The timer counts jiffies (4 ms at HZ 250), so a floor below one is one; and TCP adds
//! the round-trip time before it rounds up, so a floor of 5 ms is 8. [`Measured`] tells what connections really have.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::Error;

/// The sysctl, in microseconds; of the calling thread's network namespace.
const SYSCTL: &str = "/proc/sys/net/ipv4/tcp_rto_min_us";
/// Connections whose timeout is looked at.
const SAMPLES: usize = 16;
/// How long one of them may take.
const PATIENCE: Duration = Duration::from_secs(3);

/// The timeout that new connections have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The least of some connections. Two values one jiffy apart are usual: it depends on the round-trip time.
    pub least: Duration,
    /// The largest.
    pub most: Duration,
    /// The least round-trip time.
    pub rtt: Duration,
}

/// The floor for all connections; `None` where the kernel has no sysctl for it.
#[must_use]
pub fn sysctl() -> Option<Duration> {
    fs::read_to_string(SYSCTL).ok()?.trim().parse().ok().map(Duration::from_micros)
}

/// The floor that the route to an address sets.
///
/// # Errors
/// When there is no route, or no `ip`.
pub fn of_route(to: IpAddr) -> Result<Option<Duration>, Error> {
    let route = ip(&["-o", "route", "get", &to.to_string()])?;
    let words: Vec<&str> = route.split_ascii_whitespace().collect();
    let at = words.iter().position(|&word| word == "rto_min");
    Ok(at.and_then(|at| words[at + 1..].iter().find(|&&word| word != "lock")).and_then(|text| parse_time(text)))
}

/// What connections to a listener have.
///
/// # Errors
/// When it does not answer.
pub fn measure(to: SocketAddr) -> Result<Measured, Error> {
    let failed = |source| Error::Io { what: "connect to see what timeout connections have", source };
    let mut measured: Option<Measured> = None;
    for _ in 0..SAMPLES {
        let stream = TcpStream::connect_timeout(&to, PATIENCE).map_err(failed)?;
        let (rto, rtt) = timeout(&stream).map_err(failed)?;
        let now = measured.unwrap_or(Measured { least: rto, most: rto, rtt });
        measured = Some(Measured { least: now.least.min(rto), most: now.most.max(rto), rtt: now.rtt.min(rtt) });
    }
    measured.ok_or_else(|| failed(io::ErrorKind::NotConnected.into()))
}

/// What connections of this host to itself have: round-trip times next to nothing.
///
/// # Errors
/// When the loopback interface is down.
pub fn measure_here() -> Result<Measured, Error> {
    let listener = TcpListener::bind(("127.0.0.1", 0));
    let address = listener.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
    let (_listener, address) =
        address.map_err(|source| Error::Io { what: "listen on the loopback interface", source })?;
    measure(address)
}

/// Sets the floor for all connections.
///
/// # Errors
/// When the kernel has no such sysctl, or this process may not write it.
pub fn set(floor: Duration) -> Result<(), Error> {
    const WHAT: &str = "set the floor of the retransmission timeout for all connections";
    let Some(before) = sysctl() else {
        let source =
            io::Error::new(io::ErrorKind::NotFound, format!("{SYSCTL} needs Linux 6.11; name peers with --to instead"));
        return Err(Error::Unsupported { what: WHAT, source });
    };
    let mut journal = Journal::open()?;
    journal.note(&format!("sysctl {}", before.as_micros()))?;
    fs::write(SYSCTL, floor.as_micros().to_string()).map_err(|source| Error::from_io(WHAT, source))
}

/// Sets the floor for connections to a destination: an address, or a network that has a route.
///
/// # Errors
/// When there is no route, or this process may not change it.
pub fn set_route(to: &str, floor: Duration) -> Result<(), Error> {
    let family = if to.contains(':') { "-6" } else { "-4" };
    let shown = ip(&[family, "-o", "route", "show", "exact", to])?;
    let floor = format!("{}ms", floor.as_millis().max(1));
    let mut journal = Journal::open()?;
    if let Some(line) = shown.lines().next() {
        if line.contains("nexthop") {
            return Err(Error::Settings(format!(
                "the route to {to} has several next hops; name a single host behind one of them"
            )));
        }
        let before = plain(line);
        journal.note(&format!("{family} route replace {}", before.join(" ")))?;
        let mut words = vec![family, "route", "replace"];
        words.extend(without_floor(&before));
        words.extend(["rto_min", &floor]);
        return ip(&words).map(drop);
    }
    let got = ip(&[family, "-o", "route", "get", to])?;
    let way = plain(got.lines().next().unwrap_or_default());
    let way = without_floor(&way);
    journal.note(&format!("{family} route del {to}"))?;
    let mut words = vec![family, "route", "add", to];
    // What the answer begins with is the address that was asked for.
    words.extend(way.iter().skip(1));
    words.extend(["rto_min", &floor]);
    ip(&words).map(drop)
}

/// Brings back what was there before the first change; says how many changes are undone.
///
/// # Errors
/// When a change cannot be undone; it stays written down.
pub fn reset() -> Result<usize, Error> {
    let path = Journal::path()?;
    let Ok(text) = fs::read_to_string(&path) else { return Ok(0) };
    let mut left: Vec<&str> = text.lines().collect();
    let count = left.len();
    while let Some(change) = left.pop() {
        let undone = match change.strip_prefix("sysctl ") {
            Some(value) => fs::write(SYSCTL, value).map_err(|source| Error::from_io("restore the sysctl", source)),
            None => ip(&change.split(' ').collect::<Vec<_>>()).map(drop),
        };
        if let Err(error) = undone {
            left.push(change);
            let _ = fs::write(&path, left.join("\n") + "\n");
            return Err(error);
        }
    }
    fs::remove_file(&path).map_err(|source| Error::Io { what: "remove the list of changes", source })?;
    Ok(count)
}

/// What to do to undo each change, in the order in which they were made; until the next start of the machine.
struct Journal(File);

impl Journal {
    /// One for each network namespace.
    fn path() -> Result<PathBuf, Error> {
        let namespace = fs::metadata("/proc/thread-self/ns/net")
            .map_err(|source| Error::Io { what: "look at the network namespace", source })?;
        Ok(Path::new("/run").join(format!("ackgate-rto-{}", namespace.ino())))
    }

    fn open() -> Result<Self, Error> {
        let opened = File::options().create(true).append(true).open(Self::path()?);
        opened.map(Self).map_err(|source| Error::from_io("write down what is changed (in /run)", source))
    }

    fn note(&mut self, undo: &str) -> Result<(), Error> {
        writeln!(self.0, "{undo}").map_err(|source| Error::Io { what: "write down what is changed", source })
    }
}

/// A route as `ip` showed it, as it takes it.
fn plain(line: &str) -> Vec<&str> {
    let line = line.split('\\').next().unwrap_or_default();
    let mut words = line.split_ascii_whitespace();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            // `ip` tells whom it was asked for, and the unspecified source of IPv6.
            "uid" | "from" => drop(words.next()),
            "linkdown" | "dead" | "cache" => {}
            _ => kept.push(word),
        }
    }
    kept
}

/// Without `rto_min [lock] TIME`.
fn without_floor<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut words = words.iter().copied();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if word != "rto_min" {
            kept.push(word);
        } else if words.next() == Some("lock") {
            words.next();
        }
    }
    kept
}

/// A time as `ip` shows it: `5ms`, `1s`.
fn parse_time(text: &str) -> Option<Duration> {
    match text.strip_suffix("ms") {
        Some(number) => number.parse().ok().map(Duration::from_millis),
        None => text.strip_suffix('s')?.parse().ok().map(Duration::from_secs),
    }
}

/// Timeout and round-trip time of a connection.
fn timeout(stream: &TcpStream) -> io::Result<(Duration, Duration)> {
    // SAFETY: an all-zero tcp_info is valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `info` is as long as `length` says, and both are alive during the call.
    let result = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    let micros = |value: u32| Duration::from_micros(u64::from(value));
    Ok((micros(info.tcpi_rto), micros(info.tcpi_rtt)))
}

fn ip(arguments: &[&str]) -> Result<String, Error> {
    const WHAT: &str = "look at routes or change one";
    let output = Command::new("ip").args(arguments).output().map_err(|source| Error::Io { what: WHAT, source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Settings(format!("`ip {}` said: {}", arguments.join(" "), said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_given_back_as_it_was_shown() {
        let shown = "10.0.0.0/24 via 10.1.0.1 dev eth0 proto static metric 5 rto_min lock 5ms linkdown";
        let words = plain(shown);
        assert_eq!(words.join(" "), "10.0.0.0/24 via 10.1.0.1 dev eth0 proto static metric 5 rto_min lock 5ms");
        assert_eq!(without_floor(&words).join(" "), "10.0.0.0/24 via 10.1.0.1 dev eth0 proto static metric 5");
        let got = "10.0.0.9 from :: via 10.1.0.1 dev eth0 src 10.1.0.2 uid 0 \\    cache rto_min 20ms";
        assert_eq!(plain(got).join(" "), "10.0.0.9 via 10.1.0.1 dev eth0 src 10.1.0.2");
        assert_eq!(without_floor(&["rto_min", "5ms", "quickack", "1"]), ["quickack", "1"]);
    }

    #[test]
    fn times_are_read_as_they_are_shown() {
        assert_eq!(parse_time("5ms"), Some(Duration::from_millis(5)));
        assert_eq!(parse_time("1s"), Some(Duration::from_secs(1)));
        assert_eq!(parse_time("soon"), None);
    }
}
