//! TCP options (RFC 9293 §3.1, RFC 7323, RFC 2018). A list that does not add up ends there; what came before it counts.

use super::{be16, be32};

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;
/// Larger shifts are to be read as 14 (RFC 7323 §2.3).
const MAX_WINDOW_SCALE: u8 = 14;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) mss: u16,
    pub(super) wscale: Option<u8>,
    pub(super) sack: bool,
    pub(super) timestamps: Option<(u32, u32)>,
}

pub(super) fn parse(mut bytes: &[u8]) -> Options {
    let mut options = Options::default();
    while let Some(&kind) = bytes.first() {
        if kind == END {
            break;
        }
        if kind == NOP {
            bytes = &bytes[1..];
            continue;
        }
        let length = usize::from(bytes.get(1).copied().unwrap_or(0));
        if length < 2 || length > bytes.len() {
            break;
        }
        let value = &bytes[2..length];
        match (kind, length) {
            (MSS, 4) => options.mss = be16(value),
            (WINDOW_SCALE, 3) => options.wscale = Some(value[0].min(MAX_WINDOW_SCALE)),
            (SACK, 10..) => options.sack = true,
            (TIMESTAMPS, 10) => options.timestamps = Some((be32(&value[0..4]), be32(&value[4..8]))),
            _ => {}
        }
        bytes = &bytes[length..];
    }
    options
}
