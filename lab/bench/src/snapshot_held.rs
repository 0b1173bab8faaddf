//! A snapshot held open while everything is overwritten: what it costs the writer, what it holds, and
//! what comes back when it is dropped. Stores with and without it alternate.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;
use tembo_index::IndexKind;
use tembo_kv::{
    DomainRequest, Durability, Keyspace, Options, PoolOptions, RegionOptions, Snapshot, Store,
};

use crate::{Error, Watch};

/// What to measure.
#[derive(Clone, Debug)]
pub struct SnapshotHeld {
    /// Keys in a store, of 8 bytes.
    pub keys: u64,
    /// Updates of keys by chance, each a strict commit.
    pub updates: u64,
    /// Bytes of a value; at least 8.
    pub value_size: usize,
    /// Rounds, each with stores of its own.
    pub rounds: u32,
    /// Where the pools are made, in the `flush` domain.
    pub folder: PathBuf,
    /// Where keys come from.
    pub seed: u64,
}

impl SnapshotHeld {
    /// Trials that [`snapshot_held`] reports: with and without, of each index.
    pub fn trials(&self) -> u64 {
        2 * IndexKind::ORDERED.len() as u64 * u64::from(self.rounds)
    }
}

/// One store in one round.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// From 1.
    pub round: u32,
    /// The index of the store.
    pub index: &'static str,
    /// Whether a snapshot was open during the updates.
    pub is_held: bool,
    /// Of the updates.
    pub updates: Latencies,
    /// Of a tenth as many updates after the snapshot was dropped, while its space is given back.
    pub afterwards: Latencies,
    /// Bytes in objects before the updates, after them, and when the background had come to rest.
    pub used_bytes: [u64; 3],
    /// Keys that were read from the snapshot after the updates, all as they were before.
    pub reads: u64,
}

/// How long single updates took on the wall.
#[derive(Clone, Debug, Serialize)]
pub struct Latencies {
    /// Thousand a second.
    pub kops: f64,
    /// Half took at most so long, in ns.
    pub p50_ns: u32,
    /// Of a hundred, 99.
    pub p99_ns: u32,
    /// Of a thousand, 999.
    pub p999_ns: u32,
    /// The longest.
    pub max_ns: u32,
}

impl Latencies {
    fn of(mut each: Vec<u32>, wall: Duration) -> Latencies {
        each.sort_unstable();
        let at = |share: f64| {
            let rank = (each.len() as f64 * share) as usize;
            each.get(rank.min(each.len().saturating_sub(1))).copied().unwrap_or(0)
        };
        Latencies {
            kops: each.len() as f64 / wall.as_secs_f64().max(1e-9) / 1e3,
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: at(1.0),
        }
    }
}

/// Measures, store after store and round after round, until `watch` says that it is enough.
///
/// # Errors
/// Those of the store and of the folder; [`Error::Wrong`] if the snapshot did not read what it should.
pub fn snapshot_held(config: &SnapshotHeld, watch: &mut Watch<'_>) -> Result<Vec<Held>, Error> {
    let folder = tempfile::Builder::new().prefix("tembo-bench-").tempdir_in(&config.folder);
    let folder = folder.map_err(|source| Error::Folder { path: config.folder.clone(), source })?;
    let mut all = Vec::new();
    for round in 1..=config.rounds {
        for index in IndexKind::ORDERED {
            for is_held in [round % 2 == 0, round % 2 == 1] {
                let which = if is_held { "snapshot held" } else { "no snapshot" };
                if !watch("snapshot-held", &format!("round {round}: {}, {which}", index.name())) {
                    return Ok(all);
                }
                all.push(one(config, folder.path(), (round, index, is_held))?);
            }
        }
    }
    Ok(all)
}

fn one(
    config: &SnapshotHeld,
    folder: &Path,
    (round, index, is_held): (u32, IndexKind, bool),
) -> Result<Held, Error> {
    let path = folder.join("pool");
    let region = RegionOptions { domain: DomainRequest::Flush, ..RegionOptions::default() };
    let pool = PoolOptions { region, ..PoolOptions::default() };
    let store = Store::create(&path, &Options::new().pool(pool).index(index))?;
    // So that it ends with the process, however that ends.
    let _ = std::fs::remove_file(&path);
    let space = store.keyspace("bench")?;
    let mut writer = Writer { store: &store, space, config, chance: config.seed | 1, serial: 0 };
    for number in 0..config.keys {
        writer.put(number.wrapping_mul(7919) % config.keys)?;
    }
    let before = settled(&store);
    let snapshot = if is_held { Some(store.snapshot()?) } else { None };
    // Every key has got a value with the number of its update.
    let last = writer.serial;
    let updates = writer.updates(config.updates)?;
    let reads = match &snapshot {
        Some(snapshot) => read(config, snapshot, space, last, index)?,
        None => 0,
    };
    let held = settled(&store);
    drop(snapshot);
    let afterwards = writer.updates(config.updates / 10)?;
    let used_bytes = [before, held, settled(&store)];
    Ok(Held { round, index: index.name(), is_held, updates, afterwards, used_bytes, reads })
}

struct Writer<'c> {
    store: &'c Store,
    space: Keyspace,
    config: &'c SnapshotHeld,
    chance: u64,
    serial: u64,
}

impl Writer<'_> {
    fn put(&mut self, number: u64) -> Result<(), Error> {
        self.serial += 1;
        let mut value = vec![7; self.config.value_size.max(8)];
        value[..8].copy_from_slice(&self.serial.to_le_bytes());
        self.store.put(self.space, &number.to_be_bytes(), &value, Durability::Strict)?;
        Ok(())
    }

    fn updates(&mut self, count: u64) -> Result<Latencies, Error> {
        let mut each = Vec::with_capacity(count as usize);
        let begin = Instant::now();
        let mut last = begin;
        for _ in 0..count {
            self.chance ^= self.chance << 13;
            self.chance ^= self.chance >> 7;
            self.chance ^= self.chance << 17;
            self.put((self.chance >> 8) % self.config.keys)?;
            let now = Instant::now();
            each.push((now - last).as_nanos().min(u32::MAX.into()) as u32);
            last = now;
        }
        Ok(Latencies::of(each, begin.elapsed()))
    }
}

/// Reads every key from the snapshot: none has a value of an update after it.
fn read(
    config: &SnapshotHeld,
    snapshot: &Snapshot,
    space: Keyspace,
    last: u64,
    index: IndexKind,
) -> Result<u64, Error> {
    let mut found = 0;
    for number in 0..config.keys {
        let value = snapshot.get(space, &number.to_be_bytes())?;
        let serial = value.and_then(|value| value.array(0));
        // Keys were put once each in an order that follows from the number.
        let is_right = serial.map(u64::from_le_bytes).is_some_and(|serial| {
            serial <= last && (serial - 1).wrapping_mul(7919) % config.keys == number
        });
        found += u64::from(is_right);
    }
    if found != config.keys {
        let (contender, operation) = (index.name(), "read");
        return Err(Error::Wrong { contender, operation, expected: config.keys, found });
    }
    Ok(found)
}

/// Bytes in objects when the background has come to rest.
fn settled(store: &Store) -> u64 {
    let mut last = u64::MAX;
    for _ in 0..100 {
        // An error stays for the next caller of the store.
        let _ = store.maintain(1);
        std::thread::sleep(Duration::from_millis(100));
        let report = store.report();
        if report.used_bytes == last && !report.recovering {
            break;
        }
        last = report.used_bytes;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_seen_and_what_is_read_is_right() {
        let (keys, updates, value_size, rounds, seed) = (4999, 30_000, 64, 1, 5);
        let folder = std::env::temp_dir();
        let config = SnapshotHeld { keys, updates, value_size, rounds, folder, seed };
        let all = snapshot_held(&config, &mut |_, _| true).unwrap();
        assert_eq!(all.len(), 2 * IndexKind::ORDERED.len());
        for held in &all {
            let [before, during, after] = held.used_bytes;
            assert_eq!(held.reads, if held.is_held { keys } else { 0 });
            assert!(!held.is_held || during > before + before / 2, "{held:?}");
            assert!(after < during || !held.is_held, "{held:?}");
        }
    }
}
