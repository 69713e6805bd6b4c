//! `ackgate run`: guards in the foreground until it is stopped: one interface by options, or several by a file of settings.

mod attend;
mod file;
mod fleet;
mod host;
mod place;
mod printer;
mod publish;
mod scheme;
mod screen;
mod service;
mod settings;
mod wait;
mod worker;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ackgate_control::gate;
use ackgate_linux::{Error, Guard, privilege};
use anyhow::Context;
use clap::Args;

use self::attend::{Told, attend};
pub(crate) use self::file::File;
use self::place::Place;
use self::printer::{Printer, Samples};
use self::publish::{Board, Metrics, Publisher};
pub(crate) use self::screen::Screen;
pub(crate) use self::settings::{AttachChoice, guards};
use self::settings::{Runner, Settings};
use crate::exit::Refused;
use crate::{output, stop};

/// Where metrics are served when no address is given.
const METRICS: &str = "127.0.0.1:9477";

/// Arguments of `ackgate run`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Guard the interfaces named in this file, with its settings; SIGHUP reloads it. Without it: one interface, with the
    /// options below.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dev", "wait", "metrics", "Settings"])]
    config: Option<PathBuf>,

    /// Interface to guard. Default: that of the default route.
    #[arg(long, value_name = "INTERFACE")]
    dev: Option<String>,

    #[command(flatten)]
    settings: Settings,

    /// Wait if the interface does not exist or is down, also if it disappears later. Without it: refuse to start, or end with
    /// exit code 1.
    #[arg(long)]
    wait: bool,

    /// Serve metrics (OpenMetrics, for Prometheus) at http://ADDRESS/metrics, and a live page for browsers at http://ADDRESS/; without
    /// an address, on the loopback interface only.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = METRICS)]
    metrics: Option<SocketAddr>,

    /// Print one JSON object per line: `ready`, a `sample` each second, a `notice` for each problem, and at the end a
    /// `summary`.
    #[arg(long)]
    json: bool,
}

/// Guards until SIGINT or SIGTERM, and with one interface until SIGHUP.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(file) = &arguments.config {
        return fleet::run(file, arguments.json);
    }
    let place = || Place::choose(arguments.dev.as_deref(), &arguments.settings);
    match arguments.settings.guard.runner() {
        Runner::Gate(guard) => gate(arguments, guard, place),
        Runner::Host(scheme) => host::run(arguments, &place()?, scheme),
    }
}

/// Guards by the fast path.
fn gate(arguments: &Arguments, policy: gate::Guard, place: impl Fn() -> anyhow::Result<Place>) -> anyhow::Result<()> {
    let Arguments { settings, wait, .. } = arguments;
    let stop = stop::of_a_guard()?;
    let mut printer = Printer::new(arguments.json, Samples::All);
    let board = Board::default();
    let _metrics = arguments.metrics.map(|address| Metrics::start(address, &board)).transpose()?;
    let done = loop {
        let place = place()?;
        let options = settings.options(&place, policy)?;
        let mut tell = |told: Told| {
            service::pass_on(&told);
            printer.print(&place.device, &told);
        };
        let started = match wait {
            true => wait::start(&options, &stop, |text| tell(Told::Waiting(text.to_owned())))?,
            false => Some(Guard::start(options)?),
        };
        let Some(mut guard) = started else { break Ok(()) };
        // An interface that returns is guarded anew.
        privilege::keep_needed(*wait && guard.back_end() == "redirect").context("could not drop capabilities")?;
        let publisher = Publisher::start(&guard, place.identity(settings, guard.back_end()), &board)?;
        tell(Told::ready(&place, settings, guard.back_end()));
        let end = attend(&mut guard, &stop, &publisher, &mut tell);
        drop(publisher);
        service::stopping();
        tell(Told::Summary(Box::new(guard.stop())));
        match end {
            Err(Error::Gone(device)) if *wait => output::say(&Error::Gone(device).to_string()),
            end => break end.map_err(anyhow::Error::from),
        }
    };
    let written = printer.finish();
    done?;
    written
}

fn refuse(message: String) -> anyhow::Error {
    Refused(anyhow::anyhow!(message)).into()
}

/// How many a second.
fn per_second(count: u64, time: Duration) -> u128 {
    u128::from(count) * 1_000_000_000 / time.as_nanos().max(1)
}
