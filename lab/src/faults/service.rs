//! A guard that runs as the service does: a program of its own, which an upgrade replaces, and a file of settings, which a reload
//! has read again.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::guard::{Guard, GuardConfig, GuardError};
use crate::harm::row::{RowError, io_error};
use crate::testbed::Testbed;

/// The files of a service, removed when dropped.
pub(super) struct Service {
    _folder: TempDir,
    program: PathBuf,
    settings: PathBuf,
}

impl Service {
    /// Copies the program and writes its settings.
    pub(super) fn install(testbed: &Testbed, config: &GuardConfig) -> Result<Self, RowError> {
        let install = || {
            let folder = tempfile::tempdir()?;
            let source = config.program.clone().map_or_else(std::env::current_exe, Ok)?;
            let (program, settings) = (folder.path().join("ackgate"), folder.path().join("ackgate.toml"));
            fs::copy(source, &program)?;
            config.write_settings(testbed.spec(), &settings)?;
            Ok(Self { _folder: folder, program, settings })
        };
        install().map_err(io_error("installing a program and its settings"))
    }

    /// Starts it.
    pub(super) fn start(&self, testbed: &Testbed) -> Result<Guard, GuardError> {
        Guard::start_by_file(testbed, Some(&self.program), &self.settings)
    }

    /// Writes other settings.
    pub(super) fn configure(&self, testbed: &Testbed, config: &GuardConfig) -> Result<(), RowError> {
        config.write_settings(testbed.spec(), &self.settings).map_err(io_error("writing settings"))
    }

    /// Puts another file in the program's place, as dpkg does: written beside it, then renamed.
    pub(super) fn replace_program(&self) -> Result<(), RowError> {
        let new = self.program.with_extension("dpkg-new");
        let replaced = fs::copy(&self.program, &new).and_then(|_| fs::rename(&new, &self.program));
        replaced.map_err(io_error("replacing the program"))
    }

    /// Whether a process runs the file that is the program now.
    pub(super) fn is_run_by(&self, pid: u32) -> Result<bool, RowError> {
        let file = |path: PathBuf| fs::metadata(path).map(|file| (file.dev(), file.ino()));
        let (runs, is) = (file(format!("/proc/{pid}/exe").into()), file(self.program.clone()));
        let same = || -> io::Result<bool> { Ok(runs? == is?) };
        same().map_err(io_error("asking which program runs"))
    }
}
