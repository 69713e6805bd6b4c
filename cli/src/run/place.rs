//! Which interface is guarded, and what is known of the port in front of it.

use ackgate_linux::route;

use super::publish::Identity;
use super::settings::{Buffer, PortRate, Settings};
use crate::exit::Refused;

/// The interface and the port in front of it: what was said, or what this host says.
pub(super) struct Place {
    pub(super) device: String,
    /// Nobody named it.
    by_route: bool,
    /// Rate of the port in Mb/s, when it is known.
    pub(super) rate_mbps: Option<u64>,
    /// Nobody gave it.
    by_link: bool,
}

impl Place {
    pub(super) fn choose(device: Option<&str>, settings: &Settings) -> anyhow::Result<Self> {
        let by_route = device.is_none();
        let device = match device {
            Some(device) => device.to_owned(),
            None => route::default_device().ok_or_else(|| {
                Refused(anyhow::anyhow!(
                    "there is no default route, so the interface to guard is not known; name one with --dev (`ip link` lists \
                     them)"
                ))
            })?,
        };
        let rate_mbps = match settings.rate {
            Some(PortRate::Bits(rate)) => Some(rate.div_ceil(1_000_000)),
            Some(PortRate::Unknown) => None,
            None => route::link_mbps(&device),
        };
        Ok(Self { device, by_route, rate_mbps, by_link: settings.rate.is_none() })
    }

    /// What was taken, and why.
    pub(super) fn told(&self, buffer: Buffer) -> String {
        let device = format!("{}{}", self.device, if self.by_route { " (the default route's interface)" } else { "" });
        let rate = match (self.rate_mbps, self.by_link) {
            (Some(rate), true) => format!("rate {rate} Mb/s (the link's)"),
            (Some(rate), false) => format!("rate {rate} Mb/s"),
            (None, true) => "rate not known (the link reports none)".into(),
            (None, false) => "rate not known".into(),
        };
        let buffer = match buffer {
            Buffer::Auto => "buffer auto (searched for)".into(),
            Buffer::Bytes(bytes) => format!("buffer {bytes} bytes"),
        };
        format!("{device}: {buffer}, {rate}")
    }

    /// What `status` and the metrics call the guard here.
    pub(super) fn identity(&self, settings: &Settings, back_end: &str) -> Identity {
        Identity {
            device: self.device.clone(),
            guard: settings.guard_name(),
            buffer: settings.buffer.bytes(),
            rate_mbps: self.rate_mbps,
            hold: back_end.to_owned(),
            observe: settings.observe,
        }
    }
}
