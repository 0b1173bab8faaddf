//! Values of several changes, written together before their elements.
//!
//! What fills pages is written to its place at once, from where it is put together, and no page of the mapping is stored to. A
//! record or a block that does not fill pages with others is written as if it were put alone.

use tembo_pmem::{BYPASS_MIN, Error as RegionError, WholeObject};
use tembo_pool::Object;

use crate::nvtree::change::carry::{block_payload, fills_object, write_block, write_record};
use crate::nvtree::leaf::hash;
use crate::nvtree::leaves::{Leaves, Wanted};
use crate::record::{record_size, with_record};
use crate::{Error, Forest, KEY_SIZE_MAX, Records, Written};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// A run lies between two multiples of this. If a page of it may not be overwritten yet, the whole run is written alone.
const RUN_MAX: u64 = 64 << 10;

/// A put whose value gets an object of its own.
struct Chosen<'p> {
    at: usize,
    key: &'p [u8],
    value: &'p [u8],
    is_block: bool,
    size: u64,
}

impl<'p> Chosen<'p> {
    /// `None`: the value stands in its element, or is written by itself.
    fn new(leaves: &Leaves, at: usize, (key, value): (&'p [u8], &'p [u8])) -> Option<Chosen<'p>> {
        let forest = &leaves.forest;
        if value.len() <= 8 || key.len() > KEY_SIZE_MAX {
            return None;
        }
        let is_block = fills_object(value.len() as u64)
            && forest.records() == Records::Checked
            && stands_in_word(leaves, key);
        let size = match is_block {
            true => value.len() as u64,
            false => record_size(forest.records(), key.len(), value.len()),
        };
        let is_alone = !is_block && size >= BYPASS_MIN || forest.region().writes_alone(size);
        (!is_alone).then_some(Chosen { at, key, value, is_block, size })
    }

    /// What is put when it is written.
    fn written(&self, object: Object) -> Written {
        let Chosen { key, value, is_block, .. } = *self;
        let payload = match is_block {
            true => block_payload(object, &[value]),
            false => object.to_bits() | hash(key) << 48,
        };
        Written { object, payload, is_block }
    }

    /// Adds all bytes of its object, which has so many.
    fn put_together(&self, records: Records, size: u64, bytes: &mut Vec<u8>) -> Result<(), Error> {
        let end = bytes.len() + size as usize;
        if self.is_block {
            bytes.extend_from_slice(self.value);
        } else {
            with_record(records, self.key, &[self.value], |parts| {
                parts.iter().for_each(|part| bytes.extend_from_slice(part));
                Ok::<(), RegionError>(())
            })?;
        }
        bytes.resize(end, 0);
        Ok(())
    }

    /// Writes it alone.
    fn write(&self, forest: &Forest, object: Object) -> Result<(), Error> {
        let lines = forest.region().write_lines(object.offset(), self.size);
        let _section =
            forest.region().reserve(2 + lines).map_err(|error| Error::Pool(error.into()))?;
        match self.is_block {
            true => write_block(forest, object, &[self.value]).map(drop),
            false => write_record(forest, object, self.key, &[self.value]),
        }
    }
}

/// Whether a key stands in the word of its element, as its leaf is now: if another one is its leaf when it is put, its value may have
/// to be written again.
fn stands_in_word(leaves: &Leaves, key: &[u8]) -> bool {
    if key.len() <= 8 {
        return true;
    }
    let Some(at) = leaves.leaf_fast::<false>(Wanted::new(key)) else { return false };
    let placed = at.leaf.place(key, at.leaf.side.bytes().1);
    placed.is_ok_and(|placed| placed.shape.key_len().is_some())
}

/// Takes space for the values that will stand in objects of their own, and writes them, if the region writes so much together. Adds what is
/// written, or none, for each of `puts`. A value that is not written, for example for want of space, is written when it is put.
pub(in crate::nvtree) fn write_together(
    leaves: &Leaves,
    puts: &[(&[u8], &[u8])],
    written: &mut Vec<Option<Written>>,
) {
    let first = written.len();
    written.resize(first + puts.len(), None);
    let forest = &leaves.forest;
    let chosen: Vec<Chosen<'_>> =
        (0..).zip(puts).filter_map(|(at, put)| Chosen::new(leaves, at, *put)).collect();
    let bytes: u64 = chosen.iter().map(|put| put.size).sum();
    if !forest.region().writes_together(bytes) {
        return;
    }
    let pool = forest.pool();
    let Ok(section) = pool.reserve(bytes, chosen.len() as u64) else { return };
    let objects = pool.alloc_together(chosen.iter().map(|put| put.size));
    let is_whole = write_whole(forest, &chosen, &objects).unwrap_or_default();
    drop(section);
    let others = (0..).zip(&objects).filter(|(number, _)| is_whole.get(*number) != Some(&true));
    pool.will_store(others.map(|(_, object)| *object));
    for (number, (put, object)) in chosen.iter().zip(objects).enumerate() {
        let is_whole = is_whole.get(number) == Some(&true);
        if is_whole || put.write(forest, object).is_ok() {
            written[first + put.at] = Some(put.written(object));
        } else {
            pool.give_up([object]);
        }
    }
}

/// Writes those that fill pages between them; for each, whether it is written.
fn write_whole(
    forest: &Forest,
    chosen: &[Chosen<'_>],
    objects: &[Object],
) -> Result<Vec<bool>, Error> {
    let spaces: Vec<(u64, u64)> =
        objects.iter().map(|object| (object.offset(), object.size())).collect();
    let runs = filled_runs(&spaces);
    // Blocks are written from where they are. A run with records, which may have blocks of their size among them, is one piece.
    let has_blocks_only = |run: &[usize]| run.iter().all(|&number| chosen[number].is_block);
    let mut together = Vec::new();
    for &number in runs.iter().filter(|run| !has_blocks_only(run)).flatten() {
        chosen[number].put_together(forest.records(), spaces[number].1, &mut together)?;
    }
    let mut rest = &together[..];
    let (mut whole, mut pieces) = (Vec::new(), Vec::new());
    for run in &runs {
        if has_blocks_only(run) {
            pieces.extend(run.iter().map(std::slice::from_ref));
            let block = |&number: &usize| (spaces[number].0, chosen[number].value);
            whole.extend(run.iter().map(block));
        } else {
            let len: u64 = run.iter().map(|&number| spaces[number].1).sum();
            pieces.push(&run[..]);
            whole.push((spaces[run[0]].0, rest.split_off(..len as usize).unwrap_or_default()));
        }
    }
    let whole: Vec<WholeObject<'_>> =
        whole.into_iter().map(|(offset, bytes)| WholeObject { offset, bytes }).collect();
    // ORDER: they are durable before elements that refer to them count.
    let done = forest.region().write_together(&whole).map_err(|error| Error::Pool(error.into()))?;
    let mut is_whole = vec![false; objects.len()];
    let written = pieces.into_iter().zip(done).filter(|(_, done)| *done);
    written.flat_map(|(piece, _)| piece).for_each(|&number| is_whole[number] = true);
    Ok(is_whole)
}

/// Runs of spaces (offset, size) of one size that lie side by side, begin with a page and end with one: the numbers of each, in
/// their order.
fn filled_runs(spaces: &[(u64, u64)]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..spaces.len()).collect();
    order.sort_unstable_by_key(|&number| spaces[number]);
    let end = |number: usize| spaces[number].0 + spaces[number].1;
    let are_one = |&one: &usize, &next: &usize| {
        end(one) == spaces[next].0
            && spaces[one].1 == spaces[next].1
            && !spaces[next].0.is_multiple_of(RUN_MAX)
    };
    let filled = |run: &[usize]| {
        let from = run.iter().position(|&number| spaces[number].0.is_multiple_of(PAGE))?;
        let to = run.iter().rposition(|&number| end(number).is_multiple_of(PAGE))?;
        (from <= to).then(|| run[from..=to].to_vec())
    };
    order.chunk_by(are_one).filter_map(filled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_begins_and_ends_with_a_page() {
        let at = |number: u64| (64 * PAGE + number * 1280, 1280);
        // Sixteen of them fill five pages.
        let mut spaces: Vec<(u64, u64)> = (0..20).map(at).collect();
        assert_eq!(filled_runs(&spaces), [(0..16).collect::<Vec<_>>()]);
        assert!(filled_runs(&spaces[1..16]).is_empty() && filled_runs(&spaces[..15]).is_empty());
        spaces.reverse();
        assert_eq!(filled_runs(&spaces), [(4..20).rev().collect::<Vec<_>>()]);
        spaces.remove(12);
        assert!(filled_runs(&spaces).is_empty());
        // Blocks of a page, one of them elsewhere, and others behind them of another size.
        let pages = [(PAGE, PAGE), (4 * PAGE, PAGE), (2 * PAGE, PAGE), (3 * PAGE, 2 * PAGE)];
        assert_eq!(filled_runs(&pages), [vec![0, 2], vec![3], vec![1]]);
        assert!(filled_runs(&[(PAGE / 2, PAGE)]).is_empty());
    }

    #[test]
    fn a_run_ends_where_its_piece_does() {
        let spaces: Vec<(u64, u64)> = (8..40).map(|page| (page * PAGE, PAGE)).collect();
        let lens: Vec<usize> = filled_runs(&spaces).iter().map(Vec::len).collect();
        assert_eq!(lens, [8, 16, 8]);
    }
}
