//! TCP options (RFC 9293 §3.1, RFC 7323, RFC 2018, RFC 2883). A list that does not add up ends there; what came before it counts.

use super::{be16, be32};
use crate::seq::SeqNumber;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
const MD5: u8 = 19;
const AO: u8 = 29;
const MPTCP: u8 = 30;
/// Larger shifts are to be read as 14 (RFC 7323 §2.3).
const MAX_WINDOW_SCALE: u8 = 14;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) mss: u16,
    pub(super) wscale: Option<u8>,
    pub(super) sack: bool,
    /// End of the first SACK block if there is no other.
    pub(super) lone_block: Option<SeqNumber>,
    pub(super) timestamps: Option<(u32, u32)>,
    /// TCP-MD5 or TCP-AO.
    pub(super) signed: bool,
    /// Any of MPTCP's (RFC 8684).
    pub(super) multipath: bool,
}

pub(super) fn parse(bytes: &[u8]) -> Options {
    let mut options = Options::default();
    for (kind, at, length) in entries(bytes) {
        let value = &bytes[at..at + length];
        match (kind, length) {
            (MSS, 2) => options.mss = be16(value),
            (WINDOW_SCALE, 1) => options.wscale = Some(value[0].min(MAX_WINDOW_SCALE)),
            (SACK, 8..) => {
                options.sack = true;
                options.lone_block = (length == 8).then(|| SeqNumber(be32(&value[4..8])));
            }
            (TIMESTAMPS, 8) => options.timestamps = Some((be32(&value[0..4]), be32(&value[4..8]))),
            (MD5 | AO, _) => options.signed = true,
            (MPTCP, _) => options.multipath = true,
            _ => {}
        }
    }
    options
}

/// Where TSval and TSecr stand, if there are any: in the last timestamps option, as [`parse`] has it.
pub(super) fn timestamps_at(bytes: &[u8]) -> Option<usize> {
    entries(bytes).filter(|&(kind, _, length)| (kind, length) == (TIMESTAMPS, 8)).map(|(_, at, _)| at).last()
}

/// Kind, offset of the value, and length of the value of each option.
fn entries(bytes: &[u8]) -> impl Iterator<Item = (u8, usize, usize)> {
    let mut at = 0;
    core::iter::from_fn(move || {
        while bytes.get(at) == Some(&NOP) {
            at += 1;
        }
        let (&kind, &length) = (bytes.get(at)?, bytes.get(at + 1)?);
        let (value, length) = (at + 2, usize::from(length).checked_sub(2)?);
        at = value + length;
        (kind != END && at <= bytes.len()).then_some((kind, value, length))
    })
}
