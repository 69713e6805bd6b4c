//! `ackgate config`: the file of settings of `ackgate run --config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::output::{Output, Wait};
use crate::run::File;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Checks a configuration file and prints the effective settings, or the errors with their lines.
    Check(Check),
}

/// Arguments of `ackgate config check`.
#[derive(Args)]
pub(crate) struct Check {
    /// The file.
    #[arg(default_value = "/etc/ackgate/ackgate.toml")]
    file: PathBuf,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    let Command::Check(Check { file }) = command;
    let understood = File::read(file)?;
    let mut output = Output::new();
    output.write(&understood.told(), Wait::Briefly);
    output.finish()
}
