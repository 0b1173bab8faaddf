//! Replay: what the log says the region holds.
#![allow(unsafe_code)]

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::group::{LogKind, Place, Walk, certified};
use super::last::keep_last;
use super::ring::{Ring, View};
use super::voids::Voids;
use crate::checksum::OuterChecksum;
use crate::extent::Extent;
use crate::format::LogHeader;
use crate::mapping::PAGE;
use crate::{DiskFile, Error, HEADER_SIZE, LINE};

/// Bytes of an extent that are read at once.
const EXTENT_PIECE: u64 = 1 << 20;
/// Bytes of groups that are written once more at once.
const UNSETTLED_PIECE: usize = 1 << 20;

/// The bytes of a line.
pub(super) type Line = [u8; LINE as usize];

/// The content of a log.
pub(crate) struct Replay {
    /// Groups found.
    pub(crate) groups: u64,
    /// Bytes of them.
    pub(crate) bytes: u64,
    /// Where the next group belongs.
    pub(super) end: Place,
    /// All groups up to this one were durable, says a group or the header.
    pub(super) synced_through: u64,
    /// Where in the content the groups begin that no group calls durable.
    unsettled: usize,
    /// Ranges written beside the log.
    pub(super) voids: Voids,
    /// Extents of the groups that nothing calls durable, each with its group: their bytes are there.
    pub(super) unsettled_extents: Vec<(u64, Extent)>,
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
    /// The bytes of the line that are there in the ring. Other parts of it are written meanwhile.
    pub(super) fn line(&self, at: usize) -> Line {
        let mut line = [0; LINE as usize];
        self.ring.copy_to(at, &mut line);
        line
    }
}

impl Replay {
    /// Offset of each line, in ascending order, and where its last value is.
    pub(super) fn last_places(&self) -> Vec<(u64, usize)> {
        let mut lines = self.content.lines.clone();
        keep_last(&mut lines);
        lines
    }

    /// Offset and last value of each line, in ascending order.
    pub(crate) fn last_lines(&self) -> impl Iterator<Item = (u64, Line)> {
        self.last_places().into_iter().map(|(line, at)| (line, self.content.line(at)))
    }

    /// Hands the groups that may be durable or not to `work`, in pieces, each with its position.
    pub(super) fn unsettled(
        &self,
        mut work: impl FnMut(&[u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut at, end) = (self.unsettled, self.bytes as usize);
        let mut buffer = vec![0; (end - at).min(UNSETTLED_PIECE)];
        while at < end {
            let piece = (end - at).min(UNSETTLED_PIECE);
            let piece = &mut buffer[..piece];
            self.content.ring.copy_to(at, piece);
            work(piece, self.end.position - (end - at) as u64)?;
            at += piece.len();
        }
        Ok(())
    }
}

/// What a walk through a log gathers.
#[derive(Default)]
struct Gathered {
    lines: Vec<(u64, usize)>,
    voids: Voids,
    /// Extents with checksums, each with the sequence of its group.
    extents: Vec<(u64, Extent)>,
    synced_through: u64,
    /// Where each group begins in the bytes.
    starts: Vec<usize>,
}

/// What a log belongs to.
pub(super) struct Owner<'a> {
    /// The log's file.
    pub(super) path: &'a Path,
    pub(super) pool: &'a dyn DiskFile,
    pub(super) pool_path: &'a Path,
    /// Bytes in the region.
    pub(super) size: u64,
}

/// Reads a log.
///
/// # Errors
/// [`Error::LogDamaged`] when a group that was once durable is not valid now, or what a valid group
/// says cannot be; [`Error::Io`].
pub(super) fn replay(ring: &Ring, owner: &Owner<'_>, header: &LogHeader) -> Result<Replay, Error> {
    let start = Place::start(header);
    let kind = LogKind::of(header);
    let damaged = |place: Place| Error::LogDamaged {
        path: owner.path.to_owned(),
        sequence: place.sequence,
        position: ring.offset(place.position),
    };
    let view = ring.view(start.position, ring.capacity());
    let view = view.map_err(|e| Error::io("read", owner.path, e))?;
    // SAFETY: the log is only being opened: this process does not write to it before this function has returned, and others do
    // not while the pool is locked.
    let bytes = unsafe { view.bytes() };
    let called_durable = header.synced_through.get();
    let gathered = |end: u64| -> Result<_, Error> {
        let mut gathered = Gathered { synced_through: called_durable, ..Gathered::default() };
        let mut walk = Walk::new(bytes, kind, start);
        gather(&mut walk, owner.size, end, &mut gathered).map_err(damaged)?;
        Ok((gathered, walk.place, walk.at()))
    };
    let (mut found, mut end, mut at) = gathered(u64::MAX)?;
    let doubtful = found.extents.iter().filter(|(group, _)| *group > found.synced_through);
    if let Some(torn) = first_torn(owner, kind.outer, doubtful)? {
        // The bytes did not come to the disk with the group: both are of the tail that no sync has finished.
        (found, end, at) = gathered(torn)?;
    }
    let Gathered { mut lines, voids, mut extents, synced_through, starts } = found;
    let later = Later { salt: kind.salt, start, missing: end.sequence };
    let is_damaged = synced_through >= end.sequence || later.was_durable(&bytes[at..], at);
    if is_damaged {
        return Err(damaged(end));
    }
    if !voids.is_empty() {
        let sequence =
            |at: usize| start.sequence + starts.partition_point(|group| *group <= at) as u64 - 1;
        lines.retain(|(line, at)| !voids.covers(*line, sequence(*at)));
    }
    extents.retain(|(group, _)| *group > synced_through);
    let first_unsettled = (synced_through + 1).saturating_sub(start.sequence) as usize;
    Ok(Replay {
        groups: end.sequence - start.sequence,
        bytes: at as u64,
        end,
        synced_through,
        unsettled: starts.get(first_unsettled).copied().unwrap_or(at),
        voids,
        unsettled_extents: extents,
        content: Arc::new(Content { ring: view, lines }),
    })
}

/// The first group that has an extent whose bytes are not those that were written.
fn first_torn<'e>(
    owner: &Owner<'_>,
    outer: OuterChecksum,
    extents: impl Iterator<Item = &'e (u64, Extent)>,
) -> Result<Option<u64>, Error> {
    for (group, extent) in extents {
        let mut checksum = outer.running();
        read_extent(owner, extent, |_, bytes| {
            checksum.put(bytes);
            Ok(())
        })?;
        if Some(checksum.value()) != extent.checksum {
            return Ok(Some(*group));
        }
    }
    Ok(None)
}

/// Reads an extent in pieces, and has `work` look at each, with its offset.
pub(super) fn read_extent(
    owner: &Owner<'_>,
    extent: &Extent,
    mut work: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> Result<(), Error> {
    let mut buffer = vec![0; extent.len.min(EXTENT_PIECE) as usize];
    for at in (extent.offset..extent.end()).step_by(EXTENT_PIECE as usize) {
        let piece = &mut buffer[..(extent.end() - at).min(EXTENT_PIECE) as usize];
        let read = owner.pool.read_at(piece, at);
        read.map_err(|e| Error::io("read", owner.pool_path, e))?;
        work(at, piece).map_err(|e| Error::io("write", owner.pool_path, e))?;
    }
    Ok(())
}

/// Walks on as far as groups are valid, and come before group `last`. A group that is and says what cannot be is the
/// error.
fn gather(walk: &mut Walk<'_>, size: u64, last: u64, into: &mut Gathered) -> Result<(), Place> {
    loop {
        let (place, at) = (walk.place, walk.at());
        if place.sequence >= last {
            return Ok(());
        }
        let Some(group) = walk.next() else {
            return Ok(());
        };
        into.starts.push(at);
        for extent in group.extents() {
            let Extent { offset, len, checksum } = extent;
            let end = offset.checked_add(len).filter(|end| *end <= size);
            let is_whole = offset % PAGE == 0 && offset >= HEADER_SIZE && len > 0;
            let end = end.filter(|_| is_whole).ok_or(place)?;
            into.voids.paint(offset, end, group.sequence);
            if checksum.is_some() {
                into.extents.push((group.sequence, extent));
            }
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

/// What lies behind the first invalid group: does it show that the group was durable once? Then the
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::group::encode;

    const START: Place = Place { position: 0, sequence: 1, chain: 5 };
    const SIZE: u64 = 1 << 20;

    /// Gathers one group of these lines.
    fn gathered(lines: &[u64]) -> (Result<(), Place>, Vec<u64>) {
        let mut bytes = Vec::new();
        let copy = |_, out: &mut Vec<u8>| out.resize(out.len() + LINE as usize, 1);
        encode(&mut bytes, (9, 0), START, (lines, &[]), copy);
        let mut walk = Walk::new(&bytes, LogKind::written(9), START);
        let mut found = Gathered::default();
        let outcome = gather(&mut walk, SIZE, u64::MAX, &mut found);
        (outcome, found.lines.iter().map(|(line, _)| *line).collect())
    }

    #[test]
    fn a_run_over_the_end_or_into_the_header_is_damage() {
        let sound = [
            [HEADER_SIZE, HEADER_SIZE + LINE],
            [8192, 8192 + LINE],
            [SIZE - 2 * LINE, SIZE - LINE],
        ];
        for run in sound {
            assert_eq!(gathered(&run), (Ok(()), run.to_vec()));
        }
        let damaged = [
            [HEADER_SIZE - LINE, HEADER_SIZE],
            [0, LINE],
            [SIZE - LINE, SIZE],
            [SIZE, SIZE + LINE],
            [crate::SIZE_MAX - LINE, crate::SIZE_MAX],
        ];
        for run in damaged {
            assert_eq!(gathered(&run).0, Err(START), "{run:?}");
            // Also where it is named behind the group's header.
            let lines = [&sound.concat()[..], &run].concat();
            assert_eq!(gathered(&lines).0, Err(START), "{run:?}");
        }
    }
}
