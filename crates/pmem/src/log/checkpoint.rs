//! The checkpoint: groups go from the log into the pool file, and their room becomes free.
#![allow(unsafe_code)]

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use super::group::{LogKind, Place, Walk};
use super::last::keep_last;
use super::{Checkpoint, Failure, RedoLog};
use crate::disk::Runs;
use crate::mapping::PAGE;
use crate::{DiskFile, Error, LINE};

/// Bytes after which a checkpoint waits for the disk: so many may stand before a sync of the log.
const DRAIN_AFTER: u64 = 2 << 20;

/// Pages that are asked for before they are written to: where pages come from the disk one by one, these come side by side.
const PAGES_ASKED: usize = 64;

impl RedoLog {
    /// Brings all groups that were appended before the call into the pool file, durably.
    ///
    /// # Errors
    /// A failure of the pool file leaves the log as it was: the same groups are tried again. A
    /// failure of the log poisons.
    pub(crate) fn checkpoint(&self) -> Result<(), Error> {
        self.checkpoint_through().map(drop)
    }

    /// As [`checkpoint`](RedoLog::checkpoint). Returns the place behind the last group that is in the pool file.
    pub(super) fn checkpoint_through(&self) -> Result<Place, Error> {
        let mut work = self.lock_checkpoint();
        let was_short = self.is_short(&self.lock());
        let result = self.checkpoint_locked(&mut work);
        // Records that go beside the log wait for this lock within their section.
        drop(work);
        self.measure(0);
        if let Ok(through) = result {
            self.give_excess_back(through, was_short);
        }
        let mut state = self.lock();
        state.failure = result.as_ref().err().map(|error| Failure {
            full: matches!(error, Error::DiskFull { .. }),
            text: error.to_string(),
        });
        state.failures += u64::from(result.is_err());
        state.checkpoints_ended += 1;
        if result.is_ok() {
            self.forget_wanted(&mut state);
        }
        self.notify(&state);
        result
    }

    pub(super) fn lock_checkpoint(&self) -> MutexGuard<'_, Checkpoint> {
        self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn checkpoint_locked(&self, work: &mut Checkpoint) -> Result<Place, Error> {
        // ORDER: the log is durable through a group before a line of it reaches the pool file: else
        // a crash could keep the line and lose the group, and with it what must come with the line.
        self.make_durable("log.sync_before_checkpoint")?;
        let (to, is_doubtful) = {
            let state = self.lock();
            (state.durable, state.beside.is_doubtful())
        };
        if is_doubtful {
            // Lines may come to lie over an extent, whose checksum fails then.
            self.vouch(work)?;
        }
        let mut through = work.from;
        while through != to {
            through = self.apply(work, through, to)?;
            // Groups that an opening found go together: pages may still wait for their lines.
            if through.sequence >= self.opened.sequence {
                self.end_pending();
                self.trim(work, through)?;
            }
        }
        Ok(to)
    }

    /// The pool file holds all that was replayed. A mapping that is a copy gets the rest of it.
    fn end_pending(&self) {
        let Some(pending) = &self.pending else {
            return;
        };
        if self.pool_is_simulated() {
            pending.pages().for_each(|page| pending.bring(page * PAGE, PAGE));
        }
        pending.forget();
    }

    /// Writes the last values of some groups from `from` on into the pool file; the place behind
    /// them.
    fn apply(&self, work: &Checkpoint, from: Place, to: Place) -> Result<Place, Error> {
        let len = (to.position - from.position).min(self.batch());
        let view = self.ring.view(from.position, len);
        let view = view.map_err(|e| Error::io("read", &self.path, e))?;
        // SAFETY: these groups are written, for they are durable, and no group takes their room before `trim`, which needs what
        // `work` is borrowed from. The bytes of a block that is written once more stay the same.
        let bytes = unsafe { view.bytes() };
        let mut walk = Walk::new(bytes, LogKind::written(self.salt), from);
        let mut lines: Vec<(u64, usize)> = Vec::new();
        while walk.place != to
            && let Some(group) = walk.next()
        {
            let counts = |line: &(u64, usize)| !work.voids.covers(line.0, group.sequence);
            lines.extend(group.lines().filter(counts));
        }
        let through = walk.place;
        if through == from {
            let error = Error::LogDamaged {
                path: self.path.clone(),
                sequence: through.sequence,
                position: self.ring.offset(through.position),
            };
            self.poison(&mut self.lock(), error.to_string());
            return Err(error);
        }
        keep_last(&mut lines);
        // Pages whose lines an opening has found, and that still wait for them, are not yet as the file has them.
        let is_brought = work.from.sequence >= self.opened.sequence;
        let written = self
            .write_lines(bytes, &lines, is_brought.then_some(through))
            .map_err(|e| Error::io("checkpoint", &self.pool_path, e))?;
        self.totals.pool_bytes.fetch_add(written, Ordering::Relaxed);
        self.totals.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(through)
    }

    /// Writes the lines, the last values that groups before `through` give them. Where that is said, pages that have reached the
    /// disk are given back meanwhile: threads that wait for memory go on before the end of the checkpoint.
    fn write_lines(
        &self,
        bytes: &[u8],
        lines: &[(u64, usize)],
        through: Option<Place>,
    ) -> io::Result<u64> {
        let failed = self.pool.failed();
        let mut runs = Runs::new(self.pool.as_ref(), "pool.checkpoint_write");
        let (mut drained, mut given) = (0, 0);
        let through = through.filter(|_| self.is_short(&self.lock()));
        let pages = || lines.chunk_by(|one, other| one.0 / PAGE == other.0 / PAGE);
        let mut next = pages();
        for (count, page) in pages().enumerate() {
            let wanted = if count == 0 { PAGES_ASKED } else { 1 };
            next.by_ref().take(wanted).for_each(|page| self.ask_for_page(page));
            for (line, at) in page {
                runs.put(*line, &bytes[*at..*at + LINE as usize])?;
            }
            if runs.written() - drained >= DRAIN_AFTER {
                self.pool.drain()?;
                drained = runs.written();
                // What else the process has may have grown much since the checkpoint began.
                self.measure(size_of_val(lines) as u64);
                // A sync that failed for another thread may have lost what was written here.
                if let Some(through) = through.filter(|_| self.pool.failed() == failed) {
                    let end = runs.start() / PAGE * PAGE;
                    given = self.give_written_back(given..end, through);
                }
            }
        }
        let written = runs.finish()?;
        // ORDER: the pool file is durable with all lines of the groups before the log is trimmed.
        self.pool.sync_since("pool.checkpoint_sync", failed)?;
        Ok(written)
    }

    /// A page of which these are the lines will soon be written: what else it has in the file is asked for.
    fn ask_for_page(&self, lines: &[(u64, usize)]) {
        if (lines.len() as u64) < PAGE / LINE {
            let start = lines[0].0 / PAGE * PAGE;
            self.mapping.will_write_in_file(start, start + PAGE);
        }
    }

    /// Frees the room of all groups before `through`.
    fn trim(&self, work: &mut Checkpoint, through: Place) -> Result<(), Error> {
        // ORDER: the log's header is durable before new groups overwrite those that it no longer
        // names.
        let trimmed = self.with_room(|| {
            work.header.update("log.trim_write", "log.trim_sync", |header| {
                header.start_position.set(through.position);
                header.start_sequence.set(through.sequence);
                header.start_chain.set(through.chain);
                let vouched = header.synced_through.get().max(through.sequence - 1);
                header.synced_through.set(vouched);
            })
        });
        self.totals.log_syncs.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        if let Err(error) = trimmed {
            // The older header counts, and names all groups still.
            if !matches!(error, Error::DiskFull { .. }) {
                self.poison(&mut state, format!("log.trim: {error}"));
            }
            return Err(error);
        }
        work.from = through;
        work.voids.forget(through.sequence);
        state.start = through.position;
        state.start_sequence = through.sequence;
        state.beside.vouch(through.sequence - 1);
        self.frees.vouched(through.sequence);
        self.frees.applied(through.sequence);
        self.notify(&state);
        Ok(())
    }
}
