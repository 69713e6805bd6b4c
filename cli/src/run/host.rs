//! `ackgate run` with a scheme on the generic host.

use std::os::fd::AsFd;
use std::time::Duration;

use ackgate_control::units::Span;
use ackgate_linux::host::{Options, Snapshot, Summary};
use ackgate_linux::{Host, Outcome, privilege};
use anyhow::Context;
use serde::Serialize;

use super::scheme::{self, Scheme};
use super::screen::Screen;
use super::settings::HoldChoice;
use super::{Arguments, Place, per_second, refuse, service};
use crate::output::Wait;
use crate::stop;

/// A line of `--json`.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event<'a> {
    /// The scheme runs from now on.
    Ready { device: &'a str, guard: &'a str, rate_mbps: Option<u64> },
    /// How things stand; counters count from the start.
    Sample(Snapshot),
    /// The scheme is off.
    Summary(&'a Summary),
}

/// Runs a scheme until SIGINT, SIGTERM or SIGHUP.
pub(super) fn run(arguments: &Arguments, place: &Place, scheme: Scheme) -> anyhow::Result<()> {
    check(arguments)?;
    let settings = &arguments.settings;
    let stop = stop::of_a_guard()?;
    let policy = scheme::policy(scheme, settings, place)?;
    let options = Options {
        device: place.device.clone(),
        max_hold: scheme::max_hold(settings),
        attach: settings.attach.choice(),
    };
    let mut host = Host::start(&options, policy)?;
    privilege::keep_needed(false).context("could not drop capabilities")?;
    let mut screen = Screen::new(arguments.json);
    let guard = settings.guard_name();
    if arguments.json {
        let Place { device, rate_mbps, .. } = place;
        screen.event(&Event::Ready { device, guard: &guard, rate_mbps: *rate_mbps }, Wait::Never);
    } else {
        screen.line(&format!("{guard} on {} in user space; Ctrl-C stops", place.device), Wait::Never);
    }
    service::ready(&format!("{guard} on {}", place.device));
    const SECOND: Duration = Duration::from_secs(1);
    let (mut next, mut last) = (ackgate_linux::now(), Snapshot::default());
    loop {
        next += Span::secs(1);
        match host.run(next.max(ackgate_linux::now()), stop.as_fd())? {
            Outcome::Deadline if arguments.json => screen.event(&Event::Sample(host.snapshot()), Wait::Never),
            Outcome::Deadline => {
                let now = host.snapshot();
                screen.live(&format!(
                    "{:>5} connections  {:>7} segments/s in  {:>7} out  {:>7} changed  {:>5} held",
                    now.connections,
                    per_second(now.arrivals - last.arrivals, SECOND),
                    per_second(now.passed + now.released - last.passed - last.released, SECOND),
                    per_second(now.edited - last.edited, SECOND),
                    now.held
                ));
                last = now;
            }
            Outcome::Stopped => break,
        }
        service::alive();
    }
    service::stopping();
    let summary = host.stop();
    if arguments.json {
        screen.event(&Event::Summary(&summary), Wait::Briefly);
        return screen.finish();
    }
    let Summary { passed, released, held_max, hold_us, edited, .. } = summary;
    let told = format!(
        "{} is no longer guarded. {passed} segments passed without being held, {released} were held (at most {held_max} at once, \
         median {} us), {edited} were changed.",
        place.device, hold_us.p50
    );
    screen.line(&told, Wait::Briefly);
    screen.finish()
}

/// Refuses options of the fast path, which would be without effect here.
fn check(arguments: &Arguments) -> anyhow::Result<()> {
    let settings = &arguments.settings;
    let given = [
        ("--batch", settings.batch.is_some()),
        ("--every-ack", settings.every_ack),
        ("--hold", settings.hold != HoldChoice::Auto),
        ("--bpf-stats", settings.bpf_stats),
        ("--wait", arguments.wait),
        ("--follow", settings.follow.is_some()),
        ("--observe", settings.observe),
        ("--step-aside", settings.step_aside.is_some()),
        ("--exclude", !settings.exclude.is_empty()),
        ("--include", !settings.include.is_empty()),
        ("--metrics", arguments.metrics.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(refuse(format!("{option} is for pac and credit, not for {}", settings.guard_name()))),
        None => Ok(()),
    }
}
