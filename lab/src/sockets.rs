//! What the lab asks of its senders' TCP by a program at their sockets (`bpf/sockets.bpf.c`): every sample of the round-trip time,
//! and a clamp of the congestion window.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use ackgate_linux::Error;
use ackgate_linux::load::load;
use ackgate_linux::m21::{Namespace, root_cgroup};
use libbpf_rs::skel::SkelBuilder;
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use crate::bpf::SocketsSkelBuilder;
use crate::testbed::Testbed;

/// Microseconds of a cell of the histogram, whose 16 384 cells reach to half a second.
const CELL_US: u32 = 32;

/// Programs at the sockets of a testbed's senders. Dropping it takes them off; a clamp stays on connections that have it.
pub struct Sockets {
    samples: MapHandle,
    _link: Link,
}

/// Samples of the round-trip time, by cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples(Vec<u64>);

impl Sockets {
    /// Connections that the testbed's senders accept or open from now on take part; `window` clamps their congestion windows, in segments.
    ///
    /// # Errors
    /// When the kernel does not take the program, or no control groups of version 2 are mounted.
    pub fn start(testbed: &Testbed, window: Option<u32>) -> Result<Self, Error> {
        const WHAT: &str = "load the program for the senders' sockets";
        let failed = |error: libbpf_rs::Error| Error::from_bpf(WHAT, &error);
        let io = |source| Error::Io { what: WHAT, source };
        let mut storage = MaybeUninit::uninit();
        let mut open = SocketsSkelBuilder::default().open(&mut storage).map_err(failed)?;
        let settings = open.maps.rodata_data.as_deref_mut().expect("the program has settings");
        (settings.cell_us, settings.window) = (CELL_US, window.unwrap_or(0));
        let skel = load(WHAT, open)?;
        let namespaces = MapHandle::try_from(&skel.maps.namespaces).map_err(failed)?;
        for k in 0..testbed.spec().hosts {
            let cookie = Namespace::named(testbed.sender(k).name()).cookie().map_err(io)?;
            namespaces.update(&cookie.to_ne_bytes(), &[1], MapFlags::ANY).map_err(failed)?;
        }
        let group = File::open(root_cgroup()?).map_err(io)?;
        let link = skel.progs.sender.attach_cgroup(group.as_raw_fd()).map_err(failed)?;
        let samples = MapHandle::try_from(&skel.maps.samples).map_err(failed)?;
        Ok(Self { samples, _link: link })
    }

    /// All samples so far.
    ///
    /// # Errors
    /// When the kernel does not give them.
    pub fn samples(&self) -> Result<Samples, Error> {
        const WHAT: &str = "read the samples of the round-trip time";
        let bytes = self.samples.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let bytes = bytes.map_err(|error| Error::from_bpf(WHAT, &error))?.unwrap_or_default();
        let cells = bytes.chunks_exact(8).map(|cell| cell.try_into().map_or(0, u64::from_ne_bytes));
        Ok(Samples(cells.collect()))
    }
}

impl Samples {
    /// What came after `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.0.iter().copied().chain(std::iter::repeat(0));
        Self(self.0.iter().zip(before).map(|(now, before)| now - before).collect())
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The least time in microseconds that `share` of the samples do not exceed, to half a cell; `None` without samples.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let all = self.count();
        let mut seen = 0;
        let cell = self.0.iter().position(|count| {
            seen += count;
            seen > 0 && seen as f64 >= share * all as f64
        })?;
        Some(middle(cell))
    }

    /// Their mean in microseconds; `None` without samples.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let all = self.count();
        let sum: f64 = self.0.iter().enumerate().map(|(cell, count)| middle(cell) * *count as f64).sum();
        (all > 0).then(|| sum / all as f64)
    }
}

fn middle(cell: usize) -> f64 {
    (cell as f64 + 0.5) * f64::from(CELL_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_in_the_middle_of_their_cells() {
        let before = Samples(vec![5, 0, 0, 0]);
        let samples = Samples(vec![5, 98, 1, 1]).since(&before);
        let at = |share| samples.quantile(share).map(|us| us / f64::from(CELL_US) - 0.5);
        assert_eq!((at(0.5), at(0.98), at(0.99), at(1.0)), (Some(1.0), Some(1.0), Some(2.0), Some(3.0)));
        assert_eq!(samples.mean(), Some(f64::from(CELL_US) * (1.5 * 98.0 + 2.5 + 3.5) / 100.0));
        assert_eq!(before.since(&before).quantile(0.5), None);
    }
}
