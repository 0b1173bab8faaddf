//! Recovery of the log: an opening completes or takes back interrupted operations.

use tembo_pmem::{LINE, Region, Section};

use super::entry::Found;
use super::shape::{Shape, State, advance};
use crate::Error;
use crate::format::{SUPERBLOCK, Superblock};

/// The first byte that an operation can have changed.
const FIRST: u64 = SUPERBLOCK + std::mem::offset_of!(Superblock, roots) as u64;

/// Bytes of a word and its offset.
const PAIR: u64 = 16;

/// Completes committed operations and takes back others. Returns the lanes with intents that are not done. Idempotent.
pub(super) fn recover(region: &Region, shape: &Shape) -> Result<Vec<usize>, Error> {
    let mut unfinished = Vec::new();
    for (lane, state, found) in read(region, shape)? {
        if state.is_committed {
            if found.intents.is_empty() {
                let word = shape.state_at(region, lane)?.load();
                return Err(Error::Damaged { field: "intents of a lane of the log", word });
            }
            unfinished.push(lane);
            continue;
        }
        if found.is_empty {
            continue;
        }
        let _section = section(region, shape, found.redo.len() as u64)?;
        let mut next = State { number: state.number + 1, is_committed: false };
        if found.is_sealed {
            store(region, found.redo.iter().copied())?;
            if !found.intents.is_empty() {
                next = State { is_committed: true, ..state };
                unfinished.push(lane);
            }
        } else {
            store(region, found.undo.iter().rev().copied())?;
        }
        advance(region, shape, lane, next)?;
        // ORDER: the lane is done with before anything else changes what it names.
        region.fence("pool.log.recover.fence");
    }
    Ok(unfinished)
}

/// What the lanes hold, in the order in which their operations were sealed: a later one may have changed words of an earlier one, whose entries
/// are still true.
fn read(region: &Region, shape: &Shape) -> Result<Vec<(usize, State, Found)>, Error> {
    let mut lanes = Vec::new();
    let mut bytes = 0;
    for lane in 0..shape.lanes {
        let state = shape.state(region, lane)?;
        let found = Found::read(region, shape, lane, state)?;
        // They stand in the log and in extents, objects of the pool beside each other.
        bytes += found.redo.len() as u64 * PAIR;
        if bytes > region.size() {
            return Err(Error::Damaged { field: "words of the log", word: bytes });
        }
        lanes.push((lane, state, found));
    }
    lanes.sort_by_key(|(_, _, found)| found.sequence);
    Ok(lanes)
}

/// Reserves room for all lines that the entries of a lane can name, and for its state.
fn section<'r>(region: &'r Region, shape: &Shape, redo: u64) -> Result<Section<'r>, Error> {
    Ok(region.reserve(redo.max(shape.words() as u64 / 2) + 1)?)
}

/// Stores words in place, and fences them: all, or none if one of the offsets is invalid.
pub(super) fn store(
    region: &Region,
    words: impl Iterator<Item = (u64, u64)> + Clone,
) -> Result<(), Error> {
    for (offset, _) in words.clone() {
        check(region, offset).map_err(|_| Error::Damaged { field: "log", word: offset })?;
    }
    place(region, words.clone())?;
    let mut lines: Vec<u64> = lines(words).collect();
    lines.sort_unstable();
    flush(region, lines.into_iter());
    // ORDER: the words are where they belong before the entries that name them are void.
    region.fence("pool.log.words.fence");
    Ok(())
}

/// Checks that a word stands at an offset that an operation can have changed.
pub(super) fn check(region: &Region, offset: u64) -> Result<(), Error> {
    let is_there = offset >= FIRST && region.words(offset, 1).is_ok();
    if is_there { Ok(()) } else { Err(Error::NoSuchWord { offset }) }
}

/// Stores words in place, whose offsets were [checked](check).
pub(super) fn place(region: &Region, words: impl Iterator<Item = (u64, u64)>) -> Result<(), Error> {
    for (offset, word) in words {
        region.store(&region.words(offset, 1)?[0], word);
    }
    Ok(())
}

/// The lines of words.
pub(super) fn lines(words: impl Iterator<Item = (u64, u64)>) -> impl Iterator<Item = u64> {
    words.map(|(offset, _)| offset / LINE * LINE)
}

/// Flushes lines. Equal lines that follow each other are flushed once.
pub(super) fn flush(region: &Region, lines: impl Iterator<Item = u64>) {
    let mut flushed = None;
    for line in lines {
        if flushed != Some(line) {
            // ORDER: the words are where they belong before the entries that name them are void.
            region.flush("pool.log.words.flush", line, LINE);
        }
        flushed = Some(line);
    }
}
