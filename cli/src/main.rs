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
    /// Guards one interface, or all interfaces named in a file, until Ctrl-C; then restores them. Needs root.
    Run(run::Arguments),
    /// Checks the configuration file of the service.
    #[command(subcommand)]
    Config(config::Command),
    /// Shows every statistic and notice of this host's guards.
    Status(status::Arguments),
    /// Shows a live overview of this host's guards.
    Top(top::Arguments),
    /// Monitors an interface, or reads a capture, for incast, and says whether a guard would help. Passive.
    Watch(watch::Arguments),
    /// Checks what this host supports, which back-ends would be used, and what is missing.
    Doctor(doctor::Arguments),
    /// Generates TCP load as in the papers: many senders, one receiver, synchronised rounds.
    #[command(subcommand)]
    Load(load::Command),
    /// A testbed in network namespaces: senders, a shallow-buffered switch, a receiver. Needs root.
    #[command(subcommand)]
    Lab(lab::Command),
    /// Lowers, shows or restores this host's minimum retransmission timeout.
    #[command(subcommand)]
    Rto(rto::Command),
    /// Runs M21TCP-A's switch on a forwarding host: counts the flows through each port and writes the number into their packets. Needs root.
    Switch(switch::Arguments),
    /// Runs M21TCP-A's sender and receiver for this host's own connections. Needs root.
    Host(host::Arguments),
    /// Simulates scenarios and parameter sweeps.
    #[command(subcommand)]
    Sim(sim::Command),
    /// Runs the papers' experiments and compares the results with their claims: figures, CSV and a report page.
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
