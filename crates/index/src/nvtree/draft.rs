//! A leaf in the making: what will be in it, where, and its way to media.

use tembo_pool::Object;
use zerocopy::IntoBytes;

use super::NvTree;
use super::element::{Element, Meta};
use super::format::{LEAF_MAGIC, LINES_MAX, LOW_INLINE, SHAPE_BITS, SLOTS_MAX, SLOTS_PER_LINE};
use super::leaf::Leaf;
use super::prints::{Prints, line_of};
use crate::Error;

/// Words in a line.
const WORDS: usize = 8;
type Words = [u64; WORDS];

/// An element, and its mark or fingerprint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Item {
    pub(crate) element: Element,
    pub(crate) meta: Meta,
    pub(crate) print: u8,
}

/// A leaf that will be linked to the right of another.
pub(crate) struct Draft<'k> {
    pub(crate) low: &'k [u8],
    pub(crate) prefix_len: u16,
    pub(crate) items: Items,
    /// The first of its history leaves.
    pub(crate) older: u64,
    /// Objects that it will own, the leaf itself first.
    pub(crate) made: Vec<Object>,
    pub(crate) prints: Prints,
}

/// As many as a leaf has room for.
#[derive(Clone, Copy)]
pub(crate) struct Items {
    all: [Item; SLOTS_MAX],
    len: usize,
}

impl Items {
    pub(crate) fn new() -> Items {
        Items { all: [Item::default(); SLOTS_MAX], len: 0 }
    }

    pub(crate) fn push(&mut self, item: Item) {
        if let Some(place) = self.all.get_mut(self.len) {
            *place = item;
            self.len += 1;
        }
    }

    fn as_slice(&self) -> &[Item] {
        &self.all[..self.len]
    }
}

impl<'k> Draft<'k> {
    /// Without elements.
    pub(crate) fn new(low: &'k [u8], prefix_len: u16) -> Draft<'k> {
        let (items, prints) = (Items::new(), Prints::default());
        Draft { low, prefix_len, items, older: 0, made: Vec::new(), prints }
    }
}

impl NvTree {
    /// Takes space for a leaf, to be given back with what else the draft has made if it is not linked.
    pub(crate) fn begin_draft(&self, draft: &mut Draft<'_>) -> Result<(), Error> {
        let pool = self.forest.pool();
        draft.made.push(pool.alloc(pool.geometry().node_size.into())?);
        Ok(())
    }

    /// Writes and flushes the new leaf.
    pub(crate) fn write_draft<'f>(
        &'f self,
        leaf: &Leaf<'f>,
        draft: &mut Draft<'_>,
    ) -> Result<Leaf<'f>, Error> {
        let region = self.forest.region();
        let right = Leaf::at(&self.forest, self.forest.new_leaf_id(draft.made[0])?)?;
        let header = self.header_of(leaf, draft)?;
        // ORDER: the leaf is durable before it is linked.
        region
            .write("nvtree.draft.header", right.offset(), &[header.as_bytes()])
            .map_err(|error| Error::Pool(error.into()))?;
        let (lines, used) = lay_out(draft, right.lines());
        for (number, words) in lines.iter().enumerate().take(right.lines()) {
            if used[number] > 0 {
                // ORDER: as above.
                region
                    .write("nvtree.draft.line", right.line_offset(number), &[words.as_bytes()])
                    .map_err(|error| Error::Pool(error.into()))?;
                continue;
            }
            let line = right.line(number)?;
            if line.metas.load() != 0 || line.meta_and_shapes.load() != 0 {
                region.store(&line.metas, 0);
                region.store(&line.meta_and_shapes, 0);
                // ORDER: durably without elements before the leaf is linked.
                region.flush("nvtree.draft.empty", right.line_offset(number), 64);
            }
        }
        Ok(right)
    }

    fn header_of(&self, leaf: &Leaf<'_>, draft: &mut Draft<'_>) -> Result<Words, Error> {
        let (low_len, header) = (draft.low.len(), leaf.header()?);
        let mut low = [0; 3];
        if low_len <= LOW_INLINE {
            low.as_mut_bytes()[..low_len].copy_from_slice(draft.low);
        } else {
            low[0] = self.record_for(draft.low, &[], &mut draft.made)?.to_bits();
        }
        let lengths = u64::from(draft.prefix_len) << 16 | low_len as u64;
        let shape = u64::from(LEAF_MAGIC) << 32 | lengths;
        let bases = header.bases.each_ref().map(|base| base.load());
        Ok([shape, header.next.load(), draft.older, bases[0], bases[1], low[0], low[1], low[2]])
    }

    /// An element of a leaf as it stands under the draft's prefix.
    pub(crate) fn placed_anew(
        &self,
        leaf: &Leaf<'_>,
        element: &Element,
        draft: &mut Draft<'_>,
    ) -> Result<Element, Error> {
        let prefix = &draft.low[..usize::from(draft.prefix_len)];
        self.carry(leaf, element, prefix, &mut draft.made)
    }
}

/// The lines of a draft, and how many elements are in each: most elements in the line where a search
/// looks first, and yet not all lines used.
fn lay_out(draft: &mut Draft<'_>, lines: usize) -> ([Words; LINES_MAX], [usize; LINES_MAX]) {
    let Draft { items, prints, .. } = draft;
    let mut wanted = [0_u8; LINES_MAX];
    items.as_slice().iter().for_each(|item| wanted[line_of(item.print, lines)] += 1);
    let needed = items.len.div_ceil(SLOTS_PER_LINE);
    let chosen = if needed == 0 { 0 } else { needed.max(lines * 2 / 3) };
    let mut room = rooms(&wanted[..lines], chosen);
    let mut words = [[0; WORDS]; LINES_MAX];
    let mut used = [0; LINES_MAX];
    let mut put = |item: &Item, line: usize| {
        store(&mut words[line], used[line], item);
        prints.set(line * SLOTS_PER_LINE + used[line], item.print);
        used[line] += 1;
    };
    let mut others = [0_u8; SLOTS_MAX];
    let mut other_count = 0;
    for (number, item) in items.as_slice().iter().enumerate() {
        let line = line_of(item.print, lines);
        if room[line] > 0 {
            room[line] -= 1;
            put(item, line);
        } else {
            others[other_count] = number as u8;
            other_count += 1;
        }
    }
    let mut line = 0;
    for &number in &others[..other_count] {
        while room[line] == 0 && line + 1 < lines {
            line += 1;
        }
        room[line] = room[line].saturating_sub(1);
        put(&items.all[usize::from(number)], line);
    }
    (words, used)
}

/// Room for elements in so many lines, those that most elements want.
fn rooms(wanted: &[u8], chosen: usize) -> [usize; LINES_MAX] {
    let mut room = [0; LINES_MAX];
    let mut left = chosen;
    for count in (0..=SLOTS_PER_LINE as u8).rev() {
        for (line, &wants) in wanted.iter().enumerate() {
            if left > 0 && wants.min(SLOTS_PER_LINE as u8) == count {
                room[line] = SLOTS_PER_LINE;
                left -= 1;
            }
        }
    }
    room
}

fn store(words: &mut Words, at: usize, item: &Item) {
    (words[2 * at], words[2 * at + 1]) = (item.element.key, item.element.payload);
    let meta = u64::from(item.meta.0);
    match at {
        0 => words[6] |= meta,
        1 => words[6] |= meta << 32,
        _ => words[7] |= meta,
    }
    words[7] |= u64::from(item.element.shape.0) << (32 + at as u32 * SHAPE_BITS);
}
