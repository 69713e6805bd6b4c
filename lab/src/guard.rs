//! What a scheme needs as children of the lab: `ackgate run` at the receiver, at the senders or at both, or M21TCP-A's switch and
//! hosts. Started, waited for until they are ready, ended as a service manager would, their summaries read.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::testbed::{BOTTLENECK, Namespace, RECEIVER_DEVICE, SENDER_DEVICE, Spec, Testbed};

/// How long the guard may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(15);

/// Why there is no guard.
#[derive(Debug, Error)]
pub enum GuardError {
    /// It does not start.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// What was run.
        program: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// It ended, or stayed silent, instead of guarding.
    #[error("`{command}` failed to start: {message}")]
    NotReady {
        /// What was run.
        command: String,
        /// What it printed.
        message: String,
    },
    /// It did not end as it should.
    #[error("the guard did not stop cleanly: {0}")]
    End(String),
}

/// How to guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardConfig {
    /// The program; `None` is this very executable.
    pub program: Option<PathBuf>,
    /// Policy, as `ackgate run --guard` takes it.
    pub policy: String,
    /// Longest hold; `None` keeps the guard's default.
    pub max_hold: Option<Duration>,
    /// Further arguments, handed on as they are.
    pub extra: Vec<String>,
}

/// Where a part of a guard runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// At the receiver, and at the host beside it where there is one.
    Receiver,
    /// At every sender host.
    Senders,
    /// At the switch (M21TCP-A counts there).
    Switch,
    /// One process for the TCP of all hosts (M21TCP-A).
    Hosts,
}

impl Place {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receiver => "receiver",
            Self::Senders => "senders",
            Self::Switch => "switch",
            Self::Hosts => "hosts",
        }
    }
}

impl GuardConfig {
    /// Where the policy runs, in the order in which its parts are started.
    #[must_use]
    pub fn places(&self) -> &'static [Place] {
        match self.policy.as_str() {
            "hwatch" => &[Place::Receiver, Place::Senders],
            "rto" => &[Place::Senders],
            "m21" => &[Place::Switch, Place::Hosts],
            _ => &[Place::Receiver],
        }
    }

    /// A testbed as the policy wants it: HWatch's port marks, if it has a queue and nothing else was said. The hosts do not negotiate
    /// ECN; it is HWatch that makes their frames ECN-capable.
    #[must_use]
    pub fn fit(&self, spec: Spec) -> Spec {
        let marks = self.policy == "hwatch" && spec.limited;
        Spec { mark: spec.mark.or_else(|| marks.then(|| spec.usual_mark())), ..spec }
    }

    /// Arguments of `ackgate run` on a device.
    fn run(&self, device: &str, spec: &Spec) -> Vec<String> {
        let mut arguments = ["run", "--json", "--dev", device, "--guard", &self.policy].map(str::to_owned).to_vec();
        arguments.extend([
            "--buffer".into(),
            spec.told.unwrap_or(spec.buffer).to_string(),
            "--rate".into(),
            format!("{}bit", spec.rate),
        ]);
        if let Some(hold) = self.max_hold {
            arguments.extend(["--max-hold".into(), format!("{}us", hold.as_micros())]);
        }
        arguments.extend(self.extra.iter().cloned());
        arguments
    }

    /// The same as a file of settings for `ackgate run --config`, with a sample each second. Of what is given twice, the last counts.
    fn settings(&self, device: &str, spec: &Spec) -> String {
        let arguments = self.run(device, spec);
        // The options come in pairs after the device's.
        let options = arguments[4..].chunks_exact(2);
        let keys: BTreeMap<&str, &str> =
            options.map(|option| (option[0].trim_start_matches('-'), option[1].as_str())).collect();
        let keys: String = keys.iter().map(|(key, value)| format!("{key} = {value:?}\n")).collect();
        format!("[[device]]\nname = {device:?}\n{keys}[status]\nsamples = \"1s\"\n")
    }

    /// Writes the file of settings for the receiver of a testbed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write_settings(&self, spec: &Spec, file: &Path) -> io::Result<()> {
        fs::write(file, self.settings(RECEIVER_DEVICE, spec))
    }

    /// Arguments of `ackgate host` for the hosts of a testbed.
    fn hosts(&self, testbed: &Testbed) -> Vec<String> {
        let spec = testbed.spec();
        let mut arguments = ["host", "--json", "--m21"].map(str::to_owned).to_vec();
        arguments.extend(["--buffer".into(), spec.buffer.to_string(), "--rate".into(), format!("{}bit", spec.rate)]);
        let receivers = std::iter::once(testbed.receiver()).chain(testbed.beside());
        let hosts = receivers.chain((0..spec.hosts).map(|k| testbed.sender(k)));
        arguments.extend(hosts.flat_map(|host| ["--netns".into(), host.name().to_owned()]));
        arguments.extend(self.extra.iter().cloned());
        arguments
    }
}

/// A scheme at work. Dropping it kills it.
#[derive(Debug)]
pub struct Guard {
    processes: Vec<(Place, Process)>,
}

impl Guard {
    /// Starts what the policy needs, where it needs it, and waits until all of it is ready.
    ///
    /// # Errors
    /// When something does not start or does not become ready in time.
    pub fn start(testbed: &Testbed, config: &GuardConfig) -> Result<Self, GuardError> {
        Self::start_at(testbed, config, config.places())
    }

    /// Starts these parts of it.
    ///
    /// # Errors
    /// As [`Guard::start`].
    pub(crate) fn start_at(testbed: &Testbed, config: &GuardConfig, places: &[Place]) -> Result<Self, GuardError> {
        let spec = testbed.spec();
        let mut guard = Self { processes: Vec::new() };
        for &place in places {
            let at_device = |device| move |host| (host, config.run(device, spec));
            let parts: Vec<(Namespace, Vec<String>)> = match place {
                Place::Receiver => {
                    let hosts = std::iter::once(testbed.receiver()).chain(testbed.beside());
                    hosts.map(at_device(RECEIVER_DEVICE)).collect()
                }
                Place::Senders => (0..spec.hosts).map(|k| testbed.sender(k)).map(at_device(SENDER_DEVICE)).collect(),
                Place::Switch => {
                    let count = ["switch", "--json", "--dev", BOTTLENECK].map(str::to_owned);
                    vec![(testbed.switch(), count.to_vec())]
                }
                Place::Hosts => vec![(testbed.receiver(), config.hosts(testbed))],
            };
            for (host, arguments) in parts {
                guard.processes.push((place, Process::start(&host, config.program.as_ref(), &arguments)?));
            }
        }
        Ok(guard)
    }

    /// Starts a guard at the receiver by the settings of a file, as the service does.
    ///
    /// # Errors
    /// As [`Guard::start`].
    pub(crate) fn start_by_file(testbed: &Testbed, program: Option<&PathBuf>, file: &Path) -> Result<Self, GuardError> {
        let arguments =
            ["run", "--json", "--config"].map(str::to_owned).into_iter().chain([file.display().to_string()]);
        let process = Process::start(&testbed.receiver(), program, &arguments.collect::<Vec<_>>())?;
        Ok(Self { processes: vec![(Place::Receiver, process)] })
    }

    /// The next line of that event of the first of them; `None` when it does not come in time.
    pub(crate) fn event(&mut self, event: &str) -> Option<Value> {
        self.processes.first_mut()?.1.wait_for(event)
    }

    /// How things stand at the first of them, as it tells within the next second; `None` when it does not.
    pub(crate) fn sample(&mut self) -> Option<Value> {
        self.processes.first_mut()?.1.sample()
    }

    /// Waits until each of them has told a sample in which that number, by its JSON pointer, is above zero; where one is that does not.
    pub(crate) fn idle_part(&mut self, number: impl Fn(Place) -> &'static str) -> Option<Place> {
        let mut parts = self.processes.iter_mut();
        parts.find_map(|(place, process)| (!process.counts(number(*place))).then_some(*place))
    }

    /// Process id of the first of them: at the receiver, where there is one there.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.processes.first().map_or(0, |(_, process)| process.child.id())
    }

    /// Sends all of them a signal.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), GuardError> {
        self.processes.iter().try_for_each(|(_, process)| process.signal(signal))
    }

    /// Waits until all of them have ended; how the first of them did, `None` when they have not by then.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<ExitStatus>, GuardError> {
        let until = Instant::now() + patience;
        let mut first = None;
        for (_, process) in &mut self.processes {
            let status = loop {
                match process.child.try_wait().map_err(|e| GuardError::End(e.to_string()))? {
                    None if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                    ended => break ended,
                }
            };
            let Some(status) = status else { return Ok(None) };
            first.get_or_insert(status);
        }
        Ok(first)
    }

    /// Ends it as a service manager would and returns the receiver's summary; those of the switch and the hosts, or of all senders, where there
    /// is none.
    ///
    /// # Errors
    /// When a process has ended by itself, gives no summary, or does not exit with 0.
    pub fn stop(self) -> Result<Value, GuardError> {
        let mut told: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for (place, process) in self.processes {
            told.entry(place.name()).or_default().push(process.stop()?);
        }
        if let Some(receiver) = told.remove(Place::Receiver.name()).and_then(|all| all.into_iter().next()) {
            return Ok(receiver);
        }
        let one_or_all = |(name, mut all): (&str, Vec<Value>)| {
            let single = name != Place::Senders.name();
            (name.to_owned(), if single && all.len() == 1 { all.remove(0) } else { all.into() })
        };
        Ok(Value::Object(told.into_iter().map(one_or_all).collect()))
    }
}

/// `ackgate` with some command. Dropping it kills it.
#[derive(Debug)]
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(place: &Namespace, program: Option<&PathBuf>, arguments: &[String]) -> Result<Self, GuardError> {
        let start = |program: String| move |source| GuardError::Start { program, source };
        let program = match program {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(start("ackgate".into()))?,
        };
        let shown = program.display().to_string();
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = place.inside(|| command.spawn()).and_then(|spawned| spawned).map_err(start(shown.clone()))?;
        let (sender, lines) = channel();
        if let Some(stdout) = child.stdout.take() {
            // The thread ends with the guard's standard output.
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let mut guard = Self { child, lines };
        match guard.wait_for("ready") {
            Some(_) => Ok(guard),
            None => {
                // What comes after is the same for all.
                let command = format!("{shown} {}", arguments[..arguments.len().min(4)].join(" "));
                Err(GuardError::NotReady { command, message: guard.last_words() })
            }
        }
    }

    fn stop(mut self) -> Result<Value, GuardError> {
        let end = |e: &dyn std::fmt::Display| GuardError::End(e.to_string());
        if let Some(status) = self.child.try_wait().map_err(|e| end(&e))? {
            return Err(GuardError::End(format!("it had ended before ({status}): {}", self.last_words())));
        }
        // Not SIGINT: what a shell runs in the background ignores that, and so does what it starts.
        self.signal(Signal::SIGTERM)?;
        let summary = self.wait_for("summary");
        let until = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().map_err(|e| end(&e))? {
                Some(status) => break status,
                None if Instant::now() > until => return Err(GuardError::End("it did not end on SIGTERM".into())),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        match summary {
            Some(summary) if status.success() => Ok(summary),
            Some(_) => Err(GuardError::End(format!("{status}: {}", self.last_words()))),
            None => Err(GuardError::End(format!("it printed no summary ({status}): {}", self.last_words()))),
        }
    }

    fn signal(&self, signal: Signal) -> Result<(), GuardError> {
        let end = |e: &dyn std::fmt::Display| GuardError::End(format!("{signal} could not be sent: {e}"));
        let pid = i32::try_from(self.child.id()).map_err(|e| end(&e))?;
        kill(Pid::from_raw(pid), signal).map_err(|e| end(&e))
    }

    /// How things stand, as it tells within the next second.
    fn sample(&mut self) -> Option<Value> {
        // What it told before is old.
        while self.lines.try_recv().is_ok() {}
        self.wait_for("sample")
    }

    /// Waits for a sample in which a number is above zero.
    fn counts(&mut self, number: &str) -> bool {
        let until = Instant::now() + PATIENCE;
        while let Some(sample) = self.wait_for("sample") {
            if sample.pointer(number).and_then(Value::as_u64) > Some(0) {
                return true;
            }
            if Instant::now() > until {
                break;
            }
        }
        false
    }

    /// The next line of that event; `None` when it does not come in time.
    fn wait_for(&mut self, event: &str) -> Option<Value> {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.checked_duration_since(Instant::now())?;
            match self.lines.recv_timeout(left) {
                Ok(line) => match serde_json::from_str::<Value>(&line) {
                    Ok(value) if value["event"] == event => return Some(value),
                    _ => {}
                },
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// What it printed on standard error, after making sure that it has ended.
    fn last_words(&mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut text = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(4096).read_to_string(&mut text);
        }
        let text = text.trim();
        if text.is_empty() { "it printed nothing".into() } else { text.replace('\n', "; ") }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After `stop` it has ended already, and both do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_settings_says_what_the_options_say() {
        let extra = ["--buffer", "64KB", "--max-held", "8"].map(str::to_owned).to_vec();
        let config = GuardConfig { program: None, policy: "credit".into(), max_hold: None, extra };
        let text = config.settings("rx0", &Spec { rate: 500_000_000, ..Spec::pac_edge() });
        let keys = "buffer = \"64KB\"\nguard = \"credit\"\nmax-held = \"8\"\nrate = \"500000000bit\"\n";
        assert_eq!(text, format!("[[device]]\nname = \"rx0\"\n{keys}[status]\nsamples = \"1s\"\n"));
    }
}
