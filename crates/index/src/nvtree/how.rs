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
    /// A lower bound of the version that the change will have.
    pub(crate) fn version(self, writer: &Writer<'_>) -> u64 {
        match self {
            How::Grouped => writer.stamp.version(),
            How::Single(ticket) => ticket.last() + 1,
        }
    }

    /// As [`version`](How::version), but the bound may be some time old.
    #[inline(always)]
    pub(crate) fn version_seen(self, writer: &Writer<'_>) -> u64 {
        match self {
            How::Grouped => writer.stamp.version(),
            How::Single(ticket) => ticket.seen() + 1,
        }
    }

    /// Whether a leaf whose newest element is of that version may have an element of this group, which is to be changed
    /// again, or has a side-car that does not show all.
    #[inline(always)]
    pub(crate) fn may_have_own(self, newest: u64, writer: &Writer<'_>) -> bool {
        match self {
            How::Grouped => newest >= writer.stamp.version(),
            How::Single(_) => newest > VERSION_MAX,
        }
    }

    /// Fences a record that was written, before an element that refers to it is, if the change commits by itself.
    #[inline(always)]
    pub(crate) fn fence_record(self, region: &Region) {
        if let How::Single(_) = self {
            // ORDER: the record is durable before an element that commits by itself refers to it.
            region.fence("nvtree.record.fence");
        }
    }

    /// As [`fence_record`](How::fence_record), for a block.
    #[inline(always)]
    pub(crate) fn fence_block(self, region: &Region) {
        if let How::Single(_) = self {
            // ORDER: the block is durable before an element that commits by itself refers to it.
            region.fence("nvtree.block.fence");
        }
    }

    /// Fences the element of a change that commits by itself: it is durable on return.
    #[inline(always)]
    pub(crate) fn fence_element(self, region: &Region) {
        if let How::Single(_) = self {
            // ORDER: the element is durable before any thread is notified, and before another writer comes.
            region.fence("nvtree.single.fence");
        }
    }

    /// Fences what was erased in a leaf that is locked, or left behind by a split, beside changes that commit by
    /// themselves. A group goes on beside nothing else: its commit fences, or the store when it takes the group back.
    pub(crate) fn fence_erased(self, region: &Region) {
        if let How::Single(_) = self {
            // ORDER: the slots are durably empty before another thread finds the leaf unlocked. It may remove a removal that
            // came after what was erased, or unlink the leaf to which that has moved: then what was erased would count again.
            region.fence_flushed("nvtree.erase.fence");
        }
    }

    /// The stamp of the element that is written.
    #[inline]
    pub(crate) fn stamp(self, writer: &Writer<'_>) -> Stamp {
        match self {
            How::Grouped => writer.stamp,
            How::Single(ticket) => Stamp::single(ticket.draw(), writer.stamp.lane()),
        }
    }
}
