//! Bytes as a pool, and as the log of a pool that was in use.

use std::ops::Bound;
use std::path::PathBuf;
use std::{fs, io};

use tembo_kv::{Direction, Durability, Error, Keyspace, Options, Progress, Snapshot, Store};
use tembo_pmem::DomainRequest;
use tembo_pool::Pool;

use super::base::{log_of, pool_of};
use super::options::options;
use super::{Face, Fate, Kind};

/// A folder in which bytes are offered.
pub struct FileFace {
    folder: tempfile::TempDir,
    kind: Kind,
}

impl FileFace {
    /// The bytes are a pool's.
    ///
    /// # Errors
    /// Of making the folder.
    pub fn pool() -> io::Result<FileFace> {
        FileFace::new(Kind::Pool)
    }

    /// The bytes are the log's, beside a pool that was in use.
    ///
    /// # Errors
    /// As [`pool`](FileFace::pool).
    pub fn log() -> io::Result<FileFace> {
        FileFace::new(Kind::Log)
    }

    fn new(kind: Kind) -> io::Result<FileFace> {
        Ok(FileFace { folder: folder()?, kind })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.path().join("a.pool")
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let other = match self.kind {
            Kind::Log => Some(pool_of(bytes)),
            _ => log_of(bytes),
        };
        let (pool, log) = match self.kind {
            Kind::Log => (other.as_deref().unwrap_or_default(), Some(bytes)),
            _ => (bytes, other.as_deref()),
        };
        for name in ["a.pool.log", "a.pool.log.new"] {
            match fs::remove_file(self.folder.path().join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::write(self.path(), pool)?;
        log.map_or(Ok(()), |log| fs::write(self.folder.path().join("a.pool.log"), log))
    }
}

/// A folder, in memory if there is such a place: nothing in it has to survive.
fn folder() -> io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

impl Face for FileFace {
    fn offer(&mut self, bytes: &[u8]) -> Fate {
        let mut options = options();
        // One of four maps the file itself.
        if crc32c::crc32c(bytes).is_multiple_of(4) {
            options = options.domain(DomainRequest::Flush);
        }
        if let Err(error) = self.write(bytes) {
            return Fate::Wrong(format!("writing the files: {error}"));
        }
        let path = self.path();
        let Ok(store) = Store::open(&path, &options) else {
            // What is no store may be a pool.
            if let Ok(pool) = Pool::open(&path, &options.pool_options()) {
                // It may say anything.
                let _ = use_pool(pool);
            }
            return Fate::Refused;
        };
        match use_store(store, &options, &path) {
            Ok(()) => Fate::Sound,
            Err(Trouble::Damage) => Fate::Damaged,
            Err(Trouble::Unnoticed(what)) => Fate::Unnoticed(what),
        }
    }
}

/// Allocates, sweeps and counts; what it says does not matter.
fn use_pool(pool: Pool) -> Result<(), tembo_pool::Error> {
    let taken: Vec<_> = [16, 64, 192, 5000].into_iter().map(|size| pool.alloc(size)).collect();
    let mut sweep = pool.begin_sweep()?;
    for slot in 0..tembo_pool::ROOT_COUNT {
        let object = tembo_pool::Object::from_bits(pool.root(slot)?.load());
        // What it refuses is not marked.
        let _ = sweep.mark(object);
    }
    sweep.finish(taken.into_iter().flatten())?;
    pool.census().account();
    pool.close()
}

/// Why something did not go through.
enum Trouble {
    /// The damage was found and reported.
    Damage,
    /// The check had called it sound.
    Unnoticed(String),
}

/// Asks everything, changes something, collects to the end, and opens once more. After a check that
/// found nothing wrong all of it should go through.
fn use_store(store: Store, options: &Options, path: &std::path::Path) -> Result<(), Trouble> {
    let before = store.check();
    let sound = before.is_ok();
    let mut results = ask(&store);
    results.extend(change(&store));
    results.push(("maintain", finish(&store)));
    results.push(("check", store.check().map(drop)));
    results.push(("close", store.close().map_err(Into::into)));
    let again = Store::open(path, options).and_then(|store| {
        finish(&store)?;
        store.check().map(drop)
    });
    results.push(("open again", again));
    match results.into_iter().find(|(_, result)| matches!(result, Err(error) if !is_full(error))) {
        None if sound => Ok(()),
        Some((what, Err(error))) if sound => Err(Trouble::Unnoticed(format!("{what}: {error:?}"))),
        _ => Err(Trouble::Damage),
    }
}

/// Refused for want of something that may run out.
fn is_full(error: &Error) -> bool {
    use tembo_pool::Error::GenerationsExhausted;
    matches!(
        error,
        Error::Full { .. }
            | Error::TooManyAborts
            | Error::SnapshotName { .. }
            | Error::Pool(GenerationsExhausted)
    )
}

type Results = Vec<(&'static str, Result<(), Error>)>;

/// Every key of every version, forwards, backwards and one by one.
fn ask(store: &Store) -> Results {
    let versions = store.snapshots().into_iter().map(|(_, version)| version);
    let read = |version| store.snapshot_at(version).and_then(|snapshot| read(store, &snapshot));
    versions.chain([store.visible()]).map(|version| ("read", read(version))).collect()
}

fn read(store: &Store, snapshot: &Snapshot) -> Result<(), Error> {
    for (_, space) in store.keyspaces() {
        let mut keys = Vec::new();
        for direction in [Direction::Forward, Direction::Backward] {
            let mut visit = |key: &[u8], _: tembo_kv::Value<'_>| {
                keys.push(key.to_vec());
                true
            };
            let all = Bound::Unbounded;
            match snapshot.range_with::<[u8]>(space, (all, all), direction, &mut visit) {
                Err(Error::NoSuchKeyspace { .. }) => return Ok(()),
                other => other?,
            }
        }
        keys.iter().try_for_each(|key| snapshot.get(space, key).map(drop))?;
    }
    Ok(())
}

/// Puts, removes, clears, aborts, names, forgets and rolls back.
fn change(store: &Store) -> Results {
    let mut results = Vec::new();
    let named = store.save_snapshot("fuzz");
    for (number, (_, space)) in store.keyspaces().into_iter().enumerate().take(8) {
        results.push(("put", put_some(store, space)));
        results.push(("remove", remove_some(store, space)));
        results.push(("abort", abort(store, space)));
        if number % 2 == 1 {
            results.push(("clear", clear(store, space)));
        }
    }
    results.push(("maintain", store.maintain(3).map(drop)));
    results.push(("keyspace", store.keyspace("another").map(drop)));
    match named {
        Ok(version) => results.push(("rollback", store.rollback(version).map(drop))),
        Err(error) => results.push(("name", Err(error))),
    }
    results.push(("forget", store.drop_snapshot("fuzz").map(drop)));
    results.extend(ask(store));
    results
}

fn put_some(store: &Store, space: Keyspace) -> Result<(), Error> {
    for number in 0..9u8 {
        let value = vec![number; usize::from(number) * 40];
        let key = [b"key:00".as_slice(), &[b'0' + number % 3, b'0' + number]].concat();
        store.put(space, &key, &value, Durability::Buffered)?;
    }
    Ok(())
}

fn remove_some(store: &Store, space: Keyspace) -> Result<(), Error> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut visit = |key: &[u8], _: tembo_kv::Value<'_>| {
        keys.push(key.to_vec());
        keys.len() < 12
    };
    let all = Bound::Unbounded;
    store.snapshot()?.range_with::<[u8]>(space, (all, all), Direction::Forward, &mut visit)?;
    keys.iter()
        .step_by(2)
        .try_for_each(|key| store.remove(space, key, Durability::Buffered).map(drop))
}

fn abort(store: &Store, space: Keyspace) -> Result<(), Error> {
    let mut tx = store.exclusive()?;
    for number in 0..6 {
        tx.put(space, &[number], b"void")?;
    }
    Ok(())
}

fn clear(store: &Store, space: Keyspace) -> Result<(), Error> {
    let mut tx = store.exclusive()?;
    tx.clear(space)?;
    tx.put(space, b"behind", b"the clearing")?;
    tx.commit(Durability::Strict).map(drop)
}

fn finish(store: &Store) -> Result<(), Error> {
    while store.maintain(16)? == Progress::More {}
    Ok(())
}
