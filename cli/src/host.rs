//! `ackgate host`: what this host's own TCP does as a party to a scheme, in the foreground until Ctrl-C.

use std::os::fd::AsFd;
use std::path::PathBuf;

use ackgate_control::m21::cap::MINIMUM_HEADER;
use ackgate_control::units::Rate;
use ackgate_linux::m21::{Namespace, Sockets, SocketsOptions, SocketsStatus};
use ackgate_linux::route;
use clap::Args;
use serde::Serialize;

use crate::exit::Refused;
use crate::output::Wait;
use crate::run::Screen;
use crate::stop;
use crate::units::{parse_bytes, parse_rate};

/// Arguments of `ackgate host`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// M21TCP-A: reserve room for the number of senders, echo it, and cap the congestion window at the share that it allows.
    #[arg(long, required = true)]
    m21: bool,

    /// Buffer of the switch port with the most senders (B of Eq. 1).
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, overrides_with = "buffer")]
    buffer: u64,

    /// Bytes of headers per segment (MHS of Eq. 1).
    #[arg(long, value_name = "BYTES", default_value_t = MINIMUM_HEADER)]
    header: u32,

    /// Rate of this host's own link. Default: the rate that the default route's interface reports, if any.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<u64>,

    /// Only sockets of this control group (version 2) and those below it. Default: all.
    #[arg(long, value_name = "FOLDER")]
    cgroup: Option<PathBuf>,

    /// Sockets of this network namespace, by its name or a path; may be given several times. Default: this one.
    #[arg(long, value_name = "NAMESPACE")]
    netns: Vec<String>,

    /// Print one JSON object per line: `ready`, a `sample` each second, at the end a `summary`.
    #[arg(long)]
    json: bool,
}

/// A line of `--json`.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    /// Connections take part from now on.
    Ready { buffer: u32 },
    /// How things stand; counters count from the start.
    Sample(SocketsStatus),
    /// They no longer do.
    Summary(SocketsStatus),
}

/// Runs until SIGINT, SIGTERM or SIGHUP.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let stop = stop::of_a_guard()?;
    let options = options(arguments)?;
    let sockets = Sockets::start(&options)?;
    let mut screen = Screen::new(arguments.json);
    if arguments.json {
        screen.event(&Event::Ready { buffer: options.buffer }, Wait::Never);
    } else {
        let told =
            format!("connections opened from now on take part in M21TCP-A, B = {} bytes; Ctrl-C stops", options.buffer);
        screen.line(&told, Wait::Never);
    }
    while !stop::within_a_second(stop.as_fd())? {
        let status = sockets.status();
        if arguments.json {
            screen.event(&Event::Sample(status), Wait::Never);
        } else {
            let SocketsStatus { numbers, echoes, clamped, .. } = status;
            screen.live(&format!(
                "{numbers:>9} numbers heard  {echoes:>9} echoed to us  {clamped:>7} changes of a window's cap"
            ));
        }
    }
    let status = sockets.status();
    drop(sockets);
    if arguments.json {
        screen.event(&Event::Summary(status), Wait::Briefly);
    } else {
        let SocketsStatus { numbers, echoes, clamped, paced, refused } = status;
        let told = format!(
            "No cap is left. {numbers} segments brought a number, {echoes} ACKs an echo; {clamped} times a window's cap was changed, \
             {paced} times a pace, {refused} times the kernel refused."
        );
        screen.line(&told, Wait::Briefly);
    }
    screen.finish()
}

fn options(arguments: &Arguments) -> anyhow::Result<SocketsOptions> {
    let refuse = |text: String| Refused(anyhow::anyhow!(text));
    let rate = match arguments.rate {
        Some(rate) => Rate(rate),
        None => {
            let mbps = route::default_device().and_then(|device| route::link_mbps(&device)).ok_or_else(|| {
                refuse("the rate of this host's own link must be known, and no default route's interface tells it: give --rate".into())
            })?;
            Rate(mbps.saturating_mul(1_000_000))
        }
    };
    let buffer = u32::try_from(arguments.buffer)
        .map_err(|_| refuse(format!("--buffer {}: no switch port has more than 4GB", arguments.buffer)))?;
    let namespaces = if arguments.netns.is_empty() {
        vec![Namespace::own()]
    } else {
        arguments.netns.iter().map(|name| Namespace::named(name)).collect()
    };
    Ok(SocketsOptions { buffer, header: arguments.header, rate, cgroup: arguments.cgroup.clone(), namespaces })
}
