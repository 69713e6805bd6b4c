//! Packet sequences with the verdict that each packet deserves, written by hand, run through `control` and through the BPF
//! programs. Where [`crate::differential`] asks whether the two agree, this asks whether they are right.
//!
//! A fixture begins with `=`, its name, and the guard with its buffer in bytes. Then a packet a line, 10 us apart:
//! direction, connection, flags as tcpdump writes them (`S`yn, `F`in, `R`st, `P`sh, `E`ce, `.` for ACK), what is not as
//! usual, and the verdict (`split`: it passes, and a copy is held). Sequence and acknowledgement numbers are relative, 1 unless given; `full` is 1448 bytes of
//! payload, hence a frame of 1514 (IPv4) with timestamps. `win=` behind the colon is the window that goes out instead.
//!
//! Connections: `a` and `b` are IPv4, `six` is IPv6, `tag` and `qinq` carry one and two VLAN tags.

use ackgate_control::flow::FlowKey;
use ackgate_control::gate::Config;
use ackgate_control::policy::Action;
use ackgate_control::segment::{Flags, Segment};
use ackgate_control::seq::SeqNumber;
use ackgate_control::units::Span;
use ackgate_control::wire::{Direction, Meta, emit};

use crate::differential::{Pair, Verdict, key};

const FIXTURES: &str = "
= pac 20000: SYN-ACKs are charged an initial window of ten frames, and the second waits for the first one's data
in  a   S  mss=1460                       : pass
out a   S. mss=1460 win=64240             : pass
in  six S  mss=1460                       : pass
out six S. mss=1460 win=64240             : hold handshake
in  a   .  seq=1 len=2896 frames=2        : pass
in  a   .  seq=2897 len=2896 frames=2     : pass
in  a   .  seq=5793 len=2896 frames=2     : pass
in  a   .  seq=8689 len=2896 frames=2     : pass
in  a   .  seq=11585 len=2896 frames=2    : pass
release 1

= pac 20000: for a client it is the handshake's last ACK that brings the initial window
out six S  mss=1460                       : pass
in  six S. mss=1460                       : pass
out six .  win=64240                      : pass
out a   S  mss=1460                       : pass
in  a   S. mss=1460                       : pass
out a   P. len=100 win=64240              : hold handshake

= credit 87382: a SYN-ACK offers the initial window unscaled; later windows count in units of the scale, rounded up
in  a   S  mss=1460 scale=9               : pass
out a   S. mss=1460 scale=7 win=64240     : pass win=14480
in  a   .                                 : pass
in  a   .  full                           : pass
out a   .  ack=1449 win=600               : pass win=453
in  a   .  seq=1449 full                  : pass
out a   .  ack=2897 win=100               : pass

= credit 87382: without a window scale the field counts bytes: 40 segments, what the budget begins with
in  six S  mss=1440                       : pass
out six S. mss=1440 win=64240             : pass win=14280
in  six .  len=1428                       : pass
out six .  ack=1429 win=64240             : pass win=57120

= credit 87382: a connection first seen in mid-stream has an unknown scale: its windows stay as they are
out a   .  win=500                        : pass
in  a   .  full                           : pass
out a   .  ack=1449 win=500               : pass

= credit 10667: an ACK that gets no grant leaves with the edge as it is, and a copy waits; later ones pass beside the copy
in  a   S  mss=1460                       : pass
out a   S. mss=1460 win=64240             : pass win=2896
in  b   S  mss=1460                       : pass
out b   S. mss=1460 win=64240             : pass win=2896
in  six S  mss=1440                       : pass
out six S. mss=1440 win=64240             : hold handshake
in  a   .  full                           : pass
in  a   .  seq=1449 full                  : pass
out a   .  ack=2897 win=64240             : split win=0
in  a   .  seq=1449 full                  : pass
out a   .  ack=2897 win=64240 sack        : pass win=0

= credit 10667: the request behind the handshake that we have begun leaves without a grant, and a bare copy waits; what is too large to be copied leaves with its grant
in  b    S  mss=1460                      : pass
out b    S. mss=1460 win=64240            : pass win=2896
in  six  S  mss=1440                      : pass
out six  S. mss=1440 win=64240            : pass win=2856
in  a    S  mss=1460                      : pass
out a    S. mss=1460 win=64240            : hold handshake
out tag  S  mss=1460 win=64240            : pass
in  tag  S. mss=1460                      : pass
out qinq S  mss=1440 win=64240            : pass
in  qinq S. mss=1440                      : pass
out tag  P. len=1445 win=64240            : split win=0
out qinq P. len=1445 win=64240            : pass win=2856

= credit 96000: beside another's window that does not fit, ACKs in the middle of a stream are left out; a push is acknowledged at once
in  b   S  mss=1460                       : pass
out b   S. mss=1460 scale=7 win=64240     : pass
in  a   S  mss=1460                       : pass
out a   S. mss=1460 scale=7 win=64240     : pass win=14480
in  a   .                                 : pass
in  a   .  len=2896 frames=2              : pass
out a   .  ack=2897 win=40                : pass
in  a   .  seq=2897 len=2896 frames=2     : pass
out a   .  ack=5793 win=40                : pass
in  a   .  seq=5793 len=2896 frames=2     : pass
out a   .  ack=8689 win=40                : pass
in  a   .  seq=8689 len=2896 frames=2     : pass
out a   .  ack=11585 win=40               : pass
in  a   .  seq=11585 full                 : pass
out a   .  ack=13033 win=40               : discard
in  a   P. seq=13033 full                 : pass
out a   .  ack=14481 win=40               : pass win=23

= pac 4500: an ACK triggers what it acknowledges and as much again, here 3028 bytes; what no longer fits waits
out a   .                                 : pass
out b   .                                 : pass
in  a   .  full                           : pass
in  b   .  full                           : pass
out a   .  ack=1449                       : pass
out b   .  ack=1449                       : hold ack
release 0
in  a   .  seq=1449 full                  : pass
release 0
in  a   .  seq=2897 full                  : pass
release 1

= pac 4500: duplicate ACKs do not wait for other connections, but keep their place behind an ACK of their own
out a   .                                 : pass
out b   .                                 : pass
out six .                                 : pass
in  a   .  full                           : pass
out a   .  ack=1449                       : pass
in  b   .  seq=1449 full                  : pass
out b   .                                 : pass
out b   .                                 : pass
in  six .  full                           : pass
out six .  ack=1449                       : hold ack
in  six .  seq=2897 full                  : pass
out six .  ack=1449                       : hold urgent
release 2

= pac 4500: SACK is a sign of loss, whatever the window says
out a   .                                 : pass
out b   .                                 : pass
in  a   .  full                           : pass
out a   .  ack=1449                       : pass
in  b   .  seq=1449 full                  : pass
out b   .  sack win=800                   : pass

= pac 4500: a SACK block below the acknowledgement number reports a duplicate, and waits like any ACK
out a   .                                 : pass
out b   .                                 : pass
in  a   .  full                           : pass
out a   .  ack=1449                       : pass
in  b   .  full                           : pass
in  b   .  seq=1449 full                  : pass
out b   .  ack=1449 dsack                 : hold ack

= pac 4500: the duplicate ACK that a retransmission causes by overtaking a held ACK is dropped, and the ACK stays
out a   .                                 : pass
out b   .                                 : pass
in  a   .  full                           : pass
in  b   .  full                           : pass
out a   .  ack=1449                       : pass
out b   .  ack=1449                       : hold ack
in  b   .  full                           : pass
out b   .  ack=1449                       : hold stale
discard 1
in  a   .  seq=1449 len=2896 frames=2     : pass
release 1

= pac 4500: a zero window triggers nothing, and its end does not wait
out a   .                                 : pass
out b   .                                 : pass
in  a   .  full                           : pass
out a   .  ack=1449                       : pass
out b   .  win=0                          : pass
in  b   .  full                           : pass
out b   .  ack=1449 win=500               : pass

= pac 4500: a FIN says that what was charged will not come
out a   .                                 : pass
out b   .                                 : pass
in  a   .  full                           : pass
in  b   .  full                           : pass
out a   .  ack=1449                       : pass
out b   .  ack=1449                       : hold ack
in  a   F. seq=1449                       : pass
release 1

= pac 4500: so does a reset, from either side, inside the window that was offered
out a   .                                 : pass
out b   .                                 : pass
out six .                                 : pass
in  a   .  full                           : pass
in  b   .  full                           : pass
in  six .  full                           : pass
out a   .  ack=1449                       : pass
out b   .  ack=1449                       : hold ack
out six .  ack=1449                       : hold ack
in  a   R  seq=90000000                   : pass
release 0
in  a   R  seq=1449                       : pass
release 1
out b   R. ack=1449                       : pass
release 1

= pac 4500: a request wakes a sender that may have kept its window; the second waits for the first one's response
out a   P. len=100                        : pass
out b   P. len=100                        : hold request
in  a   .  full                           : pass
in  a   P. seq=1449 len=900               : pass
release 1

= pac-ktls 4500: what the card encrypts is never taken off its way, not even behind a held ACK; ACKs are
out a   P. len=100                        : pass
out b   P. len=100                        : pass
in  a   .  full                           : pass
in  b   .  full                           : pass
out a   .  ack=1449                       : hold ack
out a   P. seq=101 ack=1449 len=100       : pass

= pac 4500: no request but an upload: nothing waits
out a   .                                 : pass
in  a   .  full                           : pass
out a   .  ack=1449                       : pass
out b   .  len=2896 frames=2              : pass
out b   P. seq=2897 len=2896 frames=2     : pass

= pac 4500: requests whose responses are brief do not wait
out b   P. len=100                        : pass
in  b   P. len=200                        : pass
out a   .                                 : pass
in  a   .  full                           : pass
out a   .  ack=1449                       : pass
out b   P. seq=101 ack=201 len=100        : pass

= pac 4500: tags are part of a frame, and of the connection
out tag  .                                : pass
out qinq .                                : pass
in  tag  . full                           : pass
in  qinq . full                           : pass
out tag  . ack=1449                       : pass
out qinq . ack=1449                       : hold ack
in  tag  . seq=1449 len=2896 frames=2     : pass
release 1

= pac 7000: an aggregate counts as the frames that it was: four headers pay what two segments and their growth owe
out a   .                                 : pass
out b   .                                 : pass
in  a   .  len=2896 frames=2              : pass
in  b   .  full                           : pass
out a   .  ack=2897                       : pass
out b   .  ack=1449                       : hold ack
in  a   .  seq=2897 full                  : pass
in  a   .  seq=4345 len=2896 frames=2     : pass
release 1

= pac 4500 isn=0xfffffc00: numbers wrap: what lies behind the wrap is later, what lies before it is old
out a   .                                 : pass
out b   .                                 : pass
in  a   .  full                           : pass
in  b   .  full                           : pass
out a   .  ack=1449                       : pass
out b   .  ack=1449                       : hold ack
out b   .  ack=1                          : pass
in  a   .  seq=1449 len=2896 frames=2     : pass
release 1

= pac 4600: a sender that is told of congestion does not grow: its ACK triggers what it acknowledges and no more
out a   .                                 : pass
out b   .                                 : pass
in  a   .  full ce                        : pass
in  b   .  full                           : pass
out a   E. ack=1449                       : pass
out b   .  ack=1449                       : pass

= pac 8000: when all frames of an interval are marked, the threshold halves (PAC Eq. 2 with alpha 1)
out a   SEC mss=1460                      : pass
in  a   S.E mss=1460                      : pass
out a   .  win=64240                      : pass
out b   .                                 : pass
in  a   .  full ce                        : pass
wait 300us
in  b   .  full                           : pass
out a   .  ack=1449                       : pass
out b   .  ack=1449                       : hold ack

= pac 4500: what our side has not answered is not remembered
in  a   .  full                           : pass
in  a   S. mss=1460                       : pass
out b   R                                 : pass
";

#[test]
fn every_packet_gets_the_verdict_that_is_written_beside_it() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for fixture in FIXTURES.split("\n= ").skip(1) {
        let (head, body) = fixture.split_once('\n').unwrap();
        let (guard, _) = head.split_once(": ").unwrap();
        let Some(mut pair) = Pair::load(config(guard)) else { return };
        let isn = guard.split_once("isn=0x").map_or(0, |(_, hex)| u32::from_str_radix(hex, 16).unwrap());
        for line in body.lines().filter(|line| !line.is_empty()) {
            if let Err(why) = run(&mut pair, SeqNumber(isn), line) {
                wrong.push(format!("{head}\n{line}\n{why}"));
            }
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(count > 15, "the table was not read: {count} fixtures");
}

/// `pac 4500`, `credit 87382`.
fn config(guard: &str) -> Config {
    let mut words = guard.split(' ');
    let (policy, buffer) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
    match policy {
        "pac" => Config { bound_windows: false, ..Config::new(buffer) },
        "credit" => Config::credit(buffer),
        // The card encrypts what carries data.
        "pac-ktls" => Config { bound_windows: false, leave_data: true, ..Config::new(buffer) },
        _ => panic!("no guard: {guard}"),
    }
}

fn run(pair: &mut Pair, isn: SeqNumber, line: &str) -> Result<(), String> {
    let compare = |found: String, written: &str| {
        if found == written { Ok(()) } else { Err(format!("written: {written}\n  found: {found}")) }
    };
    if let Some(wait) = line.strip_prefix("wait ") {
        pair.wait(Span::micros(wait.strip_suffix("us").unwrap().parse().unwrap()));
        return Ok(());
    }
    if let Some((packet, written)) = line.split_once(':') {
        pair.wait(Span::micros(10));
        let (frame, meta, direction) = frame(isn, packet.trim());
        let found = match pair.packet(&frame, &meta, direction)? {
            Verdict::Pass(None) => "pass".into(),
            Verdict::Pass(Some(window)) => format!("pass win={window}"),
            Verdict::Split(None) => "split".into(),
            Verdict::Split(Some(window)) => format!("split win={window}"),
            Verdict::Discard => "discard".into(),
            Verdict::Hold(class) => format!("hold {}", format!("{class:?}").to_lowercase()),
        };
        return compare(found, written.trim());
    }
    let actions = pair.release()?;
    let released = actions.iter().filter(|action| matches!(action, Action::Release(..))).count();
    let discarded = actions.iter().filter(|action| matches!(action, Action::Discard(_))).count();
    let word = if discarded == 0 { "release" } else { "discard" };
    compare(format!("{word} {}", released + discarded), line)
}

/// The frame that a line describes.
fn frame(isn: SeqNumber, line: &str) -> (Vec<u8>, Meta, Direction) {
    let mut words = line.split_ascii_whitespace();
    let direction = if words.next() == Some("in") { Direction::Ingress } else { Direction::Egress };
    let key = connection(words.next().unwrap());
    let flags = words.next().unwrap().chars().fold(Flags(0), |flags, letter| flags | flag(letter));
    let synchronises = u32::from(!flags.has(Flags::SYN));
    let mut segment = Segment {
        seq: isn + synchronises,
        ack: isn + 1,
        flags,
        window: 500,
        frames: 1,
        timestamps: Some((1, 1)),
        ..Segment::default()
    };
    for word in words {
        let (name, value) = word.split_once('=').map_or((word, 0), |(name, value)| (name, value.parse().unwrap()));
        match name {
            "full" => segment.payload = 1448,
            "len" => segment.payload = value,
            "frames" => segment.frames = value as u16,
            "seq" => segment.seq = isn + value,
            "ack" => segment.ack = isn + value,
            "win" => segment.window = value as u16,
            "mss" => segment.mss = value as u16,
            "scale" => segment.wscale = Some(value as u8),
            "ce" => segment.ce = true,
            "sack" => segment.sack = true,
            "dsack" => (segment.sack, segment.dsack) = (true, true),
            _ => panic!("`{word}` in `{line}`"),
        }
    }
    let frame = emit(&key, &segment, direction);
    let aggregate = u16::from(segment.frames > 1);
    let meta = Meta {
        gso_segs: aggregate * segment.frames,
        gso_size: aggregate * (segment.payload / u32::from(segment.frames)) as u16,
        ..Meta::whole(&frame)
    };
    (frame, meta, direction)
}

/// The random test's connections by their encapsulation, and one more over IPv4.
fn connection(name: &str) -> FlowKey {
    match name {
        "a" => key(0, 0),
        "b" => key(1, 0),
        "six" => key(0, 1),
        "tag" => key(0, 2),
        "qinq" => key(0, 3),
        _ => panic!("no connection is called `{name}`"),
    }
}

fn flag(letter: char) -> Flags {
    match letter {
        'S' => Flags::SYN,
        'F' => Flags::FIN,
        'R' => Flags::RST,
        'P' => Flags::PSH,
        'E' => Flags::ECE,
        'C' => Flags::CWR,
        '.' => Flags::ACK,
        _ => panic!("no flag is written `{letter}`"),
    }
}
