//! The commit of a transaction that has outgrown memory. It commits by itself: it is validated and its changes are made in
//! place under the writer's lock.

use tembo_index::{Op, Place, View};

use super::spilled::{Spilled, Written};
use crate::commit::{
    Meanwhile, Uncommitted, WriteSet, WriteValidation, validate_range, validate_reads,
};
use crate::ledger::{Ledger, publish};
use crate::opened::Handle;
use crate::read_set::ReadSet;
use crate::shared::Shared;
use crate::version::PinKind;
use crate::{Access, Error, Keyspace};

/// Everything that a transaction has written, from the earliest to the latest: ranges removed, private trees, memory.
pub(super) struct All<'t> {
    pub(super) spilled: &'t Spilled,
    pub(super) writes: &'t WriteSet,
}

/// Commits a transaction that began at `since`, whose pin this gives up. Returns the version, if anything was changed.
///
/// # Errors
/// [`Error::Conflict`], [`Error::WouldDeadlock`]; those of a change: nothing has changed.
pub(super) fn commit(
    handle: &Handle,
    since: u64,
    all: &All<'_>,
    reads: &ReadSet,
) -> Result<Option<u64>, Error> {
    let unpin = || handle.shared.versions.pins.unpin(since, PinKind::Transaction);
    let mut writing = match handle.lock_to_write() {
        Ok(writing) => writing,
        Err(error) => {
            unpin();
            return Err(error);
        }
    };
    let (shared, ledger) = writing.parts();
    let valid = validate(shared, ledger, since, all, reads);
    // The transaction reads no more, so what only its snapshot needs may be given back.
    unpin();
    valid?;
    let mut changes = Uncommitted::begin(shared);
    let made = make(shared, ledger, &mut changes, all).and_then(|()| {
        let last = changes.last();
        if let Some(version) = last {
            publish(shared, ledger, version, std::slice::from_mut(&mut changes))?;
        }
        Ok(last)
    });
    changes.abort(shared, ledger);
    made
}

fn validate(
    shared: &Shared,
    ledger: &mut Ledger,
    since: u64,
    all: &All<'_>,
    reads: &ReadSet,
) -> Result<(), Error> {
    ledger.writable()?;
    let dead = ledger.dead.clone();
    let now = View { version: shared.versions.clock.last(), dead: &dead };
    let meanwhile = Meanwhile { since, now };
    for (keyspace, range) in all.spilled.removed() {
        validate_range(shared, ledger, (*keyspace, range, Access::Write), meanwhile)?;
    }
    let validation = WriteValidation::begin(shared, meanwhile);
    all.spilled.each(|keyspace, key, _| validation.key(ledger, keyspace, key))?;
    all.writes.each_key(|keyspace, key| validation.key(ledger, keyspace, key))?;
    validate_reads(shared, ledger, reads, meanwhile)
}

fn make(
    shared: &Shared,
    ledger: &mut Ledger,
    changes: &mut Uncommitted,
    all: &All<'_>,
) -> Result<(), Error> {
    for (keyspace, range) in all.spilled.removed() {
        changes.remove_range(shared, ledger, (*keyspace, range.clone()))?;
    }
    let mut apply = |keyspace: Keyspace, op: Op<'_>| {
        changes.apply(shared, ledger, (keyspace, Place::default()), op).map(drop)
    };
    all.spilled.each(|keyspace, key, written: Written| match &written {
        Some(value) => apply(keyspace, Op::Put { key, value: &[value] }),
        None => apply(keyspace, Op::Remove { key }),
    })?;
    all.writes.each_last(apply)
}
