//! Tells the program which commit it is built from; nothing where there is no repository.

use std::process::Command;

fn main() {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // Moves with each commit and checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).map_or_else(String::new, |commit| format!("+{commit}"));
    println!("cargo:rustc-env=ACKGATE_BUILD={}{commit}", env!("CARGO_PKG_VERSION"));
}
