//! `ackgate run` as a child in the receiver's namespace, and in the senders' for a scheme that needs both ends: started, waited for until it guards, ended as Ctrl-C would, its
//! summary read.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use thiserror::Error;

use crate::testbed::{Namespace, RECEIVER_DEVICE, SENDER_DEVICE, Testbed};

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
        source: std::io::Error,
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

/// A scheme that acts at both ends.
const BOTH_ENDS: &str = "hwatch";

/// A guard that guards. Dropping it kills it.
#[derive(Debug)]
pub struct Guard {
    receiver: Process,
    senders: Vec<Process>,
}

impl Guard {
    /// Starts the guard on the receiver's device, and on the senders' if it needs both, and waits until it guards.
    ///
    /// # Errors
    /// When it does not start or does not become ready in time.
    pub fn start(testbed: &Testbed, config: &GuardConfig) -> Result<Self, GuardError> {
        let receiver = Process::start(testbed, &testbed.receiver(), RECEIVER_DEVICE, config)?;
        let hosts = if config.policy == BOTH_ENDS { testbed.spec().hosts } else { 0 };
        let senders = (0..hosts).map(|k| Process::start(testbed, &testbed.sender(k), SENDER_DEVICE, config));
        Ok(Self { receiver, senders: senders.collect::<Result<_, _>>()? })
    }

    /// Process id of the receiver's.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.receiver.child.id()
    }

    /// Waits until the receiver's has ended by itself; `None` when it has not by then.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<ExitStatus>, GuardError> {
        let until = Instant::now() + patience;
        loop {
            match self.receiver.child.try_wait().map_err(|e| GuardError::End(e.to_string()))? {
                None if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
                ended => return Ok(ended),
            }
        }
    }

    /// Ends the guard as Ctrl-C would and returns the receiver's summary.
    ///
    /// # Errors
    /// When it has ended by itself, gives no summary, or does not exit with 0.
    pub fn stop(self) -> Result<Value, GuardError> {
        let summary = self.receiver.stop()?;
        self.senders.into_iter().try_for_each(|sender| sender.stop().map(drop))?;
        Ok(summary)
    }
}

/// `ackgate run` on one device. Dropping it kills it.
#[derive(Debug)]
struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(testbed: &Testbed, place: &Namespace, device: &str, config: &GuardConfig) -> Result<Self, GuardError> {
        let start = |program: String| move |source| GuardError::Start { program, source };
        let program = match &config.program {
            Some(program) => program.clone(),
            None => std::env::current_exe().map_err(start("ackgate".into()))?,
        };
        let shown = program.display().to_string();
        let mut command = Command::new(program);
        command.args(["run", "--json", "--dev", device, "--guard", config.policy.as_str()]);
        command.args([
            "--buffer",
            &testbed.spec().buffer.to_string(),
            "--rate",
            &format!("{}bit", testbed.spec().rate),
        ]);
        if let Some(hold) = config.max_hold {
            command.args(["--max-hold", &format!("{}us", hold.as_micros())]);
        }
        command.args(&config.extra).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
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
                let command = format!("{shown} run --dev {device}");
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
