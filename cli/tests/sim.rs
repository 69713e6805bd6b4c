//! `ackgate sim` from outside: what it prints, what it leaves, and with which code it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios").join(name)
}

fn ackgate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ackgate")).arg("sim").args(args).output().expect("the program starts")
}

/// Standard output of a call that must succeed.
fn told(args: &[&str]) -> String {
    let output = ackgate(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Standard error of a call that must be refused with code 2.
fn refused(args: &[&str]) -> String {
    let output = ackgate(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).expect("text")
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_str(&told(args)).expect("one JSON object")
}

#[test]
fn a_run_s_json_has_what_scripts_rely_on_and_repeats_to_the_byte() {
    let file = scenario("incast-1g.toml");
    let args =
        ["run", file.to_str().unwrap(), "--set", "senders=40", "--set", "rounds=3", "--set", "scheme=pac", "--json"];
    let mut first = json(&args);
    for key in [
        "scheme",
        "senders",
        "goodput_mbps",
        "throughput_mbps",
        "rounds",
        "rounds_with_timeout",
        "rto_timeouts",
        "spurious_timeouts",
        "retransmits",
        "drops",
        "events",
        "packets_delivered",
        "wall_s",
        "seed",
    ] {
        assert!(!first[key].is_null(), "{key} in {first}");
    }
    for (key, parts) in [
        ("round_ms", ["p50", "p99", "max"]),
        ("queue_bytes", ["mean", "max", "max"]),
        ("hold_us", ["p50", "p99", "max"]),
    ] {
        assert!(parts.iter().all(|part| first[key][part].is_number()), "{key} in {first}");
    }
    assert_eq!((&first["senders"], &first["rounds"], &first["scheme"]), (&40.into(), &3.into(), &"pac".into()));
    let mut again = json(&args);
    for report in [&mut first, &mut again] {
        report.as_object_mut().unwrap().remove("wall_s");
    }
    assert_eq!(first.to_string(), again.to_string());
}

#[test]
fn csv_and_table_show_the_same_run() {
    let file = scenario("incast-1g.toml");
    let base = ["run", file.to_str().unwrap(), "--set", "senders=4", "--set", "rounds=2"];
    let csv = told(&[&base[..], &["--csv"]].concat());
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
    assert!(lines[0].starts_with("scheme,senders,seed,") && lines[1].starts_with("none,4,1,"));
    assert!(told(&base).contains("senders, scheme, seed  4, none, 1"));
}

#[test]
fn the_same_bytes_from_any_number_of_threads_and_from_shards() {
    let folder = tempfile::tempdir().unwrap();
    let file = scenario("incast-1g.toml");
    let sweep = |out: &Path, more: &[&str]| {
        let base = [
            "sweep",
            file.to_str().unwrap(),
            "--set",
            "rounds=2",
            "--vary",
            "senders=1..32",
            "--vary",
            "scheme=none,pac",
            "--seeds",
            "2",
            "--out",
            out.to_str().unwrap(),
        ];
        told(&[&base[..], more].concat());
        fs::read_to_string(out).unwrap()
    };
    let one = sweep(&folder.path().join("one.csv"), &["--threads", "1"]);
    let three = sweep(&folder.path().join("three.csv"), &["--jobs", "3"]);
    assert_eq!(one, three);
    assert_eq!(one.lines().count(), 1 + 6 * 2 * 2);
    let parts = ["1/3", "2/3", "3/3"].map(|shard| sweep(&folder.path().join(&shard[..1]), &["--shard", shard]));
    assert_eq!(parts.concat(), one);

    // Stopped in the middle of a line: what is whole is kept.
    let path = folder.path().join("torn.csv");
    fs::write(&path, &one[..one.len() / 2]).unwrap();
    assert_eq!(sweep(&path, &[]), one);
    // Rows are taken over, not run again: a row that was tampered with stays.
    let tampered = one.replacen(",true,", ",false,", 1);
    fs::write(&path, &tampered).unwrap();
    assert_eq!(sweep(&path, &[]), tampered);
}

#[test]
fn a_sweep_as_json_is_an_array_of_runs_with_the_varied_keys() {
    let file = scenario("incast-1g.toml");
    let file = file.to_str().unwrap();
    let vary = ["--vary", "senders=2,4", "--vary", "switch.buffer=64KB", "--json"];
    let rows = json(&[&["sweep", file, "--set", "rounds=2"][..], &vary].concat());
    let mut run =
        json(&["run", file, "--set", "rounds=2", "--set", "senders=4", "--set", "switch.buffer=64KB", "--json"]);
    run.as_object_mut().unwrap().remove("wall_s");
    let row = rows[1].as_object().unwrap();
    assert_eq!((rows.as_array().unwrap().len(), &row["switch.buffer"]), (2, &"64KB".into()));
    for (name, value) in run.as_object().unwrap() {
        assert_eq!(&row[name], value, "{name}");
    }
}

#[test]
fn plots_and_series_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let file = scenario("incast-1g.toml");
    let file = file.to_str().unwrap();
    told(&[
        "run",
        file,
        "--set",
        "rounds=2",
        "--set",
        "scheme=pac",
        "--plot",
        &path("run.svg"),
        "--series",
        &path("run.csv"),
        "--flows",
        &path("flows.csv"),
    ]);
    let flows = fs::read_to_string(path("flows.csv")).unwrap();
    assert!(flows.starts_with("start_us,sender,bytes,flow_ms,round,group\n") && flows.lines().count() == 1 + 2 * 32);
    told(&["sweep", file, "--set", "rounds=1", "--vary", "senders=1,2,4", "--plot", &path("sweep.svg")]);
    for (name, words) in [("run.svg", "ACKs held by the scheme"), ("sweep.svg", "Goodput")] {
        let svg = fs::read_to_string(path(name)).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n") && svg.contains(words), "{name}");
    }
    let series = fs::read_to_string(path("run.csv")).unwrap();
    assert!(series.starts_with("start_us,queue_bytes_mean,queue_bytes_max,") && series.lines().count() > 100);
}

#[test]
fn an_ack_that_a_scheme_leaves_out_is_no_drop_of_a_series() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.csv").to_str().unwrap().to_owned();
    let file = scenario("incast-1g.toml");
    let file = file.to_str().unwrap();
    let words = ["run", file, "--set", "scheme=credit", "--set", "rounds=2", "--json", "--series", &path];
    let report: serde_json::Value = serde_json::from_str(&told(&words)).unwrap();
    let series = fs::read_to_string(path).unwrap();
    let column = series.lines().next().unwrap().split(',').position(|name| name == "drops").unwrap();
    let drops: u64 =
        series.lines().skip(1).map(|row| row.split(',').nth(column).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(Some(drops), report["drops"].as_u64());
}

#[test]
fn where_to_write_is_settled_before_anything_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let file = scenario("incast-1g.toml");
    let file = file.to_str().unwrap();
    let rows = path("rows.csv");
    // The rows that a run would have left are not there.
    let sweep = ["sweep", file, "--set", "rounds=1", "--out", &rows, "--plot"];
    let told = refused(&[&sweep[..], &[&path("x.svg"), "--vary", "scheme=none,pac"]].concat());
    assert!(told.contains("--plot: no varied key has two numbers"), "{told}");
    let told = refused(&[&sweep[..], &[&path("x.svg"), "--vary", "senders=1,2", "--shard", "1/2"]].concat());
    assert!(told.contains("part 1/2 alone cannot be plotted: omit --plot"), "{told}");
    assert!(!Path::new(&rows).exists() && !Path::new(&path("x.svg")).exists());
    let output = ackgate(&[&sweep[..], &[&path("no/x.svg"), "--vary", "senders=1,2"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(!Path::new(&rows).exists());
    // A million rounds take hours.
    for option in ["--plot", "--series", "--pcap", "--flows"] {
        let endless = ["run", file, "--set", "rounds=1000000", "--set", "workload.volume=1MB", option];
        let output = ackgate(&[&endless[..], &[&path("no/x")]].concat());
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && told.contains("no/x cannot be written: "), "{option}: {told}");
    }
}

#[test]
fn tshark_warns_of_losses_alone() {
    let folder = tempfile::tempdir().unwrap();
    let pcap = folder.path().join("run.pcapng");
    let file = scenario("incast-1g.toml");
    for sets in [
        "senders=16",
        "senders=16 tcp.sack=true tcp.timestamps=true",
        "senders=16 tcp.sack=true tcp.limited_transmit=true tcp.wscale=0 tcp.rwnd=32KB tcp.delayed_ack=40ms",
        "senders=32 scheme=dctcp",
        "senders=16 scheme=m21 tcp.timestamps=true",
        "senders=16 scheme=m21 m21.field=ip",
        "senders=16 scheme=hwatch",
    ] {
        let sets = sets.split(' ').chain(["rounds=2"]).flat_map(|set| ["--set", set]);
        told(
            &["run", file.to_str().unwrap(), "--pcap", pcap.to_str().unwrap()]
                .into_iter()
                .chain(sets)
                .collect::<Vec<_>>(),
        );
        let mut command = Command::new("tshark");
        command.args(["-n", "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]);
        // Without a field to print, tshark does not look at options.
        command.args(["-z", "expert,chat", "-T", "fields", "-e", "_ws.expert.message"]);
        let Ok(output) = command.arg("-r").arg(&pcap).output() else {
            eprintln!("SKIPPED: tshark cannot be run; install it with apt-get install tshark");
            return;
        };
        let complaints = String::from_utf8_lossy(&output.stderr)
            .replace("Running as user \"root\" and group \"root\". This could be dangerous.", "");
        assert!(output.status.success() && complaints.trim().is_empty(), "{complaints}");
        let experts = String::from_utf8_lossy(&output.stdout);
        assert!(experts.contains("Connection establish request"), "{experts}");
        assert!(!experts.contains("Errors ("), "{experts}");
        // What is lost and sent again is in the run; nothing is wrong with a packet.
        let of_losses =
            ["Previous segment(s) not captured", "out-of-order segment", "window specified by the receiver is now"];
        let warned = experts.lines().skip_while(|line| !line.starts_with("Warns")).skip(1);
        let warned = warned.take_while(|line| !line.starts_with("Notes") && !line.starts_with("Chats"));
        for line in warned.filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())) {
            assert!(of_losses.iter().any(|known| line.contains(known)), "{line}");
        }
    }
}

#[test]
fn refusals_say_where_what_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.toml");
    let bad = |text: &str| {
        fs::write(&path, text).unwrap();
        refused(&["run", path.to_str().unwrap()]).replace(path.to_str().unwrap(), "bad.toml")
    };
    assert_eq!(bad("senders = 0\n"), "ackgate: bad.toml:1: key `senders`: 0 senders send nothing: at least 1\n");
    assert_eq!(
        bad("senders = 2\n\n[host]\njiter = \"1us\"\n"),
        "ackgate: bad.toml:4: key `host`: unknown key `jiter`; did you mean `jitter`? Allowed: delay, jitter, timer_jitter, rtt_spread, nic_queue, tso, gro, burst_time, small_queues\n"
    );
    assert!(bad("network.rate = 0").contains("bad.toml:1: key `network.rate`: a rate of 0"));
    assert!(bad("switch.buffer = 0").contains("a buffer of 0 drops every frame"));
    assert!(bad("[").contains("bad.toml:1: is not valid TOML"));

    let file = scenario("incast-1g.toml");
    let file = file.to_str().unwrap();
    for (args, words) in [
        (&["run", "absent.toml"][..], "ackgate: absent.toml: cannot be read: No such file"),
        (&["run", "/dev/zero"], "ackgate: /dev/zero: is too large for a scenario (limit: 8 MiB)"),
        (&["run", "../Cargo.lock/"], "cannot be read: Not a directory"),
        (&["run", ".."], "ackgate: ..: cannot be read: Is a directory"),
        (&["run", env!("CARGO_BIN_EXE_ackgate")], ": is "),
        (&["run", file, "--set", "senders"], "--set senders: is not of the form key=value"),
        (
            &["run", file, "--set", "senders=many"],
            "--set senders=many: key `senders`: is the string \"many\", should be a whole number",
        ),
        (&["run", file, "--set", "scheme=pax"], "unknown name `pax`; did you mean `pac`?"),
        (&["sweep", file, "--vary", "senders=8..1"], "--vary senders=8..1: `8..1` runs downwards"),
        (&["sweep", file, "--vary", "sender=1,2"], "--vary sender=1: unknown key `sender`; did you mean `senders`?"),
        (&["sweep", file, "--vary", "senders=1", "--shard", "3/2"], "--shard 3/2: is not k/n"),
        (&["sweep", file], "--vary"),
        (&["run", file, "--json", "--csv"], "cannot be used with"),
    ] {
        let text = refused(args);
        assert!(text.contains(words), "{args:?}: {text}");
    }
}

#[test]
fn a_capture_of_an_unknown_interface_lists_those_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let pcap = folder.path().join("x.pcapng");
    let file = scenario("incast-1g.toml");
    let output = ackgate(&[
        "run",
        file.to_str().unwrap(),
        "--set",
        "senders=2",
        "--set",
        "rounds=1",
        "--pcap",
        pcap.to_str().unwrap(),
        "--pcap-at",
        "sender7",
    ]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("--pcap-at sender7: there is no interface `sender7`; there are: receiver, bottleneck"),
        "{text}"
    );
    assert!(!pcap.exists(), "a file was begun for nothing");
}

#[test]
fn the_keys_are_listed() {
    let text = told(&["keys"]);
    for key in ["senders", "switch.buffer", "tcp.rto_min", "workload.volume", "network.topology", "pac.lambda"] {
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some(key)), "{key} in {text}");
    }
}

/// The commands that a text shows, one for each line that begins with `ackgate sim` (comment signs aside); lines that end
/// in a backslash go on.
fn commands(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n#", " ").replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.trim_start_matches(['#', ' ']));
    let shown = lines.filter_map(|line| line.strip_prefix("ackgate sim "));
    // What a pipe does with the output is not ours.
    let words =
        shown.map(|line| line.split('|').next().unwrap_or_default().split_whitespace().map(str::to_owned).collect());
    words.collect()
}

#[test]
fn the_commands_in_examples_and_manual_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files: Vec<PathBuf> =
        fs::read_dir(root.join("scenarios")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.push(root.join("docs/simulating.md"));
    let folder = tempfile::tempdir().unwrap();
    let mut tried = 0;
    for file in files {
        for mut args in commands(&fs::read_to_string(&file).unwrap()) {
            if !args.iter().any(|arg| arg.ends_with(".toml")) {
                continue;
            }
            // Into a folder of our own, and a small part will do: the whole plan is checked in any case.
            for i in 0..args.len() - 1 {
                match args[i].as_str() {
                    "--plot" | "--pcap" | "--series" | "--out" => {
                        args[i + 1] = folder.path().join(&args[i + 1]).display().to_string()
                    }
                    _ => {}
                }
            }
            args.extend(["--set", "rounds=1"].map(str::to_owned));
            if args[0] == "sweep" {
                args.extend(["--shard", "1/10000"].map(str::to_owned));
                // A plot of no point has no axis.
                if let Some(at) = args.iter().position(|arg| arg == "--plot") {
                    args.drain(at..at + 2);
                }
            }
            let output =
                Command::new(env!("CARGO_BIN_EXE_ackgate")).arg("sim").args(&args).current_dir(&root).output().unwrap();
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{}: {args:?}: {complaint}", file.display());
            tried += 1;
        }
    }
    assert!(tried >= 15, "only {tried} commands were found");
}
