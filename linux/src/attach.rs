//! Putting the programs on the device, so that they are gone when this process is.
//!
//! tcx links (Linux 6.6) end with their descriptors, hence with the process, however that ends. Older kernels only have
//! filters on a clsact qdisc, which stay until somebody removes them: there, a small janitor process waits for the end of
//! a pipe whose other end only we hold, and cleans up if we could not.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use libbpf_rs::{TC_EGRESS, TC_INGRESS, TcAttachPoint, TcHook, TcHookBuilder};

use crate::device::Device;
use crate::error::Error;
use crate::qdisc::{self, ForFilters};
use crate::sys::{self, Side, tcx};

/// How to attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// tcx where the kernel has it, else clsact.
    #[default]
    Auto,
    /// tcx links.
    Tcx,
    /// Filters on a clsact qdisc.
    Clsact,
}

impl Choice {
    /// Whether it comes to filters on this kernel.
    pub(crate) fn is_clsact(self) -> bool {
        match self {
            Self::Auto => !kernel_has_tcx(),
            Self::Tcx => false,
            Self::Clsact => true,
        }
    }
}

/// Priority and handle of our filters: first in line, and recognisable, so that what a crash left is replaced.
const PRIORITY: u32 = 1;
const HANDLE: u32 = 0xacc;

const WHAT: &str = "attach the programs to the device";

/// The programs of a device.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    /// For what arrives, if there is one.
    pub ingress: Option<BorrowedFd<'a>>,
    /// For what leaves.
    pub egress: BorrowedFd<'a>,
}

/// Programs on a device; dropping it takes them off. They stand in front of others at the same hook: whoever ends the chain
/// of programs hides packets from all that follow, and ours never end it.
#[derive(Debug)]
pub enum Attachment {
    /// By links.
    Tcx {
        /// Accounts what arrives.
        ingress: Option<OwnedFd>,
        /// Passes or holds what leaves.
        egress: OwnedFd,
    },
    /// By filters.
    Clsact(Clsact),
}

/// Names of the programs on a device's tcx hooks, whosever they are; none where the kernel has no such hooks.
///
/// # Errors
/// When there is no such device.
pub fn tcx_programs(device: &str) -> Result<Vec<String>, Error> {
    let device = Device::find(device)?;
    let ids = [Side::Ingress, Side::Egress]
        .into_iter()
        .flat_map(|side| tcx::programs(device.index, side).unwrap_or_default());
    Ok(ids.filter_map(tcx::name).collect())
}

impl Attachment {
    /// Attaches by tcx links.
    ///
    /// # Errors
    /// When the kernel has no tcx (before Linux 6.6), or this process may not.
    pub fn tcx(device: &Device, programs: Programs<'_>) -> Result<Self, Error> {
        let link = |program, side| {
            tcx::link(program, device.index, side, tcx::Place::First).map_err(|e| Error::from_io(WHAT, e))
        };
        // Arrivals first: what is charged before they are counted would be owed until it decays.
        let ingress = programs.ingress.map(|program| link(program, Side::Ingress)).transpose()?;
        let egress = link(programs.egress, Side::Egress)?;
        Ok(Self::Tcx { ingress, egress })
    }

    /// Whether by links.
    pub(crate) const fn links(&self) -> bool {
        matches!(self, Self::Tcx { .. })
    }

    /// Puts other programs in the places of those that are there, each at once: no packet passes in between.
    ///
    /// # Errors
    /// When the kernel refuses; then one side may have changed.
    pub(crate) fn replace(&mut self, device: &Device, programs: Programs<'_>) -> Result<(), Error> {
        match self {
            Self::Tcx { ingress, egress } => {
                let update =
                    |link: &OwnedFd, program| tcx::update(link.as_fd(), program).map_err(|e| Error::from_io(WHAT, e));
                if let (Some(ingress), Some(program)) = (ingress, programs.ingress) {
                    update(ingress, program)?;
                }
                update(egress, programs.egress)
            }
            Self::Clsact(clsact) => clsact.attach(device, programs),
        }
    }

    /// Attaches by filters on a clsact qdisc.
    ///
    /// # Errors
    /// When the kernel has no clsact, `tc` is missing, or this process may not.
    pub fn clsact(device: &Device, programs: Programs<'_>) -> Result<Self, Error> {
        Clsact::new(device, programs).map(Self::Clsact)
    }

    /// Whether the filters are still there. Links are looked for among their [neighbours](crate::neighbours).
    pub(crate) fn stands(&self) -> bool {
        match self {
            Self::Tcx { .. } => true,
            Self::Clsact(clsact) => clsact.filters.iter().all(|filter| { *filter }.query().is_ok()),
        }
    }
}

/// Filters on a device.
#[derive(Debug)]
pub struct Clsact {
    filters: Vec<TcHook>,
    /// The qdisc was made by us.
    qdisc: Option<TcHook>,
    janitor: Child,
}

impl Clsact {
    fn new(device: &Device, programs: Programs<'_>) -> Result<Self, Error> {
        let mut qdisc = hook(device, programs.egress, TC_INGRESS | TC_EGRESS);
        let made = match qdisc::for_filters(device)? {
            ForFilters::None => true,
            ForFilters::Clsact => {
                room_in_front(device)?;
                false
            }
            ForFilters::Ingress => {
                return Err(Error::InTheWay {
                    device: device.name.clone(),
                    what: "an `ingress` qdisc, which allows no egress filters; use --attach tcx (Linux 6.6), or replace the qdisc by \
                           `clsact`, which takes the same filters",
                });
            }
        };
        qdisc.create().map_err(|error| Error::from_bpf("make a clsact qdisc on the device", &error))?;
        // The janitor first: from now on there is something to clean up.
        let janitor =
            janitor(device, made).map_err(|source| Error::from_io("start the janitor (sh and tc)", source))?;
        let mut clsact = Self { filters: Vec::new(), qdisc: made.then_some(qdisc), janitor };
        clsact.attach(device, programs)?;
        Ok(clsact)
    }

    /// Puts filters on both sides, in the places of ours if there are any.
    fn attach(&mut self, device: &Device, programs: Programs<'_>) -> Result<(), Error> {
        let ingress = programs.ingress.map(|program| (program, TC_INGRESS));
        for (at, (program, point)) in ingress.into_iter().chain([(programs.egress, TC_EGRESS)]).enumerate() {
            let filter = hook(device, program, point).attach().map_err(|error| Error::from_bpf(WHAT, &error))?;
            // A filter that takes another's place is taken off by the same words.
            if self.filters.len() == at {
                self.filters.push(filter);
            }
        }
        Ok(())
    }
}

impl Drop for Clsact {
    fn drop(&mut self) {
        let mut clean = true;
        for filter in &mut self.filters {
            clean &= filter.detach().is_ok();
        }
        if let Some(qdisc) = &mut self.qdisc {
            clean &= qdisc.destroy().is_ok();
        }
        if let Some(mut pipe) = self.janitor.stdin.take()
            && clean
        {
            // Told that all is clean it ends; else the end of the pipe makes it try again.
            let _ = pipe.write_all(b"clean\n");
        }
        let _ = self.janitor.wait();
    }
}

/// Our filter at one side of a device.
fn hook(device: &Device, program: BorrowedFd<'_>, point: TcAttachPoint) -> TcHook {
    let mut builder = TcHookBuilder::new(program);
    builder.ifindex(device.index).replace(true).handle(HANDLE).priority(PRIORITY);
    builder.hook(point)
}

/// A program on the way into a device of our own, which takes all of it along when it goes.
#[derive(Debug)]
pub(crate) enum Inward {
    /// By a link.
    Tcx { _link: OwnedFd },
    /// By a filter.
    Clsact,
}

/// Puts a program on the way into a device of our own.
pub(crate) fn inward(clsact: bool, device: &Device, program: BorrowedFd<'_>) -> Result<Inward, Error> {
    if !clsact {
        let link =
            tcx::link(program, device.index, Side::Ingress, tcx::Place::First).map_err(|e| Error::from_io(WHAT, e))?;
        return Ok(Inward::Tcx { _link: link });
    }
    let failed = |error: libbpf_rs::Error| Error::from_bpf(WHAT, &error);
    hook(device, program, TC_INGRESS | TC_EGRESS).create().map_err(failed)?;
    hook(device, program, TC_INGRESS).attach().map_err(failed)?;
    Ok(Inward::Clsact)
}

/// The kernel takes filters of one kind and one protocol at each priority.
fn room_in_front(device: &Device) -> Result<(), Error> {
    for side in [Side::Ingress, Side::Egress] {
        let foreign =
            |filter: &qdisc::Filter| filter.priority == PRIORITY && (filter.kind != "bpf" || filter.protocol != "all");
        if qdisc::filters(device, side)?.iter().any(foreign) {
            return Err(Error::InTheWay {
                device: device.name.clone(),
                what: "a tc filter of another kind at priority 1, where ackgate's must be to see every packet; use --attach \
                       tcx (Linux 6.6), or give that filter another priority (`tc filter show dev ... ingress` and `egress`)",
            });
        }
    }
    Ok(())
}

/// Starts the janitor. It is out of reach of the terminal's signals.
fn janitor(device: &Device, remove_qdisc: bool) -> std::io::Result<Child> {
    const SCRIPT: &str = r#"
        trap '' INT TERM HUP
        read -r _ && exit 0
        for side in ingress egress; do tc filter del dev "$1" "$side" protocol all pref "$2" handle "$3" bpf; done
        [ "$4" = keep ] || tc qdisc del dev "$1" clsact
    "#;
    Command::new("sh")
        .args(["-c", SCRIPT, "ackgate-janitor", &device.name, &PRIORITY.to_string(), &format!("{HANDLE:#x}")])
        .arg(if remove_qdisc { "remove" } else { "keep" })
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Puts the programs on the device, the way that was chosen.
pub(crate) fn attach(clsact: bool, device: &Device, programs: Programs<'_>) -> Result<Attachment, Error> {
    if clsact { Attachment::clsact(device, programs) } else { Attachment::tcx(device, programs) }
}

/// Whether this kernel has tcx: tried with the smallest program there is.
pub(crate) fn kernel_has_tcx() -> bool {
    sys::smallest_program().is_ok_and(|program| tcx::link(program.as_fd(), 1, Side::Ingress, tcx::Place::First).is_ok())
}
