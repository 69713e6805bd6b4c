//! `ackgate generate`: man pages and shell completions, made from the same text as `--help`. For whoever makes packages.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

/// Arguments of `ackgate generate`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Folder to write `man/` and `completions/` into.
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let folder = |name: &str| {
        let path = arguments.folder.join(name);
        fs::create_dir_all(&path).with_context(|| format!("could not make {}", path.display()))?;
        Ok::<_, anyhow::Error>(path)
    };
    let mut command = crate::Cli::command().disable_help_subcommand(true);
    command.build();
    pages(&command, &folder("man")?)?;
    let completions = folder("completions")?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut crate::Cli::command(), "ackgate", &completions)
            .with_context(|| format!("could not write completions for {shell}"))?;
    }
    Ok(())
}

/// A page for a command and for each below it: `ackgate-config-check.8`.
fn pages(command: &clap::Command, folder: &Path) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let path = folder.join(format!("{name}.8"));
    let page = Man::new(command.clone()).title(name.to_uppercase()).section("8").manual("ackgate");
    let written = File::create(&path).and_then(|mut file| page.render(&mut file));
    written.with_context(|| format!("could not write {}", path.display()))?;
    command.get_subcommands().filter(|below| !below.is_hide_set()).try_for_each(|below| pages(below, folder))
}
