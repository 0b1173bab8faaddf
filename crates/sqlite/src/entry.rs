//! Where SQLite enters.

use std::ffi::{c_char, c_int, c_void};
use std::panic::catch_unwind;

use crate::code::{Code, OK_LOAD_PERMANENTLY};
use crate::ffi::Api;
use crate::vfs::register;

/// SQLite calls this when it loads the extension, or of a program that is linked with it, when a connection opens after
/// `sqlite3_auto_extension`. It registers the VFS `tembo`, once, and stays loaded.
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
    let api = unsafe { Api::of(api) };
    let registered = catch_unwind(|| match api {
        Some(api) => register(api),
        None => Err(Code::IOERR),
    });
    match registered {
        Ok(Ok(())) => OK_LOAD_PERMANENTLY,
        Ok(Err(Code(code))) => code,
        Err(_) => Code::IOERR.0,
    }
}
