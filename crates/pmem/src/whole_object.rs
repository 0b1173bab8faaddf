//! An object that is written whole.

/// An object on its way into space of its own, all of which it fills.
#[derive(Clone, Copy, Debug)]
pub struct WholeObject<'b> {
    /// Where its first byte goes.
    pub offset: u64,
    /// All of it.
    pub bytes: &'b [u8],
}

impl WholeObject<'_> {
    /// Where it begins, and the offset behind it.
    pub(crate) fn range(&self) -> (u64, u64) {
        (self.offset, self.offset.saturating_add(self.bytes.len() as u64))
    }
}
