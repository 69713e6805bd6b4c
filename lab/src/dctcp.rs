//! DCTCP for the lab's hosts: the kernel's own where it has one, else `bpf/dctcp.bpf.c`, which the kernel forgets when this
//! process ends, however it ends.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use ackgate_linux::Error;
use ackgate_linux::load::load;
use libbpf_rs::Link;
use libbpf_rs::skel::SkelBuilder;

use crate::bpf::DctcpSkelBuilder;
use crate::machine::congestion_controls;
use crate::testbed::TestbedError;

/// What users call it.
pub const NAME: &str = "dctcp";

/// The name that sockets of this process's testbeds must ask for.
///
/// # Errors
/// When the kernel has no DCTCP and does not take ours: it needs BTF and TCP congestion control by BPF with links
/// (Linux 6.4).
pub fn name() -> Result<&'static str, TestbedError> {
    static REGISTERED: OnceLock<Result<Option<(Link, String)>, String>> = OnceLock::new();
    let registered =
        REGISTERED.get_or_init(|| if known() { Ok(None) } else { register().map(Some).map_err(|e| e.to_string()) });
    match registered {
        Ok(None) => Ok(NAME),
        Ok(Some((_, name))) => Ok(name),
        Err(message) => Err(TestbedError::Bpf {
            what: "this kernel has no DCTCP and does not take the lab's",
            message: message.clone(),
        }),
    }
}

fn known() -> bool {
    congestion_controls().iter().any(|name| name == NAME)
}

/// Registers ours. Names are the whole machine's, and another lab may run: hence the process id.
fn register() -> Result<(Link, String), Error> {
    const WHAT: &str = "register DCTCP";
    let name = format!("dctcp_{}", std::process::id());
    let mut storage = MaybeUninit::uninit();
    let mut open = DctcpSkelBuilder::default().open(&mut storage).map_err(|error| Error::from_bpf(WHAT, &error))?;
    let field = &mut open.struct_ops.dctcp_mut().name;
    for (to, from) in field.iter_mut().zip(name.bytes().chain(std::iter::repeat(0))) {
        *to = from.cast_signed();
    }
    let mut skel = load(WHAT, open)?;
    let link = skel.maps.dctcp.attach_struct_ops().map_err(|error| Error::from_bpf(WHAT, &error))?;
    Ok((link, name))
}
