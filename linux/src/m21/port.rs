//! The switch's part: a program at the egress of a port.

use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, OwnedFd};

use ackgate_control::cell::U64;
use ackgate_control::m21::counter;
use libbpf_rs::skel::SkelBuilder;
use serde::Serialize;

use crate::attach::{self, Attachment, Programs};
use crate::device::Device;
use crate::error::Error;
use crate::load::load;
use crate::shared::Mapping;
use crate::skel::switch::{SwitchSkelBuilder, types};
use crate::{privilege, qdisc, sys};

/// What a port does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortOptions {
    /// Which flows count.
    pub counting: counter::Config,
    /// Bytes queued above which ECN-capable packets are marked.
    pub mark_above: Option<u32>,
    /// How the program is attached.
    pub attach: attach::Choice,
}

/// A port at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PortStatus {
    /// Flows that count now.
    pub flows: u32,
    /// The largest number so far.
    pub flows_max: u64,
    /// Segments that counted so far: SYN, payload, FIN or RST.
    pub counted: u64,
    /// Segments that the number was written into.
    pub stamped: u64,
}

/// The loaded programs and their memory.
#[derive(Debug)]
pub(super) struct PortPrograms {
    egress: OwnedFd,
    expire: OwnedFd,
    variables: Mapping,
    expiry: u64,
}

impl PortPrograms {
    /// Loads them. With `fixed_time` they go by a variable instead of the machine's clock: tests only.
    ///
    /// # Errors
    /// When this process may not, or the kernel cannot.
    pub(super) fn load(options: &PortOptions, fixed_time: bool) -> Result<Self, Error> {
        const WHAT: &str = "load the switch's BPF programs";
        let failed = |error: libbpf_rs::Error| Error::from_bpf(WHAT, &error);
        let mut storage = MaybeUninit::uninit();
        let mut open = SwitchSkelBuilder::default().open(&mut storage).map_err(failed)?;
        let rodata = open.maps.rodata_data.as_deref_mut().expect("the programs have settings");
        let expiry = options.counting.expiry.map_or(0, |expiry| expiry.0.max(1));
        rodata.expiry = expiry;
        rodata.most_flows = options.counting.flows;
        rodata.mark_above = options.mark_above.unwrap_or(0);
        rodata.fixed_time = fixed_time;
        let skel = load(WHAT, open)?;
        let program = |program: &libbpf_rs::ProgramMut<'_>| {
            program.as_fd().try_clone_to_owned().map_err(|source| Error::from_io(WHAT, source))
        };
        Ok(Self {
            egress: program(&skel.progs.switch_egress)?,
            expire: program(&skel.progs.switch_expire)?,
            variables: Mapping::new(&skel.maps.bss, size_of::<types::bss>())
                .map_err(|source| Error::from_io("map the programs' memory", source))?,
            expiry,
        })
    }

    fn cell(&self, offset: usize) -> &U64 {
        // SAFETY: the callers' offsets are those of 64-bit integers in the programs' variables, all of which are read and
        // written atomically.
        unsafe { &*self.variables.as_ptr(offset) }
    }

    fn word(&self, index: usize) -> u64 {
        let words = offset_of!(types::bss, port) + offset_of!(types::port_books, flows);
        self.cell(words + 8 * index).get()
    }

    /// What the counter holds at `now`, in ns.
    fn flows(&self, now: u64) -> u32 {
        let period = now.checked_div(self.expiry).unwrap_or(0);
        // As `m21_flows` of `bpf/m21.h`.
        let of = |period: u64| {
            let word = self.word(usize::from(period & 1 == 1));
            if word >> 32 == period & 0xffff_ffff { word as u32 } else { 0 }
        };
        of(period) + of(period.wrapping_sub(1))
    }

    pub(super) fn status(&self, now: u64) -> PortStatus {
        let port = offset_of!(types::bss, port);
        PortStatus {
            flows: self.flows(now),
            flows_max: self.cell(port + offset_of!(types::port_books, most)).get(),
            counted: self.cell(port + offset_of!(types::port_books, counted)).get(),
            stamped: self.cell(port + offset_of!(types::port_books, stamped)).get(),
        }
    }

    /// Forgets flows that no longer count: else their entries stay.
    pub(super) fn expire(&self) -> Result<(), Error> {
        sys::run_syscall_program(self.expire.as_fd())
            .map_err(|source| Error::from_io("have the switch's program forget old flows", source))
    }

    #[cfg(test)]
    pub(super) fn egress(&self) -> std::os::fd::BorrowedFd<'_> {
        self.egress.as_fd()
    }

    #[cfg(test)]
    pub(super) fn set_time(&self, now: u64) {
        self.cell(offset_of!(types::bss, fixed_clock)).set(now);
    }
}

/// A port that counts. Dropping it takes the program off.
#[derive(Debug)]
pub struct Port {
    device: Device,
    programs: PortPrograms,
    _attachment: Attachment,
}

impl Port {
    /// Puts the program on a device.
    ///
    /// # Errors
    /// When it cannot be; then nothing has been changed.
    pub fn start(device: &str, options: &PortOptions) -> Result<Self, Error> {
        let device = Device::find(device)?;
        privilege::require()?;
        if options.mark_above.is_some() {
            qdisc::require_one_queue(&device)?;
        }
        let programs = PortPrograms::load(options, false)?;
        let attached = Programs { ingress: None, egress: programs.egress.as_fd() };
        let attachment = attach::attach(options.attach.is_clsact(), &device, attached)?;
        Ok(Self { device, programs, _attachment: attachment })
    }

    /// Name of the device.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.device.name
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> PortStatus {
        self.programs.status(sys::now().0)
    }

    /// Forgets flows that no longer count; to be called about once in each expiry.
    ///
    /// # Errors
    /// When the device is gone, or the kernel refuses.
    pub fn expire(&self) -> Result<(), Error> {
        if !self.device.exists() {
            return Err(Error::Gone(self.device.name.clone()));
        }
        self.programs.expire()
    }
}
