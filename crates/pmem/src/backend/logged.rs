//! The `logged` domain as the region sees it.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use super::copy::copy_parts;
use crate::extent::Room;
use crate::log::{RedoLog, Threads, WholeRun};
use crate::mapping::PAGE;
use crate::notes::NoteBook;
use crate::{Error, Frees, WholeObject};

use crate::report::Report;

/// A log, the notes that lead to it, and its threads.
pub(crate) struct Logged {
    book: Arc<NoteBook>,
    log: Arc<RedoLog>,
    threads: Mutex<Threads>,
}

impl Logged {
    pub(crate) fn start(log: RedoLog) -> std::io::Result<Logged> {
        let log = Arc::new(log);
        let threads = Mutex::new(Threads::start(&log)?);
        Ok(Logged { book: Arc::new(NoteBook::new(&log)), log, threads })
    }

    /// The lines that hold `len` bytes at `offset` go into the log with the thread's next fence, which reads them.
    ///
    /// # Safety
    /// They are of the region.
    #[inline]
    pub(super) unsafe fn note(&self, offset: u64, len: u64) {
        self.book.with(|note| note.flushed.add(offset, len));
    }

    #[inline]
    pub(crate) fn fence(&self) {
        if !self.log.is_forked() {
            self.log.append(&*self.book);
        }
    }

    /// What the calling thread has written since its last fence was given up: what went beside the log is named by no group. Lines
    /// are, at once: another thread that finds them in space which it takes leaves those out that are as it wants them.
    pub(crate) fn hand_over(&self) {
        self.log.frees().given_up(self.book.with(|note| note.give_up()));
        self.fence();
    }

    /// Whether the calling thread has flushed something since its last fence.
    pub(crate) fn has_unfenced(&self) -> bool {
        self.book.with(|note| note.noted() > 0)
    }

    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.log.sync()
    }

    pub(crate) fn write_out(&self) -> Result<(), Error> {
        self.log.write_all_out()
    }

    /// Whether pages are given back while no thread is in a section.
    pub(crate) fn gives_pages_back(&self) -> bool {
        !self.log.keeps_pages()
    }

    /// Whether the calling thread may store.
    pub(super) fn may_store(&self) -> bool {
        !self.gives_pages_back() || self.book.with(|note| note.depth > 0)
    }

    pub(crate) fn reserve(&self, lines: u64) -> Result<(), Error> {
        self.log.reserve(&self.book, lines)
    }

    pub(crate) fn end_section(&self) {
        if !self.log.is_forked() {
            self.log.end_section(&self.book);
        }
    }

    pub(crate) fn can_punch(&self) -> bool {
        self.log.can_punch()
    }

    pub(crate) fn punch(&self, offset: u64, len: u64) -> Result<bool, Error> {
        self.log.punch(offset, len)
    }

    pub(crate) fn checkpoint(&self) -> Result<(), Error> {
        self.log.checkpoint()
    }

    /// A record of `len` bytes is about to be stored at `offset`: what its pages have beside it comes together, not page by page.
    #[inline]
    pub(super) fn will_touch(&self, offset: u64, len: u64) {
        self.log.mapping().will_touch(offset, offset + len);
    }

    /// A record of `len` bytes was written at `offset`. Of an object that was allocated, `room` is its size, else zero.
    pub(super) fn note_room(&self, offset: u64, len: u64, room: u64) {
        if room == 0 && len < PAGE {
            return;
        }
        let needs = self.needs(offset, room);
        let end = offset + len.max(room);
        // Pages behind the record are not written. The last one may be filled by the next record.
        let filled = (offset + len).next_multiple_of(PAGE);
        let rest = end / PAGE * PAGE;
        self.book.with(|note| {
            if filled >= rest {
                note.add_room(Room { start: offset, end, needs });
            } else {
                note.add_room(Room { start: offset, end: filled, needs });
                note.add_room(Room { start: rest, end, needs });
            }
        });
    }

    /// Before which group the one is that freed a space in which a record is written.
    fn needs(&self, offset: u64, room: u64) -> u64 {
        let frees = self.log.frees();
        if room > 0 { frees.freed(offset, room) } else { frees.next() }
    }

    /// Where the allocator says that space is free.
    pub(crate) fn frees(&self) -> Frees {
        Frees::new(self.log.frees().clone(), self.book.clone())
    }

    /// Writes a large record: whole pages beside the log, the rest through it.
    ///
    /// # Safety
    /// The parts are `len` bytes, for which there is room at `at`, in the region; none of them lies there.
    pub(super) unsafe fn write_beside(
        &self,
        at: *mut u8,
        (offset, len): (u64, u64),
        parts: &[&[u8]],
        room: u64,
    ) -> Result<(), Error> {
        self.log.check_process()?;
        // Behind the record the last page has nothing else, if it is the object's.
        let filled = len.next_multiple_of(PAGE);
        let whole = if filled <= room { filled } else { len / PAGE * PAGE };
        self.log.bypass(&self.book, (offset, whole), parts, self.needs(offset, room))?;
        if self.log.pool_is_simulated() {
            // SAFETY: the caller's promise.
            unsafe { copy_parts(at, parts) };
        } else {
            let mut skip = whole.min(len) as usize;
            let from = skip;
            let rest: Vec<&[u8]> = parts
                .iter()
                .map(|part| {
                    let cut = skip.min(part.len());
                    skip -= cut;
                    &part[cut..]
                })
                .collect();
            // SAFETY: the caller's promise, of all but the first `from` bytes.
            unsafe { copy_parts(at.wrapping_add(from), &rest) };
        }
        if whole < len {
            // SAFETY: the rest of what the caller has promised.
            unsafe { self.note(offset + whole, len - whole) };
        }
        Ok(())
    }

    /// Writes a record that [fills pages](super::fills_pages) to its place, if that is worth it and can be done without waiting; whether
    /// that was done.
    ///
    /// # Safety
    /// The parts are `len` bytes, for which there is room at `at`, in the region; none of them lies there.
    pub(super) unsafe fn write_alone(
        &self,
        at: *mut u8,
        (offset, len): (u64, u64),
        parts: &[&[u8]],
        room: u64,
    ) -> Result<bool, Error> {
        self.log.check_process()?;
        let needs = self.needs(offset, room);
        let is_written = self.log.write_alone(&self.book, (offset, len), parts, needs)?;
        if is_written && self.log.pool_is_simulated() {
            // SAFETY: the caller's promise.
            unsafe { copy_parts(at, parts) };
        }
        Ok(is_written)
    }

    /// Bytes of objects that are written together, at least.
    #[inline]
    pub(crate) fn written_together_min(&self) -> u64 {
        self.log.written_together_min()
    }

    /// Those of the objects that can be written to their places now, in runs: none unless that is worth it.
    pub(crate) fn whole_runs<'l, 'o>(
        &'l self,
        objects: &[WholeObject<'o>],
    ) -> Result<Vec<WholeRun<'l, 'o>>, Error> {
        self.log.check_process()?;
        self.log.whole_runs(&self.book, objects)
    }

    /// Writes a run, which lies at `at`; whether that was done.
    ///
    /// # Safety
    /// It lies there, in the region, and none of its parts does.
    pub(crate) unsafe fn write_whole(&self, at: *mut u8, run: &WholeRun<'_, '_>) -> bool {
        let is_written = self.log.write_whole(&self.book, run);
        if is_written && self.log.pool_is_simulated() {
            // SAFETY: the caller's promise.
            unsafe { copy_parts(at, &run.parts) };
        }
        is_written
    }

    /// Whether the log's file has a name and its length, see [`check_files`](crate::Region::check_files).
    pub(crate) fn check_file(&self) -> Result<(), Error> {
        self.log.check_file()
    }

    /// Fills in what the log knows.
    pub(crate) fn report(&self, report: &mut Report) {
        let totals = &self.log.totals;
        (report.log_used, report.log_capacity) = self.log.usage();
        (report.private_bytes, report.private_limit) = self.log.private_bytes();
        report.checkpoints = totals.checkpoints.load(Ordering::Relaxed);
        report.log_syncs = totals.log_syncs.load(Ordering::Relaxed);
        report.log_bytes_written = totals.log_bytes.load(Ordering::Relaxed);
        report.pool_bytes_written = totals.pool_bytes.load(Ordering::Relaxed);
        report.pool_syncs = self.log.pool_syncs();
        report.poisoned = self.log.is_poisoned();
    }

    pub(crate) fn stop(&self) {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).stop(&self.log);
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        if self.log.is_forked() {
            // A child has none of these threads.
            std::mem::forget(std::mem::take(&mut self.threads));
            std::mem::forget(self.log.clone());
        } else {
            self.stop();
        }
    }
}
