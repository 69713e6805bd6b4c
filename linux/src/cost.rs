//! What the programs take for a packet: run over frames of our own in the kernel (`BPF_PROG_TEST_RUN`), timed by it
//! (`BPF_ENABLE_STATS`). No device, no network, nothing held: the gate is open, and the frames are those of connections in
//! mid-stream, or of short ones from SYN to FIN.

use std::os::fd::{AsFd, BorrowedFd};

use ackgate_control::flow::FlowKey;
use ackgate_control::gate::{Config, State};
use ackgate_control::segment::{Flags, Segment};
use ackgate_control::seq::SeqNumber;
use ackgate_control::units::Span;
use ackgate_control::wire::{Direction, emit};

use crate::datapath::{Datapath, Take};
use crate::error::Error;
use crate::sys;

/// Payload of a full segment with timestamps.
const FULL: u32 = 1448;
/// A link and a buffer that nothing here fills: the gate stays open.
const BUFFER: u64 = 1 << 40;
/// Frames for which a program ends at once, by which the timing itself is timed.
const BLANKS: u32 = 4096;

/// Mean time of a packet, ns, the timing itself taken off.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// For what arrives.
    pub ingress_ns: f64,
    /// For what leaves.
    pub egress_ns: f64,
    /// Packets that were not left as they were: held, left out, or with another window.
    pub touched: u64,
}

/// What packets are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Full segments and their ACKs, by turns on so many connections.
    Streams(u16),
    /// So many connections that ask for one segment and end.
    Short(u16),
}

/// One connection that this host has opened.
#[derive(Clone, Copy)]
struct Connection {
    key: FlowKey,
    received: SeqNumber,
    clock: u32,
}

impl Connection {
    fn new(number: u16) -> Self {
        let address = |last: [u8; 2]| {
            let mut address = [0; 16];
            address[10..].copy_from_slice(&[0xff, 0xff, 10, 0, last[0], last[1]]);
            address
        };
        let key = FlowKey {
            local: address([255, 1]),
            remote: address(number.to_be_bytes()),
            local_port: 40_000,
            remote_port: 80,
            vlan: 0,
        };
        Self { key, received: SeqNumber(1), clock: 1 }
    }

    fn frame(&mut self, direction: Direction, flags: Flags, payload: u32) -> Vec<u8> {
        self.clock += 1;
        let opens = flags.has(Flags::SYN);
        let first = u32::from(!opens);
        let arrives = direction == Direction::Ingress;
        let segment = Segment {
            seq: if arrives && !opens { self.received } else { SeqNumber(first) },
            ack: if arrives { SeqNumber(first) } else { self.received },
            flags,
            window: 4096,
            payload,
            frames: 1,
            header: 66,
            ce: false,
            sack: false,
            dsack: false,
            mss: if opens { 1460 } else { 0 },
            wscale: opens.then_some(7),
            timestamps: Some((self.clock, self.clock)),
            multipath: false,
        };
        if arrives && payload > 0 {
            self.received = SeqNumber(self.received.0.wrapping_add(payload));
        }
        emit(&self.key, &segment, direction)
    }
}

/// The programs, and what they were given.
struct Bench {
    datapath: Datapath,
}

fn run(program: BorrowedFd<'_>, frame: &[u8]) -> Result<(), Error> {
    sys::test_run(program, frame, 0, 0).map_err(|error| Error::from_io("run a BPF program over a frame", error))?;
    Ok(())
}

/// Runs and nanoseconds of a program so far.
fn spent(program: BorrowedFd<'_>) -> Result<(u64, u64), Error> {
    sys::run_time(program).map_err(|error| Error::from_io("read a BPF program's run time", error))
}

/// What the timing itself takes: that of a program which does nothing.
fn timing() -> Result<f64, Error> {
    let program = sys::smallest_program().map_err(|error| Error::from_io("load a BPF program", error))?;
    let before = spent(program.as_fd())?;
    for _ in 0..BLANKS {
        run(program.as_fd(), &[0; 64])?;
    }
    Ok(mean(before, spent(program.as_fd())?))
}

impl Bench {
    fn run(&self, direction: Direction, frame: &[u8]) -> Result<(), Error> {
        run(self.program(direction), frame)
    }

    fn program(&self, direction: Direction) -> BorrowedFd<'_> {
        match direction {
            Direction::Ingress => self.datapath.ingress(),
            Direction::Egress => self.datapath.egress(),
        }
    }

    /// Runs and nanoseconds of a program so far.
    fn spent(&self, direction: Direction) -> Result<(u64, u64), Error> {
        spent(self.program(direction))
    }

    fn exchange(&self, on: &mut Connection, direction: Direction, flags: Flags, payload: u32) -> Result<(), Error> {
        self.run(direction, &on.frame(direction, flags, payload))
    }

    fn open(&self, on: &mut Connection) -> Result<(), Error> {
        self.exchange(on, Direction::Egress, Flags::SYN, 0)?;
        self.exchange(on, Direction::Ingress, Flags::SYN | Flags::ACK, 0)?;
        self.exchange(on, Direction::Egress, Flags::ACK, 0)?;
        self.exchange(on, Direction::Egress, Flags::PSH | Flags::ACK, 100)
    }

    fn stream(&self, on: &mut Connection) -> Result<(), Error> {
        self.exchange(on, Direction::Ingress, Flags::ACK, FULL)?;
        self.exchange(on, Direction::Egress, Flags::ACK, 0)
    }

    fn short(&self, on: &mut Connection) -> Result<(), Error> {
        self.open(on)?;
        self.exchange(on, Direction::Ingress, Flags::PSH | Flags::ACK, 1000)?;
        self.exchange(on, Direction::Egress, Flags::ACK, 0)?;
        self.exchange(on, Direction::Ingress, Flags::FIN | Flags::ACK, 0)?;
        self.exchange(on, Direction::Egress, Flags::FIN | Flags::ACK, 0)
    }
}

/// Times the programs with `config`'s guard over some `packets` packets each way. The buffer is taken for very large.
///
/// # Errors
/// When this process may not load or time BPF programs, or the kernel cannot.
pub fn measure(config: &Config, traffic: Traffic, packets: u32) -> Result<Cost, Error> {
    let config = Config { buffer: BUFFER, auto: false, ..config.clone() };
    let bench = Bench { datapath: Datapath::load(&config, Take::Stolen, false)? };
    let _timed =
        sys::RunTimeStats::enable().map_err(|error| Error::from_io("have the kernel time BPF programs", error))?;
    let shared = bench.datapath.shared();
    // The daemon lives, as far as the programs can tell, for as long as this takes.
    shared.gate().heartbeat.set((sys::now() + Span::secs(3600)).0);

    let timing = timing()?;

    let (Traffic::Streams(count) | Traffic::Short(count)) = traffic;
    let mut connections: Vec<Connection> = (0..count).map(Connection::new).collect();
    if let Traffic::Streams(_) = traffic {
        for connection in &mut connections {
            bench.open(connection)?;
        }
    }
    let turns = (packets / u32::from(count).max(1)).max(1);
    let before = [bench.spent(Direction::Ingress)?, bench.spent(Direction::Egress)?];
    for _ in 0..turns {
        for connection in &mut connections {
            match traffic {
                Traffic::Streams(_) => bench.stream(connection)?,
                Traffic::Short(_) => bench.short(connection)?,
            }
        }
    }
    let of = |direction, index: usize| Ok::<_, Error>(mean(before[index], bench.spent(direction)?) - timing);
    let gate = shared.gate();
    let touched = gate.held.get() + gate.thinned.get() + gate.rewritten.get();
    Ok(Cost { touched, ingress_ns: of(Direction::Ingress, 0)?, egress_ns: of(Direction::Egress, 1)? })
}

fn mean((runs, ns): (u64, u64), (later_runs, later_ns): (u64, u64)) -> f64 {
    (later_ns - ns) as f64 / (later_runs - runs).max(1) as f64
}

#[cfg(test)]
mod tests {
    use ackgate_control::gate::Guard;

    use super::*;

    #[test]
    fn nothing_is_touched_while_nothing_is_in_danger() {
        let config = Config { rate_mbps: 10_000, ..Config::of(Guard::Credit, 0) };
        for traffic in [Traffic::Streams(10), Traffic::Short(100)] {
            match measure(&config, traffic, 400) {
                Ok(cost) => assert_eq!(cost.touched, 0, "{traffic:?}"),
                Err(error @ (Error::NotPermitted(_) | Error::Unsupported { .. })) => eprintln!("skipped: {error}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
