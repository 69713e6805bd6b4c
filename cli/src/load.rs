//! `ackgate load`: the papers' client-server application between real hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use crate::units::{parse_bytes, parse_time};
use ackgate_lab::load::pull::{Event, PullConfig, Start, Volume, pull};
use ackgate_lab::load::report::LoadReport;
use ackgate_lab::load::serve::Server;
use ackgate_lab::load::{PORT, make_all_room};
use anyhow::Context;
use clap::{Args, Subcommand};

use crate::exit::Refused;
use crate::table::{Facts, print_json};

/// The two ends.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// The sender: waits for `load pull` and sends the requested data, until Ctrl-C.
    Serve(Serve),
    /// The receiver: requests data from all senders at once, round after round, and reports.
    Pull(Pull),
}

#[derive(Args)]
pub(crate) struct Serve {
    /// Address to listen on, with or without a port; repeat for several. Default: all addresses, IPv4 and IPv6.
    #[arg(long = "listen", value_name = "ADDR[:PORT]")]
    listen: Vec<String>,
    /// Clamp segments to this size (MSS, bytes).
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(88..=65_495))]
    mss: Option<u32>,
}

#[derive(Args)]
pub(crate) struct Pull {
    /// Senders: addresses where `ackgate load serve` runs. Connections are distributed over them in turn.
    #[arg(required = true, value_name = "ADDR[:PORT]")]
    servers: Vec<String>,
    #[command(flatten)]
    shape: Shape,
    /// Clamp segments to this size (MSS, bytes).
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(88..=65_495))]
    mss: Option<u32>,
    /// Ask the kernel to acknowledge every read at once (TCP_QUICKACK).
    #[arg(long)]
    quickack: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// The shape of a load, common to `load pull` and the lab.
#[derive(Args, Clone)]
pub(crate) struct Shape {
    /// Connections, each from one sender.
    #[arg(long, short = 'n', default_value_t = 8)]
    pub(crate) connections: usize,
    /// Bytes per connection and round (fixed volume per sender).
    #[arg(long, value_name = "SIZE", default_value = "64KB", value_parser = parse_bytes)]
    pub(crate) bytes: u64,
    /// Bytes per round of all connections together (fixed total volume), instead of --bytes.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, conflicts_with = "bytes")]
    pub(crate) total: Option<u64>,
    /// Measured rounds.
    #[arg(long, default_value_t = 20)]
    pub(crate) rounds: u32,
    /// Rounds before the measured ones.
    #[arg(long, default_value_t = 2)]
    pub(crate) warmup: u32,
    /// Senders push on a signal; otherwise the receiver pulls with a small request on every connection.
    #[arg(long)]
    pub(crate) push: bool,
    /// New connections in every round, opened by the receiver, or with --push by the senders; otherwise connections persist.
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Senders' congestion control, for example reno, cubic or bbr. Default: that of the senders' host; in the lab reno.
    #[arg(long)]
    pub(crate) cc: Option<String>,
    /// Time limit for all rounds together.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = parse_time)]
    pub(crate) deadline: Duration,
}

impl Shape {
    pub(crate) fn volume(&self) -> Volume {
        self.total.map_or(Volume::PerConnection(self.bytes), Volume::Total)
    }

    pub(crate) const fn start(&self) -> Start {
        if self.push { Start::Push } else { Start::Pull }
    }
}

/// Runs one end.
pub(crate) fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(serve) => run_serve(&serve),
        Command::Pull(pull) => run_pull(&pull),
    }
}

fn run_serve(serve: &Serve) -> anyhow::Result<()> {
    let stop = crate::stop::on_signals()?;
    // As many as the hard limit allows: a server cannot know how many will come.
    make_all_room()?;
    let mut server = Server::new()?;
    let mut bound = Vec::new();
    if serve.listen.is_empty() {
        bound.push(server.listen(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT), serve.mss)?);
        // A host without IPv6 serves IPv4 alone.
        bound.extend(server.listen(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), PORT), serve.mss));
    }
    for text in &serve.listen {
        for addr in resolve(text)? {
            bound.push(server.listen(addr, serve.mss)?);
        }
    }
    for addr in bound {
        eprintln!("serving on {addr}; Ctrl-C stops it");
    }
    server.run(&stop)?;
    Ok(())
}

fn run_pull(args: &Pull) -> anyhow::Result<()> {
    let stop = crate::stop::on_signals()?;
    let mut servers = Vec::new();
    for text in &args.servers {
        servers.extend(resolve(text)?.into_iter().take(1));
    }
    let shape = &args.shape;
    let config = PullConfig {
        servers,
        connections: shape.connections,
        volume: shape.volume(),
        rounds: shape.rounds,
        warmup: shape.warmup,
        start: shape.start(),
        fresh: shape.fresh,
        cc: shape.cc.clone(),
        mss: args.mss,
        own_cc: args.shape.cc.clone().filter(|cc| cc == ackgate_lab::dctcp::NAME),
        quickack: args.quickack,
        pace: None,
        deadline: shape.deadline,
    };
    let bar = progress_bar(u64::from(config.rounds), args.json);
    let report = pull(&config, &stop, |event| {
        if let Event::Round(_) = event {
            bar.inc(1);
        }
    });
    bar.finish_and_clear();
    let report = report?;
    if args.json {
        return print_json(&report);
    }
    let mut facts = Facts::default();
    facts.add("connections", format!("{} from {} servers", report.connections, report.servers));
    add_load(&mut facts, &report);
    facts.print()?;
    Ok(())
}

/// The lines that `load pull` and `lab incast` have in common.
pub(crate) fn add_load(facts: &mut Facts, report: &LoadReport) {
    let (round, flow, senders) = (report.round_ms, report.flow_ms, report.senders);
    facts
        .add("goodput", format!("{:.1} Mb/s ({} bytes in {:.3} s)", report.goodput_mbps, report.bytes, report.seconds))
        .add("rounds", format!("{} of {} asked for", report.rounds, report.rounds_asked))
        .add("rounds with RTO", format!("{} ({} timeouts)", report.rounds_with_timeout, report.rto_timeouts))
        .add(
            "retransmits",
            format!(
                "{} (fast {}, tail loss probes {}, SYN {})",
                report.retransmits, senders.fast_retransmits, senders.loss_probes, senders.syn_retransmits
            ),
        )
        .add("round", format!("p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms", round.p50, round.p99, round.max))
        .add("flow", format!("p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms", flow.p50, flow.p99, flow.max))
        .add(
            "at the senders",
            format!("cwnd {:.1} segments, SRTT {:.0} us (means)", report.cwnd_mean, report.srtt_us_mean),
        );
}

/// A bar for rounds on standard error; none when it would disturb.
pub(crate) fn progress_bar(length: u64, quiet: bool) -> indicatif::ProgressBar {
    if quiet { indicatif::ProgressBar::hidden() } else { indicatif::ProgressBar::new(length) }
}

/// `host`, `host:port`, `1.2.3.4`, `fd00::1` or `[fd00::1]:port`.
fn resolve(text: &str) -> anyhow::Result<Vec<SocketAddr>> {
    if let Ok(ip) = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, PORT)]);
    }
    if let Ok(addr) = text.parse::<SocketAddr>() {
        return Ok(vec![addr]);
    }
    let with_port = if text.contains(':') { text.to_owned() } else { format!("{text}:{PORT}") };
    let found = with_port.to_socket_addrs().with_context(|| format!("cannot find the address of `{text}`"));
    found.map(Iterator::collect).map_err(|e| Refused(e).into())
}
