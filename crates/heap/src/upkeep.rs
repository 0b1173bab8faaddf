//! What commits leave to be done: the destruction of what nothing refers to.

use crate::Error;
use crate::arena::{Arena, Ledger};
use crate::change::Change;
use crate::settlement::Settlement;

/// Steps of destruction behind a commit, at most: so no commit waits for all of a large structure.
const STEPS: usize = 64;

/// Orphans that one operation takes out of the dead-on-open list.
const ORPHANS: usize = 4;

/// Does a part of what is to be done.
pub(crate) fn some(arena: &Arena, ledger: &mut Ledger) -> Result<(), Error> {
    for _ in 0..STEPS {
        if !step(arena, ledger)? {
            break;
        }
    }
    Ok(())
}

/// Does all of it.
pub(crate) fn all(arena: &Arena, ledger: &mut Ledger) -> Result<(), Error> {
    while step(arena, ledger)? {}
    Ok(())
}

fn step(arena: &Arena, ledger: &mut Ledger) -> Result<bool, Error> {
    // A pointer that is not counted may name what would be destroyed, or what only that refers to.
    if arena.keeps_all() || !arena.has_dead()? {
        return Ok(false);
    }
    let mut dropped = arena.take_dropped();
    let later = dropped.split_off(dropped.len().min(ORPHANS));
    later.into_iter().for_each(|bits| arena.drop_later(bits));
    let mut change = Change::default();
    let mut settlement = Settlement::new(arena, ledger, &mut change);
    let mut result = dropped.iter().try_for_each(|bits| settlement.drop_orphan(*bits));
    if result.is_ok() {
        result = settlement.destroy();
    }
    let made = match result {
        Ok(()) => settlement.make(),
        Err(error) => {
            settlement.give_up();
            Err(error)
        }
    };
    if made.is_err() {
        dropped.into_iter().for_each(|bits| arena.drop_later(bits));
    }
    made.map(|()| true)
}
