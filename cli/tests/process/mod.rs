//! `ackgate` as a process: how it is called, and how its JSON lines are read.

#![allow(dead_code, reason = "each test uses its own part")]
#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::world::{RECEIVER_V4, World};

/// The program with these arguments, its outputs to be read.
pub(crate) fn ackgate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ackgate"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A process that prints events.
pub(crate) struct Process {
    pub(crate) child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn new(mut child: Child) -> Self {
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next event.
    pub(crate) fn line(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("`{line}` is no event ({error}); it said: {}", self.said()))
    }

    /// What it says on standard error until it ends.
    pub(crate) fn said(&mut self) -> String {
        let mut said = String::new();
        let _ = self.child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut said));
        said
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Ends it by a signal that it heeds; returns its summary, before which there are only samples.
    pub(crate) fn end(mut self, signal: Signal) -> Value {
        self.signal(signal);
        let summary = loop {
            let line = self.line();
            if line["event"] == "summary" {
                break line;
            }
            assert_eq!(line["event"], "sample", "{line}");
        };
        assert!(self.child.wait().unwrap().success());
        summary
    }
}

/// Bytes that each of four senders sends.
const BYTES: usize = 1_000_000;

/// What each of them sends.
fn content() -> Vec<u8> {
    (0..BYTES).map(|at| (at % 251) as u8).collect()
}

/// Four senders at once; `midway` is called when a part has arrived. Panics unless everything arrives.
pub(crate) fn incast(world: &World, midway: impl FnOnce() + Send) {
    let listener = world.receiver(|| TcpListener::bind((RECEIVER_V4, 0))).unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut stream = world.sender(|| TcpStream::connect_timeout(&address, Duration::from_secs(10))).unwrap();
            scope.spawn(move || stream.write_all(&content()).unwrap());
        }
        let mut streams: Vec<TcpStream> = (0..4).map(|_| listener.accept().unwrap().0).collect();
        let mut part = vec![0; BYTES / 10];
        streams[0].read_exact(&mut part).unwrap();
        midway();
        for (index, mut stream) in streams.into_iter().enumerate() {
            let read = if index == 0 { part.len() } else { 0 };
            scope.spawn(move || {
                stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).unwrap();
                assert!(rest == content()[read..], "{} bytes came, not all of them as they were sent", rest.len());
            });
        }
    });
}
