//! Threads inside of a program that is not ours.

use std::io;
use std::mem::MaybeUninit;
use std::thread::Builder;

/// Signals that a thread gets for what it has done itself: they are never blocked.
const OWN: [libc::c_int; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// Starts a thread that gets no signal of the program's, and that does not keep the program from ending.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: a thread begins with the signals that its maker blocks. The sets are filled before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for signal in OWN {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
    }
    let started = Builder::new().name(name.to_owned()).spawn(work);
    // SAFETY: the call above has filled the set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    started.map(drop)
}
