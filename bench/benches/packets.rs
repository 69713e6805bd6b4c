//! What the BPF programs take for a packet with the gate open, ns: the least of `--runs` (5), for whatever else the machine does only adds.
//!
//! `sudo cargo bench -p ackgate-bench --bench packets`; `-- credit` for one guard. The kernel times them, over frames that
//! are made for it: what it tells is the programs alone, with nothing else going on between two packets but a system call.

use std::env;

use ackgate_control::gate::{Config, Guard};
use ackgate_linux::Error;
use ackgate_linux::cost::{Cost, Traffic, measure};
use anyhow::{Context, bail};

const PACKETS: u32 = 60_000;

fn main() -> anyhow::Result<()> {
    let (mut runs, mut filter) = (5, None);
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // What cargo adds.
            "--bench" => {}
            "--runs" => runs = arguments.next().and_then(|n| n.parse().ok()).context("--runs takes a number")?,
            flag if flag.starts_with('-') => bail!("unknown option `{flag}`: there is `--runs N`, and a guard's name"),
            _ => filter = Some(argument),
        }
    }
    println!("| guard | traffic | in, ns | out, ns |\n|---|---|--:|--:|");
    for (name, guard) in [("credit", Guard::Credit), ("pac", Guard::Pac), ("pac-published", Guard::PacPublished)] {
        if filter.as_deref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let config = Config { rate_mbps: 10_000, ..Config::of(guard, 0) };
        for (label, traffic) in [
            ("one stream", Traffic::Streams(1)),
            ("100 streams", Traffic::Streams(100)),
            ("10 000 streams", Traffic::Streams(10_000)),
            ("short connections", Traffic::Short(10_000)),
        ] {
            let costs: Vec<Cost> = match (0..runs).map(|_| measure(&config, traffic, PACKETS)).collect() {
                Err(error @ (Error::NotPermitted(_) | Error::Unsupported { .. })) => {
                    eprintln!("skipped: {error}");
                    return Ok(());
                }
                costs => costs?,
            };
            let [arrives, leaves] = [|cost: &Cost| cost.ingress_ns, |cost: &Cost| cost.egress_ns]
                .map(|of| costs.iter().map(of).fold(f64::INFINITY, f64::min));
            println!("| `{name}` | {label} | {arrives:.0} | {leaves:.0} |");
        }
    }
    Ok(())
}
