//! The durable limit of versions: no version above it was used.

use tembo_index::VERSION_MAX;

use super::root::{LIMIT_STEP, Root};
use crate::Error;

/// The highest version that a store is given. It draws its own above that, and each open skips some: half of all versions
/// is left for these.
pub(crate) const GIVEN_VERSION_MAX: u64 = VERSION_MAX / 2;

/// The limit of a store.
pub(crate) struct Limit<'r>(pub(crate) &'r Root);

impl Limit<'_> {
    pub(crate) fn load(&self) -> Result<u64, Error> {
        Ok(self.0.media()?.version_limit.load())
    }

    /// Makes versions up to `version`, and some more, usable; returns the raised limit. Durable when it
    /// returns.
    pub(crate) fn raise(&self, version: u64) -> Result<u64, Error> {
        self.set(version + LIMIT_STEP)
    }

    /// Makes versions up to `limit` usable, and no more: none above it was used. Durable when it returns.
    pub(crate) fn set(&self, limit: u64) -> Result<u64, Error> {
        let region = self.0.region();
        let word = &self.0.media()?.version_limit;
        // ORDER: what was in flight stays dead whatever the limit, for its lane's word has not moved.
        region.commit("kv.limit.raise", word, limit);
        // ORDER: the limit is durable before a version below it is used, so that none is used twice.
        region.flush("kv.limit.flush", region.offset_of(word), 8);
        // ORDER: as above.
        region.fence("kv.limit.fence");
        Ok(limit)
    }
}
