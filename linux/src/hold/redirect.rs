//! Frames redirected to a pair of virtual devices, whose far end is read by a packet socket.
//!
//! The far end lives in a network namespace without a name, which only the socket keeps alive: when the daemon ends,
//! however it ends, the namespace goes, and with it both devices.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Command;
use std::rc::Rc;

use ackgate_control::policy::PacketId;
use ackgate_control::segment::Edit;
use nix::net::if_::if_nametoindex;

use super::inbox::Inbox;
use super::ring::Reader;
use super::{Arrival, Hold};
use crate::datapath::Datapath;
use crate::device::Device;
use crate::emitter::Emitter;
use crate::error::Error;
use crate::privilege::Process;
use crate::standby::{Aid, Elsewhere, Keeper, Outlet};
use crate::sys;

/// The pair of virtual devices.
#[derive(Debug)]
pub(crate) struct Pair {
    /// Index of the near end.
    pub(crate) near: u32,
    name: String,
    socket: OwnedFd,
}

impl Pair {
    /// Makes a pair for the device.
    ///
    /// # Errors
    /// When the kernel has no veth, `ip` is missing, or this process may not.
    pub(crate) fn new(device: &Device) -> Result<Self, Error> {
        const WHAT: &str = "make a pair of virtual devices for held frames";
        let failed = |source| match Error::from_io(WHAT, source) {
            Error::NotPermitted(_) => Error::NotPermitted(Process::this().denied_namespace(WHAT)),
            error => error,
        };
        let home = std::fs::File::open("/proc/thread-self/ns/net").map_err(failed)?;
        let near = format!("ackgate{}", device.index);
        // Made from the far side: if anything fails, the namespace goes, and what was made in it.
        let socket = sys::in_new_namespace(|| {
            let far = "held0";
            ip(&["link", "add", far, "type", "veth", "peer", "name", &near])?;
            // No address, no neighbours: nothing but held frames may travel here.
            for end in [far, &near] {
                ip(&["link", "set", end, "arp", "off", "addrgenmode", "none"])?;
            }
            let index = if_nametoindex(far)?;
            let socket = sys::raw_receiver(i32::try_from(index).map_err(io::Error::other)?)?;
            ip(&["link", "set", far, "up"])?;
            // The home namespace by a descriptor that the child inherits through /proc.
            let path = format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&home));
            ip(&["link", "set", &near, "netns", &path])?;
            Ok(socket)
        })
        .map_err(failed)?;
        ip(&["link", "set", &near, "addrgenmode", "none", "up"]).map_err(failed)?;
        let index = if_nametoindex(near.as_str()).map_err(|errno| Error::from_errno(WHAT, errno))?;
        Ok(Self { near: index, name: near, socket })
    }
}

impl Drop for Pair {
    /// The devices would go with the namespace, but some time later.
    fn drop(&mut self) {
        if let Err(error) = ip(&["link", "delete", &self.name]) {
            tracing::warn!("{error}");
        }
    }
}

fn ip(arguments: &[&str]) -> io::Result<()> {
    let output = Command::new("ip").args(arguments).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("`ip {}` said: {}", arguments.join(" "), said.trim())))
}

/// The back-end.
#[derive(Debug)]
pub(crate) struct Redirect {
    device: Device,
    pair: Pair,
    /// Wake-ups, and copies of what leaves at once, come through the ring.
    ring: Reader,
    inbox: Rc<RefCell<Inbox>>,
    emitter: Emitter,
    buffer: Vec<u8>,
}

impl Redirect {
    pub(crate) fn new(device: &Device, datapath: &Datapath, pair: Pair, keeper: Keeper) -> Result<Self, Error> {
        let emitter =
            Emitter::new(device).map_err(|source| Error::from_io("open a raw socket on the device", source))?;
        let buffer = vec![0; sys::RECEIVE_BATCH * sys::RECEIVE_BYTES];
        let ring = Reader::new(datapath, keeper)?;
        Ok(Self { device: device.clone(), pair, inbox: ring.inbox(), ring, emitter, buffer })
    }
}

impl Hold for Redirect {
    fn name(&self) -> &'static str {
        "redirect"
    }

    fn poll_fd(&self) -> BorrowedFd<'_> {
        self.pair.socket.as_fd()
    }

    fn collect(&mut self, arrivals: &mut Vec<Arrival>) {
        let Self { pair, inbox, buffer, .. } = self;
        while let Ok(received) = sys::receive_frames(&pair.socket, buffer, |frame| inbox.borrow_mut().take(frame)) {
            if received < sys::RECEIVE_BATCH {
                break;
            }
        }
        self.ring.collect(arrivals);
    }

    fn release(&mut self, packet: PacketId, edit: &Edit) {
        self.inbox.borrow_mut().release(packet, edit, &mut self.emitter);
    }

    fn split(&mut self, packet: PacketId, edit: &Edit) {
        self.inbox.borrow_mut().split(packet, edit, &mut self.emitter);
    }

    fn discard(&mut self, packet: PacketId) {
        self.inbox.borrow_mut().discard(packet);
    }

    fn flush(&mut self) {
        self.inbox.borrow_mut().flush(&mut self.emitter);
    }

    fn withdraw(&mut self) {
        self.inbox.borrow_mut().withdraw(&mut self.emitter);
    }

    fn aid(&self) -> Result<Aid, Error> {
        let socket = self.pair.socket.try_clone();
        let socket = socket.map_err(|source| Error::from_io("share the socket of held frames", source))?;
        Ok(Aid { outlet: Outlet::by_the_device(&self.device)?, elsewhere: Elsewhere::Socket(socket) })
    }

    fn lost(&self) -> u64 {
        self.emitter.lost()
    }
}
