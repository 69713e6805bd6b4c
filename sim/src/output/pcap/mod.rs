//! Captures of a run that Wireshark and tshark open: Ethernet, IPv4 and TCP headers as they would be on the wire,
//! payload of zeros, checksums right, times in nanoseconds since the run began.
//!
//! Host *n* of the network has the address 10.0.0.0 + *n* + 1 and the MAC address 02:00:00 followed by *n* + 1.

mod frame;
mod pcapng;

use std::io::{self, Write};

use ackgate_control::units::Time;

use crate::observer::{Interface, InterfaceKind, Observer, Packet, Point, Way};
use pcapng::Writer;

/// Names that a message lists: a fabric has thousands of interfaces.
const SHOWN: usize = 12;

/// Which interfaces are captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// The first receiver's interface, where a capture would be taken in the real network.
    Receiver,
    /// The switch port whose queue the report describes.
    Bottleneck,
    /// Every interface of every host and switch; a packet appears once for each that it passes.
    Everywhere,
    /// The interface of this name.
    Named(String),
}

impl Where {
    /// Reads `receiver`, `bottleneck`, `all` or the name of an interface.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "receiver" => Self::Receiver,
            "bottleneck" => Self::Bottleneck,
            "all" => Self::Everywhere,
            name => Self::Named(name.into()),
        }
    }

    /// Whether some interface of a network is meant.
    ///
    /// # Errors
    /// That there is none of this name, and which there are.
    pub fn check(&self, interfaces: &[Interface]) -> Result<(), String> {
        if interfaces.iter().any(|interface| self.takes(interface)) {
            return Ok(());
        }
        let wanted = match self {
            Self::Named(name) => format!("interface `{name}`"),
            Self::Receiver => "receiver".into(),
            Self::Bottleneck => "bottleneck".into(),
            Self::Everywhere => "interface".into(),
        };
        let known: Vec<&str> = interfaces.iter().take(SHOWN).map(|interface| interface.name.as_str()).collect();
        let more = interfaces.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more like these") } else { String::new() };
        Err(format!("there is no {wanted}; there are: receiver, bottleneck and all; {}{more}", known.join(", ")))
    }

    fn takes(&self, interface: &Interface) -> bool {
        match self {
            // Receivers are numbered where there are several.
            Self::Receiver => {
                interface.kind == InterfaceKind::Host && ["receiver", "receiver0"].contains(&interface.name.as_str())
            }
            Self::Bottleneck => interface.bottleneck,
            Self::Everywhere => true,
            Self::Named(name) => interface.name == *name,
        }
    }
}

/// Writes what passes the chosen interfaces as pcapng.
#[derive(Debug)]
pub struct Capture<W> {
    writer: Writer<W>,
    place: Where,
    /// Bytes kept of each frame.
    snap: usize,
    /// Interface number in the capture of each point that is captured.
    numbers: Vec<Option<u32>>,
    frame: Vec<u8>,
    /// The first fault; nothing is written after it.
    failed: Option<io::Error>,
}

impl<W: Write> Capture<W> {
    /// A capture into `out`, which should be buffered. `snap` bounds the bytes kept of each frame; the headers take at
    /// most 94.
    pub fn new(out: W, place: Where, snap: usize) -> Self {
        Self { writer: Writer::new(out), place, snap, numbers: Vec::new(), frame: Vec::new(), failed: None }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first fault of the whole capture; that no interface has the name that was asked for.
    pub fn finish(self) -> io::Result<()> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.writer.flush()
    }

    fn keep(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
    }
}

impl<W: Write> Observer for Capture<W> {
    fn begin(&mut self, interfaces: &[Interface]) {
        if let Err(problem) = self.place.check(interfaces) {
            self.keep(Err(io::Error::new(io::ErrorKind::NotFound, problem)));
            return;
        }
        let started = self.writer.section(concat!("ackgate ", env!("CARGO_PKG_VERSION")));
        self.keep(started);
        let mut next = 0;
        for interface in interfaces {
            let taken = self.place.takes(interface);
            if taken {
                let described = self.writer.interface(&interface.name, interface.rate);
                self.keep(described);
            }
            self.numbers.push(taken.then_some(next));
            next += u32::from(taken);
        }
    }

    fn packet(&mut self, now: Time, at: Point, way: Way, packet: &Packet) {
        let Some(Some(number)) = self.numbers.get(at.0 as usize).copied() else { return };
        if self.failed.is_some() {
            return;
        }
        frame::write(packet, &mut self.frame);
        let written = self.writer.packet(number, now.0, way == Way::In, &self.frame, self.snap);
        self.keep(written);
    }
}

#[cfg(test)]
mod tests;
