//! The store with keys of 16 to 32 bytes and values of 100.

use std::ops::Bound;
use std::path::Path;

use tembo_index::IndexKind;
use tembo_kv::{
    Direction, DomainRequest, Durability, Keyspace, Options, PoolOptions, Progress, RegionOptions,
    Store, Value,
};

use super::plan::{Name, word_of};
use super::process::{Timed, process_cpu};
use crate::clock::Stopwatch;
use crate::contender::{create_prepared, prepared_bytes};
use crate::operation::SCAN_LEN;
use crate::{Error, Operation};

/// Bytes of a value; the first eight are a number.
const VALUE_SIZE: usize = 100;

/// Bytes that are prepared in a pool for a key: more than the store takes.
const PREPARED_PER_KEY: u64 = 512;

/// Bytes of memory for a key of a store without a file.
const MEMORY_PER_KEY: u64 = 2048;

/// A store with one keyspace, each operation a strict commit.
pub(super) struct NamedStore {
    store: Store,
    keyspace: Keyspace,
}

impl NamedStore {
    /// Pages for so many keys are there before anything is timed.
    pub(super) fn new(folder: &Path, keys: u64) -> Result<NamedStore, Error> {
        let path = folder.join("pool");
        let region = RegionOptions { domain: DomainRequest::Flush, ..RegionOptions::default() };
        let size = prepared_bytes(keys, PREPARED_PER_KEY);
        let pool = PoolOptions { size, region: region.clone(), ..PoolOptions::default() };
        let options = Options::new().pool(pool).index(IndexKind::Nvtree);
        let store = create_prepared(&path, &options, &region)?;
        // So that it ends with the process, however that ends.
        let _ = std::fs::remove_file(&path);
        let keyspace = store.keyspace("bench")?;
        Ok(NamedStore { store, keyspace })
    }

    /// With its flushes off, and with nothing in the background.
    pub(super) fn in_memory(keys: u64) -> Result<NamedStore, Error> {
        let size = (256 << 20) + keys * MEMORY_PER_KEY;
        let options = Options::new().index(IndexKind::Nvtree).background(false);
        let store = Store::volatile(&options.size(size).size_max(size))?;
        while store.maintain(64)? == Progress::More {}
        let keyspace = store.keyspace("bench")?;
        Ok(NamedStore { store, keyspace })
    }

    pub(super) fn trial(&self, operation: Operation, plan: &[Name]) -> Result<Timed, Error> {
        let (began, watch) = (process_cpu(), Stopwatch::start());
        let right = self.act(operation, plan)?;
        let elapsed = watch.elapsed();
        let process = process_cpu().saturating_sub(began);
        Ok(Timed { operations: plan.len() as u64, elapsed, process, right })
    }

    /// How many answers were right, without asking a clock.
    pub(super) fn act(&self, operation: Operation, plan: &[Name]) -> Result<u64, Error> {
        let mut right = 0;
        match operation {
            Operation::Insert | Operation::SequentialInsert => {
                for name in plan {
                    right += u64::from(!self.put(name, name.number)?);
                }
            }
            Operation::Lookup => {
                for name in plan {
                    right += u64::from(self.get(name)? == Some(name.number));
                }
            }
            Operation::ZipfLookup => {
                for name in plan {
                    right += u64::from(self.get(name)?.is_some());
                }
            }
            Operation::MissingLookup => {
                for name in plan {
                    right += u64::from(self.get(name)?.is_none());
                }
            }
            Operation::Update | Operation::ZipfUpdate => {
                for (at, name) in plan.iter().enumerate() {
                    right += u64::from(self.put(name, at as u64)?);
                }
            }
            Operation::Scan => {
                for name in plan {
                    right += self.scan(name, |key, number| {
                        std::hint::black_box((key, number));
                    })?;
                }
            }
            Operation::Remove => {
                let NamedStore { store, keyspace } = self;
                for name in plan {
                    let existed = store.remove(*keyspace, name.bytes(), Durability::Strict)?;
                    right += u64::from(existed);
                }
            }
        }
        Ok(right)
    }

    fn put(&self, name: &Name, number: u64) -> Result<bool, Error> {
        let mut value = [7; VALUE_SIZE];
        value[..8].copy_from_slice(&number.to_le_bytes());
        Ok(self.store.put(self.keyspace, name.bytes(), &value, Durability::Strict)?)
    }

    fn get(&self, name: &Name) -> Result<Option<u64>, Error> {
        Ok(self.store.get_with(self.keyspace, name.bytes(), |value| value.and_then(number))?)
    }

    /// A sum over the keys that scans visit: see [`Source`](super::plan::Source).
    pub(super) fn scan_sum(&self, plan: &[Name]) -> Result<u64, Error> {
        let mut sum = 0_u64;
        for name in plan {
            self.scan(name, |key, _| sum = sum.wrapping_add(word_of(key)))?;
        }
        Ok(sum)
    }

    #[inline]
    fn scan(&self, name: &Name, mut each: impl FnMut(&[u8], Option<u64>)) -> Result<u64, Error> {
        let mut count = 0;
        let mut visit = |key: &[u8], value: Value<'_>| {
            each(key, number(value));
            count += 1;
            count < SCAN_LEN as u64
        };
        let (from, to) = (Bound::Included(name.bytes()), Bound::Unbounded);
        let snapshot = self.store.snapshot()?;
        snapshot.range_with::<[u8]>(self.keyspace, (from, to), Direction::Forward, &mut visit)?;
        Ok(count)
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.store.report().used_bytes
    }
}

/// What the first bytes of a value say.
fn number(value: Value<'_>) -> Option<u64> {
    value.array(0).map(u64::from_le_bytes)
}
