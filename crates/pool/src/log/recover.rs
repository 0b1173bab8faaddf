//! What an opening does with operations that were interrupted.

use tembo_pmem::{LINE, Region, Section};

use super::entry::Found;
use super::shape::{Shape, State, advance};
use crate::Error;
use crate::format::{SUPERBLOCK, Superblock};

/// The first byte that an operation can have changed.
const FIRST: u64 = SUPERBLOCK + std::mem::offset_of!(Superblock, roots) as u64;

/// Completes what was committed, takes back what was not; the lanes with intents that are not done. Idempotent.
pub(super) fn recover(region: &Region, shape: &Shape) -> Result<Vec<usize>, Error> {
    let mut unfinished = Vec::new();
    let mut lanes = Vec::new();
    for lane in 0..shape.lanes {
        let state = shape.state(region, lane)?;
        lanes.push((lane, state, Found::read(region, shape, lane, state)?));
    }
    // Of two sealed operations the later may have changed words of the earlier, whose entries are true still.
    lanes.sort_by_key(|(_, _, found)| found.sequence);
    for (lane, state, found) in lanes {
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
            store(region, &found.redo)?;
            if !found.intents.is_empty() {
                next = State { is_committed: true, ..state };
                unfinished.push(lane);
            }
        } else {
            let back: Vec<(u64, u64)> = found.undo.into_iter().rev().collect();
            store(region, &back)?;
        }
        advance(region, shape, lane, next)?;
        // ORDER: the lane is done with before anything else changes what it names.
        region.fence("pool.log.recover.fence");
    }
    Ok(unfinished)
}

/// Room for all lines that the entries of a lane can name, and its state.
fn section<'r>(region: &'r Region, shape: &Shape, redo: u64) -> Result<Section<'r>, Error> {
    Ok(region.reserve(redo.max(shape.words() as u64 / 2) + 1)?)
}

/// Stores words where they belong, and fences them.
pub(super) fn store(region: &Region, words: &[(u64, u64)]) -> Result<(), Error> {
    for &(offset, _) in words {
        if offset < FIRST || !offset.is_multiple_of(8) {
            return Err(Error::Damaged { field: "log", word: offset });
        }
        region.words(offset, 1)?;
    }
    for &(offset, word) in words {
        region.store(&region.words(offset, 1)?[0], word);
    }
    let mut lines: Vec<u64> = words.iter().map(|(offset, _)| offset / LINE * LINE).collect();
    lines.sort_unstable();
    lines.dedup();
    for line in lines {
        // ORDER: the words are where they belong before the entries that name them are void.
        region.flush("pool.log.words.flush", line, LINE);
    }
    // ORDER: as above.
    region.fence("pool.log.words.fence");
    Ok(())
}
