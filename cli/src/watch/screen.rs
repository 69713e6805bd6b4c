//! What a watch shows: JSON lines, a page that is drawn anew each second on a terminal, or a line a second elsewhere.

use std::collections::VecDeque;
use std::fmt::Write;

use ackgate_linux::watch::bursts::Burst;
use ackgate_linux::watch::report::{Report, Sums};
use serde::Serialize;

use crate::output::{Output, Wait};

/// Bursts and seconds on the page.
const BURSTS: usize = 8;
const SECONDS: usize = 8;

/// What the watch itself took.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Cost {
    /// CPU time of this process, in percent of one processor.
    pub(super) daemon_cpu_percent: f64,
    /// Mean run time of the BPF program, when it was measured.
    pub(super) program_ns_per_packet: Option<f64>,
    /// CPU time of the BPF program, in percent of one processor, when it was measured.
    pub(super) program_cpu_percent: Option<f64>,
}

/// A line of `--json`.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Event<'a> {
    /// From now on.
    Ready { place: &'a str, rate_mbps: Option<u64>, bin_us: u64 },
    /// What arrived within a second; `senders` are connections on which data arrived in it.
    Second {
        time_s: f64,
        senders: usize,
        #[serde(flatten)]
        sums: &'a Sums,
    },
    /// A burst of which all is known.
    Burst(&'a Burst),
    /// All in all.
    Summary {
        #[serde(flatten)]
        report: &'a Report,
        /// Bins that were not read in time.
        unread_bins: u64,
        /// Segments whose connection found no place in the table.
        untold_segments: u64,
        cost: Option<Cost>,
    },
}

/// Where it is shown.
pub(super) struct Screen {
    json: bool,
    output: Output,
    title: String,
    seconds: VecDeque<String>,
    bursts: VecDeque<String>,
}

const SECOND_HEAD: &str = "   time  senders  peak senders     Mb/s  peak Mb/s  marked     lost B  overtaken B  stalls";
const BURST_HEAD: &str = "  burst at  length ms  peak senders  peak Mb/s      bytes     lost B  stalls";

fn second_line(time_s: f64, senders: usize, sums: &Sums) -> String {
    format!(
        "{time_s:>6.0}s  {senders:>7}  {:>12}  {:>7.1}  {:>9.1}  {:>6}  {:>9}  {:>11}  {:>6}",
        sums.peak_senders,
        sums.bytes as f64 * 8.0 / 1e6,
        sums.peak_mbps,
        sums.marked,
        sums.retransmitted_bytes,
        sums.out_of_order_bytes,
        sums.stalls
    )
}

fn burst_line(burst: &Burst) -> String {
    format!(
        "{:>9.3}s  {:>9.1}  {:>12}  {:>9.1}  {:>9}  {:>9}  {:>6}",
        burst.start_s,
        burst.length_ms,
        burst.peak_senders,
        burst.peak_mbps,
        burst.bytes,
        burst.retransmitted_bytes,
        burst.stalls
    )
}

fn keep(lines: &mut VecDeque<String>, line: String, most: usize) {
    lines.push_back(line);
    if lines.len() > most {
        lines.pop_front();
    }
}

impl Screen {
    pub(super) fn new(json: bool) -> Self {
        Self { json, output: Output::new(), title: String::new(), seconds: VecDeque::new(), bursts: VecDeque::new() }
    }

    /// Ends it.
    ///
    /// # Errors
    /// When lines were lost.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.output.finish()
    }

    pub(super) fn show(&mut self, event: &Event<'_>) {
        let wait = if matches!(event, Event::Summary { .. }) { Wait::Briefly } else { Wait::Never };
        if self.json {
            let line = serde_json::to_string(event).expect("numbers and text are JSON");
            return self.output.write(&(line + "\n"), wait);
        }
        let live = self.output.is_terminal();
        match event {
            Event::Ready { place, rate_mbps, bin_us } => {
                let rate = rate_mbps.map_or_else(|| "rate not known".into(), |rate| format!("{rate} Mb/s"));
                self.title = format!("watching {place}: {rate}, bins of {bin_us} us; nothing is changed\n");
                let head = if live { String::new() } else { format!("{SECOND_HEAD}\n") };
                self.output.write(&format!("{}{head}", self.title), wait);
            }
            Event::Second { time_s, senders, sums } => {
                let line = second_line(*time_s, *senders, sums);
                if live {
                    keep(&mut self.seconds, line, SECONDS);
                    let page = self.page();
                    self.output.write(&page, wait);
                } else {
                    self.output.write(&(line + "\n"), wait);
                }
            }
            // Elsewhere the worst are listed at the end.
            Event::Burst(burst) => keep(&mut self.bursts, burst_line(burst), BURSTS),
            Event::Summary { report, unread_bins, untold_segments, cost } => {
                let text = summary(report, *unread_bins, *untold_segments, *cost);
                self.output.write(&text, wait);
            }
        }
    }

    /// The page of a terminal, from its top left corner.
    fn page(&self) -> String {
        let mut page = format!("\x1b[H\x1b[J{}\n{SECOND_HEAD}\n", self.title);
        self.seconds.iter().for_each(|line| page += &format!("{line}\n"));
        page += &format!("\n{BURST_HEAD}\n");
        self.bursts.iter().for_each(|line| page += &format!("{line}\n"));
        page + "\nCtrl-C ends with a summary.\n"
    }
}

fn summary(report: &Report, unread_bins: u64, untold_segments: u64, cost: Option<Cost>) -> String {
    let Report { seconds, sums, bursts, lossy_bursts, .. } = report;
    let mut text = format!(
        "\n{seconds:.1} s: {:.1} Mb/s, {bursts} bursts, {lossy_bursts} of them with loss; at most {} senders and {:.1} Mb/s within a \
         bin\n",
        sums.bytes as f64 * 8.0 / 1e6 / seconds.max(1e-9),
        sums.peak_senders,
        sums.peak_mbps
    );
    let mut line = |what: String| writeln!(text, "{what}").expect("text takes text");
    line(format!(
        "{} bytes lost and sent again, {} bytes overtaken on their way, {} frames marked CE, {} stalls as by a timeout",
        sums.retransmitted_bytes, sums.out_of_order_bytes, sums.marked, sums.stalls
    ));
    if !report.worst.is_empty() {
        line(format!("\nthe worst bursts:\n{BURST_HEAD}"));
        report.worst.iter().for_each(|burst| line(burst_line(burst)));
    }
    if !report.peers.is_empty() {
        line("\n  sender                                   connections        bytes     lost B  stalls".into());
        for peer in &report.peers {
            let address = peer.address.to_string();
            line(format!(
                "  {address:<39}  {:>11}  {:>11}  {:>9}  {:>6}",
                peer.connections, peer.bytes, peer.retransmitted_bytes, peer.stalls
            ));
        }
    }
    for service in &report.services {
        let whose = if service.remote { "the senders' port" } else { "the receiver's port" };
        line(format!("  {whose} {}: {} connections, {} bytes", service.port, service.connections, service.bytes));
    }
    if unread_bins > 0 {
        line(format!("\n{unread_bins} bins were not read in time: this process got no CPU"));
    }
    if untold_segments > 0 {
        line(format!("\n{untold_segments} segments were of connections beyond those that are told apart"));
    }
    if let Some(Cost { daemon_cpu_percent, program_ns_per_packet, program_cpu_percent }) = cost {
        let mut told = format!("\nthe watch took {daemon_cpu_percent:.2} % of one processor");
        if let (Some(nanos), Some(percent)) = (program_ns_per_packet, program_cpu_percent) {
            told += &format!(", its program in the kernel {percent:.2} % ({nanos:.0} ns per packet)");
        }
        line(told);
    }
    line(format!("\n{}.", report.advice));
    text
}
