//! `ackgate doctor`: what this host supports, which back-ends would be used, what is missing and how to get it.

use ackgate_linux::doctor::{Finding, Report, examine};
use clap::Args;

use crate::exit::Refused;
use crate::table::print_json;

/// Arguments of `ackgate doctor`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Also check this interface.
    #[arg(long, value_name = "INTERFACE")]
    dev: Option<String>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Probes this host; exits with code 2 when it cannot guard.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let report = examine(arguments.dev.as_deref());
    if arguments.json {
        print_json(&report)?;
    } else {
        print(&report);
    }
    if report.able {
        return Ok(());
    }
    let what = match &arguments.dev {
        Some(device) => format!("`{device}` cannot be guarded; see what is missing above"),
        None => "nothing can be guarded here; see what is missing above".into(),
    };
    Err(Refused(anyhow::anyhow!(what)).into())
}

fn print(report: &Report) {
    println!("Linux {}; BPF programs compiled by {}", report.kernel, report.compiler);
    for check in &report.checks {
        let mark = match check.finding {
            Finding::Ok => "ok",
            Finding::Note => "note",
            Finding::Missing => "MISSING",
            Finding::Failed => "FAILED",
        };
        // A detail of several lines stays in its column.
        let detail = check.detail.replace('\n', &format!("\n{:28}", ""));
        println!("  {mark:<8}{:<20}{detail}", check.name);
    }
    if let (Some(attach), Some(hold)) = (report.attach, report.hold) {
        println!("`ackgate run` would attach by {attach} and hold by {hold}.");
    }
}
