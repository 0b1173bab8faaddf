//! A slot: a place in a line, for one element.

use tembo_pmem::{LineStores, Region, Word};
use tembo_pool::Object;

use super::element::{Element, Meta, Shape};
use crate::nvtree::format::{Line, SHAPE_BITS, SLOTS_PER_LINE};

const SHAPE_MASK: u32 = (1 << SHAPE_BITS) - 1;

/// The line of a slot, and the place in the line.
#[inline]
pub(crate) fn place_of(slot: usize) -> (usize, usize) {
    (slot / SLOTS_PER_LINE, slot % SLOTS_PER_LINE)
}

/// Reads an element and its meta bits.
#[inline]
pub(crate) fn read(line: &Line, at: usize) -> (Element, Meta) {
    let (metas, tail) = (line.metas.load(), line.meta_and_shapes.load());
    // There are no branches: nothing can predict the place.
    let meta = if at < 2 { metas >> (at % 2 * 32) } else { tail } as u32;
    let pair = &line.pairs[at];
    let element =
        Element { key: pair.key.load(), payload: pair.payload.load(), shape: shape_in(tail, at) };
    (element, Meta(meta))
}

/// As [`read`], without the meta bits.
#[inline]
pub(crate) fn read_element(line: &Line, at: usize) -> Element {
    let pair = &line.pairs[at];
    let shape = shape_in(line.meta_and_shapes.load(), at);
    Element { key: pair.key.load(), payload: pair.payload.load(), shape }
}

/// The shape of the element at a place of a line whose last word this is.
#[inline]
fn shape_in(tail: u64, at: usize) -> Shape {
    Shape((tail >> 32) as u32 >> (at as u32 * SHAPE_BITS) & SHAPE_MASK)
}

/// As [`read`], without the meta bits, if the element has that word and that key's part of the shape.
#[inline(always)]
pub(crate) fn read_of(line: &Line, at: usize, word: u64, key: Shape) -> Option<Element> {
    let pair = &line.pairs[at];
    let shape = shape_in(line.meta_and_shapes.load(), at);
    (pair.key.load() == word && shape.same_key(key)).then(|| Element {
        key: word,
        payload: pair.payload.load(),
        shape,
    })
}

/// Whether a place has a record, whether its element counts or not.
#[inline]
pub(crate) fn has_record(line: &Line, at: usize) -> bool {
    shape_in(line.meta_and_shapes.load(), at).value_len().is_none()
}

/// A bit for each place of a line whose element has this object.
#[inline(always)]
pub(crate) fn owned(line: &Line, object: Object) -> u64 {
    // In most cases no place has it.
    let is_there = |at: usize| Object::from_bits(line.pairs[at].payload.load()) == object;
    let owns = |at: usize| {
        let (element, meta) = read(line, at);
        !meta.is_empty() && element.record() == Some(object)
    };
    (0..SLOTS_PER_LINE).fold(0, |owned, at| owned | u64::from(is_there(at) && owns(at)) << at)
}

/// Stores an element into a place of a line that has no element that counts. The caller holds the
/// leaf's lock. Durable after a fence.
#[inline(always)]
pub(crate) fn write(region: &Region, line: &Line, at: usize, element: &Element, meta: Meta) {
    write_all(region, line, [(at, *element, meta)]);
}

/// As [`write()`], for several elements of a line, which is flushed once.
#[inline(always)]
pub(crate) fn write_all(
    region: &Region,
    line: &Line,
    elements: impl IntoIterator<Item = (usize, Element, Meta)>,
) {
    let mut stores = region.line_stores();
    for (at, element, meta) in elements {
        put(&mut stores, line, at, &element, meta);
    }
    // ORDER: the element is durable with the fence of the thread that commits it.
    stores.flush("nvtree.element.flush", &line.metas);
}

#[inline(always)]
fn put(stores: &mut LineStores<'_>, line: &Line, at: usize, element: &Element, meta: Meta) {
    let (word, shift) = meta_word(line, at);
    let mask = u64::from(u32::MAX) << shift;
    let before = word.load();
    if before & mask != 0 {
        // ORDER: after the fence of the link or the later element for which it counts no more.
        stores.commit("nvtree.element.reuse", word, before & !mask);
    }
    let pair = &line.pairs[at];
    stores.store(&pair.key, element.key);
    stores.store(&pair.payload, element.payload);
    let shift_of_shape = 32 + at as u32 * SHAPE_BITS;
    let tail = line.meta_and_shapes.load();
    let others = tail & !(u64::from(SHAPE_MASK) << shift_of_shape);
    let shapes = others | u64::from(element.shape.0) << shift_of_shape;
    if shapes != tail {
        stores.store(&line.meta_and_shapes, shapes);
    }
    // ORDER: after key, payload and shape: same line, store order.
    stores.commit("nvtree.element.publish", word, word.load() & !mask | u64::from(meta.0) << shift);
}

/// Gives an element other meta bits; not flushed.
pub(crate) fn publish(region: &Region, line: &Line, at: usize, meta: Meta) {
    let (word, shift) = meta_word(line, at);
    let rest = word.load() & !(u64::from(u32::MAX) << shift);
    // ORDER: after key, payload and shape: same line, store order.
    region.commit("nvtree.element.restamp", word, rest | u64::from(meta.0) << shift);
}

/// Empties a place whose element does not count any more, without a flush. Returns whether it had an element.
#[inline]
pub(crate) fn erase(region: &Region, line: &Line, at: usize) -> bool {
    let (word, shift) = meta_word(line, at);
    let before = word.load();
    let emptied = before & !(u64::from(u32::MAX) << shift);
    if emptied != before {
        // ORDER: after the fence of the link or the later element for which it counts no more.
        region.commit("nvtree.element.erase", word, emptied);
    }
    emptied != before
}

/// The word that has the meta bits of a place, and their shift in it.
#[inline]
fn meta_word(line: &Line, at: usize) -> (&Word, u32) {
    let word = if at < 2 { &line.metas } else { &line.meta_and_shapes };
    (word, 32 * (at as u32 & 1))
}

/// The element in a slot, and its meta bits. Both are zero if there is no such slot.
pub(crate) fn read_slot(lines: &[Line], slot: usize) -> (Element, Meta) {
    let (number, at) = place_of(slot);
    lines.get(number).map(|line| read(line, at)).unwrap_or_default()
}
