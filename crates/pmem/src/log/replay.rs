//! Replay: what the log says the region holds.

use std::path::Path;

use super::checkpoint::keep_last;
use super::group::{Place, Walk, certified};
use super::ring::Ring;
use super::voids::Voids;
use crate::format::LogHeader;
use crate::mapping::PAGE;
use crate::{Error, HEADER_SIZE, LINE};

/// The content of a log: the last value of each of its lines.
pub(crate) struct Replay {
    /// Groups found.
    pub(crate) groups: u64,
    /// Bytes of them.
    pub(crate) bytes: u64,
    ring: Vec<u8>,
    /// Offsets in ascending order, and where the line's bytes are.
    lines: Vec<(u64, usize)>,
}

impl Replay {
    /// Offset and bytes of each line, in ascending order.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.lines.iter().map(|(line, at)| (*line, &self.ring[*at..*at + LINE as usize]))
    }

    /// How many lines there are.
    pub(crate) fn line_count(&self) -> u64 {
        self.lines.len() as u64
    }
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
    let mut bytes = vec![0; ring.capacity as usize];
    ring.read(&mut bytes, start.position).map_err(|e| Error::io("read", path, e))?;
    let damaged = |place: Place| Error::LogDamaged {
        path: path.to_owned(),
        sequence: place.sequence,
        position: ring.offset(place.position),
    };

    let mut walk = Walk::new(&bytes, salt, start);
    let mut lines: Vec<(u64, u64, usize)> = Vec::new();
    let mut voids = Voids::default();
    let mut synced_through = 0;
    loop {
        let place = walk.place;
        let Some(group) = walk.next() else {
            break;
        };
        for (offset, len) in group.extents() {
            let end = offset.checked_add(len).filter(|end| *end <= size);
            let end =
                end.filter(|_| offset % PAGE == 0 && len > 0).ok_or_else(|| damaged(place))?;
            voids.paint(offset, end, group.sequence);
        }
        for (line, at) in group.lines() {
            if line % LINE != 0 || line < HEADER_SIZE || line >= size {
                return Err(damaged(place));
            }
            lines.push((line, group.sequence, at));
        }
        synced_through = synced_through.max(group.synced_through);
    }
    let end = walk.place;
    if synced_through >= end.sequence || was_durable(&bytes, salt, start, end) {
        return Err(damaged(end));
    }
    let mut lines: Vec<(u64, usize)> = lines
        .into_iter()
        .filter(|(line, sequence, _)| !voids.covers(*line, *sequence))
        .map(|(line, _, at)| (line, at))
        .collect();
    keep_last(&mut lines);
    Ok(Replay {
        groups: end.sequence - start.sequence,
        bytes: end.position - start.position,
        ring: bytes,
        lines,
    })
}

/// Whether something behind the first invalid group tells that it was durable once: then it is
/// damaged, not torn. `bytes` is the ring from `start` on.
fn was_durable(bytes: &[u8], salt: u64, start: Place, missing: Place) -> bool {
    let mut at = (missing.position - start.position) as usize;
    while at + 64 <= bytes.len() {
        if let Some(header) = certified(&bytes[at..], salt)
            && header.position.get() == start.position + at as u64
            && header.sequence.get() >= missing.sequence
            && header.synced_through.get() >= missing.sequence
        {
            return true;
        }
        at += 64;
    }
    false
}
