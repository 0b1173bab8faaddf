//! Waiting for what another thread does: a test passes when it is done, however long that takes.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Longer than any of it takes on a machine that is busy with something else.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(1);

/// Looks until what is seen is right, or panics with what was seen last.
pub(crate) fn wait_until<T: Debug>(
    what: &str,
    mut look: impl FnMut() -> T,
    is_right: impl Fn(&T) -> bool,
) {
    let began = Instant::now();
    loop {
        let seen = look();
        if is_right(&seen) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}: {seen:?}");
        std::thread::sleep(PAUSE);
    }
}
