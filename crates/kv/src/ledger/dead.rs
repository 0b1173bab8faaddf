//! What becomes void: versions of aborts, of rollbacks, and of what is taken back to a savepoint.

use std::sync::Arc;

use tembo_index::DeadInterval;

use super::space::owe;
use super::state::Ledger;
use super::upkeep::recover_now;
use crate::Error;
use crate::media::{CommitWord, DeadTable, LANE};
use crate::shared::Shared;

/// Makes a dead interval known, durably.
pub(crate) fn kill(shared: &Shared, ledger: &mut Ledger, dead: DeadInterval) -> Result<(), Error> {
    note(shared, ledger, dead)?;
    publish_dead(shared, ledger)?;
    owe(shared, ledger);
    Ok(())
}

/// Makes grouped versions of an uncommitted transaction void, durably.
pub(crate) fn kill_grouped(
    shared: &Shared,
    ledger: &mut Ledger,
    from: u64,
    to: u64,
) -> Result<(), Error> {
    kill(shared, ledger, DeadInterval { from, to, lane: Some(LANE) })
}

/// Makes an uncommitted version void. Not durable, and need not be: until the next commit it is
/// in flight, and an open would make it void.
pub(crate) fn abort(shared: &Shared, ledger: &mut Ledger, version: u64) {
    ledger.unlinked.clear();
    let published = CommitWord(&shared.root).load().and_then(|from| {
        // Between the last commit and this version every group was aborted.
        let to = ledger.pending_dead.map_or(version, |dead| dead.to.max(version));
        ledger.pending_dead = Some(DeadInterval { from, to, lane: Some(LANE) });
        publish_dead(shared, ledger)
    });
    ledger.is_broken |= published.is_err();
    owe(shared, ledger);
}

/// What was aborted since the last commit becomes durably dead.
pub(super) fn note_pending(shared: &Shared, ledger: &mut Ledger) -> Result<(), Error> {
    if let Some(dead) = ledger.pending_dead {
        note(shared, ledger, dead)?;
        ledger.pending_dead = None;
    }
    Ok(())
}

/// Makes room in the table for an interval, outside of the caller's sections: while one is open, no page is given back, and a scrub may
/// store to many.
pub(crate) fn make_room(shared: &Shared, ledger: &mut Ledger) -> Result<(), Error> {
    while !DeadTable(&shared.root).has_room()? {
        recover_now(shared, ledger)?;
    }
    Ok(())
}

fn note(shared: &Shared, ledger: &mut Ledger, dead: DeadInterval) -> Result<(), Error> {
    loop {
        let section = shared.region().reserve(4)?;
        if DeadTable(&shared.root).note(dead)? {
            return Ok(());
        }
        drop(section);
        recover_now(shared, ledger)?;
    }
}

/// Publishes to the trees what is dead: what the table says, and what is pending.
fn publish_dead(shared: &Shared, ledger: &mut Ledger) -> Result<(), Error> {
    ledger.dead = Arc::new(ledger.intervals(&shared.root)?);
    shared.forest.set_dead(ledger.dead.clone());
    // What an earlier answer holds for visible may be void.
    ledger.retained_uses = 0;
    Ok(())
}
