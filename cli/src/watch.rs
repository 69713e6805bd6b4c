//! `ackgate watch`: looks for incast at an interface or in a capture, and changes nothing.

mod course;
mod page;
mod screen;

use std::net::IpAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ackgate_control::units::{Span, Time};
use ackgate_linux::Error;
use ackgate_linux::route;
use ackgate_linux::watch::capture::{Capture, CaptureError};
use ackgate_linux::watch::report::{Report, Reporter, Sums};
use ackgate_linux::watch::{Bin, Connection, Options, WIDTHS, Watch};
use clap::Args;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::exit::Refused;
use crate::stop;
use crate::units::{parse_rate, parse_time};
use page::Paper;
use screen::{Cost, Event, Screen};

/// Arguments of `ackgate watch`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Interface to monitor. Default: that of the default route.
    #[arg(long, value_name = "INTERFACE", conflicts_with = "pcap")]
    dev: Option<String>,

    /// Read this capture instead: pcap or pcapng, made at the receiver.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,

    /// The receiver in the capture. Default: the address that most data was sent to.
    #[arg(long, value_name = "ADDRESS", requires = "pcap")]
    receiver: Option<IpAddr>,

    /// Rate of the link, for example 1gbit: a burst fills half of it. Default: the rate that the interface reports; if it reports
    /// none, that of the fullest bin so far.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<u64>,

    /// Width of a bin, 100us to 10ms.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "1ms")]
    bin: Duration,

    /// Pause in the middle of a stream that counts as a retransmission timeout of its sender.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "150ms")]
    stall: Duration,

    /// Stop after this time. Default: on Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, conflicts_with = "pcap")]
    duration: Option<Duration>,

    /// Measure the BPF program's run time per packet; this adds a small overhead.
    #[arg(long, conflicts_with = "pcap")]
    bpf_stats: bool,

    /// At the end, also write a report with plots to this file (HTML).
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Print one JSON object per line: `ready`, a `second` each second, each `burst`, and at the end a `summary`.
    #[arg(long)]
    json: bool,
}

/// Looks until SIGINT, SIGTERM or SIGHUP, until the time is up, or to the end of the capture.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let span = |time: Duration| Span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let (width, stall) = (span(arguments.bin), span(arguments.stall));
    let (least, most) = WIDTHS;
    if width < least || width > most {
        return Err(Refused(anyhow::anyhow!("--bin {width}: must be between {least} and {most}")).into());
    }
    let rate_mbps = arguments.rate.map(|rate| rate.div_ceil(1_000_000));
    // Whether it can be written shows before anything is watched.
    let paper = arguments.html.as_ref().map(|path| Paper::new(path, width)).transpose()?;
    let mut view = View { screen: Screen::new(arguments.json), paper };
    if let Some(file) = &arguments.pcap {
        read(file, arguments.receiver, rate_mbps, width, stall, &mut view)?;
    } else {
        let device = match &arguments.dev {
            Some(device) => device.clone(),
            None => route::default_device().ok_or_else(|| {
                Refused(anyhow::anyhow!(
                    "there is no default route, so the interface to watch is not known; name one with --dev"
                ))
            })?,
        };
        let rate_mbps = rate_mbps.or_else(|| route::link_mbps(&device));
        let options = Options { device, width, stall, bpf_stats: arguments.bpf_stats };
        look(&options, rate_mbps, arguments.duration.map(span), &mut view)?;
    }
    view.paper.map_or(Ok(()), Paper::finish)?;
    view.screen.finish()
}

/// Where it is shown, and what a page of it will be made of.
struct View {
    screen: Screen,
    paper: Option<Paper>,
}

impl View {
    fn begin(&mut self, place: &str, rate_mbps: Option<u64>, width: Span) {
        self.screen.show(&Event::Ready { place, rate_mbps, bin_us: width.0 / 1000 });
        if let Some(paper) = &mut self.paper {
            paper.begin(place, rate_mbps);
        }
    }

    fn push(&mut self, bin: &Bin, reporter: &mut Reporter) {
        if let Some(paper) = &mut self.paper {
            paper.course.push(bin);
        }
        if let Some(burst) = reporter.push(bin) {
            self.screen.show(&Event::Burst(&burst));
        }
    }

    fn end(&mut self, report: &Report, missed: (u64, u64), cost: Option<Cost>) {
        let (unread_bins, untold_segments) = missed;
        self.screen.show(&Event::Summary { report, unread_bins, untold_segments, cost });
        if let Some(paper) = &mut self.paper {
            paper.end(report);
        }
    }
}

/// Reads a capture.
fn read(
    file: &Path,
    receiver: Option<IpAddr>,
    rate_mbps: Option<u64>,
    width: Span,
    stall: Span,
    view: &mut View,
) -> anyhow::Result<()> {
    let capture = Capture::read(file, receiver, width, stall).map_err(|error| match error {
        CaptureError::Io { .. } => error.into(),
        _ => anyhow::Error::new(Refused(error.into())),
    })?;
    let mut reporter = Reporter::new(width, rate_mbps);
    let place = capture.receiver.to_string();
    view.begin(&place, rate_mbps, width);
    capture.bins.iter().for_each(|bin| view.push(bin, &mut reporter));
    // The capture does not say which interface it was.
    view.end(&reporter.finish(&capture.connections, "INTERFACE"), (0, 0), None);
    Ok(())
}

/// Looks at a device.
fn look(options: &Options, rate_mbps: Option<u64>, duration: Option<Span>, view: &mut View) -> anyhow::Result<()> {
    let stop = stop::of_a_guard()?;
    let mut watch = Watch::start(options)?;
    let (start, cpu) = (ackgate_linux::now(), ackgate_linux::cpu_seconds());
    let end = duration.map_or(Time::NEVER, |duration| start + duration);
    let mut reporter = Reporter::new(options.width, rate_mbps);
    view.begin(&options.device, rate_mbps, options.width);
    let mut second = (start + Span::secs(1), Sums::default());
    let pause = PollTimeout::try_from(watch.patience().0 / 1_000_000)?;
    let end = loop {
        let mut fds = [PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
        let stopped = match poll(&mut fds, pause) {
            Ok(ready) => ready > 0,
            Err(Errno::EINTR) => false,
            Err(errno) => return Err(errno.into()),
        };
        let collected = watch.collect(|bin| {
            second.1.add(bin, options.width);
            view.push(bin, &mut reporter);
        });
        if let Err(error) = collected {
            break Err(error);
        }
        let now = ackgate_linux::now();
        if now >= second.0 {
            let connections = watch.connections();
            let senders = active(&connections, now);
            view.screen.show(&Event::Second { time_s: now.since(start).0 as f64 / 1e9, senders, sums: &second.1 });
            second = (second.0 + Span::secs(1), Sums::default());
        }
        if stopped || now >= end {
            break Ok(());
        }
    };
    let report = reporter.finish(&watch.connections(), &options.device);
    let cpu = ackgate_linux::cpu_seconds() - cpu;
    summarize(&watch, &report, cpu, ackgate_linux::now().since(start), view);
    end.map_err(Error::into)
}

/// Connections on which data arrived within the last second.
fn active(connections: &[Connection], now: Time) -> usize {
    connections.iter().filter(|connection| now.since(connection.last) < Span::secs(1)).count()
}

/// `cpu` is the CPU time of this process in seconds since it began to look.
fn summarize(watch: &Watch, report: &Report, cpu: f64, elapsed: Span, view: &mut View) {
    let percent = |seconds: f64| seconds * 1e9 / elapsed.0.max(1) as f64 * 100.0;
    let program = watch.cost();
    let cost = Cost {
        daemon_cpu_percent: percent(cpu),
        program_ns_per_packet: program.map(|(packets, nanos)| nanos as f64 / packets as f64),
        program_cpu_percent: program.map(|(_, nanos)| percent(nanos as f64 / 1e9)),
    };
    view.end(report, watch.missed(), Some(cost));
}
