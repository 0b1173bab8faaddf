//! The window of versions that stay readable without a handle, as the writer moves it.

use tembo_index::{DeadInterval, VERSION_MAX};

use super::space::reclaim;
use super::state::Ledger;
use crate::Error;
use crate::media::{Retention, WindowWords};
use crate::shared::Shared;
use crate::tombstones::Tombstone;
use crate::version::PinKind;

/// Moves a window that counts versions, if that is due. By the writer, outside of its sections.
#[inline]
pub(super) fn move_window(shared: &Shared, ledger: &mut Ledger) {
    if let Retention::Versions(_) = ledger.window.retention {
        let window = &ledger.window;
        let next =
            shared.versions.pins.with_past(|past, visible| window.next(past.window()?, visible));
        if next.is_some() {
            // In a full pool it stays where it is, and is moved later.
            let _ = put_window(shared, ledger, next, ledger.window.retention);
        }
    }
}

/// Keeps another window. Synced when it returns.
///
/// # Errors
/// [`Error::NotRetained`], [`Error::Full`]: nothing has changed; [`Error::NotDurable`].
pub(crate) fn set_retention(
    shared: &Shared,
    ledger: &mut Ledger,
    retention: Retention,
) -> Result<(), Error> {
    let pins = &shared.versions.pins;
    let (window, visible) = pins.with_past(|past, visible| (past.window(), visible));
    let oldest = window.unwrap_or(visible);
    let from = match retention {
        Retention::Nothing => None,
        Retention::Since(version) if (oldest..=visible).contains(&version) => Some(version),
        Retention::Since(version) => return Err(Error::NotRetained { version }),
        Retention::Versions(_) => Some(oldest),
    };
    let retention = match retention {
        Retention::Versions(count) => Retention::Versions(count.clamp(1, VERSION_MAX)),
        other => other,
    };
    put_window(shared, ledger, from, retention)?;
    move_window(shared, ledger);
    let synced = shared.versions.sync_beside(shared.region());
    reclaim(shared, ledger);
    synced
}

/// Sets the window. Fenced before it is in force.
fn put_window(
    shared: &Shared,
    ledger: &mut Ledger,
    from: Option<u64>,
    retention: Retention,
) -> Result<(), Error> {
    let section = shared.region().reserve(2)?;
    WindowWords(&shared.root).store(from, retention)?;
    drop(section);
    shared.versions.pins.with_past(|past, _| past.set_window(from));
    ledger.window.retention = retention;
    shared.let_go(from.unwrap_or(0));
    Ok(())
}

/// Forgets tombstones that are of no version that can be read; true if there were any.
pub(crate) fn release_tombstones(shared: &Shared) -> bool {
    let (list, pins) = (shared.tombstones.load(), &shared.versions.pins);
    let own = |pin| list.iter().filter(|tombstone| tombstone.version == pin).count();
    let is_over = |one: &Tombstone| !one.is_pending() && !pins.needs(one.version, one.until, own);
    let over: Vec<u64> = list.iter().filter(|one| is_over(one)).map(|one| one.version).collect();
    if over.is_empty() {
        return false;
    }
    shared.tombstones.change(|list| list.retain(|one| !over.contains(&one.version)));
    over.into_iter().for_each(|version| pins.unpin(version, PinKind::Tombstone));
    true
}

/// Notes durably what was rolled back, before its dead intervals are forgotten.
pub(super) fn note_void(shared: &Shared, forgotten: &[DeadInterval]) -> Result<(), Error> {
    let void = shared.versions.pins.with_past(|past, _| past.void());
    if let Some(void) = void
        && forgotten.iter().any(|dead| dead.lane.is_none())
    {
        let _section = shared.region().reserve(2)?;
        WindowWords(&shared.root).store_void(void)?;
    }
    Ok(())
}
