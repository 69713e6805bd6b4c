//! Control groups (version 2) that rules name. The packet path knows a group by its number, and one that is made anew, as a service's
//! is when the service starts again, has another: so they are looked for again and again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use ackgate_control::units::{Span, Time};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::error::Error;
use crate::m21::root_cgroup;
use crate::selection::Selection;

/// How often.
const PERIOD: Span = Span::millis(100);
/// Most that rules may name (`MAX_GROUPS` of `intf.h`).
const MAX_GROUPS: usize = 1024;

/// The groups of some rules.
#[derive(Debug)]
pub(crate) struct Groups {
    /// Where each is to be, and what is said of it.
    rules: BTreeMap<PathBuf, u32>,
    /// What the packet path knows: of each number, what is said.
    known: BTreeMap<u64, u32>,
    map: MapHandle,
    next: Time,
    /// Of these it has been told that they are not there.
    missing: BTreeSet<PathBuf>,
}

impl Groups {
    /// Those of a selection, in the packet path's `map`.
    ///
    /// # Errors
    /// When there are too many, or no control groups of version 2.
    pub(crate) fn new(selection: &Selection, map: MapHandle) -> Result<Self, Error> {
        let root = root_cgroup()?;
        let place = |path: &std::path::Path| root.join(path.strip_prefix("/").unwrap_or(path));
        let rules: BTreeMap<_, _> = selection.groups().into_iter().map(|(path, said)| (place(path), said)).collect();
        if rules.len() > MAX_GROUPS {
            return Err(Error::Settings(format!(
                "the rules name {} control groups; at most {MAX_GROUPS} are supported",
                rules.len()
            )));
        }
        let mut groups = Self { rules, known: BTreeMap::new(), map, next: Time::ZERO, missing: BTreeSet::new() };
        groups.look(Time::ZERO)?;
        Ok(groups)
    }

    /// Looks where they are now, when it is time to. A group that is not there matches nothing until it is.
    ///
    /// # Errors
    /// When the packet path does not take it.
    pub(crate) fn look(&mut self, now: Time) -> Result<(), Error> {
        if now < self.next {
            return Ok(());
        }
        self.next = now + PERIOD;
        let failed = |error: libbpf_rs::Error| Error::from_bpf("write down which control groups are guarded", &error);
        let mut there = BTreeMap::new();
        for (path, said) in &self.rules {
            // The number of a group is that of its folder.
            if let Ok(folder) = fs::metadata(path) {
                *there.entry(folder.ino()).or_insert(0) |= said;
            }
        }
        for (number, said) in there.iter().filter(|(number, said)| self.known.get(number) != Some(said)) {
            self.map.update(&number.to_ne_bytes(), &said.to_ne_bytes(), MapFlags::ANY).map_err(failed)?;
        }
        for number in self.known.keys().filter(|number| !there.contains_key(number)) {
            self.map.delete(&number.to_ne_bytes()).map_err(failed)?;
        }
        self.known = there;
        Ok(())
    }

    /// Those that are not there, each once until it is there again.
    pub(crate) fn missed(&mut self) -> Vec<PathBuf> {
        let now: BTreeSet<PathBuf> = self.rules.keys().filter(|path| !path.exists()).cloned().collect();
        let fresh = now.difference(&self.missing).cloned().collect();
        self.missing = now;
        fresh
    }
}
