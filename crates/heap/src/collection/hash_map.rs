//! A map from bytes without order.

use std::ops::Range;

use crate::{Access, Bytes, Error, Layer, Persist, Place, Ptr, Ref, Slice, View, hash, mix};

/// Buckets of the first table.
const FIRST: u64 = 8;

#[derive(Persist)]
#[persist(name = "tembo.PHashMap.entry")]
pub(crate) struct HashEntry<'h, V> {
    hash: u64,
    key: Ptr<'h, Bytes>,
    value: V,
    next: Bucket<'h, V>,
}

type Bucket<'h, V> = Option<Ptr<'h, HashEntry<'h, V>>>;

/// A map from bytes, or texts, without order. A table that is full is made anew, twice as large, in the transaction that fills it.
///
/// ```
/// # use tembo_heap::{Error, HeapFile, PHashMap, Persist};
/// #[derive(Persist)]
/// struct Words<'h> {
///     counts: PHashMap<'h, u64>,
/// }
/// # let file = HeapFile::volatile(&Default::default())?;
/// # file.enter(|heap| {
/// let root = heap.root_or::<_, Error>(|_| Ok(Words { counts: PHashMap::new() }))?;
/// let counts = root.field(Words::COUNTS);
/// heap.atomic(|tx| {
///     for word in ["to", "be", "or", "not", "to", "be"] {
///         let before = counts.get(tx, word)?;
///         counts.insert(tx, word, before.unwrap_or(0) + 1)?;
///     }
///     assert!(counts.contains_key(tx, "not")?);
///     let mut sum = 0;
///     for pair in counts.iter(tx)? {
///         let (_word, count) = pair?;
///         sum += count;
///     }
///     assert_eq!((counts.len(tx)?, sum), (4, 6));
///     counts.clear(tx)?;
///     assert!(counts.is_empty(tx)?);
///     Ok::<_, Error>(())
/// })?;
/// # Ok::<(), Error>(()) })?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Persist)]
#[persist(name = "tembo.PHashMap")]
pub struct PHashMap<'h, V> {
    len: u64,
    buckets: Option<Ptr<'h, Slice<Bucket<'h, V>>>>,
}

impl<V> PHashMap<'_, V> {
    /// An empty map, which takes no object.
    pub const fn new() -> Self {
        PHashMap { len: 0, buckets: None }
    }
}

impl<V> Default for PHashMap<'_, V> {
    fn default() -> Self {
        PHashMap::new()
    }
}

fn hash_of(key: &[u8]) -> u64 {
    key.iter().fold(hash(0, "bucket"), |hash, byte| mix(hash, u64::from(*byte)))
}

type EntryRef<'v, 'h, V> = Ref<'v, 'h, HashEntry<'h, V>>;

/// Where a key is: its bucket, the entry before it there, its entry.
struct Spot<'v, 'h, V> {
    buckets: Ref<'v, 'h, Slice<Bucket<'h, V>>>,
    index: u64,
    before: Option<EntryRef<'v, 'h, V>>,
    entry: Option<EntryRef<'v, 'h, V>>,
}

impl<'h, V: Persist<'h>> Place<'h, PHashMap<'h, V>> {
    /// How many keys it has.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn len<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<u64, Error> {
        tx.at(&self.field(PHashMap::LEN))
    }

    /// Whether it has no key.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn is_empty<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<bool, Error> {
        Ok(self.len(tx)? == 0)
    }

    fn find<'v, L: Layer>(
        &'v self,
        view: &mut View<'v, 'h, L>,
        key: &[u8],
    ) -> Result<Option<Spot<'v, 'h, V>>, Error> {
        let buckets = view.look_at(self)?.follow(PHashMap::BUCKETS)?;
        let Some(buckets) = buckets else { return Ok(None) };
        let hash = hash_of(key);
        let index = hash % view.len(buckets)?.max(1);
        let (mut before, mut at) = (None, view.follow_cell::<Bucket<'h, V>>(buckets, index)?);
        let mut chain = Chain::default();
        while let Some(entry) = at {
            chain.pass(entry.offset())?;
            let mut seen = view.look(entry)?;
            let (own, next) = (seen.get(HashEntry::HASH)?, seen.follow(HashEntry::NEXT)?);
            if own == hash
                && let Some(own) = seen.follow(HashEntry::KEY)?
                && view.compare(own, key)?.is_eq()
            {
                break;
            }
            before = at;
            at = next;
        }
        Ok(Some(Spot { buckets, index, before, entry: at }))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn get<L: Layer>(
        &self,
        tx: &mut Access<'h, L>,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<V>, Error> {
        let mut view = tx.view();
        let entry = self.find(&mut view, key.as_ref())?.and_then(|spot| spot.entry);
        entry.map(|entry| view.get(entry, HashEntry::VALUE)).transpose()
    }

    /// Whether it has a key.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn contains_key<L: Layer>(
        &self,
        tx: &mut Access<'h, L>,
        key: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        let spot = self.find(&mut tx.view(), key.as_ref())?;
        Ok(spot.is_some_and(|spot| spot.entry.is_some()))
    }

    /// All keys and values, in no order.
    ///
    /// # Errors
    /// As [`Access::read`], also of each of them; behind an error there are no more.
    pub fn iter<'v, L: Layer>(
        &'v self,
        tx: &'v mut Access<'h, L>,
    ) -> Result<impl Iterator<Item = Result<(Vec<u8>, V), Error>>, Error> {
        let mut view = tx.view();
        let mut seen = view.look_at(self)?;
        let (most, buckets) = (seen.get(PHashMap::LEN)?, seen.follow(PHashMap::BUCKETS)?);
        let len = buckets.map_or(Ok(0), |buckets| view.len(buckets))?;
        Ok(Entries { view, buckets, indices: 0..len, next: None, most })
    }

    /// Copies of all keys and values, in no order.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn to_vec<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<Vec<(Vec<u8>, V)>, Error> {
        self.iter(tx)?.collect()
    }

    /// A pointer to the entry of a key.
    fn entry<L: Layer>(&self, tx: &mut Access<'h, L>, key: &[u8]) -> Result<Bucket<'h, V>, Error> {
        let mut view = tx.view();
        let entry = self.find(&mut view, key)?.and_then(|spot| spot.entry);
        entry.map(|entry| view.keep(entry)).transpose()
    }

    /// Gives a key a value; the one before.
    ///
    /// # Errors
    /// As [`Access::alloc`].
    pub fn insert<L: Layer>(
        &self,
        tx: &mut Access<'h, L>,
        key: impl AsRef<[u8]>,
        value: V,
    ) -> Result<Option<V>, Error> {
        let key = key.as_ref();
        if let Some(entry) = self.entry(tx, key)? {
            let before = tx.get(&entry, HashEntry::VALUE)?;
            tx.set(&entry, HashEntry::VALUE, value)?;
            return Ok(Some(before));
        }
        let buckets = self.table(tx)?;
        let hash = hash_of(key);
        let index = hash % tx.slice_len(&buckets)?.max(1);
        let (key, next) = (tx.alloc_bytes(key)?, tx.cell(&buckets, index)?);
        let entry = tx.alloc(HashEntry { hash, key, value, next })?;
        tx.set_cell(&buckets, index, Some(entry))?;
        let len = self.len(tx)?;
        tx.put(&self.field(PHashMap::LEN), len.saturating_add(1))?;
        Ok(None)
    }

    /// A table with room for a key more.
    fn table<L: Layer>(
        &self,
        tx: &mut Access<'h, L>,
    ) -> Result<Ptr<'h, Slice<Bucket<'h, V>>>, Error> {
        let PHashMap { len, buckets } = tx.at(self)?;
        let size = buckets.as_ref().map_or(Ok(0), |buckets| tx.slice_len(buckets))?;
        if let Some(buckets) = buckets.clone().filter(|_| len < size) {
            return Ok(buckets);
        }
        let larger = size.saturating_mul(2).max(FIRST);
        let mut left = len;
        let table = tx.alloc_slice::<Bucket<'h, V>>(larger)?;
        for index in 0..size {
            let Some(buckets) = &buckets else { break };
            let mut at = tx.cell(buckets, index)?;
            while let Some(entry) = at {
                // Each is moved once, however the entries of a damaged map refer to each other.
                left = left.checked_sub(1).ok_or_else(|| damaged_number(entry.offset()))?;
                let to = tx.get(&entry, HashEntry::HASH)? % larger;
                let (next, behind) = (tx.get(&entry, HashEntry::NEXT)?, tx.cell(&table, to)?);
                tx.set(&entry, HashEntry::NEXT, behind)?;
                tx.set_cell(&table, to, Some(entry))?;
                at = next;
            }
        }
        tx.put(&self.field(PHashMap::BUCKETS), Some(table.clone()))?;
        Ok(table)
    }

    /// Removes a key; its value.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn remove<L: Layer>(
        &self,
        tx: &mut Access<'h, L>,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<V>, Error> {
        let mut view = tx.view();
        let spot = self.find(&mut view, key.as_ref())?;
        let Some(Spot { buckets, index, before, entry: Some(entry) }) = spot else {
            return Ok(None);
        };
        let entry = view.keep(entry)?;
        if let Some(before) = before {
            let before = view.keep(before)?;
            let next = tx.get(&entry, HashEntry::NEXT)?;
            tx.set(&before, HashEntry::NEXT, next)?;
        } else {
            let buckets = view.keep(buckets)?;
            let next = tx.get(&entry, HashEntry::NEXT)?;
            tx.set_cell(&buckets, index, next)?;
        }
        let value = tx.get(&entry, HashEntry::VALUE)?;
        let len = self.len(tx)?;
        tx.put(&self.field(PHashMap::LEN), len.saturating_sub(1))?;
        Ok(Some(value))
    }

    /// Removes all keys.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn clear<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<(), Error> {
        tx.put(self, PHashMap::new())
    }
}

fn damaged_number(offset: u64) -> Error {
    Error::Damaged { what: "the number of keys of a map", offset }
}

/// A walk along the entries of a bucket, which in a damaged map may refer to each other in a ring. (Brent, 1980: each entry is
/// compared with one that was passed, which is another one after twice as many steps.)
#[derive(Default)]
struct Chain {
    passed: u64,
    steps: u64,
}

impl Chain {
    /// The next entry, by its offset.
    fn pass(&mut self, offset: u64) -> Result<(), Error> {
        if offset == self.passed {
            return Err(Error::Damaged { what: "a bucket of a map", offset });
        }
        if self.steps.is_power_of_two() || self.steps == 0 {
            self.passed = offset;
        }
        self.steps += 1;
        Ok(())
    }
}

/// The keys of a map with their values.
struct Entries<'v, 'h, V, L: Layer> {
    view: View<'v, 'h, L>,
    buckets: Option<Ref<'v, 'h, Slice<Bucket<'h, V>>>>,
    /// The buckets that are to come.
    indices: Range<u64>,
    /// The next entry of the bucket before.
    next: Option<EntryRef<'v, 'h, V>>,
    /// How many can come: more than the map has, only a damaged one has.
    most: u64,
}

impl<'v, 'h, V: Persist<'h>, L: Layer> Entries<'v, 'h, V, L> {
    /// The next entry, in this bucket or a later one.
    fn entry(&mut self) -> Result<Option<EntryRef<'v, 'h, V>>, Error> {
        let (Some(buckets), mut entry) = (self.buckets, self.next.take()) else { return Ok(None) };
        while entry.is_none() {
            let Some(index) = self.indices.next() else { return Ok(None) };
            entry = self.view.follow_cell::<Bucket<'h, V>>(buckets, index)?;
        }
        Ok(entry)
    }

    fn step(&mut self) -> Result<Option<(Vec<u8>, V)>, Error> {
        let Some(entry) = self.entry()? else { return Ok(None) };
        let offset = entry.offset();
        self.most = self.most.checked_sub(1).ok_or_else(|| damaged_number(offset))?;
        let mut seen = self.view.look(entry)?;
        let (key, next) = (seen.follow(HashEntry::KEY)?, seen.follow(HashEntry::NEXT)?);
        let value = seen.get(HashEntry::VALUE)?;
        let key = key.ok_or(Error::Damaged { what: "a key", offset })?;
        let key = self.view.bytes(key)?;
        self.next = next;
        Ok(Some((key, value)))
    }
}

impl<'h, V: Persist<'h>, L: Layer> Iterator for Entries<'_, 'h, V, L> {
    type Item = Result<(Vec<u8>, V), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let pair = self.step().transpose();
        if !matches!(pair, Some(Ok(_))) {
            self.buckets = None;
        }
        pair
    }
}
