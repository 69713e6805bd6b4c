//! The rules that ask the program and send what must wait to the queue, and the janitor that removes them if we cannot.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::device::Device;

/// Where BPF objects are pinned.
const BPF_FS: &str = "/sys/fs/bpf";
/// Programs that write rules for IPv4 and IPv6, the better ones first: nft's has no queue on every kernel.
const WRITERS: [[&str; 2]; 2] = [["iptables-legacy", "iptables"], ["ip6tables-legacy", "ip6tables"]];

/// Rules of a device. Dropping this removes them.
#[derive(Debug)]
pub(super) struct Rules {
    writers: Vec<&'static str>,
    rule: Vec<String>,
    pin: PathBuf,
    janitor: Option<Child>,
}

/// The queue of a device: queues belong to the network namespace, as devices do.
pub(super) const fn queue_number(device: &Device) -> u16 {
    0x8000 | (device.index.cast_unsigned() & 0x7fff) as u16
}

impl Rules {
    pub(super) fn new(device: &Device, queue: u16, program: BorrowedFd<'_>) -> io::Result<Self> {
        let namespace = fs::metadata("/proc/thread-self/ns/net")?.ino();
        let pin = Path::new(BPF_FS).join(format!("ackgate-{namespace}-{}", device.index));
        // What a crash left.
        let _ = fs::remove_file(&pin);
        pin_program(program, &pin).map_err(|error| {
            io::Error::new(error.kind(), format!("{error} at {} (mount -t bpf bpf {BPF_FS})", pin.display()))
        })?;
        let mut rule: Vec<String> = ["POSTROUTING", "-o", &device.name, "-p", "tcp", "-m", "bpf", "--object-pinned"]
            .map(str::to_owned)
            .to_vec();
        rule.push(pin.display().to_string());
        rule.extend(["-j", "NFQUEUE", "--queue-num"].map(str::to_owned));
        rule.push(queue.to_string());
        rule.push("--queue-bypass".into());
        let mut rules = Self { writers: Vec::new(), rule, pin, janitor: None };
        let found = WRITERS.map(|names| names.into_iter().find(|name| works(name)));
        for (writer, names) in found.into_iter().zip(WRITERS) {
            let missing = || io::Error::new(io::ErrorKind::NotFound, format!("`{}` is not installed", names[0]));
            rules.writers.push(writer.ok_or_else(missing)?);
        }
        // The janitor first: from now on there is something to clean up.
        rules.janitor = Some(rules.start_janitor()?);
        for writer in &rules.writers {
            let _ = write(writer, "-D", &rules.rule);
            write(writer, "-I", &rules.rule)?;
        }
        Ok(rules)
    }

    /// Waits for the end of a pipe whose other end only we hold. It is out of reach of the terminal's signals.
    fn start_janitor(&self) -> io::Result<Child> {
        const SCRIPT: &str = r#"
            trap '' INT TERM HUP
            read -r _ && exit 0
            four=$1 six=$2 pin=$3
            shift 3
            for writer in "$four" "$six"; do "$writer" -w -t mangle -D "$@"; done
            rm -f "$pin"
        "#;
        Command::new("sh")
            .args(["-c", SCRIPT, "ackgate-janitor"])
            .args(&self.writers)
            .arg(&self.pin)
            .args(&self.rule)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        let mut clean = true;
        for writer in &self.writers {
            clean &= write(writer, "-D", &self.rule).is_ok();
        }
        // Not before the rules: every change of the table looks at the program again.
        clean &= fs::remove_file(&self.pin).is_ok();
        if let Some(mut janitor) = self.janitor.take() {
            if let Some(mut pipe) = janitor.stdin.take()
                && clean
            {
                // Told that all is clean it ends; else the end of the pipe makes it try again.
                let _ = pipe.write_all(b"clean\n");
            }
            let _ = janitor.wait();
        }
    }
}

fn works(writer: &str) -> bool {
    Command::new(writer)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Inserts (`-I`) or removes (`-D`) the rule.
fn write(writer: &str, verb: &str, rule: &[String]) -> io::Result<()> {
    let output = Command::new(writer).args(["-w", "-t", "mangle", verb]).args(rule).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("`{writer} {verb}` said: {}", said.trim().replace('\n', "; "))))
}

fn pin_program(program: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    // SAFETY: a descriptor that is open, and a terminated string, both alive during the call.
    let result = unsafe { libbpf_sys::bpf_obj_pin(program.as_raw_fd(), path.as_ptr()) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}
