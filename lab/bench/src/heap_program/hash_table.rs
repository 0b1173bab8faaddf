//! HashTable: an open-chain hash table of integers. A key that is there is removed, another inserted.

use super::keyed::toggle;
use super::memory::{Form, Keyed, Memory, Program, Work};
use crate::keys::Random;

/// A hash table, of which half the keys are there when it is filled.
pub(crate) struct HashTable {
    pub(crate) keys: u64,
}

/// Bytes of a key.
pub(super) const KEY: u64 = 8;

/// One insertion or removal.
pub(crate) struct HashToggle {
    key: u64,
    buckets: usize,
}

impl Work<1, 1> for HashToggle {
    fn run<M: Memory<1, 1>>(&mut self, memory: &mut M) -> Result<u64, M::Fault> {
        let bucket = (self.key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16) as usize % self.buckets;
        let first = memory.head(bucket)?;
        let mut before: Option<M::Link> = None;
        let mut at = first.clone();
        while let Some(entry) = at {
            let next = memory.link(&entry, 0)?;
            if memory.word(&entry, 0)? == self.key {
                match before {
                    Some(before) => memory.set_link(&before, 0, next)?,
                    None => memory.set_head(bucket, next)?,
                }
                memory.free(entry)?;
                return Ok(0);
            }
            before = Some(entry);
            at = next;
        }
        let entry = memory.make([self.key], [first])?;
        memory.set_head(bucket, Some(entry))?;
        Ok(1)
    }

    fn run_keyed<K: Keyed>(&mut self, entries: &mut K) -> Result<u64, K::Fault> {
        toggle(entries, self.key)
    }
}

impl Program<1, 1> for HashTable {
    type Work = HashToggle;

    fn name(&self) -> &'static str {
        "HashTable"
    }

    fn form(&self) -> Form {
        let objects = self.keys as usize;
        Form { cells: 0, heads: objects / 2, objects }
    }

    fn payload(&self) -> u64 {
        self.keys / 2 * KEY
    }

    fn filling(&self) -> usize {
        self.keys as usize / 2
    }

    fn fill(&self, number: usize) -> HashToggle {
        HashToggle { key: 2 * number as u64, buckets: self.form().heads }
    }

    fn work(&self, _number: u64, random: &mut Random) -> HashToggle {
        HashToggle { key: random.below(self.keys), buckets: self.form().heads }
    }

    fn is_hashed(&self) -> bool {
        true
    }
}
