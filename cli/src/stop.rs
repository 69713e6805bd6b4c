//! Ctrl-C and SIGTERM, as a flag that loops look at or as a descriptor that they wait for.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

/// A flag that the first SIGINT or SIGTERM sets; a second one ends the process at once.
pub(crate) fn on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .context("installing a signal handler")?;
    }
    Ok(stop)
}

/// A descriptor that SIGINT and SIGTERM make readable.
pub(crate) fn descriptor() -> anyhow::Result<UnixStream> {
    let install = || {
        let (reader, writer) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok::<_, std::io::Error>(reader)
    };
    install().context("installing a signal handler")
}
