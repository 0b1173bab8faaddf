//! What names a connection.

/// A slot and how often it was used before, so that a late event cannot reach the slot's next connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Token {
    /// The slot.
    pub(crate) slot: u32,
    /// How often the slot was used before.
    pub(crate) generation: u32,
}

impl Token {
    /// No connection.
    pub(crate) const NONE: Token = Token { slot: u32::MAX, generation: u32::MAX };

    /// As the poll keeps it.
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    /// From what the poll kept.
    pub(crate) fn from_bits(bits: u64) -> Token {
        Token { slot: bits as u32, generation: (bits >> 32) as u32 }
    }
}
