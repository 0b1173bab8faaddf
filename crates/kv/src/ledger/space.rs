//! Space: what was unlinked is given back when no retained version sees it.

use super::state::Ledger;
use crate::shared::Shared;

/// Unlinked objects that wait for each other before they are looked at, after single changes.
const UNLINKED_MAX: usize = 32;

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

/// After a single change: what it unlinked waits for its readers.
pub(crate) fn retire(shared: &Shared, ledger: &mut Ledger) {
    ledger.retired.extend(&mut ledger.unlinked);
    if ledger.retired.fresh_count() >= UNLINKED_MAX {
        reclaim(shared, ledger);
    }
}
