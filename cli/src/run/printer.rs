//! What is told of guards, as lines for people or as JSON.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ackgate_linux::{Notice, Snapshot, Summary};
use serde::Serialize;

use super::attend::Told;
use super::per_second;
use super::publish::Identity;
use super::screen::Screen;
use crate::output::{self, Wait};

/// A line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    /// Seconds since 1970, UTC, to the millisecond.
    time: f64,
    device: &'a str,
    #[serde(flatten)]
    event: Event<'a>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event<'a> {
    /// The device is guarded from now on.
    Ready { guard: &'a str, buffer: u64, rate_mbps: Option<u64>, hold: &'a str, observe: bool },
    /// It is not guarded yet, or not any more.
    Waiting { text: &'a str },
    /// Its guard goes by other settings from now on.
    Changed { text: &'a str },
    /// It goes by the settings that it had.
    Kept { text: &'a str },
    /// How things stand; counters count from the start.
    Sample(&'a Snapshot),
    /// Something is out of order; the text says what, and what to do.
    Notice {
        #[serde(flatten)]
        notice: &'a Notice,
        text: String,
    },
    /// The guard is off.
    Summary(&'a Summary),
}

/// Which samples are printed. They come once a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Samples {
    None,
    All,
    /// One in this time, of each device.
    Every(Duration),
}

/// Where it is printed.
pub(super) struct Printer {
    screen: Screen,
    samples: Samples,
    /// Several devices: each line says whose it is.
    named: bool,
    /// What was printed last of each device.
    last: BTreeMap<String, Last>,
}

#[derive(Default)]
struct Last {
    observe: bool,
    sample: Option<(Instant, Snapshot)>,
    printed: Option<Instant>,
    waiting: Option<String>,
}

impl Printer {
    /// For one device.
    pub(super) fn new(json: bool, samples: Samples) -> Self {
        Self { screen: Screen::new(json), samples, named: false, last: BTreeMap::new() }
    }

    /// For several.
    pub(super) fn of_many(json: bool, samples: Samples) -> Self {
        Self { named: true, ..Self::new(json, samples) }
    }

    /// Other samples from now on.
    pub(super) fn set_samples(&mut self, samples: Samples) {
        self.samples = samples;
    }

    /// Prints what is told of a device.
    pub(super) fn print(&mut self, device: &str, told: &Told) {
        let last = self.last.entry(device.to_owned()).or_default();
        if let Told::Ready { identity, .. } = told {
            *last = Last { observe: identity.observe, ..Last::default() };
        }
        if let Told::Waiting(text) = told
            && last.waiting.replace(text.clone()).as_ref() == Some(text)
        {
            // It is told again and again.
            return;
        }
        if matches!(told, Told::Sample(_)) {
            let now = Instant::now();
            // Half a second: samples come late and early.
            let due = |every: Duration| {
                last.printed.is_none_or(|printed| now - printed + Duration::from_millis(500) >= every)
            };
            match self.samples {
                Samples::None => return,
                Samples::Every(every) if !due(every) => return,
                Samples::All | Samples::Every(_) => last.printed = Some(now),
            }
        }
        if self.screen.json() {
            if let Told::Waiting(text) | Told::Kept(text) = told {
                // Whoever looks after the process reads its standard error.
                output::say(&format!("{}{text}", self.prefix(device)));
            }
            self.event(device, told);
        } else {
            self.text(device, told);
        }
    }

    fn event(&mut self, device: &str, told: &Told) {
        let event = match told {
            Told::Ready { identity, .. } => {
                let Identity { guard, buffer, rate_mbps, hold, observe, .. } = identity;
                Event::Ready { guard, buffer: *buffer, rate_mbps: *rate_mbps, hold, observe: *observe }
            }
            Told::Waiting(text) => Event::Waiting { text },
            Told::Changed(text) => Event::Changed { text },
            Told::Kept(text) => Event::Kept { text },
            Told::Sample(snapshot) => Event::Sample(snapshot),
            Told::Notice(notice) => Event::Notice { notice, text: notice.to_string() },
            Told::Summary(summary) => Event::Summary(summary),
            Told::Refused(_) => return,
        };
        let wait = if matches!(told, Told::Summary(_)) { Wait::Briefly } else { Wait::Never };
        self.screen.event(&Line { time: unix_time(), device, event }, wait);
    }

    fn text(&mut self, device: &str, told: &Told) {
        let prefix = self.prefix(device);
        match told {
            Told::Ready { identity, text } => {
                let line = match identity.observe {
                    true => format!("observing {text}; nothing is held or changed; Ctrl-C stops"),
                    false => format!("guarding {text}, hold back-end {}; Ctrl-C stops", identity.hold),
                };
                self.screen.line(&line, Wait::Never);
            }
            Told::Changed(text) => self.screen.line(&format!("{prefix}guarding on, {text}"), Wait::Never),
            Told::Sample(snapshot) => {
                let line = self.sample(device, snapshot);
                if self.named {
                    self.screen.line(&format!("{prefix}{line}"), Wait::Never);
                } else {
                    self.screen.live(&line);
                }
            }
            Told::Waiting(text) | Told::Kept(text) => self.say(&format!("{prefix}{text}")),
            Told::Notice(notice) => self.say(&format!("{prefix}{notice}")),
            Told::Summary(summary) => self.screen.line(&ending(device, summary), Wait::Briefly),
            Told::Refused(_) => {}
        }
    }

    /// What says whose a line is, where that has to be said.
    fn prefix(&self, device: &str) -> String {
        if self.named { format!("{device}: ") } else { String::new() }
    }

    fn say(&mut self, text: &str) {
        self.screen.end_live();
        output::say(text);
    }

    fn sample(&mut self, device: &str, now: &Snapshot) -> String {
        let last = self.last.entry(device.to_owned()).or_default();
        let before = last.sample.replace((Instant::now(), *now));
        if last.observe {
            let Snapshot { senders, arrivals, lost_segments, would_hold, .. } = now;
            return format!(
                "{senders:>5} senders  {arrivals:>9} arrived  {lost_segments:>7} lost  {would_hold:>9} would have been held"
            );
        }
        if now.dormant > 0 {
            return "dormant: no segments were lost lately (--follow after-loss)".to_owned();
        }
        let rate = before
            .map_or(0, |(since, before)| per_second(now.released.saturating_sub(before.released), since.elapsed()));
        format!(
            "{:>5} senders  {:>9} of {} bytes in flight  {:>5} held  {rate:>7} released/s",
            now.senders, now.in_flight, now.threshold, now.held
        )
    }

    /// Ends it.
    ///
    /// # Errors
    /// When lines were lost.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        self.screen.finish()
    }
}

#[expect(clippy::disallowed_methods, reason = "people and their machines want to know when it was")]
fn unix_time() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() as f64 + f64::from(since.subsec_millis()) / 1000.0
}

/// The last words of a guard.
fn ending(device: &str, summary: &Summary) -> String {
    if let Some(observed) = &summary.observed {
        return format!("{device}: {}.", observed.advice);
    }
    let Summary { released, forced, passed, held_max, hold_us, .. } = summary;
    let mut text = format!(
        "{device} is no longer guarded. {passed} segments passed without being held, {released} were held (at most \
         {held_max} at once);\nhold time: median {} us, 99th percentile {} us; {forced} were released because --max-hold expired.",
        hold_us.p50, hold_us.p99
    );
    let programs = [("ingress", summary.bpf_ingress), ("egress", summary.bpf_egress)];
    for (name, cost) in programs.iter().filter_map(|(name, cost)| cost.map(|cost| (name, cost))) {
        text += &format!("\nThe {name} program took {} ns per packet.", cost.ns_per_packet);
    }
    text
}
