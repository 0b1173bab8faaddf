//! Super-journals, whose removal is the commit of several databases.
//!
//! SQLite writes the names of the databases' journals into one, and its name into each of these journals. With its removal those
//! of a pool are committed together. If something fails before, each database is rolled back, for which SQLite asks, one after the
//! other, whether the super-journal that its journal names is there. So one is there until the last journal that names it has ended, or
//! the commit is made.
//!
//! One that names the journal of an ordinary file is a file too: after a crash the file's own VFS looks for it, and takes the file's
//! transaction for committed if there is none. So it is removed behind the commit of the pools.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};

use crate::bytes::Bytes;
use crate::code::Code;
use crate::open_file::{OpenFile, commit_all};
use crate::open_names::is_of_ours;
use crate::process::PerProcess;

/// The databases whose transactions commit together.
type Members = Vec<Arc<Mutex<OpenFile>>>;

/// What is known of one.
struct SuperJournal {
    /// Its name is held by those for which it has to be there: what SQLite has open, journals that name it, databases that are to
    /// commit with it.
    held: Weak<str>,
    content: Arc<Mutex<Bytes>>,
    members: Vec<Weak<Mutex<OpenFile>>>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    InMemory,
    /// A file too.
    File,
    /// Of another VFS, since the main database is. Before a database of ours is rolled back that VFS may have removed it.
    Foreign,
}

static KNOWN: PerProcess<Mutex<HashMap<String, SuperJournal>>> = PerProcess::new();

/// Where a super-journal is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lies {
    /// Nothing of this process holds one.
    Unknown,
    InMemory,
    /// And in memory.
    InAFile,
}

/// A super-journal that SQLite has open.
pub(crate) struct SuperFile {
    name: Arc<str>,
    path: PathBuf,
    content: Arc<Mutex<Bytes>>,
}

fn known() -> MutexGuard<'static, HashMap<String, SuperJournal>> {
    KNOWN.get().lock()
}

fn path_of(name: &CStr) -> PathBuf {
    OsStr::from_bytes(name.to_bytes()).into()
}

/// Makes one.
pub(crate) fn create(name: &CStr) -> SuperFile {
    let held: Arc<str> = name.to_string_lossy().as_ref().into();
    let content = Arc::<Mutex<Bytes>>::default();
    insert(&held, content.clone(), Kind::InMemory);
    SuperFile { name: held, path: path_of(name), content }
}

fn insert(held: &Arc<str>, content: Arc<Mutex<Bytes>>, kind: Kind) {
    let mut known = known();
    known.retain(|_, journal| journal.held.strong_count() > 0);
    let journal = SuperJournal { held: Arc::downgrade(held), content, members: Vec::new(), kind };
    known.insert(held.as_ref().to_owned(), journal);
}

/// One that is there.
pub(crate) fn open(name: &CStr) -> Option<SuperFile> {
    let known = known();
    let journal = known.get(name.to_string_lossy().as_ref())?;
    let (held, content) = (journal.held.upgrade()?, journal.content.clone());
    Some(SuperFile { name: held, path: path_of(name), content })
}

/// Where that one is.
pub(crate) fn lies(name: &str) -> Lies {
    match known().get(name) {
        Some(journal) if journal.held.strong_count() == 0 => Lies::Unknown,
        Some(journal) if journal.kind == Kind::File => Lies::InAFile,
        Some(_) => Lies::InMemory,
        None => Lies::Unknown,
    }
}

/// The one whose name is what SQLite writes to a journal. That of another VFS is known from then on.
pub(crate) fn named_by(written: &[u8]) -> Option<Arc<str>> {
    if !has_its_form(written) {
        return None;
    }
    let name = String::from_utf8_lossy(written);
    let found = known().get(name.as_ref()).and_then(|journal| journal.held.upgrade());
    Some(found.unwrap_or_else(|| {
        let held: Arc<str> = name.as_ref().into();
        insert(&held, Arc::default(), Kind::Foreign);
        held
    }))
}

/// SQLite's names for them end with `-mj`, six digits, 9, and two digits.
pub(crate) fn has_its_form(name: impl AsRef<[u8]>) -> bool {
    let Some(end) = name.as_ref().last_chunk::<12>() else { return false };
    end.starts_with(b"-mj") && end[9] == b'9' && end[3..].iter().all(u8::is_ascii_hexdigit)
}

/// The transaction of a database is to commit when that super-journal is removed.
///
/// # Errors
/// [`Code::REFUSED`]: it is another VFS's, since the main database is. With its removal SQLite takes the transaction for committed,
/// and would not learn of an error in this database.
pub(crate) fn join(name: &str, file: &Arc<Mutex<OpenFile>>) -> Result<(), Code> {
    let mut known = known();
    let journal = known.get_mut(name).filter(|journal| journal.kind != Kind::Foreign);
    let journal = journal.ok_or(Code::REFUSED)?;
    let held = journal.held.upgrade().ok_or(Code::REFUSED)?;
    if !journal.members.iter().any(|member| std::ptr::eq(member.as_ptr(), Arc::as_ptr(file))) {
        journal.members.push(Arc::downgrade(file));
    }
    drop(known);
    file.lock().join(held)
}

/// Commits the transactions of a super-journal's databases, those of one pool together, and forgets it. If it is a file, that is still
/// to be removed.
///
/// Durability point: as each database has asked for, when it returns.
///
/// # Errors
/// Those of a commit: the super-journal is there as before. Of several pools, what was committed before stays.
pub(crate) fn commit(name: &str) -> Result<(), Code> {
    let of = |journal: &SuperJournal| journal.members.iter().filter_map(Weak::upgrade).collect();
    let mut members: Members = known().get(name).map(of).unwrap_or_default();
    members.retain(|member| member.lock().is_in(name));
    while let Some(first) = members.first().cloned() {
        let shares = |member: &Arc<Mutex<OpenFile>>| {
            Arc::ptr_eq(member, &first) || member.lock().shares_pool(&first.lock())
        };
        let (group, rest): (Members, Members) = members.into_iter().partition(shares);
        members = rest;
        commit_all(&group)?;
    }
    known().remove(name);
    Ok(())
}

impl SuperFile {
    pub(crate) fn read(&self, offset: u64, to: &mut [u8]) -> usize {
        self.content.lock().read(offset, to)
    }

    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Code> {
        self.content.lock().write(offset, bytes)
    }

    pub(crate) fn truncate(&self, len: u64) {
        self.content.lock().truncate(len);
    }

    pub(crate) fn len(&self) -> u64 {
        self.content.lock().len()
    }

    /// Makes it a file, if it names the journal of one.
    ///
    /// Durability point: the file and its name are durable when it returns.
    ///
    /// # Errors
    /// [`Code::REFUSED`]: there can be no file of its name, since the main database is one of several in a pool, in the path of which
    /// the pool stands for a folder. [`Code::FULL`], [`Code::CANTOPEN`]: the system refuses.
    pub(crate) fn sync(&self) -> Result<(), Code> {
        let content = self.content.lock();
        let mut names = content.as_slice().split(|byte| *byte == 0);
        if !names.any(is_of_a_file) {
            return Ok(());
        }
        if let Some(journal) = known().get_mut(self.name.as_ref()) {
            journal.kind = Kind::File;
        }
        write_file(&self.path, content.as_slice()).map_err(|error| match error.kind() {
            ErrorKind::NotADirectory => Code::REFUSED,
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Code::FULL,
            _ => Code::CANTOPEN,
        })
    }
}

/// Whether a journal is of a database that is a file, and none of ours.
fn is_of_a_file(journal: &[u8]) -> bool {
    if journal.is_empty() || is_of_ours(&String::from_utf8_lossy(journal)) {
        return false;
    }
    let Some(database) = journal.strip_suffix(b"-journal") else { return true };
    let has = |end: &[u8]| Path::new(OsStr::from_bytes(&[database, end].concat())).exists();
    // One that lies in memory has a name too; and with a WAL SQLite writes no name of a super-journal.
    has(b"") && (has(b"-journal") || !has(b"-wal"))
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    match path.parent() {
        Some(folder) => fs::File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_there_while_something_holds_it() {
        let name = c"/a/b.pool-mjA1B2C39D4";
        let text = name.to_str().unwrap();
        let made = create(name);
        made.write(0, b"/a/b.pool-journal\0").unwrap();
        assert!(lies(text) == Lies::InMemory && open(name).is_some_and(|open| open.len() == 18));
        let held = named_by(name.to_bytes()).unwrap();
        drop(made);
        assert!(lies(text) == Lies::InMemory);
        drop(held);
        assert!(lies(text) == Lies::Unknown && open(name).is_none());
        // What is named and not known is another VFS's.
        let held = named_by(name.to_bytes()).unwrap();
        assert!(lies(text) == Lies::InMemory && open(name).is_some_and(|open| open.len() == 0));
        drop(held);
        assert!(lies(text) == Lies::Unknown && named_by(b"/a/b.pool-journal").is_none());
    }

    #[test]
    fn only_names_of_their_form_are_looked_for() {
        for (name, expected) in [
            (&b"/a/b.pool-mjA1B2C39D4"[..], true),
            (b"-mj000000900", true),
            (b"-mj000000000", false),
            (b"-mj00000090x", false),
            (b"/a/b.pool-journal", false),
            (b"mj000000900", false),
        ] {
            assert_eq!(has_its_form(name), expected, "{name:?}");
        }
    }

    #[test]
    fn one_that_names_no_file_makes_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = |end: &str| format!("{}/{end}", folder.path().display());
        let name = std::ffi::CString::new(path("db-mj000000900")).unwrap();
        let made = create(&name);
        made.write(0, format!("{}\0", path("in-memory-journal")).as_bytes()).unwrap();
        made.sync().unwrap();
        assert!(lies(name.to_str().unwrap()) == Lies::InMemory);
        fs::write(path("wal.db"), "").unwrap();
        fs::write(path("wal.db-wal"), "").unwrap();
        made.write(made.len(), format!("{}\0", path("wal.db-journal")).as_bytes()).unwrap();
        made.sync().unwrap();
        assert!(lies(name.to_str().unwrap()) == Lies::InMemory);
        fs::write(path("file.db"), "").unwrap();
        made.write(made.len(), format!("{}\0", path("file.db-journal")).as_bytes()).unwrap();
        made.sync().unwrap();
        assert!(lies(name.to_str().unwrap()) == Lies::InAFile);
        assert_eq!(fs::read(path("db-mj000000900")).unwrap().len() as u64, made.len());
    }
}
