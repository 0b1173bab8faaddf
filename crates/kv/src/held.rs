//! Keys that prepared transactions hold: the volatile side of what the catalogue says of them.
//!
//! The table changes under the writer's lock only, and every change of a key looks here under that lock; while
//! something is prepared, the write slots are barred. So the table's own lock is for reports, and an empty table
//! costs one load. It is made again from the catalogue at each open and each rollback, before the first change.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use tembo_index::{Direction, Range};

use crate::read_set::{ReadSet, is_empty};
use crate::{Access, Keyspace};

/// A prepared transaction: it waits to be committed or dropped. See [`Store::prepared`](crate::Store::prepared).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Its id, as [`Transaction::prepare`](crate::Transaction::prepare) got it.
    pub id: Vec<u8>,
    /// The version in which it was prepared: a rollback to an earlier one drops it.
    pub version: u64,
    /// Keys that it will write.
    pub writes: usize,
    /// Whether it holds what it has read, too.
    pub is_serialisable: bool,
}

/// What a prepared transaction holds.
pub(crate) struct Hold {
    pub(crate) version: u64,
    /// Entries of the catalogue that it consists of.
    pub(crate) pieces: u32,
    pub(crate) writes: Vec<(Keyspace, Arc<[u8]>)>,
    /// What it has read, if it is serialisable.
    pub(crate) reads: Option<ReadSet>,
}

/// The prepared transaction that holds a key.
pub(crate) struct Holding {
    pub(crate) id: Arc<[u8]>,
    pub(crate) version: u64,
    pub(crate) key: Vec<u8>,
}

/// The table of all prepared transactions and the keys that they hold.
#[derive(Default)]
pub(crate) struct HeldKeys {
    count: AtomicUsize,
    table: RwLock<Table>,
}

/// The id of the transaction that writes each key.
type IdByKey = BTreeMap<Arc<[u8]>, Arc<[u8]>>;

#[derive(Default)]
struct Table {
    by_id: BTreeMap<Arc<[u8]>, Arc<Hold>>,
    /// The transaction that writes a key. There is at most one.
    written: BTreeMap<Keyspace, IdByKey>,
}

impl HeldKeys {
    /// Whether nothing is prepared. Only the writer asks.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// How many transactions are prepared.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// All prepared transactions, by id.
    pub(crate) fn all(&self) -> Vec<Prepared> {
        self.with(|table| {
            let prepared = |(id, hold): (&Arc<[u8]>, &Arc<Hold>)| Prepared {
                id: id.to_vec(),
                version: hold.version,
                writes: hold.writes.len(),
                is_serialisable: hold.reads.is_some(),
            };
            table.by_id.iter().map(prepared).collect()
        })
    }

    /// What a prepared transaction holds.
    pub(crate) fn get(&self, id: &[u8]) -> Option<Arc<Hold>> {
        self.with(|table| table.by_id.get(id).cloned())
    }

    /// Adds a prepared transaction. Only the writer calls this.
    pub(crate) fn insert(&self, id: &[u8], hold: Hold) {
        self.change(|table| table.insert(id.into(), hold));
    }

    /// Removes a transaction that is decided. Only the writer calls this.
    pub(crate) fn remove(&self, id: &[u8]) {
        self.change(|table| table.remove(id));
    }

    /// Replaces the whole table. Returns the ids that were in it and are not any more. Only the writer calls this.
    pub(crate) fn replace(&self, all: Vec<(Vec<u8>, Hold)>) -> Vec<Vec<u8>> {
        self.change(|table| {
            let before = std::mem::take(table);
            for (id, hold) in all {
                table.insert(id.into(), hold);
            }
            let dropped = before.by_id.keys().filter(|id| !table.by_id.contains_key(*id));
            dropped.map(|id| id.to_vec()).collect()
        })
    }

    /// The prepared transaction, other than `own`, that holds a key against an access.
    pub(crate) fn holder(
        &self,
        (keyspace, key): (Keyspace, &[u8]),
        access: Access,
        own: Option<&[u8]>,
    ) -> Option<Holding> {
        let bound = Bound::Included(key);
        self.holder_in(
            keyspace,
            Range { from: bound, to: bound, direction: Direction::Forward },
            access,
            own,
        )
    }

    /// The prepared transaction, other than `own`, that holds a key of a range against an access.
    pub(crate) fn holder_in(
        &self,
        keyspace: Keyspace,
        range: Range<'_>,
        access: Access,
        own: Option<&[u8]>,
    ) -> Option<Holding> {
        self.with(|table| {
            table.writer(keyspace, range, own).or_else(|| {
                (access == Access::Write).then(|| table.reader(keyspace, range, own))?
            })
        })
    }

    fn with<T>(&self, with: impl FnOnce(&Table) -> T) -> T {
        with(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut table);
        self.count.store(table.by_id.len(), Ordering::Relaxed);
        changed
    }
}

impl Table {
    fn insert(&mut self, id: Arc<[u8]>, hold: Hold) {
        for (keyspace, key) in &hold.writes {
            self.written.entry(*keyspace).or_default().insert(key.clone(), id.clone());
        }
        self.by_id.insert(id, Arc::new(hold));
    }

    fn remove(&mut self, id: &[u8]) {
        let Some(hold) = self.by_id.remove(id) else { return };
        for (keyspace, key) in &hold.writes {
            if let Some(keys) = self.written.get_mut(keyspace) {
                keys.remove(key);
            }
        }
        self.written.retain(|_, keys| !keys.is_empty());
    }

    fn writer(&self, keyspace: Keyspace, range: Range<'_>, own: Option<&[u8]>) -> Option<Holding> {
        if is_empty(range) {
            return None;
        }
        let keys = self.written.get(&keyspace)?;
        let mut held = keys.range::<[u8], _>((range.from, range.to));
        let (key, id) = held.find(|(_, id)| Some(&***id) != own)?;
        let version = self.by_id.get(id)?.version;
        Some(Holding { id: id.clone(), version, key: key.to_vec() })
    }

    fn reader(&self, keyspace: Keyspace, range: Range<'_>, own: Option<&[u8]>) -> Option<Holding> {
        self.by_id.iter().filter(|(id, _)| Some(&***id) != own).find_map(|(id, hold)| {
            let key = hold.reads.as_ref()?.first_in(keyspace, range)?;
            Some(Holding { id: id.clone(), version: hold.version, key })
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SPACE: Keyspace = Keyspace { id: 1, incarnation: 0 };
    const OTHER: Keyspace = Keyspace { id: 2, incarnation: 0 };
    const ALL: Range<'_> =
        Range { from: Bound::Unbounded, to: Bound::Unbounded, direction: Direction::Forward };

    fn held() -> HeldKeys {
        let held = HeldKeys::default();
        let writes = vec![(SPACE, b"b"[..].into()), (SPACE, b"d"[..].into())];
        held.insert(b"1", Hold { version: 7, pieces: 1, writes, reads: None });
        let mut reads = ReadSet::default();
        reads.key(SPACE, b"f");
        let range = Range { from: Bound::Excluded(b"h"), to: Bound::Included(b"k"), ..ALL };
        reads.range(SPACE, range, None);
        held.insert(b"2", Hold { version: 9, pieces: 1, writes: Vec::new(), reads: Some(reads) });
        held
    }

    #[test]
    fn a_written_key_is_held_against_all_and_a_read_one_against_writers() {
        let held = held();
        for (key, access, expected) in [
            (&b"a"[..], Access::Write, None),
            (b"b", Access::Write, Some(&b"1"[..])),
            (b"b", Access::Read, Some(b"1")),
            (b"f", Access::Write, Some(b"2")),
            (b"f", Access::Read, None),
            (b"h", Access::Write, None),
            (b"i", Access::Write, Some(b"2")),
            (b"k", Access::Write, Some(b"2")),
            (b"l", Access::Write, None),
        ] {
            let holder = |own| held.holder((SPACE, key), access, own).map(|holding| holding.id);
            assert_eq!(holder(None).as_deref(), expected, "{key:?} {access}");
            assert!(expected.is_none() || holder(expected).is_none(), "its own");
            assert!(held.holder((OTHER, key), access, None).is_none());
        }
    }

    #[test]
    fn a_range_is_held_if_a_key_of_it_is() {
        let held = held();
        for (from, to, expected) in [
            (&b"a"[..], &b"b"[..], None),
            (b"a", b"c", Some(&b"1"[..])),
            (b"e", b"f", None),
            (b"e", b"g", Some(b"2")),
            (b"g", b"h", None),
            (b"g", b"i", Some(b"2")),
            (b"kk", b"z", None),
        ] {
            let range = Range { from: Bound::Included(from), to: Bound::Excluded(to), ..ALL };
            let holder = held.holder_in(SPACE, range, Access::Write, None);
            assert_eq!(holder.map(|holding| holding.id).as_deref(), expected, "{from:?} {to:?}");
        }
        assert!(held.holder_in(SPACE, ALL, Access::Write, Some(b"1")).is_some());
        held.remove(b"2");
        assert!(held.holder_in(SPACE, ALL, Access::Write, Some(b"1")).is_none());
        held.remove(b"1");
        assert!(held.is_empty() && held.holder_in(SPACE, ALL, Access::Write, None).is_none());
    }
}
