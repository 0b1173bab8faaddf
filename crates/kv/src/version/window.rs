//! The window: versions that stay readable without a handle, durably.
//!
//! What is collected depends on where the window begins, and an open believes what it finds there; so the
//! window moves durably before anything is collected that it kept. It moves in steps of an eighth of the window,
//! each of one flush and one fence; the window has up to so many more versions than was asked for, and so many
//! more as were drawn in [write slots](crate::write) since a change in one of them last went by the writer's lock.
//!
//! Versions are numbers, and an open skips up to 65,536 of them. A window that counts versions waits
//! after an open until so many were drawn as it is to keep, so that a restart does not empty it.

use crate::media::Retention;

/// The window moves at most once in so many versions.
const STEP_MIN: u64 = 64;

/// What the writer knows of the window.
#[derive(Default)]
pub(crate) struct Window {
    pub(crate) retention: Retention,
    /// The version of the open: no window that counts versions begins before so many more were drawn.
    opened_at: u64,
    /// Versions of before the open that it still has: what they need is in no list, and so only a
    /// sweep gives it back, when half of them have been given up.
    inherited: Option<(u64, u64)>,
}

impl Window {
    /// As an open at a version finds it.
    pub(crate) fn found(from: Option<u64>, retention: Retention, opened_at: u64) -> Window {
        Window { retention, opened_at, inherited: from.map(|from| (from, opened_at)) }
    }

    /// Whether it has versions of before the open.
    pub(crate) fn inherits(&self) -> bool {
        self.inherited.is_some()
    }

    /// Whether a marking is due, now that the window begins there.
    pub(crate) fn inherits_less(&mut self, since: u64) -> bool {
        let Some((from, to)) = self.inherited else { return false };
        let is_due = since >= from + (to - from).div_ceil(2);
        if is_due {
            self.inherited = (since < to).then_some((since, to));
        }
        is_due
    }

    /// Where it is to begin, if it is to move.
    pub(crate) fn next(&self, from: u64, visible: u64) -> Option<u64> {
        let Retention::Versions(count) = self.retention else { return None };
        let next = visible.checked_sub(count)?;
        let step = (count / 8).max(STEP_MIN);
        (next >= self.opened_at && next >= from + step).then_some(next)
    }
}
