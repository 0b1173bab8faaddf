//! Records that go to their place in the pool file at once, beside the log.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::generation::write_vouching;
use super::{Checkpoint, RedoLog, State};
use crate::checksum::OuterChecksum;
use crate::disk::Behind;
use crate::extent::{Extent, Room, WrittenExtent};
use crate::mapping::PAGE;
use crate::notes::NoteBook;
use crate::{DiskFile, Error, Fault, LINE, racy};

/// A fence that has written fewer bytes of whole pages than this puts them into the log, unless the next sync is one
/// of the pool file in any case: there they cost no sync of a second file.
pub(crate) const RUNS_MIN: u64 = 16 << 10;

/// As much for what is written one by one where memory is not short, so that a page that differs from the pool file costs
/// nothing before the next checkpoint: the sync of a second file with each group of some tens of KiB costs a server a
/// third of its throughput.
pub(super) const RUNS_MIN_IN_MEMORY: u64 = 128 << 10;

/// As much for objects that are written together, which spare their pages in the mapping as well.
pub(super) const RUNS_MIN_TOGETHER: u64 = 64 << 10;

/// Bytes of a run that are read and written at once.
const PIECE: u64 = 1 << 20;

/// While it lives no line of the range goes into the log. What groups make of it is not known from then on.
pub(super) struct Overwriting<'l> {
    log: &'l RedoLog,
    range: (u64, u64),
}

impl<'l> Overwriting<'l> {
    pub(super) fn begin(log: &'l RedoLog, state: &mut State, range: (u64, u64)) -> Overwriting<'l> {
        state.overwritten.push(range);
        state.hot.forget(range.0, range.1);
        Overwriting { log, range }
    }
}

impl Drop for Overwriting<'_> {
    fn drop(&mut self) {
        let mut state = self.log.lock();
        if let Some(at) = state.overwritten.iter().position(|range| *range == self.range) {
            state.overwritten.swap_remove(at);
        }
    }
}

impl RedoLog {
    /// Writes whole pages of the pool file at `offset`: `len` bytes of `parts`, zeroes behind them. The range is not
    /// read yet; what freed it is in the groups before `needs`. Durable with the group of the thread's next fence.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::DiskFull`], [`Error::Io`]; the range's content is undefined
    /// then, nothing else has changed.
    pub(crate) fn bypass(
        &self,
        book: &NoteBook,
        (offset, len): (u64, u64),
        parts: &[&[u8]],
        needs: u64,
    ) -> Result<(), Error> {
        if !self.mapping.holds(offset, len) {
            return Err(Fault { offset, len, size: self.mapping.reserved() }.into());
        }
        let range = (offset, offset + len);
        let (overwriting, work) = match self.overwrite(range, needs)? {
            Some(overwriting) => (overwriting, None),
            None => {
                let (overwriting, work) = self.wait_until_free(book, range)?;
                (overwriting, Some(work))
            }
        };
        let has_waited = work.is_some();
        let failed_syncs = self.pool.failed();
        let written = self.write_parts(offset, len, parts);
        let written = written.map_err(|e| Error::io("write", &self.pool_path, e));
        let shown = match written {
            Ok(_) => self.show(range.0, range.1),
            // A part of it may be there.
            Err(_) => self.refresh(range),
        };
        let shown = shown.map_err(|e| Error::io("refresh", &self.pool_path, e));
        if let Err(error) = &shown {
            // Threads that take the space would compare with what is not in the pool file.
            self.poison(&mut self.lock(), format!("pool.bypass_show: {error}"));
        }
        let done = written.and_then(|checksum| shown.map(|()| checksum));
        let there = match &done {
            Ok(checksum) => Some(*checksum),
            // What is there is named, whatever it is, where the log has older lines of the range.
            Err(_) if has_waited => self.checksum_there(range),
            Err(_) => None,
        };
        drop(work);
        drop(overwriting);
        let Some(checksum) = there else {
            self.frees.given_up(Some(failed_syncs));
            return done.map(drop);
        };
        let extent = Extent { offset, len, checksum: Some(checksum) };
        book.with(|note| note.add_extent(WrittenExtent { extent, failed_syncs }));
        if has_waited {
            // Older lines of the range may be in the log, which a replay would bring over it if the extent were given up before the
            // next fence.
            self.append(book);
        }
        done.map(drop)
    }

    /// The checksum of what the pool file has in a range of which the log has older lines. If it cannot be read, the log is poisoned:
    /// a replay would bring these over what threads see.
    fn checksum_there(&self, (start, end): (u64, u64)) -> Option<u32> {
        let (mut checksum, mut at) = (OuterChecksum::Xxh3.running(), start);
        let mut piece = vec![0; (end - start).min(PIECE) as usize];
        while at < end {
            let piece = &mut piece[..(end - at).min(PIECE) as usize];
            if let Err(error) = self.pool.read_at(piece, at) {
                self.poison(&mut self.lock(), format!("pool.bypass_read: {error}"));
                return None;
            }
            checksum.put(piece);
            at += piece.len() as u64;
        }
        Some(checksum.value())
    }

    /// Begins to overwrite a range, if that may be.
    pub(super) fn overwrite(
        &self,
        range: (u64, u64),
        needs: u64,
    ) -> Result<Option<Overwriting<'_>>, Error> {
        let mut state = self.lock();
        self.check(&state)?;
        let is_free = state.may_overwrite(range.0, range.1, needs);
        Ok(is_free.then(|| Overwriting::begin(self, &mut state, range)))
    }

    /// Makes a range one that may be overwritten, begins with it, and keeps checkpoints away as long as the result lives.
    fn wait_until_free(
        &self,
        book: &NoteBook,
        range: (u64, u64),
    ) -> Result<(Overwriting<'_>, MutexGuard<'_, Checkpoint>), Error> {
        self.append(book);
        let mut work = self.lock_checkpoint();
        // ORDER: what unlinked the record that had this space is durable before the space is
        // overwritten, for the overwriting is not in the log.
        self.make_durable("log.sync_before_bypass")?;
        let (is_doubtful, next, overwriting) = {
            let mut state = self.lock();
            let overwriting = Overwriting::begin(self, &mut state, range);
            (state.beside.is_doubtful_in(range.0, range.1), state.end.sequence, overwriting)
        };
        if is_doubtful {
            self.vouch(&mut work)?;
        }
        // From here on no checkpoint brings back what the range held before.
        work.voids.paint(range.0, range.1, next);
        Ok((overwriting, work))
    }

    /// Has the log's header say that all groups are durable that are, so that replay does not compare their extents.
    pub(super) fn vouch(&self, work: &mut Checkpoint) -> Result<(), Error> {
        let through = self.lock().durable.sequence - 1;
        // ORDER: a durable header vouches for an extent before its place is overwritten.
        let vouched = self.with_room(|| write_vouching(&mut work.header, through));
        self.totals.log_syncs.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        match vouched {
            Ok(()) => {
                state.beside.vouch(through);
                self.frees.vouched(through + 1);
            }
            // The older header counts, and vouches for less.
            Err(Error::DiskFull { .. }) => {}
            Err(ref error) => self.poison(&mut state, format!("log.vouch: {error}")),
        }
        vouched
    }

    fn write_parts(&self, offset: u64, len: u64, parts: &[&[u8]]) -> io::Result<u32> {
        const ZEROES: [u8; PAGE as usize] = [0; PAGE as usize];
        let (mut at, end, mut checksum) = (offset, offset + len, OuterChecksum::Xxh3.running());
        let mut write = |piece: &[u8]| {
            if piece.is_empty() {
                return Ok(());
            }
            checksum.put(piece);
            let result = self.pool.write_at("pool.bypass_write", piece, at);
            at += piece.len() as u64;
            result
        };
        let mut left = len as usize;
        for part in parts {
            let piece = &part[..part.len().min(left)];
            left -= piece.len();
            write(piece)?;
        }
        write(&ZEROES[..left.min(ZEROES.len())])?;
        debug_assert_eq!(at, end);
        self.wrote_beside(offset, len);
        Ok(checksum.value())
    }

    /// Counts what was written beside the log. The disk takes it in before its sync where that is [worth it](Behind): the sync
    /// of what is little comes some microseconds after it.
    pub(super) fn wrote_beside(&self, offset: u64, len: u64) {
        self.totals.pool_bytes.fetch_add(len, Ordering::Relaxed);
        let worth = self.behind().note(offset, len);
        if let Some((offset, len)) = worth {
            self.pool.begin_writing(offset, len);
        }
    }

    /// What was written beside the log and not asked for.
    pub(super) fn behind(&self) -> MutexGuard<'_, Behind> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the mapping show what the pool file has.
    pub(super) fn show(&self, start: u64, end: u64) -> io::Result<()> {
        if !self.pool_is_simulated() {
            self.mapping.give_back(start, end)?;
            self.lock().pages.forget(start, end);
        }
        Ok(())
    }

    /// Lets the mapping have what the pool file has after a write that failed, of which a part may be there: a copy would have the
    /// older bytes.
    pub(super) fn refresh(&self, (start, end): (u64, u64)) -> io::Result<()> {
        if !self.mapping.holds(start, end - start) {
            return Ok(());
        }
        if self.pool_is_simulated() {
            let mut bytes = vec![0; (end - start) as usize];
            self.pool.read_at(&mut bytes, start)?;
            // SAFETY: the range is mapped, was checked above; it is the region's.
            unsafe { racy::write(bytes.as_ptr(), self.mapping.base().at(start), bytes.len()) };
        }
        self.show(start, end)
    }

    /// Writes the whole pages of some rooms into the pool file, and takes their lines, which are sorted, out of
    /// `lines`. What cannot be written there stays.
    pub(super) fn write_runs(
        &self,
        rooms: &mut [Room],
        lines: &mut Vec<u64>,
        extents: &mut Vec<WrittenExtent>,
    ) {
        let runs = whole_pages(rooms);
        if runs.is_empty() {
            return;
        }
        let bytes: u64 = runs.iter().map(|run| run.end - run.start).sum();
        let mut free = Vec::new();
        // Until they are shown: a line that another thread has given up there, and fences meanwhile, must not be forgotten with the
        // page's older ones.
        let overwriting: Vec<Overwriting<'_>> = {
            let mut state = self.lock();
            if bytes < self.runs_min(RUNS_MIN_IN_MEMORY)
                && extents.is_empty()
                && state.beside.unsynced() == 0
            {
                return;
            }
            runs.iter().for_each(|run| state.free_parts(run, &mut free));
            free.iter().map(|range| Overwriting::begin(self, &mut state, *range)).collect()
        };
        let (before, lines_before) = (extents.len(), lines.len());
        for (start, end) in free {
            let mut at = start;
            while at < end {
                let piece = (end - at).min(PIECE);
                match self.write_run(at, piece) {
                    Some(extent) => extents.push(extent),
                    // It goes through the log, whole, and its checkpoint meets the failure again.
                    None => lines.extend((at..at + piece).step_by(LINE as usize)),
                }
                at += piece;
            }
        }
        drop(overwriting);
        if lines.len() > lines_before {
            lines.sort_unstable();
            lines.dedup();
        }
        let mut written = extents[before..].iter().map(|written| written.extent).peekable();
        lines.retain(|line| {
            while written.next_if(|extent| extent.end() <= *line).is_some() {}
            written.peek().is_none_or(|extent| *line < extent.offset)
        });
    }

    /// Bytes of whole pages that are written beside the log, at least: `in_memory` where memory is not short. On a simulated disk
    /// it is as where memory is short, so that crash tests meet both ways in small pools.
    pub(super) fn runs_min(&self, in_memory: u64) -> u64 {
        match self.mapping.reads_alone() || self.pool_is_simulated() {
            true => RUNS_MIN,
            false => in_memory,
        }
    }

    fn write_run(&self, offset: u64, len: u64) -> Option<WrittenExtent> {
        if !self.mapping.holds(offset, len) {
            return None;
        }
        let mut bytes = vec![0; len as usize];
        // SAFETY: the range is mapped, was checked above; the bytes are the region's, and the vector's are not.
        unsafe { racy::read(self.mapping.base().at(offset), bytes.as_mut_ptr(), bytes.len()) };
        self.write_extent(offset, len, &[&bytes])
    }

    /// Syncs of the pool file.
    pub(crate) fn pool_syncs(&self) -> u64 {
        self.pool.syncs()
    }

    /// Whether the mapping is a copy in memory, because the file cannot be mapped.
    pub(crate) fn pool_is_simulated(&self) -> bool {
        self.pool.descriptor().is_none()
    }
}

impl State {
    /// Whether a range, which is free when all groups before `needs` are durable, may be overwritten in the pool
    /// file: the conditions of [`beside`](super::beside).
    pub(super) fn may_overwrite(&self, start: u64, end: u64, needs: u64) -> bool {
        self.durable.sequence >= needs
            && !self.beside.is_doubtful_in(start, end)
            && self.pages.newest(start, end) < self.start_sequence
    }

    /// Adds the parts of a run that may be overwritten.
    fn free_parts(&self, run: &Room, free: &mut Vec<(u64, u64)>) {
        if self.may_overwrite(run.start, run.end, run.needs) {
            free.push((run.start, run.end));
            return;
        }
        for page in (run.start..run.end).step_by(PAGE as usize) {
            if !self.may_overwrite(page, page + PAGE, run.needs) {
                continue;
            }
            match free.last_mut() {
                Some((_, end)) if *end == page => *end += PAGE,
                _ => free.push((page, page + PAGE)),
            }
        }
    }
}

/// The whole pages that rooms fill together, in runs.
fn whole_pages(rooms: &mut [Room]) -> Vec<Room> {
    rooms.sort_unstable();
    let mut runs: Vec<Room> = Vec::new();
    for room in rooms.iter() {
        match runs.last_mut() {
            Some(run) if run.end >= room.start => {
                run.end = run.end.max(room.end);
                run.needs = run.needs.max(room.needs);
            }
            _ => runs.push(*room),
        }
    }
    let whole = |run: Room| {
        let (start, end) = (run.start.next_multiple_of(PAGE), run.end / PAGE * PAGE);
        (start < end).then_some(Room { start, end, ..run })
    };
    runs.into_iter().filter_map(whole).collect()
}
