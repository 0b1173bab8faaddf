//! The counts of keys, written down for the next open, so that a monitor need not wait until the keys are counted.
//!
//! ```text
//!   background, when they have drifted:   catalogue: counts                             two fences
//!   a close:                              catalogue: counts, and the limit of versions  two fences
//! ```
//! A close writes them as its last change, with the limit of versions of this life of the process. Each open raises the
//! limit durably before anything is changed. So an open that finds the same limit knows that nothing was changed after the
//! counts, and that they are exact. For any other open they are an estimate until the marking has counted: counts are
//! not trusted where a crash at some instruction could have made them false.

use tembo_index::Op;

use crate::commit::Uncommitted;
use crate::ledger::{Ledger, allow_next, publish};
use crate::media::COUNTS_KEY;
use crate::shared::Shared;
use crate::trees::encode_counts;
use crate::write::Engine;
use crate::{Error, Progress};

/// Writes the counts down if they have drifted away from those written last. Returns Idle if they have not, or cannot be
/// written.
///
/// Durability point: visible when it returns; if a crash loses them they are written again.
pub(crate) fn note_drifted(shared: &Shared, ledger: &mut Ledger) -> Result<Progress, Error> {
    if !can_note(shared, ledger) || !ledger.trees.have_drifted() {
        return Ok(Progress::Idle);
    }
    note(shared, ledger, 0)
}

/// Writes the counts down and certifies them, as the last change of a clean stop. Durable (synced: later) when it
/// returns. If they are not known, it does nothing.
pub(crate) fn certify(engine: &Engine) -> Result<(), Error> {
    if engine.shared.region().is_read_only() {
        return Ok(());
    }
    let mut writing = engine.lock()?;
    let (shared, ledger) = writing.parts();
    if can_note(shared, ledger) && !ledger.is_marked_by_another() {
        // The next version is allowed before the limit is read, because that may raise the limit.
        allow_next(shared, ledger)?;
        note(shared, ledger, ledger.limit())?;
    }
    Ok(())
}

fn can_note(shared: &Shared, ledger: &Ledger) -> bool {
    ledger.writable().is_ok() && !shared.region().is_read_only() && !shared.tombstones.has_any()
}

/// Writes the counts down, certified by a limit, or by none. Returns Idle if they are not all known, or there is no room.
fn note(shared: &Shared, ledger: &mut Ledger, limit: u64) -> Result<Progress, Error> {
    let mut changes = Uncommitted::begin(shared);
    let noted = write(shared, ledger, &mut changes, limit).and_then(|version| {
        let Some(version) = version else { return Ok(Progress::Idle) };
        publish(shared, ledger, version, std::slice::from_mut(&mut changes))?;
        ledger.trees.noted();
        Ok(Progress::More)
    });
    changes.abort(shared, ledger);
    match noted {
        Err(Error::Full(_)) => {
            // The next attempt comes when they have changed as much once more.
            ledger.trees.noted();
            Ok(Progress::Idle)
        }
        noted => noted,
    }
}

/// Writes the counts. Returns the version in which they are written. `None`: they are not all known.
fn write(
    shared: &Shared,
    ledger: &mut Ledger,
    changes: &mut Uncommitted,
    limit: u64,
) -> Result<Option<u64>, Error> {
    let Some(counts) = ledger.trees.counts(limit) else { return Ok(None) };
    let version = changes.draw(shared, ledger)?;
    let value = encode_counts(&counts);
    let op = Op::Put { key: COUNTS_KEY, value: &[&value] };
    changes.change_catalogue(shared, ledger, op)?;
    Ok(Some(version))
}
