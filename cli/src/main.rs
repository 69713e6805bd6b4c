//! The `ackgate` binary: arguments in, tables and reports out. Whatever is worth testing lives in the libraries.

mod config;
mod demo;
mod doctor;
mod engine;
mod exit;
mod generate;
mod host;
mod html;
mod lab;
mod load;
mod logs;
mod output;
mod reproduce;
mod rto;
mod run;
mod sim;
mod status;
mod stop;
mod switch;
mod table;
mod top;
mod units;
mod watch;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Version of the program and the commit that it was built from.
const BUILD: &str = env!("ACKGATE_BUILD");

/// Ends TCP incast: holds and releases ACKs at the receiver so that bursts never overflow the switch.
#[derive(Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows incast on this machine, with and without the guard, in under two minutes.
    Demo(demo::Arguments),
    /// Guards an interface, or all that a file names, until Ctrl-C, which restores them. Needs root.
    Run(run::Arguments),
    /// The file of settings of a guard that runs as a service.
    #[command(subcommand)]
    Config(config::Command),
    /// The state of this host's guards: every statistic and every notice.
    Status(status::Arguments),
    /// The guards of this host at a glance, second by second.
    Top(top::Arguments),
    /// Looks for incast at an interface or in a capture, and says whether a guard would help. Changes nothing.
    Watch(watch::Arguments),
    /// Tells what this host supports, which back-ends would be used, and how to get what is missing.
    Doctor(doctor::Arguments),
    /// Real TCP load as in the papers: many senders, one receiver, barrier-synchronised rounds.
    #[command(subcommand)]
    Load(load::Command),
    /// A testbed in network namespaces: senders, a shallow-buffered switch, a receiver. Needs root.
    #[command(subcommand)]
    Lab(lab::Command),
    /// The minimum retransmission timeout of this host: lower it, show it, restore it.
    #[command(subcommand)]
    Rto(rto::Command),
    /// M21TCP-A's switch, on a host that forwards: counts the flows through a port and tells each how many there are. Needs root.
    Switch(switch::Arguments),
    /// M21TCP-A's senders and receivers: this host's own connections. Needs root.
    Host(host::Arguments),
    /// The simulator: runs scenarios and sweeps.
    #[command(subcommand)]
    Sim(sim::Command),
    /// Runs the papers' experiments and compares their claims with what came out: figures, CSV and a report page.
    Reproduce(reproduce::Arguments),
    /// Writes man pages and shell completions, for whoever makes packages.
    #[command(hide = true)]
    Generate(generate::Arguments),
}

fn main() -> ExitCode {
    logs::start();
    let done = match Cli::parse().command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Config(command) => config::run(&command),
        Command::Status(arguments) => status::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
        Command::Watch(arguments) => watch::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Load(command) => load::run(command),
        Command::Lab(command) => lab::run(command),
        Command::Rto(command) => rto::run(&command),
        Command::Switch(arguments) => switch::run(&arguments),
        Command::Host(arguments) => host::run(&arguments),
        Command::Sim(command) => sim::run(command),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Generate(arguments) => generate::run(&arguments),
    };
    exit::code(done)
}
