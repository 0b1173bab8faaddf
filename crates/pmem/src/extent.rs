//! Ranges of the pool file that are written beside the log, and ranges that may be.

/// Whole pages of the pool file that were written beside the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// The checksum of the bytes. Logs of the earliest programs have none: these synced the bytes before the group.
    pub(crate) checksum: Option<u32>,
}

impl Extent {
    /// The offset behind it.
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// An extent whose group is not yet appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenExtent {
    pub(crate) extent: Extent,
    /// Syncs of the pool file that had failed when the extent was written.
    pub(crate) failed_syncs: u64,
}

/// Space that a thread has freed since its last fence: the first so many of its rooms and extents were there then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) rooms: usize,
    pub(crate) extents: usize,
}

/// Space in which a thread has written a record since its last fence, and which holds nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Room {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// All groups before this one must be durable before the space is overwritten in the pool file: one of them
    /// unlinked what had the space before.
    pub(crate) needs: u64,
}
