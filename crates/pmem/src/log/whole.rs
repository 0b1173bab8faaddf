//! Objects that fill whole pages between them: written to the pool file from where their bytes are.
//!
//! A page of the private mapping that is stored to is read from the file and copied first, though nothing of it stays. So what
//! fills pages goes to its place by one write for as many pages as lie side by side, and the mapping shows them as the
//! file has them. That is done when the objects are written, not at their fence, for the thread may read them.
//!
//! Nothing waits here: what may not be overwritten yet, by the conditions of [`beside`](super::beside), is left to its caller,
//! and so is what a fence would put into the log, because it is little.

use std::ops::Range;

use super::RedoLog;
use super::bypass::{Overwriting, RUNS_MIN_IN_MEMORY, RUNS_MIN_TOGETHER};
use crate::checksum::OuterChecksum;
use crate::extent::{Extent, WrittenExtent};
use crate::mapping::PAGE;
use crate::notes::NoteBook;
use crate::{DiskFile, Error, WholeObject};

/// Bytes of a run at most. Of an extent whose space is given up in part the rest goes through the log.
const RUN_MAX: u64 = 64 << 10;

/// Objects, one behind the other, that fill whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pages {
    start: u64,
    end: u64,
    /// Their places in the order of offsets.
    objects: Range<usize>,
}

/// Pages that may be overwritten, and are kept from others while this lives.
pub(crate) struct WholeRun<'l, 'o> {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// The bytes.
    pub(crate) parts: Vec<&'o [u8]>,
    /// Which of the objects they are.
    pub(crate) objects: Vec<usize>,
    _overwriting: Overwriting<'l>,
}

impl RedoLog {
    /// Those of the objects that fill pages which may be overwritten at once, in runs; none if that would be too little to be
    /// written beside the log. No two of them share a byte.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn whole_runs<'l, 'o>(
        &'l self,
        book: &NoteBook,
        objects: &[WholeObject<'o>],
    ) -> Result<Vec<WholeRun<'l, 'o>>, Error> {
        let mut order: Vec<usize> = (0..objects.len()).collect();
        order.sort_unstable_by_key(|&at| objects[at].offset);
        let ranges: Vec<(u64, u64)> = order.iter().map(|&at| objects[at].range()).collect();
        let has_extents = book.with(|note| note.has_extents());
        let mut state = self.lock();
        self.check(&state)?;
        let is_free = |pages: &Pages| {
            let needs = self.frees.freed(pages.start, pages.end - pages.start);
            state.may_overwrite(pages.start, pages.end, needs)
        };
        let free = joined(pages_filled(&ranges).into_iter().filter(is_free));
        let bytes: u64 = free.iter().map(|pages| pages.end - pages.start).sum();
        let is_little = bytes < self.written_together_min();
        if is_little && !has_extents && state.beside.unsynced() == 0 {
            return Ok(Vec::new());
        }
        let begin = |Pages { start, end, objects: places }| {
            let chosen = &order[places];
            WholeRun {
                offset: start,
                len: end - start,
                parts: chosen.iter().map(|&at| objects[at].bytes).collect(),
                objects: chosen.to_vec(),
                _overwriting: Overwriting::begin(self, &mut state, (start, end)),
            }
        };
        Ok(free.into_iter().map(begin).collect())
    }

    /// Bytes of objects that are written together, at least, unless something is written beside the log in any case.
    pub(crate) fn written_together_min(&self) -> u64 {
        self.runs_min(RUNS_MIN_TOGETHER)
    }

    /// Writes a run; whether that was done. Durable with the group of the thread's next fence. If it was not, the content of
    /// the range is undefined: it may be written in another way, which meets the failure again.
    pub(crate) fn write_whole(&self, book: &NoteBook, run: &WholeRun<'_, '_>) -> bool {
        self.write_now(book, (run.offset, run.len), &run.parts)
    }

    /// Writes a record of `len` bytes, which begins at a page and has the rest of its last page, if its place may be overwritten at
    /// once (what freed it is in the groups before `needs`), and if the record is enough to be written beside the log. Returns whether
    /// it was written, as [`write_whole`](RedoLog::write_whole).
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn write_alone(
        &self,
        book: &NoteBook,
        (offset, len): (u64, u64),
        parts: &[&[u8]],
        needs: u64,
    ) -> Result<bool, Error> {
        const ZEROES: [u8; PAGE as usize] = [0; PAGE as usize];
        let whole = len.next_multiple_of(PAGE);
        let is_little = whole < self.runs_min(RUNS_MIN_IN_MEMORY);
        if is_little && !book.with(|note| note.has_extents()) {
            return Ok(false);
        }
        let Some(_overwriting) = self.overwrite((offset, offset + whole), needs)? else {
            return Ok(false);
        };
        let behind = &ZEROES[..(whole - len) as usize];
        let parts: Vec<&[u8]> = parts.iter().copied().chain([behind]).collect();
        Ok(self.write_now(book, (offset, whole), &parts))
    }

    fn write_now(&self, book: &NoteBook, (offset, len): (u64, u64), parts: &[&[u8]]) -> bool {
        let failed_syncs = self.pool.failed();
        let written = self.write_extent(offset, len, parts);
        if written.is_none() {
            // A part of it may be there. Where it cannot be shown either, what writes it in another way stores all of it.
            let _ = self.refresh((offset, offset + len));
            self.frees.given_up(Some(failed_syncs));
        }
        let Some(written) = written else { return false };
        book.with(|note| note.add_extent(written));
        true
    }

    /// Writes whole pages of the pool file, and lets the mapping show them. `None`: that was not possible.
    pub(super) fn write_extent(
        &self,
        offset: u64,
        len: u64,
        parts: &[&[u8]],
    ) -> Option<WrittenExtent> {
        if !self.mapping.holds(offset, len) {
            return None;
        }
        let checksum = OuterChecksum::Xxh3.of_parts(parts);
        let failed_syncs = self.pool.failed();
        self.pool.write_parts_at("pool.run_write", parts, offset).ok()?;
        self.wrote_beside(offset, len);
        // A private copy would hide what was written.
        self.show(offset, offset + len).ok()?;
        let extent = Extent { offset, len, checksum: Some(checksum) };
        Some(WrittenExtent { extent, failed_syncs })
    }
}

/// The pages that ranges fill, which are in order: as few at a time as end where a range does.
fn pages_filled(ranges: &[(u64, u64)]) -> Vec<Pages> {
    let (mut filled, mut at) = (Vec::new(), 0);
    while let Some(&(start, mut end)) = ranges.get(at) {
        let mut next = at + 1;
        if !start.is_multiple_of(PAGE) || start == end {
            at = next;
            continue;
        }
        while !end.is_multiple_of(PAGE)
            && let Some(&(_, further)) = ranges.get(next).filter(|(start, _)| *start == end)
        {
            (end, next) = (further, next + 1);
        }
        if end.is_multiple_of(PAGE) {
            filled.push(Pages { start, end, objects: at..next });
            at = next;
        } else {
            at += 1;
        }
    }
    filled
}

/// Joins those that lie side by side, as far as a run goes.
fn joined(all: impl Iterator<Item = Pages>) -> Vec<Pages> {
    let mut runs: Vec<Pages> = Vec::new();
    for pages in all {
        match runs.last_mut() {
            Some(run)
                if run.end == pages.start
                    && run.objects.end == pages.objects.start
                    && pages.end - run.start <= RUN_MAX =>
            {
                (run.end, run.objects.end) = (pages.end, pages.objects.end);
            }
            _ => runs.push(pages),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_filled_by_what_lies_side_by_side_and_by_nothing_else() {
        let half = PAGE / 2;
        let of = |start: u64, len: u64| (start, start + len);
        let pages = |start, end, objects| Pages { start, end, objects };
        // Two pages of four halves; a half that lacks the other; one page; two and a half that end within a page.
        let ranges = [
            of(0, half),
            of(half, half),
            of(PAGE, half),
            of(PAGE + half, half),
            of(3 * PAGE, half),
            of(5 * PAGE, PAGE),
            of(6 * PAGE + half, half),
            of(7 * PAGE, 2 * PAGE + half),
        ];
        let filled = pages_filled(&ranges);
        let expected =
            [pages(0, PAGE, 0..2), pages(PAGE, 2 * PAGE, 2..4), pages(5 * PAGE, 6 * PAGE, 5..6)];
        assert_eq!(filled, expected);
        let runs = joined(filled.into_iter());
        assert_eq!(runs, [pages(0, 2 * PAGE, 0..4), pages(5 * PAGE, 6 * PAGE, 5..6)]);
    }

    #[test]
    fn a_run_is_no_longer_than_its_most() {
        let count = 3 * RUN_MAX / PAGE;
        let ranges: Vec<_> = (0..count).map(|page| (page * PAGE, (page + 1) * PAGE)).collect();
        let runs = joined(pages_filled(&ranges).into_iter());
        assert_eq!(runs.len(), 3);
        assert!(runs.iter().all(|run| run.end - run.start == RUN_MAX));
        assert_eq!(runs.last().map(|run| run.objects.end), Some(count as usize));
    }
}
