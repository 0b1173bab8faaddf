//! Large records go beside the log: into the pool file at once, durable before what links them.

use super::RedoLog;
use crate::notes::NoteBook;
use crate::{DiskFile, Error};

impl RedoLog {
    /// Writes whole pages of the pool file at `offset`: `len` bytes of `parts`. The range is not
    /// read yet, and what freed it was fenced. Durable on return; counted by replay from the
    /// thread's next fence on.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::DiskFull`], [`Error::Io`]; the range's content is undefined
    /// then, nothing else has changed.
    pub(crate) fn bypass(
        &self,
        book: &NoteBook,
        offset: u64,
        len: u64,
        parts: &[&[u8]],
    ) -> Result<(), Error> {
        self.append(book);
        let mut work = self.lock_checkpoint();
        // ORDER: what unlinked the record that had this space is durable before the space is
        // overwritten, for there is no log of this write that could be left unreplayed.
        self.make_durable("log.sync_before_bypass")?;
        // From here on no checkpoint brings back what the range held before.
        let next = self.lock().end.sequence;
        work.voids.paint(offset, offset + len, next);
        let failed = self.pool.failed();
        let write = || {
            let (mut at, mut left) = (offset, len as usize);
            for part in parts {
                let piece = &part[..part.len().min(left)];
                if !piece.is_empty() {
                    self.pool.write_at("pool.bypass_write", piece, at)?;
                }
                (at, left) = (at + piece.len() as u64, left - piece.len());
            }
            // ORDER: the record is durable before the group that links it.
            self.pool.sync_since("pool.bypass_sync", failed)
        };
        write().map_err(|e| Error::io("write", &self.pool_path, e))?;
        self.totals.pool_bytes.fetch_add(len, std::sync::atomic::Ordering::Relaxed);
        drop(work);
        if !self.pool_is_simulated() {
            self.mapping
                .give_back(offset, offset + len)
                .map_err(|e| Error::io("refresh", &self.pool_path, e))?;
            self.lock().pages.forget(offset, offset + len);
        }
        book.with(|note| note.extents.push((offset, len)));
        Ok(())
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
