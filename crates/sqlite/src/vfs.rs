//! The VFS: which files are ours, and the rest as the default VFS does it.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, absolute};
use std::sync::Arc;

use parking_lot::Mutex;
use tembo_kv::DomainRequest;

use crate::code::{
    Code, OPEN_CREATE, OPEN_MAIN_DB, OPEN_MAIN_JOURNAL, OPEN_READONLY, OPEN_READWRITE,
    OPEN_SUPER_JOURNAL, OPEN_WAL,
};
use crate::ffi::{Api, DefaultVfs, SqliteFile, Vfs};
use crate::file::{File, Kind, give, guard, text};
use crate::journal::Journal;
use crate::open_file::OpenFile;
use crate::open_names::{OpenName, database_of, is_of_ours};
use crate::pool::{self, Place};
use crate::process::watch_forks;
use crate::refused::Refused;
use crate::super_journal::{self, Lies};
use crate::view::View;

const NAME: &CStr = c"tembo";

/// Longest path, in bytes.
const PATH_MAX: c_int = 4096;

/// What a registered VFS knows: SQLite's functions, and the VFS that was the default.
struct Data {
    api: Api,
    default: DefaultVfs,
}

/// Registers the VFS with a SQLite, once.
pub(crate) fn register(api: Api) -> Result<(), Code> {
    // SAFETY: SQLite's own function.
    if !unsafe { (api.vfs_find)(NAME.as_ptr()) }.is_null() {
        return Ok(());
    }
    // SAFETY: SQLite's own function; null asks for the default.
    let default = unsafe { (api.vfs_find)(std::ptr::null()) };
    if default.is_null() {
        return Err(Code::IOERR);
    }
    watch_forks();
    // SAFETY: SQLite has it registered, and it stays.
    let default = unsafe { DefaultVfs::new(default) };
    let data = Box::into_raw(Box::new(Data { api, default })).cast();
    let file_size = default.file_size().max(size_of::<SqliteFile>());
    let vfs = Box::new(Vfs {
        version: 2,
        file_size: c_int::try_from(file_size).map_err(|_| Code::IOERR)?,
        path_max: PATH_MAX,
        next: std::ptr::null_mut(),
        name: NAME.as_ptr(),
        data,
        open,
        delete,
        access,
        full_path,
        dl_open,
        dl_error,
        dl_symbol,
        dl_close,
        randomness,
        sleep,
        current_time,
        last_error,
        current_time_ms: Some(current_time_ms),
    });
    // SAFETY: the VFS stays for the life of the process, as SQLite asks.
    match unsafe { (api.vfs_register)(Box::into_raw(vfs), 0) } {
        0 => Ok(()),
        code => Err(Code(code)),
    }
}

/// # Safety
/// `vfs` was registered by [`register`].
unsafe fn data<'d>(vfs: *mut Vfs) -> &'d Data {
    // SAFETY: `register` has put it there for good.
    unsafe { &*(*vfs).data.cast::<Data>() }
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn open(
    vfs: *mut Vfs,
    name: *const c_char,
    to: *mut SqliteFile,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls this with the VFS and a place for the file.
    let Data { api, default } = unsafe {
        (*to).methods = std::ptr::null();
        data(vfs)
    };
    if flags & (OPEN_MAIN_DB | OPEN_MAIN_JOURNAL | OPEN_SUPER_JOURNAL | OPEN_WAL) == 0 {
        // SAFETY: temporary files are those of the default VFS, which gets what SQLite has passed.
        return unsafe { default.open(name, to, flags, out) };
    }
    let is_super_journal = flags & OPEN_SUPER_JOURNAL != 0 && !name.is_null();
    // SAFETY: a path.
    let super_journal =
        is_super_journal.then(|| unsafe { open_super_journal(*default, name, flags) });
    if let Some(Opened::File) = super_journal {
        // SAFETY: it is a file, and the default VFS gets what SQLite has passed.
        return unsafe { default.open(name, to, flags, out) };
    }
    guard(|| {
        let kind = if let Some(Opened::Ours(kind)) = super_journal {
            kind
        } else if flags & OPEN_MAIN_DB != 0 {
            // SAFETY: the name of a database is a path with its parameters.
            let opened = unsafe { open_main(api, name, flags) };
            let file = Arc::new(Mutex::new(opened.map_err(|refused| refused.logged(api))?));
            // SAFETY: as above.
            let name = unsafe { text(name) }.ok_or(Code::CANTOPEN)?;
            Kind::Main { file, _name: OpenName::new(name) }
        } else if flags & OPEN_MAIN_JOURNAL != 0 {
            Kind::Journal(Mutex::new(Journal::new(*default)))
        } else {
            return Err(Code::CANTOPEN);
        };
        let is_past = matches!(&kind, Kind::Main { file, .. } if file.lock().is_past());
        if !out.is_null() {
            let flags = if is_past { flags & !OPEN_READWRITE | OPEN_READONLY } else { flags };
            // SAFETY: SQLite passes a place for the flags, or null.
            unsafe { *out = flags };
        }
        // SAFETY: SQLite has passed it to be filled.
        unsafe { give(to, File::new(kind, *api)) };
        Ok(())
    })
}

/// What SQLite opens as a super-journal.
enum Opened {
    Ours(Kind),
    /// It lies in a file: a super-journal of an earlier process, or the journal of an ordinary file, in which SQLite looks for a
    /// super-journal's name.
    File,
}

/// # Safety
/// `name` is a path, which is not null.
unsafe fn open_super_journal(default: DefaultVfs, name: *const c_char, flags: c_int) -> Opened {
    // SAFETY: the caller's promise.
    let (path, is_file) = unsafe { (CStr::from_ptr(name), || default.has(name)) };
    if flags & OPEN_CREATE != 0 {
        return Opened::Ours(Kind::Super(super_journal::create(path)));
    }
    match super_journal::open(path) {
        Some(open) => Opened::Ours(Kind::Super(open)),
        None if is_file() => Opened::File,
        // All that it was for has ended.
        None => Opened::Ours(Kind::Journal(Mutex::new(Journal::new(default)))),
    }
}

/// # Safety
/// `name` is the name of a database, as SQLite passes it to `xOpen` and `xFullPathname`: parameters may stand behind it.
unsafe fn parameter(api: &Api, name: *const c_char, key: &CStr) -> Option<String> {
    // SAFETY: the caller's promise; the parameter is null or ends with a zero.
    unsafe { text((api.uri_parameter)(name, key.as_ptr())) }
}

/// The version that a name asks for.
///
/// # Safety
/// As of [`parameter`].
unsafe fn view_of(api: &Api, name: *const c_char) -> Result<View, Code> {
    // SAFETY: the caller's promise.
    let of = |key| unsafe { parameter(api, name, key) };
    match (of(c"snapshot"), of(c"version")) {
        (Some(name), _) => Ok(View::Named(name)),
        (None, Some(version)) => version.parse().map(View::At).map_err(|_| Code::CANTOPEN),
        (None, None) => Ok(View::Current),
    }
}

/// What the full path of a database has at its end: connections that share a cache go by their path alone.
fn end_of_path(view: &View) -> String {
    match view {
        View::Current => String::new(),
        View::Named(name) => format!("@snapshot={name}"),
        View::At(version) => format!("@version={version}"),
    }
}

/// # Safety
/// `name` is the name of a database, as SQLite passes it to `xOpen`.
unsafe fn open_main(api: &Api, name: *const c_char, flags: c_int) -> Result<OpenFile, Refused> {
    // SAFETY: the caller's promise.
    let of = |key| unsafe { parameter(api, name, key) };
    // SAFETY: as above.
    let (path, view) = unsafe { (text(name).ok_or(Code::CANTOPEN)?, view_of(api, name)?) };
    let path = Path::new(path.strip_suffix(&end_of_path(&view)).unwrap_or(&path));
    let (pool, device) = match of(c"pool") {
        Some(pool) => {
            let device = path.file_name().and_then(|name| name.to_str()).ok_or(Code::CANTOPEN)?;
            (pool.into(), device.to_owned())
        }
        None => pool::split(path),
    };
    let domain = match of(c"domain").as_deref() {
        None => None,
        Some("flush") => Some(DomainRequest::Flush),
        Some("logged") => Some(DomainRequest::Logged),
        Some(_) => return Err(Code::CANTOPEN.into()),
    };
    let creates = flags & OPEN_CREATE != 0 && view == View::Current;
    OpenFile::new(Place { pool, device, domain, creates }, view)
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite passes a path.
    let path = unsafe { text(name) }.unwrap_or_default();
    let lies = super_journal::lies(&path);
    if lies == Lies::Unknown && database_of(&path).is_some() {
        // Journals are of the connection that has them open, and no other finds one.
        return crate::code::OK;
    }
    // With a sync SQLite commits; without one it has rolled a database back.
    if lies != Lies::Unknown && sync != 0 {
        let done = guard(|| super_journal::commit(&path));
        if done != crate::code::OK {
            return done;
        }
    }
    // SAFETY: SQLite passes a path.
    let is_file = || unsafe { data(vfs).default.has(name) };
    // One that nothing holds may have lain in memory only: a transaction that has changed nothing. And the VFS of an ordinary file may
    // have removed it before.
    if lies == Lies::InMemory || super_journal::has_its_form(&path) && !is_file() {
        return crate::code::OK;
    }
    // SAFETY: what SQLite has passed, to the VFS below.
    unsafe { data(vfs).default.delete(name, sync) }
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn access(
    vfs: *mut Vfs,
    name: *const c_char,
    flags: c_int,
    answer: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes a path.
    let path = unsafe { text(name) }.unwrap_or_default();
    let is_ours = is_of_ours(&path);
    if is_ours || super_journal::lies(&path) != Lies::Unknown {
        // No other connection finds a journal. SAFETY: SQLite passes a place for the answer.
        unsafe { *answer = c_int::from(!is_ours) };
        return crate::code::OK;
    }
    // SAFETY: what SQLite has passed, to the VFS below.
    unsafe { data(vfs).default.access(name, flags, answer) }
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn full_path(
    vfs: *mut Vfs,
    name: *const c_char,
    size: c_int,
    to: *mut c_char,
) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes the name of a database.
        let (path, pool, view) = unsafe {
            let api = &data(vfs).api;
            (CStr::from_ptr(name), parameter(api, name, c"pool"), view_of(api, name)?)
        };
        let path = full(Path::new(OsStr::from_bytes(path.to_bytes())), pool.as_deref(), &view)?;
        let path = path.as_bytes();
        if path.len() >= usize::try_from(size).unwrap_or(0) {
            return Err(Code::CANTOPEN);
        }
        // SAFETY: SQLite passes a place of that size.
        unsafe {
            to.cast::<u8>().copy_from_nonoverlapping(path.as_ptr(), path.len());
            *to.add(path.len()) = 0;
        }
        Ok(())
    })
}

/// The full path of a database: two that differ have two.
fn full(path: &Path, pool: Option<&str>, view: &View) -> Result<OsString, Code> {
    let place = match (pool, path.file_name()) {
        (Some(pool), Some(device)) => absolute(pool).map(|pool| pool.join(device)),
        _ => absolute(path),
    };
    let mut path = place.map_err(|_| Code::CANTOPEN)?.into_os_string();
    path.push(end_of_path(view));
    Ok(path)
}

/// Functions that the default VFS has.
macro_rules! as_default {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(
        /// # Safety
        /// SQLite calls it, with what the function of that name is given.
        unsafe extern "C" fn $name(vfs: *mut Vfs, $($argument: $kind),*) -> $result {
            // SAFETY: what SQLite has passed, to the VFS below.
            unsafe {
                let default = data(vfs).default.as_ptr();
                ((*default).$name)(default, $($argument),*)
            }
        })*
    };
}

as_default! {
    dl_open(name: *const c_char) -> *mut c_void;
    dl_error(size: c_int, to: *mut c_char) -> ();
    dl_symbol(library: *mut c_void, name: *const c_char) -> Option<unsafe extern "C" fn()>;
    dl_close(library: *mut c_void) -> ();
    randomness(size: c_int, to: *mut c_char) -> c_int;
    sleep(us: c_int) -> c_int;
    current_time(to: *mut f64) -> c_int;
    last_error(size: c_int, to: *mut c_char) -> c_int;
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn current_time_ms(vfs: *mut Vfs, to: *mut i64) -> c_int {
    // SAFETY: SQLite calls this with the VFS and a place for the answer.
    let (default, to) = unsafe { (data(vfs).default.as_ptr(), &mut *to) };
    // SAFETY: the VFS below stays.
    if let Some(function) = unsafe { (*default).current_time_ms } {
        // SAFETY: what SQLite has passed, to the VFS below.
        return unsafe { function(default, to) };
    }
    let mut days = 0.0;
    // SAFETY: as above.
    let code = unsafe { ((*default).current_time)(default, &raw mut days) };
    *to = (days * 86_400_000.0) as i64;
    code
}
