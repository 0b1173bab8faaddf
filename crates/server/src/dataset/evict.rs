//! What eviction needs of the databases: how much they take, which keys there are, removing one.

use std::ops::Bound;

use tembo_kv::{Direction, Value};

use crate::dataset::Dataset;
use crate::dataset::footprint::entry_size;
use crate::failure::Failure;
use crate::format::{
    self, ELEMENT_PREFIX_SIZE, Part, STREAM_ID_SIZE, STRIP_LEN, Spread, StreamBlock, StreamId,
};

/// Elements of a large collection whose size is looked at, to know that of all.
const SAMPLES: u64 = 16;
/// Entries of the expiry index that are looked at for one that a key still has: at first, and then.
const ENTRIES_MAX: [usize; 2] = [16, 4096];

/// Where a hand stands, and the key that it has found there.
type Found = (Vec<u8>, Vec<u8>);

impl Dataset<'_> {
    /// Bytes that the data takes, about.
    pub(crate) fn used_bytes(&self) -> u64 {
        if self.footprint.is_counted {
            self.footprint.bytes(self.written)
        } else {
            self.store.report().used_bytes
        }
    }

    /// Counts from here on what the data takes, or does not.
    pub(crate) fn count_footprint(&mut self, is_wanted: bool) {
        self.footprint.count(is_wanted, &self.store.report(), self.written);
    }

    /// Asks the pool what is in use, if much was written since.
    pub(crate) fn adjust_footprint(&mut self) {
        if self.footprint.is_old(self.written) {
            self.ask_footprint();
        }
    }

    /// Asks the pool what is in use.
    pub(crate) fn ask_footprint(&mut self) {
        if self.footprint.is_counted {
            self.footprint.adjust(&self.store.report(), self.written);
        }
    }

    /// How many databases there are, that of the items of memcached included.
    pub(crate) fn databases_of_all(&self) -> usize {
        self.spaces.data.len()
    }

    /// The first and the last place among which keys of a database can be evicted; `None`: there are no keys.
    pub(crate) fn evictable_ends(
        &mut self,
        db: usize,
        only_volatile: bool,
    ) -> Result<Option<Found>, Failure> {
        let mut ends = Vec::new();
        let space = if only_volatile { self.spaces.expiry[db] } else { self.spaces.data[db] };
        for direction in [Direction::Forward, Direction::Backward] {
            let all = (Bound::Unbounded, Bound::Unbounded);
            self.begin()?.range_with::<[u8]>(space, all, direction, &mut |key, _| {
                ends.push(key.to_vec());
                false
            })?;
        }
        let last = ends.pop();
        Ok(ends.pop().zip(last))
    }

    /// Up to so many keys of a database behind a place, each with its own; of those that expire in the order of that. A key
    /// that has expired, or an entry that no key has, may be among them.
    pub(crate) fn evictable_from(
        &mut self,
        db: usize,
        only_volatile: bool,
        behind: &[u8],
        count: usize,
    ) -> Result<Vec<Found>, Failure> {
        let space = if only_volatile { self.spaces.expiry[db] } else { self.spaces.data[db] };
        let mut found = Vec::with_capacity(count);
        let range = (Bound::Excluded(behind), Bound::Unbounded);
        let range = if behind.is_empty() { (Bound::Unbounded, Bound::Unbounded) } else { range };
        self.begin()?.range_with::<[u8]>(space, range, Direction::Forward, &mut |place, _| {
            let key = match only_volatile {
                true => format::decode_expiry_entry(place).map_or(place, |(_, key)| key),
                false => place,
            };
            found.push((place.to_vec(), key.to_vec()));
            found.len() < count
        })?;
        Ok(found)
    }

    /// The key of a database that expires first, and when; `None`: none does, or too many entries of the index are of no key.
    pub(crate) fn first_to_expire(&mut self, db: usize) -> Result<Option<(u64, Vec<u8>)>, Failure> {
        // Some entries are of fields of hashes.
        for limit in ENTRIES_MAX {
            let (transaction, expiry) = self.begin_both()?;
            let (entries, _) = expiry.due_entries(transaction, db, u64::MAX, limit)?;
            for entry in entries {
                let Some((at_ms, key)) = format::decode_expiry_entry(&entry) else { continue };
                if self.get_raw(db, key)?.is_some_and(|value| value.expiry_ms == Some(at_ms)) {
                    return Ok(Some((at_ms, key.to_vec())));
                }
            }
        }
        Ok(None)
    }

    /// The key of a database that expires first was evicted: the next one is looked for behind it.
    pub(crate) fn pass_first_to_expire(
        &mut self,
        (db, key): (usize, &[u8]),
        at_ms: u64,
    ) -> Result<(), Failure> {
        let mut passed = Vec::new();
        format::encode_expiry_entry(&mut passed, at_ms, key);
        let (transaction, expiry) = self.begin_both()?;
        let (entries, _) = expiry.due_entries(transaction, db, u64::MAX, 1)?;
        if entries.first().is_none_or(|first| *first > passed) {
            expiry.removed_to(db, &passed);
        }
        Ok(())
    }

    /// Removes a key because its room is needed; false: it is not there, or does not expire and only such are to go.
    pub(crate) fn evict(
        &mut self,
        (db, key): (usize, &[u8]),
        only_volatile: bool,
    ) -> Result<bool, Failure> {
        let Some(value) = self.get_raw(db, key)? else { return Ok(false) };
        if only_volatile && value.expiry_ms.is_none() {
            return Ok(false);
        }
        let is_spread = value.elements()?.is_some();
        if is_spread {
            self.all_or_nothing(|data| data.remove_value((db, key), false))?;
        } else {
            self.remove_value((db, key), false)?;
        }
        Ok(true)
    }

    /// Bytes that the value under a key takes; 0 while that is not counted.
    #[inline]
    pub(super) fn counted_value(&mut self, db: usize, key: &[u8]) -> Result<u64, Failure> {
        if self.footprint.is_counted { self.value_size(db, key) } else { Ok(0) }
    }

    #[cold]
    fn value_size(&mut self, db: usize, key: &[u8]) -> Result<u64, Failure> {
        let space = self.spaces.data[db];
        if let Some(bytes) = self.write_back.get(space, key) {
            return Ok(entry_size(key.len(), bytes.len()));
        }
        let found = self.begin_early()?.0.get(space, key)?;
        Ok(found.map_or(0, |value| entry_size(key.len(), value.len())))
    }

    /// Bytes that an element takes; 0 while that is not counted.
    #[inline]
    pub(super) fn counted_element(
        &mut self,
        element: (usize, u64, Part),
        rest: &[&[u8]],
    ) -> Result<u64, Failure> {
        if self.footprint.is_counted { self.element_size(element, rest) } else { Ok(0) }
    }

    #[cold]
    fn element_size(
        &mut self,
        element: (usize, u64, Part),
        rest: &[&[u8]],
    ) -> Result<u64, Failure> {
        let key = ELEMENT_PREFIX_SIZE + rest.iter().map(|bytes| bytes.len()).sum::<usize>();
        let found = self.element(element, rest)?;
        Ok(found.map_or(0, |value| entry_size(key, value.len())))
    }

    /// Bytes that the elements between two keys take, of which there are about so many; 0 while that is not counted.
    pub(super) fn counted_elements(
        &mut self,
        db: usize,
        (from, to): (&[u8], &[u8]),
        count: u64,
    ) -> Result<u64, Failure> {
        if !self.footprint.is_counted {
            return Ok(0);
        }
        let count_of = |key: &[u8], value: Value<'_>| blocks_of(key, value, count);
        self.sampled_elements(db, (from, to), SAMPLES, &count_of)
    }

    /// Bytes that the elements between two keys take, by the first `samples` of them; `count_of` says how many there are about, from
    /// the first one.
    fn sampled_elements(
        &mut self,
        db: usize,
        (from, to): (&[u8], &[u8]),
        samples: u64,
        count_of: &dyn Fn(&[u8], Value<'_>) -> u64,
    ) -> Result<u64, Failure> {
        let (space, mut seen, mut size, mut count) = (self.spaces.elements[db], 0, 0, 0_u64);
        let range = (Bound::Included(from), Bound::Excluded(to));
        self.begin()?.range_with::<[u8]>(space, range, Direction::Forward, &mut |key, value| {
            if seen == 0 {
                count = count_of(key, value);
            }
            seen += 1;
            size += entry_size(key.len(), value.len());
            seen < samples
        })?;
        let all = size.saturating_mul(count.max(seen)) / samples.max(1);
        Ok(if seen < samples { size } else { all })
    }

    /// The same of all elements of a collection.
    pub(super) fn counted_collection(&mut self, db: usize, spread: Spread) -> Result<u64, Failure> {
        if self.footprint.is_counted { self.collection_size(db, spread, SAMPLES) } else { Ok(0) }
    }

    /// Bytes that the elements of a collection take, by the first `samples` of them.
    pub(super) fn collection_size(
        &mut self,
        db: usize,
        Spread { id, count, .. }: Spread,
        samples: u64,
    ) -> Result<u64, Failure> {
        let from = format::element_prefix(id, Part::Main);
        let mut to = from;
        to[ELEMENT_PREFIX_SIZE - 1] = u8::MAX;
        // Only a list in strips has no element of the main part, or few: its strips hold many elements each.
        let strip = format::element_prefix(id, Part::Strip);
        let count_of = |key: &[u8], value: Value<'_>| match key.starts_with(&strip) {
            true => count / STRIP_LEN as u64 + 1,
            false => blocks_of(key, value, count),
        };
        self.sampled_elements(db, (&from, &to), samples, &count_of)
    }

    /// Bytes that a database takes, by its share of all keys and elements; 0 while that is not counted.
    pub(super) fn counted_database(&mut self, db: usize) -> Result<u64, Failure> {
        if !self.footprint.is_counted {
            return Ok(0);
        }
        let (mut own, mut all) = (0_u64, 0_u64);
        for other in 0..self.spaces.data.len() {
            let spaces = [self.spaces.data[other], self.spaces.elements[other]];
            let transaction = self.begin()?;
            let counts = spaces.map(|space| transaction.key_count(space).map(|count| count.keys));
            for count in counts {
                let count = count?;
                all += count;
                own += if other == db { count } else { 0 };
            }
        }
        let used = u128::from(self.used_bytes());
        let share = used * u128::from(own) / u128::from(all.max(1));
        Ok(share as u64)
    }
}

/// About how many elements a collection of so many has in the store: entries of a stream may lie in blocks, of which this may
/// be the first one.
fn blocks_of(key: &[u8], value: Value<'_>, count: u64) -> u64 {
    let id =
        key.get(ELEMENT_PREFIX_SIZE..).and_then(|id| <[u8; STREAM_ID_SIZE]>::try_from(id).ok());
    let Some(id) = id.map(StreamId::decode) else { return count };
    let count_in =
        |bytes: &[u8]| StreamBlock::new(id, bytes).try_fold(0_u64, |sum, one| one.map(|_| sum + 1));
    match value.with(count_in) {
        Ok(in_one) if in_one > 0 => count / in_one + 1,
        _ => count,
    }
}
