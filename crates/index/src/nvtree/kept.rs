//! How much of the leaves is there for old versions only: when these are given up, a walk is worth it.

use std::sync::atomic::Ordering;

use super::NvTree;
use crate::{Forest, Index};

impl NvTree {
    /// So many elements of a leaf that is split are needed by old versions only.
    pub(crate) fn note_kept(&self, count: usize) {
        self.kept.fetch_add(count as u64, Ordering::Relaxed);
        self.forest.kept.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl Index {
    /// Entries that only old versions needed when space was taken because of them, since the last walk
    /// through the index.
    pub fn kept(&self) -> u64 {
        match self {
            // Its writers leave out what nothing needs, and its old nodes go as a whole.
            Index::Cdds(_) => 0,
            Index::Nvtree(tree) => tree.kept.load(Ordering::Relaxed),
        }
    }

    /// A walk through the index begins.
    pub fn forget_kept(&self) {
        if let Index::Nvtree(tree) = self {
            let kept = tree.kept.swap(0, Ordering::Relaxed);
            tree.forest.kept.fetch_sub(kept, Ordering::Relaxed);
        }
    }
}

impl Forest {
    /// [`Index::kept`] of all its trees.
    #[inline]
    pub fn kept(&self) -> u64 {
        self.kept.load(Ordering::Relaxed)
    }
}
