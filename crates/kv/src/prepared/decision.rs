//! The second phase: a prepared transaction is committed or dropped.

use tembo_index::{Op, Place, View};

use super::encoding::{Stored, piece_key};
use crate::commit::Uncommitted;
use crate::ledger::{Ledger, publish};
use crate::shared::Shared;
use crate::write::Engine;
use crate::{Durability, Error};

/// A decision.
#[derive(Clone, Copy)]
enum Decision {
    Commit,
    Discard,
}

/// Commits a prepared transaction. Returns the version of the commit.
///
/// # Errors
/// As of [`Store::commit_prepared`](crate::Store::commit_prepared).
pub(crate) fn commit(engine: &Engine, id: &[u8], durability: Durability) -> Result<u64, Error> {
    decide(engine, id, Decision::Commit, durability)
}

/// Drops a prepared transaction.
///
/// # Errors
/// As of [`Store::drop_prepared`](crate::Store::drop_prepared).
pub(crate) fn discard(engine: &Engine, id: &[u8], durability: Durability) -> Result<u64, Error> {
    decide(engine, id, Decision::Discard, durability)
}

fn decide(
    engine: &Engine,
    id: &[u8],
    decision: Decision,
    durability: Durability,
) -> Result<u64, Error> {
    let mut writing = engine.lock_to_write()?;
    let (shared, ledger) = writing.parts();
    ledger.writable()?;
    let unknown = || Error::NoSuchPrepared { id: id.to_vec() };
    let hold = shared.held.get(id).ok_or_else(unknown)?;
    let mut changes = Uncommitted::of_prepared(shared, id);
    let made = make(shared, ledger, &mut changes, (id, hold.pieces), decision);
    changes.abort(shared, ledger);
    let version = made?;
    shared.held.remove(id);
    drop(writing);
    engine.shared.make_version_durable(durability, version)?;
    Ok(version)
}

/// Makes the changes of a decision and commits them.
fn make(
    shared: &Shared,
    ledger: &mut Ledger,
    changes: &mut Uncommitted,
    (id, pieces): (&[u8], u32),
    decision: Decision,
) -> Result<u64, Error> {
    const LOST: Error = Error::Damaged { what: "a prepared transaction" };
    if let Decision::Commit = decision {
        let dead = ledger.dead.clone();
        let now = View { version: shared.versions.clock.last(), dead: &dead };
        let stored = Stored::find(&shared.catalogue, now, id)?.ok_or(LOST)?;
        stored.each_write(|keyspace, op| {
            let keyspace = ledger.trees.by_id(keyspace).ok_or(LOST)?;
            changes.apply(shared, ledger, (keyspace, Place::default()), op).map(drop)
        })?;
    }
    for piece in 0..pieces {
        changes.change_catalogue(shared, ledger, Op::Remove { key: &piece_key(id, piece) })?;
    }
    let version = changes.newest(shared);
    publish(shared, ledger, version, std::slice::from_mut(changes))?;
    Ok(version)
}
