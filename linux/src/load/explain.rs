//! Why a load failed: from libbpf's log, the error's kind, and what the process may.

use std::io;

use libbpf_rs::ErrorKind;

use crate::error::{Error, Refusal};
use crate::privilege::Process;

/// Lines of the verifier's that are shown.
const LAST_LINES: usize = 3;

/// Which cause of [`Error`] it is.
pub(super) fn explain(
    what: &'static str,
    error: &libbpf_rs::Error,
    log: &str,
    map_bytes: u64,
    process: &Process,
) -> Error {
    let told = || io::Error::other(creation_failures(log).unwrap_or_else(|| format!("{error:#}")));
    if let Some(refusal) = refusal(log) {
        return match missing_function(&refusal) {
            Some(function) => Error::Unsupported { what, source: io::Error::other(function) },
            None => Error::Unverifiable(Box::new(refusal)),
        };
    }
    match error.kind() {
        ErrorKind::PermissionDenied => Error::NotPermitted(process.denied(what)),
        ErrorKind::OutOfMemory => Error::memory(what, Some(map_bytes)),
        ErrorKind::InvalidInput | ErrorKind::Unsupported | ErrorKind::NotFound => {
            Error::Unsupported { what, source: told() }
        }
        _ => Error::Io { what, source: told() },
    }
}

/// The program that the verifier refused, if one was.
fn refusal(log: &str) -> Option<Refusal> {
    const BEGIN: &str = "-- BEGIN PROG LOAD LOG --";
    const END: &str = "-- END PROG LOAD LOG --";
    let (before, rest) = log.rsplit_once(BEGIN)?;
    let verifiers = rest.split_once(END).map_or(rest, |(log, _)| log);
    let program = before.rsplit_once("prog '")?.1.split('\'').next()?;
    // Not the source lines that it quotes, nor its statistics.
    let matters = |line: &&str| !line.is_empty() && !line.starts_with(';') && !line.starts_with("processed ");
    let lines: Vec<&str> = verifiers.lines().map(str::trim).filter(matters).collect();
    let last = lines.iter().skip(lines.len().saturating_sub(LAST_LINES)).map(|&line| line.to_owned()).collect();
    Some(Refusal { program: program.to_owned(), last })
}

/// A function of the kernel's that the program calls and this kernel does not have.
fn missing_function(refusal: &Refusal) -> Option<String> {
    let last = refusal.last.last()?;
    let missing = ["unknown func", "invalid func", "unsupported func"].iter().any(|words| last.contains(words));
    missing.then(|| format!("`{}` calls a function that it does not have: {last}", refusal.program))
}

/// What libbpf says of maps that could not be made, in one line.
fn creation_failures(log: &str) -> Option<String> {
    let failed = log.lines().filter(|line| line.contains("failed to create"));
    let told: Vec<&str> = failed.map(|line| line.trim().trim_start_matches("libbpf: ")).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: &str = "libbpf: prog 'egress': BPF program load failed: Permission denied
libbpf: prog 'egress': -- BEGIN PROG LOAD LOG --
; if (rest > 40 || bpf_skb_load_bytes(skb, ip->tcp + 20, &walk.bytes, rest)) @ packet.h:313
414: (bc) w4 = w8
415: (85) call bpf_skb_load_bytes#26
R4 unbounded memory access, use 'var &= const' or 'if (var < const)'
processed 825 insns (limit 1000000) max_states_per_insn 2 total_states 61 peak_states 61 mark_read 0
-- END PROG LOAD LOG --
libbpf: prog 'egress': failed to load: -EACCES
libbpf: failed to load object 'ackgate_bpf'
";

    fn explained(errno: i32, log: &str) -> Error {
        explain("load the BPF programs", &libbpf_rs::Error::from_raw_os_error(errno), log, 1 << 20, &Process::default())
    }

    #[test]
    fn a_refusal_is_not_taken_for_a_missing_permission() {
        let Error::Unverifiable(refusal) = explained(libc::EACCES, REFUSED) else { panic!("not a refusal") };
        assert_eq!(refusal.program, "egress");
        assert_eq!(refusal.last.len(), LAST_LINES);
        assert!(refusal.last[2].starts_with("R4 unbounded memory access"), "{refusal:?}");
    }

    #[test]
    fn a_function_that_the_kernel_lacks_is_a_missing_feature() {
        let log = REFUSED.replace("R4 unbounded memory access, use", "invalid func unknown#181");
        let Error::Unsupported { source, .. } = explained(libc::EINVAL, &log) else { panic!("not a feature") };
        assert!(source.to_string().contains("`egress`") && source.to_string().contains("#181"), "{source}");
    }

    #[test]
    fn a_map_that_cannot_be_made_is_named() {
        let log = "libbpf: map 'ring': failed to create: -EINVAL\nlibbpf: failed to load object 'ackgate_bpf'\n";
        let Error::Unsupported { source, .. } = explained(libc::EINVAL, log) else { panic!("not a feature") };
        assert_eq!(source.to_string(), "map 'ring': failed to create: -EINVAL");
    }

    #[test]
    fn without_a_log_the_number_decides() {
        assert!(matches!(explained(libc::EPERM, ""), Error::NotPermitted(_)));
        assert!(matches!(explained(libc::ENOMEM, ""), Error::Memory { .. }));
        assert!(matches!(explained(libc::EIO, ""), Error::Io { .. }));
    }
}
