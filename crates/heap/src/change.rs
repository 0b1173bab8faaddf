//! A change of words that is not made yet: what a transaction, or a step of destruction, would store.

use std::collections::HashMap;
use std::hash::BuildHasher;

use rustc_hash::FxHashMap;
use tembo_pool::Object;

use crate::Error;
use crate::arena::Arena;
use crate::keyed::Keyed;

/// A larger map is not kept: emptying it takes as long as it is large.
pub(crate) const KEPT_MAX: usize = 1 << 10;

/// Words of objects by their offset, and objects that nothing on media refers to yet.
#[derive(Default)]
pub(crate) struct Change {
    words: Keyed<u64>,
    /// Has all objects of which there are words.
    stored: Filter,
    fresh: Keyed<Vec<u64>>,
    /// Objects as newer versions of their types, where nothing can be stored. They may be larger than on media.
    shown: FxHashMap<u64, Vec<u64>>,
    /// Has all that are fresh or shown.
    whole: Filter,
    /// What words were, while that is [noted](Change::begin_trial).
    trial: Option<Vec<Before>>,
    pub(crate) buffers: Buffers,
}

/// What an operation of the pool's log is given: kept, because allocations would cost more than most operations.
#[derive(Default)]
pub(crate) struct Buffers {
    /// Words, each behind its offset, in the order of these.
    pub(crate) words: Vec<[u64; 2]>,
    /// The content of an object.
    pub(crate) bytes: Vec<u8>,
    /// What an entry says of the contents of objects.
    pub(crate) contents: Vec<[u64; 3]>,
}

/// What a word was: of a fresh object, or among those that are to be stored.
struct Before {
    bits: u64,
    index: usize,
    word: Option<u64>,
}

impl Change {
    /// A word as it would be.
    pub(crate) fn get(&self, arena: &Arena, bits: u64, index: usize) -> Result<u64, Error> {
        match self.known(bits, index)? {
            Some(word) => Ok(word),
            None => arena.word(bits, index),
        }
    }

    /// The same of an object of which the type was looked at before.
    #[inline]
    pub(crate) fn get_inside(&self, arena: &Arena, bits: u64, index: usize) -> Result<u64, Error> {
        match self.known(bits, index)? {
            Some(word) => Ok(word),
            None => Ok(arena.words_inside(bits, index, 1)?[0].load()),
        }
    }

    /// A word that the change knows.
    #[inline]
    fn known(&self, bits: u64, index: usize) -> Result<Option<u64>, Error> {
        let place = Filter::place(bits);
        if self.whole.has(place)
            && let Some(words) = self.fresh.get(bits).or_else(|| self.shown.get(&bits))
        {
            let outside = || Error::Damaged { what: "a field", offset: 8 * index as u64 };
            return words.get(index).copied().ok_or_else(outside).map(Some);
        }
        Ok(if self.stored.has(place) { self.words.get(at(bits, index)).copied() } else { None })
    }

    #[inline]
    fn all_of(&self, bits: u64) -> Option<&Vec<u64>> {
        if !self.whole.may_have(bits) {
            return None;
        }
        self.fresh.get(bits).or_else(|| self.shown.get(&bits))
    }

    #[inline]
    fn word(&self, bits: u64, index: usize) -> Option<u64> {
        if !self.stored.may_have(bits) {
            return None;
        }
        self.words.get(at(bits, index)).copied()
    }

    /// Words as they would be, one after another, behind what `to` has. The type of the object was looked at before.
    pub(crate) fn read(
        &self,
        arena: &Arena,
        bits: u64,
        first: usize,
        count: usize,
        to: &mut Vec<u64>,
    ) -> Result<(), Error> {
        if count == 1 {
            to.push(self.get_inside(arena, bits, first)?);
            return Ok(());
        }
        if let Some(words) = self.all_of(bits) {
            let outside = || Error::Damaged { what: "a field", offset: 8 * first as u64 };
            let words = words.get(first..).and_then(|words| words.get(..count));
            to.extend(words.ok_or_else(outside)?);
            return Ok(());
        }
        let words = arena.words_inside(bits, first, count)?;
        if self.stored.may_have(bits) {
            let of = |(index, word): (usize, &tembo_pmem::Word)| {
                self.word(bits, first + index).unwrap_or_else(|| word.load())
            };
            to.extend(words.iter().enumerate().map(of));
        } else {
            to.extend(words.iter().map(|word| word.load()));
        }
        Ok(())
    }

    /// Has a word stored. Of an object that is no new one the caller has checked that the word is in it.
    pub(crate) fn set(&mut self, bits: u64, index: usize, word: u64) {
        let is_whole = self.whole.may_have(bits);
        let whole =
            is_whole.then(|| self.fresh.get_mut(bits).or_else(|| self.shown.get_mut(&bits)));
        let before = match whole.flatten() {
            Some(words) => {
                let Some(place) = words.get_mut(index) else { return };
                Some(std::mem::replace(place, word))
            }
            None => {
                self.stored.add(bits);
                self.words.insert(at(bits, index), word)
            }
        };
        if let Some(trial) = &mut self.trial {
            trial.push(Before { bits, index, word: before });
        }
    }

    /// From here on it is noted what words were, so that they can be so again.
    pub(crate) fn begin_trial(&mut self) {
        self.trial = Some(Vec::new());
    }

    /// The words that were set since then stay, or are as they were.
    pub(crate) fn end_trial(&mut self, stay: bool) {
        let before = self.trial.take().unwrap_or_default();
        if stay {
            return;
        }
        for Before { bits, index, word } in before.into_iter().rev() {
            match word {
                Some(word) => self.set(bits, index, word),
                None => drop(self.words.remove(at(bits, index))),
            }
        }
    }

    /// A new object of these words.
    pub(crate) fn make(&mut self, bits: u64, words: Vec<u64>) {
        self.whole.add(bits);
        self.fresh.insert(bits, words);
    }

    /// A word of the object may be another than on media, or mean something else.
    #[inline]
    pub(crate) fn has_touched(&self, bits: u64) -> bool {
        let place = Filter::place(bits);
        self.whole.has(place) || self.stored.has(place)
    }

    /// The object is to be looked at closely.
    pub(crate) fn touch(&mut self, bits: u64) {
        self.stored.add(bits);
    }

    /// An object is read as these words, which are never stored.
    pub(crate) fn show(&mut self, bits: u64, words: Vec<u64>) {
        self.whole.add(bits);
        self.shown.insert(bits, words);
    }

    /// A new object is not needed.
    pub(crate) fn unmake(&mut self, bits: u64) {
        self.fresh.remove(bits);
    }

    #[inline]
    pub(crate) fn is_fresh(&self, bits: u64) -> bool {
        self.whole.may_have(bits) && self.fresh.contains(bits)
    }

    /// The new objects.
    pub(crate) fn fresh(&self) -> impl Iterator<Item = (u64, &[u64])> {
        self.fresh.iter().map(|(bits, words)| (bits, words.as_slice()))
    }

    /// The words of an object need not be stored: it is freed.
    pub(crate) fn forget(&mut self, bits: u64) {
        let object = Object::from_bits(bits);
        let inside = object.offset()..object.offset() + object.size();
        if object.size() / 8 < self.words.len() as u64 {
            inside.step_by(8).for_each(|offset| {
                self.words.remove(offset);
            });
        } else {
            self.words.retain(|offset| !inside.contains(&offset));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.fresh.is_empty()
    }

    /// How many words are to be stored.
    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// The words that are to be stored, each behind its offset, in the order of these; without those that are there already.
    pub(crate) fn sorted(&self, is_there: impl Fn(u64, u64) -> bool, to: &mut Vec<[u64; 2]>) {
        to.clear();
        let words = self.words.iter().map(|(at, word)| [at, *word]);
        to.extend(words.filter(|[at, word]| !is_there(*at, *word)));
        to.sort_unstable();
    }

    /// No change.
    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.fresh.clear();
        empty(&mut self.shown);
        (self.stored, self.whole, self.trial) = Default::default();
        let Buffers { words, bytes, contents } = &mut self.buffers;
        words.clear();
        bytes.clear();
        contents.clear();
        words.shrink_to(KEPT_MAX);
        bytes.shrink_to(8 * KEPT_MAX);
        contents.shrink_to(KEPT_MAX);
    }
}

/// Says of most objects that were not added that they were not.
#[derive(Default)]
struct Filter([u64; 4]);

impl Filter {
    #[inline]
    fn place(bits: u64) -> (usize, u64) {
        // By its offset, as words are kept: damaged bits may name an object, too.
        let hash = Object::from_bits(bits).offset().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
        ((hash / 64) as usize % 4, 1 << (hash % 64))
    }

    #[inline]
    fn add(&mut self, bits: u64) {
        let (word, bit) = Filter::place(bits);
        self.0[word] |= bit;
    }

    #[inline]
    fn may_have(&self, bits: u64) -> bool {
        self.has(Filter::place(bits))
    }

    #[inline]
    fn has(&self, (word, bit): (usize, u64)) -> bool {
        self.0[word] & bit != 0
    }
}

/// Empties a map, of which the room is kept.
pub(crate) fn empty<K, V, S: BuildHasher + Default>(map: &mut HashMap<K, V, S>) {
    if map.capacity() > KEPT_MAX {
        *map = HashMap::default();
    } else {
        map.clear();
    }
}

fn at(bits: u64, index: usize) -> u64 {
    Object::from_bits(bits).offset() + 8 * index as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_that_does_not_stay_leaves_all_words_as_they_were() {
        let mut change = Change::default();
        change.make(1 << 41, vec![0, 0, 5]);
        change.set(3 << 41 | 9, 0, 1);
        let sorted = |change: &Change| {
            let mut words = Vec::new();
            change.sorted(|_, _| false, &mut words);
            words
        };
        let before = sorted(&change);
        for stay in [false, true] {
            change.begin_trial();
            change.set(3 << 41 | 9, 0, 2);
            change.set(3 << 41 | 9, 1, 3);
            change.set(3 << 41 | 9, 1, 4);
            change.set(1 << 41, 2, 6);
            change.set(1 << 41, 2, 7);
            change.end_trial(stay);
            let is_changed =
                (sorted(&change) != before, change.fresh.get(1 << 41).unwrap()[2] == 7);
            assert_eq!(is_changed, (stay, stay));
        }
    }
}
