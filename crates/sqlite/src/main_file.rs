//! A database as one connection has it open: its locks are its transaction.
//!
//! SHARED takes a snapshot, which is read until the lock is given up. RESERVED is of one connection at a time; from its first
//! write on, the connection has a transaction of the device, whose writes no other sees. COMMIT_PHASETWO, which SQLite sends in
//! every journal mode when a transaction is complete, commits it; giving up the lock without that drops it. So a reader never waits for
//! the writer, nor the writer for readers, and no journal is ever needed after a crash.

use std::ops::Range;
use std::sync::Arc;

use tembo_array::{Device, DeviceSnapshot, Error, Isolation, Transaction};
use tembo_kv::{Durability, Store};

use crate::code::{Code, LOCK_NONE, LOCK_RESERVED, LOCK_SHARED};
use crate::page_one;
use crate::pool::Database;
use crate::recent::Changes;
use crate::refused::Refused;
use crate::view::View;

/// How many commits there are, and what may have changed since an earlier number of them. `None`: anything.
type Changed = (u64, Option<Vec<Range<u64>>>);

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
    /// Page 1 was stored without the WAL that SQLite has written it with, and still has it with in its cache.
    was_with_wal: bool,
}

impl MainFile {
    /// Opens it at a version.
    ///
    /// # Errors
    /// [`Code::CANTOPEN`]: there is no such version, or it is a clone that cannot be read.
    pub(crate) fn new(database: Arc<Database>, view: &View) -> Result<MainFile, Refused> {
        let past = match view {
            View::Current => {
                database.device().snapshot()?;
                None
            }
            View::Named(name) => Some(database.device().at_name(name)),
            View::At(version) => Some(database.device().at(*version)),
        };
        let no_such = |error: Error| Refused { code: Code::CANTOPEN, why: error.to_string() };
        let past = past.transpose().map_err(no_such)?;
        let (snapshot, commits, tx, lock) = (None, 0, None, LOCK_NONE);
        let (changes, was_with_wal) = (Changes::default(), false);
        Ok(MainFile { database, past, lock, snapshot, commits, tx, changes, was_with_wal })
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
        if page_one::needs_wal(offset, bytes) {
            // `sqlite3_backup` copies it so.
            let mut page = bytes.to_vec();
            page_one::take_wal_away(offset, &mut page);
            self.was_with_wal = true;
            return self.put(offset, &page);
        }
        self.put(offset, bytes)
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Code> {
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
            (self.tx, self.changes, self.was_with_wal) = (None, Changes::default(), false);
            self.database.end_writing();
        }
        if level == LOCK_NONE {
            self.snapshot = None;
        }
        self.lock = level;
    }

    /// What another process has to know that keeps pages: how many commits of the database the snapshot that is read has, and what may
    /// have changed in it since an earlier one that had `count`. `None`: anything.
    pub(crate) fn changed_since(&self, count: u64) -> Result<Changed, Code> {
        match (&self.past, &self.snapshot) {
            (Some(_), _) => Ok((0, (count == 0).then(Vec::new))),
            (None, Some(snapshot)) => {
                let recent = self.database.recent();
                let commits = recent.shown(self.commits, counter_of(snapshot)?);
                Ok((commits, recent.since(count)))
            }
            (None, None) => Ok((self.commits, None)),
        }
    }

    /// Sees to it that what the transaction leaves behind has a greater change counter than what it found. While SQLite keeps its
    /// lock (`locking_mode = EXCLUSIVE`) it raises the counter only once: of an ordinary file it keeps readers out. A page 1 that SQLite
    /// has otherwise than it is stored gets one more than SQLite knows of, by which it reads the page again.
    fn raise_counter(&mut self) -> Result<(), Code> {
        let Some(tx) = &mut self.tx else { return Ok(()) };
        let device = self.database.device();
        let before = match &self.snapshot {
            Some(snapshot) => counter_of(snapshot)?,
            None => counter_of(&device.snapshot()?)?,
        };
        let mut head = [0; page_one::COUNTED];
        let len = tx.read(device, 0, &mut head)?;
        let counter = page_one::shown_counter(tx.tag(device)?, &mut head[..len]);
        // It may also be less: SQLite writes page 1 with what it has counted itself.
        let is_behind = |counter: u32, before: u32| counter.wrapping_sub(before) as i32 <= 0;
        let raised = match (before, counter) {
            (Some(before), Some(counter)) if is_behind(counter, before) => {
                Some(before.wrapping_add(1))
            }
            (_, Some(counter)) if self.was_with_wal => Some(counter.wrapping_add(1)),
            _ => None,
        };
        if let Some(raised) = raised {
            tx.set_tag(device, page_one::tag_of(raised))?;
            self.changes.add(0..page_one::COUNTED as u64);
        }
        self.changes.counter = raised.or(counter);
        self.was_with_wal = false;
        Ok(())
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
    for file in &mut *files {
        file.raise_counter()?;
    }
    for file in files {
        if let Some(tx) = file.tx.take() {
            file.database.begin_commit(std::mem::take(&mut file.changes));
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

/// The change counter that a snapshot shows; none without a page 1.
fn counter_of(snapshot: &DeviceSnapshot) -> Result<Option<u32>, Code> {
    let mut head = [0; page_one::COUNTED];
    let len = snapshot.read_at(0, &mut head)?;
    Ok(page_one::shown_counter(snapshot.tag(), &mut head[..len]))
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::pool;

    const PAGE: usize = 4096;
    const PAGES: u64 = 8;

    fn open(database: &Arc<Database>) -> MainFile {
        MainFile::new(database.clone(), &View::Current).unwrap()
    }

    /// A database of so many pages.
    fn database(folder: &Path) -> Arc<Database> {
        let pool = pool::own(&folder.join("a.pool"), true, None, |_, _| {}).unwrap().unwrap();
        let database = pool.database("main", true).unwrap();
        let mut file = open(&database);
        file.lock(LOCK_RESERVED).unwrap();
        for number in 0..PAGES {
            file.write(number * PAGE as u64, &[0; PAGE]).unwrap();
        }
        commit(&mut [&mut file], Durability::Strict).unwrap();
        file.unlock(LOCK_NONE);
        database
    }

    /// Writes a page, and page 1 with the counter that SQLite would write.
    fn write(file: &mut MainFile, page: u64, value: u8, counter: u32) {
        let mut first = [0; PAGE];
        for place in [24, 92] {
            first[place..place + 4].copy_from_slice(&counter.to_be_bytes());
        }
        file.write(page * PAGE as u64, &[value; PAGE]).unwrap();
        file.write(0, &first).unwrap();
    }

    /// What a client keeps, and knows.
    #[derive(Default)]
    struct Kept {
        pages: Vec<Vec<u8>>,
        commits: u64,
        counter: u32,
    }

    /// Takes a lock as an owner's client does; what had to be read again.
    fn look(file: &mut MainFile, kept: &mut Kept) -> Vec<u64> {
        file.lock(LOCK_SHARED).unwrap();
        let (commits, changed) = file.changed_since(kept.commits).unwrap();
        let mut pages = vec![vec![0; PAGE]; PAGES as usize];
        for (number, page) in pages.iter_mut().enumerate() {
            assert_eq!(file.read((number * PAGE) as u64, page), Ok(PAGE));
        }
        file.unlock(LOCK_NONE);
        let counter = page_one::counter(&pages[0]);
        let Some(changed) = changed else {
            // Too far behind: the client drops all that it has.
            *kept = Kept { pages: Vec::new(), commits, counter };
            return Vec::new();
        };
        let mut again = Vec::new();
        if !kept.pages.is_empty() {
            let (more, counted) = (commits - kept.commits, counter - kept.counter);
            assert_eq!(more, u64::from(counted), "{commits} {counter}");
            for (number, (old, new)) in (0..).zip(kept.pages.iter().zip(&pages)) {
                let page = number * PAGE as u64..(number + 1) * PAGE as u64;
                if changed.iter().any(|range| range.start < page.end && page.start < range.end) {
                    again.push(number);
                } else {
                    assert!(old == new, "page {number} has changed");
                }
            }
        }
        *kept = Kept { pages, commits, counter };
        again
    }

    /// A connection that is about to write, and one that has looked, with what it keeps.
    fn beside_a_writer(database: &Arc<Database>) -> (MainFile, MainFile, Kept) {
        let (mut writer, mut reader, mut kept) = (open(database), open(database), Kept::default());
        look(&mut reader, &mut kept);
        writer.lock(LOCK_RESERVED).unwrap();
        (writer, reader, kept)
    }

    #[test]
    fn a_commit_that_waits_for_the_disk_is_counted_for_those_that_see_it() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path());
        let (mut writer, mut reader, mut kept) = beside_a_writer(&database);
        write(&mut writer, 3, 7, 1);
        writer.raise_counter().unwrap();
        // As `commit` does it.
        database.begin_commit(std::mem::take(&mut writer.changes));
        let all = Vec::from_iter(writer.tx.take());
        assert_eq!(look(&mut reader, &mut kept), [0, 3]);
        Transaction::commit_all(all, Durability::Strict).unwrap();
        assert_eq!(look(&mut reader, &mut kept), [0, 3]);
        assert_eq!(kept.pages[3], [7; PAGE]);
        assert_eq!(look(&mut reader, &mut kept), [0; 0]);
        database.recent().end();
        assert_eq!(look(&mut reader, &mut kept), [0; 0]);
    }

    #[test]
    fn what_a_reader_beside_a_writer_keeps_is_what_its_next_snapshot_has() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path());
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut writer = open(&database);
                for counter in 1..=300 {
                    writer.lock(LOCK_RESERVED).unwrap();
                    let page = 1 + u64::from(counter) % (PAGES - 1);
                    write(&mut writer, page, counter as u8, counter);
                    commit(&mut [&mut writer], Durability::Strict).unwrap();
                    writer.unlock(LOCK_NONE);
                }
                has_ended.store(true, Ordering::SeqCst);
            });
            let (mut reader, mut kept) = (open(&database), Kept::default());
            while !has_ended.load(Ordering::SeqCst) {
                look(&mut reader, &mut kept);
            }
            look(&mut reader, &mut kept);
            look(&mut reader, &mut kept);
            assert_eq!((kept.pages.len(), kept.counter), (PAGES as usize, 300));
        });
    }

    #[test]
    fn each_commit_under_one_lock_raises_the_counter() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(folder.path());
        let (mut writer, mut reader, mut kept) = beside_a_writer(&database);
        // The first one as SQLite does; then without page 1; then with a counter that SQLite has from its first one.
        for round in 1..=9 {
            match round % 3 {
                1 => write(&mut writer, 2, round as u8, round),
                2 => writer.write(2 * PAGE as u64, &[round as u8; PAGE]).unwrap(),
                _ => write(&mut writer, 2, round as u8, round - 2),
            }
            commit(&mut [&mut writer], Durability::Strict).unwrap();
            assert_eq!(look(&mut reader, &mut kept), [0, 2]);
            assert_eq!((kept.counter, kept.pages[2][0]), (round, round as u8));
        }
        // More than one is as good.
        write(&mut writer, 2, 10, 20);
        commit(&mut [&mut writer], Durability::Strict).unwrap();
        let mut first = [0; PAGE];
        writer.read(0, &mut first).unwrap();
        assert_eq!(page_one::counter(&first), 20);
    }
}
