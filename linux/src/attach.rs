//! Putting the programs on the device, so that they are gone when this process is.

use std::os::fd::OwnedFd;

use crate::datapath::Datapath;
use crate::device::Device;
use crate::error::Error;
use crate::sys::{self, Side};

/// Programs on a device; dropping it takes them off.
#[derive(Debug)]
pub struct Attachment {
    _ingress: OwnedFd,
    _egress: OwnedFd,
}

impl Attachment {
    /// Attaches by tcx links. They end with their descriptors, hence with the process.
    ///
    /// # Errors
    /// When the kernel has no tcx (before Linux 6.6), or this process may not.
    pub fn tcx(device: &Device, datapath: &Datapath) -> Result<Self, Error> {
        const WHAT: &str = "attach the programs to the device";
        let link = |program, side| sys::link_tcx(program, device.index, side).map_err(|e| Error::from_io(WHAT, e));
        // Arrivals first: what is charged before they are counted would be owed for ever (well, until it decays).
        let ingress = link(datapath.ingress(), Side::Ingress)?;
        let egress = link(datapath.egress(), Side::Egress)?;
        Ok(Self { _ingress: ingress, _egress: egress })
    }
}
