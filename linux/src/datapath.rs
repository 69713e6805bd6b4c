//! The BPF programs and their maps: configured before they are loaded, gone when this is dropped.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use ackgate_control::decision::Settings;
use ackgate_control::flow::FlowKey;
use ackgate_control::gate::state::Gate;
use ackgate_control::gate::{Config, State};
use ackgate_control::policy::FlowId;
use ackgate_control::units::{Span, Time};
use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::error::Error;
use crate::groups::Groups;
use crate::load::{Verified, load, verified};
use crate::selection::{self, Selection};
use crate::shared::{MAX_FLOWS, MOST_LEAVING, Shared};
use crate::skel::guard::{AckgateSkelBuilder, types};
use crate::standby::Unread;
use crate::sys;

/// How a held frame leaves the kernel's path (`enum take` of `intf.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Copied to the ring, the original consumed by the clsact action.
    Stolen,
    /// Copied to the ring, the original redirected to no device: tcx knows no action that consumes, and this one tells
    /// TCP of no loss either.
    Vanish,
    /// Redirected, with a header before it, to the interface of this index.
    Redirect(u32),
    /// Left to netfilter, which asks [`Datapath::must_wait`] and queues what must.
    Queue,
    /// Not at all: nothing is held, left out or rewritten, and what would have been is counted.
    Nothing,
}

/// Age of the daemon's last sign of life beyond which nothing is held any more.
pub const STALE: Span = Span::millis(150);

/// The loaded programs.
#[derive(Debug)]
pub struct Datapath {
    ingress: OwnedFd,
    egress: OwnedFd,
    must_wait: Option<OwnedFd>,
    forget: OwnedFd,
    give_back: OwnedFd,
    take: Take,
    maps: Arc<Maps>,
    programs: Vec<Verified>,
    shared: Shared,
    /// Where rules name control groups.
    groups: Option<Groups>,
}

/// What outlives a change of settings: the programs that follow work on the same connections.
#[derive(Debug)]
struct Maps {
    ring: MapHandle,
    flow_ids: MapHandle,
    free_ids: MapHandle,
    flows: MapHandle,
    keys: MapHandle,
    hints: MapHandle,
    links: MapHandle,
    leaving: MapHandle,
    variables: MapHandle,
    /// Where there are rules.
    left_alone: Option<MapHandle>,
}

/// What programs leave to those that take their place.
#[derive(Debug)]
pub(crate) struct Legacy {
    maps: Arc<Maps>,
    take: Take,
}

impl Legacy {
    /// Whether netfilter asks a program of ours, too.
    pub(crate) fn by_netfilter(&self) -> bool {
        self.take == Take::Queue
    }
}

/// What is loaded.
#[derive(Clone, Copy, Debug)]
struct Plan<'a> {
    config: &'a Config,
    take: Take,
    selection: &'a Selection,
    fixed_time: bool,
    keep_all: bool,
}

impl<'a> Plan<'a> {
    const fn of(config: &'a Config, take: Take, selection: &'a Selection) -> Self {
        Self { config, take, selection, fixed_time: false, keep_all: false }
    }
}

const WHAT: &str = "load the BPF programs";

impl Datapath {
    /// Loads the programs with PAC's settings. With `fixed_time` they go by [`Shared::fixed_clock`] instead of the
    /// machine's clock, for tests that compare them with the model.
    ///
    /// # Errors
    /// When this process may not, or the kernel cannot.
    pub fn load(config: &Config, take: Take, fixed_time: bool) -> Result<Self, Error> {
        Self::build(Plan { fixed_time, ..Plan::of(config, take, &Selection::default()) }, None)
    }

    /// The same with fixed time and without forgetting connections that are over, to be compared with a simulation.
    #[cfg(test)]
    pub(crate) fn load_for_replay(config: &Config, take: Take) -> Result<Self, Error> {
        let all = Selection::default();
        Self::build(Plan { fixed_time: true, keep_all: true, ..Plan::of(config, take, &all) }, None)
    }

    /// The same for those connections alone that the rules select.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_for(config: &Config, take: Take, selection: &Selection) -> Result<Self, Error> {
        Self::build(Plan::of(config, take, selection), None)
    }

    /// What programs with other settings go on with.
    pub(crate) fn legacy(&self) -> Legacy {
        Legacy { maps: Arc::clone(&self.maps), take: self.take }
    }

    /// The programs with other settings, to take the place of those that leave this.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn successor(legacy: Legacy, config: &Config, selection: &Selection) -> Result<Self, Error> {
        let Legacy { maps, take } = legacy;
        Self::build(Plan::of(config, take, selection), Some(&maps))
    }

    fn build(plan: Plan<'_>, before: Option<&Maps>) -> Result<Self, Error> {
        let failed = |error: libbpf_rs::Error| Error::from_bpf(WHAT, &error);
        let queue = plan.take == Take::Queue;
        if queue && plan.selection.names_groups() {
            return Err(Error::Settings(
                "rules name control groups, which netfilter's queue cannot tell: take another way to hold than nfqueue"
                    .into(),
            ));
        }
        let mut storage = MaybeUninit::uninit();
        let mut open = AckgateSkelBuilder::default().open(&mut storage).map_err(failed)?;
        let rodata = open.maps.rodata_data.as_deref_mut().expect("the programs have settings");
        rodata.settings = settings(plan);
        rodata.selection = plan.selection.lists();
        open.progs.ackgate_wait.set_autoload(queue);
        open.progs.ackgate_window.set_autoload(queue);
        let selects = !plan.selection.is_empty();
        if !selects {
            open.maps.left_alone.set_max_entries(1).map_err(failed)?;
        }
        if let Some(before) = before {
            let maps = &mut open.maps;
            let again = [
                (&mut maps.ring, &before.ring),
                (&mut maps.flow_ids, &before.flow_ids),
                (&mut maps.free_ids, &before.free_ids),
                (&mut maps.flows, &before.flows),
                (&mut maps.keys, &before.keys),
                (&mut maps.bss_hints, &before.hints),
                (&mut maps.links, &before.links),
                (&mut maps.leaving, &before.leaving),
                (&mut maps.bss, &before.variables),
            ];
            for (map, known) in again {
                map.reuse_fd(known.as_fd()).map_err(failed)?;
            }
            if let Some(known) = before.left_alone.as_ref().filter(|_| selects) {
                maps.left_alone.reuse_fd(known.as_fd()).map_err(failed)?;
            }
        }
        let skel = load(WHAT, open)?;
        fill(plan.selection, &skel.maps.peer_rules, &skel.maps.port_rules)?;

        let duplicate = |map: &libbpf_rs::MapMut<'_>| MapHandle::try_from(map).map_err(failed);
        let named = plan.selection.names_groups();
        let groups = named.then(|| Groups::new(plan.selection, duplicate(&skel.maps.group_rules)?)).transpose()?;
        let program = |program: &libbpf_rs::ProgramMut<'_>| {
            program.as_fd().try_clone_to_owned().map_err(|source| Error::from_io(WHAT, source))
        };
        let maps = &skel.maps;
        let shared = Shared::new(&maps.bss, &maps.flows, &maps.keys, &maps.links, &maps.leaving)
            .map_err(|source| Error::from_io("map the programs' memory", source))?;
        if before.is_none() {
            set_budget(shared.gate(), plan.config);
        }
        Ok(Self {
            ingress: program(&skel.progs.ackgate_ingress)?,
            egress: program(if queue { &skel.progs.ackgate_window } else { &skel.progs.ackgate_egress })?,
            must_wait: queue.then(|| program(&skel.progs.ackgate_wait)).transpose()?,
            forget: program(&skel.progs.ackgate_forget)?,
            give_back: program(&skel.progs.ackgate_give_back)?,
            take: plan.take,
            maps: Arc::new(Maps {
                ring: duplicate(&skel.maps.ring)?,
                flow_ids: duplicate(&skel.maps.flow_ids)?,
                free_ids: duplicate(&skel.maps.free_ids)?,
                flows: duplicate(&skel.maps.flows)?,
                keys: duplicate(&skel.maps.keys)?,
                hints: duplicate(&skel.maps.bss_hints)?,
                links: duplicate(&skel.maps.links)?,
                leaving: duplicate(&skel.maps.leaving)?,
                variables: duplicate(&skel.maps.bss)?,
                left_alone: selects.then(|| duplicate(&skel.maps.left_alone)).transpose()?,
            }),
            programs: verified(&skel)?,
            shared,
            groups,
        })
    }

    /// Looks for the control groups that rules name.
    ///
    /// # Errors
    /// When the packet path does not take what was found.
    pub(crate) fn look_for_groups(&mut self, now: Time) -> Result<(), Error> {
        self.groups.as_mut().map_or(Ok(()), |groups| groups.look(now))
    }

    /// Control groups that rules name and that are not there, each once until it is there again.
    pub(crate) fn missed_groups(&mut self) -> Vec<PathBuf> {
        self.groups.as_mut().map(Groups::missed).unwrap_or_default()
    }

    /// The programs that were loaded, by name.
    #[must_use]
    pub fn programs(&self) -> &[Verified] {
        &self.programs
    }

    /// The program for what arrives.
    #[must_use]
    pub fn ingress(&self) -> BorrowedFd<'_> {
        self.ingress.as_fd()
    }

    /// The program for what leaves.
    #[must_use]
    pub fn egress(&self) -> BorrowedFd<'_> {
        self.egress.as_fd()
    }

    /// The program that netfilter asks, if it is to be asked: for packets from the IP header on.
    #[must_use]
    pub fn must_wait(&self) -> Option<BorrowedFd<'_>> {
        self.must_wait.as_ref().map(AsFd::as_fd)
    }

    /// Frames that are held, and wake-ups.
    pub(crate) fn ring(&self) -> &MapHandle {
        &self.maps.ring
    }

    /// What is in the ring, for somebody who does not read it.
    pub(crate) fn unread(&self) -> io::Result<Unread> {
        Unread::new(&self.maps.ring, self.maps.ring.max_entries())
    }

    /// The state that the programs keep.
    #[must_use]
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The index of a connection, if it is remembered.
    #[must_use]
    pub fn flow_id(&self, key: &FlowKey) -> Option<FlowId> {
        let value = self.maps.flow_ids.lookup(&key_bytes(key), MapFlags::ANY).ok()??;
        Some(FlowId(u32::from_ne_bytes(value.try_into().ok()?)))
    }

    /// Makes the programs forget connections. Those that they have forgotten by themselves meanwhile are left out; the other entries may
    /// still be in use by packets that are being processed.
    pub(crate) fn forget(&self, ids: &[FlowId]) -> Result<Vec<FlowId>, Error> {
        const WHAT: &str = "forget connections that have ended";
        let mut forgotten = Vec::with_capacity(ids.len());
        for ids in ids.chunks(MOST_LEAVING) {
            self.let_leave(&self.forget, WHAT, ids)?;
            forgotten.extend(self.shared.leaving(ids.len()));
        }
        Ok(forgotten)
    }

    /// Gives entries back for reuse: those that remain in `ids` after an error are not.
    pub(crate) fn give_back(&self, ids: &mut Vec<FlowId>) -> Result<(), Error> {
        while !ids.is_empty() {
            let rest = ids.len().saturating_sub(MOST_LEAVING);
            self.let_leave(&self.give_back, "give entries of connections back", &ids[rest..])?;
            ids.truncate(rest);
        }
        Ok(())
    }

    /// Has a program go through `ids`.
    fn let_leave(&self, program: &OwnedFd, what: &'static str, ids: &[FlowId]) -> Result<(), Error> {
        self.shared.list_leaving(ids);
        sys::test_run(program.as_fd(), &NO_FRAME, 0, 0).map_err(|source| Error::from_io(what, source))?;
        Ok(())
    }
}

/// What programs are given that look at no frame.
const NO_FRAME: [u8; 64] = [0; 64];

/// What may be in flight at first.
pub(crate) fn set_budget(gate: &Gate, config: &Config) {
    let fresh = Gate::new(config);
    gate.threshold.set(fresh.threshold.get());
    gate.cap.set(fresh.cap.get());
    gate.most.set(fresh.most.get());
    gate.port.set(fresh.port.get());
}

/// Writes down what the rules say.
fn fill(selection: &Selection, peers: &impl MapCore, ports: &impl MapCore) -> Result<(), Error> {
    let failed = |error: libbpf_rs::Error| Error::from_bpf("write down which connections are guarded", &error);
    for (prefix, said) in selection.peers() {
        peers.update(&selection::key_bytes(prefix), &said.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
    }
    for (port, said) in selection.ports() {
        ports.update(&port.to_ne_bytes(), &said.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
    }
    Ok(())
}

/// The bytes of a `struct flow_key`.
fn key_bytes(key: &FlowKey) -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[..16].copy_from_slice(&key.local);
    bytes[16..32].copy_from_slice(&key.remote);
    bytes[32..34].copy_from_slice(&key.local_port.to_ne_bytes());
    bytes[34..36].copy_from_slice(&key.remote_port.to_ne_bytes());
    bytes[36..].copy_from_slice(&key.vlan.to_ne_bytes());
    bytes
}

/// The core's settings and what the packet path adds to them, as the programs' own type.
fn settings(Plan { config, take, fixed_time, keep_all, .. }: Plan<'_>) -> types::settings {
    let core = config.settings();
    let (take, hold_ifindex) = match take {
        Take::Stolen => (0, 0),
        Take::Vanish => (1, 0),
        Take::Redirect(ifindex) => (2, ifindex),
        Take::Queue => (3, 0),
        Take::Nothing => (4, 0),
    };
    let core = Settings {
        stale: STALE.0,
        capacity: MAX_FLOWS,
        hold_ifindex,
        take,
        fixed_time: u8::from(fixed_time),
        keep_all: u8::from(keep_all),
        // What sits before tc cannot take a packet off the wire.
        thin_acks: u8::from(config.thin_acks && take != 3),
        ..core
    };
    // SAFETY: both types are made from the one `struct settings` of core/types.h; all of it is integers.
    unsafe { std::mem::transmute::<Settings, types::settings>(core) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_load_for_netfilter_too() {
        match Datapath::load(&Config::credit(96 << 10), Take::Queue, false) {
            Ok(datapath) => assert!(datapath.must_wait().is_some()),
            Err(error @ (Error::NotPermitted(_) | Error::Unsupported { .. })) => eprintln!("skipped: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
}
