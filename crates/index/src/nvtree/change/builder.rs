//! A builder of a leaf: collects the elements with their slots, and writes the leaf to media.

use tembo_pmem::LineWords;
use tembo_pool::Object;
use zerocopy::IntoBytes;

use crate::key::KeyBytes;
use crate::nvtree::change::carry::{carry, record_for};
use crate::nvtree::format::{
    LEAF_MAGIC, LINES_MAX, LOW_INLINE, SHAPE_BITS, SLOTS_MAX, SLOTS_PER_LINE,
};
use crate::nvtree::leaf::{
    Element, Leaf, Meta, PrintBytes, Prints, Range, Traits, line_of, place_of,
};
use crate::{Error, Forest};

/// A leaf that will be linked to the right of another.
pub(crate) struct Builder {
    /// The leaf itself.
    pub(crate) object: Object,
    pub(crate) low: Vec<u8>,
    pub(crate) prefix_len: u16,
    /// The first of its history leaves.
    pub(crate) older: u64,
    /// Other objects that the leaf will own.
    pub(crate) made: Vec<Object>,
    /// Blocks whose values the leaf has in records.
    pub(crate) left: Vec<Object>,
    /// Marks and fingerprints by slot.
    prints: PrintBytes,
    /// The header, and the lines of elements.
    lines: [LineWords; 1 + LINES_MAX],
    /// Bits of the lines that are written: the header, and the lines in which elements are.
    used: u64,
    /// Whether a removal has a record.
    shared: bool,
}

impl Builder {
    /// A builder without elements, for a leaf in that space.
    #[inline]
    pub(crate) fn new(object: Object, low: Vec<u8>, prefix_len: u16) -> Builder {
        let (made, left, prints) = (Vec::new(), Vec::new(), PrintBytes::default());
        let lines = [[0; 8]; 1 + LINES_MAX];
        Builder {
            object,
            low,
            prefix_len,
            older: 0,
            made,
            left,
            prints,
            lines,
            used: 1,
            shared: false,
        }
    }

    /// Puts an element, and its mark or fingerprint, into a slot.
    #[inline]
    pub(crate) fn put(&mut self, slot: usize, (element, meta): (Element, Meta), print: u8) {
        let (number, at) = place_of(slot);
        let Some(words) = self.lines.get_mut(1 + number) else { return };
        (words[2 * at], words[2 * at + 1]) = (element.key, element.payload);
        words[6 + at / 2] |= u64::from(meta.0) << (at % 2 * 32);
        words[7] |= u64::from(element.shape.0) << (32 + at as u32 * SHAPE_BITS);
        self.used |= 2 << number;
        self.prints.as_flattened_mut()[slot] = print;
        self.shared |= meta.is_removed() && element.record().is_some();
    }

    pub(crate) fn prints(&self) -> Prints {
        Prints::of_bytes(&self.prints)
    }

    /// The traits of the leaf, with the bases of the leaf to its left, in its range.
    #[inline]
    pub(crate) fn traits(&self, bases: [u64; 2], high: Option<KeyBytes<'_>>) -> Traits {
        let range = Range { low: self.low[..].into(), high };
        let (base, older) = (usize::from(bases[1] > bases[0]), self.older != 0);
        let guarded = self.prefix_len > range.common_len();
        Traits { prefix_len: self.prefix_len, guarded, base, older, shared: self.shared }
    }

    /// All objects to give back if the leaf is not linked.
    pub(crate) fn objects(&self) -> impl Iterator<Item = Object> {
        std::iter::once(self.object).chain(self.made.iter().copied())
    }
}

/// Takes space for a leaf. The caller gives it back if the leaf is not linked.
#[inline]
pub(crate) fn space_for_leaf(forest: &Forest) -> Result<Object, Error> {
    let pool = forest.pool();
    let object = pool.alloc(pool.geometry().node_size.into())?;
    if let Ok(leaf) = Leaf::at(forest, forest.new_leaf_id(object)?) {
        // Lines that will not be written are read, to see whether they are empty: they are asked for in time.
        leaf.prefetch_all();
        leaf.side.prefetch();
    }
    Ok(object)
}

/// Writes and flushes the new leaf.
pub(crate) fn write_built<'f>(
    forest: &'f Forest,
    leaf: &Leaf<'f>,
    builder: &mut Builder,
) -> Result<Leaf<'f>, Error> {
    let region = forest.region();
    let right = Leaf::at(forest, forest.leaf_id(builder.object)?)?;
    builder.lines[0] = header_of(forest, leaf, builder)?;
    region
        // ORDER: the leaf is durable before it is linked.
        .write_node(
            "nvtree.builder.lines",
            right.offset(),
            &builder.lines[..=right.lines()],
            builder.used,
        )
        .map_err(|error| Error::Pool(error.into()))?;
    for (number, line) in right.all_lines()?.iter().enumerate() {
        if builder.used & 2 << number == 0 && line.metas.load() | line.meta_and_shapes.load() != 0 {
            region.store(&line.metas, 0);
            region.store(&line.meta_and_shapes, 0);
            // ORDER: the line is durably without elements before the leaf is linked.
            region.flush("nvtree.builder.empty", right.line_offset(number), 64);
        }
    }
    Ok(right)
}

fn header_of(forest: &Forest, leaf: &Leaf<'_>, builder: &mut Builder) -> Result<LineWords, Error> {
    let (low_len, header) = (builder.low.len(), leaf.header()?);
    let mut low = [0; 3];
    if low_len <= LOW_INLINE {
        low.as_mut_bytes()[..low_len].copy_from_slice(&builder.low);
    } else {
        low[0] = record_for(forest, &builder.low, &[], &mut builder.made)?.to_bits();
    }
    let lengths = u64::from(builder.prefix_len) << 16 | low_len as u64;
    let shape = u64::from(LEAF_MAGIC) << 32 | lengths;
    let bases = header.bases.each_ref().map(|base| base.load());
    Ok([shape, header.next.load(), builder.older, bases[0], bases[1], low[0], low[1], low[2]])
}

/// An element of a leaf as it stands under the builder's prefix.
pub(crate) fn placed_anew(
    forest: &Forest,
    leaf: &Leaf<'_>,
    element: &Element,
    builder: &mut Builder,
) -> Result<Element, Error> {
    let prefix = &builder.low[..usize::from(builder.prefix_len)];
    carry(forest, leaf, element, prefix, &mut builder.made, &mut builder.left)
}

/// Slots for elements of a new leaf that have these marks or fingerprints. Most lie in the line where a
/// search looks first, and yet not all lines are used. The code has no branches that depend on fingerprints, for
/// nothing can predict these.
pub(crate) fn slots_for(prints: &[u8], lines: usize) -> [u8; SLOTS_MAX] {
    let (mut wanted, count) = ([0_u8; LINES_MAX + 1], prints.len());
    for &print in prints {
        wanted[line_of(print, lines) % (LINES_MAX + 1)] += 1;
    }
    let needed = usize::div_ceil(count, SLOTS_PER_LINE);
    let chosen = if needed == 0 { 0 } else { needed.max(lines * 2 / 3) };
    let chosen = most_wanted(&wanted[..lines], chosen);
    let mut room = std::array::from_fn::<u8, { LINES_MAX + 1 }, _>(|line| {
        (chosen >> line & 1) as u8 * SLOTS_PER_LINE as u8
    });
    let mut slots = [0; SLOTS_MAX];
    let (mut others, mut other_count) = ([0_u8; SLOTS_MAX], 0);
    for (number, &print) in prints.iter().enumerate().take(SLOTS_MAX) {
        let line = line_of(print, lines) % (LINES_MAX + 1);
        let is_full = room[line] == 0;
        slots[number] = (line * SLOTS_PER_LINE) as u8 + SLOTS_PER_LINE as u8 - room[line];
        room[line] -= u8::from(!is_full);
        others[other_count] = number as u8;
        other_count += usize::from(is_full);
    }
    let mut line = 0;
    for &number in &others[..other_count] {
        while room[line] == 0 && line + 1 < lines {
            line += 1;
        }
        slots[usize::from(number)] = ((line + 1) * SLOTS_PER_LINE) as u8 - room[line];
        room[line] = room[line].saturating_sub(1);
    }
    slots
}

/// The lines that most elements want, so many of them, as a set of bits.
#[inline]
fn most_wanted(wanted: &[u8], chosen: usize) -> u32 {
    let mut lines_by_wants = [0_u32; SLOTS_PER_LINE + 1];
    for (line, &wants) in wanted.iter().enumerate() {
        lines_by_wants[usize::from(wants).min(SLOTS_PER_LINE)] |= 1 << line;
    }
    let (mut lines, mut left) = (0, chosen);
    for mut others in lines_by_wants.into_iter().rev() {
        while others != 0 && left > 0 {
            lines |= others & others.wrapping_neg();
            others &= others - 1;
            left -= 1;
        }
    }
    lines
}
