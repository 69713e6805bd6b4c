//! The lab's own BPF programs, as the kernel's verifier takes them.

use ackgate_linux::Error;
use ackgate_linux::load::Verified;

use crate::{dctcp, harm, testbed};

/// Loads each of them, attaching none.
///
/// # Errors
/// When the kernel does not take one.
pub fn verify() -> Result<Vec<Verified>, Error> {
    let mut programs = dctcp::verify()?;
    programs.extend(testbed::verify_mark()?);
    programs.extend(harm::verify_ce()?);
    Ok(programs)
}
