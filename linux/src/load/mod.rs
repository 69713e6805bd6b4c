//! Loading BPF programs: what the kernel's verifier looked at when it took them, and what it means when it did not.
//!
//! libbpf says in its log what an error number does not: which program the verifier refused and why. The log of a load is
//! collected here, and [`explain`] turns it into one of [`Error`]'s causes.

mod explain;
mod fault;
mod stack;

use std::cell::RefCell;
use std::os::fd::AsFd;

use libbpf_rs::skel::{OpenSkel, Skel};
use libbpf_rs::{Object, ObjectBuilder, OpenObject, PrintLevel};
use serde::Serialize;

use crate::error::Error;
use crate::privilege::Process;
use crate::sys;

pub use stack::MOST as MOST_STACK;

/// A program that the kernel has taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Verified {
    /// Its name in the BPF source.
    pub name: String,
    /// Instructions that the verifier processed, as `veristat` counts them; the kernel allows a million.
    pub instructions: u32,
    /// Stack that its deepest chain of calls takes, bytes, as older kernels (6.1) count it; they refuse more than [`MOST_STACK`]. 0 where
    /// the kernel keeps the instructions to itself (`bpf_jit_harden`).
    pub stack: u32,
}

thread_local! {
    /// What libbpf says on this thread while a load is under way.
    static LOG: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Loads an object's programs and maps. `what` follows "could not" in an error.
///
/// # Errors
/// With the cause, see [`Error`].
pub fn load<'object, O: OpenSkel<'object>>(what: &'static str, mut open: O) -> Result<O::Output, Error> {
    let bytes = prepare(open.open_object_mut());
    recorded(what, bytes, || open.load())
}

/// The programs of a loaded object, by name; those that were not to be loaded are left out.
///
/// # Errors
/// When the kernel does not tell about a program.
pub fn verified<'object>(loaded: &impl Skel<'object>) -> Result<Vec<Verified>, Error> {
    programs(loaded.object())
}

/// Loads all programs of an object file and lets go of them again: what the verifier makes of them.
///
/// # Errors
/// With the cause, see [`Error`].
pub fn verify_object(what: &'static str, file: &[u8]) -> Result<Vec<Verified>, Error> {
    let opened = ObjectBuilder::default().open_memory(file);
    let mut object = opened.map_err(|error| Error::from_bpf(what, &error))?;
    let bytes = prepare(&mut object);
    programs(&recorded(what, bytes, || object.load())?)
}

/// Brings about the fault that a test asked for; returns the bytes that the object's maps take at the least.
fn prepare(object: &mut OpenObject) -> u64 {
    fault::inject(object);
    let bytes = |entries: u32, value: u32| u64::from(entries) * u64::from(value.max(1));
    object.maps().map(|map| bytes(map.max_entries(), map.value_size())).sum()
}

/// Loads, listening to what libbpf says.
fn recorded<T>(what: &'static str, bytes: u64, load: impl FnOnce() -> libbpf_rs::Result<T>) -> Result<T, Error> {
    libbpf_rs::set_print(Some((PrintLevel::Debug, note)));
    LOG.set(Some(String::new()));
    let loaded = load();
    let log = LOG.take().unwrap_or_default();
    loaded.map_err(|error| explain::explain(what, &error, &log, bytes, &Process::this()))
}

fn programs(object: &Object) -> Result<Vec<Verified>, Error> {
    let mut programs = object
        .progs()
        .filter(|program| program.autoload())
        .map(|program| {
            let failed = |source| Error::from_io("ask the kernel about its BPF programs", source);
            let info = sys::program_info(program.as_fd()).map_err(failed)?;
            let stack = stack::deepest(&sys::program_instructions(program.as_fd()).map_err(failed)?);
            let name = program.name().to_string_lossy().into_owned();
            Ok(Verified { name, instructions: info.verified_insns, stack })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    programs.sort();
    Ok(programs)
}

/// Where libbpf's words go.
#[expect(clippy::needless_pass_by_value, reason = "the signature is libbpf-rs's")]
fn note(level: PrintLevel, line: String) {
    tracing::debug!("{}", line.trim_end());
    if level != PrintLevel::Debug {
        LOG.with_borrow_mut(|log| {
            if let Some(log) = log {
                log.push_str(&line);
            }
        });
    }
}
