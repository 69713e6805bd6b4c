//! The generic host's BPF programs and their maps: configured before they are loaded, gone when this is dropped.

use std::cell::RefCell;
use std::fmt;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use ackgate_control::cell::U64;
use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};

use super::driver::Driver;
use crate::datapath::STALE;
use crate::error::Error;
use crate::load::{Verified, load, verified};
use crate::shared::{Books, Mapping};
use crate::skel::host::{HostSkelBuilder, types};

/// Records that are read before what came of them is sent.
const BATCH: usize = 256;

/// What the programs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Index of the guarded device.
    pub device: i32,
    /// What arrives is taken, not only seen.
    pub ingress: bool,
    /// Probes that arrive are taken.
    pub probes: bool,
    /// The programs are attached by clsact, which knows an action that consumes.
    pub clsact: bool,
}

impl Task {
    /// All that the programs can do.
    #[must_use]
    pub const fn whole(device: i32) -> Self {
        Self { device, ingress: true, probes: true, clsact: false }
    }
}

/// The loaded programs.
#[derive(Debug)]
pub struct HostPath {
    ingress: OwnedFd,
    egress: OwnedFd,
    inject: OwnedFd,
    ring: MapHandle,
    variables: Mapping,
    programs: Vec<Verified>,
}

impl HostPath {
    /// Loads the programs.
    ///
    /// # Errors
    /// When this process may not, or the kernel cannot.
    pub fn load(task: Task) -> Result<Self, Error> {
        const WHAT: &str = "load the generic host's BPF programs";
        let failed = |error: libbpf_rs::Error| Error::from_bpf(WHAT, &error);
        let mut storage = MaybeUninit::uninit();
        let mut open = HostSkelBuilder::default().open(&mut storage).map_err(failed)?;
        let rodata = open.maps.rodata_data.as_deref_mut().expect("the programs have settings");
        rodata.settings.stale = STALE.0;
        // `TAKE_STOLEN` and `TAKE_VANISH` of `intf.h`.
        rodata.settings.take = u8::from(!task.clsact);
        rodata.take_ingress = u8::from(task.ingress);
        rodata.take_probes = u8::from(task.probes);
        rodata.device = task.device.cast_unsigned();
        let skel = load(WHAT, open)?;
        let program = |program: &libbpf_rs::ProgramMut<'_>| {
            program.as_fd().try_clone_to_owned().map_err(|source| Error::from_io(WHAT, source))
        };
        Ok(Self {
            ingress: program(&skel.progs.host_ingress)?,
            egress: program(&skel.progs.host_egress)?,
            inject: program(&skel.progs.host_inject)?,
            ring: MapHandle::try_from(&skel.maps.ring).map_err(failed)?,
            variables: Mapping::new(&skel.maps.bss, size_of::<types::bss>())
                .map_err(|source| Error::from_io("map the programs' memory", source))?,
            programs: verified(&skel)?,
        })
    }

    /// The programs that were loaded, by name.
    #[must_use]
    pub fn programs(&self) -> &[Verified] {
        &self.programs
    }

    /// The program for what arrives.
    pub(super) fn ingress(&self) -> BorrowedFd<'_> {
        self.ingress.as_fd()
    }

    /// The program for what leaves.
    pub(super) fn egress(&self) -> BorrowedFd<'_> {
        self.egress.as_fd()
    }

    /// The program for what is put back on its way in.
    pub(super) fn inject(&self) -> BorrowedFd<'_> {
        self.inject.as_fd()
    }

    /// The daemon's last sign of life.
    pub(super) fn heartbeat(&self) -> &U64 {
        // SAFETY: the programs' variables hold a 64-bit integer here, which is read and written atomically.
        unsafe { &*self.variables.as_ptr(offset_of!(types::bss, heartbeat)) }
    }

    /// What the programs counted.
    pub(super) fn books(&self) -> &Books {
        // SAFETY: the programs' variables hold a `struct books` here, which has the layout of `Books` (tested with the other
        // programs, from the same header); all of it is atomic integers.
        unsafe { &*self.variables.as_ptr(offset_of!(types::bss, books)) }
    }
}

/// The reading end of the ring: what is read goes to the driver.
pub(super) struct Reader {
    ring: RingBuffer<'static>,
    map: OwnedFd,
}

impl Reader {
    pub(super) fn new(path: &HostPath, driver: &Rc<RefCell<Driver>>) -> Result<Self, Error> {
        const WHAT: &str = "read the ring of taken frames";
        let failed = |error: libbpf_rs::Error| Error::from_bpf(WHAT, &error);
        let driver = Rc::clone(driver);
        let mut builder = RingBufferBuilder::new();
        let take = move |record: &[u8]| {
            driver.borrow_mut().handle(record);
            0
        };
        builder.add(&path.ring, take).map_err(failed)?;
        let ring = builder.build().map_err(failed)?;
        let map = path.ring.as_fd().try_clone_to_owned().map_err(|source| Error::Io { what: WHAT, source })?;
        Ok(Self { ring, map })
    }

    /// Reads a batch, in order; says whether there may be more.
    pub(super) fn read(&self) -> bool {
        // The callback never fails; an interrupted read goes on with the next call.
        usize::try_from(self.ring.consume_raw_n(BATCH)).is_ok_and(|read| read == BATCH)
    }

    /// Readable when there is something to read.
    pub(super) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("map", &self.map).finish_non_exhaustive()
    }
}
