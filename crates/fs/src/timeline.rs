//! Which version was there at which time: for a store that keeps a window of its versions.
//!
//! ```text
//!  second     |   1           |   2       |           |   4
//!  changes    |  a    b       |   c       |           |     d
//!  version    |  5    6       |   7       |           |     8
//!  points     |       b: 6    |   c: 7    |           |           each put by the first change of a later second
//! ```
//!
//! A point has the version that a change has made, and its time: from then on up to the next change the files were as in
//! that version. The last change of each second becomes a point, so that at the begin of each second it is known what was
//! there. Points that became too many are thinned, the older ones first: then an older version stands for a time, never a later
//! one.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Error;
use crate::access::{Reads, Writes};
use crate::point::Point;
use crate::records::Records;
use crate::time::Time;

/// Points that are kept.
const POINTS_MAX: usize = 1024;

/// Points that wait for the next change, which puts them.
const WAITING_MAX: usize = 64;

/// What a file system knows of its last changes.
#[derive(Default)]
pub(crate) struct Timeline(Mutex<Changes>);

#[derive(Default)]
struct Changes {
    /// The last change of this process.
    last: Option<Point>,
    /// Last changes of earlier seconds.
    waiting: BTreeSet<Point>,
    /// Points that are put, if they were counted.
    count: Option<usize>,
}

impl Timeline {
    fn lock(&self) -> MutexGuard<'_, Changes> {
        // A panic loses a point at most.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change at a time has made a version.
    pub(crate) fn changed(&self, now: Time, version: u64) {
        let mut changes = self.lock();
        let last = changes.last;
        if let Some(last) = last.filter(|last| last.time.seconds < now.seconds) {
            changes.waiting.insert(last);
            if changes.waiting.len() > WAITING_MAX {
                changes.waiting.pop_first();
            }
        }
        // The caller's clock may have been set back: what was done later is later.
        let time = last.map_or(now, |last| last.time.max(now));
        if last.is_none_or(|last| last.version < version) {
            changes.last = Some(Point { time, version });
        }
    }

    /// The last change of this process.
    pub(crate) fn last(&self) -> Option<Point> {
        self.lock().last
    }

    /// Whether the last change was not after a time: what is there now was there then.
    pub(crate) fn is_current_at(&self, time: Time) -> bool {
        self.lock().last.is_some_and(|last| last.time <= time)
    }

    /// The newest point at or before a time that is not put yet.
    pub(crate) fn waiting_at(&self, time: Time) -> Option<Point> {
        self.lock().waiting.iter().rfind(|point| point.time <= time).copied()
    }

    /// Everything after a version was taken back.
    pub(crate) fn forget(&self) {
        *self.lock() = Changes::default();
    }

    /// Puts the points that wait, as part of a change at a time; returns what [`put`](Timeline::put) is to be given when that is committed.
    /// `oldest`: the first version of the window.
    pub(crate) fn write<A: Writes>(
        &self,
        records: &mut Records<A>,
        now: Time,
        oldest: u64,
    ) -> Result<Written, Error> {
        let changes = self.lock();
        let mut points: Vec<Point> = changes.waiting.iter().copied().collect();
        points.extend(changes.last.filter(|last| last.time.seconds < now.seconds));
        let counted = changes.count;
        drop(changes);
        if points.is_empty() {
            return Ok(Written { points, count: counted });
        }
        for point in &points {
            records.put_point(*point)?;
        }
        let counted = match counted {
            Some(count) => count + points.len(),
            None => all(records)?.len(),
        };
        let count = if counted > POINTS_MAX { thin(records, oldest)? } else { counted };
        Ok(Written { points, count: Some(count) })
    }

    /// Points that were written are committed.
    pub(crate) fn put(&self, written: Written) {
        let mut changes = self.lock();
        for point in &written.points {
            changes.waiting.remove(point);
        }
        changes.count = written.count;
    }
}

/// Points that a change puts, and how many there are then.
pub(crate) struct Written {
    points: Vec<Point>,
    count: Option<usize>,
}

/// All points that are put, in the order of time.
pub(crate) fn all<A: Reads>(records: &mut Records<A>) -> Result<Vec<Point>, Error> {
    let mut points = Vec::new();
    records.points(None, &mut |point| {
        points.push(point);
        true
    })?;
    Ok(points)
}

/// Removes the points of versions that are not kept any more, and every second one of the older half if that are too few; how
/// many are left.
fn thin<A: Writes>(records: &mut Records<A>, oldest: u64) -> Result<usize, Error> {
    let points = all(records)?;
    let (lost, kept): (Vec<Point>, Vec<Point>) =
        points.into_iter().partition(|point| point.version < oldest);
    let is_thinned = kept.len() > POINTS_MAX / 4 * 3;
    let older = if is_thinned { kept.len() / 2 } else { 0 };
    let thinned = kept[..older].iter().skip(1).step_by(2);
    let mut removed = 0;
    for point in lost.iter().chain(thinned.clone()) {
        records.remove_point(point.time)?;
        removed += 1;
    }
    Ok(lost.len() + kept.len() - removed)
}
