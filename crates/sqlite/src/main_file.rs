//! A database as one connection has it open: its locks are its transaction.
//!
//! SHARED takes a snapshot, which is read until the lock is given up. RESERVED is of one connection at a time; from its first
//! write on, the connection has a transaction of the device, whose writes no other sees. COMMIT_PHASETWO, which SQLite sends in
//! every journal mode when a transaction is complete, commits it; giving up the lock without that drops it. So a reader never waits for
//! the writer, nor the writer for readers, and no journal is ever needed after a crash.

use std::ops::Range;
use std::sync::Arc;

use tembo_array::{Device, DeviceSnapshot, Isolation, Transaction};
use tembo_kv::{Durability, Store};

use crate::code::{Code, LOCK_NONE, LOCK_RESERVED, LOCK_SHARED};
use crate::page_one;
use crate::pool::Database;
use crate::recent::Changes;
use crate::view::View;

/// An open database.
pub(crate) struct MainFile {
    database: Arc<Database>,
    /// One that shows a version of the past, and is not written.
    past: Option<DeviceSnapshot>,
    lock: i32,
    snapshot: Option<DeviceSnapshot>,
    /// Commits of the database that had ended before the snapshot was taken.
    commits: u64,
    tx: Option<Transaction>,
    /// What it has written.
    changes: Changes,
}

impl MainFile {
    /// Opens it at a version.
    ///
    /// # Errors
    /// [`Code::CANTOPEN`]: there is no such version.
    pub(crate) fn new(database: Arc<Database>, view: &View) -> Result<MainFile, Code> {
        let past = match view {
            View::Current => None,
            View::Named(name) => Some(database.device().at_name(name)),
            View::At(version) => Some(database.device().at(*version)),
        };
        let past = past.transpose().map_err(|_| Code::CANTOPEN)?;
        let (snapshot, commits, tx, changes) = (None, 0, None, Changes::default());
        Ok(MainFile { database, past, lock: LOCK_NONE, snapshot, commits, tx, changes })
    }

    pub(crate) fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// The version that it reads.
    pub(crate) fn version(&self) -> Result<u64, Code> {
        match self.past.as_ref().or(self.snapshot.as_ref()) {
            Some(snapshot) => Ok(snapshot.version()),
            None => Ok(self.database.store()?.visible()),
        }
    }

    /// Reads; how many bytes: fewer at the end.
    pub(crate) fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<usize, Code> {
        let device = self.database.device();
        let (len, tag) = match (&mut self.tx, self.past.as_ref().or(self.snapshot.as_ref())) {
            (Some(tx), _) => (tx.read(device, offset, to)?, tx.tag(device)?),
            (None, Some(snapshot)) => (snapshot.read_at(offset, to)?, snapshot.tag()),
            (None, None) => {
                let snapshot = device.snapshot()?;
                (snapshot.read_at(offset, to)?, snapshot.tag())
            }
        };
        page_one::show(tag, offset, &mut to[..len]);
        Ok(len)
    }

    pub(crate) fn len(&self) -> Result<u64, Code> {
        if let Some(tx) = &self.tx {
            return Ok(tx.len(self.database.device())?);
        }
        match self.past.as_ref().or(self.snapshot.as_ref()) {
            Some(snapshot) => Ok(snapshot.len()),
            None => Ok(self.database.device().len()?),
        }
    }

    /// The transaction of the connection that writes.
    fn writing(&mut self) -> Result<&mut Transaction, Code> {
        if self.lock < LOCK_RESERVED || self.past.is_some() {
            return Err(Code::READONLY);
        }
        match &mut self.tx {
            Some(tx) => Ok(tx),
            none => {
                let array = self.database.array()?;
                Ok(none.insert(array.transaction(Isolation::FirstCommitter)?))
            }
        }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Code> {
        self.changes.add(offset..offset.saturating_add(bytes.len() as u64));
        let database = self.database.clone();
        let (device, tx) = (database.device(), self.writing()?);
        if offset < page_one::COUNTED as u64 {
            let mut stored = vec![0; bytes.len()];
            let len = tx.read(device, offset, &mut stored)?;
            let tag = if offset == 0 { page_one::tag_for(&stored[..len], bytes) } else { None };
            if let Some(tag) = tag {
                return Ok(tx.set_tag(device, tag)?);
            }
            if tx.tag(device)? != 0 {
                let is_covered = offset == 0 && bytes.len() >= page_one::COUNTED;
                if is_covered { tx.set_tag(device, 0)? } else { store_counter(tx, device)? }
            }
        }
        Ok(tx.write(device, offset, bytes)?)
    }

    pub(crate) fn truncate(&mut self, len: u64) -> Result<(), Code> {
        let database = self.database.clone();
        if self.len()? == len {
            return Ok(());
        }
        self.changes.add(len..u64::MAX);
        Ok(self.writing()?.set_len(database.device(), len)?)
    }

    pub(crate) fn has_writer(&self) -> bool {
        self.database.has_writer()
    }

    /// The lock that it has.
    pub(crate) fn level(&self) -> i32 {
        self.lock
    }

    /// # Errors
    /// [`Code::BUSY`]: another connection writes. [`Code::BUSY_SNAPSHOT`]: another one has written since this one has
    /// begun to read.
    pub(crate) fn lock(&mut self, level: i32) -> Result<(), Code> {
        if level <= self.lock {
            return Ok(());
        }
        if self.past.is_some() {
            if level > LOCK_SHARED {
                return Err(Code::READONLY);
            }
            self.lock = level;
            return Ok(());
        }
        if self.snapshot.is_none() {
            self.show_newest()?;
        }
        if level >= LOCK_RESERVED && self.lock < LOCK_RESERVED {
            if self.database.store()?.is_read_only() {
                return Err(Code::READONLY);
            }
            if !self.database.begin_writing() {
                return Err(Code::BUSY);
            }
            if self.version()? < self.database.last() {
                self.database.end_writing();
                return Err(Code::BUSY_SNAPSHOT);
            }
        }
        self.lock = level;
        Ok(())
    }

    /// Gives up locks; a transaction that was not committed is dropped.
    pub(crate) fn unlock(&mut self, level: i32) {
        if level >= self.lock {
            return;
        }
        if self.lock >= LOCK_RESERVED && level < LOCK_RESERVED {
            (self.tx, self.changes) = (None, Changes::default());
            self.database.end_writing();
        }
        if level == LOCK_NONE {
            self.snapshot = None;
        }
        self.lock = level;
    }

    /// What another process has to know that keeps pages: how many commits of the database had ended before the snapshot that is read
    /// was taken, and what may have changed in it since an earlier one before which `count` had. `None`: anything.
    pub(crate) fn changed_since(&self, count: u64) -> (u64, Option<Vec<Range<u64>>>) {
        match &self.past {
            Some(_) => (0, (count == 0).then(Vec::new)),
            None => (self.commits, self.database.recent().since(count)),
        }
    }

    /// Reads what is visible now: under a lock that it still has, what it has written.
    fn show_newest(&mut self) -> Result<(), Code> {
        self.commits = self.database.recent().count();
        self.snapshot = Some(self.database.device().snapshot()?);
        Ok(())
    }
}

/// Commits the transactions of databases of one pool, all or none.
///
/// Durability point: as `durability` says, when it returns.
pub(crate) fn commit(files: &mut [&mut MainFile], durability: Durability) -> Result<(), Code> {
    let (mut all, mut written) = (Vec::new(), Vec::new());
    for file in files {
        if let Some(tx) = file.tx.take() {
            file.database.recent().begin(std::mem::take(&mut file.changes));
            all.push(tx);
            written.push(file);
        }
    }
    if all.is_empty() {
        return Ok(());
    }
    let done = Transaction::commit_all(all, durability);
    // It may be visible without being durable. Then a reader of before must not write over it, and in EXCLUSIVE mode the
    // connection itself is one.
    for file in &written {
        file.database.recent().end();
        let version = match &done {
            Ok(committed) => Ok(committed.version()),
            Err(_) => file.database.store().map(Store::visible),
        };
        version.into_iter().for_each(|version| file.database.committed(version));
    }
    let mut shown = Ok(());
    for file in &mut written {
        shown = shown.and(file.show_newest());
    }
    done?;
    shown
}

/// Writes the counter to page 1: what is written of the page next goes over it.
fn store_counter(tx: &mut Transaction, device: &Device) -> Result<(), Code> {
    let mut head = [0; page_one::COUNTED];
    let len = tx.read(device, 0, &mut head)?;
    page_one::show(tx.tag(device)?, 0, &mut head[..len]);
    tx.write(device, 0, &head[..len])?;
    Ok(tx.set_tag(device, 0)?)
}

impl Drop for MainFile {
    /// What was committed without a sync is durable when its connection is closed.
    fn drop(&mut self) {
        self.unlock(LOCK_NONE);
        self.past = None;
        if let Ok(store) = self.database.store()
            && store.durable() < store.visible()
        {
            // A store whose sync fails says so at the next commit.
            let _ = store.sync();
        }
    }
}
