//! What the corpus begins with: a pool that was closed, and one that was in use, with its log.

use std::io;
use std::path::Path;

use super::Kind;
use tembo_kv::{Durability, Error, Options, Progress, Store};
use tembo_pmem::{DomainRequest, RegionOptions, SyncPolicy};
use tembo_pool::{Geometry, PoolOptions};
use tembo_server::format::{Header, data_keyspace, encode_expiry_entry, expiry_keyspace};

/// A pool that was closed.
const CLOSED: &[u8] = include_bytes!("../../corpus/pool/closed");
/// A pool that was in use.
const CRASHED: &[u8] = include_bytes!("../../corpus/pool/crashed");
/// The log of [`CRASHED`].
const CRASHED_LOG: &[u8] = include_bytes!("../../corpus/log/crashed");

/// A pool that was closed.
pub(super) fn closed() -> Vec<u8> {
    whole(Kind::Pool, CLOSED)
}

/// A pool that was in use.
pub(super) fn crashed() -> Vec<u8> {
    whole(Kind::Pool, CRASHED)
}

/// The log of the pool that was in use.
pub(super) fn crashed_log() -> Vec<u8> {
    whole(Kind::Log, CRASHED_LOG)
}

/// An input of the corpus with the zeroes at its end, which are not kept there.
pub fn whole(kind: Kind, bytes: &[u8]) -> Vec<u8> {
    let size = match kind {
        Kind::Pool | Kind::Served => POOL_SIZE as usize,
        Kind::Log => LOG_FILE_SIZE as usize,
        Kind::Resp => 0,
    };
    let mut bytes = bytes.to_vec();
    bytes.resize(size.max(bytes.len()), 0);
    bytes
}

/// Bytes in a pool of the corpus.
pub(super) const POOL_SIZE: u64 = 96 << 10;
/// A ring in which the largest operation finds room.
const LOG_SIZE: u64 = 1 << 20;
/// Bytes in a log of the corpus.
const LOG_FILE_SIZE: u64 = LOG_SIZE + 4096;
/// Milliseconds since 1970, long ago.
const LONG_AGO_MS: u64 = 1_000;
/// Milliseconds since 1970, in a thousand years.
const LATE_MS: u64 = 32_000_000_000_000;

/// Small nodes, no threads; grows to twice its size.
pub(super) fn options() -> Options {
    let region = RegionOptions {
        domain: DomainRequest::Logged,
        sync: SyncPolicy::Os,
        size_max: 2 * POOL_SIZE,
        log_size: LOG_SIZE,
        background: false,
        ..RegionOptions::default()
    };
    let pool = PoolOptions { size: POOL_SIZE, region, geometry: Geometry::TINY };
    Options { pool, background: false, ..Options::default() }
}

/// Writes the inputs that [`Campaign`](super::Campaign) changes into the folder `corpus`.
///
/// # Errors
/// Of the store and of the files.
pub fn write_corpus(corpus: &Path) -> io::Result<()> {
    let place = tempfile::tempdir()?;
    let path = place.path().join("a.pool");
    let store = fill(&path).map_err(io::Error::other)?;
    // Dropped as by a crash: the log holds all.
    drop(store);
    keep(&std::fs::read(&path)?, &corpus.join("pool/crashed"))?;
    keep(&std::fs::read(path.with_extension("pool.log"))?, &corpus.join("log/crashed"))?;
    let store = Store::open(&path, &options()).map_err(io::Error::other)?;
    store.close().map_err(io::Error::other)?;
    keep(&std::fs::read(&path)?, &corpus.join("pool/closed"))
}

/// Writes an input of the corpus, without the zeroes at its end.
///
/// # Errors
/// Of the file.
pub fn keep(bytes: &[u8], to: &Path) -> io::Result<()> {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    std::fs::write(to, &bytes[..end])
}

/// Something of everything: databases of the server, one of them cleared, expiries, a long value,
/// named snapshots, a rollback, an abort.
fn fill(path: &Path) -> Result<Store, Error> {
    let store = Store::create(path, &options())?;
    let recover = || -> Result<(), Error> {
        while store.maintain(16)? == Progress::More {}
        Ok(())
    };
    recover()?;
    let (data, expiries) =
        (store.keyspace(&data_keyspace(0))?, store.keyspace(&expiry_keyspace(0))?);
    let cleared = store.keyspace(&data_keyspace(1))?;
    let put = |key: String, payload: &[u8]| {
        let mut tx = store.exclusive()?;
        tx.put(data, key.as_bytes(), &[Header::string(None).as_bytes(), payload])?;
        tx.commit(Durability::Buffered)
    };
    for number in 0..14 {
        put(format!("key:{:04}", number * 5 % 14), &[number; 12])?;
        store.put(cleared, &[number], b"\0x", Durability::Buffered)?;
    }
    store.save_snapshot("then")?;
    for number in 10..18 {
        put(format!("key:{number:04}"), &[number; 30])?;
    }
    let version = store.visible();
    let mut tx = store.exclusive()?;
    tx.clear(cleared)?;
    tx.put(cleared, b"one", &[b"\0two"])?;
    for (key, at) in [(b"long ago", LONG_AGO_MS), (b"some day", LATE_MS)] {
        let mut entry = Vec::new();
        encode_expiry_entry(&mut entry, at, key);
        tx.put(data, key, &[Header::string(Some(at)).as_bytes(), b"17"])?;
        tx.put(expiries, &entry, &[])?;
    }
    tx.commit(Durability::Buffered)?;
    store.save_snapshot("save")?;
    store.remove(data, b"key:0003", Durability::Buffered)?;
    put("void".into(), b"")?;
    store.rollback(store.snapshots().iter().map(|(_, at)| *at).max().unwrap_or(version))?;
    put("long".into(), &[b'7'; 1500])?;
    let mut tx = store.exclusive()?;
    tx.put(data, b"aborted", &[b"\0"])?;
    drop(tx);
    put("last".into(), b"one")?;
    store.sync()?;
    Ok(store)
}
