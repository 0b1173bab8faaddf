//! A set of commands.

/// A set of commands, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    /// All of `count` commands, or none.
    pub(super) fn new(count: usize, all: bool) -> Bits {
        let mut bits = Bits(vec![0; count.div_ceil(64)]);
        if all {
            (0..count).for_each(|at| bits.set(at, true));
        }
        bits
    }

    /// Whether it has the command.
    pub(super) fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Takes the command in, or out.
    pub(super) fn set(&mut self, at: usize, is_in: bool) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word = *word & !(1 << (at % 64)) | u64::from(is_in) << (at % 64);
        }
    }
}
