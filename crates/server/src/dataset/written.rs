//! Counts of changes.

/// How much was written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// Puts and removes.
    pub(crate) changes: u64,
    /// Bytes of the values.
    pub(crate) bytes: u64,
    /// Bytes of entries that were added; only while there is a limit of memory.
    pub(crate) added: u64,
    /// Bytes of entries that were removed, likewise.
    pub(crate) removed: u64,
}

impl Written {
    /// What was added and removed since then has not happened.
    pub(super) fn take_back_bytes(&mut self, then: Written) {
        (self.added, self.removed) = (then.added, then.removed);
    }
}
