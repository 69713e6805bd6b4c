//! What the sender's kernel knows about its connections: the host's TCP counters (`/proc/net/netstat`, `/proc/net/snmp`)
//! and `TCP_INFO` of each connection. Parsing only; the sockets are elsewhere.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, BorrowedFd};

use ackgate_linux::netstat;
use nix::libc;
use serde::Serialize;

/// Counters of one sender host, or a sum over hosts.
///
/// The first group counts the whole host (its network namespace), also what other programs do; the second only the
/// connections of one session; the third is not a count but the state at the moment of asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SenderCounters {
    /// Retransmission timers that fired (`TCPTimeouts`), the SYN's included.
    pub rto_timeouts: u64,
    /// Segments sent again for whatever reason (`RetransSegs`).
    pub retransmits: u64,
    /// Segments sent again by fast retransmit (`TCPFastRetrans`).
    pub fast_retransmits: u64,
    /// Tail loss probes sent (`TCPLossProbes`), RFC 8985 §7.
    pub loss_probes: u64,
    /// Timeouts found to have been needless (`TCPSpuriousRTOs`), RFC 5682.
    pub spurious_rtos: u64,
    /// SYN and SYN-ACK segments sent again (`TCPSynRetrans`).
    pub syn_retransmits: u64,
    /// TCP segments sent (`OutSegs`).
    pub segments: u64,
    /// Timeouts of the session's connections (`tcpi_total_rto`); 0 before Linux 6.7.
    pub flow_rtos: u64,
    /// Retransmissions of the session's connections (`tcpi_total_retrans`).
    pub flow_retransmits: u64,
    /// Data segments delivered with a CE mark, as their ACKs told (`tcpi_delivered_ce`).
    pub flow_ce_marks: u64,
    /// Connections open now.
    pub connections: u64,
    /// Their congestion windows added up, in segments.
    pub cwnd_sum: u64,
    /// Their smoothed round-trip times added up, in microseconds.
    pub srtt_us_sum: u64,
}

impl SenderCounters {
    /// How many values [`Self::to_values`] gives.
    pub const FIELDS: usize = 13;
    const HOST: std::ops::Range<usize> = 0..7;
    const GAUGES: std::ops::Range<usize> = 10..13;

    /// The values in the order of the fields.
    #[must_use]
    pub const fn to_values(self) -> [u64; Self::FIELDS] {
        [
            self.rto_timeouts,
            self.retransmits,
            self.fast_retransmits,
            self.loss_probes,
            self.spurious_rtos,
            self.syn_retransmits,
            self.segments,
            self.flow_rtos,
            self.flow_retransmits,
            self.flow_ce_marks,
            self.connections,
            self.cwnd_sum,
            self.srtt_us_sum,
        ]
    }

    /// From values in the order of the fields; missing ones are 0, further ones are ignored.
    #[must_use]
    pub fn from_values(values: &[u64]) -> Self {
        let at = |i: usize| values.get(i).copied().unwrap_or(0);
        Self {
            rto_timeouts: at(0),
            retransmits: at(1),
            fast_retransmits: at(2),
            loss_probes: at(3),
            spurious_rtos: at(4),
            syn_retransmits: at(5),
            segments: at(6),
            flow_rtos: at(7),
            flow_retransmits: at(8),
            flow_ce_marks: at(9),
            connections: at(10),
            cwnd_sum: at(11),
            srtt_us_sum: at(12),
        }
    }

    /// The sum of both; with `same_host` what is counted for the whole host is taken once.
    #[must_use]
    pub fn plus(self, other: Self, same_host: bool) -> Self {
        let (mut sum, more) = (self.to_values(), other.to_values());
        for i in 0..Self::FIELDS {
            if !(same_host && Self::HOST.contains(&i)) {
                sum[i] = sum[i].saturating_add(more[i]);
            }
        }
        Self::from_values(&sum)
    }

    /// What was counted after `earlier`; the third group stays as it is.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let (mut now, then) = (self.to_values(), earlier.to_values());
        for i in 0..Self::FIELDS {
            if !Self::GAUGES.contains(&i) {
                now[i] = now[i].saturating_sub(then[i]);
            }
        }
        Self::from_values(&now)
    }

    /// Counts one connection that is open.
    pub fn add_flow(&mut self, info: &TcpInfo) {
        self.add_closed_flow(info);
        self.connections += 1;
        self.cwnd_sum = self.cwnd_sum.saturating_add(info.cwnd.into());
        self.srtt_us_sum = self.srtt_us_sum.saturating_add(info.srtt_us.into());
    }

    /// Counts one connection that is about to close.
    pub fn add_closed_flow(&mut self, info: &TcpInfo) {
        self.flow_rtos = self.flow_rtos.saturating_add(info.total_rto.into());
        self.flow_retransmits = self.flow_retransmits.saturating_add(info.total_retrans.into());
        self.flow_ce_marks = self.flow_ce_marks.saturating_add(info.delivered_ce.into());
    }
}

/// The parts of `struct tcp_info` (include/uapi/linux/tcp.h) that the load reports. Older kernels give a shorter struct:
/// what is missing reads 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Segments sent again since the connection opened.
    pub total_retrans: u32,
    /// Segments delivered with a CE mark.
    pub delivered_ce: u32,
    /// Retransmission timeouts since the connection opened (Linux 6.7 and later).
    pub total_rto: u16,
}

/// Octets of `struct tcp_info` that are read: up to and with `tcpi_total_rto_time`.
const TCP_INFO_LEN: usize = 248;

impl TcpInfo {
    /// Reads the kernel's struct, of which `bytes` may be any prefix.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let u32_at = |at: usize| bytes.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
        Self {
            srtt_us: u32_at(68),
            cwnd: u32_at(80),
            total_retrans: u32_at(100),
            delivered_ce: u32_at(196),
            total_rto: bytes.get(240..242).map_or(0, |b| u16::from_ne_bytes([b[0], b[1]])),
        }
    }

    /// Asks the kernel about a TCP socket.
    ///
    /// # Errors
    /// When the descriptor is not a TCP socket.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let mut buffer = [0u8; TCP_INFO_LEN];
        let mut len: libc::socklen_t = TCP_INFO_LEN as libc::socklen_t;
        // SAFETY: the pointer and the length describe `buffer`, which outlives the call; the kernel writes at most `len`
        // octets and stores how many.
        let rc = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                buffer.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::parse(&buffer[..(len as usize).min(TCP_INFO_LEN)]))
    }
}

/// The TCP counters of the network namespace that the opening thread was in, read again and again.
#[derive(Debug)]
pub struct HostCounters {
    netstat: File,
    snmp: File,
    text: String,
}

impl HostCounters {
    /// Opens the files of the calling thread's network namespace.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn open() -> io::Result<Self> {
        Ok(Self {
            netstat: File::open("/proc/thread-self/net/netstat")?,
            snmp: File::open("/proc/thread-self/net/snmp")?,
            text: String::new(),
        })
    }

    /// The counters now; the session's fields are 0.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub fn read(&mut self) -> io::Result<SenderCounters> {
        self.text.clear();
        for file in [&mut self.netstat, &mut self.snmp] {
            file.seek(SeekFrom::Start(0))?;
            file.read_to_string(&mut self.text)?;
        }
        Ok(parse_netstat(&self.text))
    }
}

/// Reads the text of `/proc/net/netstat` and `/proc/net/snmp` (pairs of lines: names, then values). Names that the kernel
/// does not have count 0.
#[must_use]
pub fn parse_netstat(text: &str) -> SenderCounters {
    let mut counters = SenderCounters::default();
    for (group, name, value) in netstat::counters(text) {
        let field = match (group, name) {
            ("TcpExt", "TCPTimeouts") => &mut counters.rto_timeouts,
            ("TcpExt", "TCPFastRetrans") => &mut counters.fast_retransmits,
            ("TcpExt", "TCPLossProbes") => &mut counters.loss_probes,
            ("TcpExt", "TCPSpuriousRTOs") => &mut counters.spurious_rtos,
            ("TcpExt", "TCPSynRetrans") => &mut counters.syn_retransmits,
            ("Tcp", "RetransSegs") => &mut counters.retransmits,
            ("Tcp", "OutSegs") => &mut counters.segments,
            _ => continue,
        };
        *field = value;
    }
    counters
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn the_kernels_text_is_read() {
        let text = "TcpExt: SyncookiesSent TCPTimeouts TCPLossProbes\nTcpExt: 0 17 4\n\
                    IpExt: InNoRoutes TCPTimeouts\nIpExt: 3 99\n\
                    Tcp: RtoAlgorithm MaxConn OutSegs RetransSegs\nTcp: 1 -1 1234 56\n";
        let counters = parse_netstat(text);
        assert_eq!((counters.rto_timeouts, counters.loss_probes), (17, 4));
        assert_eq!((counters.segments, counters.retransmits), (1234, 56));
    }

    #[test]
    fn a_sum_counts_a_host_once() {
        let host = SenderCounters { rto_timeouts: 5, flow_rtos: 2, ..Default::default() };
        let sum = host.plus(host, true);
        assert_eq!((sum.rto_timeouts, sum.flow_rtos), (5, 4));
        assert_eq!(host.plus(host, false).rto_timeouts, 10);
    }

    #[test]
    fn differences_keep_the_state() {
        let then = SenderCounters { rto_timeouts: 5, connections: 9, ..Default::default() };
        let now = SenderCounters { rto_timeouts: 7, connections: 8, ..Default::default() };
        assert_eq!((now.since(then).rto_timeouts, now.since(then).connections), (2, 8));
    }

    #[test]
    fn the_kernel_tells_about_a_loopback_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = TcpInfo::of(stream.as_fd()).unwrap();
        assert!(info.cwnd > 0 && info.total_rto == 0);
    }

    proptest! {
        #[test]
        fn arbitrary_text_and_bytes_never_panic(text in "(TcpExt: [A-Za-z ]{0,40}\n|Tcp: [0-9 -]{0,40}\n|\\PC{0,20}\n){0,8}",
                                                bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_netstat(&text);
            let _ = TcpInfo::parse(&bytes);
        }

        #[test]
        fn values_come_back(values in proptest::collection::vec(any::<u64>(), SenderCounters::FIELDS)) {
            prop_assert_eq!(SenderCounters::from_values(&values).to_values().to_vec(), values);
        }
    }
}
