//! How far a [compaction](crate::compaction) has come. In memory only.

mod index;

use std::sync::Arc;

use tembo_pool::{Evacuation, Object, Pool};

pub(crate) use index::Index;

/// How far a [compaction](crate::Heap::compact) has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// It is at its end: no object that can be moved is to be moved.
    pub is_done: bool,
    /// Objects that were looked into, once in each pass.
    pub looked: u64,
    /// Objects that were moved.
    pub moved: u64,
    /// Their bytes.
    pub moved_bytes: u64,
    /// Objects that were to be moved in the last pass, and stay: the program, or a cycle that nothing refers to, has a pointer to them; commits
    /// have changed what refers to them; they are larger than 1 MiB, or more than 4,096 pointers refer to them; or there was no room.
    pub stayed: u64,
}

/// A compaction that is under way.
pub(crate) struct Moving {
    pub(crate) index: Index,
    leaving: Leaving,
    pub(crate) passes: u64,
    /// Objects are moved, as against looked into.
    pub(crate) is_moving: bool,
    /// Objects that this pass has moved.
    pub(crate) moved: u64,
    pub(crate) done: Compaction,
}

/// While it lives, chunks of the pool leave.
struct Leaving {
    pool: Arc<Pool>,
    chunks: Evacuation,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.pool.end_evacuation();
    }
}

impl Moving {
    /// A pass; `None`: a sweep is owed or running.
    pub(crate) fn begin(pool: &Arc<Pool>, passes: u64, done: Compaction) -> Option<Moving> {
        let leaving = Leaving { pool: pool.clone(), chunks: pool.begin_evacuation()? };
        let index = Index::default();
        Some(Moving { index, leaving, passes, is_moving: false, moved: 0, done })
    }

    /// How many chunks leave.
    pub(crate) fn chunks(&self) -> u64 {
        self.leaving.chunks.chunks()
    }

    /// An object that is reachable; its number, if it has one.
    pub(crate) fn meet(&mut self, bits: u64) -> Option<u32> {
        self.index.meet(bits, self.leaving.chunks.has(Object::from_bits(bits)))
    }

    /// An object is destroyed, or was not made.
    pub(crate) fn remove(&mut self, bits: u64) {
        self.index.remove(bits);
    }
}
