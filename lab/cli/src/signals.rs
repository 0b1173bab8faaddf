//! SIGTERM and SIGINT: the first asks for a clean stop, the second ends the process at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Exit;

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
