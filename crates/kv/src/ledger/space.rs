//! Space: what was unlinked is given back when no retained version sees it.

use std::sync::Arc;

use tembo_index::{Index, Retained};
use tembo_pool::Object;

use super::state::Ledger;
use super::tree_objects::tree_objects;
use crate::shared::Shared;

/// Unlinked objects that wait for each other before they are looked at, after single changes.
const UNLINKED_MAX: usize = 32;

/// A tree of at most so many objects is given back by the writer, at once.
const TREE_OBJECTS_MAX: usize = 64;

/// A marking is due.
pub(crate) fn owe(shared: &Shared, ledger: &mut Ledger) {
    ledger.machine.owe();
    shared.wake.want();
}

/// Gives back what no retained version sees.
pub(crate) fn reclaim(shared: &Shared, ledger: &mut Ledger) {
    let pins = &shared.versions.pins;
    if ledger.machine.is_done() && (!ledger.unlisted.is_empty() || ledger.window.inherits()) {
        let retained = pins.retained();
        let is_released = ledger.unlisted.release(&retained);
        for index in ledger.unlisted.take_released(&retained) {
            give_back_tree(shared, ledger, &index);
        }
        if ledger.window.inherits_less(retained.window()) || is_released {
            owe(shared, ledger);
        }
    }
    if ledger.machine.keeps_space() || ledger.retired.len() == 0 {
        return;
    }
    let retained = pins.retained();
    shared.forest.set_retained(retained.clone());
    ledger.retired.reclaim(&retained, shared.pool());
}

/// Gives back a tree that was cleared, and that nothing sees any more: now if it is small, else in the background.
fn give_back_tree(shared: &Shared, ledger: &Ledger, index: &Arc<Index>) {
    match tree_objects(shared, index, TREE_OBJECTS_MAX) {
        Some(mut objects) => {
            let mut waiting: Vec<u64> = ledger.retired.objects().map(Object::to_bits).collect();
            waiting.sort_unstable();
            // What was unlinked waits already, and may be reachable still.
            objects.retain(|object| waiting.binary_search(&object.to_bits()).is_err());
            shared.pool().free_all(objects);
        }
        None => {
            shared.private.register(index);
            shared.private.give_up(index);
            shared.wake.want();
        }
    }
}

/// Trees that a marking which begins does not reach are the sweep's, or those of the next one if they may lie above its limit.
pub(super) fn leave_to_sweep(ledger: &mut Ledger, retained: &Retained) {
    if !ledger.unlisted.take_released(retained).is_empty() {
        ledger.machine.owe();
    }
}

/// What was done after a version is taken back.
pub(crate) fn forget_after(ledger: &mut Ledger, version: u64) {
    ledger.retired.forget_after(version);
    ledger.unlisted.forget_after(version);
}

/// After a single change: what it unlinked waits for its readers.
pub(crate) fn retire(shared: &Shared, ledger: &mut Ledger) {
    ledger.retired.extend(&mut ledger.unlinked);
    if ledger.retired.fresh_count() >= UNLINKED_MAX {
        reclaim(shared, ledger);
    }
}
