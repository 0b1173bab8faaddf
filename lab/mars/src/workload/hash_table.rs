//! A hash table with chains and a lock for each bucket. A bucket begins with a place for a pair of its own, so that most updates
//! are a single write, as in the thesis.

use super::KIND;
use crate::store::Store;

/// Bytes of a key and of a value, as in the thesis.
const KEY: usize = 25;
const VALUE: usize = 1024;

/// Bytes of a place: the number of the next one of the chain, whether it is used, the pair.
const SLOT: u64 = 1088;

/// Where the pair begins in a place.
const PAIR: usize = 16;

/// What the head of a place says.
struct Slot {
    number: u64,
    next: u64,
    is_used: bool,
    key: [u8; KEY],
}

/// The table, from byte 0 of its store on.
pub struct HashTable {
    buckets: u64,
    /// Places of chains that are taken.
    slots: u64,
    slots_max: u64,
}

/// The bytes of a key's number.
fn key_of(key: u64) -> [u8; KEY] {
    let mut bytes = [b'k'; KEY];
    bytes[..8].copy_from_slice(&key.to_le_bytes());
    bytes
}

impl HashTable {
    /// An empty table of so many buckets in a store of zeros, and as many places for chains.
    pub fn new(buckets: u64) -> HashTable {
        HashTable { buckets, slots: buckets, slots_max: 2 * buckets }
    }

    /// Bytes that it takes.
    pub fn size(&self) -> u64 {
        self.slots_max * SLOT
    }

    fn slot<S: Store>(&self, store: &mut S, number: u64) -> Result<Slot, S::Error> {
        let mut head = [0; PAIR + KEY];
        store.read(number * SLOT, &mut head)?;
        let word = |at: usize| head[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let mut key = [0; KEY];
        key.copy_from_slice(&head[PAIR..]);
        Ok(Slot { number, next: word(0), is_used: word(8) == 1, key })
    }

    /// The places of a bucket.
    fn chain<S: Store>(&self, store: &mut S, bucket: u64) -> Result<Vec<Slot>, S::Error> {
        let mut chain = vec![self.slot(store, bucket)?];
        while let Some(next) = chain.last().map(|last| last.next).filter(|next| *next > 0) {
            chain.push(self.slot(store, next)?);
        }
        Ok(chain)
    }

    fn bucket(&self, key: u64) -> u64 {
        key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) % self.buckets
    }

    /// The first byte of the value of a key.
    ///
    /// # Errors
    /// Those of the store.
    pub fn get<S: Store>(&self, store: &mut S, key: u64) -> Result<Option<u8>, S::Error> {
        let (bucket, bytes) = (self.bucket(key), key_of(key));
        let chain = self.chain(store, bucket)?;
        let Some(found) = chain.iter().find(|slot| slot.is_used && slot.key == bytes) else {
            return Ok(None);
        };
        let mut value = [0; VALUE];
        store.read(found.number * SLOT + (PAIR + KEY) as u64, &mut value)?;
        Ok(Some(value[0]))
    }

    /// Inserts a key that is not there, removes one that is; which, and nothing if the table is full. The value is
    /// filled with a byte.
    ///
    /// # Errors
    /// Those of the store.
    pub fn toggle<S: Store>(
        &mut self,
        store: &mut S,
        key: u64,
        fill: u8,
    ) -> Result<Option<bool>, S::Error> {
        let (bucket, bytes) = (self.bucket(key), key_of(key));
        store.lock(KIND | bucket);
        let chain = self.chain(store, bucket)?;
        let is_there = chain.iter().find(|slot| slot.is_used && slot.key == bytes);
        let free = chain.iter().find(|slot| !slot.is_used);
        let pair = |next: u64| {
            [&next.to_le_bytes()[..], &1_u64.to_le_bytes(), &bytes, &[fill; VALUE]].concat()
        };
        let (writes, done) = match (is_there, free) {
            (Some(slot), _) => (vec![(slot.number * SLOT + 8, vec![0; 8])], Some(false)),
            (None, Some(slot)) => (vec![(slot.number * SLOT, pair(slot.next))], Some(true)),
            (None, None) if self.slots < self.slots_max => {
                let fresh = self.slots;
                self.slots += 1;
                let link = (bucket * SLOT, fresh.to_le_bytes().to_vec());
                (vec![(fresh * SLOT, pair(chain[0].next)), link], Some(true))
            }
            (None, None) => (Vec::new(), None),
        };
        store.update(writes)?;
        store.unlock(KIND | bucket);
        Ok(done)
    }
}
