//! Frames copied to a BPF ring buffer. The copy is some 70 bytes; nothing of the kernel's is kept waiting.

use std::cell::RefCell;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use ackgate_control::policy::PacketId;
use ackgate_control::segment::Edit;
use libbpf_rs::{RingBuffer, RingBufferBuilder};

use super::inbox::Inbox;
use super::{Arrival, Hold};
use crate::datapath::Datapath;
use crate::device::Device;
use crate::emitter::Emitter;
use crate::error::Error;
use crate::standby::{Aid, Elsewhere, Keeper, Outlet};

/// The reading end of the ring.
pub(crate) struct Reader {
    ring: RingBuffer<'static>,
    map: OwnedFd,
    inbox: Rc<RefCell<Inbox>>,
}

impl Reader {
    pub(crate) fn new(datapath: &Datapath, keeper: Keeper) -> Result<Self, Error> {
        const WHAT: &str = "read the ring of held frames";
        let failed = |error: libbpf_rs::Error| Error::from_bpf(WHAT, &error);
        let inbox = Rc::new(RefCell::new(Inbox::new(keeper)));
        let writer = Rc::clone(&inbox);
        let mut builder = RingBufferBuilder::new();
        let take = move |record: &[u8]| {
            writer.borrow_mut().take(record);
            0
        };
        builder.add(datapath.ring(), take).map_err(failed)?;
        let ring = builder.build().map_err(failed)?;
        let map = datapath.ring().as_fd().try_clone_to_owned().map_err(|source| Error::Io { what: WHAT, source })?;
        Ok(Self { ring, map, inbox })
    }

    /// What has been read and not yet let go, for a back-end that has frames from elsewhere, too.
    pub(super) fn inbox(&self) -> Rc<RefCell<Inbox>> {
        Rc::clone(&self.inbox)
    }

    /// Takes in what has arrived, in order.
    pub(crate) fn collect(&mut self, arrivals: &mut Vec<Arrival>) {
        // The callback never fails, and an interrupted read goes on with the next call.
        let _ = self.ring.consume();
        arrivals.append(&mut self.inbox.borrow_mut().arrivals);
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("map", &self.map).finish_non_exhaustive()
    }
}

/// The back-end.
#[derive(Debug)]
pub(crate) struct Ring {
    device: Device,
    reader: Reader,
    emitter: Emitter,
}

impl Ring {
    pub(crate) fn new(device: &Device, datapath: &Datapath, keeper: Keeper) -> Result<Self, Error> {
        let emitter =
            Emitter::new(device).map_err(|source| Error::from_io("open a raw socket on the device", source))?;
        Ok(Self { device: device.clone(), reader: Reader::new(datapath, keeper)?, emitter })
    }
}

impl Hold for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }

    /// The map itself rather than libbpf's epoll descriptor: polling it also sees records that woke nobody.
    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.reader.map.as_fd()
    }

    fn collect(&mut self, arrivals: &mut Vec<Arrival>) {
        self.reader.collect(arrivals);
    }

    fn release(&mut self, packet: PacketId, edit: &Edit) {
        self.reader.inbox.borrow_mut().release(packet, edit, &mut self.emitter);
    }

    fn split(&mut self, packet: PacketId, edit: &Edit) {
        self.reader.inbox.borrow_mut().split(packet, edit, &mut self.emitter);
    }

    fn discard(&mut self, packet: PacketId) {
        self.reader.inbox.borrow_mut().discard(packet);
    }

    fn flush(&mut self) {
        self.reader.inbox.borrow_mut().flush(&mut self.emitter);
    }

    fn withdraw(&mut self) {
        self.reader.inbox.borrow_mut().withdraw(&mut self.emitter);
    }

    fn aid(&self) -> Result<Aid, Error> {
        Ok(Aid { outlet: Outlet::by_the_device(&self.device)?, elsewhere: Elsewhere::Nothing })
    }

    fn lost(&self) -> u64 {
        self.emitter.lost()
    }
}
