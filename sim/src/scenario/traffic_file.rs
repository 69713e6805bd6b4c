//! Flow arrivals from a file, for [`Workload::Trace`].

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ackgate_control::units::Span;

use super::check::Invalid;
use super::{Arrival, Scenario, Trace, Workload};

/// The columns, in this order, that the first line must name.
const HEADER: &str = "start_us,sender,bytes";

/// Bytes of a file at most, some thirty million flows.
const MAX_FILE: u64 = 512 << 20;

/// Files that have been read, by path.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache(Arc<Mutex<HashMap<PathBuf, Arc<[Arrival]>>>>);

impl Cache {
    /// Reads the files that the scenario's workloads name; relative names start at `folder`.
    pub(super) fn load(&self, scenario: &mut Scenario, folder: &Path) -> Result<(), Invalid> {
        let main = ("workload.file".to_owned(), scenario.main_senders(), Some(&mut scenario.workload));
        let listed = [("background", &mut scenario.background), ("group", &mut scenario.group)];
        let groups = listed.into_iter().flat_map(|(list, groups)| {
            let file = move |at: usize| format!("{list}.{at}.workload.file");
            groups.iter_mut().enumerate().map(move |(at, group)| (file(at), group.senders, group.workload.as_mut()))
        });
        for (key, senders, workload) in std::iter::once(main).chain(groups) {
            if let Some(Workload::Trace(trace)) = workload {
                let read = self.read(trace, folder).and_then(|()| known_senders(trace, senders, folder));
                read.map_err(|problem| Invalid { key, problem })?;
            }
        }
        Ok(())
    }

    fn read(&self, trace: &mut Trace, folder: &Path) -> Result<(), String> {
        if trace.file.as_os_str().is_empty() {
            return Err(format!("is missing: name a CSV file with the columns {HEADER}"));
        }
        let path = folder.join(&trace.file);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(arrivals) = known.get(&path) {
            trace.arrivals = arrivals.clone();
            return Ok(());
        }
        let mut arrivals: Vec<Arrival> = parse_file(&path)?.into_iter().map(|(_, arrival)| arrival).collect();
        arrivals.sort_by_key(|arrival| arrival.start);
        trace.arrivals = arrivals.into();
        known.insert(path, trace.arrivals.clone());
        Ok(())
    }
}

/// Refuses a flow of a sender that the scenario does not have, and says where it stands.
fn known_senders(trace: &Trace, senders: u32, folder: &Path) -> Result<(), String> {
    if trace.arrivals.iter().all(|arrival| arrival.sender < senders) {
        return Ok(());
    }
    let path = folder.join(&trace.file);
    match parse_file(&path)?.iter().find(|(_, arrival)| arrival.sender >= senders) {
        Some((line, arrival)) => Err(format!(
            "{}:{line}: there is no sender {}, the scenario's {senders} are 0 to {}",
            path.display(),
            arrival.sender,
            senders.saturating_sub(1)
        )),
        None => Ok(()),
    }
}

fn parse_file(path: &Path) -> Result<Vec<(usize, Arrival)>, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_string(&mut text));
    read.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    if text.len() as u64 > MAX_FILE {
        return Err(format!("{} is longer than {} MiB", path.display(), MAX_FILE >> 20));
    }
    parse(&text).map_err(|(line, problem)| format!("{}:{line}: {problem}", path.display()))
}

/// The flows of a traffic file with the lines that they stand in.
///
/// # Errors
/// The first line with which something is wrong, and what.
pub fn parse(text: &str) -> Result<Vec<(usize, Arrival)>, (usize, String)> {
    // Spreadsheets begin a file with a byte order mark.
    let lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    let mut lines = lines.map(|(i, line)| (i + 1, line.trim())).filter(|(_, line)| !line.is_empty());
    match lines.next() {
        Some((_, HEADER)) => {}
        other => return Err((other.map_or(1, |(line, _)| line), format!("the first line must be `{HEADER}`"))),
    }
    let arrivals = lines
        .map(|(number, line)| Ok((number, arrival(line).map_err(|problem| (number, problem))?)))
        .collect::<Result<Vec<_>, _>>()?;
    if arrivals.is_empty() {
        return Err((1, "there is no flow in it".into()));
    }
    Ok(arrivals)
}

fn arrival(line: &str) -> Result<Arrival, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    let &[start, sender, bytes] = fields.as_slice() else {
        return Err(format!("has {} fields, should have the 3 of {HEADER}", fields.len()));
    };
    let start: f64 = start.parse().map_err(|_| format!("`{start}` is not a time in microseconds"))?;
    if !(0.0..=1e12).contains(&start) {
        return Err(format!("a start of {start} us is not between 0 and 10^12"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within 0 and 10^15")]
    let start = Span((start * 1_000.0).round() as u64);
    let sender = sender.parse().map_err(|_| format!("`{sender}` is not a sender's number"))?;
    let bytes =
        bytes.parse().ok().filter(|bytes| *bytes > 0).ok_or(format!("`{bytes}` is not a flow's size in bytes"))?;
    Ok(Arrival { start, sender, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_come_by_time() {
        let flows = scenario("\u{feff}start_us,sender,bytes\r\n20.5,1,1000\r\n\r\n0,0,64000\r\n").unwrap();
        assert_eq!(flows[0], Arrival { start: Span::ZERO, sender: 0, bytes: 64_000 });
        assert_eq!(flows[1], Arrival { start: Span::nanos(20_500), sender: 1, bytes: 1_000 });
    }

    #[test]
    fn a_sender_that_there_is_not_is_named_with_file_and_line() {
        let error = scenario("start_us,sender,bytes\n9,0,1000\n\n1,8,1000\n").unwrap_err();
        assert!(
            error.contains("key `workload.file`: ") && error.contains("flows.csv:4: there is no sender 8"),
            "{error}"
        );
        assert!(error.ends_with("the scenario's 8 are 0 to 7"), "{error}");
    }

    /// The flows that a scenario of 8 senders gets from a file with this text.
    fn scenario(text: &str) -> Result<Arc<[Arrival]>, String> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("flows.csv"), text).unwrap();
        let file = folder.path().join("x.toml");
        std::fs::write(&file, "workload = { kind = \"trace\", file = \"flows.csv\" }").unwrap();
        let document = crate::scenario::Document::read(&file).unwrap();
        match document.scenario().map_err(|error| error.to_string())?.workload {
            Workload::Trace(trace) => Ok(trace.arrivals),
            _ => unreachable!("it says trace"),
        }
    }

    #[test]
    fn the_points_of_a_sweep_share_one_reading() {
        use crate::scenario::Document;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("flows.csv"), "start_us,sender,bytes\n1,0,1000\n").unwrap();
        let file = folder.path().join("x.toml");
        std::fs::write(&file, "workload = { kind = \"trace\", file = \"flows.csv\" }").unwrap();
        let document = Document::read(&file).unwrap();
        let [one, other] = [&document, &document.clone()].map(|document| match document.scenario().unwrap().workload {
            Workload::Trace(trace) => trace.arrivals,
            _ => unreachable!("it says trace"),
        });
        assert!(Arc::ptr_eq(&one, &other) && one.len() == 1);
    }

    #[test]
    fn a_bad_line_is_named() {
        assert_eq!(
            parse("start_us,sender,bytes\n0,0,0\n").unwrap_err(),
            (2, "`0` is not a flow's size in bytes".into())
        );
        assert_eq!(parse("0,0,1\n").unwrap_err().0, 1);
        assert_eq!(parse("start_us,sender,bytes\n\nnan,0,1\n").unwrap_err().0, 3);
        assert!(parse("").is_err() && parse("start_us,sender,bytes\n").is_err());
    }
}
