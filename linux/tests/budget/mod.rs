//! The committed budget of verifier work: `bpf-budget.txt` says how many instructions the verifier processed for each
//! program, by compiler. A program that grows beyond it fails the test, so that growth is decided and not discovered.

#![allow(clippy::unwrap_used, reason = "a panic in a test is the failure report")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use ackgate_linux::error::COMPILER;
use ackgate_linux::load::Verified;

/// Growth in percent that goes unremarked on the kernel that the budget was measured on.
const SLACK: u32 = 5;
/// Elsewhere verifiers count differently, up to this factor.
const OTHER_KERNEL: u32 = 2;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    program: String,
    compiler: String,
    instructions: u32,
}

/// Holds the programs to the budget, or writes it when `ACKGATE_WRITE_BUDGET` is set.
pub(crate) fn hold(programs: &[Verified]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("linux/bpf-budget.txt");
    let text = fs::read_to_string(&path).unwrap();
    // `clang 19.1.7` is `clang-19`.
    let compiler = COMPILER.split('.').next().unwrap().replace(' ', "-");
    let mut rows: Vec<Row> = text.lines().filter(|line| !line.starts_with('#')).map(row).collect();
    if std::env::var_os("ACKGATE_WRITE_BUDGET").is_some() {
        let measured = |row: &Row| row.compiler == compiler && programs.iter().any(|found| found.name == row.program);
        rows.retain(|row| !measured(row));
        rows.extend(programs.iter().map(|found| Row {
            program: found.name.clone(),
            compiler: compiler.clone(),
            instructions: found.instructions,
        }));
        rows.sort();
        fs::write(&path, written(&rows)).unwrap();
        return;
    }
    let same_kernel = text.lines().next().unwrap().ends_with(&format!("Linux {}", kernel()));
    for Verified { name, instructions, .. } in programs {
        let budget = rows.iter().find(|row| row.program == *name && row.compiler == compiler);
        let Some(Row { instructions: budget, .. }) = budget else {
            panic!("no budget for `{name}` by {compiler} ({instructions} instructions): {HOW}");
        };
        let most = if same_kernel { budget + budget * SLACK / 100 } else { budget * OTHER_KERNEL };
        assert!(
            *instructions <= most,
            "`{name}` by {compiler}: the verifier processed {instructions} instructions, {budget} are budgeted; {HOW}"
        );
    }
}

const HOW: &str = "if that is meant, write it down with `make budget`";

fn row(line: &str) -> Row {
    let mut words = line.split_ascii_whitespace();
    let mut word = || words.next().unwrap_or_else(|| panic!("not a line of a budget: {line}"));
    Row { program: word().to_owned(), compiler: word().to_owned(), instructions: word().parse().unwrap() }
}

fn written(rows: &[Row]) -> String {
    let mut text = format!("# Instructions that the verifier processed, by program and compiler; Linux {}\n", kernel());
    for Row { program, compiler, instructions } in rows {
        writeln!(text, "{program:<24}{compiler:<12}{instructions:>8}").unwrap();
    }
    text
}

/// The running kernel's series, for example `6.18`.
fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    release.split('.').take(2).collect::<Vec<_>>().join(".")
}
