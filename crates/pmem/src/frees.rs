//! When space was freed: what may be overwritten in the pool file, and what not yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zerocopy::FromZeros;

use crate::Table;
use crate::notes::NoteBook;

/// When space was last freed is known for pieces of this many bytes.
const PIECE: u64 = 64 << 10;

/// No count of syncs.
const NONE: u64 = u64::MAX;

/// Where the allocator of a region says that space is free. Clones are the same. In domains without a log it does nothing.
#[derive(Clone, Default)]
pub struct Frees {
    log: Option<(Arc<FreeMarks>, Arc<NoteBook>)>,
}

impl Frees {
    /// Of a log, and of what threads have written and not fenced.
    pub(crate) fn new(marks: Arc<FreeMarks>, book: Arc<NoteBook>) -> Frees {
        Frees { log: Some((marks, book)) }
    }

    /// `len` bytes at `offset` are free that were not: to be called when their unlinking has been fenced, and before they
    /// are used again. A thread that wrote there has fenced it, or has [handed it over](crate::Region::hand_over).
    #[inline]
    pub fn note(&self, offset: u64, len: u64) {
        if let Some((marks, book)) = &self.log {
            marks.mark(offset, len);
            marks.given_up(book.with(|note| note.forget(offset, len)));
        }
    }

    /// As [`note`](Frees::note), of space that may be anywhere, in which the calling thread has written nothing since its
    /// last fence.
    pub fn note_anywhere(&self) {
        if let Some((marks, _)) = &self.log {
            raise(&marks.anywhere, marks.next());
        }
    }

    /// Whether there is a log.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.log.is_some()
    }

    /// Whether what is free of `len` bytes at `offset` may be overwritten beside the log, as a rule. Always so where there is no
    /// log.
    #[inline]
    pub fn is_settled(&self, offset: u64, len: u64) -> bool {
        self.log.as_ref().is_none_or(|(marks, _)| marks.is_settled(offset, len))
    }

    /// `len` bytes at `offset` are free again to which nothing on media has referred since they were taken: there was no
    /// unlinking.
    #[inline]
    pub fn note_unused(&self, offset: u64, len: u64) {
        if let Some((marks, book)) = &self.log {
            marks.given_up(book.with(|note| note.forget(offset, len)));
        }
    }
}

/// Before which groups of the log the unlinking of free space was.
pub(crate) struct FreeMarks {
    /// Sequence of the group that will be appended next.
    next: AtomicU64,
    /// All groups before this one are durable, and something durable says so.
    vouched: AtomicU64,
    /// All groups before this one are in the pool file.
    applied: AtomicU64,
    /// Sequence of the group that would be appended next when space was last freed that may be anywhere.
    anywhere: AtomicU64,
    /// Syncs of the pool file that had failed when the first was written of what stands beside the log and no group will name;
    /// [`NONE`]: nothing does.
    unnamed: AtomicU64,
    /// The same for each piece of the region; zero for never. `None` where there is no address space for it.
    pieces: Option<Table<Piece>>,
}

/// What is known of one piece.
#[derive(FromZeros)]
struct Piece {
    /// Sequence of the group that would be appended next when space of it was last freed.
    freed: AtomicU64,
    /// The last group with lines of it.
    logged: AtomicU64,
}

impl FreeMarks {
    /// Of a log whose groups before `next` are durable, and of a region of at most `size_max` bytes.
    pub(crate) fn new(next: u64, size_max: u64) -> FreeMarks {
        FreeMarks {
            next: AtomicU64::new(next),
            vouched: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            anywhere: AtomicU64::new(next),
            unnamed: AtomicU64::new(NONE),
            pieces: Table::new(size_max.div_ceil(PIECE) as usize).ok(),
        }
    }

    /// Group `next` will be appended next.
    pub(crate) fn appended(&self, next: u64) {
        self.next.store(next, Ordering::Release);
    }

    /// All groups before `next` are durable, and something durable says so.
    pub(crate) fn vouched(&self, next: u64) {
        raise(&self.vouched, next);
    }

    /// All groups before `next` are in the pool file.
    pub(crate) fn applied(&self, next: u64) {
        raise(&self.applied, next);
    }

    /// Group `sequence` has lines of the page at `offset`.
    pub(crate) fn logged(&self, offset: u64, sequence: u64) {
        if let Some(piece) = self.piece(offset / PIECE) {
            raise(&piece.logged, sequence);
        }
    }

    /// Whether what freed `len` bytes at `offset` is vouched for, and the log has no lines of their pieces for a checkpoint.
    fn is_settled(&self, offset: u64, len: u64) -> bool {
        let applied = self.applied.load(Ordering::Acquire);
        let mut pieces = pieces(offset, len).filter_map(|piece| self.piece(piece));
        self.freed(offset, len) <= self.vouched.load(Ordering::Acquire)
            && pieces.all(|piece| piece.logged.load(Ordering::Acquire) < applied)
    }

    /// What was written beside the log was given up, or a part of it: no group will name it. If there is something, so many syncs of
    /// the pool file had failed when the first of it was written. To be called before another thread may have the space.
    pub(crate) fn given_up(&self, failed_syncs: Option<u64>) {
        if let Some(failed_syncs) = failed_syncs {
            self.unnamed.fetch_min(failed_syncs, Ordering::AcqRel);
        }
    }

    /// Takes what [`given_up`](FreeMarks::given_up) has noted.
    pub(crate) fn take_unnamed(&self) -> Option<u64> {
        let is_none = self.unnamed.load(Ordering::Acquire) == NONE;
        (!is_none).then(|| self.unnamed.swap(NONE, Ordering::AcqRel))
    }

    /// All that was fenced before the call is in groups before this one.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Acquire)
    }

    /// What was noted as free of `len` bytes at `offset` was unlinked by groups before this one.
    pub(crate) fn freed(&self, offset: u64, len: u64) -> u64 {
        let anywhere = self.anywhere.load(Ordering::Acquire);
        let pieces = pieces(offset, len).filter_map(|piece| self.piece(piece));
        pieces.map(|piece| piece.freed.load(Ordering::Acquire)).fold(anywhere, u64::max)
    }

    fn mark(&self, offset: u64, len: u64) {
        let next = self.next();
        for piece in pieces(offset, len) {
            raise(self.piece(piece).map_or(&self.anywhere, |piece| &piece.freed), next);
        }
    }

    fn piece(&self, piece: u64) -> Option<&Piece> {
        self.pieces.as_ref()?.get(piece as usize)
    }
}

/// The pieces that `len` bytes at `offset` touch.
fn pieces(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset / PIECE..offset.saturating_add(len).div_ceil(PIECE)
}

fn raise(mark: &AtomicU64, to: u64) {
    if mark.load(Ordering::Acquire) < to {
        mark.fetch_max(to, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_waits_for_its_own_unlinking_alone() {
        let marks = FreeMarks::new(5, 8 * PIECE);
        marks.appended(7);
        marks.mark(2 * PIECE + 100, 64);
        marks.appended(9);
        marks.mark(4 * PIECE - 64, 128);
        let found: Vec<u64> = (0..6).map(|piece| marks.freed(piece * PIECE + 64, 64)).collect();
        assert_eq!(found, [5, 5, 7, 9, 9, 5]);
        assert_eq!(marks.freed(PIECE, 2 * PIECE), 7);
        // Behind the region there is nothing to distinguish pieces.
        marks.mark(9 * PIECE, 64);
        assert_eq!(marks.freed(0, 64), 9);
    }

    #[test]
    fn space_is_settled_when_its_unlinking_is_vouched_for_and_its_lines_are_applied() {
        let marks = FreeMarks::new(5, 8 * PIECE);
        assert!(!marks.is_settled(PIECE, 64), "nothing is known of what came before");
        marks.vouched(5);
        marks.applied(5);
        assert!(marks.is_settled(PIECE, 64));
        marks.appended(7);
        marks.mark(PIECE, 64);
        marks.logged(3 * PIECE + 4096, 6);
        let settled =
            |marks: &FreeMarks| (0..4).map(|n| marks.is_settled(n * PIECE, PIECE)).collect();
        let found: Vec<bool> = settled(&marks);
        assert_eq!(found, [true, false, true, false]);
        marks.vouched(7);
        let found: Vec<bool> = settled(&marks);
        assert_eq!(found, [true, true, true, false]);
        marks.applied(7);
        assert!(marks.is_settled(0, 4 * PIECE));
    }
}
