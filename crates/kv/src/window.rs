//! The window: versions that stay readable though nobody holds them, durably.
//!
//! Two words of the root say it: since when everything is kept, and how many versions, if the window is
//! to move on by itself. The first says whether the second counts, so that each change of the window is one
//! store of one of them. What is collected depends on where the window begins, and an open believes what
//! it finds there; so the word moves durably before anything is collected that it kept. It moves in
//! steps of an eighth of the window, each of one flush and one fence; the window has up to so many more
//! versions than was asked for, and so many more as were drawn in [lanes](crate::lanes) since one of those last
//! went by the writer's lock.
//!
//! Versions are numbers, and an open skips up to 65,536 of them. A window that counts versions waits
//! after an open until so many were drawn as it is to keep, so that a restart does not empty it.
//!
//! Two more words say what was rolled back: whoever has followed the changes into it learns that it did
//! not happen. A rollback needs them not, its dead interval says the same; they are written before that is
//! forgotten. They hold the hull of all rollbacks: between two of them it is void too, for who begins to follow there.

use tembo_index::{DeadInterval, VERSION_MAX};
use tembo_pmem::Region;

use crate::format::WINDOW_FIXED;
use crate::inner::Inner;
use crate::ledger::Ledger;
use crate::writer::WriterState;
use crate::{Error, Snapshot, Store};

/// What is kept of the past beside what is pinned or named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    /// Nothing.
    #[default]
    Nothing,
    /// The last so many versions, and a few more.
    Versions(u64),
    /// Everything since that version.
    Since(u64),
}

/// The window moves at most once in so many versions.
const STEP_MIN: u64 = 64;

/// What the writer knows of the window.
#[derive(Default)]
pub(crate) struct Window {
    pub(crate) retention: Retention,
    /// The version of the open: no window that counts versions begins before so many more were drawn.
    opened_at: u64,
    /// Versions of before the open that it still has: what they need is in no list, and so only a
    /// sweep gives it back, when half of them have gone.
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

    /// Whether a survey is due, now that the window begins there.
    pub(crate) fn inherits_less(&mut self, since: u64) -> bool {
        let Some((from, to)) = self.inherited else { return false };
        let is_due = since >= from + (to - from).div_ceil(2);
        if is_due {
            self.inherited = (since < to).then_some((since, to));
        }
        is_due
    }

    /// Where it is to begin, if it is to move.
    fn next(&self, from: u64, visible: u64) -> Option<u64> {
        let Retention::Versions(count) = self.retention else { return None };
        let next = visible.checked_sub(count)?;
        let step = (count / 8).max(STEP_MIN);
        (next >= self.opened_at && next >= from + step).then_some(next)
    }
}

impl Ledger {
    /// Since when everything is kept, and what was asked for.
    pub(crate) fn window(&self, region: &Region) -> Result<(Option<u64>, Retention), Error> {
        let media = self.media(region)?;
        let (word, count) = (media.window_from.load(), media.window_count.load());
        let from = word & !WINDOW_FIXED;
        Ok(match (word, count) {
            (0, _) => (None, Retention::Nothing),
            (_, count) if word == from && count > 0 => (Some(from), Retention::Versions(count)),
            _ => (Some(from), Retention::Since(from)),
        })
    }

    /// Durable when it returns; before, a crash leaves the window of before or this one.
    fn set_window(
        &self,
        region: &Region,
        from: Option<u64>,
        retention: Retention,
    ) -> Result<(), Error> {
        let media = self.media(region)?;
        let word = match (from, retention) {
            (None, _) => 0,
            (Some(from), Retention::Versions(count)) => {
                region.store(&media.window_count, count);
                from
            }
            (Some(from), _) => from | WINDOW_FIXED,
        };
        // ORDER: after the count, which from here on may count: same line, store order.
        region.commit("kv.window.move", &media.window_from, word);
        // ORDER: moved before anything is collected that the window kept, or counted on by the caller.
        region.flush("kv.window.flush", region.offset_of(&media.window_from), 16);
        // ORDER: as above.
        region.fence("kv.window.fence");
        Ok(())
    }

    /// Versions in `(from, to]` of which some were rolled back.
    pub(crate) fn void(&self, region: &Region) -> Result<Option<(u64, u64)>, Error> {
        let media = self.media(region)?;
        let (from, to) = (media.void_from.load(), media.void_to.load());
        Ok((to != 0).then_some((from, to)))
    }

    /// Durable when it returns.
    fn set_void(&self, region: &Region, (from, to): (u64, u64)) -> Result<(), Error> {
        let media = self.media(region)?;
        region.store(&media.void_from, from);
        // ORDER: after the lower end: same line, store order. In between too much is void, never too little.
        region.commit("kv.void.note", &media.void_to, to);
        // ORDER: noted before the dead interval is forgotten, which said it until then.
        region.flush("kv.void.flush", region.offset_of(&media.void_from), 16);
        // ORDER: as above.
        region.fence("kv.void.fence");
        Ok(())
    }

    /// Whether what the root says of window and rollbacks can be.
    pub(crate) fn past_is_sound(&self, region: &Region) -> Result<bool, Error> {
        let media = self.media(region)?;
        let limit = media.version_limit.load();
        let (from, to) = (media.void_from.load(), media.void_to.load());
        let window = media.window_from.load();
        Ok(window != WINDOW_FIXED
            && window & !WINDOW_FIXED <= limit
            && media.window_count.load() <= VERSION_MAX
            && to <= limit
            && (to == 0 || from <= to))
    }
}

impl Inner {
    /// Moves a window that counts versions, if that is due. By the one writer, outside of its sections.
    #[inline]
    pub(crate) fn move_window(&self, state: &mut WriterState) {
        if let Retention::Versions(_) = state.window.retention {
            let next =
                self.pins.with_past(|past, visible| state.window.next(past.window()?, visible));
            if next.is_some() {
                // In a full pool it stays where it is, and is moved later.
                let _ = self.put_window(state, next, state.window.retention);
            }
        }
    }

    /// Durable before it is in force.
    fn put_window(
        &self,
        state: &mut WriterState,
        from: Option<u64>,
        retention: Retention,
    ) -> Result<(), Error> {
        let section = self.region().reserve(2)?;
        self.ledger.set_window(self.region(), from, retention)?;
        drop(section);
        self.pins.with_past(|past, _| past.set_window(from));
        state.window.retention = retention;
        self.let_go(from.unwrap_or(0));
        Ok(())
    }

    /// Notes durably what was rolled back, before its dead intervals are forgotten.
    pub(crate) fn note_void(&self, forgotten: &[DeadInterval]) -> Result<(), Error> {
        let void = self.pins.with_past(|past, _| past.void());
        if let Some(void) = void
            && forgotten.iter().any(|dead| dead.lane.is_none())
        {
            let _section = self.region().reserve(2)?;
            self.ledger.set_void(self.region(), void)?;
        }
        Ok(())
    }
}

impl Store {
    /// Keeps a window of versions readable ([`Store::snapshot_at`]), and everything that happened in it
    /// known ([`Store::changes`]). Of what happened before this call only what is retained by the window
    /// of before can be kept. Returns the oldest version of the window.
    ///
    /// There is no clock here: whoever wants to keep an hour notes now and then which version is visible,
    /// and says [`Retention::Since`] the one of an hour ago.
    ///
    /// Durability point: when it returns.
    ///
    /// # Errors
    /// [`Error::NotRetained`] of [`Retention::Since`] a version that is not in the window of before.
    pub fn retain(&self, retention: Retention) -> Result<u64, Error> {
        let mut state = self.inner.lock();
        state.sound()?;
        let (window, visible) = self.inner.pins.with_past(|past, visible| (past.window(), visible));
        let oldest = window.unwrap_or(visible);
        let from = match retention {
            Retention::Nothing => None,
            Retention::Since(version) if (oldest..=visible).contains(&version) => Some(version),
            Retention::Since(version) => return Err(Error::NotRetained { version }),
            Retention::Versions(_) => Some(oldest),
        };
        let retention = match retention {
            Retention::Versions(count) => Retention::Versions(count.clamp(1, VERSION_MAX)),
            other => other,
        };
        self.inner.put_window(&mut state, from, retention)?;
        self.inner.move_window(&mut state);
        self.inner.region().sync()?;
        self.inner.reclaim(&mut state);
        drop(state);
        Ok(self.oldest())
    }

    /// Names the version of a snapshot durably, as [`Store::save_snapshot`] does the visible one. Synced
    /// when it returns.
    ///
    /// # Errors
    /// [`Error::SnapshotName`].
    pub fn name_snapshot(&self, name: &str, snapshot: &Snapshot<'_>) -> Result<(), Error> {
        let mut state = self.inner.lock();
        let version = snapshot.version();
        self.inner.pins.pin(version);
        if let Err(error) = self.inner.name(name, version) {
            self.inner.pins.unpin(version);
            return Err(error);
        }
        if let Some(before) = state.named.insert(name.to_owned(), version) {
            self.inner.pins.unpin(before);
        }
        Ok(())
    }

    /// What is kept of the past.
    pub fn retention(&self) -> Retention {
        self.inner.lock().window.retention
    }

    /// Versions above the first, up to the second: some of them were rolled back, and whoever has followed
    /// the changes into them has to go back or begin anew.
    pub fn rolled_back(&self) -> Option<(u64, u64)> {
        self.inner.pins.with_past(|past, _| past.void())
    }

    /// The oldest version of the window; the visible one, if there is none.
    pub fn oldest(&self) -> u64 {
        self.inner.pins.with_past(|past, visible| past.window().unwrap_or(visible))
    }
}
