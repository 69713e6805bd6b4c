//! `ackgate lab reproduce`: the papers' figures on this machine's kernel, the simulator beside it, judged.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use ackgate_lab::machine::Machine;
use ackgate_lab::reproduce::{ReproduceConfig, Reproduced, Step, reproduce};
use ackgate_lab::testbed;
use ackgate_papers::kernel::Plan;
use ackgate_papers::kernel::outcome::{Outcome, Witness};
use ackgate_papers::kernel::report::{self, Circumstances};
use ackgate_papers::run::write;
use anyhow::anyhow;
use clap::Args;

use crate::exit::Refused;
use crate::table::{print, print_json};
use crate::units::parse_rate;

/// Its arguments.
#[derive(Args)]
pub(crate) struct Reproduce {
    /// Experiments such as PAC-F7, or headline claims such as PAC-H9; --list shows them. Default: all.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Fewer points and rounds: under three minutes. Skips HWatch's testbed unless it is named.
    #[arg(long)]
    quick: bool,
    /// Rate of the bottleneck. All times of the experiment are scaled by the ratio of the paper's rate to this rate.
    #[arg(long, value_name = "RATE", default_value = "200mbit", value_parser = parse_rate)]
    rate: u64,
    /// Do not run the simulator for comparison.
    #[arg(long)]
    no_simulator: bool,
    /// Folder for kernel.md and kernel.json. After Ctrl-C they contain the experiments completed so far.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only list the experiments.
    #[arg(long)]
    list: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
    /// Another program than this one to guard with; it is called as `ackgate run` is.
    #[arg(long, value_name = "PROGRAM", hide = true)]
    guard_program: Option<PathBuf>,
}

/// Runs and prints it.
pub(super) fn run(args: &Reproduce) -> anyhow::Result<()> {
    let plan = Plan::all()?.named(&args.ids).map_err(|problem| Refused(anyhow!(problem)))?;
    if args.list {
        return list(&plan);
    }
    testbed::require_privilege()?;
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out).map_err(|error| Refused(anyhow!("--out {}: {error}", out.display())))?;
    }
    let stop = crate::stop::on_signals()?;
    let config = ReproduceConfig {
        quick: args.quick,
        rate: args.rate,
        simulate: !args.no_simulator,
        program: args.guard_program.clone(),
    };
    let begin = Instant::now();
    let Reproduced { outcome, others, stolen, stopped } = reproduce(plan, &config, &stop, tell)?;
    let machine = Machine::this();
    let how = Circumstances {
        command: args.command(),
        quick: args.quick,
        rate_mbps: args.rate as f64 / 1e6,
        machine: format!("Linux {}, {} processors", machine.kernel, machine.cpus),
        others,
        stolen,
        seconds: begin.elapsed().as_secs_f64(),
        stopped: stopped.is_some(),
    };
    conclude(args, &outcome, &how)?;
    // What was done by then is told all the same.
    stopped.map_or(Ok(()), |error| Err(error.into()))
}

impl Reproduce {
    /// The command that makes the same again.
    fn command(&self) -> String {
        let mut words = vec!["ackgate lab reproduce".to_owned()];
        words.extend(self.ids.iter().cloned());
        words.extend(self.quick.then(|| "--quick".to_owned()));
        words.extend((self.rate != 200_000_000).then(|| format!("--rate {}bit", self.rate)));
        words.extend(self.no_simulator.then(|| "--no-simulator".to_owned()));
        words.push("--out DIR".into());
        words.join(" ")
    }
}

/// What is being done, in a line.
fn tell(step: Step<'_>) {
    match step {
        Step::Point(witness, experiment, point) => {
            let witness = if witness == Witness::Kernel { "kernel" } else { "simulator" };
            eprintln!("{experiment}: {} at {}, {witness}", point.curve, point.x);
        }
        Step::Vain(point, reason) => eprintln!("{} at {}: {reason}", point.curve, point.x),
    }
}

fn conclude(args: &Reproduce, outcome: &Outcome, how: &Circumstances) -> anyhow::Result<()> {
    let object = report::json(outcome, how);
    let page = args.out.as_deref().unwrap_or(Path::new("."));
    if args.out.is_some() {
        write(&page.join("kernel.md"), &report::markdown(outcome, how))?;
        write(&page.join("kernel.json"), &object.to_string())?;
    }
    if args.json {
        return print_json(&object);
    }
    print(&report::tables(outcome))?;
    print(&report::board(outcome))?;
    if args.out.is_some() {
        writeln!(io::stdout(), "{}", page.join("kernel.md").display())?;
    }
    Ok(())
}

fn list(plan: &Plan) -> anyhow::Result<()> {
    let head = ["experiment", "headlines", "what it shows"].map(str::to_owned);
    let rows: Vec<Vec<String>> =
        plan.experiments.iter().map(|one| vec![one.names_told(), one.headlines.join(" "), one.title.clone()]).collect();
    print(&ackgate_sim::output::table::table(&head, &rows))
}
