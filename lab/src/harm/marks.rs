//! One peer's segments carry CE although ECN was never negotiated: the IP bits of such a flow are nobody's evidence
//! (RFC 3168, section 6.1.1).

use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ackgate_linux::Error;
use ackgate_linux::load::load;
use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::{OpenObject, TC_EGRESS, TcHookBuilder};
use nix::net::if_::if_nametoindex;

use super::rounds::{HOSTS, TEN};
use super::row::{Bench, Measure, Row, RowError, Unit, end, io_error, spec};
use super::streams::{PORT, open, plain};
use crate::bpf::{CeSkel, CeSkelBuilder};
use crate::testbed::{Namespace, TestbedError};

/// Octets of a message of that peer.
const MESSAGE: usize = 100;
/// Time between two messages.
const INTERVAL: Duration = Duration::from_micros(500);

struct Marks;

pub(super) const ROWS: &[Row] = &[Row {
    name: "false-ce",
    what: "ten rounds of 64 x 64 KB beside a peer's 2000 segments/s with CE, ECN not negotiated, 500 Mb/s",
    unit: Unit::Mbps,
    measure: &Marks,
}];

impl Measure for Marks {
    fn measure(&self, bench: &Bench<'_>) -> Result<f64, RowError> {
        let (lab, guard) = bench.lab(spec(HOSTS, 500))?;
        mark(&lab.testbed().sender(0))?;
        let pairs = open(lab.testbed(), 1, &plain)?;
        let stop = AtomicBool::new(false);
        let mbps = std::thread::scope(|scope| {
            for pair in &pairs {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) && (&pair.sender).write_all(&[0x63; MESSAGE]).is_ok() {
                        std::thread::sleep(INTERVAL);
                    }
                    // Ends the reader.
                    let _ = pair.sender.shutdown(std::net::Shutdown::Write);
                });
                scope.spawn(|| std::io::copy(&mut &pair.receiver, &mut std::io::sink()));
            }
            let mbps = bench.sleep(Duration::from_millis(500)).and_then(|()| TEN.mbps(&lab, HOSTS, bench));
            stop.store(true, Ordering::Relaxed);
            mbps
        })?;
        end(guard)?;
        Ok(mbps)
    }
}

/// Has a host set CE in whatever it sends from the rows' port.
fn mark(host: &Namespace) -> Result<(), RowError> {
    const WHAT: &str = "cannot have a host send frames with CE";
    let attach = || {
        const WHAT: &str = "attach the program that sets CE";
        let failed = |error: libbpf_rs::Error| Error::from_bpf(WHAT, &error);
        let mut storage = MaybeUninit::uninit();
        let skel = load_ce(&mut storage)?;
        let index = if_nametoindex("tx0").map_err(|errno| Error::Io { what: WHAT, source: errno.into() })?;
        let mut hook = TcHookBuilder::new(skel.progs.ce.as_fd())
            .ifindex(i32::try_from(index).unwrap_or(i32::MAX))
            .handle(1)
            .priority(1)
            .hook(TC_EGRESS);
        hook.create().map_err(failed)?;
        hook.attach().map_err(failed)?;
        Ok::<_, Error>(())
    };
    host.inside(attach)
        .map_err(io_error("entering a sender's namespace"))?
        .map_err(|error| TestbedError::Bpf { what: WHAT, message: error.to_string() }.into())
}

/// The program that sets CE, loaded.
fn load_ce(storage: &mut MaybeUninit<OpenObject>) -> Result<CeSkel<'_>, Error> {
    const WHAT: &str = "load the program that sets CE";
    let mut open = CeSkelBuilder::default().open(storage).map_err(|error| Error::from_bpf(WHAT, &error))?;
    if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
        settings.port = PORT.to_be();
    }
    load(WHAT, open)
}
