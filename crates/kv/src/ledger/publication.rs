//! A commit: changes that have been made become durable, visible, and known to all that wait for them.
//!
//! ```text
//!  changes made, entries stamped, lines flushed
//!      │
//!      ▼   what was aborted before            (only after an abort)   fence
//!  ┌─ fence ── commit word, flush ── fence ─┐  durable
//!  └────────────────────────────────────────┘
//!      │   tallies: counts, removed keys ──► directory
//!      │   cleared and created keyspaces ──► published trees
//!      ▼
//!   visible
//!      │
//!      ▼   followers, in one place: retired objects, window, collection, space, hint
//! ```
//! A single change ([`publish_single`]) has no commit word: its own stamp commits it, and its index has fenced it.

use super::dead::note_pending;
use super::space::{reclaim, retire};
use super::state::Ledger;
use super::unlisted::Cleared;
use super::window::move_window;
use crate::Error;
use crate::media::CommitWord;
use crate::shared::{LOOK_STEP, Shared};
use crate::tally::Tally;

/// Fewer entries than so many kept for old versions are never worth a collection.
const KEPT_MIN: u64 = 32;

/// Changes that become visible together.
pub(crate) trait Group {
    /// Their first version and their last one, if they have several.
    fn several(&self) -> Option<(u64, u64)>;
    /// What they add up to. They are committed: from here on there are none.
    fn hand_in(&mut self) -> &mut Tally;
    /// Trees that they have taken away, in the version that is committed.
    fn cleared(&mut self, version: u64) -> Vec<Cleared>;
    /// Whether they have given keyspaces other trees.
    fn changes_trees(&self) -> bool;
}

/// Commits all groups: `version` is the last of theirs. Two fences. Durable (synced: later) when it returns.
///
/// # Errors
/// Nothing is visible then.
pub(crate) fn publish<G: Group>(
    shared: &Shared,
    ledger: &mut Ledger,
    version: u64,
    groups: &mut [G],
) -> Result<(), Error> {
    commit(shared, ledger, version)?;
    for group in groups.iter_mut() {
        if let Some(versions) = group.several() {
            // Before it is visible: a follower that comes to it finds it.
            shared.versions.pins.with_past(|past, visible| past.note_commit(versions, visible));
        }
        add_up(shared, ledger, group.hand_in());
        if group.changes_trees() {
            shared.published.store(ledger.trees.known(), version);
            shared.versions.pins.forget_trees();
        }
        group.cleared(version).into_iter().for_each(|tree| ledger.unlisted.push(tree));
    }
    shared.versions.pins.publish(version);
    notify(shared, ledger);
    Ok(())
}

/// Commits a version in which nothing happens. Two fences. Durable (synced: later) when it returns.
///
/// # Errors
/// It is not visible then.
pub(crate) fn publish_empty(
    shared: &Shared,
    ledger: &mut Ledger,
    version: u64,
) -> Result<(), Error> {
    commit(shared, ledger, version)?;
    shared.versions.pins.publish(version);
    Ok(())
}

fn commit(shared: &Shared, ledger: &mut Ledger, version: u64) -> Result<(), Error> {
    note_pending(shared, ledger)?;
    let _section = shared.region().reserve(2)?;
    CommitWord(&shared.root).store(version)
}

/// After a single change that its index has fenced, in the version that it drew; `None`: it changed nothing.
#[inline]
pub(crate) fn publish_single(shared: &Shared, ledger: &mut Ledger, version: Option<u64>) {
    if let Some(version) = version {
        shared.versions.pins.publish(version);
    }
    let node_size = shared.pool().geometry().node_size.into();
    if ledger.trees.add(&mut ledger.tally, node_size) {
        call_collection(shared, ledger);
    }
    if !ledger.unlinked.is_empty() {
        retire(shared, ledger);
    }
}

/// Adds up what was changed; wakes the background when so much was removed that a collection is due.
pub(crate) fn add_up(shared: &Shared, ledger: &mut Ledger, tally: &mut Tally) {
    let node_size = shared.pool().geometry().node_size.into();
    if ledger.trees.add(tally, node_size) {
        call_collection(shared, ledger);
    }
}

#[cold]
fn call_collection(shared: &Shared, ledger: &mut Ledger) {
    if ledger.machine.call() {
        shared.wake.want();
    }
}

/// All that follows a commit.
fn notify(shared: &Shared, ledger: &mut Ledger) {
    ledger.retired.extend(&mut ledger.unlinked);
    look_behind(shared, ledger);
    reclaim(shared, ledger);
    if ledger.machine.is_done() && ledger.trees.iter().any(|tree| tree.wants_hint()) {
        shared.wake.want();
    }
}

/// Moves the window; and looks now and then, while something is kept for old versions only, whether they have
/// been given up: then wakes the background.
#[inline]
pub(crate) fn look_behind(shared: &Shared, ledger: &mut Ledger) {
    move_window(shared, ledger);
    let last = shared.versions.clock.last();
    if shared.forest.kept() >= KEPT_MIN && ledger.machine.looks(last, LOOK_STEP) {
        let node_size = shared.pool().geometry().node_size.into();
        let retained = shared.versions.pins.retained();
        if ledger.trees.is_released(node_size, &retained) {
            shared.wake.want();
        }
    }
}
