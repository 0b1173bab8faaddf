//! Blocks of several values, written together before their elements.

use tembo_pmem::WholeObject;

use crate::nvtree::change::carry::{block_payload, fills_object};
use crate::{Block, Forest, Records};

/// Bytes of a key that stands in the word of an element, whatever the prefix of its leaf.
const KEY_MAX: usize = 8;

/// Takes space for the values that will stand in blocks, and writes them, as far as the region writes them together. Adds a
/// block, or none, for each of `puts`. A value without a block, for example for want of space, is written when it is put.
pub(in crate::nvtree) fn write_blocks(
    forest: &Forest,
    puts: &[(&[u8], &[u8])],
    blocks: &mut Vec<Option<Block>>,
) {
    let first = blocks.len();
    blocks.resize(first + puts.len(), None);
    if forest.records() != Records::Checked {
        return;
    }
    let is_block =
        |&at: &usize| puts[at].0.len() <= KEY_MAX && fills_object(puts[at].1.len() as u64);
    let chosen: Vec<usize> = (0..puts.len()).filter(is_block).collect();
    let bytes: u64 = chosen.iter().map(|&at| puts[at].1.len() as u64).sum();
    if !forest.region().writes_together(bytes) {
        return;
    }
    let pool = forest.pool();
    let Ok(_section) = pool.reserve(bytes, chosen.len() as u64) else { return };
    let mut objects = Vec::with_capacity(chosen.len());
    for &at in &chosen {
        let Ok(object) = pool.alloc(puts[at].1.len() as u64) else { break };
        objects.push(object);
    }
    let made = objects.iter().zip(&chosen);
    let whole: Vec<WholeObject<'_>> = made
        .map(|(object, &at)| WholeObject { offset: object.offset(), bytes: puts[at].1 })
        .collect();
    // ORDER: the blocks are durable before elements that refer to them count.
    let written = forest.region().write_together(&whole).unwrap_or_default();
    // The last one comes first: space that is given back in this order is taken again in the order of its places.
    for (number, object) in objects.into_iter().enumerate().rev() {
        if written.get(number) == Some(&true) {
            let at = chosen[number];
            let payload = block_payload(object, &[puts[at].1]);
            blocks[first + at] = Some(Block { object, payload });
        } else {
            pool.free_unused(object);
        }
    }
}
