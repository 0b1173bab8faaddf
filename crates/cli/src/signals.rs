//! SIGTERM and SIGINT: the first asks for a clean stop, the second ends the process at once. SIGXFSZ and SIGBUS, by which the
//! system sends about files: they do not end the process without a word.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use tembo_pmem::end_at_lost_page;

use crate::exit::{Exit, advised};

/// Set at the first signal. Ending at the second is safe at any moment: opening is recovery.
pub(crate) fn stopped() -> io::Result<Arc<AtomicBool>> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = stopped.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut arrived = signals.forever();
        if arrived.next().is_some() {
            flag.store(true, Ordering::Relaxed);
        }
        if arrived.next().is_some() {
            std::process::exit(Exit::Interrupted.code().into());
        }
    })?;
    Ok(stopped)
}

/// A write that would make a file larger than the process may make one is refused as one to a full disk is; a page of a file
/// that cannot be read ends the process with an error of its own.
pub(crate) fn of_files() -> io::Result<()> {
    // Programs that are started here would inherit that it is ignored.
    flag::register(SIGXFSZ, Arc::default())?;
    let text = advised("a page of a file could not be read", Exit::LostPage);
    end_at_lost_page(Box::leak(text.into_boxed_str()), Exit::LostPage.code().into())
}
