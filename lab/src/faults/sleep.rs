//! Suspending the whole host to memory, with its real-time clock's alarm to wake it.

use std::fs;
use std::io::{self, ErrorKind};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

const ALARM: &str = "/sys/class/rtc/rtc0/wakealarm";
const STATE: &str = "/sys/power/state";

/// Suspends this host, with an alarm that goes off so long from now (in whole seconds); says how long it slept.
///
/// # Errors
/// When this process may not, or the host cannot sleep or has nothing to wake it.
pub(super) fn suspend(alarm: Duration) -> io::Result<Duration> {
    if !fs::read_to_string(STATE)?.split_whitespace().any(|state| state == "mem") {
        return Err(io::Error::new(ErrorKind::Unsupported, "this host cannot be suspended to RAM"));
    }
    let before = asleep()?;
    // An alarm that is set already is in the way of another.
    fs::write(ALARM, "0")?;
    fs::write(ALARM, format!("+{}", alarm.as_secs()))?;
    let suspended = fs::write(STATE, "mem");
    fs::write(ALARM, "0")?;
    suspended?;
    Ok(asleep()?.saturating_sub(before))
}

/// How long this host has been suspended since it booted: what its clock of time since then has and the monotonic one has not.
fn asleep() -> io::Result<Duration> {
    let of = |clock| clock_gettime(clock).map(Duration::from);
    let monotonic = of(ClockId::CLOCK_MONOTONIC)?;
    Ok(of(ClockId::CLOCK_BOOTTIME)?.saturating_sub(monotonic))
}
