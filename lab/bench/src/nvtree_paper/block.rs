//! Inner nodes (IN) and parents of leaves (PLN): one contiguous block of cache-line-aligned nodes
//! without pointers between them (sections 4.1, 4.2 and 5.5).
//!
//! A node has `W` words, `m = W / 2 - 1`. The first holds the number of keys. An IN has up to `2m`
//! keys, and its children are nodes `id * (2m + 1) + 1 + position`. A PLN has up to `m` keys and one
//! more leaf. A key is the greatest that belongs to the child before it, and the last child has none.
//!
//! An enlarged PLN takes the ids of several children, its *units*, beginning with its own. To its
//! parent all of them end at the same key, so a search always comes to the first; the arithmetic
//! stays as it is. Its keys and leaves then fill the words of all its units.
//!
//! Nothing here is flushed: a crash loses the block. Keys of PLNs change, those of INs never.

use tembo_pmem::{Region, Word};
use tembo_pool::{Object, Pool};

use crate::Error;

/// How many nodes there are, and where which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Words in a node.
    pub(super) words: usize,
    /// Ids of PLNs.
    pub(super) units: u64,
    /// Levels of INs.
    height: u32,
    /// The id of the first PLN.
    pub(super) first: u64,
}

impl Shape {
    pub(super) fn new(node_size: u64, units: u64) -> Shape {
        let words = (node_size / 8) as usize;
        let (mut height, mut first, mut reach) = (0, 0, 1_u64);
        while reach < units {
            (height, first) = (height + 1, first + reach);
            reach = reach.saturating_mul(words as u64 - 1);
        }
        Shape { words, units, height, first }
    }

    /// `2m + 1`.
    pub(super) fn fan_out(&self) -> u64 {
        self.words as u64 - 1
    }

    /// Leaves that a PLN of one unit has room for: `m + 1`.
    pub(super) fn leaves_per_unit(&self) -> usize {
        self.words / 2
    }

    pub(super) fn node_size(&self) -> u64 {
        8 * self.words as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.first.saturating_add(self.units).saturating_mul(self.node_size())
    }
}

/// A slot of a PLN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The PLN's id.
    pub(super) pln: u64,
    pub(super) slot: usize,
    /// The leaf in the slot.
    pub(super) leaf: u64,
}

/// A place, and which keys belong to it: those above `low`, up to `high`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located {
    pub(super) place: Place,
    pub(super) low: Option<u64>,
    pub(super) high: u64,
}

/// The words of a PLN.
#[derive(Clone, Copy)]
pub(super) struct Pln<'r> {
    words: &'r [Word],
    pub(super) units: u64,
    /// Keys in it; one leaf more.
    pub(super) count: usize,
}

impl<'r> Pln<'r> {
    pub(super) fn keys(&self) -> &'r [Word] {
        &self.words[1..=self.count]
    }

    pub(super) fn leaves(&self) -> &'r [Word] {
        &self.words[self.words.len() / 2..][..=self.count]
    }

    pub(super) fn is_full(&self) -> bool {
        self.count + 1 == self.words.len() / 2
    }

    /// All places for keys, and for leaves.
    fn parts(&self) -> (&'r [Word], &'r [Word]) {
        let (keys, leaves) = self.words.split_at(self.words.len() / 2);
        (&keys[1..], leaves)
    }

    fn set_count(&self, region: &Region, count: usize) {
        region.store(&self.words[0], self.units << 32 | count as u64);
    }
}

/// The block of a tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) object: Object,
    pub(super) shape: Shape,
}

impl Block {
    pub(super) fn new(pool: &Pool, shape: Shape) -> Result<Block, Error> {
        Ok(Block { object: pool.alloc(shape.bytes())?, shape })
    }

    #[inline]
    pub(super) fn offset(&self, id: u64) -> u64 {
        self.object.offset() + id * self.shape.node_size()
    }

    /// The keys of an IN.
    #[inline]
    fn keys<'r>(&self, region: &'r Region, id: u64) -> Result<&'r [Word], Error> {
        let words = region.words(self.offset(id), self.shape.words)?;
        let count = (words[0].load() as usize).min(self.shape.words - 2);
        Ok(&words[1..=count])
    }

    #[inline]
    pub(super) fn pln<'r>(&self, region: &'r Region, id: u64) -> Result<Pln<'r>, Error> {
        let offset = self.offset(id);
        let head = region.words(offset, 1)?[0].load();
        let units = (head >> 32).clamp(1, self.shape.units);
        let words = region.words(offset, units as usize * self.shape.words)?;
        let count = (head as u32 as usize).min(words.len() / 2 - 1);
        Ok(Pln { words, units, count })
    }

    /// The place of a key (algorithm 1).
    #[inline]
    pub(super) fn find(&self, region: &Region, key: u64) -> Result<Place, Error> {
        let mut id = 0;
        for _ in 0..self.shape.height {
            id = id * self.shape.fan_out() + 1 + position(self.keys(region, id)?, key) as u64;
        }
        let pln = self.pln(region, id)?;
        let slot = position(pln.keys(), key);
        Ok(Place { pln: id, slot, leaf: pln.leaves()[slot].load() })
    }

    /// As `find`, with the keys that belong there.
    pub(super) fn locate(&self, region: &Region, key: u64) -> Result<Located, Error> {
        let (mut id, mut low, mut high) = (0, None, u64::MAX);
        let mut narrow = |keys: &[Word]| {
            let at = position(keys, key);
            low = at.checked_sub(1).map_or(low, |before| Some(keys[before].load()));
            high = keys.get(at).map_or(high, Word::load);
            at
        };
        for _ in 0..self.shape.height {
            id = id * self.shape.fan_out() + 1 + narrow(self.keys(region, id)?) as u64;
        }
        let pln = self.pln(region, id)?;
        let slot = narrow(pln.keys());
        let leaf = pln.leaves()[slot].load();
        Ok(Located { place: Place { pln: id, slot, leaf }, low, high })
    }

    /// The slots of one leaf, in key order, among them the one of `key`: more than one after a merge
    /// across parents.
    pub(super) fn run(&self, region: &Region, key: u64) -> Result<Vec<Located>, Error> {
        let own = self.locate(region, key)?;
        let mut run = vec![own];
        let same = |located: &Located| located.place.leaf == own.place.leaf;
        while let Some(low) = run[0].low {
            let before = self.locate(region, low)?;
            if !same(&before) {
                break;
            }
            run.insert(0, before);
        }
        while let Some(after) = self.after(region, run[run.len() - 1])? {
            if !same(&after) {
                break;
            }
            run.push(after);
        }
        Ok(run)
    }

    /// The slot behind another.
    pub(super) fn after(
        &self,
        region: &Region,
        located: Located,
    ) -> Result<Option<Located>, Error> {
        let key = located.high.checked_add(1);
        key.map(|key| self.locate(region, key)).transpose()
    }

    pub(super) fn set_leaf(&self, region: &Region, place: Place, leaf: u64) -> Result<(), Error> {
        region.store(&self.pln(region, place.pln)?.leaves()[place.slot], leaf);
        Ok(())
    }

    /// The slot's keys up to `key` go to `left`, the others to `right`. The PLN has room.
    pub(super) fn split_slot(
        &self,
        region: &Region,
        place: Place,
        key: u64,
        (left, right): (u64, u64),
    ) -> Result<(), Error> {
        let pln = self.pln(region, place.pln)?;
        let (keys, leaves) = pln.parts();
        shift_up(region, &keys[place.slot..=pln.count], key);
        shift_up(region, &leaves[place.slot..=pln.count + 1], left);
        region.store(&leaves[place.slot + 1], right);
        pln.set_count(region, pln.count + 1);
        Ok(())
    }

    /// Makes one slot of a slot and the next, which have the same leaf.
    pub(super) fn join_slot(&self, region: &Region, place: Place) -> Result<(), Error> {
        let pln = self.pln(region, place.pln)?;
        shift_down(region, &pln.keys()[place.slot..]);
        shift_down(region, &pln.leaves()[place.slot..]);
        pln.set_count(region, pln.count - 1);
        Ok(())
    }

    /// The greatest key that can lead to a node.
    pub(super) fn high_of(&self, region: &Region, id: u64) -> Result<u64, Error> {
        let mut id = id;
        while id > 0 {
            let (parent, at) = ((id - 1) / self.shape.fan_out(), (id - 1) % self.shape.fan_out());
            if let Some(key) = self.keys(region, parent)?.get(at as usize) {
                return Ok(key.load());
            }
            id = parent;
        }
        Ok(u64::MAX)
    }

    /// Fills the INs, given the greatest key of each unit; the last is never asked for.
    pub(super) fn fill_inner(&self, region: &Region, highs: Vec<u64>) -> Result<(), Error> {
        let (mut highs, fan_out) = (highs, self.shape.fan_out());
        let mut first = self.shape.first;
        for _ in 0..self.shape.height {
            first = (first - 1) / fan_out;
            let mut upper = Vec::new();
            for (id, children) in (first..).zip(highs.chunks(fan_out as usize)) {
                let words = region.words(self.offset(id), self.shape.words)?;
                let (last, keys) = children.split_last().unwrap_or((&u64::MAX, &[]));
                region.store(&words[0], keys.len() as u64);
                for (word, &key) in words[1..].iter().zip(keys) {
                    region.store(word, key);
                }
                upper.push(*last);
            }
            highs = upper;
        }
        Ok(())
    }

    /// Writes a PLN with one leaf.
    pub(super) fn fill_pln(
        &self,
        region: &Region,
        id: u64,
        units: u64,
        leaf: u64,
    ) -> Result<(), Error> {
        let words = region.words(self.offset(id), units as usize * self.shape.words)?;
        region.store(&words[0], units << 32);
        region.store(&words[words.len() / 2], leaf);
        Ok(())
    }

    /// Bytes, of each level of INs and of the PLNs, that are in use: where, and how many.
    pub(super) fn used(&self) -> Vec<(u64, u64)> {
        let (mut first, mut nodes) = (self.shape.first, self.shape.units);
        let mut used = vec![(self.offset(first), nodes * self.shape.node_size())];
        for _ in 0..self.shape.height {
            first = (first - 1) / self.shape.fan_out();
            nodes = nodes.div_ceil(self.shape.fan_out());
            used.push((self.offset(first), nodes * self.shape.node_size()));
        }
        used
    }
}

/// The first key that is no smaller.
#[inline]
fn position(keys: &[Word], key: u64) -> usize {
    keys.partition_point(|word| word.load() < key)
}

/// Moves words up by one place, from the end, and puts `value` into the first; the last is overwritten.
fn shift_up(region: &Region, words: &[Word], value: u64) {
    for at in (1..words.len()).rev() {
        region.store(&words[at], words[at - 1].load());
    }
    region.store(&words[0], value);
}

/// Moves words down by one place: the first is overwritten.
fn shift_down(region: &Region, words: &[Word]) {
    for pair in words.windows(2) {
        region.store(&pair[0], pair[1].load());
    }
}
