//! Split: the upper half of a leaf's keys moves into a new leaf to its right, which becomes visible
//! by one store.
//!
//! What has moved stays behind in the old leaf and counts no more, because the next leaf's low key is
//! not above it. Only elements with records are erased: nobody may read a record that has a new owner.

use tembo_pool::Object;
use zerocopy::IntoBytes;

use super::NvTree;
use super::contents::{Contents, NO_SLOT, Seen, set};
use super::element::{Element, LONG, Meta, Shape};
use super::format::{LEAF_MAGIC, LOW_INLINE, SHAPE_BITS, SLOTS_PER_LINE};
use super::history::{self, Old};
use super::leaf::Leaf;
use super::prints::{FREE, Prints, STALE, TOMB, hash, print};
use super::room::erase_slots;
use super::side::Guard;
use crate::cdds::record::{common, head, record_size, write_record};
use crate::{Error, Retired};

/// Words in a line.
const WORDS: usize = 8;
/// Words in the largest leaf.
const LEAF_WORDS: usize = 16 * WORDS;

/// A leaf in the making.
struct Draft<'k> {
    low: &'k [u8],
    prefix_len: u16,
    /// Objects that it will own.
    made: Vec<Object>,
    words: [u64; LEAF_WORDS],
    prints: Prints,
    count: usize,
    /// Its history.
    older: u64,
}

impl NvTree {
    /// Splits a full leaf so that there is room for `key`. The caller holds the lock and has reserved.
    /// Durable when it returns; on an error nothing has changed.
    pub(crate) fn split(
        &self,
        leaf: &Leaf<'_>,
        guard: &Guard<'_>,
        kept: &Contents,
        key: &[u8],
        (version, retired): (u64, &mut Vec<Retired>),
    ) -> Result<(), Error> {
        // Keys of which only the history knows are among them.
        let all =
            Contents { old: kept.old.clone(), seen: kept.seen.clone(), ..Contents::default() };
        let all = all.with_history(leaf)?;
        let keys = all.keys(leaf).collect::<Result<Vec<&[Seen]>, Error>>()?;
        let Some(place) = self.place_to_split(leaf, &keys, key)? else {
            return self.age(leaf, guard, keys.first().copied().unwrap_or_default());
        };
        let key_at = |at: usize| match keys.get(at) {
            Some(seen) => leaf.key_of(&seen[0].element),
            None => Ok(key.to_vec()),
        };
        let left = if place == 0 { key.to_vec() } else { key_at(place - 1)? };
        let right = key_at(place)?;
        let moved = &keys[place..];
        let bounds = Bounds::between(leaf, &left, &right, moved)?;
        let mut draft = Draft {
            low: &right[..bounds.low_len],
            prefix_len: bounds.prefix_len,
            made: Vec::new(),
            words: [0; LEAF_WORDS],
            prints: Prints::default(),
            count: 0,
            older: 0,
        };
        let (moved_old, stays) = divide(leaf, &kept.old, draft.low)?;
        let right = match self.write_right(leaf, moved, &moved_old, &mut draft) {
            Ok(right) => right,
            Err(error) => {
                self.forest.pool().free_all(draft.made);
                return Err(error);
            }
        };
        self.link_right(leaf, right, &draft)?;
        let is_owner = |seen: &&Seen| seen.element.record().is_some();
        let in_slots = moved.iter().copied().flatten().filter(|seen| seen.slot != NO_SLOT);
        let owners: Vec<usize> = in_slots.clone().filter(is_owner).map(|seen| seen.slot).collect();
        erase_slots(leaf, &owners)?;
        if !moved_old.is_empty() {
            history::replace(leaf, &stays, version, retired)?;
        }
        let mut prints = leaf.side.prints().0;
        in_slots.for_each(|seen| prints.set(seen.slot, FREE));
        set(leaf, guard, &prints)
    }

    /// The first of the keys that move: half of the elements; none of them, if the new key comes after
    /// all that there are. `None`: the one key there is has too many versions.
    fn place_to_split(
        &self,
        leaf: &Leaf<'_>,
        keys: &[&[Seen]],
        key: &[u8],
    ) -> Result<Option<usize>, Error> {
        let Some(last) = keys.last() else { return Ok(None) };
        let last_key = leaf.key_of(&last[0].element)?;
        if *key > *last_key && (keys.len() == 1 || leaf.next_object()?.is_none()) {
            return Ok(Some(keys.len()));
        }
        if keys.len() == 1 {
            return Ok((*key < *last_key).then_some(0));
        }
        let half = keys.iter().map(|key| key.len()).sum::<usize>() / 2;
        let mut count = 0;
        let before = |key: &&[Seen]| {
            count += key.len();
            count <= half
        };
        let place = keys.iter().copied().take_while(before).count();
        Ok(Some(place.clamp(1, keys.len() - 1)))
    }

    /// Writes and flushes the new leaf.
    fn write_right<'f>(
        &'f self,
        leaf: &Leaf<'f>,
        moved: &[&[Seen]],
        moved_old: &[Old],
        draft: &mut Draft<'_>,
    ) -> Result<Leaf<'f>, Error> {
        let (pool, region) = (self.forest.pool(), self.forest.region());
        let object = pool.alloc(pool.geometry().node_size.into())?;
        draft.made.push(object);
        let right = Leaf::at(&self.forest, self.forest.leaf_id(object)?)?;
        for key in moved {
            for (at, seen) in key.iter().enumerate().filter(|(_, seen)| seen.slot != NO_SLOT) {
                self.add(leaf, seen, at == 0, draft)?;
            }
        }
        let mut old = moved_old.to_vec();
        for old in &mut old {
            old.element = self.placed_anew(leaf, &old.element, draft)?;
        }
        draft.older = history::make(leaf, &old, 0)?;
        self.write_header(leaf, draft)?;
        let lines = 1 + draft.count.div_ceil(SLOTS_PER_LINE);
        let bytes = draft.words[..lines * WORDS].as_bytes();
        // ORDER: the leaf is durable before it is linked.
        region.write("nvtree.split.write", right.offset(), &[bytes]).map_err(pool_error)?;
        for number in lines - 1..right.lines() {
            let line = right.line(number)?;
            if line.metas.load() != 0 || line.meta_and_shapes.load() != 0 {
                region.store(&line.metas, 0);
                region.store(&line.meta_and_shapes, 0);
                // ORDER: durably without elements before the leaf is linked.
                region.flush("nvtree.split.empty", right.line_offset(number), 64);
            }
        }
        Ok(right)
    }

    fn write_header(&self, leaf: &Leaf<'_>, draft: &mut Draft<'_>) -> Result<(), Error> {
        let low_len = draft.low.len();
        let header = leaf.header()?;
        let mut low = [0; 3];
        if low_len <= LOW_INLINE {
            low.as_mut_bytes()[..low_len].copy_from_slice(draft.low);
        } else {
            low[0] = self.record(draft.low, &[], draft)?.to_bits();
        }
        let lengths = u64::from(draft.prefix_len) << 16 | low_len as u64;
        draft.words[0] = u64::from(LEAF_MAGIC) << 32 | lengths;
        draft.words[1] = header.next.load();
        draft.words[2] = draft.older;
        (draft.words[3], draft.words[4]) = (header.bases[0].load(), header.bases[1].load());
        draft.words[5..8].copy_from_slice(&low);
        Ok(())
    }

    /// A record of a key and a value for the new leaf.
    fn record(&self, key: &[u8], value: &[u8], draft: &mut Draft<'_>) -> Result<Object, Error> {
        let record = self.forest.pool().alloc(record_size(key.len(), value.len()))?;
        draft.made.push(record);
        write_record(self.forest.region(), record, key, &[value])?;
        Ok(record)
    }

    /// Adds an element of the old leaf as it stands in the new one.
    fn add(
        &self,
        leaf: &Leaf<'_>,
        seen: &Seen,
        is_newest: bool,
        draft: &mut Draft<'_>,
    ) -> Result<(), Error> {
        let before = leaf.side.prints().0.get(seen.slot);
        let element = if leaf.prefix_len()? == draft.prefix_len && !seen.element.shape.is_odd() {
            seen.element
        } else {
            self.placed_anew(leaf, &seen.element, draft)?
        };
        let print = match before {
            _ if !is_newest => STALE,
            _ if seen.meta.is_removed() => TOMB,
            FREE | STALE | TOMB => print(hash(&leaf.key_of(&seen.element)?)),
            print => print,
        };
        draft.put(&element, seen.meta, print);
        Ok(())
    }

    /// An element of a leaf as it stands under another prefix.
    fn placed_anew(
        &self,
        leaf: &Leaf<'_>,
        element: &Element,
        draft: &mut Draft<'_>,
    ) -> Result<Element, Error> {
        let key = leaf.key_of(element)?;
        let prefix = &draft.low[..usize::from(draft.prefix_len)];
        let odd = !key.starts_with(prefix);
        let skipped = if odd { 0 } else { draft.prefix_len };
        let key_len = key.len() - usize::from(skipped);
        let word = head(&key, skipped);
        let Some(value_len) = element.shape.value_len() else {
            let shape = Shape::new(key_len, LONG, odd);
            return Ok(Element { key: word, payload: element.payload, shape });
        };
        if key_len <= 8 {
            let shape = Shape::new(key_len, value_len, odd);
            return Ok(Element { key: word, payload: element.payload, shape });
        }
        let record = self.record(&key, &element.payload.to_le_bytes()[..value_len], draft)?;
        let payload = record.to_bits() | hash(&key) << 48;
        Ok(Element { key: word, payload, shape: Shape::new(key_len, LONG, odd) })
    }

    /// Links the new leaf, and tells the inner nodes.
    fn link_right(&self, leaf: &Leaf<'_>, right: Leaf<'_>, draft: &Draft<'_>) -> Result<(), Error> {
        let (region, header) = (self.forest.region(), leaf.header()?);
        // What the space was before may have left a side-car.
        let new = right.side.lock();
        // ORDER: the new leaf is durable before it is linked.
        region.fence("nvtree.split.fence");
        let object = draft.made[0];
        // ORDER: after the new leaf, as above: from here on what has moved counts there.
        region.commit("nvtree.split.link", &header.next, object.to_bits());
        // ORDER: linked before anybody is told of what is written into the new leaf.
        region.flush("nvtree.split.link.flush", region.offset_of(&header.next), 8);
        // ORDER: as above, by whichever thread.
        region.fence("nvtree.split.link.fence");
        set(&right, &new, &draft.prints)?;
        new.made(self.forest.era(), leaf.side.newest());
        self.inner()?.insert(draft.low, right.id, &*self.forest)
    }
}

impl Draft<'_> {
    fn put(&mut self, element: &Element, meta: Meta, print: u8) {
        let slot = self.count;
        self.count += 1;
        self.prints.set(slot, print);
        let (line, at) = (1 + slot / SLOTS_PER_LINE, slot % SLOTS_PER_LINE);
        let words = &mut self.words[line * WORDS..][..WORDS];
        (words[2 * at], words[2 * at + 1]) = (element.key, element.payload);
        let meta = u64::from(meta.0);
        match at {
            0 => words[6] |= meta,
            1 => words[6] |= meta << 32,
            _ => words[7] |= meta,
        }
        words[7] |= u64::from(element.shape.0) << (32 + at as u32 * SHAPE_BITS);
    }
}

/// What of a history belongs to keys from `low` on, and what does not.
fn divide(leaf: &Leaf<'_>, old: &[Old], low: &[u8]) -> Result<(Vec<Old>, Vec<Old>), Error> {
    let (mut moved, mut stays) = (Vec::new(), Vec::new());
    for old in old {
        if *leaf.key_of(&old.element)? >= *low { moved.push(*old) } else { stays.push(*old) }
    }
    Ok((moved, stays))
}

/// How long the low key and the prefix of a new leaf are: both are of the first key that is, or comes,
/// there.
struct Bounds {
    low_len: usize,
    prefix_len: u16,
}

impl Bounds {
    /// The shortest low key that separates, unless a longer prefix saves more.
    fn between(
        leaf: &Leaf<'_>,
        left: &[u8],
        right: &[u8],
        moved: &[&[Seen]],
    ) -> Result<Bounds, Error> {
        let shared = common(left, right);
        let mut prefix_len = match leaf.high()? {
            Some(high) => common(right, high),
            None => 0,
        };
        let before = usize::from(leaf.prefix_len()?);
        let is_long = |element: &Element| {
            let skipped = if element.shape.is_odd() { 0 } else { before };
            element.shape.key_len().is_none_or(|len| skipped + len > usize::from(prefix_len) + 8)
        };
        let (first, last) = (moved.first(), moved.last());
        let any_long = match first {
            None => right.len() > usize::from(prefix_len) + 8,
            Some(_) => moved.iter().any(|key| is_long(&key[0].element)),
        };
        if any_long {
            let last = last.map(|last| leaf.key_of(&last[0].element)).transpose()?;
            let of_all = last.map_or(shared, |last| common(right, &last));
            prefix_len = prefix_len.max(of_all);
        }
        // A key has no more of a prefix than of itself.
        prefix_len = prefix_len.min(right.len() as u16);
        let low_len = (usize::from(shared) + 1).max(usize::from(prefix_len)).min(right.len());
        Ok(Bounds { low_len, prefix_len })
    }
}

fn pool_error(error: tembo_pmem::Error) -> Error {
    Error::Pool(error.into())
}
