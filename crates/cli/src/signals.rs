//! SIGTERM and SIGINT: the first asks for a clean stop, the second ends the process at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Exit;

/// Calls `stop` at the first signal. Ending at once is safe at any moment: opening is recovery.
pub(crate) fn watch(stop: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut arrived = signals.forever();
        if arrived.next().is_some() {
            stop();
        }
        if arrived.next().is_some() {
            std::process::exit(Exit::Interrupted.code().into());
        }
    })?;
    Ok(())
}

/// Set at the first signal; the second is as in [`watch`].
pub(crate) fn stopped() -> io::Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = stopped.clone();
    watch(move || flag.store(true, Ordering::Relaxed))?;
    Ok(stopped)
}
