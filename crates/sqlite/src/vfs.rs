//! The VFS: which files are ours, and the rest as the default VFS does it.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tembo_kv::DomainRequest;

use crate::code::{
    Code, OPEN_CREATE, OPEN_MAIN_DB, OPEN_MAIN_JOURNAL, OPEN_READONLY, OPEN_READWRITE,
    OPEN_SUPER_JOURNAL, OPEN_WAL,
};
use crate::ffi::{Api, SqliteFile, Vfs};
use crate::file::{File, Kind, give, guard, text};
use crate::journal::{Journal, is_super_journal, remove_super_journal, super_journal};
use crate::open_file::OpenFile;
use crate::pool::{self, Place};
use crate::process::watch_forks;
use crate::view::View;

const NAME: &CStr = c"tembo";

/// Longest path, in bytes.
const PATH_MAX: c_int = 4096;

/// What a registered VFS knows: SQLite's functions, and the VFS that was the default.
struct Data {
    api: Api,
    default: *mut Vfs,
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
    let data = Box::into_raw(Box::new(Data { api, default })).cast();
    // SAFETY: what SQLite has registered stays, and does not change but for its link.
    let default_size = unsafe { (*default).file_size };
    let vfs = Box::new(Vfs {
        version: 2,
        file_size: default_size.max(size_of::<SqliteFile>() as c_int),
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
        return unsafe { ((**default).open)(*default, name, to, flags, out) };
    }
    guard(|| {
        let kind = if flags & OPEN_MAIN_DB != 0 {
            // SAFETY: the name of a database is a path with its parameters.
            Kind::Main(Arc::new(Mutex::new(unsafe { open_main(api, name, flags) }?)))
        } else if flags & OPEN_SUPER_JOURNAL != 0 {
            // SAFETY: a path.
            Kind::Journal(super_journal(&unsafe { text(name) }.ok_or(Code::CANTOPEN)?))
        } else if flags & OPEN_MAIN_JOURNAL != 0 {
            Kind::Journal(Arc::new(Mutex::new(Journal::default())))
        } else {
            return Err(Code::CANTOPEN);
        };
        let is_past = matches!(&kind, Kind::Main(main) if main.lock().is_past());
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

/// # Safety
/// `name` is the name of a database, as SQLite passes it to `xOpen`.
unsafe fn open_main(api: &Api, name: *const c_char, flags: c_int) -> Result<OpenFile, Code> {
    // SAFETY: the caller's promise; the parameter is null or ends with a zero.
    let parameter = |key: &CStr| unsafe { text((api.uri_parameter)(name, key.as_ptr())) };
    // SAFETY: the caller's promise.
    let path = unsafe { text(name) }.ok_or(Code::CANTOPEN)?;
    let path = Path::new(&path);
    let (pool, device) = match parameter(c"pool") {
        Some(pool) => {
            let device = path.file_name().and_then(|name| name.to_str()).ok_or(Code::CANTOPEN)?;
            (pool.into(), device.to_owned())
        }
        None => pool::split(path),
    };
    let domain = match parameter(c"domain").as_deref() {
        None => None,
        Some("flush") => Some(DomainRequest::Flush),
        Some("logged") => Some(DomainRequest::Logged),
        Some(_) => return Err(Code::CANTOPEN),
    };
    let view = match (parameter(c"snapshot"), parameter(c"version")) {
        (Some(name), _) => View::Named(name),
        (None, Some(version)) => View::At(version.parse().map_err(|_| Code::CANTOPEN)?),
        (None, None) => View::Current,
    };
    let creates = flags & OPEN_CREATE != 0 && view == View::Current;
    OpenFile::new(Place { pool, device, domain, creates }, view)
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn delete(vfs: *mut Vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite passes a path.
    let path = unsafe { text(name) }.unwrap_or_default();
    if is_super_journal(&path) {
        return guard(|| remove_super_journal(&path, sync != 0));
    }
    if is_journal(&path) {
        return crate::code::OK;
    }
    // SAFETY: what SQLite has passed, to the VFS below.
    unsafe { ((*data(vfs).default).delete)(data(vfs).default, name, sync) }
}

/// Journals are of the connection that has them open, and no other finds one.
fn is_journal(path: &str) -> bool {
    path.ends_with("-journal") || path.ends_with("-wal")
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
    let is_super = is_super_journal(&path);
    if is_super || is_journal(&path) {
        // SAFETY: SQLite passes a place for the answer.
        unsafe { *answer = c_int::from(is_super) };
        return crate::code::OK;
    }
    // SAFETY: what SQLite has passed, to the VFS below.
    unsafe { ((*data(vfs).default).access)(data(vfs).default, name, flags, answer) }
}

/// # Safety
/// SQLite calls it, with what the function of that name is given.
unsafe extern "C" fn full_path(
    _vfs: *mut Vfs,
    name: *const c_char,
    size: c_int,
    to: *mut c_char,
) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes a path.
        let name = OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes());
        let path = std::path::absolute(name).map_err(|_| Code::CANTOPEN)?;
        let path = path.as_os_str().as_bytes();
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

/// Functions that the default VFS has.
macro_rules! as_default {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        $(
        /// # Safety
        /// SQLite calls it, with what the function of that name is given.
        unsafe extern "C" fn $name(vfs: *mut Vfs, $($argument: $kind),*) -> $result {
            // SAFETY: what SQLite has passed, to the VFS below.
            unsafe { ((*data(vfs).default).$name)(data(vfs).default, $($argument),*) }
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
    let (default, to) = unsafe { (data(vfs).default, &mut *to) };
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
