//! A change of a single key as a transaction of its own.

use tembo_index::{Op, Place, View};

use crate::commit::Uncommitted;
use crate::error::InKeyspace;
use crate::ledger::publish;
use crate::tombstones::masked_has;
use crate::write::{Engine, change_alone, change_in_slot};
use crate::{Durability, Error, Keyspace};

/// Applies a change, in a write slot if possible, else by the writer. Returns whether the key was there before. It takes one
/// fence if the index can change the key in place, else two.
///
/// Durability point: as `durability` says, capped by the region's sync policy.
#[inline]
pub(crate) fn change(
    engine: &Engine,
    keyspace: Keyspace,
    op: Op<'_>,
    durability: Durability,
) -> Result<bool, Error> {
    let in_slot = engine.enter_slot().and_then(|slot| change_in_slot(engine, slot, keyspace, op));
    let existed = match in_slot {
        Some(existed) => existed,
        None => change_by_lock(engine, keyspace, op)?,
    };
    engine.shared.make_durable(durability)?;
    Ok(existed)
}

#[inline(never)]
fn change_by_lock(engine: &Engine, keyspace: Keyspace, op: Op<'_>) -> Result<bool, Error> {
    let mut writing = engine.lock_to_write()?;
    let _relief = matches!(op, Op::Remove { .. }).then(|| engine.shared.pool().relief());
    writing.writable()?;
    let (shared, ledger) = writing.parts();
    if let Some(existed) = change_alone(shared, ledger, keyspace, op)? {
        return Ok(existed);
    }
    if let Op::Remove { key } = op {
        let now = View { version: shared.versions.clock.last(), dead: &ledger.dead };
        let tree = ledger.trees.tree(keyspace, now.version)?;
        if !masked_has(&[], tree.index(), key, now).in_keyspace(tree.name())? {
            return Ok(false);
        }
    }
    let mut changes = Uncommitted::begin(shared);
    let existed = match changes.apply(shared, ledger, (keyspace, Place::default()), op) {
        Ok(existed) => existed,
        Err(error) => {
            changes.abort(shared, ledger);
            return Err(error);
        }
    };
    if let Some(version) = changes.last()
        && let Err(error) = publish(shared, ledger, version, std::slice::from_mut(&mut changes))
    {
        changes.abort(shared, ledger);
        return Err(error);
    }
    Ok(existed)
}
