//! The first phase: a transaction is validated, and waits on media for its decision.

use tembo_index::{Op, View};

use super::encoding::{encode, piece_key};
use crate::bounds::{PREPARED_COUNT_MAX, PREPARED_ID_SIZE_MAX};
use crate::commit::{Meanwhile, Uncommitted, WriteSet, validate_reads, validate_writes};
use crate::held::Hold;
use crate::ledger::{Ledger, publish};
use crate::media::FEATURES_PREPARED;
use crate::read_set::ReadSet;
use crate::shared::Shared;
use crate::write::Engine;
use crate::{Access, Durability, Error};

/// Prepares a transaction that began at `since`, which is pinned. Returns the version in which it is prepared. Synced when
/// it returns.
///
/// # Errors
/// As of [`Transaction::prepare`](crate::Transaction::prepare).
pub(crate) fn prepare(
    engine: &Engine,
    id: &[u8],
    since: u64,
    (writes, reads): (WriteSet, Option<ReadSet>),
) -> Result<u64, Error> {
    if id.is_empty() || id.len() > PREPARED_ID_SIZE_MAX {
        return Err(Error::PreparedId { size: id.len() });
    }
    let mut writing = engine.lock_to_write()?;
    let (shared, ledger) = writing.parts();
    ledger.writable()?;
    if shared.held.get(id).is_some() {
        return Err(Error::PreparedExists { id: id.to_vec() });
    }
    if shared.held.len() >= PREPARED_COUNT_MAX {
        return Err(Error::TooManyPrepared { count: shared.held.len() });
    }
    validate(shared, ledger, since, (&writes, reads.as_ref()))?;
    ledger.features.announce(shared, FEATURES_PREPARED)?;
    let mut changes = Uncommitted::begin(shared);
    let stored = store(shared, ledger, &mut changes, id, (&writes, reads.as_ref()));
    changes.abort(shared, ledger);
    let (version, pieces) = stored?;
    let mut keys = Vec::new();
    writes.each_key(|keyspace, key| {
        keys.push((keyspace, key.into()));
        Ok(())
    })?;
    shared.held.insert(id, Hold { version, pieces, writes: keys, reads });
    drop(writing);
    engine.shared.make_version_durable(Durability::Strict, version)?;
    Ok(version)
}

fn validate(
    shared: &Shared,
    ledger: &mut Ledger,
    since: u64,
    (writes, reads): (&WriteSet, Option<&ReadSet>),
) -> Result<(), Error> {
    let dead = ledger.dead.clone();
    let now = View { version: shared.versions.clock.last(), dead: &dead };
    let meanwhile = Meanwhile { since, now };
    validate_writes(shared, ledger, writes, meanwhile)?;
    let Some(reads) = reads else { return Ok(()) };
    validate_reads(shared, ledger, reads, meanwhile)?;
    if shared.held.is_empty() {
        return Ok(());
    }
    for (&keyspace, keys) in &reads.keys {
        for key in keys {
            shared.check_held_read(keyspace, key)?;
        }
    }
    let mut ranges = reads.ranges.iter();
    ranges.try_for_each(|read| shared.check_held_range(read.keyspace, read.range(), Access::Read))
}

/// Stores the pieces of the transaction and commits them. Returns the version, and the number of pieces.
fn store(
    shared: &Shared,
    ledger: &mut Ledger,
    changes: &mut Uncommitted,
    id: &[u8],
    (writes, reads): (&WriteSet, Option<&ReadSet>),
) -> Result<(u64, u32), Error> {
    let version = changes.draw(shared, ledger)?;
    let pieces = encode(version, writes, reads, &mut |piece, bytes| {
        let key = piece_key(id, piece);
        changes.change_catalogue(shared, ledger, Op::Put { key: &key, value: &[bytes] })
    })?;
    publish(shared, ledger, version, std::slice::from_mut(changes))?;
    Ok((version, pieces))
}
