//! Looking for incast without touching anything: what arrives, in bins of 100 us to 10 ms.
//!
//! A BPF program counts in the kernel ([`Watch`]), or a capture is read ([`capture`]); both by the one account in `bpf/watch.h`.
//! From its bins [`bursts`] and a [`report`] are made. A retransmission, a timeout, a burst: all are told from what reaches the
//! receiver, so they are what such things look like from there.

pub mod bursts;
pub mod capture;
pub mod report;

use std::fmt::Debug;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};

use ackgate_control::units::{Span, Time};
use libbpf_rs::skel::SkelBuilder;

use crate::device::Device;
use crate::error::Error;
use crate::load;
use crate::privilege;
use crate::shared::Mapping;
use crate::skel::watch::{WatchSkelBuilder, types};
use crate::sys::{self, Side, tcx};

/// What the program is called in `bpftool`.
pub const PROGRAM: &str = "ackgate_watch";
/// The name of the program by which a guard counts what arrives.
const GUARD: &str = "ackgate_ingress";

/// The narrowest and the widest bin.
pub const WIDTHS: (Span, Span) = (Span::micros(100), Span::millis(10));

/// `WATCH_BINS` and `WATCH_FLOWS` of `bpf/watch.h`.
const BINS: u64 = 4096;
const FLOWS: usize = 16_384;
/// Bins after which a packet that began to be counted in one has certainly been.
const SETTLED: u64 = 2;

/// What to look at.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the interface.
    pub device: String,
    /// Width of a bin, within [`WIDTHS`].
    pub width: Span,
    /// Silence from which a sender's return looks like a retransmission timeout.
    pub stall: Span,
    /// Have the kernel measure the program's run time, which costs some itself.
    pub bpf_stats: bool,
}

/// What arrived within one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// Its place in time, in widths of a bin.
    pub number: u64,
    /// Wire bytes, of whatever protocol.
    pub bytes: u64,
    /// Frames.
    pub frames: u64,
    /// Connections that data arrived on.
    pub senders: u64,
    /// Frames marked CE.
    pub marked: u64,
    /// Senders that came back after a silence as after a retransmission timeout.
    pub stalls: u64,
    /// Payload bytes that arrived late because they had been lost.
    pub retransmitted_bytes: u64,
    /// Payload bytes that arrived late because others had overtaken them.
    pub out_of_order_bytes: u64,
}

impl Bin {
    /// Adds what one processor has counted.
    fn add(&mut self, part: &types::watch_bin) {
        self.bytes += part.bytes;
        self.frames += u64::from(part.frames);
        self.senders += u64::from(part.senders);
        self.marked += u64::from(part.marked);
        self.stalls += u64::from(part.stalls);
        self.retransmitted_bytes += u64::from(part.retransmitted);
        self.out_of_order_bytes += u64::from(part.out_of_order);
    }
}

/// One connection on which data has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The receiver's address.
    pub local: IpAddr,
    /// The receiver's port.
    pub local_port: u16,
    /// The sender's address.
    pub remote: IpAddr,
    /// The sender's port.
    pub remote_port: u16,
    /// When data last arrived.
    pub last: Time,
    /// Payload bytes.
    pub bytes: u64,
    /// As in [`Bin`].
    pub retransmitted_bytes: u64,
    /// As in [`Bin`].
    pub stalls: u64,
}

impl Connection {
    fn read(flow: &types::watch_flow) -> Self {
        let address = |bytes: [u8; 16]| Ipv6Addr::from(bytes).to_canonical();
        Self {
            local: address(flow.local),
            local_port: flow.local_port,
            remote: address(flow.remote),
            remote_port: flow.remote_port,
            last: Time(flow.last),
            bytes: flow.bytes,
            retransmitted_bytes: flow.retransmitted,
            stalls: u64::from(flow.stalls),
        }
    }
}

/// A device that is looked at.
#[derive(Debug)]
pub struct Watch {
    device: Device,
    width: Span,
    processors: u64,
    bins: Mapping,
    flows: Mapping,
    variables: Mapping,
    /// The next bin to collect.
    next: u64,
    overrun: u64,
    program: OwnedFd,
    _link: OwnedFd,
    _stats: Option<sys::RunTimeStats>,
}

impl Watch {
    /// Begins to look.
    ///
    /// # Errors
    /// When this process may not, the kernel has no tcx (Linux 6.6), or there is no such device.
    pub fn start(options: &Options) -> Result<Self, Error> {
        const WHAT: &str = "load the BPF program that watches";
        if options.width < WIDTHS.0 || options.width > WIDTHS.1 {
            let (least, most) = WIDTHS;
            return Err(Error::Settings(format!(
                "the bin width must be between {least} and {most}, not {}",
                options.width
            )));
        }
        let device = Device::find(&options.device)?;
        privilege::require()?;
        let failed = |error: libbpf_rs::Error| Error::from_bpf(WHAT, &error);
        let mapped = |source| Error::from_io("map the program's memory", source);
        let processors = libbpf_rs::num_possible_cpus().map_err(failed)?;
        let mut storage = MaybeUninit::uninit();
        let mut open = WatchSkelBuilder::default().open(&mut storage).map_err(failed)?;
        let entries = u32::try_from(processors * BINS as usize).unwrap_or(u32::MAX);
        open.maps.watch_bins.set_max_entries(entries).map_err(failed)?;
        let rodata = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
        rodata.watch_width = options.width.0;
        rodata.watch_stall = options.stall.0;
        let skel = load::load(WHAT, open)?;
        let stats = options.bpf_stats.then(sys::RunTimeStats::enable).transpose();
        let stats = stats.map_err(|source| Error::from_io("have the kernel measure the program", source))?;
        let program = skel.progs.ackgate_watch.as_fd();
        // In front, where nobody hides packets from it; a guard stands in front of it and passes everything on.
        let guard = tcx::programs(device.index, Side::Ingress)
            .unwrap_or_default()
            .into_iter()
            .find(|&id| tcx::name(id).is_some_and(|name| name == GUARD));
        let place = guard.map_or(tcx::Place::First, tcx::Place::Behind);
        let link = tcx::link(program, device.index, Side::Ingress, place)
            .map_err(|source| Error::from_io("attach the program that watches by tcx (Linux 6.6)", source))?;
        Ok(Self {
            width: options.width,
            processors: processors as u64,
            bins: Mapping::new(&skel.maps.watch_bins.as_fd(), entries as usize * size_of::<types::watch_bin>())
                .map_err(mapped)?,
            flows: Mapping::new(&skel.maps.watch_flows.as_fd(), FLOWS * size_of::<types::watch_flow>())
                .map_err(mapped)?,
            variables: Mapping::new(&skel.maps.bss.as_fd(), size_of::<types::bss>()).map_err(mapped)?,
            next: sys::now().0 / options.width.0 + 1,
            overrun: 0,
            program: program
                .try_clone_to_owned()
                .map_err(|source| Error::from_io("keep the program that watches", source))?,
            _link: link,
            _stats: stats,
            device,
        })
    }

    /// Hands over the bins that are over, in order, empty ones too. To be called before [`Self::patience`] is over.
    ///
    /// # Errors
    /// [`Error::Gone`] when the device is.
    pub fn collect(&mut self, mut each: impl FnMut(&Bin)) -> Result<(), Error> {
        if !self.device.exists() {
            return Err(Error::Gone(self.device.name.clone()));
        }
        let end = (sys::now().0 / self.width.0).saturating_sub(SETTLED);
        // The oldest that nobody is writing to.
        let oldest = end.saturating_sub(BINS - 2 * SETTLED);
        if self.next < oldest {
            self.overrun += oldest - self.next;
            self.next = oldest;
        }
        while self.next <= end {
            let mut bin = Bin { number: self.next, ..Bin::default() };
            for processor in 0..self.processors {
                let index = processor * BINS + self.next % BINS;
                let at = self.bins.as_ptr::<types::watch_bin>(index as usize * size_of::<types::watch_bin>());
                // SAFETY: it lies within the mapping and holds plain integers, valid whatever they are; nobody writes to a
                // bin that is over.
                let part = unsafe { at.read_volatile() };
                if part.number == self.next {
                    bin.add(&part);
                }
            }
            each(&bin);
            self.next += 1;
        }
        Ok(())
    }

    /// Longest time between two calls of [`Self::collect`].
    #[must_use]
    pub fn patience(&self) -> Span {
        Span(self.width.0 * BINS / 4).min(Span::millis(250))
    }

    /// The connections on which data has arrived, as far as they are remembered.
    #[must_use]
    pub fn connections(&self) -> Vec<Connection> {
        let flow = |index: usize| {
            let at = self.flows.as_ptr::<types::watch_flow>(index * size_of::<types::watch_flow>());
            // SAFETY: it lies within the mapping and holds plain integers, valid whatever they are.
            unsafe { at.read_volatile() }
        };
        (0..FLOWS)
            .map(flow)
            .filter(|flow| flow.hash != 0 && flow.bytes > 0)
            .map(|flow| Connection::read(&flow))
            .collect()
    }

    /// Bins that were not collected in time, and segments whose connection found no place.
    #[must_use]
    pub fn missed(&self) -> (u64, u64) {
        let at = self.variables.as_ptr::<u64>(std::mem::offset_of!(types::bss, watch_crowded));
        // SAFETY: the program's variables hold a 64-bit integer here.
        (self.overrun, unsafe { at.read_volatile() })
    }

    /// Packets that the program ran for and nanoseconds that it took, where the kernel measured it.
    #[must_use]
    pub fn cost(&self) -> Option<(u64, u64)> {
        sys::run_time(self.program.as_fd()).ok().filter(|&(packets, _)| packets > 0)
    }
}
