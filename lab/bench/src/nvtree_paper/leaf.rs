//! Leaves (LN): unsorted, append-only, in a linked list (sections 4.1 and 4.3).

use tembo_pmem::{LINE, Region, Word};
use tembo_pool::{Object, Pool};
use zerocopy::IntoBytes;

use super::format::{
    ELEMENT_SIZE, ELEMENT_WORDS, HEADER_WORDS, LEAF_MAGIC, LEAF_SIZE_MIN, LeafHeader, NEGATIVE,
    POSITIVE, capacity, shape,
};
use crate::Error;

/// A leaf where it lies.
#[derive(Clone, Copy)]
pub(super) struct Leaf<'r> {
    pub(super) object: Object,
    pub(super) header: &'r LeafHeader,
    elements: &'r [Word],
}

/// What is appended.
pub(super) type Element = (u64, u64, u64);

impl<'r> Leaf<'r> {
    /// The leaf that a word refers to.
    #[inline]
    pub(super) fn at(region: &'r Region, bits: u64) -> Result<Leaf<'r>, Error> {
        let object = Object::from_bits(bits);
        let offset = object.offset();
        let header: &LeafHeader = region.get(offset)?;
        let shape = header.shape.load();
        let size = u64::from(shape as u32);
        let fits = (LEAF_SIZE_MIN..=object.size()).contains(&size);
        if shape >> 32 != u64::from(LEAF_MAGIC) || !fits {
            return Err(Error::Damaged { offset, what: "a leaf" });
        }
        let words = capacity(size) * ELEMENT_WORDS;
        let elements = region.words(offset + 8 * HEADER_WORDS as u64, words)?;
        Ok(Leaf { object, header, elements })
    }

    pub(super) fn size(&self) -> u64 {
        u64::from(self.header.shape.load() as u32)
    }

    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.elements.len() / ELEMENT_WORDS
    }

    /// `nElement`.
    #[inline]
    pub(super) fn count(&self) -> usize {
        (self.header.count.load() as usize).min(self.capacity())
    }

    #[inline]
    fn element(&self, at: usize) -> Element {
        let words = &self.elements[at * ELEMENT_WORDS..][..ELEMENT_WORDS];
        (words[0].load(), words[1].load(), words[2].load())
    }

    /// The value of a key: its newest element decides.
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<u64> {
        let elements = self.elements[..self.count() * ELEMENT_WORDS].rchunks_exact(ELEMENT_WORDS);
        for element in elements {
            if element[1].load() == key {
                return (element[0].load() == POSITIVE).then(|| element[2].load());
            }
        }
        None
    }

    /// Appends elements and then makes them visible by one store (algorithm 2, lines 7 to 10). Two
    /// FLUSHes, whatever the number of elements; durable when it returns.
    #[inline]
    pub(super) fn append(&self, region: &Region, added: &[Element]) {
        let count = self.count();
        let places = self.elements[count * ELEMENT_WORDS..].chunks_exact(ELEMENT_WORDS);
        for (place, &(flag, key, value)) in places.zip(added) {
            region.store(&place[0], flag);
            region.store(&place[1], key);
            region.store(&place[2], value);
        }
        let offset = self.object.offset() + LINE + count as u64 * ELEMENT_SIZE;
        // ORDER: the elements are durable before the count that shows them.
        region.flush("nvtree_paper.append.element", offset, added.len() as u64 * ELEMENT_SIZE);
        // ORDER: as above.
        region.fence("nvtree_paper.append.element_fence");
        // ORDER: after the elements; of an update both at once, or a crash between them would lose
        // the key.
        region.commit(
            "nvtree_paper.append.count",
            &self.header.count,
            (count + added.len()) as u64,
        );
        // ORDER: durable before the operation returns.
        region.flush("nvtree_paper.append.count_flush", self.object.offset(), 8);
        // ORDER: as above.
        region.fence("nvtree_paper.append.count_fence");
    }

    /// The valid elements in key order: of each key the newest, unless that is NEGATIVE.
    pub(super) fn valid(&self) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, usize)> =
            (0..self.count()).map(|at| (self.element(at).1, at)).collect();
        found.sort_unstable();
        let newest = |at: &usize| found.get(at + 1).is_none_or(|next| next.0 != found[*at].0);
        let elements = (0..found.len()).filter(newest).map(|at| self.element(found[at].1));
        let valid = elements.filter(|&(flag, _, _)| flag == POSITIVE);
        valid.map(|(_, key, value)| (key, value)).collect()
    }

    /// The greatest key of any element, valid or not.
    pub(super) fn key_max(&self) -> Option<u64> {
        (0..self.count()).map(|at| self.element(at).1).max()
    }
}

/// Writes a leaf that is not linked yet; durable after the caller's next fence.
pub(super) fn write(
    pool: &Pool,
    size: u64,
    next: u64,
    entries: &[(u64, u64)],
) -> Result<Object, Error> {
    let object = pool.alloc(size)?;
    let mut words = vec![0; HEADER_WORDS];
    (words[0], words[1], words[2]) = (entries.len() as u64, next, shape(size));
    words.extend(entries.iter().flat_map(|&(key, value)| [POSITIVE, key, value]));
    let written = pool.region().write("nvtree_paper.leaf", object.offset(), &[words.as_bytes()]);
    if let Err(error) = written {
        pool.free(object);
        return Err(error.into());
    }
    Ok(object)
}

/// A change of one key, as what it appends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// A key that is not there.
    Insert(u64),
    /// A key that is there with the first value.
    Update(u64, u64),
    /// A key that is there with that value.
    Remove(u64),
}

impl Change {
    /// Elements that it appends.
    #[inline]
    pub(super) fn len(self) -> usize {
        if matches!(self, Change::Update(..)) { 2 } else { 1 }
    }

    #[inline]
    pub(super) fn append_to(self, leaf: &Leaf<'_>, region: &Region, key: u64) {
        match self {
            Change::Insert(value) => leaf.append(region, &[(POSITIVE, key, value)]),
            Change::Update(old, value) => {
                leaf.append(region, &[(NEGATIVE, key, old), (POSITIVE, key, value)]);
            }
            Change::Remove(old) => leaf.append(region, &[(NEGATIVE, key, old)]),
        }
    }

    /// Changes valid elements in key order, which are about to be copied.
    pub(super) fn apply_to(self, entries: &mut Vec<(u64, u64)>, key: u64) {
        let place = entries.binary_search_by_key(&key, |entry| entry.0);
        match (self, place) {
            (Change::Remove(_), Ok(at)) => drop(entries.remove(at)),
            (Change::Remove(_), Err(_)) => {}
            (Change::Insert(value) | Change::Update(_, value), Ok(at)) => entries[at].1 = value,
            (Change::Insert(value) | Change::Update(_, value), Err(at)) => {
                entries.insert(at, (key, value));
            }
        }
    }
}
