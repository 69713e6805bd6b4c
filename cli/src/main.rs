//! The `ackgate` binary: arguments in, tables and reports out. Whatever is worth testing lives in the libraries.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Ends TCP incast: holds and releases ACKs at the receiver so that bursts never overflow the switch.
#[derive(Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {}
}
