//! Where SQLite enters.

use std::ffi::{c_char, c_int, c_void};
use std::panic::catch_unwind;

use crate::code::{Code, OK, OK_LOAD_PERMANENTLY};
use crate::ffi::Api;
use crate::vfs::register;

/// SQLite calls this when it loads the extension. It registers the VFS `tembo`, once, and stays loaded.
///
/// # Safety
/// `api` is what SQLite passes to the entry of an extension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_tembosqlite_init(
    _connection: *mut c_void,
    _message: *mut *mut c_char,
    api: *const c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { registered(api) } {
        OK => OK_LOAD_PERMANENTLY,
        code => code,
    }
}

/// For a program that is linked with this crate and with a SQLite: it passes this function to `sqlite3_auto_extension` before
/// it opens its first connection, and so registers the VFS `tembo` with that SQLite.
///
/// # Safety
/// SQLite calls it, with what it passes to an automatic extension.
pub unsafe extern "C" fn auto_extension(
    _connection: *mut c_void,
    _message: *mut *mut c_char,
    api: *const c_void,
) -> c_int {
    // SAFETY: the caller's promise. To stay loaded has no meaning here, and would be an error.
    unsafe { registered(api) }
}

/// # Safety
/// `api` is what SQLite passes to the entry of an extension.
unsafe fn registered(api: *const c_void) -> c_int {
    // SAFETY: the caller's promise.
    let api = unsafe { Api::of(api) };
    let registered = catch_unwind(|| match api {
        Some(api) => register(api),
        None => Err(Code::IOERR),
    });
    match registered {
        Ok(Ok(())) => OK,
        Ok(Err(Code(code))) => code,
        Err(_) => Code::IOERR.0,
    }
}
