//! Registers of six bits each, the low bits of a byte first.

use super::hash::REGISTERS;

/// Bits of a register.
const BITS: usize = 6;
/// Bytes of all registers.
pub(super) const DENSE_SIZE: usize = REGISTERS * BITS / 8;

/// The two bytes in which a register lies, and how far from their low end.
fn word(registers: &[u8], index: usize) -> (usize, u32, u16) {
    let (at, shift) = (index * BITS / 8, (index * BITS % 8) as u32);
    let high = registers.get(at + 1).copied().unwrap_or(0);
    (at, shift, u16::from_le_bytes([registers[at], high]))
}

/// A register.
pub(super) fn register(registers: &[u8], index: usize) -> u8 {
    let (_, shift, word) = word(registers, index);
    (word >> shift & 0x3f) as u8
}

/// Raises a register if it is lower; true if it was.
pub(super) fn raise(registers: &mut [u8], index: usize, value: u8) -> bool {
    if register(registers, index) >= value {
        return false;
    }
    let (at, shift, word) = word(registers, index);
    let [low, high] = (word & !(0x3f << shift) | u16::from(value) << shift).to_le_bytes();
    registers[at] = low;
    if let Some(byte) = registers.get_mut(at + 1) {
        *byte = high;
    }
    true
}
