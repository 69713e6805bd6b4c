//! `ackgate status`: how the guards of this network namespace stand.

use std::fmt::Write;

use ackgate_linux::statistics::STATISTICS;
use ackgate_linux::status::{ask, guarded};
use anyhow::Context;
use clap::Args;
use serde_json::Value;

use crate::exit::Refused;
use crate::output::{Output, Wait};

/// Arguments of `ackgate status`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Print one JSON object per guard.
    #[arg(long)]
    json: bool,
}

/// Asks every guard; exits with code 2 when there is none, or none that answers this user.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut output = Output::new();
    let mut silent = 0;
    let mut answered = 0;
    for index in guarded().context("could not list the guards of this network namespace")? {
        // A guard that ends just now, and one that does not know this user, say nothing.
        let Ok(Some(answer)) = ask(index) else {
            silent += 1;
            continue;
        };
        answered += 1;
        let text = if arguments.json { answer } else { told(&serde_json::from_str(&answer)?) };
        output.write(&text, Wait::Briefly);
    }
    output.finish()?;
    match (answered, silent) {
        (1.., _) => Ok(()),
        (0, 0) => Err(Refused(anyhow::anyhow!("no guard runs in this network namespace; start one with `ackgate run`")).into()),
        _ => Err(Refused(anyhow::anyhow!(
            "the guard does not answer. It answers only root and the user who runs it; if you are one of them, its process is stopped"
        ))
        .into()),
    }
}

/// For people.
fn told(state: &Value) -> String {
    let text = |key: &str| state[key].as_str().unwrap_or("?").to_owned();
    let rate = state["rate_mbps"].as_u64().map_or_else(|| "rate not known".into(), |rate| format!("{rate} Mb/s"));
    let what = if state["observe"] == true { "observed" } else { "guarded" };
    let mut told = format!(
        "{}: {what} by {} for {} s, {rate}, hold back-end {}\n",
        text("device"),
        text("guard"),
        state["guarding_s"],
        text("hold")
    );
    for statistic in STATISTICS {
        writeln!(told, "  {:<14} {:>12}  {}", statistic.name, state[statistic.name], statistic.help)
            .expect("text takes text");
    }
    for notice in state["notices"].as_array().into_iter().flatten() {
        writeln!(told, "  after {} s: {}", notice["at_s"], notice["text"].as_str().unwrap_or("?"))
            .expect("text takes text");
    }
    told
}
