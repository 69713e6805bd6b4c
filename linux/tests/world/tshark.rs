//! What tshark has to say about captured frames.

use std::io::Write;
use std::process::{Command, Stdio};

/// Wrong checksums and malformed frames; `None` where tshark is missing, which is said.
///
/// # Panics
/// When it does not find a right checksum in every TCP segment either.
pub(crate) fn complaints(frames: &[Vec<u8>]) -> Option<Vec<String>> {
    let fields = ["ip.checksum.status", "tcp.checksum.status", "_ws.malformed", "tcp.checksum", "_ws.col.Info"];
    let mut command = Command::new("tshark");
    command.args(["-n", "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-T", "fields", "-r", "-"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut tshark) = started else {
        eprintln!("SKIPPED: tshark cannot be run; install it with apt-get install tshark");
        return None;
    };
    let mut input = tshark.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(&capture(frames)).unwrap());
        tshark.wait_with_output().unwrap()
    });
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines.len(), frames.len(), "{text}");
    assert!(lines.iter().any(|line| line[1] == "1"), "no segment with a right checksum: {text}");
    // 0 is wrong, 1 is right, nothing is none. Where the sum is zero the kernel writes 0xffff (`CSUM_MANGLED_0`), which sums up
    // as well and which tshark would not have.
    let wrong_sum =
        |line: &[&str]| line[1] == "0" && !(line[3] == "0xffff" && line[4].contains("[TCP CHECKSUM 0xFFFF]"));
    let bad = |line: &&Vec<&str>| line[0] == "0" || wrong_sum(line) || !line[2].is_empty();
    Some(lines.iter().filter(bad).map(|line| line.join(" ")).collect())
}

/// Frames as a file of libpcap's first format: a header that says Ethernet, and one for each frame, without times.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    const LONGEST: u32 = 1 << 18;
    let mut file: Vec<u8> = Vec::new();
    file.extend([0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, LONGEST, 1].iter().flat_map(|word| word.to_ne_bytes()));
    for frame in frames {
        let length = u32::try_from(frame.len()).unwrap();
        file.extend([0, 0, length, length].iter().flat_map(|word| word.to_ne_bytes()));
        file.extend(frame);
    }
    file
}
