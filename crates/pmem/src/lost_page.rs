//! What ends a process that needs a page which its file does not have, or its disk does not give.
#![allow(unsafe_code)]

use std::io;
use std::sync::OnceLock;

/// What is said, and the exit code.
static END: OnceLock<(&str, i32)> = OnceLock::new();

/// From here on, a page of a mapped file that cannot be read (SIGBUS) ends the process with this exit code, after it has written
/// `text` to its standard error; without this it ends by the signal, and says nothing. A mapped file loses pages when
/// another program cuts it short, and when its disk fails. For programs: a library leaves signals to its program. The
/// first call decides.
///
/// # Errors
/// The system's.
pub fn end_at_lost_page(text: &'static str, code: i32) -> io::Result<()> {
    END.get_or_init(|| (text, code));
    // SAFETY: a `sigaction` of zeroes is valid: no flags, and no signal is blocked. The handler calls only what may be
    // called in one, and does not return.
    let installed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = end as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut())
    };
    if installed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn end(_signal: libc::c_int) {
    let (text, code) = END.get().copied().unwrap_or(("", 1));
    // SAFETY: both may be called in a handler of signals; the text is there as long as the process.
    unsafe {
        // There is no other place to say it.
        let _ = libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
        libc::_exit(code)
    }
}
