//! Range tombstones: ranges of keys that were removed in one step, and whose entries are still there.
//!
//! Removing a range writes one entry into the catalogue, the *tombstone*, whatever the number of keys. From its version
//! on, an entry that it covers is not seen, unless it was put later. The background erases the covered entries, a few at
//! a time, as ordinary removals (`erase.rs`), and then the tombstone.
//!
//! ```text
//!   version      s ────────── t ──────────── p ─────────── d ──────────►
//!   key a        put          tombstone                    erased
//!     seen       yes          no             no            no
//!   key b                     tombstone      put
//!     seen                    no             yes           yes
//! ```
//! Whether an entry was put later is asked of the index: has the key changed since t? So t is pinned until no version
//! in [t, d) can be read. While there is no tombstone, a read pays one flag.

mod mask;

pub(crate) use mask::{
    masked_changed, masked_difference, masked_get, masked_get_many, masked_has, masked_range,
};

use std::ops::{Bound, Deref};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::Error;
use crate::bounds::KEY_SIZE_MAX;

/// The keys from one key on, below another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) from: Vec<u8>,
    /// The first key behind the range. `None`: there is none.
    pub(crate) to: Option<Vec<u8>>,
}

/// A range that was removed.
#[derive(Clone, Debug)]
pub(crate) struct Tombstone {
    /// The root cell of the keyspace's tree.
    pub(crate) cell: u64,
    pub(crate) range: Arc<KeyRange>,
    /// The version that has removed it, and nothing else.
    pub(crate) version: u64,
    /// The version in which the last covered entry was erased. `u64::MAX`: not all are erased.
    pub(crate) until: u64,
}

/// An immutable list of tombstones. An empty one needs no memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct TombstoneList(Option<Arc<[Tombstone]>>);

/// The tombstones of all versions that can be read.
#[derive(Default)]
pub(crate) struct Tombstones {
    has_any: AtomicBool,
    has_pending: AtomicBool,
    list: RwLock<Arc<[Tombstone]>>,
}

/// The least key greater than this one; `None`: there is none.
fn successor(key: &[u8]) -> Option<Vec<u8>> {
    let mut next = key.to_vec();
    if next.len() < KEY_SIZE_MAX {
        next.push(0);
        return Some(next);
    }
    while let Some(last) = next.pop() {
        if last < u8::MAX {
            next.push(last + 1);
            return Some(next);
        }
    }
    None
}

impl KeyRange {
    /// The range between two bounds. `None`: no key lies between them.
    pub(crate) fn new(from: Bound<&[u8]>, to: Bound<&[u8]>) -> Option<KeyRange> {
        let from = match from {
            Bound::Included(key) => key.to_vec(),
            Bound::Excluded(key) => successor(key)?,
            Bound::Unbounded => Vec::new(),
        };
        let to = match to {
            Bound::Included(key) => successor(key),
            Bound::Excluded(key) => Some(key.to_vec()),
            Bound::Unbounded => None,
        };
        let has_keys = to.as_ref().is_none_or(|to| from < *to);
        has_keys.then_some(KeyRange { from, to })
    }

    /// As `new`, with a check that the keys are not too long.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`].
    pub(crate) fn checked(
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Result<Option<KeyRange>, Error> {
        for bound in [from, to] {
            if let Bound::Included(key) | Bound::Excluded(key) = bound
                && key.len() > KEY_SIZE_MAX
            {
                return Err(Error::KeyTooLong { size: key.len() });
            }
        }
        Ok(KeyRange::new(from, to))
    }

    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Bound::Included(&self.from), self.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        *self.from <= *key && self.to.as_deref().is_none_or(|to| key < to)
    }

    pub(crate) fn overlaps(&self, other: &KeyRange) -> bool {
        let begins_before =
            |a: &KeyRange, b: &KeyRange| b.to.as_ref().is_none_or(|to| a.from < *to);
        begins_before(self, other) && begins_before(other, self)
    }
}

impl Tombstone {
    /// Whether readers of that version need it.
    pub(crate) fn is_of(&self, cell: u64, version: u64) -> bool {
        self.cell == cell && self.version <= version && version < self.until
    }

    /// Whether some covered entries have not been erased.
    pub(crate) fn is_pending(&self) -> bool {
        self.until == u64::MAX
    }
}

impl Deref for TombstoneList {
    type Target = [Tombstone];

    #[inline]
    fn deref(&self) -> &[Tombstone] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl Tombstones {
    /// The tombstones of a store that was opened.
    pub(crate) fn new(list: Vec<Tombstone>) -> Tombstones {
        let tombstones = Tombstones::default();
        tombstones.change(|now| *now = list);
        tombstones
    }

    /// Whether there are any. A reader pins its version first: a tombstone is in the list before its version is
    /// visible, and leaves it when no version that needs it can be read.
    #[inline]
    pub(crate) fn has_any(&self) -> bool {
        self.has_any.load(Ordering::SeqCst)
    }

    /// Whether entries of the newest version are covered.
    pub(crate) fn has_pending(&self) -> bool {
        self.has_pending.load(Ordering::SeqCst)
    }

    /// The list at this time. A reader pins its version first, as for [`has_any`](Tombstones::has_any).
    #[inline]
    pub(crate) fn load(&self) -> TombstoneList {
        if self.has_any() { self.load_some() } else { TombstoneList::default() }
    }

    #[inline(never)]
    fn load_some(&self) -> TombstoneList {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner).clone();
        TombstoneList(Some(list))
    }

    /// Changes the list. Only the writer calls this.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<Tombstone>)) {
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = list.to_vec();
        change(&mut changed);
        self.has_any.store(!changed.is_empty(), Ordering::SeqCst);
        self.has_pending.store(changed.iter().any(Tombstone::is_pending), Ordering::SeqCst);
        *list = changed.into();
    }
}
