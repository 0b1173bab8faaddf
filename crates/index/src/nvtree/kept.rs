//! How much of the leaves is there for old versions only: when these are given up, a walk is worth it.

use std::sync::atomic::Ordering;

use super::NvTree;

impl NvTree {
    /// So many elements of a leaf that is split are needed by old versions only.
    pub(crate) fn note_kept(&self, count: usize) {
        self.kept.fetch_add(count as u64, Ordering::Relaxed);
        self.forest.kept.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Elements that only old versions needed when leaves were split for them, since the last walk.
    pub(crate) fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }

    /// A walk begins.
    pub(crate) fn forget_kept(&self) {
        let kept = self.kept.swap(0, Ordering::Relaxed);
        self.forest.kept.fetch_sub(kept, Ordering::Relaxed);
    }
}
