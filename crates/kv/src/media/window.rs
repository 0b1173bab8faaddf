//! The words of the window: since when everything is kept, and what was rolled back.
//!
//! Two words say since when everything is kept, and how many versions, if the window moves on by itself.
//! The first says whether the second counts, so that each change of the window is one store of one of them.
//!
//! Two more words say what was rolled back: a reader of the changes that has followed them into it learns that
//! it did not happen. A rollback does not need them, its dead interval says the same; they are written before
//! that is forgotten. They hold the hull of all rollbacks: what lies between two of them counts as void too
//! for a reader of the changes that begins there.

use super::format::WINDOW_FIXED;
use super::root::Root;
use crate::Error;

/// What is kept of the past, beside versions that are pinned or named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retention {
    /// Nothing.
    #[default]
    Nothing,
    /// At least so many of the last versions, and at most a few more.
    Versions(u64),
    /// Everything since that version.
    Since(u64),
}

/// The window of a store.
pub(crate) struct WindowWords<'r>(pub(crate) &'r Root);

impl WindowWords<'_> {
    /// Since when everything is kept, and what was asked for.
    pub(crate) fn load(&self) -> Result<(Option<u64>, Retention), Error> {
        let media = self.0.media()?;
        let (word, count) = (media.window_from.load(), media.window_count.load());
        let from = word & !WINDOW_FIXED;
        Ok(match (word, count) {
            (0, _) => (None, Retention::Nothing),
            (_, count) if word == from && count > 0 => (Some(from), Retention::Versions(count)),
            _ => (Some(from), Retention::Since(from)),
        })
    }

    /// Stores a window. Durable when it returns; a crash before that leaves the old window or this one.
    pub(crate) fn store(&self, from: Option<u64>, retention: Retention) -> Result<(), Error> {
        let (region, media) = (self.0.region(), self.0.media()?);
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
        // ORDER: the window is durable before anything that the old one kept is collected, and before the caller counts on it.
        region.flush("kv.window.flush", region.offset_of(&media.window_from), 16);
        // ORDER: as above.
        region.fence("kv.window.fence");
        Ok(())
    }

    /// Versions in `(from, to]` of which some were rolled back.
    pub(crate) fn void(&self) -> Result<Option<(u64, u64)>, Error> {
        let media = self.0.media()?;
        let (from, to) = (media.void_from.load(), media.void_to.load());
        Ok((to != 0).then_some((from, to)))
    }

    /// Stores which versions were rolled back. Fenced when it returns.
    pub(crate) fn store_void(&self, (from, to): (u64, u64)) -> Result<(), Error> {
        let (region, media) = (self.0.region(), self.0.media()?);
        region.store(&media.void_from, from);
        // ORDER: after the lower end: same line, store order. In between too many versions are void, never too few.
        region.commit("kv.void.note", &media.void_to, to);
        // ORDER: this is durable before the dead interval is forgotten, which says the same until then.
        region.flush("kv.void.flush", region.offset_of(&media.void_from), 16);
        // ORDER: as above.
        region.fence("kv.void.fence");
        Ok(())
    }
}
