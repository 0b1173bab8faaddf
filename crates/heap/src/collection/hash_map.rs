//! A map from bytes without order.

use crate::{Access, Bytes, Error, Layer, Persist, Place, Ptr, Slice, hash, mix};

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

/// Where a key is: its bucket, the entry before it there, its entry.
struct Spot<'h, V> {
    buckets: Ptr<'h, Slice<Bucket<'h, V>>>,
    index: u64,
    before: Bucket<'h, V>,
    entry: Bucket<'h, V>,
}

impl<'h, V: Persist<'h>> Place<'h, PHashMap<'h, V>> {
    /// How many keys it has.
    ///
    /// # Errors
    /// As [`Access::read`].
    pub fn len<L: Layer>(&self, tx: &mut Access<'h, L>) -> Result<u64, Error> {
        tx.at(&self.field(PHashMap::LEN))
    }

    fn find<L: Layer>(
        &self,
        tx: &mut Access<'h, L>,
        key: &[u8],
    ) -> Result<Option<Spot<'h, V>>, Error> {
        let Some(buckets) = tx.at(&self.field(PHashMap::BUCKETS))? else { return Ok(None) };
        let hash = hash_of(key);
        let index = hash % tx.slice_len(&buckets)?.max(1);
        let (mut before, mut at) = (None, tx.cell(&buckets, index)?);
        while let Some(entry) = &at {
            if tx.get(entry, HashEntry::HASH)? == hash {
                let own = tx.get(entry, HashEntry::KEY)?;
                if tx.bytes(&own)? == key {
                    break;
                }
            }
            let next = tx.get(entry, HashEntry::NEXT)?;
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
        let entry = self.find(tx, key.as_ref())?.and_then(|spot| spot.entry);
        entry.map(|entry| tx.get(&entry, HashEntry::VALUE)).transpose()
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
        if let Some(entry) = self.find(tx, key)?.and_then(|spot| spot.entry) {
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
        tx.put(&self.field(PHashMap::LEN), len + 1)?;
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
        let larger = (2 * size).max(FIRST);
        let table = tx.alloc_slice::<Bucket<'h, V>>(larger)?;
        for index in 0..size {
            let Some(buckets) = &buckets else { break };
            let mut at = tx.cell(buckets, index)?;
            while let Some(entry) = at {
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
        let Some(Spot { buckets, index, before, entry: Some(entry) }) =
            self.find(tx, key.as_ref())?
        else {
            return Ok(None);
        };
        let HashEntry { value, next, .. } = tx.read(&entry)?;
        match before {
            Some(before) => tx.set(&before, HashEntry::NEXT, next)?,
            None => tx.set_cell(&buckets, index, next)?,
        }
        let len = self.len(tx)?;
        tx.put(&self.field(PHashMap::LEN), len.saturating_sub(1))?;
        Ok(Some(value))
    }
}
