//! `bench/peers/run report` writes measured tables into docs/validation.md, or leaves the page alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A checkout with nothing but the scripts and the page; gives the page.
fn checkout(folder: &Path) -> io::Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::create_dir_all(folder.join("bench/peers"))?;
    fs::create_dir_all(folder.join("docs"))?;
    for entry in fs::read_dir(root.join("bench/peers"))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), folder.join("bench/peers").join(entry.file_name()))?;
        }
    }
    let page = folder.join("docs/validation.md");
    fs::copy(root.join("docs/validation.md"), &page)?;
    Ok(page)
}

/// None where there is no Python.
fn python(folder: &Path, args: &[&str]) -> Option<Output> {
    let output = Command::new("python3").args(args).env_remove("ACKGATE").current_dir(folder).output();
    if output.is_err() {
        eprintln!("SKIPPED: python3 cannot be run; install it with apt-get install python3");
    }
    output.ok()
}

#[test]
fn a_report_without_rows_is_refused_and_leaves_the_page_alone() {
    let folder = tempfile::tempdir().unwrap();
    let page = checkout(folder.path()).unwrap();
    let before = fs::read_to_string(&page).unwrap();
    let Some(output) = python(folder.path(), &["bench/peers/run", "report"]) else { return };
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(told.contains("ns-3 at pac-1g: all senders") && told.contains("bench/peers/run collect"), "{told}");
    assert_eq!(fs::read_to_string(&page).unwrap(), before);
}

/// Makes a row for each cell of the tables, those of `$1` left out.
const ROWS: &str = r#"
import json, os, sys
sys.path.insert(0, "bench/peers")
sys.dont_write_bytecode = True
import rows, settings, simulators
os.makedirs("out/peers", exist_ok=True)
row = dict(rounds=20, goodput_mbps=123.0, rto_timeouts=7, rounds_with_timeout=20, drops=9)
with open("out/peers/rows.jsonl", "w") as out:
    for s in simulators.ALL:
        for setting in settings.ALL:
            for n in settings.SENDERS:
                if f"{s.name} {setting.name} {n}" != sys.argv[1]:
                    out.write(json.dumps({"key": rows._key(s, setting, n, 1, s.version()), "row": row}) + "\n")
"#;

#[test]
fn a_report_needs_a_row_for_every_cell() {
    let folder = tempfile::tempdir().unwrap();
    let page = checkout(folder.path()).unwrap();
    let before = fs::read_to_string(&page).unwrap();
    // Whatever stands there is our program to the scripts, which only want to know whether it has changed.
    fs::create_dir_all(folder.path().join("target/release")).unwrap();
    fs::write(folder.path().join("target/release/ackgate"), "a program").unwrap();

    let Some(made) = python(folder.path(), &["-c", ROWS, "ns-2 m21 64"]) else { return };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let refused = python(folder.path(), &["bench/peers/run", "report"]).unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("ns-2 at m21: 64 senders"), "{told}");
    assert_eq!(fs::read_to_string(&page).unwrap(), before);

    python(folder.path(), &["-c", ROWS, "none"]).unwrap();
    let written = python(folder.path(), &["bench/peers/run", "report"]).unwrap();
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let after = fs::read_to_string(&page).unwrap();
    let part = |text: &str, from: &str, to: &str| {
        let start = text.find(from).unwrap_or_else(|| panic!("no {from}"));
        text[start..start + text[start..].find(to).unwrap()].to_owned()
    };
    assert!(part(&after, "<!-- curves", "<!-- end of curves").contains("| 256 | 123 (0.35) |"), "{after}");
    // No speed was measured: what stands there stays.
    let speed = |text: &str| part(text, "<!-- speed", "<!-- end of speed");
    assert_eq!(speed(&after), speed(&before));
}

/// Prints the arguments of some points of HWatch's headlines, and why another curve is refused.
const SURGES: &str = r#"
import sys
sys.path.insert(0, "bench/peers")
sys.dont_write_bytecode = True
if sys.version_info < (3, 11):
    sys.exit("old")
import headline_settings
found, refused = headline_settings.runs()
for run in found:
    if (run.curve, run.x) in (("windows.dctcp", 5), ("mixed.mix", 10)):
        print(run.peer, run.curve, *(f"{key}={value}" for key, value in run.arguments))
print("refused:", refused["hwatch", "sources.hwatch"])
"#;

#[test]
fn surges_of_several_kinds_of_tcp_are_passed_on_to_ns3_as_the_setting_has_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let Some(output) = python(&root, &["-c", SURGES]) else { return };
    if String::from_utf8_lossy(&output.stderr).trim() == "old" {
        eprintln!("SKIPPED: bench/peers needs Python 3.11");
        return;
    }
    let told = String::from_utf8_lossy(&output.stdout);
    let network = "buffer=250 delack=0.0";
    let rest = "k=50 limit_s=3.5 limited_transmit=1 mss=1460 rate=10000000000.0 rounds=6 rtoinit=3.0 rtomin=0.2 rtt=0.0001 start=0.5 window=1000";
    let groups = "dctcp:14:29200:1.2e-06,dctcp:2,ecn:2,newreno:1,ecn:13:29200:3.6e-06,newreno:13:29200:3.6e-06";
    for line in [
        format!("surges windows.dctcp {network} groups=dctcp:40:29200:1.2e-06,dctcp:5 interval=0.5 iw=5 {rest}"),
        format!("surges mixed.mix {network} groups={groups} interval=0.5 iw=10 {rest}"),
        "refused: surges: no `scheme = hwatch`".to_owned(),
    ] {
        assert!(told.lines().any(|one| one == line), "no {line}\nin {told}{}", String::from_utf8_lossy(&output.stderr));
    }
}
