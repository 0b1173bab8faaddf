//! SQLite's binary interface, as far as it is used here.
//!
//! Declared here, and not taken from `libsqlite3-sys`: that crate either links a SQLite or is built for extensions, for a whole
//! build, and a program may have one version of it only. The interface is stable: structures and the table of functions grow at
//! their ends (`sqlite3.h`, `sqlite3ext.h`).

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::code::{ACCESS_EXISTS, Code, OK};

/// An open file, of which SQLite knows the first field.
#[repr(C)]
pub(crate) struct SqliteFile {
    pub(crate) methods: *const IoMethods,
    /// What is ours; null after closing.
    pub(crate) file: *mut c_void,
}

type OnFile<A> = unsafe extern "C" fn(*mut SqliteFile, A) -> c_int;

/// The functions of an open file, in version 1: without shared memory, and so without a WAL.
#[repr(C)]
pub(crate) struct IoMethods {
    pub(crate) version: c_int,
    pub(crate) close: unsafe extern "C" fn(*mut SqliteFile) -> c_int,
    pub(crate) read: unsafe extern "C" fn(*mut SqliteFile, *mut c_void, c_int, i64) -> c_int,
    pub(crate) write: unsafe extern "C" fn(*mut SqliteFile, *const c_void, c_int, i64) -> c_int,
    pub(crate) truncate: OnFile<i64>,
    pub(crate) sync: OnFile<c_int>,
    pub(crate) file_size: OnFile<*mut i64>,
    pub(crate) lock: OnFile<c_int>,
    pub(crate) unlock: OnFile<c_int>,
    pub(crate) check_reserved_lock: OnFile<*mut c_int>,
    pub(crate) file_control: unsafe extern "C" fn(*mut SqliteFile, c_int, *mut c_void) -> c_int,
    pub(crate) sector_size: unsafe extern "C" fn(*mut SqliteFile) -> c_int,
    pub(crate) device_characteristics: unsafe extern "C" fn(*mut SqliteFile) -> c_int,
}

type Symbol = Option<unsafe extern "C" fn()>;

/// A file system of SQLite, in version 2.
#[repr(C)]
pub(crate) struct Vfs {
    pub(crate) version: c_int,
    pub(crate) file_size: c_int,
    pub(crate) path_max: c_int,
    pub(crate) next: *mut Vfs,
    pub(crate) name: *const c_char,
    pub(crate) data: *mut c_void,
    pub(crate) open:
        unsafe extern "C" fn(*mut Vfs, *const c_char, *mut SqliteFile, c_int, *mut c_int) -> c_int,
    pub(crate) delete: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int,
    pub(crate) access: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int,
    pub(crate) full_path:
        unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int,
    pub(crate) dl_open: unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void,
    pub(crate) dl_error: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char),
    pub(crate) dl_symbol: unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> Symbol,
    pub(crate) dl_close: unsafe extern "C" fn(*mut Vfs, *mut c_void),
    pub(crate) randomness: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub(crate) sleep: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub(crate) current_time: unsafe extern "C" fn(*mut Vfs, *mut f64) -> c_int,
    pub(crate) last_error: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub(crate) current_time_ms: Option<unsafe extern "C" fn(*mut Vfs, *mut i64) -> c_int>,
}

/// The VFS that was the default when ours was registered.
#[derive(Clone, Copy)]
pub(crate) struct DefaultVfs(*mut Vfs);

impl DefaultVfs {
    /// # Safety
    /// It is registered, and stays so.
    pub(crate) unsafe fn new(vfs: *mut Vfs) -> DefaultVfs {
        DefaultVfs(vfs)
    }

    pub(crate) fn as_ptr(self) -> *mut Vfs {
        self.0
    }

    /// Bytes that an open file of it needs.
    pub(crate) fn file_size(self) -> usize {
        // SAFETY: what SQLite has registered stays, and does not change but for its link.
        usize::try_from(unsafe { (*self.0).file_size }).unwrap_or(0)
    }

    /// # Safety
    /// As of `xOpen`: a name of SQLite's or null, and a place with as many bytes as the VFS needs.
    pub(crate) unsafe fn open(
        self,
        name: *const c_char,
        to: *mut SqliteFile,
        flags: c_int,
        out: *mut c_int,
    ) -> c_int {
        // SAFETY: the VFS stays; the rest is the caller's promise.
        unsafe { ((*self.0).open)(self.0, name, to, flags, out) }
    }

    /// # Safety
    /// As of `xDelete`: a path.
    pub(crate) unsafe fn delete(self, name: *const c_char, sync: c_int) -> c_int {
        // SAFETY: as above.
        unsafe { ((*self.0).delete)(self.0, name, sync) }
    }

    /// # Safety
    /// As of `xAccess`: a path, and a place for the answer.
    pub(crate) unsafe fn access(
        self,
        name: *const c_char,
        flags: c_int,
        answer: *mut c_int,
    ) -> c_int {
        // SAFETY: as above.
        unsafe { ((*self.0).access)(self.0, name, flags, answer) }
    }

    /// # Safety
    /// `name` is a path.
    pub(crate) unsafe fn has(self, name: *const c_char) -> bool {
        let mut answer = 0;
        // SAFETY: the caller's promise.
        let code = unsafe { self.access(name, ACCESS_EXISTS, &raw mut answer) };
        code == OK && answer != 0
    }
}

type Log = unsafe extern "C" fn(c_int, *const c_char, ...);

/// SQLite's own functions that are used.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    pub(crate) malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    pub(crate) vfs_find: unsafe extern "C" fn(*const c_char) -> *mut Vfs,
    pub(crate) vfs_register: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub(crate) uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    /// Of a connection.
    pub(crate) get_autocommit: unsafe extern "C" fn(*mut c_void) -> c_int,
    log: Log,
}

/// Places of functions in SQLite's table (`struct sqlite3_api_routines`).
const GET_AUTOCOMMIT: usize = 60;
const MALLOC: usize = 68;
const VFS_FIND: usize = 141;
const VFS_REGISTER: usize = 142;
const LOG: usize = 167;
const URI_PARAMETER: usize = 189;

/// Those of all that are used.
const PLACES: [usize; 6] = [GET_AUTOCOMMIT, MALLOC, VFS_FIND, VFS_REGISTER, LOG, URI_PARAMETER];

impl Api {
    /// From the table that SQLite gives an extension. `None`: there is none.
    ///
    /// # Safety
    /// `table` is null, or SQLite's table of 3.8 or later.
    pub(crate) unsafe fn of(table: *const c_void) -> Option<Api> {
        let table = table.cast::<*const c_void>();
        if table.is_null() {
            return None;
        }
        // SAFETY: the table has at least so many entries, each a pointer to a function.
        let at = |index| unsafe { *table.add(index) };
        if PLACES.iter().any(|&index| at(index).is_null()) {
            return None;
        }
        // SAFETY: these are the places of functions of these types, and none is null.
        unsafe {
            Some(Api {
                malloc: std::mem::transmute::<
                    *const c_void,
                    unsafe extern "C" fn(c_int) -> *mut c_void,
                >(at(MALLOC)),
                vfs_find: std::mem::transmute::<
                    *const c_void,
                    unsafe extern "C" fn(*const c_char) -> *mut Vfs,
                >(at(VFS_FIND)),
                vfs_register: std::mem::transmute::<
                    *const c_void,
                    unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
                >(at(VFS_REGISTER)),
                uri_parameter: std::mem::transmute::<
                    *const c_void,
                    unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
                >(at(URI_PARAMETER)),
                get_autocommit: std::mem::transmute::<
                    *const c_void,
                    unsafe extern "C" fn(*mut c_void) -> c_int,
                >(at(GET_AUTOCOMMIT)),
                log: std::mem::transmute::<*const c_void, Log>(at(LOG)),
            })
        }
    }

    /// Writes to the program's error log (`SQLITE_CONFIG_LOG`), if it has one: a result code says little.
    pub(crate) fn log(&self, code: Code, text: &CStr) {
        // SAFETY: SQLite's own function; the format asks for one text, which ends with a zero.
        unsafe { (self.log)(code.0, c"%s".as_ptr(), text.as_ptr()) };
    }
}
