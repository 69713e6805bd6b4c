//! How much stack a program takes at most, as older kernels (6.1) count it: the frame of each function in units of 32 bytes, along every
//! chain of calls. They refuse more than 512 bytes; newer ones (6.18) count in smaller units and accept what the older do not.
//!
//! Counted by the instructions that the verifier has left, as it counts: what no setting reaches is gone from them.

use std::collections::{BTreeMap, BTreeSet};

/// The most that a kernel allows, bytes.
pub const MOST: u32 = 512;
/// The unit of a frame.
const UNIT: u32 = 32;
/// The most functions in a chain that the verifier allows.
const CHAIN: u32 = 8;

/// Bytes of an instruction (RFC 9669 section 3.1).
const LENGTH: usize = 8;
/// Classes (section 3.2).
const LDX: u8 = 1;
const ST: u8 = 2;
const STX: u8 = 3;
const JMP: u8 = 5;
const JMP32: u8 = 6;
/// `r = r'` and `r += number` on 64 bits (section 4.1), a call (section 4.3), and a load of 64 bits (section 5.4).
const MOVE: u8 = 0xbf;
const ADD: u8 = 0x07;
const CALL: u8 = 0x85;
const LOAD: u8 = 0x18;
/// What a call calls if it is a function of the program's own (section 4.3.2), and a load loads if it is one's address (section 5.4).
const LOCAL_CALL: u8 = 1;
const LOCAL_ADDRESS: u8 = 4;
/// The register that points to the frame's end.
const FRAME: u8 = 10;

/// An instruction.
struct Instruction {
    code: u8,
    to: u8,
    from: u8,
    offset: i16,
    number: i32,
}

impl Instruction {
    fn read(bytes: &[u8]) -> Self {
        let (to, from) = match cfg!(target_endian = "little") {
            true => (bytes[1] & 15, bytes[1] >> 4),
            false => (bytes[1] >> 4, bytes[1] & 15),
        };
        let offset = i16::from_ne_bytes([bytes[2], bytes[3]]);
        let number = i32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        Self { code: bytes[0], to, from, offset, number }
    }

    /// The register from whose address on it reads or writes memory.
    const fn base(&self) -> Option<u8> {
        match self.code & 7 {
            LDX => Some(self.from),
            ST | STX => Some(self.to),
            _ => None,
        }
    }

    /// Whether it gives its register another value.
    const fn sets(&self) -> bool {
        !matches!(self.code & 7, ST | STX | JMP | JMP32)
    }

    /// How far from the next instruction the function of the program begins that it calls, or hands on to be called.
    fn calls(&self) -> Option<i64> {
        match (self.code, self.from) {
            // A compiled program keeps the number of the function where the distance was.
            (CALL, LOCAL_CALL) if self.offset != 0 => Some(self.offset.into()),
            (CALL, LOCAL_CALL) | (LOAD, LOCAL_ADDRESS) => Some(self.number.into()),
            _ => None,
        }
    }
}

/// A function: its frame in bytes, and where those that it calls begin.
#[derive(Default)]
struct Function {
    frame: u32,
    calls: BTreeSet<usize>,
}

/// Bytes that the deepest chain of calls takes, from the first instruction on; `program` as the kernel tells it.
pub(super) fn deepest(program: &[u8]) -> u32 {
    let instructions: Vec<_> = program.chunks_exact(LENGTH).map(Instruction::read).collect();
    let called = |at: usize| usize::try_from(at as i64 + 1 + instructions[at].calls()?).ok();
    let first = (!instructions.is_empty()).then_some(0);
    let starts = (0..instructions.len()).filter_map(called).chain(first);
    let mut functions: BTreeMap<usize, Function> = starts.map(|start| (start, Function::default())).collect();
    // Registers that hold the frame's end.
    let mut ends = BTreeSet::new();
    for (at, instruction) in instructions.iter().enumerate() {
        let Some((&start, function)) = functions.range_mut(..=at).next_back() else { continue };
        if at == start {
            ends = BTreeSet::from([FRAME]);
        }
        let below = match instruction.code {
            ADD if ends.contains(&instruction.to) => instruction.number.min(0).unsigned_abs(),
            _ if instruction.base().is_some_and(|base| ends.contains(&base)) => {
                instruction.offset.min(0).unsigned_abs().into()
            }
            _ => 0,
        };
        if instruction.code == MOVE && ends.contains(&instruction.from) {
            ends.insert(instruction.to);
        } else if instruction.sets() {
            ends.remove(&instruction.to);
        }
        function.frame = function.frame.max(below);
        function.calls.extend(called(at));
    }
    depth(&functions, 0, CHAIN)
}

/// Of the function that begins there, and of what it calls; so many may follow each other.
fn depth(functions: &BTreeMap<usize, Function>, start: usize, chain: u32) -> u32 {
    let Some(function) = functions.get(&start).filter(|_| chain > 0) else { return 0 };
    let below = function.calls.iter().map(|&called| depth(functions, called, chain - 1)).max();
    function.frame.max(1).next_multiple_of(UNIT) + below.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(code: u8, to: u8, from: u8, offset: i16, number: i32) -> [u8; LENGTH] {
        let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        let (offset, number) = (offset.to_ne_bytes(), number.to_ne_bytes());
        [code, registers, offset[0], offset[1], number[0], number[1], number[2], number[3]]
    }

    const RETURN: u8 = 0x95;
    const STORE: u8 = 0x7b;
    const FETCH: u8 = 0x79;

    #[test]
    fn the_deepest_chain_of_calls_counts() {
        let program = [
            // Stores 40 bytes below, calls the second function and the third.
            instruction(STORE, FRAME, 1, -40, 0),
            instruction(CALL, 0, LOCAL_CALL, 3, 1),
            instruction(CALL, 0, LOCAL_CALL, 0, 6),
            instruction(CALL, 0, 0, 0, 14),
            instruction(RETURN, 0, 0, 0, 0),
            // Hands 100 bytes to the third, of which it has written some.
            instruction(MOVE, 1, FRAME, 0, 0),
            instruction(STORE, 1, 2, -8, 0),
            instruction(ADD, 1, 0, 0, -100),
            instruction(CALL, 0, LOCAL_CALL, 0, 0),
            // The third, whose own frame is empty: it reads what it was handed.
            instruction(FETCH, 0, 1, -8, 0),
            instruction(RETURN, 0, 0, 0, 0),
        ];
        assert_eq!(deepest(&program.concat()), 64 + 128 + 32);
    }

    #[test]
    fn what_is_called_back_counts() {
        let program = [
            instruction(LOAD, 2, LOCAL_ADDRESS, 0, 3),
            instruction(0, 0, 0, 0, 0),
            instruction(CALL, 0, 0, 0, 181),
            instruction(RETURN, 0, 0, 0, 0),
            instruction(FETCH, 0, FRAME, -48, 0),
            instruction(RETURN, 0, 0, 0, 0),
        ];
        assert_eq!(deepest(&program.concat()), 32 + 64);
        assert_eq!(deepest(&[]), 0);
    }
}
