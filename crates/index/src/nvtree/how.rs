//! How a change commits, and what stamp it gets.

use tembo_pmem::Region;

use crate::{Stamp, Ticket, VERSION_MAX, Writer};

/// How changes commit.
#[derive(Clone, Copy)]
pub(crate) enum How<'c> {
    /// They commit together, with the stamp of the writer.
    Grouped,
    /// Each commits by itself, with a version that it draws by this ticket.
    Single(&'c Ticket<'c>),
}

impl How<'_> {
    /// A version that the change will not be below.
    pub(crate) fn version(self, writer: &Writer<'_>) -> u64 {
        match self {
            How::Grouped => writer.stamp.version(),
            How::Single(ticket) => ticket.last() + 1,
        }
    }

    /// As [`version`](How::version), as it was some time ago.
    #[inline(always)]
    pub(crate) fn version_seen(self, writer: &Writer<'_>) -> u64 {
        match self {
            How::Grouped => writer.stamp.version(),
            How::Single(ticket) => ticket.seen() + 1,
        }
    }

    /// Whether a leaf whose newest element is of that version may have one that is to be changed again, or is not known
    /// well enough.
    #[inline(always)]
    pub(crate) fn may_have_own(self, newest: u64, writer: &Writer<'_>) -> bool {
        match self {
            How::Grouped => newest >= writer.stamp.version(),
            How::Single(_) => newest > VERSION_MAX,
        }
    }

    /// A record was written; what refers to it comes next.
    #[inline(always)]
    pub(crate) fn fence_record(self, region: &Region) {
        if let How::Single(_) = self {
            // ORDER: the record is durable before an element that commits by itself refers to it.
            region.fence("nvtree.record.fence");
        }
    }

    /// As [`fence_record`](How::fence_record), of a block.
    #[inline(always)]
    pub(crate) fn fence_block(self, region: &Region) {
        if let How::Single(_) = self {
            // ORDER: the block is durable before an element that commits by itself refers to it.
            region.fence("nvtree.block.fence");
        }
    }

    /// The element of the change was written, and is durable on return if it commits by itself.
    #[inline(always)]
    pub(crate) fn fence_element(self, region: &Region) {
        if let How::Single(_) = self {
            // ORDER: durable before any thread is notified, and before another writer comes.
            region.fence("nvtree.single.fence");
        }
    }

    /// The stamp of what is written.
    #[inline]
    pub(crate) fn stamp(self, writer: &Writer<'_>) -> Stamp {
        match self {
            How::Grouped => writer.stamp,
            How::Single(ticket) => Stamp::single(ticket.draw(), writer.stamp.lane()),
        }
    }
}
