//! The elements of large collections: per database a keyspace, in which the keys of a collection begin with its id.

use std::ops::Bound;

use tembo_kv::{Direction, Error, Exclusive, Keyspace, Value};

use crate::dataset::written::Written;
use crate::format::{ELEMENT_PREFIX_SIZE, ID_KEY, Part, element_prefix};

/// A collection of at most so many elements is removed element by element: a range that was removed makes reads slower
/// until the background has erased what is in it.
const SINGLY_MAX: u64 = 512;
/// The parts of a collection come before the part of this number.
const PARTS_END: u8 = u8::MAX;
/// Elements of a collection that are held in memory together while it is copied.
const COPIED_AT_ONCE: usize = 256;

/// Both ends of a range of elements of one part, without the prefix of their keys.
pub(crate) type Ends<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// Sees the key of an element, without its prefix, and its value; false ends the visit.
pub(crate) type VisitElement<'v> = dyn FnMut(&[u8], Value<'_>) -> bool + 'v;

/// The key and the value of an element as they are in the store.
type Stored = (Vec<u8>, Vec<u8>);

/// The elements of all databases.
pub(super) struct Elements {
    spaces: Vec<Keyspace>,
    /// Per database: whether there may be any; `None`: the transaction has not asked. While there are none, no change
    /// of a value looks for them.
    in_use: Vec<Option<bool>>,
    key: Vec<u8>,
}

impl Elements {
    /// The elements in these keyspaces, one per database.
    pub(super) fn new(spaces: Vec<Keyspace>) -> Elements {
        Elements { in_use: vec![None; spaces.len()], spaces, key: Vec::new() }
    }

    /// Whether a collection of the database may have elements. The store counts them once a transaction.
    #[inline]
    pub(super) fn is_in_use(&mut self, transaction: &Exclusive, db: usize) -> bool {
        let space = self.spaces[db];
        *self.in_use[db].get_or_insert_with(|| transaction.count(space) != Some(0))
    }

    /// Exchanges the elements of two databases.
    pub(super) fn swap(&mut self, a: usize, b: usize) {
        self.spaces.swap(a, b);
        self.in_use.swap(a, b);
    }

    /// Another transaction begins, or this one has gone back.
    pub(super) fn forget(&mut self) {
        self.in_use.fill(None);
    }

    /// An id that no collection of the database has had.
    pub(super) fn new_id(&mut self, transaction: &mut Exclusive, db: usize) -> Result<u64, Error> {
        let last = transaction.get(self.spaces[db], &ID_KEY)?.and_then(|value| value.array(0));
        let id = last.map_or(0, u64::from_be_bytes) + 1;
        transaction.put(self.spaces[db], &ID_KEY, &id.to_be_bytes())?;
        self.in_use[db] = Some(true);
        Ok(id)
    }

    fn set_key(&mut self, (id, part): (u64, Part), rest: &[&[u8]]) {
        self.key.clear();
        self.key.extend_from_slice(&element_prefix(id, part));
        rest.iter().for_each(|bytes| self.key.extend_from_slice(bytes));
    }

    /// The keyspace and the key of an element.
    #[inline]
    pub(super) fn place(
        &mut self,
        db: usize,
        part: (u64, Part),
        rest: &[&[u8]],
    ) -> (Keyspace, &[u8]) {
        self.set_key(part, rest);
        (self.spaces[db], &self.key)
    }

    pub(super) fn get<'t>(
        &mut self,
        transaction: &'t Exclusive,
        db: usize,
        part: (u64, Part),
        rest: &[&[u8]],
    ) -> Result<Option<Value<'t>>, Error> {
        self.set_key(part, rest);
        transaction.get(self.spaces[db], &self.key)
    }

    /// True if it was there before.
    pub(super) fn put(
        &mut self,
        transaction: &mut Exclusive,
        db: usize,
        (part, rest): ((u64, Part), &[&[u8]]),
        value: &[&[u8]],
    ) -> Result<bool, Error> {
        self.set_key(part, rest);
        transaction.put_parts(self.spaces[db], &self.key, value)
    }

    /// True if it was there.
    pub(super) fn remove(
        &mut self,
        transaction: &mut Exclusive,
        db: usize,
        part: (u64, Part),
        rest: &[&[u8]],
    ) -> Result<bool, Error> {
        self.set_key(part, rest);
        transaction.remove(self.spaces[db], &self.key)
    }

    pub(super) fn visit(
        &self,
        transaction: &Exclusive,
        db: usize,
        ((id, part), ends, direction): ((u64, Part), Ends<'_>, Direction),
        visit: &mut VisitElement<'_>,
    ) -> Result<(), Error> {
        let prefix = element_prefix(id, part);
        let mut behind = prefix;
        behind[ELEMENT_PREFIX_SIZE - 1] += 1;
        let key = |rest: &[u8]| [&prefix[..], rest].concat();
        let bound = |bound: Bound<&[u8]>, open: Bound<Vec<u8>>| match bound {
            Bound::Included(rest) => Bound::Included(key(rest)),
            Bound::Excluded(rest) => Bound::Excluded(key(rest)),
            Bound::Unbounded => open,
        };
        let range = (
            bound(ends.0, Bound::Included(prefix.to_vec())),
            bound(ends.1, Bound::Excluded(behind.to_vec())),
        );
        transaction.range_with::<Vec<u8>>(self.spaces[db], range, direction, &mut |key, value| {
            visit(key.get(ELEMENT_PREFIX_SIZE..).unwrap_or_default(), value)
        })
    }

    /// Copies all elements of a collection, of a database and id, to another id; how much that writes.
    pub(super) fn copy(
        &mut self,
        transaction: &mut Exclusive,
        from: (usize, u64),
        to: (usize, u64),
    ) -> Result<Written, Error> {
        let mut copied = Written::default();
        let mut last: Option<Vec<u8>> = None;
        loop {
            let read = self.read(transaction, from, last.as_deref(), COPIED_AT_ONCE)?;
            for one in &read {
                self.put_read(transaction, to, one)?;
                copied.bytes += (one.0.len() + one.1.len()) as u64;
            }
            copied.changes += read.len() as u64;
            match read.into_iter().next_back() {
                Some((key, _)) => last = Some(key),
                None => return Ok(copied),
            }
        }
    }

    /// All elements of a collection as they are in the store, from behind one on, at most `limit`.
    fn read(
        &self,
        transaction: &Exclusive,
        (db, id): (usize, u64),
        behind: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<Stored>, Error> {
        let mut found = Vec::new();
        let (from, to) = ends_of(id);
        let from = behind.map_or(Bound::Included(&from[..]), Bound::Excluded);
        let range = (from, Bound::Excluded(&to[..]));
        let direction = Direction::Forward;
        transaction.range_with::<[u8]>(self.spaces[db], range, direction, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            found.len() < limit
        })?;
        Ok(found)
    }

    /// Puts an element that was read under the key it has in another collection.
    fn put_read(
        &mut self,
        transaction: &mut Exclusive,
        (db, id): (usize, u64),
        (key, value): &Stored,
    ) -> Result<(), Error> {
        self.key.clear();
        self.key.extend_from_slice(&id.to_be_bytes());
        self.key.extend_from_slice(&key[8..]);
        transaction.put(self.spaces[db], &self.key, value)?;
        Ok(())
    }

    /// Removes all elements of a collection that has so many entries. The time it takes has a bound.
    pub(super) fn remove_all(
        &mut self,
        transaction: &mut Exclusive,
        (db, id): (usize, u64),
        count: u64,
    ) -> Result<(), Error> {
        let (from, to) = ends_of(id);
        self.remove_between(transaction, db, (&from, &to), count)
    }

    /// Removes the elements, so many or a few times that, with keys from one on, up to another one.
    pub(super) fn remove_between(
        &self,
        transaction: &mut Exclusive,
        db: usize,
        (from, to): (&[u8], &[u8]),
        count: u64,
    ) -> Result<(), Error> {
        let range = (Bound::Included(from), Bound::Excluded(to));
        if count > SINGLY_MAX {
            return transaction.remove_range::<[u8]>(self.spaces[db], range);
        }
        let mut keys = Vec::new();
        let direction = Direction::Forward;
        transaction.range_with::<[u8]>(self.spaces[db], range, direction, &mut |key, _| {
            keys.push(key.to_vec());
            true
        })?;
        for key in keys {
            transaction.remove(self.spaces[db], &key)?;
        }
        Ok(())
    }

    /// Removes all elements of a database.
    pub(super) fn clear(&mut self, transaction: &mut Exclusive, db: usize) -> Result<(), Error> {
        if transaction.count(self.spaces[db]) != Some(0) {
            transaction.clear(self.spaces[db])?;
        }
        self.in_use[db] = None;
        Ok(())
    }
}

/// The keys between which the elements of a collection are.
fn ends_of(id: u64) -> ([u8; ELEMENT_PREFIX_SIZE], [u8; ELEMENT_PREFIX_SIZE]) {
    let from = element_prefix(id, Part::Main);
    let mut to = from;
    to[ELEMENT_PREFIX_SIZE - 1] = PARTS_END;
    (from, to)
}
