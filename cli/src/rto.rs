//! `ackgate rto`: the floor of this host's retransmission timeout, as far as a stock kernel lets it be lowered.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ackgate_lab::load::PORT;
use ackgate_linux::rto::{self, Measured};
use clap::{Args, Subcommand};

use crate::exit::Refused;
use crate::units::parse_time;

/// What to do with it.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Lowers it until `reset`, and shows the result. Needs root.
    Set(Set),
    /// Shows what is set, and the effective value of connections.
    Show {
        /// Hosts on which `ackgate load serve` (or another server, given as ADDRESS:PORT) answers.
        hosts: Vec<String>,
    },
    /// Restores everything as it was before the first `set`. Needs root.
    Reset,
}

#[derive(Args)]
pub(crate) struct Set {
    /// The minimum timeout. Timers count jiffies (4 ms at HZ 250) and are rounded up.
    #[arg(value_name = "TIME", value_parser = parse_time)]
    floor: Duration,
    /// Only for this address or network, in whole milliseconds; may be given several times. Default: all
    /// connections, by a sysctl that exists from Linux 6.11 on. A route takes precedence over the sysctl.
    #[arg(long = "to", value_name = "ADDRESS|NETWORK")]
    to: Vec<String>,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Set(set) => lower(set),
        Command::Show { hosts } => show(hosts),
        Command::Reset => {
            let undone = rto::reset()?;
            Ok(writeln!(io::stdout(), "{undone} changes undone")?)
        }
    }
}

fn lower(set: &Set) -> anyhow::Result<()> {
    if set.floor.is_zero() || set.floor > Duration::from_secs(1) {
        return Err(Refused(anyhow::anyhow!(
            "{:?} is not allowed as minimum timeout; it must be above 0 and at most 1s",
            set.floor
        ))
        .into());
    }
    if set.to.is_empty() {
        rto::set(set.floor)?;
        return show(&[]);
    }
    let mut out = io::stdout();
    for to in &set.to {
        rto::set_route(to, set.floor)?;
        writeln!(out, "connections to {to}: at least {:?}; `ackgate rto show HOST` measures it", set.floor)?;
    }
    Ok(())
}

fn show(hosts: &[String]) -> anyhow::Result<()> {
    let mut out = io::stdout();
    match rto::sysctl() {
        Some(floor) => writeln!(out, "all connections: at least {floor:?} (net.ipv4.tcp_rto_min_us)")?,
        None => writeln!(out, "all connections: at least 200ms (no net.ipv4.tcp_rto_min_us before Linux 6.11)")?,
    }
    match rto::measure_here() {
        Ok(measured) => writeln!(out, "measured over the loopback interface: {}", told(&measured))?,
        Err(error) => writeln!(out, "not measured over the loopback interface: {error}")?,
    }
    for host in hosts {
        let address = address(host)?;
        if let Some(floor) = rto::of_route(address.ip())? {
            writeln!(out, "{host}: at least {floor:?} (its route)")?;
        }
        writeln!(out, "{host}: measured {}", told(&rto::measure(address)?))?;
    }
    Ok(())
}

fn address(host: &str) -> anyhow::Result<SocketAddr> {
    let bare = host.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    bare.or_else(|_| host.parse())
        .map_err(|_| Refused(anyhow::anyhow!("`{host}` is not an address; write 10.0.0.5 or 10.0.0.5:80")).into())
}

/// What new connections have, in words.
fn told(measured: &Measured) -> String {
    let Measured { least, most, rtt } = measured;
    let span = if least == most { format!("{least:?}") } else { format!("{least:?} to {most:?}") };
    format!("{span} with a round-trip time of {rtt:?}")
}
