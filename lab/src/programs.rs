//! The lab's own BPF programs, as the kernel's verifier takes them.

use ackgate_linux::Error;
use ackgate_linux::load::{Verified, verify_object};

use crate::bpf::OBJECTS;

/// Loads each of them, attaching none.
///
/// # Errors
/// When the kernel does not take one.
pub fn verify() -> Result<Vec<Verified>, Error> {
    let each = OBJECTS.iter().map(|object| verify_object("load the lab's programs", object));
    Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
}
