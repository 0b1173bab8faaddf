//! ARIES, the baseline: Mohan, Haderle, Lindsay, Pirahesh, Schwarz, "ARIES: a transaction recovery method supporting
//! fine-granularity locking and partial rollbacks using write-ahead logging", TODS 17(1), 1992. On the array's plain reads and
//! writes.
//!
//! Physical undo and redo records; steal and no force; each page has the LSN of its last change; fuzzy checkpoints with the
//! transaction table and the dirty pages; recovery in three passes (analysis, redo of all history, undo of the losers) with
//! compensation records, so that a recovery which a crash ends undoes nothing twice. Commits that come while the log is being
//! forced are forced together. A checkpoint thread writes pages as the pool fills with dirty ones, in modelled time beside
//! the others.
//!
//! The thesis's ARIES counts on whole pages. Here a page is written with its head last, so that one that is torn looks as
//! old as it was, and redo writes all of what differs again.

mod buffer_pool;
mod format;
mod log;
mod recovery;

use std::collections::BTreeMap;

use self::buffer_pool::{BufferPool, Pages};
use self::format::{Active, Body, HEAD_SIZE, PAGE_HEAD};
use self::log::{Log, MASTERS, Ring};
use crate::Error;
use crate::host::Host;

pub use self::format::Lsn;
pub use self::recovery::Undone;

/// Sizes of a database of pages.
#[derive(Clone, Copy, Debug)]
pub struct AriesOptions {
    /// Bytes of a page, its head of 64 included.
    pub page_size: usize,
    /// Pages.
    pub pages: u64,
    /// Pages in memory at most.
    pub frames: usize,
    /// Bytes of the log.
    pub log_size: u64,
}

impl AriesOptions {
    /// Bytes that it takes of an array.
    pub fn size(&self) -> u64 {
        MASTERS + self.log_size + self.pages * self.page_size as u64
    }
}

/// A transaction that is not over.
struct Running {
    row: Active,
    /// Bytes that its compensation records would take.
    undo_bytes: u64,
}

/// A database of pages with transactions, from byte 0 of an array on.
pub struct Aries {
    log: Log,
    pool: BufferPool,
    running: BTreeMap<u64, Running>,
    next_transaction: u64,
    /// When the checkpoint thread is done, in modelled time.
    checkpointed_ns: u64,
}

impl Aries {
    /// Opens what lies on the array, recovered; zeros are a database of zeros.
    ///
    /// # Errors
    /// Damage; [`Error::OutOfRange`] when the array is smaller than the options say.
    pub fn open(host: &mut Host, options: AriesOptions) -> Result<(Aries, Undone), Error> {
        let AriesOptions { page_size, pages, frames, log_size } = options;
        let (log, records) = Log::open(host, Ring { at: 0, size: log_size })?;
        let pages = Pages { at: MASTERS + log_size, size: page_size, count: pages };
        let mut aries = Aries {
            log,
            pool: BufferPool::new(pages, frames),
            running: BTreeMap::new(),
            next_transaction: 1,
            checkpointed_ns: 0,
        };
        let undone = recovery::recover(&mut aries.passes(host), &records)?;
        aries.next_transaction = undone.greatest + 1;
        aries.checkpoint(host)?;
        Ok((aries, undone))
    }

    /// What recovery works on.
    fn passes<'a>(&'a mut self, host: &'a mut Host) -> recovery::Passes<'a> {
        recovery::Passes { host, log: &mut self.log, pool: &mut self.pool }
    }

    /// Begins a transaction. It takes no locks: the caller does.
    pub fn begin(&mut self) -> u64 {
        let transaction = self.next_transaction;
        self.next_transaction += 1;
        let row = Active { transaction, last: 0, undo_next: 0, first: 0 };
        self.running.insert(transaction, Running { row, undo_bytes: 0 });
        transaction
    }

    /// Reads from a page, behind its head.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn read(
        &mut self,
        host: &mut Host,
        page: u64,
        offset: u32,
        to: &mut [u8],
    ) -> Result<(), Error> {
        let (bytes, _) = self.pool.page(host, &mut self.log, page)?;
        let (from, size) = (offset as usize, bytes.len() as u64);
        let found = bytes.get(from..from + to.len());
        let beyond = Error::OutOfRange { offset: offset.into(), len: to.len() as u64, size };
        to.copy_from_slice(found.ok_or(beyond)?);
        Ok(())
    }

    fn running(&mut self, transaction: u64) -> Result<&mut Running, Error> {
        let what = "a transaction that is over";
        self.running.get_mut(&transaction).ok_or(Error::Damaged { controller: 0, what })
    }

    /// Makes room in the log for so many bytes, and for what undoing them takes.
    fn make_room(&mut self, host: &mut Host, bytes: u64) -> Result<(), Error> {
        let slack = (4 + 2 * self.running.len() as u64) * HEAD_SIZE as u64
            + 32 * (self.running.len() + self.pool.frames_max()) as u64;
        let fits = |aries: &Aries| {
            let undo: u64 = aries.running.values().map(|running| running.undo_bytes).sum();
            aries.log.used() + bytes + undo + slack <= aries.log.size()
        };
        if !fits(self) {
            self.pool.clean(host, &mut self.log, 0)?;
            self.checkpoint(host)?;
        }
        match fits(self) {
            true => Ok(()),
            false => Err(Error::LogFull { needed: bytes, size: self.log.size() }),
        }
    }

    /// Changes bytes of a page, behind its head: in memory, and in the log that is not forced.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::LogFull`].
    pub fn update(
        &mut self,
        host: &mut Host,
        transaction: u64,
        page: u64,
        offset: u32,
        after: &[u8],
    ) -> Result<(), Error> {
        let mut before = vec![0; after.len()];
        self.read(host, page, offset, &mut before)?;
        let (record, undo) = (HEAD_SIZE + 2 * after.len(), (HEAD_SIZE + after.len()) as u64);
        self.make_room(host, record as u64 + undo)?;
        let previous = self.running(transaction)?.row.last;
        let body = Body::Update { page, offset, before, after: after.to_vec() };
        let lsn = self.log.append(transaction, previous, body);
        let running = self.running(transaction)?;
        running.undo_bytes += undo;
        (running.row.last, running.row.undo_next) = (lsn, lsn);
        if running.row.first == 0 {
            running.row.first = lsn;
        }
        self.pool.change(host, &mut self.log, (page, offset, after, lsn))?;
        self.write_dirty_pages(host)
    }

    /// The checkpoint thread's part: as the pool fills with dirty pages it writes the half of them, and a checkpoint. The
    /// others wait only when the pool fills again before it is done.
    fn write_dirty_pages(&mut self, host: &mut Host) -> Result<(), Error> {
        let frames = self.pool.frames_max();
        if self.pool.dirty_count() * 4 < frames * 3 {
            return Ok(());
        }
        let now = host.now_ns().max(self.checkpointed_ns);
        host.go_on(host.thread(), now);
        // The checkpoint comes first, so that the log is forced now and not when the pages are written: commits of the
        // meantime would wait for that.
        self.checkpoint(host)?;
        self.pool.clean(host, &mut self.log, frames / 4)?;
        self.checkpointed_ns = host.now_ns();
        host.go_on(host.thread(), now);
        Ok(())
    }

    /// Where a transaction is.
    ///
    /// # Errors
    /// The transaction is over.
    pub fn savepoint(&mut self, transaction: u64) -> Result<Lsn, Error> {
        Ok(self.running(transaction)?.row.last)
    }

    /// Takes back what the transaction has changed since a savepoint.
    ///
    /// # Errors
    /// Damage.
    pub fn roll_back_to(
        &mut self,
        host: &mut Host,
        transaction: u64,
        savepoint: Lsn,
    ) -> Result<(), Error> {
        let mut row = self.running(transaction)?.row;
        while row.undo_next > savepoint {
            let taken = recovery::undo_one(&mut self.passes(host), &mut row)?;
            let running = self.running(transaction)?;
            running.undo_bytes = running.undo_bytes.saturating_sub(taken);
            running.row = row;
        }
        Ok(())
    }

    /// Commits: the log is durable up to here, and no page need be.
    ///
    /// Durability point: when it returns.
    ///
    /// # Errors
    /// The transaction is over.
    pub fn commit(&mut self, host: &mut Host, transaction: u64) -> Result<(), Error> {
        let row = self.running(transaction)?.row;
        if row.last > 0 {
            let lsn = self.log.append(transaction, row.last, Body::Commit);
            self.log.force(host, lsn)?;
            self.log.append(transaction, lsn, Body::End);
        }
        self.running.remove(&transaction);
        Ok(())
    }

    /// Takes back all that the transaction has changed.
    ///
    /// # Errors
    /// The transaction is over; damage.
    pub fn abort(&mut self, host: &mut Host, transaction: u64) -> Result<(), Error> {
        self.roll_back_to(host, transaction, 0)?;
        let row = self.running(transaction)?.row;
        if row.last > 0 {
            self.log.append(transaction, row.last, Body::End);
        }
        self.running.remove(&transaction);
        Ok(())
    }

    /// Writes a fuzzy checkpoint: no page is written for it.
    ///
    /// # Errors
    /// Those of the array.
    pub fn checkpoint(&mut self, host: &mut Host) -> Result<(), Error> {
        let rows = self.running.values().map(|running| running.row);
        let active: Vec<Active> = rows.filter(|row| row.last > 0).collect();
        let dirty = self.pool.dirty();
        let oldest = active.iter().map(|row| row.first).chain(dirty.iter().map(|(_, lsn)| *lsn));
        let from = oldest.fold(self.log.next(), u64::min);
        let lsn = self.log.append(0, 0, Body::Checkpoint { active, dirty });
        self.log.force(host, lsn)?;
        self.log.cut(host, lsn, from)
    }

    /// Bytes of a page behind its head.
    pub fn payload(options: &AriesOptions) -> usize {
        options.page_size - PAGE_HEAD
    }
}
