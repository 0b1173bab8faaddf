//! The functions of an open file, as SQLite calls them.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::code::{
    CHARACTERISTICS, Code, FCNTL_COMMIT_PHASETWO, FCNTL_HAS_MOVED, FCNTL_LOCK_STATE,
    FCNTL_OVERWRITE, FCNTL_PDB, FCNTL_PRAGMA, FCNTL_SIZE_HINT, FCNTL_SYNC, FCNTL_VFSNAME,
    IOCAP_SEQUENTIAL, LOCK_NONE, OK,
};
use crate::ffi::{Api, IoMethods, SqliteFile};
use crate::journal::Journal;
use crate::open_file::OpenFile;
use crate::open_names::OpenName;
use crate::process::generation;
use crate::refused::Refused;
use crate::super_journal::{self, SuperFile};

/// What SQLite has open.
pub(crate) enum Kind {
    Main { file: Arc<Mutex<OpenFile>>, _name: OpenName },
    Journal(Mutex<Journal>),
    Super(SuperFile),
}

/// What is ours of an open file.
pub(crate) struct File {
    pub(crate) kind: Kind,
    pub(crate) api: Api,
    /// Where SQLite has the connection that uses the file; null: it has not said so.
    pub(crate) connection: Cell<*const *mut c_void>,
    /// The process that has it open.
    pub(crate) generation: u32,
}

impl File {
    /// A file that this process has open.
    pub(crate) fn new(kind: Kind, api: Api) -> File {
        let connection = Cell::new(std::ptr::null());
        File { kind, api, connection, generation: generation() }
    }
}
/// What a program's error log gets: what SQLite says of a result code is not enough to go by.
const NOT_THE_MAIN_DATABASE: &CStr =
    c"a transaction writes an ordinary file and a database of Tembo that is attached to it: \
    open Tembo's database as the first one, and attach the file to that";
const NO_SUPER_JOURNAL: &CStr = c"a transaction writes an ordinary file that is attached to a database of Tembo, beside which the \
    super-journal cannot be made: open the one database of a pool as the first one, in a folder that takes files and has space, \
    or give the file journal_mode = WAL";

/// Bytes in a sector, as SQLite gets to know it: no page is smaller than what is written whole.
const SECTOR_SIZE: c_int = 4096;

static METHODS: IoMethods = IoMethods {
    version: 1,
    close,
    read,
    write,
    truncate,
    sync,
    file_size,
    lock,
    unlock,
    check_reserved_lock,
    file_control,
    sector_size,
    device_characteristics,
};

/// Runs `work`, from which no panic gets into SQLite: it is an error of the call. So in a build whose panics unwind; with `panic = "abort"`,
/// as in this workspace's release profile, a panic ends the program (a profile has no such setting for one package).
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Code>) -> c_int {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => OK,
        Ok(Err(Code(code))) => code,
        Err(_) => Code::IOERR.0,
    }
}

/// Gives SQLite an open file.
///
/// # Safety
/// `to` is what SQLite has passed to `xOpen`.
pub(crate) unsafe fn give(to: *mut SqliteFile, file: File) {
    let file = Box::into_raw(Box::new(file)).cast();
    // SAFETY: the caller's promise; SQLite has set aside as many bytes as the VFS says.
    unsafe { to.write(SqliteFile { methods: &METHODS, file }) };
}

/// The file that was given.
///
/// # Errors
/// [`Code::MISUSE`]: it is open in the process of which this one is a fork.
///
/// # Safety
/// `file` is open, and stays so for `'f`.
unsafe fn file<'f>(file: *mut SqliteFile) -> Result<&'f File, Code> {
    // SAFETY: `give` has put it there, and `close` has not been called.
    let file = unsafe { &*(*file).file.cast::<File>() };
    if file.generation == generation() { Ok(file) } else { Err(Code::MISUSE) }
}

/// The bytes that SQLite names by address and length.
///
/// # Safety
/// `len` bytes at `at` may be written, by no other, for `'b`.
unsafe fn bytes_mut<'b>(at: *mut c_void, len: c_int) -> &'b mut [u8] {
    match usize::try_from(len) {
        // SAFETY: the caller's promise.
        Ok(len) if len > 0 => unsafe { std::slice::from_raw_parts_mut(at.cast(), len) },
        _ => &mut [],
    }
}

fn unsigned(number: i64) -> Result<u64, Code> {
    u64::try_from(number).map_err(|_| Code::IOERR)
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn close(of: *mut SqliteFile) -> c_int {
    guard(|| {
        // SAFETY: SQLite calls this with an open file.
        if unsafe { file(of) }.is_err() {
            // The parent's: it goes with the memory of the child.
            return Ok(());
        }
        // SAFETY: SQLite closes an open file, once.
        let file = unsafe { Box::from_raw((*of).file.cast::<File>()) };
        // SAFETY: as above.
        unsafe { (*of).file = std::ptr::null_mut() };
        if let Kind::Main { file, .. } = &file.kind {
            file.lock().unlock(LOCK_NONE);
        }
        Ok(())
    })
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn read(of: *mut SqliteFile, to: *mut c_void, len: c_int, at: i64) -> c_int {
    guard(|| {
        // SAFETY: SQLite calls this with an open file, and a buffer of that length that is its own.
        let (file, to) = unsafe { (file(of)?, bytes_mut(to, len)) };
        let at = unsigned(at)?;
        let done = match &file.kind {
            Kind::Main { file, .. } => file.lock().read(at, to)?,
            Kind::Journal(journal) => journal.lock().read(at, to)?,
            Kind::Super(file) => file.read(at, to),
        };
        if done == to.len() {
            return Ok(());
        }
        to[done..].fill(0);
        Err(Code::IOERR_SHORT_READ)
    })
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn write(of: *mut SqliteFile, from: *const c_void, len: c_int, at: i64) -> c_int {
    guard(|| {
        // SAFETY: SQLite calls this with an open file, and so many bytes to be read; they are not changed.
        let (file, from) = unsafe { (file(of)?, &*bytes_mut(from.cast_mut(), len)) };
        let at = unsigned(at)?;
        match &file.kind {
            Kind::Main { file, .. } => file.lock().write(at, from),
            Kind::Journal(journal) => {
                let mut journal = journal.lock();
                journal.write(at, from)?;
                if let Some(name) = super_journal::named_by(from) {
                    journal.name(name);
                }
                Ok(())
            }
            Kind::Super(file) => file.write(at, from),
        }
    })
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn truncate(of: *mut SqliteFile, len: i64) -> c_int {
    guard(|| {
        // SAFETY: SQLite calls this with an open file.
        let file = unsafe { file(of) }?;
        let len = unsigned(len)?;
        match &file.kind {
            Kind::Main { file, .. } => file.lock().truncate(len),
            Kind::Journal(journal) => journal.lock().truncate(len),
            Kind::Super(file) => {
                file.truncate(len);
                Ok(())
            }
        }
    })
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn sync(of: *mut SqliteFile, _flags: c_int) -> c_int {
    guard(|| {
        // SAFETY: SQLite calls this with an open file.
        let File { kind, api, .. } = unsafe { file(of) }?;
        match kind {
            Kind::Main { file, .. } => file.lock().sync(),
            // It is needed by ROLLBACK only.
            Kind::Journal(_) => Ok(()),
            Kind::Super(file) => file.sync().inspect_err(|code| api.log(*code, NO_SUPER_JOURNAL)),
        }
    })
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn file_size(of: *mut SqliteFile, size: *mut i64) -> c_int {
    guard(|| {
        // SAFETY: SQLite calls this with an open file.
        let len = match &unsafe { file(of) }?.kind {
            Kind::Main { file, .. } => file.lock().len()?,
            Kind::Journal(journal) => journal.lock().len(),
            Kind::Super(file) => file.len(),
        };
        // SAFETY: SQLite passes a place for the answer.
        unsafe { *size = i64::try_from(len).unwrap_or(i64::MAX) };
        Ok(())
    })
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn lock(of: *mut SqliteFile, level: c_int) -> c_int {
    guard(|| {
        // SAFETY: SQLite calls this with an open file.
        match &unsafe { file(of) }?.kind {
            Kind::Main { file, .. } => file.lock().lock(level),
            Kind::Journal(_) | Kind::Super(_) => Ok(()),
        }
    })
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn unlock(of: *mut SqliteFile, level: c_int) -> c_int {
    guard(|| {
        // SAFETY: SQLite calls this with an open file.
        if let Kind::Main { file, .. } = &unsafe { file(of) }?.kind {
            file.lock().unlock(level);
        }
        Ok(())
    })
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn check_reserved_lock(of: *mut SqliteFile, answer: *mut c_int) -> c_int {
    guard(|| {
        // SAFETY: SQLite calls this with an open file.
        let is_reserved = match &unsafe { file(of) }?.kind {
            Kind::Main { file, .. } => file.lock().has_writer()?,
            Kind::Journal(_) | Kind::Super(_) => false,
        };
        // SAFETY: SQLite passes a place for the answer.
        unsafe { *answer = c_int::from(is_reserved) };
        Ok(())
    })
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn sector_size(_of: *mut SqliteFile) -> c_int {
    SECTOR_SIZE
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn device_characteristics(of: *mut SqliteFile) -> c_int {
    // SAFETY: SQLite calls this with an open file.
    match unsafe { file(of) } {
        // What it names is known when SQLite syncs it.
        Ok(File { kind: Kind::Super(_), .. }) => CHARACTERISTICS & !IOCAP_SEQUENTIAL,
        _ => CHARACTERISTICS,
    }
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn file_control(of: *mut SqliteFile, what: c_int, with: *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: SQLite calls this with an open file.
        let File { kind, api, connection, .. } = unsafe { file(of) }?;
        let Kind::Main { file: main, .. } = kind else { return Err(Code::NOTFOUND) };
        match what {
            FCNTL_COMMIT_PHASETWO => main.lock().commit(),
            // SAFETY: with this number SQLite passes the name of the super-journal, or null.
            FCNTL_SYNC => join(api, main, unsafe { text(with.cast()) }),
            FCNTL_SIZE_HINT | FCNTL_OVERWRITE => Ok(()),
            FCNTL_LOCK_STATE => {
                // SAFETY: with this number SQLite passes a place for the answer.
                unsafe { *with.cast::<c_int>() = main.lock().level() };
                Ok(())
            }
            FCNTL_HAS_MOVED => {
                // SAFETY: with this number SQLite passes a place for the answer.
                unsafe { *with.cast::<c_int>() = 0 };
                Ok(())
            }
            FCNTL_VFSNAME => {
                // SAFETY: with this number SQLite passes a place for a text.
                unsafe { *with.cast::<*mut c_char>() = allocated(api, "tembo")? };
                Ok(())
            }
            FCNTL_PDB => {
                connection.set(with.cast());
                Ok(())
            }
            FCNTL_PRAGMA => {
                // SAFETY: with this number SQLite passes three texts: the answer's place, the name, the value or null.
                let words = unsafe { &mut *with.cast::<[*mut c_char; 3]>() };
                // SAFETY: as above.
                let (name, value) = unsafe { (text(words[1]), text(words[2])) };
                let name = name.ok_or(Code::NOTFOUND)?;
                if let (true, Some(level)) = (name.eq_ignore_ascii_case("synchronous"), &value) {
                    // SAFETY: SQLite has said it of this file, which is open.
                    let takes_it = unsafe { is_autocommit(api, connection.get()) };
                    main.lock().set_synchronous(level, takes_it);
                }
                let answered = main.lock().pragma(&name, value.as_deref());
                let text = match &answered {
                    Err(Refused { why, .. }) if why.is_empty() => None,
                    Ok(text) | Err(Refused { why: text, .. }) => Some(allocated(api, text)?),
                };
                // With an error SQLite shows it in the place of its own text.
                words[0] = text.unwrap_or(words[0]);
                answered.map(drop).map_err(|refused| refused.code)
            }
            _ => Err(Code::NOTFOUND),
        }
    })
}

/// Whether the connection is outside of transactions that SQL has begun: only then it takes another level of `synchronous`. `false`,
/// where that is not known.
///
/// # Safety
/// `connection` is null or what SQLite has passed with `FCNTL_PDB` to a file that is open, and SQLite has called.
unsafe fn is_autocommit(api: &Api, connection: *const *mut c_void) -> bool {
    // SAFETY: the caller's promise: the place has the connection that runs the statement.
    !connection.is_null() && unsafe { (api.get_autocommit)(*connection) } != 0
}

/// What a database writes is complete; it is to commit with a super-journal's others, if there is one.
fn join(api: &Api, main: &Arc<Mutex<OpenFile>>, name: Option<String>) -> Result<(), Code> {
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        main.lock().leave_super_journal();
        return Ok(());
    };
    let joined = super_journal::join(&name, main);
    if joined == Err(Code::REFUSED) {
        api.log(Code::REFUSED, NOT_THE_MAIN_DATABASE);
    }
    joined
}

/// A text of SQLite's, copied; `None`: there is none.
///
/// # Safety
/// `text` is null or ends with a zero.
pub(crate) unsafe fn text(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// A text in memory of SQLite's, which frees it.
fn allocated(api: &Api, text: &str) -> Result<*mut c_char, Code> {
    let len = c_int::try_from(text.len() + 1).map_err(|_| Code::FULL)?;
    // SAFETY: it is SQLite's own function.
    let to = unsafe { (api.malloc)(len) }.cast::<u8>();
    if to.is_null() {
        return Err(Code::FULL);
    }
    // SAFETY: there are `len` bytes at `to`, which nothing else knows.
    unsafe {
        to.copy_from_nonoverlapping(text.as_ptr(), text.len());
        *to.add(text.len()) = 0;
    }
    Ok(to.cast())
}
