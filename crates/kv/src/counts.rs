//! How many keys there are, written down for the next open: a monitor that asks is not to wait until they are counted.
//!
//! ```text
//!   background, when they have drifted, and a close:   catalogue: counts, at a version of its own     two fences
//!   a close:                                           limit of versions = the last version drawn     fence
//! ```
//! The limit of versions certifies them: it says that no version above it was used. If it is the version that the counts
//! were written in, nothing was changed after them, and they are exact. The first version that an open draws lies above a
//! limit that was raised durably before; from then on they are an estimate, until the marking has counted. So nothing is
//! trusted that a crash at any instruction could have made false.

use tembo_index::Op;

use crate::commit::Uncommitted;
use crate::ledger::{Ledger, lower_limit, publish};
use crate::media::COUNTS_KEY;
use crate::shared::Shared;
use crate::trees::encode_counts;
use crate::write::Engine;
use crate::{Error, Progress};

/// Writes the counts down if they have drifted away from what was written last. Idle: they have not, or cannot be.
///
/// Durability point: visible when it returns; one that is lost is made again.
pub(crate) fn note_drifted(shared: &Shared, ledger: &mut Ledger) -> Result<Progress, Error> {
    if !can_note(shared, ledger) || !ledger.trees.have_drifted() {
        return Ok(Progress::Idle);
    }
    note(shared, ledger)
}

/// At a clean stop: writes the counts down, unless the last that were written are true still, and certifies them.
/// Durable (synced: later) when it returns. Where they are not known, nothing is done.
pub(crate) fn certify(engine: &Engine) -> Result<(), Error> {
    if engine.shared.region().is_read_only() {
        return Ok(());
    }
    let mut writing = engine.lock()?;
    let (shared, ledger) = writing.parts();
    if !can_note(shared, ledger) || ledger.is_marked_by_another() {
        return Ok(());
    }
    let noted = shared.catalogue.counts(Uncommitted::begin(shared).view(shared))?.version;
    if noted != shared.versions.clock.last() && note(shared, ledger)? == Progress::Idle {
        return Ok(());
    }
    lower_limit(shared, ledger)
}

fn can_note(shared: &Shared, ledger: &Ledger) -> bool {
    ledger.writable().is_ok() && !shared.region().is_read_only() && !shared.tombstones.has_any()
}

/// Idle: they are not all known, or there is no room.
fn note(shared: &Shared, ledger: &mut Ledger) -> Result<Progress, Error> {
    let mut changes = Uncommitted::begin(shared);
    let noted = write(shared, ledger, &mut changes).and_then(|version| {
        let Some(version) = version else { return Ok(Progress::Idle) };
        publish(shared, ledger, version, std::slice::from_mut(&mut changes))?;
        ledger.trees.noted();
        Ok(Progress::More)
    });
    changes.abort(shared, ledger);
    match noted {
        Err(Error::Full(_)) => {
            // Not to be tried again before they have changed as much once more.
            ledger.trees.noted();
            Ok(Progress::Idle)
        }
        noted => noted,
    }
}

/// The version that they are written in; `None`: they are not all known.
fn write(
    shared: &Shared,
    ledger: &mut Ledger,
    changes: &mut Uncommitted,
) -> Result<Option<u64>, Error> {
    if ledger.trees.counts(0).is_none() {
        return Ok(None);
    }
    let version = changes.draw(shared, ledger)?;
    let Some(counts) = ledger.trees.counts(version) else { return Ok(None) };
    let value = encode_counts(&counts);
    let op = Op::Put { key: COUNTS_KEY, value: &[&value] };
    changes.change_catalogue(shared, ledger, op)?;
    Ok(Some(version))
}
