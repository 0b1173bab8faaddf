//! Replay: what the log says the region holds.

use std::path::Path;
use std::sync::Arc;

use super::group::{Place, Walk, certified};
use super::last::keep_last;
use super::ring::{Ring, View};
use super::voids::Voids;
use crate::format::LogHeader;
use crate::mapping::PAGE;
use crate::{Error, HEADER_SIZE, LINE};

/// The content of a log.
pub(crate) struct Replay {
    /// Groups found.
    pub(crate) groups: u64,
    /// Bytes of them.
    pub(crate) bytes: u64,
    /// Where the next group belongs.
    pub(super) end: Place,
    /// All groups up to this one were durable, says a group.
    pub(super) synced_through: u64,
    /// Where in the content the groups begin that no group calls durable.
    unsettled: usize,
    /// Ranges written beside the log.
    pub(super) voids: Voids,
    pub(super) content: Arc<Content>,
}

/// The lines of a log that count.
pub(super) struct Content {
    /// The ring, from the first group on.
    ring: View,
    /// Offset, and where in `ring` the line's bytes are: later lines count more.
    pub(super) lines: Vec<(u64, usize)>,
}

impl Content {
    /// Offset and bytes of a line.
    pub(super) fn line(&self, index: usize) -> (u64, &[u8]) {
        let (line, at) = self.lines[index];
        (line, self.bytes(at))
    }

    fn bytes(&self, at: usize) -> &[u8] {
        // Other parts of the ring are written meanwhile.
        self.ring.part(at, LINE as usize)
    }
}

impl Replay {
    /// Offset and last value of each line, in ascending order.
    pub(crate) fn last_lines(&self) -> impl ExactSizeIterator<Item = (u64, &[u8])> {
        let mut lines = self.content.lines.clone();
        keep_last(&mut lines);
        lines.into_iter().map(|(line, at)| (line, self.content.bytes(at)))
    }

    /// The groups that may be durable or not.
    pub(super) fn unsettled(&self) -> &[u8] {
        self.content.ring.part(self.unsettled, self.bytes as usize - self.unsettled)
    }
}

/// What a walk through a log gathers.
struct Gathered {
    lines: Vec<(u64, usize)>,
    voids: Voids,
    synced_through: u64,
    /// Where each group begins in the bytes.
    starts: Vec<usize>,
}

/// Reads a log of a region of `size` bytes.
///
/// # Errors
/// [`Error::LogDamaged`] when a group that was once durable is not valid now, or what a valid group
/// says cannot be.
pub(super) fn replay(
    ring: &Ring,
    path: &Path,
    header: &LogHeader,
    size: u64,
) -> Result<Replay, Error> {
    let start = Place::start(header);
    let salt = header.salt.get();
    let damaged = |place: Place| Error::LogDamaged {
        path: path.to_owned(),
        sequence: place.sequence,
        position: ring.offset(place.position),
    };
    let view = ring.view(start.position, ring.capacity());
    let view = view.map_err(|e| Error::io("read", path, e))?;
    let bytes = view.bytes();
    let mut gathered = Gathered {
        lines: Vec::new(),
        voids: Voids::default(),
        synced_through: 0,
        starts: Vec::new(),
    };
    let mut walk = Walk::new(bytes, salt, start);
    gather(&mut walk, size, &mut gathered).map_err(damaged)?;
    let (end, at) = (walk.place, walk.at());
    let Gathered { mut lines, voids, synced_through, starts } = gathered;
    let later = Later { salt, start, missing: end.sequence };
    let is_damaged = synced_through >= end.sequence || later.was_durable(&bytes[at..], at);
    if is_damaged {
        return Err(damaged(end));
    }
    if !voids.is_empty() {
        let sequence =
            |at: usize| start.sequence + starts.partition_point(|group| *group <= at) as u64 - 1;
        lines.retain(|(line, at)| !voids.covers(*line, sequence(*at)));
    }
    let first_unsettled = (synced_through + 1).saturating_sub(start.sequence) as usize;
    Ok(Replay {
        groups: end.sequence - start.sequence,
        bytes: at as u64,
        end,
        synced_through,
        unsettled: starts.get(first_unsettled).copied().unwrap_or(at),
        voids,
        content: Arc::new(Content { ring: view, lines }),
    })
}

/// Walks on as far as groups are valid. A group that is and says what cannot be is the error.
fn gather(walk: &mut Walk<'_>, size: u64, into: &mut Gathered) -> Result<(), Place> {
    loop {
        let (place, at) = (walk.place, walk.at());
        let Some(group) = walk.next() else {
            return Ok(());
        };
        into.starts.push(at);
        for (offset, len) in group.extents() {
            let end = offset.checked_add(len).filter(|end| *end <= size);
            let end = end.filter(|_| offset % PAGE == 0 && len > 0).ok_or(place)?;
            into.voids.paint(offset, end, group.sequence);
        }
        for (line, at) in group.lines() {
            if line % LINE != 0 || line < HEADER_SIZE || line >= size {
                return Err(place);
            }
            into.lines.push((line, at));
        }
        into.synced_through = into.synced_through.max(group.synced_through);
    }
}

/// What lies behind the first invalid group: does it tell that the group was durable once? Then the
/// log is damaged, not torn.
struct Later {
    salt: u64,
    start: Place,
    /// Sequence of the invalid group.
    missing: u64,
}

impl Later {
    /// Looks at `bytes`, which lie `at` bytes behind the start.
    fn was_durable(&self, bytes: &[u8], at: usize) -> bool {
        bytes.chunks_exact(LINE as usize).enumerate().any(|(index, line)| {
            certified(line, self.salt).is_some_and(|header| {
                header.position.get() == self.start.position + (at + index * LINE as usize) as u64
                    && header.sequence.get() >= self.missing
                    && header.synced_through.get() >= self.missing
            })
        })
    }
}
