//! What the corpus begins with: of each index a pool that was closed, and one that was in use, with its log.

use std::io;
use std::path::Path;

use tembo_kv::{IndexKind, Progress, Store};

use super::fill::fill;
use super::format::{LOG_IDENTITIES, POOL_IDENTITY};
use super::kind::Kind;
use super::options::{LOG_FILE_SIZE, POOL_SIZE, options};

/// Inputs of the corpus, without the zeroes at their ends.
struct Stock {
    /// A pool that was closed.
    closed: &'static [u8],
    /// A pool that was in use.
    crashed: &'static [u8],
    /// The log of the pool that was in use.
    log: &'static [u8],
}

const CDDS: Stock = Stock {
    closed: include_bytes!("../../corpus/pool/closed"),
    crashed: include_bytes!("../../corpus/pool/crashed"),
    log: include_bytes!("../../corpus/log/crashed"),
};

const NVTREE: Stock = Stock {
    closed: include_bytes!("../../corpus/pool/closed-nvtree"),
    crashed: include_bytes!("../../corpus/pool/crashed-nvtree"),
    log: include_bytes!("../../corpus/log/crashed-nvtree"),
};

fn stock(index: IndexKind) -> &'static Stock {
    match index {
        IndexKind::Cdds => &CDDS,
        // It has the leaves of an NV-Tree.
        IndexKind::Nvtree | IndexKind::Hash => &NVTREE,
    }
}

/// A pool that was closed.
pub(super) fn closed(index: IndexKind) -> Vec<u8> {
    whole(Kind::Pool, stock(index).closed)
}

/// A pool that was in use.
pub(super) fn crashed(index: IndexKind) -> Vec<u8> {
    whole(Kind::Pool, stock(index).crashed)
}

/// The log of the pool that was in use.
pub(super) fn crashed_log(index: IndexKind) -> Vec<u8> {
    whole(Kind::Log, stock(index).log)
}

/// The log of the pool that was in use of which these bytes, whatever else was changed in them, say
/// that they are.
pub(super) fn log_of(pool: &[u8]) -> Option<Vec<u8>> {
    let is_its = |index: &IndexKind| {
        pool.get(POOL_IDENTITY)
            .is_some_and(|own| Some(own) == stock(*index).crashed.get(POOL_IDENTITY))
    };
    IndexKind::ORDERED.into_iter().find(is_its).map(crashed_log)
}

/// The pool that was in use whose log these bytes say that they are, in one of their headers; else any.
pub(super) fn pool_of(log: &[u8]) -> Vec<u8> {
    let says = |at: usize, pool: &[u8]| log.get(at..at + 16) == pool.get(POOL_IDENTITY);
    let is_its =
        |index: &IndexKind| LOG_IDENTITIES.into_iter().any(|at| says(at, stock(*index).crashed));
    crashed(IndexKind::ORDERED.into_iter().find(is_its).unwrap_or_default())
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

/// Writes the inputs that [`Campaign`](super::Campaign) changes into the folder `corpus`.
///
/// # Errors
/// Of the store and of the files.
pub fn write_corpus(corpus: &Path) -> io::Result<()> {
    for (index, suffix) in [(IndexKind::Cdds, ""), (IndexKind::Nvtree, "-nvtree")] {
        let place = tempfile::tempdir()?;
        let path = place.path().join("a.pool");
        let store = fill(&path, index).map_err(io::Error::other)?;
        // Dropped as by a crash: the log holds all.
        drop(store);
        keep(&std::fs::read(&path)?, &corpus.join(format!("pool/crashed{suffix}")))?;
        let log = std::fs::read(path.with_extension("pool.log"))?;
        keep(&log, &corpus.join(format!("log/crashed{suffix}")))?;
        let store = Store::open(&path, &options()).map_err(io::Error::other)?;
        while store.maintain(16).map_err(io::Error::other)? == Progress::More {}
        store.close().map_err(io::Error::other)?;
        keep(&std::fs::read(&path)?, &corpus.join(format!("pool/closed{suffix}")))?;
    }
    Ok(())
}

/// Writes an input of the corpus, without the zeroes at its end.
///
/// # Errors
/// Of the file.
pub fn keep(bytes: &[u8], to: &Path) -> io::Result<()> {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    std::fs::write(to, &bytes[..end])
}
