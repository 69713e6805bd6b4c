//! What a scheme needs as children of the lab: `ackgate run` at the receiver, at the senders or at both, or M21TCP-A's switch and
//! hosts. Started, waited for until they are ready, ended as Ctrl-C would, their summaries read.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
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
    #[error("`{command}` did not begin to guard: {message}")]
    NotReady {
        /// What was run.
        command: String,
        /// What it printed.
        message: String,
    },
    /// It did not end as it should.
    #[error("the guard did not end cleanly: {0}")]
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

/// Where a policy runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Places {
    Receiver,
    Senders,
    Both,
    /// The switch counts, and all hosts take part.
    SwitchAndHosts,
}

impl GuardConfig {
    fn places(&self) -> Places {
        match self.policy.as_str() {
            "hwatch" => Places::Both,
            "rto" => Places::Senders,
            "m21" => Places::SwitchAndHosts,
            _ => Places::Receiver,
        }
    }

    /// Arguments of `ackgate run` on a device.
    fn run(&self, device: &str, spec: &Spec) -> Vec<String> {
        let mut arguments = ["run", "--json", "--dev", device, "--guard", &self.policy].map(str::to_owned).to_vec();
        arguments.extend(["--buffer".into(), spec.buffer.to_string(), "--rate".into(), format!("{}bit", spec.rate)]);
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
    places: Places,
    processes: Vec<Process>,
}

impl Guard {
    /// Starts what the policy needs, where it needs it, and waits until all of it is ready.
    ///
    /// # Errors
    /// When something does not start or does not become ready in time.
    pub fn start(testbed: &Testbed, config: &GuardConfig) -> Result<Self, GuardError> {
        let (places, spec) = (config.places(), testbed.spec());
        let start = |place: &Namespace, arguments: &[String]| Process::start(place, config.program.as_ref(), arguments);
        let at_senders = || (0..spec.hosts).map(|k| start(&testbed.sender(k), &config.run(SENDER_DEVICE, spec)));
        let at_receiver = || start(&testbed.receiver(), &config.run(RECEIVER_DEVICE, spec));
        let beside = || testbed.beside().map(|host| start(&host, &config.run(RECEIVER_DEVICE, spec)));
        let processes = match places {
            Places::Receiver => vec![at_receiver()?],
            Places::Senders => at_senders().collect::<Result<_, _>>()?,
            Places::Both => {
                std::iter::once(at_receiver()).chain(beside()).chain(at_senders()).collect::<Result<_, _>>()?
            }
            Places::SwitchAndHosts => {
                let count = ["switch", "--json", "--dev", BOTTLENECK].map(str::to_owned);
                let switch = start(&testbed.switch(), &count)?;
                vec![switch, start(&testbed.receiver(), &config.hosts(testbed))?]
            }
        };
        Ok(Self { places, processes })
    }

    /// Starts a guard at the receiver by the settings of a file, as the service does.
    ///
    /// # Errors
    /// As [`Guard::start`].
    pub(crate) fn start_by_file(testbed: &Testbed, program: Option<&PathBuf>, file: &Path) -> Result<Self, GuardError> {
        let arguments =
            ["run", "--json", "--config"].map(str::to_owned).into_iter().chain([file.display().to_string()]);
        let process = Process::start(&testbed.receiver(), program, &arguments.collect::<Vec<_>>())?;
        Ok(Self { places: Places::Receiver, processes: vec![process] })
    }

    /// The next line of that event of the first of them; `None` when it does not come in time.
    pub(crate) fn event(&mut self, event: &str) -> Option<Value> {
        self.processes.first_mut()?.wait_for(event)
    }

    /// How things stand at the first of them, as it tells within the next second; `None` when it does not.
    pub(crate) fn sample(&mut self) -> Option<Value> {
        let first = self.processes.first_mut()?;
        // What it told before is old.
        while first.lines.try_recv().is_ok() {}
        first.wait_for("sample")
    }

    /// Process id of the first of them: at the receiver, where there is one there.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.processes.first().map_or(0, |process| process.child.id())
    }

    /// Waits until the first of them has ended by itself; `None` when it has not by then.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<ExitStatus>, GuardError> {
        let until = Instant::now() + patience;
        let Some(first) = self.processes.first_mut() else { return Ok(None) };
        loop {
            match first.child.try_wait().map_err(|e| GuardError::End(e.to_string()))? {
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                ended => return Ok(ended),
            }
        }
    }

    /// Ends it as Ctrl-C would and returns the receiver's summary; those of the switch and the hosts, or of all senders, where there
    /// is none.
    ///
    /// # Errors
    /// When a process has ended by itself, gives no summary, or does not exit with 0.
    pub fn stop(self) -> Result<Value, GuardError> {
        let summaries = self.processes.into_iter().map(Process::stop).collect::<Result<Vec<_>, _>>()?;
        Ok(match (self.places, &summaries[..]) {
            (Places::Receiver | Places::Both, [receiver, ..]) => receiver.clone(),
            (Places::SwitchAndHosts, [switch, hosts]) => json!({ "switch": switch, "hosts": hosts }),
            _ => json!({ "senders": summaries }),
        })
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
        let pid = i32::try_from(self.child.id()).map_err(|e| end(&e))?;
        kill(Pid::from_raw(pid), Signal::SIGINT).map_err(|e| end(&e))?;
        let summary = self.wait_for("summary");
        let until = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().map_err(|e| end(&e))? {
                Some(status) => break status,
                None if Instant::now() > until => return Err(GuardError::End("it did not end on SIGINT".into())),
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        match summary {
            Some(summary) if status.success() => Ok(summary),
            Some(_) => Err(GuardError::End(format!("{status}: {}", self.last_words()))),
            None => Err(GuardError::End(format!("it gave no summary ({status}): {}", self.last_words()))),
        }
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
