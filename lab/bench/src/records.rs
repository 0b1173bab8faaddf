//! Records through the store: each operation a strict commit, keys and values of given sizes, as
//! published comparisons of embedded stores have it (25 bytes and 2 KiB, 16 bytes and 100 bytes).

use std::path::{Path, PathBuf};

use serde::Serialize;
use tembo_index::IndexKind;
use tembo_kv::{
    DomainRequest, Durability, Error as StoreError, Keyspace, Options, PoolOptions, RegionOptions,
    Store,
};

use crate::clock::{Elapsed, Stopwatch};
use crate::keys::Keys;
use crate::{Error, Watch};

/// What is done with every record, in this order.
const OPERATIONS: [&str; 4] = ["put", "get", "overwrite", "delete"];

/// What to measure.
#[derive(Clone, Debug)]
pub struct Records {
    /// Records in a store.
    pub count: u64,
    /// Bytes of a key; at least 8.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// Whether the records have checksums.
    pub checksums: bool,
    /// Rounds, each with stores of its own.
    pub rounds: u32,
    /// Where the pools are made, in the `flush` domain.
    pub folder: PathBuf,
    /// Where keys and orders come from.
    pub seed: u64,
}

impl Records {
    /// Trials that [`records`] reports.
    pub fn trials(&self) -> u64 {
        (OPERATIONS.len() * IndexKind::ORDERED.len()) as u64 * u64::from(self.rounds)
    }
}

/// One operation in one round.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// From 1.
    pub round: u32,
    /// The index of the store.
    pub index: &'static str,
    /// `put`, `get`, `overwrite` or `delete`.
    pub operation: &'static str,
    /// Thousand operations a second of thread CPU time.
    pub cpu_kops: f64,
    /// Thousand operations a second on the wall.
    pub wall_kops: f64,
}

/// Measures, store after store and round after round, until `watch` says that it is enough.
///
/// # Errors
/// Those of the store and of the folder.
pub fn records(config: &Records, watch: &mut Watch<'_>) -> Result<Vec<Rate>, Error> {
    let mut rates = Vec::new();
    let folder = tempfile::Builder::new().prefix("tembo-bench-").tempdir_in(&config.folder);
    let folder = folder.map_err(|source| Error::Folder { path: config.folder.clone(), source })?;
    for round in 1..=config.rounds {
        for index in IndexKind::ORDERED {
            let mut space = Space::new(folder.path(), index, config)?;
            for operation in OPERATIONS {
                if !watch("records", &format!("round {round}: {operation}, {}", index.name())) {
                    return Ok(rates);
                }
                let elapsed = space.all(operation, round, index.name())?;
                let kops = |time: std::time::Duration| {
                    config.count as f64 / time.as_secs_f64().max(1e-9) / 1e3
                };
                rates.push(Rate {
                    round,
                    index: index.name(),
                    operation,
                    cpu_kops: kops(elapsed.cpu),
                    wall_kops: kops(elapsed.wall),
                });
            }
        }
    }
    Ok(rates)
}

/// A store with one keyspace.
struct Space<'c> {
    store: Store,
    keyspace: Keyspace,
    config: &'c Records,
    value: Vec<u8>,
}

impl<'c> Space<'c> {
    fn new(folder: &Path, index: IndexKind, config: &'c Records) -> Result<Space<'c>, Error> {
        let path = folder.join("pool");
        let region = RegionOptions { domain: DomainRequest::Flush, ..RegionOptions::default() };
        let pool = PoolOptions { region, ..PoolOptions::default() };
        let options = Options::new().pool(pool).index(index).checksums(config.checksums);
        let store = Store::create(&path, &options)?;
        // So that it ends with the process, however that ends.
        let _ = std::fs::remove_file(&path);
        let keyspace = store.keyspace("bench")?;
        Ok(Space { store, keyspace, config, value: vec![7; config.value_size] })
    }

    fn all(
        &mut self,
        operation: &'static str,
        round: u32,
        contender: &'static str,
    ) -> Result<Elapsed, Error> {
        let keys = Keys { count: self.config.count, seed: self.config.seed };
        let plan = keys.shuffled(u64::from(round) + operation.len() as u64);
        let mut name = vec![b'k'; self.config.key_size.max(8)];
        let watch = Stopwatch::start();
        let mut right = 0;
        for key in plan {
            name[..8].copy_from_slice(&key.to_be_bytes());
            right += u64::from(self.one(operation, &name)?);
        }
        let elapsed = watch.elapsed();
        if right != self.config.count {
            let expected = self.config.count;
            return Err(Error::Wrong { contender, operation, expected, found: right });
        }
        Ok(elapsed)
    }

    /// Whether it went as it should.
    fn one(&self, operation: &str, name: &[u8]) -> Result<bool, StoreError> {
        let Space { store, keyspace, value, .. } = self;
        Ok(match operation {
            "put" => !store.put(*keyspace, name, value, Durability::Strict)?,
            "get" => store.get_with(*keyspace, name, |found| {
                found.is_some_and(|found| std::hint::black_box(found).len() == value.len())
            })?,
            "overwrite" => store.put(*keyspace, name, value, Durability::Strict)?,
            _ => store.remove(*keyspace, name, Durability::Strict)?,
        })
    }
}
