//! The expiry index: per database a keyspace of entries, each the time when a key expires and the key.
//!
//! A hash of which a field expires has an entry too, whose value is one byte. A key that expires has its entry. An entry whose key does not expire then does no harm: it is removed
//! when it is due.

use std::ops::Bound;

use tembo_kv::{Direction, Error, Exclusive, KeyCount, Keyspace};

use crate::format;

/// The entries of all databases, and when the first of each is due.
pub(super) struct ExpiryIndex {
    spaces: Vec<Keyspace>,
    /// Per database: nothing is due before; `u64::MAX` when nothing expires at all.
    due_ms: Vec<u64>,
    /// Per database: what stood up to this entry was removed, so that the next search begins behind it. In the index
    /// itself what is removed leaves the order of keys late, when it is collected; a search from the begin
    /// would pass all of it each time.
    removed_to: Vec<Vec<u8>>,
    entry: Vec<u8>,
}

impl ExpiryIndex {
    /// The index in these keyspaces, one per database.
    pub(super) fn new(spaces: Vec<Keyspace>) -> ExpiryIndex {
        let (due_ms, removed_to) = (vec![0; spaces.len()], vec![Vec::new(); spaces.len()]);
        ExpiryIndex { spaces, due_ms, removed_to, entry: Vec::new() }
    }

    /// Exchanges the indexes of two databases.
    pub(super) fn swap(&mut self, a: usize, b: usize) {
        self.spaces.swap(a, b);
        self.due_ms.swap(a, b);
        self.removed_to.swap(a, b);
    }

    /// When the next entry of a database is due; `u64::MAX` if there is none. May be too early, never too
    /// late.
    #[inline]
    pub(super) fn due_ms(&self, db: usize) -> u64 {
        self.due_ms[db]
    }

    /// When the next entry is due.
    pub(super) fn next_due_ms(&self) -> u64 {
        self.due_ms.iter().copied().min().unwrap_or(u64::MAX)
    }

    /// The next entry of a database is due at `due_ms`.
    pub(super) fn set_due_ms(&mut self, db: usize, due_ms: u64) {
        self.due_ms[db] = due_ms;
    }

    /// Entries may be there that are not known.
    pub(super) fn forget_due(&mut self) {
        self.due_ms.fill(0);
        self.removed_to.iter_mut().for_each(Vec::clear);
    }

    /// Every entry of a database up to this one has been removed.
    pub(super) fn removed_to(&mut self, db: usize, entry: &[u8]) {
        entry.clone_into(&mut self.removed_to[db]);
    }

    /// Nothing counts as due before `at_ms`.
    pub(super) fn postpone(&mut self, at_ms: u64) {
        for due_ms in &mut self.due_ms {
            if *due_ms != u64::MAX {
                *due_ms = (*due_ms).max(at_ms);
            }
        }
    }

    /// Adds an entry. It comes before the change of its key, because a key without its entry would never
    /// expire.
    pub(super) fn put(
        &mut self,
        transaction: &mut Exclusive,
        (db, key): (usize, &[u8]),
        expiry_ms: u64,
    ) -> Result<(), Error> {
        self.put_entry(transaction, (db, key), expiry_ms, &[])
    }

    /// Adds an entry about a field of a hash.
    pub(super) fn put_field(
        &mut self,
        transaction: &mut Exclusive,
        (db, key): (usize, &[u8]),
        expiry_ms: u64,
    ) -> Result<(), Error> {
        format::encode_expiry_entry(&mut self.entry, expiry_ms, key);
        // One that is there, of a field or of the key, does for both.
        if transaction.get(self.spaces[db], &self.entry)?.is_some() {
            return Ok(());
        }
        self.put_entry(transaction, (db, key), expiry_ms, &format::OF_A_FIELD)
    }

    fn put_entry(
        &mut self,
        transaction: &mut Exclusive,
        (db, key): (usize, &[u8]),
        expiry_ms: u64,
        value: &[u8],
    ) -> Result<(), Error> {
        format::encode_expiry_entry(&mut self.entry, expiry_ms, key);
        self.due_ms[db] = self.due_ms[db].min(expiry_ms);
        if self.entry <= self.removed_to[db] {
            self.removed_to[db].clear();
        }
        transaction.put(self.spaces[db], &self.entry, value)?;
        Ok(())
    }

    /// Removes an entry that no key needs. If the pool has no room for that, the entry stays until it is
    /// due.
    pub(super) fn forget(
        &mut self,
        transaction: &mut Exclusive,
        (db, key): (usize, &[u8]),
        expiry_ms: u64,
    ) -> Result<(), Error> {
        format::encode_expiry_entry(&mut self.entry, expiry_ms, key);
        match transaction.remove(self.spaces[db], &self.entry) {
            Ok(_) | Err(Error::Full { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes an entry that is due, as [`due_entries`](ExpiryIndex::due_entries) has found it.
    pub(super) fn remove(
        &self,
        transaction: &mut Exclusive,
        db: usize,
        entry: &[u8],
    ) -> Result<(), Error> {
        transaction.remove(self.spaces[db], entry)?;
        Ok(())
    }

    /// Up to `limit` entries that are due at `now_ms`, and when the first one after them is.
    pub(super) fn due_entries(
        &self,
        transaction: &Exclusive,
        db: usize,
        now_ms: u64,
        limit: usize,
    ) -> Result<(Vec<Vec<u8>>, u64), Error> {
        let mut entries = Vec::new();
        let mut next_ms = u64::MAX;
        let mut visit = |entry: &[u8], _: tembo_kv::Value<'_>| {
            let due_ms = format::decode_expiry_entry(entry).map_or(0, |(due_ms, _)| due_ms);
            if due_ms >= now_ms || entries.len() == limit {
                next_ms = due_ms;
                return false;
            }
            entries.push(entry.to_vec());
            true
        };
        let from = match &self.removed_to[db] {
            nothing if nothing.is_empty() => Bound::Unbounded,
            entry => Bound::Excluded(&entry[..]),
        };
        transaction.range_with::<[u8]>(
            self.spaces[db],
            (from, Bound::Unbounded),
            Direction::Forward,
            &mut visit,
        )?;
        Ok((entries, next_ms))
    }

    /// Removes all entries of a database, whose keys have been removed. Without room for that they stay
    /// until they are due.
    pub(super) fn clear(&mut self, transaction: &mut Exclusive, db: usize) -> Result<(), Error> {
        if transaction.count(self.spaces[db]) != Some(0) {
            match transaction.clear(self.spaces[db]) {
                Ok(()) => {}
                Err(Error::Full { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.due_ms[db] = u64::MAX;
        self.removed_to[db].clear();
        Ok(())
    }

    /// How many entries a database has, or an estimate.
    pub(super) fn count(&self, transaction: &Exclusive, db: usize) -> Result<KeyCount, Error> {
        transaction.key_count(self.spaces[db])
    }
}
