//! `ackgate switch`: M21TCP-A's switch on a host that forwards, in the foreground until Ctrl-C.

use std::os::fd::AsFd;
use std::time::Duration;

use ackgate_control::m21::counter;
use ackgate_control::units::Span;
use ackgate_linux::m21::{Port, PortOptions, PortStatus};
use clap::Args;
use serde::Serialize;

use crate::exit::Refused;
use crate::output::Wait;
use crate::run::{AttachChoice, Screen};
use crate::stop;
use crate::units::{parse_bytes, parse_time};

/// Arguments of `ackgate switch`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// A port whose outgoing flows are counted. May be given several times.
    #[arg(long, value_name = "INTERFACE", required = true)]
    dev: Vec<String>,

    /// Idle timeout of a flow; `never` for the paper's list, which only grows.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = Expiry::parse)]
    expiry: Expiry,

    /// Maximum number of flows counted per port.
    #[arg(long, value_name = "FLOWS", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=131_072))]
    flows: u32,

    /// Mark ECN-capable packets when more than this is queued, for kernels without RED. The port must have a single queue
    /// (tbf, htb, bfifo, fq).
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    mark_above: Option<u64>,

    /// How the BPF program is attached to the interface.
    #[arg(long, value_enum, default_value = "auto")]
    attach: AttachChoice,

    /// Print one JSON object per line: `ready`, a `sample` each second, at the end a `summary`.
    #[arg(long)]
    json: bool,
}

/// A time, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expiry(Option<Span>);

impl Expiry {
    fn parse(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(None));
        }
        match parse_time(text) {
            Ok(time) if time >= Duration::from_millis(1) => {
                Ok(Self(Some(u64::try_from(time.as_nanos()).map_or(Span(u64::MAX), Span))))
            }
            Ok(_) => Err("less than 1ms is no time to count flows in".into()),
            Err(error) => Err(format!("{error}, or `never`")),
        }
    }
}

/// A line of `--json`.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    /// The ports count from now on.
    Ready { ports: Vec<Named> },
    /// How they stand; counters count from the start.
    Sample { ports: Vec<Named> },
    /// They count no longer.
    Summary { ports: Vec<Named> },
}

#[derive(Serialize)]
struct Named {
    device: String,
    #[serde(flatten)]
    status: PortStatus,
}

/// Counts until SIGINT, SIGTERM or SIGHUP.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let stop = stop::of_a_guard()?;
    let mark_above = arguments.mark_above.map(|bytes| match u32::try_from(bytes) {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(Refused(anyhow::anyhow!("--mark-above {bytes}: must be between 1 byte and 4GB"))),
    });
    let options = PortOptions {
        counting: counter::Config { expiry: arguments.expiry.0, flows: arguments.flows },
        mark_above: mark_above.transpose()?,
        attach: arguments.attach.choice(),
    };
    let ports = arguments.dev.iter().map(|device| Port::start(device, &options)).collect::<Result<Vec<_>, _>>()?;
    let mut screen = Screen::new(arguments.json);
    if arguments.json {
        screen.event(&Event::Ready { ports: all(&ports) }, Wait::Never);
    } else {
        screen.line(&format!("counting the flows of {}; Ctrl-C stops", arguments.dev.join(", ")), Wait::Never);
    }
    while !stop::within_a_second(stop.as_fd())? {
        for port in &ports {
            port.expire()?;
        }
        let named = all(&ports);
        if arguments.json {
            screen.event(&Event::Sample { ports: named }, Wait::Never);
        } else {
            let told: Vec<_> =
                named.iter().map(|port| format!("{} {} flows", port.device, port.status.flows)).collect();
            screen.live(&told.join("   "));
        }
    }
    let named = all(&ports);
    drop(ports);
    if arguments.json {
        screen.event(&Event::Summary { ports: named }, Wait::Briefly);
    } else {
        for Named { device, status } in named {
            let PortStatus { flows_max, counted, stamped, .. } = status;
            let told =
                format!("{device}: {flows_max} flows at most; {counted} segments counted, {stamped} told the number.");
            screen.line(&told, Wait::Briefly);
        }
    }
    screen.finish()
}

fn all(ports: &[Port]) -> Vec<Named> {
    ports.iter().map(|port| Named { device: port.name().to_owned(), status: port.status() }).collect()
}
