//! Every target over its corpus, and over a fixed number of mutations of it: the same ones each time.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use ackgate_fuzz::TARGETS;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};

/// Mutations of each target.
const CASES: u32 = 4000;
/// Bytes that lengths, flags and texts are decided by.
const TELLING: [u8; 16] = *b"\0\x01\x05\x08\x7f\x80\xff\n =.,-\"19";

/// What is done to a seed.
#[derive(Clone, Debug)]
enum Change {
    Set(Index, u8),
    Telling(Index, Index),
    Insert(Index, Vec<u8>),
    Remove(Index, u8),
    Cut(Index),
    /// From here on it goes on as another seed does from there on.
    Splice(Index, Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        4 => (at(), at()).prop_map(|(at, which)| Change::Telling(at, which)),
        1 => (at(), proptest::collection::vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        2 => (at(), 1..8_u8).prop_map(|(at, length)| Change::Remove(at, length)),
        1 => at().prop_map(Change::Cut),
        1 => (at(), at(), at()).prop_map(|(at, seed, from)| Change::Splice(at, seed, from)),
    ]
}

fn mutate(seeds: &[Vec<u8>], seed: &Index, changes: &[Change]) -> Vec<u8> {
    let mut bytes = seed.get(seeds).clone();
    for change in changes {
        let length = bytes.len();
        match change {
            Change::Insert(at, more) => {
                let at = at.index(length + 1);
                bytes.splice(at..at, more.iter().copied());
            }
            _ if length == 0 => {}
            Change::Set(at, byte) => bytes[at.index(length)] = *byte,
            Change::Telling(at, which) => bytes[at.index(length)] = *which.get(&TELLING),
            Change::Remove(at, count) => {
                let at = at.index(length);
                bytes.drain(at..(at + usize::from(*count)).min(length));
            }
            Change::Cut(at) => bytes.truncate(at.index(length)),
            Change::Splice(at, seed, from) => {
                let other = seed.get(seeds);
                bytes.truncate(at.index(length));
                bytes.extend_from_slice(&other[from.index(other.len() + 1)..]);
            }
        }
    }
    bytes
}

/// The corpus of a target, in the order of its files' names.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![here.join("corpus").join(target)];
    if target == "scenario" {
        folders.push(here.join("../scenarios"));
    }
    let listed = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("each target has a corpus"));
    let mut files: Vec<PathBuf> = listed.map(|entry| entry.expect("it can be listed").path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).expect("it can be read")).collect()
}

#[test]
fn nothing_in_a_corpus_or_near_it_breaks_its_target() {
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        assert!(seeds.len() > 3, "{name}");
        for seed in &seeds {
            target(seed);
        }
        let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config.clone(), TestRunner::deterministic().new_rng());
        let near = (any::<Index>(), proptest::collection::vec(change(), 1..6));
        let tried = runner.run(&near, |(seed, changes)| {
            target(&mutate(&seeds, &seed, &changes));
            Ok(())
        });
        if let Err(problem) = tried {
            panic!("{name}: {problem}");
        }
    }
}

/// What the test above is worth: its mutations reach what a target looks for.
#[test]
fn mutations_are_understood_and_refused() {
    let seeds = seeds("frame");
    let (read, refused) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::deterministic();
    let near = (any::<Index>(), proptest::collection::vec(change(), 1..6));
    runner
        .run(&near, |(seed, changes)| {
            let bytes = mutate(&seeds, &seed, &changes);
            let frame = bytes.get(16..).unwrap_or_default();
            let meta = ackgate_control::wire::Meta::whole(frame);
            match ackgate_control::wire::parse(frame, &meta, ackgate_control::wire::Direction::Egress) {
                Ok(_) => read.set(read.get() + 1),
                Err(_) => refused.set(refused.get() + 1),
            }
            Ok(())
        })
        .expect("nothing is claimed");
    assert!(read.get() > 20 && refused.get() > 20, "{read:?} {refused:?}");
}
