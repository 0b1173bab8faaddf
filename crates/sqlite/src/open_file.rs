//! A database that a connection has open: of a pool that this process owns, or at its owner.
//!
//! The first process that opens a pool owns it, and serves the others through a socket beside it. When it ends, the next call of
//! another process takes the ownership over, or finds the process that has: the lock of the pool decides. What was open at the
//! owner is lost then, and nothing that was committed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tembo_kv::Durability;

use crate::code::{Code, LOCK_NONE, LOCK_RESERVED, LOCK_SHARED};
use crate::main_file::{self, MainFile};
use crate::pool::{self, Place, PoolRef};
use crate::refused::Refused;
use crate::remote::RemoteFile;
use crate::view::View;
use crate::{owner, pragma};

/// How long a pool may be held by a process that serves no clients: one that is about to, or that has another use for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait before the next try.
const PAUSE: Duration = Duration::from_millis(5);

/// Where the database is open.
enum At {
    This(Box<MainFile>),
    Owner(Box<RemoteFile>),
}

/// An open database.
pub(crate) struct OpenFile {
    place: Place,
    view: View,
    at: At,
    lock: i32,
    /// SQLite has asked for a sync in this transaction, and the program for a durable commit.
    is_synced: bool,
    /// The super-journal with whose removal the transaction commits.
    super_journal: Option<Arc<str>>,
    asked: Asked,
    kept: Kept,
}

/// What the program has asked of the connection by pragmas.
#[derive(Clone, Copy, Default)]
struct Asked {
    /// `journal_mode = WAL`, and believes that it has it.
    wal: bool,
    /// `synchronous = NORMAL`.
    normal: bool,
    /// `locking_mode = EXCLUSIVE`: SQLite gives up no lock, so that each lock keeps other writers out.
    exclusive: bool,
}

/// What SQLite has kept from another owner, and must not believe.
#[derive(Clone, Copy)]
enum Kept {
    Nothing,
    /// Pages in its cache, and the schema.
    Pages,
    Schema,
    /// The number of the schema on its page 1, which is so much above that of the database. It reads page 1 again with its next lock.
    Number(u32),
}

/// The level NORMAL of `synchronous`, as SQLite reads it.
const NORMAL: [&str; 5] = ["normal", "1", "on", "yes", "true"];

/// Where SQLite reads by itself what it compares with its cache: the change counter, and what stands behind it.
const COMPARED: (u64, usize) = (24, 16);

/// Where the number of the schema stands in page 1.
const SCHEMA_COOKIE: std::ops::Range<usize> = 40..44;

/// Bytes of the smallest page.
const PAGE_MIN: usize = 512;

fn schema_number(page: &[u8]) -> u32 {
    page[SCHEMA_COOKIE].first_chunk().map_or(0, |number| u32::from_be_bytes(*number))
}

fn set_schema_number(page: &mut [u8], number: u32) {
    page[SCHEMA_COOKIE].copy_from_slice(&number.to_be_bytes());
}

/// Opens a pool, of which another process may be the owner, and something of it.
fn open_at(place: &Place, view: &View) -> Result<At, Refused> {
    let path = pool::canonical(&place.pool);
    let this = |pool: &PoolRef| {
        let database = pool.database(&place.device, place.creates)?;
        MainFile::new(database, view).map(|file| At::This(Box::new(file)))
    };
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(pool) = pool::owned(&path) {
            return this(&pool);
        }
        if let Some(file) = RemoteFile::open(&path, &place.device, place.creates, view)? {
            return Ok(At::Owner(Box::new(file)));
        }
        if let Some(pool) = pool::own(&path, place.creates, place.domain, owner::serve)? {
            return this(&pool);
        }
        if Instant::now() > end {
            return Err(Code::BUSY.into());
        }
        std::thread::sleep(PAUSE);
    }
}

impl At {
    fn lock(&mut self, level: i32) -> Result<(), Code> {
        match self {
            At::This(file) => file.lock(level),
            At::Owner(file) => file.lock(level),
        }
    }

    fn unlock(&mut self, level: i32) {
        match self {
            At::This(file) => file.unlock(level),
            At::Owner(file) => file.unlock(level),
        }
    }

    /// Keeps other writers out, behind a lock with which it reads. A database that is not written has none.
    fn keep_writers_out(&mut self) -> Result<(), Code> {
        match self.lock(LOCK_RESERVED) {
            Err(Code::READONLY) => Ok(()),
            done => done,
        }
    }

    /// Takes the first lock of a connection that gives up none.
    fn lock_for_good(&mut self) -> Result<(), Code> {
        self.lock(LOCK_SHARED)?;
        self.keep_writers_out().map_err(|code| {
            self.unlock(LOCK_NONE);
            // Another try reads the newest version.
            if code == Code::BUSY_SNAPSHOT { Code::BUSY } else { code }
        })
    }
}

impl OpenFile {
    /// # Errors
    /// [`Code::BUSY`]: another process has the pool, and serves no clients.
    pub(crate) fn new(place: Place, view: View) -> Result<OpenFile, Refused> {
        let at = open_at(&place, &view)?;
        let (lock, is_synced, super_journal) = (LOCK_NONE, false, None);
        let (asked, kept) = (Asked::default(), Kept::Nothing);
        Ok(OpenFile { place, view, at, lock, is_synced, super_journal, asked, kept })
    }

    /// Whether it shows a version of the past.
    pub(crate) fn is_past(&self) -> bool {
        self.view != View::Current
    }

    /// Whether the owner is gone, and took nothing with it that a lock protects.
    fn has_lost_its_owner(&self) -> bool {
        self.lock == LOCK_NONE && matches!(&self.at, At::Owner(file) if file.is_lost())
    }

    /// Looks for the owner again, if the last one is gone.
    fn reach(&mut self) -> Result<(), Code> {
        if self.has_lost_its_owner() {
            // The database was there: none is made in its place.
            self.place.creates = false;
            self.at = open_at(&self.place, &self.view).map_err(|refused| refused.code)?;
            self.kept = Kept::Pages;
        }
        Ok(())
    }

    /// Does what can be done again: a second time if the owner went away before.
    fn again<R, E: From<Code>>(
        &mut self,
        mut work: impl FnMut(&mut At) -> Result<R, E>,
    ) -> Result<R, E> {
        self.reach()?;
        let done = work(&mut self.at);
        if done.is_err() && self.has_lost_its_owner() {
            self.reach()?;
            return work(&mut self.at);
        }
        done
    }

    /// Reads; how many bytes: fewer at the end.
    pub(crate) fn read(&mut self, offset: u64, to: &mut [u8]) -> Result<usize, Code> {
        let done = self.again(|at| match at {
            At::This(file) => file.read(offset, to),
            At::Owner(file) => file.read(offset, to),
        })?;
        self.refuse_kept(offset, &mut to[..done]);
        Ok(done)
    }

    /// Behind a takeover: what SQLite keeps may be of a version that is gone, and that had the numbers of this one. So it is shown
    /// others, once: of the change counter, so that it reads page 1 again, and there of the schema.
    fn refuse_kept(&mut self, offset: u64, read: &mut [u8]) {
        let others = |bytes: &mut [u8]| bytes.iter_mut().for_each(|byte| *byte = !*byte);
        // SQLite reads nothing else from these bytes.
        let is_compared = (offset, read.len()) == COMPARED;
        let is_page_one = offset == 0 && read.len() >= PAGE_MIN;
        match self.kept {
            Kept::Pages if is_compared => {
                others(read);
                self.kept = Kept::Schema;
            }
            // With any number but its own SQLite reads the schema again.
            Kept::Schema if is_page_one => {
                let number = schema_number(read);
                set_schema_number(read, !number);
                self.kept = Kept::Number((!number).wrapping_sub(number));
            }
            Kept::Number(_) if is_compared => others(read),
            Kept::Number(_) if is_page_one => self.kept = Kept::Nothing,
            _ => {}
        }
    }

    pub(crate) fn len(&mut self) -> Result<u64, Code> {
        self.again(|at| match at {
            At::This(file) => file.len(),
            At::Owner(file) => file.len(),
        })
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Code> {
        if let Kept::Number(above) = self.kept
            && offset == 0
            && bytes.len() >= PAGE_MIN
        {
            // What it was shown stays nowhere.
            let mut page = bytes.to_vec();
            let number = schema_number(&page).wrapping_sub(above);
            set_schema_number(&mut page, number);
            return self.put(offset, &page);
        }
        self.put(offset, bytes)
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Code> {
        match &mut self.at {
            At::This(file) => file.write(offset, bytes),
            At::Owner(file) => file.write(offset, bytes),
        }
    }

    pub(crate) fn truncate(&mut self, len: u64) -> Result<(), Code> {
        match &mut self.at {
            At::This(file) => file.truncate(len),
            At::Owner(file) => file.truncate(len),
        }
    }

    /// What is committed is to be durable. With a WAL and `synchronous = NORMAL` no commit waits for the disk: SQLite, which
    /// has no WAL here, asks all the same.
    pub(crate) fn sync(&mut self) -> Result<(), Code> {
        self.is_synced = !(self.asked.wal && self.asked.normal);
        self.send()
    }

    /// The program asks for another level of `synchronous`, and SQLite `takes_it` or does not. An unknown word is the default here;
    /// to SQLite it is NORMAL.
    pub(crate) fn set_synchronous(&mut self, level: &str, takes_it: bool) {
        let is_normal = NORMAL.iter().any(|name| level.eq_ignore_ascii_case(name));
        self.asked.normal = is_normal && takes_it;
    }

    /// What was written is at the owner.
    fn send(&mut self) -> Result<(), Code> {
        match &mut self.at {
            At::This(_) => Ok(()),
            At::Owner(file) => file.sync(),
        }
    }

    pub(crate) fn has_writer(&mut self) -> Result<bool, Code> {
        self.again(|at| match at {
            At::This(file) => Ok(file.has_writer()),
            At::Owner(file) => file.has_writer(),
        })
    }

    /// # Errors
    /// [`Code::BUSY`]: another connection writes. [`Code::BUSY_SNAPSHOT`]: another one has written since this one has
    /// begun to read.
    pub(crate) fn lock(&mut self, level: i32) -> Result<(), Code> {
        let is_first_for_good =
            self.asked.exclusive && self.lock == LOCK_NONE && level == LOCK_SHARED;
        self.again(|at| if is_first_for_good { at.lock_for_good() } else { at.lock(level) })?;
        self.lock = self.lock.max(level);
        Ok(())
    }

    /// The lock that SQLite has asked for, and that it has.
    pub(crate) fn level(&self) -> i32 {
        self.lock
    }

    /// Gives up locks; a transaction that was not committed is dropped.
    pub(crate) fn unlock(&mut self, level: i32) {
        self.at.unlock(level);
        if level < LOCK_RESERVED {
            (self.is_synced, self.super_journal) = (false, None);
        }
        self.lock = self.lock.min(level);
    }

    /// The transaction is to commit with others, when this super-journal is removed.
    pub(crate) fn join(&mut self, super_journal: Arc<str>) -> Result<(), Code> {
        self.super_journal = Some(super_journal);
        self.send()
    }

    /// The transaction commits by itself, or is rolled back.
    pub(crate) fn leave_super_journal(&mut self) {
        self.super_journal = None;
    }

    pub(crate) fn is_in(&self, super_journal: &str) -> bool {
        self.super_journal.as_deref() == Some(super_journal)
    }

    /// Commits: the transaction is complete.
    ///
    /// Durability point: synced, if that was asked for; else what was written survives its process, as with a file.
    pub(crate) fn commit(&mut self) -> Result<(), Code> {
        let committed = match &mut self.at {
            At::This(file) => main_file::commit(&mut [file], durability(self.is_synced)),
            At::Owner(file) => file.commit(self.is_synced),
        };
        committed.map_err(Code::of_commit)?;
        (self.is_synced, self.super_journal) = (false, None);
        Ok(())
    }

    /// The answer to a pragma; an error with [`Code::NOTFOUND`]: it is SQLite's. `journal_mode = wal` is answered, and
    /// changes nothing: readers do not wait as it is. The rest are of the [pool](pragma::answer).
    pub(crate) fn pragma(&mut self, name: &str, value: Option<&str>) -> Result<String, Refused> {
        let name = name.to_ascii_lowercase();
        match (name.as_str(), value) {
            ("journal_mode", Some(mode)) => {
                self.asked.wal = mode.eq_ignore_ascii_case("wal");
                if self.asked.wal { Ok("wal".into()) } else { Err(Code::NOTFOUND.into()) }
            }
            ("journal_mode", None) if self.asked.wal => Ok("wal".into()),
            ("locking_mode", Some(mode)) => {
                self.set_locking_mode(mode)?;
                Err(Code::NOTFOUND.into())
            }
            (name, value) if pragma::is_known(name) => {
                let ask = |at: &mut At| match at {
                    At::This(file) => pragma::answer(file, name, value),
                    At::Owner(file) => file.pragma(name, value),
                };
                if value.is_none() {
                    return self.again(ask);
                }
                // What changes something is not done twice.
                self.reach()?;
                ask(&mut self.at)
            }
            _ => Err(Code::NOTFOUND.into()),
        }
    }

    /// SQLite is about to give up no lock any more, or to do so again with the end of its next transaction.
    ///
    /// # Errors
    /// As of [`lock`](OpenFile::lock), if it reads: it is to keep others from writing, and one of them does, or has.
    fn set_locking_mode(&mut self, mode: &str) -> Result<(), Code> {
        if mode.eq_ignore_ascii_case("exclusive") {
            if self.lock == LOCK_SHARED {
                self.at.keep_writers_out()?;
            }
            self.asked.exclusive = true;
        } else if mode.eq_ignore_ascii_case("normal") {
            self.asked.exclusive = false;
        }
        Ok(())
    }

    /// Whether both lie in one pool.
    pub(crate) fn shares_pool(&self, other: &OpenFile) -> bool {
        match (&self.at, &other.at) {
            (At::This(a), At::This(b)) => a.database().shares_pool(b.database()),
            (At::Owner(a), At::Owner(b)) => a.shares_pool(b),
            _ => false,
        }
    }
}

fn durability(is_synced: bool) -> Durability {
    if is_synced { Durability::Strict } else { Durability::Written }
}

/// Commits databases of one pool together.
pub(crate) fn commit_all(group: &[Arc<Mutex<OpenFile>>]) -> Result<(), Code> {
    let mut files: Vec<MutexGuard<'_, OpenFile>> = group.iter().map(|file| file.lock()).collect();
    let is_synced = files.iter().any(|file| file.is_synced);
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for file in &mut files {
        match &mut file.at {
            At::This(file) => here.push(&mut **file),
            At::Owner(file) => there.push(&mut **file),
        }
    }
    main_file::commit(&mut here, durability(is_synced)).map_err(Code::of_commit)?;
    RemoteFile::commit_all(&mut there, is_synced).map_err(Code::of_commit)?;
    for file in &mut files {
        (file.is_synced, file.super_journal) = (false, None);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use tembo_kv::DomainRequest;

    use super::*;

    /// Syncs of the disk that a commit of a page has waited for, as SQLite commits it.
    fn syncs(file: &mut OpenFile, byte: u8) -> u64 {
        let At::This(main) = &file.at else { panic!("another process has it") };
        let database = main.database().clone();
        let syncs = || database.store().unwrap().report().fdatasyncs;
        file.lock(LOCK_RESERVED).unwrap();
        file.write(4096, &[byte; 4096]).unwrap();
        let before = syncs();
        file.sync().unwrap();
        file.commit().unwrap();
        file.unlock(LOCK_NONE);
        syncs() - before
    }

    #[test]
    fn a_commit_waits_for_the_disk_as_the_pragmas_say() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place {
            pool: folder.path().join("a.pool"),
            device: "main".to_owned(),
            domain: Some(DomainRequest::Logged),
            creates: true,
        };
        let mut file = OpenFile::new(place, View::Current).unwrap();
        syncs(&mut file, 1);
        let cases = [
            // Without a WAL, NORMAL is durable.
            ("delete", "normal", true, 1),
            ("wal", "full", true, 1),
            ("WAL", "normal", true, 0),
            ("wal", "1", true, 0),
            ("wal", "extra", true, 1),
            ("wal", "normal", true, 0),
            ("truncate", "normal", true, 1),
            // Within a transaction SQLite keeps the level that it had.
            ("wal", "full", true, 1),
            ("wal", "normal", false, 1),
        ];
        for (byte, (mode, level, takes_it, expected)) in cases.into_iter().enumerate() {
            let _ = file.pragma("journal_mode", Some(mode));
            file.set_synchronous(level, takes_it);
            assert_eq!(syncs(&mut file, 10 + byte as u8), expected, "{mode}, {level}, {takes_it}");
        }
    }
}
