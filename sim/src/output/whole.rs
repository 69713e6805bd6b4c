//! Files that appear whole, in one step, or not at all.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Writes a file beside the one that is meant, and puts it in its place when it is complete and on the disk.
///
/// # Errors
/// When it cannot be written; what stood there before stays.
pub fn write(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let unfinished = beside(path);
    let done = File::create(&unfinished)
        .and_then(|mut file| {
            content(&mut file)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&unfinished, path));
    if done.is_err() {
        // What the disk had no room for, say; that it cannot be removed adds nothing to the error.
        let _ = fs::remove_file(&unfinished);
    }
    done
}

/// A name in the same folder that no other process writes to.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.unfinished", std::process::id()));
    path.with_file_name(name)
}
