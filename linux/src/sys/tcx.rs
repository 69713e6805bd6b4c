//! Programs on a device's tcx hooks (Linux 6.6): attached by links, and listed in the order in which they run.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use super::{Side, owned};

/// Most programs that one hook can have (`BPF_MPROG_MAX` of the kernel).
const MOST: usize = 64;

const fn hook(side: Side) -> libbpf_sys::bpf_attach_type {
    match side {
        Side::Ingress => libbpf_sys::BPF_TCX_INGRESS,
        Side::Egress => libbpf_sys::BPF_TCX_EGRESS,
    }
}

/// Where a program goes among those of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In front of whatever is there.
    First,
    /// Right behind this one, by its kernel id.
    Behind(u32),
}

/// Attaches a program; closing the link detaches it.
pub(crate) fn link(program: BorrowedFd<'_>, ifindex: i32, side: Side, place: Place) -> io::Result<OwnedFd> {
    let mut options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        // "Before", and before nobody in particular: the head of the chain.
        flags: libbpf_sys::BPF_F_BEFORE,
        ..Default::default()
    };
    if let Place::Behind(id) = place {
        options.flags = libbpf_sys::BPF_F_AFTER | libbpf_sys::BPF_F_ID;
        options.__bindgen_anon_1.tcx.relative_id = id;
    }
    // SAFETY: plain integers, and options that are as long as `sz` says and alive during the call.
    let fd = unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), ifindex, hook(side), &raw const options) };
    owned(fd)
}

/// Puts another program in the place of a link's.
pub(crate) fn update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: plain integers; without options.
    let result = unsafe { libbpf_sys::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), std::ptr::null()) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}

/// Kernel ids of the programs on a hook, in the order in which they run.
pub(crate) fn programs(ifindex: i32, side: Side) -> io::Result<Vec<u32>> {
    let mut ids = [0_u32; MOST];
    let mut options = libbpf_sys::bpf_prog_query_opts {
        sz: size_of::<libbpf_sys::bpf_prog_query_opts>() as libbpf_sys::size_t,
        prog_ids: ids.as_mut_ptr(),
        ..Default::default()
    };
    options.__bindgen_anon_1.count = MOST as u32;
    // SAFETY: `ids` has room for as many as `count` says; both are alive during the call.
    let result = unsafe { libbpf_sys::bpf_prog_query_opts(ifindex, hook(side), &raw mut options) };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    // SAFETY: an integer, whichever of the union's names it was written by.
    let count = unsafe { options.__bindgen_anon_1.count } as usize;
    Ok(ids[..count.min(MOST)].to_vec())
}

/// The name of a program; `None` when it has gone or this process may not look.
pub(crate) fn name(id: u32) -> Option<String> {
    // SAFETY: takes an integer, returns a descriptor or a negative errno.
    let program = owned(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) }).ok()?;
    let info = super::program_info(std::os::fd::AsFd::as_fd(&program)).ok()?;
    let name: Vec<u8> = info.name.iter().map(|&byte| byte.cast_unsigned()).take_while(|&byte| byte != 0).collect();
    Some(String::from_utf8_lossy(&name).into_owned())
}
