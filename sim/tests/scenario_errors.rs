//! What a user reads when a scenario is wrong: the place, the key, what is allowed. And that nothing panics.

use ackgate_sim::scenario::{Assignment, Capacity, Document, Scenario, Scheme, Topology, Workload, schema};
use proptest::prelude::*;

fn parse(text: &str) -> Result<Scenario, String> {
    Document::parse("x.toml", text).and_then(|document| document.scenario()).map_err(|error| error.to_string())
}

/// A message with the lists that grow with the project put in: all schemes, all keys of the top level.
fn listed(message: &str) -> String {
    let schemes: Vec<&str> = Scheme::ALL.iter().map(|scheme| scheme.name()).collect();
    let mut tables: Vec<String> = Vec::new();
    for key in schema::keys() {
        let table = key.path.split('.').next().unwrap_or_default().to_owned();
        if !tables.contains(&table) {
            tables.push(table);
        }
    }
    assert!(schemes.len() >= 10 && tables.len() >= 12);
    let group =
        "name, senders, to, rtt, jitter, rate, cc, ecn, mss, initial_window, rto_min, delayed_ack, guarded, workload";
    message.replace("{group}", group).replace("{schemes}", &schemes.join(", ")).replace("{tables}", &tables.join(", "))
}

fn refused(text: &str) -> String {
    parse(text).expect_err(text)
}

fn set(text: &str, changes: &[&str]) -> Result<Scenario, String> {
    let mut document = Document::parse("x.toml", text).map_err(|error| error.to_string())?;
    for change in changes {
        let change = Assignment::parse("--set", change).map_err(|error| error.to_string())?;
        document.set(&change).map_err(|error| error.to_string())?;
    }
    document.scenario().map_err(|error| error.to_string())
}

#[test]
fn an_empty_file_is_the_default_scenario() {
    assert_eq!(parse("").unwrap(), Scenario::default());
    Scenario::default().check().unwrap();
}

#[test]
fn an_unknown_key_lists_what_there_is() {
    assert_eq!(
        refused("senders = 8\n[host]\njiter = \"1us\"\n"),
        "x.toml:3: key `host`: unknown key `jiter`; did you mean `jitter`? Allowed: delay, jitter, timer_jitter, rtt_spread, nic_queue, tso, gro, burst_time, small_queues"
    );
    assert_eq!(
        refused("rto_min = \"1ms\""),
        listed("x.toml:1: unknown key `rto_min`; allowed: {tables} (there is a key `tcp.rto_min`)")
    );
}

#[test]
fn a_value_of_the_wrong_kind_says_which_is_right() {
    for (text, message) in [
        (
            "senders = \"many\"",
            "x.toml:1: key `senders`: is the string \"many\", should be a whole number from 1 to 100000",
        ),
        ("senders = -1", "x.toml:1: key `senders`: is the number -1, should be a whole number from 1 to 100000"),
        ("tcp = 3", "x.toml:1: key `tcp`: is the number 3, should be a table"),
        ("tcp.sack = 1", "x.toml:1: key `tcp.sack`: is the number 1, should be true or false"),
        (
            "tcp.rto_min = 200",
            "x.toml:1: key `tcp.rto_min`: `200` is not a time: its unit is missing (known: ns, us, µs, ms, s); write it like \"120us\", \"200ms\" or \"2s\"",
        ),
        (
            "seed = 1979-05-27",
            "x.toml:1: key `seed`: is the date 1979-05-27, should be a whole number from 0 to 9223372036854775807",
        ),
        ("scheme = \"pack\"", "x.toml:1: key `scheme`: unknown name `pack`; did you mean `pac`? Allowed: {schemes}"),
        (
            "[switch.discipline]\nkind = \"ren\"",
            "x.toml:2: key `switch.discipline.kind`: unknown name `ren`; did you mean `red`? Allowed: droptail, ecn, red",
        ),
        (
            "[switch.discipline]\nmark_above = \"10p\"",
            "x.toml:2: key `switch.discipline.mark_above`: `droptail` has no parameters (no `kind` is given, which means `droptail`)",
        ),
        ("scheme = [\"pac\"]", "x.toml:1: key `scheme`: is a list, should be one of {schemes}"),
        (
            "\n[[workload]]",
            "x.toml:2: key `workload`: is a list, should be one of rounds, long, epochs, on-off, datagrams, trace",
        ),
        (
            "switch.discipline.kind = 3",
            "x.toml:1: key `switch.discipline.kind`: is the number 3, should be one of droptail, ecn, red",
        ),
        (
            "workload.size = \"1KB\"",
            "x.toml:1: key `workload`: unknown key `size`; allowed: volume, per, direction, connections, request, answers, outstanding, start_jitter, pause (there is a key `workload.size`, with kind = \"epochs\")",
        ),
        (
            "[tcp]\nmss = 99999999999999999999",
            "x.toml:2: key `tcp.mss`: `99999999999999999999` is too large for an integer",
        ),
        (
            "background = [{ sendrs = 1 }]",
            "x.toml:1: key `background.0`: unknown key `sendrs`; did you mean `senders`? Allowed: {group}",
        ),
    ] {
        assert_eq!(refused(text), listed(message));
    }
}

#[test]
fn text_that_is_not_toml_names_the_line() {
    let error = refused("senders = 8\nrounds = = 3\n");
    assert!(error.starts_with("x.toml:2: is not valid TOML: "), "{error}");
}

#[test]
fn senseless_scenarios_are_refused_with_a_reason() {
    let cyclic = "[network.topology]\nkind = \"tree\"\nreceiver_at = \"a\"\nsenders_at = [\"b\"]\n\
                  [[network.topology.switches]]\nname = \"a\"\n\
                  [[network.topology.switches]]\nname = \"b\"\nuplink = \"c\"\n\
                  [[network.topology.switches]]\nname = \"c\"\nuplink = \"b\"\n";
    for (text, message) in [
        ("senders = 0", "x.toml:1: key `senders`: 0 senders send nothing: at least 1"),
        ("senders = 4000000000", "x.toml:1: key `senders`: 4000000000 is not between 1 and 100000"),
        ("\nswitch.buffer = 0", "x.toml:2: key `switch.buffer`: a buffer of 0 drops every frame that has to wait"),
        ("switch.buffer = \"1KB\"", "x.toml:1: key `switch.buffer`: 1000 bytes cannot hold a full frame of 1518 bytes"),
        ("network.rate = 0", "x.toml:1: key `network.rate`: a rate of 0 never sends anything"),
        (
            "switch.alpha = 1.0",
            "x.toml:1: key `switch.alpha`: dynamic thresholds are of a memory that ports share: give switch.pool",
        ),
        ("switch.pool = \"1MB\"\nswitch.alpha = 0.0", "x.toml:2: key `switch.alpha`: 0 is not above 0 and at most 64"),
        (
            "[[change]]\nat = \"1s\"",
            "x.toml:1: key `change.0`: nothing changes: give rate, rtt, buffer or several of them",
        ),
        (
            "[[change]]\nbuffer = \"1KB\"",
            "x.toml:2: key `change.0.buffer`: 1000 bytes cannot hold a full frame of 1518 bytes",
        ),
        (
            cyclic,
            "x.toml:9: key `network.topology.switches.1.uplink`: the topology is cyclic: uplinks from `b` never reach a root",
        ),
        ("workload.answers = 0", "x.toml:1: key `workload.answers`: 0 is not between 1 and 1000000"),
        (
            "workload = { direction = \"pull\", outstanding = 0 }",
            "x.toml:1: key `workload.outstanding`: 0 is not between 1 and 1000",
        ),
        (
            "workload.answers = 2",
            "x.toml:1: key `workload.answers`: senders that push are not asked: 1 or none, or `direction = \"pull\"`",
        ),
        (
            "workload.outstanding = 2",
            "x.toml:1: key `workload.outstanding`: senders that push are not asked: 1 or none, or `direction = \"pull\"`",
        ),
        (
            "workload = { direction = \"pull\", answers = 1000000, volume = \"1MB\" }",
            "x.toml:1: key `workload.volume`: 160000000000000 bytes in total are out of range: at most 100000000000000",
        ),
        ("workload.volume = 0", "x.toml:1: key `workload.volume`: 0 bytes are no traffic: at least 1B"),
        (
            "workload = { volume = \"100B\", per = \"round\" }\nsenders = 200",
            "x.toml:1: key `workload.volume`: 100 bytes are too few for 200 senders: some would send nothing",
        ),
        (
            "workload.volume = \"1TB\"",
            "x.toml:1: key `workload.volume`: 160000000000000 bytes in total are out of range: at most 100000000000000",
        ),
        (
            "tcp.rwnd = \"100B\"",
            "x.toml:1: key `tcp.rwnd`: 100 bytes are not between one MSS, 1460, and 1073725440, the largest window that its scale allows",
        ),
        ("network.rate = \"1bit\"", "x.toml:1: key `network.rate`: 1 bit/s is out of range: 1kbit to 10000gbit"),
        (
            "tcp.rto_backoff_max = -2",
            "x.toml:1: key `tcp.rto_backoff_max`: is the number -2, should be a whole number, a power of two from 1 to 65536",
        ),
        (
            "background = [{}, { senders = -1 }]",
            "x.toml:1: key `background.1.senders`: is the number -1, should be a whole number from 1 to 100000",
        ),
        (
            "group = [{ senders = 2 }, { rtt = \"100us\" }]\n[network]\ntopology = \"core\"\nrtt = \"3ms\"",
            "x.toml:1: key `group.1.rtt`: 100us is less than 2ms, the delay of the links that it shares with other senders",
        ),
        (
            "[[group]]\nto = \"beside\"",
            "x.toml:2: key `group.0.to`: takes part in the main workload, which goes to the receiver: give it a workload of its own",
        ),
        ("[[group]]\ncc = \"dctcp\"\necn = \"off\"", "x.toml:3: key `group.0.ecn`: dctcp needs ECN, and it is off"),
        ("[[group]]\n[[group]]\nmss = 60\n", "x.toml:3: key `group.1.mss`: 60 is not between 88 and 65495"),
        (
            "[[background]]\ndelayed_ack = \"1s\"",
            "x.toml:2: key `background.0.delayed_ack`: 1s is not between 1us and 500ms",
        ),
        (
            "warm_up = \"2s\"\ntime_limit = \"1s\"",
            "x.toml:1: key `warm_up`: 2s is not below time_limit, 1s, so nothing would be measured",
        ),
        ("host.gro = true", "x.toml:1: key `host.gro`: bursts arrive where bursts are sent: set host.tso"),
        ("tcp.rto_randomize = nan", "x.toml:1: key `tcp.rto_randomize`: NaN is not between 0 and 10"),
        (
            "tcp = { cc = \"dctcp\", ecn = \"off\" }",
            "x.toml:1: key `tcp.ecn`: dctcp needs ECN: \"auto\", \"on\" or \"plus\"",
        ),
        (
            "scheme = \"pac\"\nswitch.buffer = \"unlimited\"",
            "x.toml: key `pac.threshold`: must be given, since switch.buffer is unlimited",
        ),
        (
            "scheme = \"pac\"\nswitch.buffer = \"1p\"",
            "x.toml:2: key `switch.buffer`: 1518 bytes are not between two full frames, 3036, and 4294967296, as pac.threshold must be, which it stands for",
        ),
        (
            "scheme = \"credit\"\npac.threshold = \"2KB\"",
            "x.toml:2: key `pac.threshold`: 2000 bytes are not between two full frames, 3036, and 4294967296",
        ),
        ("scheme = \"pac\"\npac.max_hold = \"7us\"", "x.toml:2: key `pac.max_hold`: 7us is not between 100us and 10s"),
        ("scheme = \"pac\"\npac.lambda = 0.0001", "x.toml:2: key `pac`: lambda must lie between 0 and 1"),
        ("scheme = \"ictcp\"\nictcp.gamma2 = 0.05", "x.toml:2: key `ictcp`: gamma1 must be less than gamma2"),
        (
            "scheme = \"shaper\"\nshaper.rate = 100",
            "x.toml:2: key `shaper`: the queue would hold ACKs for more than a second: at most `rate` packets",
        ),
        ("scheme = \"hwatch\"\nhwatch.probes = 0", "x.toml:2: key `hwatch`: the number of probes must be 1 to 100"),
        (
            "scheme = \"m21\"\nm21.buffer = \"42B\"",
            "x.toml:2: key `m21.buffer`: the buffer must hold more than one header",
        ),
        ("scheme = \"red\"\nred.max = 3", "x.toml:2: key `red.max`: 3 must not be below min, which is 15"),
        (
            "scheme = \"dctcp\"\ndctcp.mark_above = \"unlimited\"",
            "x.toml:2: key `dctcp.mark_above`: an unlimited threshold never marks",
        ),
        (
            "[workload]\nkind = \"trace\"\nfile = \"absent.csv\"",
            "x.toml:3: key `workload.file`: absent.csv cannot be read: No such file or directory (os error 2)",
        ),
    ] {
        assert_eq!(refused(text), message);
    }
}

#[test]
fn changes_from_the_command_line_win_and_are_named_when_wrong() {
    let file = "senders = 8\nscheme = \"none\"\n[[background]]\nsenders = 1\n";
    let changed = set(
        file,
        &[
            "senders=64",
            "scheme=pac",
            "switch.buffer=100p",
            "network.topology=leaf-spine",
            "network.topology.spines=4",
            "background.0.senders=3",
        ],
    )
    .unwrap();
    assert_eq!((changed.senders, changed.background[0].senders), (64, 3));
    assert_eq!(changed.switch.buffer, Capacity::Packets(100));
    assert!(
        matches!(changed.network.topology, Topology::LeafSpine(fabric) if fabric.spines == 4 && fabric.leaves == 4)
    );
    let volume = set(file, &["workload.volume=32KB"]).unwrap().workload;
    assert!(matches!(volume, Workload::Rounds(rounds) if rounds.volume == 32_000));
    for (change, message) in [
        ("senders", "--set senders: is not of the form key=value, such as tcp.rto_min=10ms"),
        ("senders=0", "--set senders=0: key `senders`: 0 senders send nothing: at least 1"),
        (
            "tcp.mss=big",
            "--set tcp.mss=big: key `tcp.mss`: is the string \"big\", should be a whole number from 88 to 65495",
        ),
        ("tcp.mss.x=1", "--set tcp.mss.x=1: key `tcp.mss`: is a table, should be a whole number from 88 to 65495"),
        ("senders.x=1", "--set senders.x=1: key `senders`: is not a table, so it has no `x`"),
        (
            "background.1.senders=1",
            "--set background.1.senders=1: key `background`: holds 1 entries: `1` must be a number below that",
        ),
        ("tcp..mss=1", "--set tcp..mss=1: key `tcp..mss`: has an empty part"),
        ("tpc.mss=1", "--set tpc.mss=1: unknown key `tpc`; did you mean `tcp`? Allowed: {tables}"),
    ] {
        assert_eq!(set(file, &[change]).unwrap_err(), listed(message));
    }
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn near_misses_never_panic(
        key in "(senders|tcp\\.mss|tcp\\.rto_min|switch\\.buffer|switch\\.discipline|network\\.topology|workload|background|network\\.rate|pac\\.lambda)",
        value in "(\"[0-9a-zA-Zµ.]{0,20}\"|-?[0-9]{1,20}|-?[0-9]{1,3}\\.[0-9]{1,5}e[0-9]{1,3}|\\{ kind = \"(ecn|red|tree|long|trace|epochs)\" \\}|\\[\\[\\]\\]|nan|-inf)",
    ) {
        if let Ok(scenario) = parse(&format!("{key} = {value}")) {
            prop_assert!(scenario.check().is_ok());
        }
    }

    #[test]
    fn arbitrary_changes_never_panic(change in "[a-z.]{0,12}=?\\PC{0,20}") {
        let _ = set("[[background]]\n[[group]]\n", &[&change]);
    }
}

#[test]
fn datagrams_that_make_no_sense_are_refused() {
    let of = |rest: &str| format!("background = [{{ workload = {{ kind = \"datagrams\", {rest} }} }}]");
    for (text, key) in [
        ("workload = { kind = \"datagrams\" }".to_owned(), "workload.kind"),
        (of("payload = 1473"), "background.0.workload.payload"),
        (of("payload = 0"), "background.0.workload.payload"),
        (of("burst = 0"), "background.0.workload.burst"),
        (of("rate = \"0bit\""), "background.0.workload.rate"),
        (of("start = \"2s\", stop = \"1s\""), "background.0.workload.stop"),
    ] {
        let message = refused(&text);
        assert!(message.contains(key), "{text}: {message}");
    }
}
